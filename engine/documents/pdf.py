"""PDF with a text layer: headings from the outline and from font sizes, tables as tables, page furniture removed."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine.documents import clauses
from engine.documents.base import Block, Parsed
from engine.documents.decode import clean, clean_value, non_blank
from engine.documents.limits import check_paragraphs
from engine.documents.names import shown
from engine.documents.patterns import Hint, assign, split_number
from engine.documents.pdf_layout import Joiner, Line, Paragraph, Table, Word, in_reading_order, normalised, paragraphs
from engine.documents.tree import build
from engine.errors import BadDocument
from engine.models import NodeKind, Notice
from engine.settings import Settings

MIN_CHARACTERS = 20
"""Characters per page below which a PDF with pictures counts as scanned."""
HEADING_SIZE = 1.15
"""Font size of a heading as a share of the body's, at least."""
WORD_GAP = 0.15
"""Gap between two letters, as a share of the font size, from which they are two words."""
FURNITURE_SHARE = 0.4
"""Share of pages on which a line at the edge must stand to be a header or footer (odd and even pages may differ)."""
FURNITURE_LINES = 3
"""Lines at the top and at the bottom of a page that may be headers or footers."""
FURNITURE_ZONE = 0.15
"""Share of the page's height, from the top and from the bottom, in which they stand."""
MAX_RULES = 3000
"""Lines and boxes on a page above which it is a drawing and is not searched for tables."""
_END_ZONE = 64 * 1024
_LONG_HEADING = 200
_EDGE_NUMBER = re.compile(r"^\W*(\d{1,4})\b|\b(\d{1,4})\W*$")
_PAGE_WORDS = frozenset(
    [
        "page",
        "pageof",
        "seite",
        "seitevon",
        "página",
        "páginade",
        "pagina",
        "paginadi",
        "p",
        "s",
        "стр",
        "стриз",
        "第页",
        "第頁",
    ]
)
_UNMAPPED = re.compile(r"\(cid:\d+\)")


@dataclass(slots=True)
class _Pages:
    """What the pages hold, in reading order."""

    items: list[list[Line | Table]] = field(default_factory=list)
    heights: list[float] = field(default_factory=list)
    characters: int = 0
    pictures: int = 0
    failed: list[int] = field(default_factory=list)


class _Entry(NamedTuple):
    """One entry of the outline."""

    title: str
    level: int
    page: int


class PdfReader:
    """PDF files whose text can be selected. Scanned pages are refused: text recognition is another tool's work."""

    media_type = "application/pdf"
    version = "pdf-1"

    def read(self, data: bytes, name: str, settings: Settings) -> Parsed:
        """Raises BadDocument for encrypted, damaged and scanned files and for too many paragraphs."""
        if b"%%EOF" not in data[-_END_ZONE:]:
            raise _damaged(name)
        metadata, outline = _catalogue(data, name)
        pages = _pages(data, name)
        if pages.characters == 0 or (
            pages.pictures and pages.characters < MIN_CHARACTERS * max(1, len(pages.items) - len(pages.failed))
        ):
            raise BadDocument(
                f"{shown(name)} has no text layer: its pages are pictures. Nothing was stored. "
                "Run text recognition (OCR) on it and upload the result."
            )
        notices = [
            Notice(kind="page", message=f"Page {page} could not be read; its text is missing.") for page in pages.failed
        ]
        furniture = _remove_furniture(pages)
        flow = [item for page in pages.items for item in page]
        tables_joined = _join_tables(flow)
        joiner = Joiner(item for item in flow if isinstance(item, Line))
        grouped = paragraphs(flow)
        check_paragraphs(len(grouped), name, settings)
        blocks, hints = _blocks(grouped, outline, joiner)
        assigned = assign(blocks, hints)
        built = build(assigned.blocks)
        notices += _notices(furniture, joiner.mended, tables_joined, built.text)
        lost = sum(non_blank(line.text) for line in furniture) + joiner.mended + tables_joined
        metadata["pages"] = len(pages.items)
        heads = {_without_numbers(line): line.text for line in reversed(furniture)}
        if texts := [text for words, text in heads.items() if words]:
            metadata["headers"] = list(reversed(texts))[:10]
        return Parsed(
            text=built.text,
            tree=built.tree,
            structure=assigned.structure,
            visible_characters=pages.characters,
            kept_characters=max(0, pages.characters - lost),
            warnings=tuple(notices),
            metadata=metadata,
        )


READER = PdfReader()


def _damaged(name: str) -> BadDocument:
    return BadDocument(
        f"{shown(name)} is damaged (not a complete PDF). Nothing was stored. Get a whole copy of the file and upload that."
    )


def _locked(name: str) -> BadDocument:
    return BadDocument(
        f"{shown(name)} is password-protected. Nothing was stored. Remove the password and upload it again."
    )


def _catalogue(data: bytes, name: str) -> tuple[dict[str, Any], list[_Entry]]:
    """Metadata and outline. Raises BadDocument for a file that needs a password; what else cannot be read is left empty."""
    import pypdf

    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        locked = reader.is_encrypted and not reader.decrypt("")
    except MemoryError:
        raise
    except Exception:
        # pypdf lets many kinds of error through on broken files; the text itself is read by pdfplumber.
        return {}, []
    if locked:
        raise _locked(name)
    metadata: dict[str, Any] = {}
    outline: list[_Entry] = []
    try:
        described: dict[str, Any] = dict(reader.metadata or {})
        for key, source in (("title", "/Title"), ("author", "/Author"), ("date", "/CreationDate")):
            value = described.get(source)
            if value is not None and clean_value(value):
                metadata[key] = _date(clean_value(value)) if key == "date" else clean_value(value)
        _add_entries(reader, reader.outline, 1, outline)
    except MemoryError:
        raise
    except Exception:
        return metadata, outline
    return metadata, outline


def _date(value: str) -> str:
    """`D:20260131...` as 2026-01-31; other forms as they are."""
    match = re.match(r"(?:D:)?(\d{4})(\d{2})?(\d{2})?", value)
    return "-".join(part for part in match.groups() if part) if match else value


def _add_entries(reader: Any, entries: Sequence[Any], level: int, found: list[_Entry]) -> None:
    for entry in entries:
        if isinstance(entry, list):
            if level < 20:
                _add_entries(reader, entry, level + 1, found)
        elif len(found) < 20_000:
            page = reader.get_destination_page_number(entry)
            if page is not None and page >= 0:
                found.append(_Entry(normalised(str(entry.title)), level, page + 1))


def _pages(data: bytes, name: str) -> _Pages:
    import pdfplumber

    found = _Pages()
    try:
        pdf = pdfplumber.open(io.BytesIO(data))
        pages = pdf.pages
    except MemoryError:
        raise
    except Exception as error:
        # pdfminer raises almost any error on broken files.
        causes = f"{type(error).__name__} {type(error.__cause__).__name__} {error!r}"
        raise (_locked(name) if "Password" in causes else _damaged(name)) from None
    with pdf:
        for number, page in enumerate(pages, start=1):
            items: list[Line | Table] = []
            height = 0.0
            try:
                height = float(page.height)
                items = _page_items(page, number, found)
            except MemoryError:
                raise
            except Exception:
                found.failed.append(number)
            found.items.append(items)
            found.heights.append(height)
            page.close()
    if not pages or len(found.failed) == len(pages):
        raise _damaged(name)
    return found


def _page_items(page: Any, number: int, found: _Pages) -> list[Line | Table]:
    width = float(page.width)
    printed = {(char["text"], round(char["x0"]), round(char["top"])) for char in page.chars}
    # The same letter twice at one place is a printer's way to bold.
    source = page.dedupe_chars() if len(printed) < 0.9 * len(page.chars) else page
    characters = sum(non_blank(char["text"]) for char in source.chars)
    words = []
    for word in source.extract_words(extra_attrs=["fontname", "size"], x_tolerance_ratio=WORD_GAP):
        word["text"] = clean(word["text"]).text
        if word["text"].strip():
            words.append(word)
    tables: list[Table] = []
    if 4 <= len(page.rects) + len(page.lines) + len(page.curves) <= MAX_RULES:
        for ruled in source.find_tables():
            taken = _ruled_table(ruled, words, number)
            if taken is not None:
                tables.append(taken.table)
                words = taken.others
    lines: list[Line | Table] = list(in_reading_order(words, width, number)) if words else []
    found.characters += characters
    found.pictures += len(page.images)
    return _with_tables(lines, tables)


class _Taken(NamedTuple):
    table: Table
    others: list[Word]
    """The words of the page that do not stand in the table."""


def _ruled_table(ruled: Any, words: Sequence[Word], number: int) -> _Taken | None:
    """The table with the words in its cells; None when it has one row or column, or a word inside stands in no cell."""
    inside = [word for word in words if _within(word, ruled.bbox)]
    left = {id(word) for word in inside}
    rows: list[list[str | None]] = []
    for row in ruled.rows:
        cells: list[str | None] = []
        for box in row.cells:
            if box is None:
                cells.append(None)
                continue
            own = [word for word in inside if id(word) in left and _within(word, box)]
            left -= {id(word) for word in own}
            # Distances inside a cell count from its own edge, for text written from right to left.
            lines = in_reading_order(own, box[0] + box[2], number)
            cells.append(" ".join(line.text for line in lines))
        rows.append(cells)
    if left or not inside or len(rows) < 2 or max(map(len, rows)) < 2:
        return None
    taken = {id(word) for word in inside}
    x0, top, _, bottom = ruled.bbox
    return _Taken(Table(_filled(rows), number, top, bottom, x0), [word for word in words if id(word) not in taken])


def _within(word: Word, box: tuple[float, float, float, float]) -> bool:
    """Whether the middle of a word is in a box."""
    x, y = (word["x0"] + word["x1"]) / 2, (word["top"] + word["bottom"]) / 2
    return bool(box[0] <= x <= box[2] and box[1] <= y <= box[3])


def _with_tables(lines: list[Line | Table], tables: list[Table]) -> list[Line | Table]:
    """Each table before the first line that stands below its top."""
    items = list(lines)
    for table in sorted(tables, key=lambda each: each.top):
        place = next(
            (i for i, item in enumerate(items) if item.top >= table.top and item.x0 >= table.x0 - 30), len(items)
        )
        items.insert(place, table)
    return items


def _filled(rows: Sequence[Sequence[str | None]]) -> list[list[str]]:
    """Cells in which a place that a merged cell covers repeats it, so that each row reads alone."""
    filled: list[list[str]] = []
    for row in rows:
        cells: list[str] = []
        for column, cell in enumerate(row):
            if cell is not None:
                cells.append(cell)
            elif column:
                cells.append(cells[-1])
            else:
                cells.append(filled[-1][0] if filled else "")
        filled.append(cells)
    return filled


def _remove_furniture(pages: _Pages) -> list[Line]:
    """Takes repeated lines at the top and bottom edges, and page numbers, out of the pages and returns them."""
    edges = [_edge_lines(items, height) for items, height in zip(pages.items, pages.heights, strict=True)]
    seen = Counter(key for keys in edges for key in keys)
    body = _body_size(item for items in pages.items for item in items if isinstance(item, Line))
    heads: Counter[str] = Counter()
    for keys in edges:
        heads.update({_without_numbers(line) for line in keys.values() if line.size <= 1.05 * body})
    enough = max(3, FURNITURE_SHARE * sum(bool(keys) for keys in edges))
    offset = _number_offset(edges)
    gone: set[int] = set()
    for keys in edges:
        gone |= {id(line) for key, line in keys.items() if seen[key] >= enough}
        if offset is None:
            continue
        for line in keys.values():
            rest = _without_numbers(line)
            # Chapter titles beside the page number are furniture too, once they come again.
            again = line.size <= 1.05 * body and heads[rest] > 1
            if offset in _offsets(line) and (not rest or again):
                gone.add(id(line))
    removed = [item for items in pages.items for item in items if isinstance(item, Line) and id(item) in gone]
    if len(removed) == sum(len(items) for items in pages.items):
        return []
    for items in pages.items:
        items[:] = [item for item in items if id(item) not in gone]
    return removed


def _edge_lines(items: Sequence[Line | Table], height: float) -> dict[str, Line]:
    """The outermost lines of a page by place and text. Digits vary from page to page, heights by a point or two."""
    margin = FURNITURE_ZONE * height
    lines = sorted((item for item in items if isinstance(item, Line)), key=lambda line: line.top)
    found: dict[str, Line] = {}
    for place, group in (("top", lines[:FURNITURE_LINES]), ("bottom", lines[-FURNITURE_LINES:])):
        for line in group:
            if margin < line.top and line.bottom < height - margin:
                continue
            found[f"{place} {round(line.top / 6)} {re.sub(r'[0-9]+', '#', line.text.casefold())}"] = line
    return found


def _number_offset(edges: Sequence[dict[str, Line]]) -> int | None:
    """Printed page number minus count of the page, where half of the pages (two at least) agree on one."""
    offsets = Counter(
        offset for keys in edges for offset in {each for line in keys.values() for each in _offsets(line)}
    )
    if not offsets:
        return None
    offset, count = offsets.most_common(1)[0]
    return offset if count >= max(2, 0.5 * len(edges)) else None


def _offsets(line: Line) -> set[int]:
    numbers = (match[1] or match[2] for match in _EDGE_NUMBER.finditer(line.text))
    return {int(number) - line.page for number in numbers}


def _without_numbers(line: Line) -> str:
    """The letters of a line that may hold a page number: empty for "- 5 -" and "Page 5 of 9"."""
    letters = normalised(re.sub(r"\d+", " ", line.text))
    return "" if letters in _PAGE_WORDS else letters


def _join_tables(flow: list[Line | Table]) -> int:
    """Joins a table that goes on at the top of the next page; returns the characters of header rows printed again."""
    repeated = 0
    index = 1
    while index < len(flow):
        first, second = flow[index - 1], flow[index]
        if (
            isinstance(first, Table)
            and isinstance(second, Table)
            and second.page == first.page + 1
            and len(first.rows[0]) == len(second.rows[0])
        ):
            rows = second.rows
            if rows[0] == first.rows[0]:
                repeated += sum(non_blank(cell) for cell in rows[0])
                rows = rows[1:]
            first.rows.extend(rows)
            del flow[index]
        else:
            index += 1
    return repeated


def _blocks(
    grouped: Sequence[Paragraph | Table], outline: Sequence[_Entry], joiner: Joiner
) -> tuple[list[Block], list[Hint]]:
    texts = [joiner.join(item.lines) if isinstance(item, Paragraph) else "" for item in grouped]
    levels = _outline_levels(grouped, texts, outline)
    rule = "outline"
    if not levels:
        levels, rule = _size_levels(grouped, texts), "size"
    blocks: list[Block] = []
    hints: list[Hint] = []
    for index, (item, text) in enumerate(zip(grouped, texts, strict=True)):
        if isinstance(item, Table):
            rows = tuple(tuple(row) for row in item.rows)
            header = int(all(rows[0]))
            block = Block(
                NodeKind.TABLE, "", rule="ruled table", rows=rows, header_rows=header, attributes={"page": item.page}
            )
            blocks.append(block)
            hints.append(Hint())
            continue
        attributes = {"page": item.lines[0].page}
        if item.lines[-1].page != item.lines[0].page:
            attributes["last_page"] = item.lines[-1].page
        if index in levels:
            section = Block(NodeKind.SECTION, text, level=levels[index], rule=rule, attributes=attributes)
            blocks.append(split_number(section))
        else:
            blocks.append(Block(NodeKind.PARAGRAPH, text, rule="layout", attributes=attributes))
        hints.append(Hint(bold=item.bold, size=item.size, contents=clauses.is_contents_line(text)))
    return blocks, hints


def _outline_levels(
    grouped: Sequence[Paragraph | Table], texts: Sequence[str], outline: Sequence[_Entry]
) -> dict[int, int]:
    """Paragraphs that an outline entry names, by index, with the entry's level."""
    by_page: dict[int, list[int]] = {}
    for index, item in enumerate(grouped):
        if isinstance(item, Paragraph) and len(texts[index]) <= _LONG_HEADING:
            by_page.setdefault(item.lines[0].page, []).append(index)
    levels: dict[int, int] = {}
    for entry in outline:
        for page in (entry.page, entry.page + 1):
            match = next(
                (
                    index
                    for index in by_page.get(page, ())
                    if index not in levels and _names(entry.title, normalised(texts[index]))
                ),
                None,
            )
            if match is not None:
                levels[match] = entry.level
                break
    return levels


def _names(title: str, text: str) -> bool:
    """Whether an outline title is the text, give or take a number in front of one of them."""
    if not title or not text:
        return False
    longer, shorter = (text, title) if len(text) >= len(title) else (title, text)
    return longer == shorter or (longer.endswith(shorter) and len(longer) - len(shorter) <= 12)


def _size_levels(grouped: Sequence[Paragraph | Table], texts: Sequence[str]) -> dict[int, int]:
    """Short paragraphs clearly larger than the body, by index; the largest size is level 1."""
    body = _body_size(line for item in grouped if isinstance(item, Paragraph) for line in item.lines)
    large: dict[int, float] = {}
    for index, item in enumerate(grouped):
        if isinstance(item, Paragraph) and item.size >= HEADING_SIZE * body:
            text = texts[index]
            if len(text) <= _LONG_HEADING and any(map(str.isalpha, text)) and not text.endswith((".", ",", ";")):
                large[index] = item.size
    ranks = {size: rank for rank, size in enumerate(sorted(set(large.values()), reverse=True), start=1)}
    return {index: min(ranks[size], 6) for index, size in large.items()}


def _body_size(lines: Iterable[Line]) -> float:
    """The font size of most characters."""
    weight: Counter[float] = Counter()
    for line in lines:
        weight[line.size] += len(line.text)
    return weight.most_common(1)[0][0] if weight else 0.0


def _notices(furniture: Sequence[Line], mended: int, repeated: int, text: str) -> list[Notice]:
    notices = []
    if furniture:
        message = "Headers, footers and page numbers that repeat were left out of the text."
        notices.append(Notice(kind="furniture", message=message, count=len(furniture)))
    if mended:
        notices.append(Notice(kind="hyphen", message="Words divided at a line end were joined.", count=mended))
    if repeated:
        message = "Characters of table headers that were printed again on the next page were left out."
        notices.append(Notice(kind="table_header", message=message, count=repeated))
    unmapped = len(_UNMAPPED.findall(text))
    if unmapped:
        message = "Letters whose font does not say what they mean stand as (cid:N) in the text."
        notices.append(Notice(kind="unmapped", message=message, count=unmapped))
    return notices
