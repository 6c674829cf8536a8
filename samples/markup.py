"""The light markup in which the sample regulation is written, one paragraph a line.

    %Title                       title line; `%%` a line under it
    # Scope {scope}              chapter (`##` section, `###` article), `{key}` names it for references
    #A Form of report {form}     annex (`##A` part of an annex)
    1. Text                      numbered paragraph
      (a) Text                   point, indented by two
        (i) Text                 subpoint, indented by four
    (1) Text                     item of a definition or recital list
    Table: Caption {fees}        caption of the table that follows
    | a | b |                    row; `^` continues the cell above, `<` the cell on the left; `|=` starts a header row
    Text {scope}(2) text[^n1]    reference to a named heading or table; footnote
    [^n1]: Text                  body of the footnote

Numbers typed in the source are there for the reader of the source: Word counts for itself, and `parse` refuses a
typed number that differs from the count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field


class MarkupError(ValueError):
    """A line of the source that cannot stand as it is."""


@dataclass(frozen=True, slots=True)
class Text:
    """A run of text inside a paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Reference:
    """A cross-reference: `label` is what Word shows for the target, such as "Article 12"."""

    key: str
    label: str


@dataclass(frozen=True, slots=True)
class Footnote:
    number: int
    body: str


Inline = Text | Reference | Footnote


@dataclass(frozen=True, slots=True)
class Line:
    """One paragraph. `style` is a key of `STYLES` in word.py; `label` the number Word will show, `list_id` its list."""

    style: str
    content: tuple[Inline, ...]
    label: str = ""
    key: str | None = None
    list_id: int | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Table:
    """`cells[r][c]` is None where another cell's span covers the place."""

    cells: tuple[tuple[Cell | None, ...], ...]
    header_rows: int


Block = Line | Table

_HEADING = re.compile(r"(#{1,3})(A?) (.+?)(?: \{([\w-]+)\})?")
_CAPTION = re.compile(r"Table: (.+?)(?: \{([\w-]+)\})?")
_NUMBERED = re.compile(r"(\d+)\. (.+)")
_POINT = re.compile(r"  \(([a-z]+)\) (.+)")
_SUBPOINT = re.compile(r"    \(([ivxl]+)\) (.+)")
_ITEM = re.compile(r"\((\d+)\) (.+)")
_NOTE = re.compile(r"\[\^([\w-]+)\]: (.+)")
_INLINE = re.compile(r"\{([\w-]+)\}|\[\^([\w-]+)\]")

_ROMAN = ((100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))


def roman(number: int) -> str:
    digits = ""
    for value, sign in _ROMAN:
        count, number = divmod(number, value)
        digits += sign * count
    return digits


def letter(number: int) -> str:
    """a to z, then aa to zz, as Word counts."""
    return chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)


_BELOW = {
    "chapter": ("section", "paragraph", "point", "subpoint"),
    "section": ("paragraph", "point", "subpoint"),
    "article": ("paragraph", "point", "subpoint"),
    "paragraph": ("point", "subpoint"),
    "point": ("subpoint",),
    "annex": ("part", "annex point"),
    "part": ("annex point",),
}
"""Counters that begin again when a counter moves. Sections and paragraphs restart; articles count through the whole text."""


@dataclass(slots=True)
class _Counters:
    """What Word's own counters will show, kept while reading."""

    values: dict[str, int] = field(default_factory=dict)

    def next(self, level: str) -> int:
        self.values[level] = self.values.get(level, 0) + 1
        for lower in _BELOW.get(level, ()):
            self.values[lower] = 0
        return self.values[level]


_HEADING_LEVELS = {("#", ""): "chapter", ("##", ""): "section", ("###", ""): "article"}
_ANNEX_LEVELS = {("#", "A"): "annex", ("##", "A"): "part"}


def _heading_label(level: str, number: int) -> str:
    match level:
        case "chapter":
            return f"Chapter {roman(number)}"
        case "section":
            return f"Section {number}"
        case "article":
            return f"Article {number}"
        case "annex":
            return f"Annex {roman(number)}"
        case _:
            return f"Part {letter(number).upper()}"


@dataclass(frozen=True, slots=True)
class _Raw:
    style: str
    text: str
    label: str = ""
    key: str | None = None
    list_id: int | None = None


def _rows(lines: list[str]) -> Table:
    header_rows = sum(line.startswith("|=") for line in lines)
    grid = [[cell.strip() for cell in line.removeprefix("|=").strip().strip("|").split("|")] for line in lines]
    width = len(grid[0])
    for row, line in zip(grid, lines, strict=True):
        if len(row) != width:
            raise MarkupError(f"row has {len(row)} cells, not {width}: {line}")
    cells: list[list[Cell | None]] = []
    for r, row in enumerate(grid):
        cells.append([])
        for c, text in enumerate(row):
            if text in ("^", "<"):
                cells[-1].append(None)
                continue
            columns = 1
            while c + columns < width and row[c + columns] == "<":
                columns += 1
            rows = 1
            while r + rows < len(grid) and grid[r + rows][c] == "^":
                rows += 1
            cells[-1].append(Cell(text, rows, columns))
    return Table(tuple(map(tuple, cells)), header_rows)


def _raw_blocks(source: str) -> Iterator[_Raw | Table | tuple[str, str]]:
    counters = _Counters()
    table: list[str] = []
    list_id, in_list, in_annex = 0, False, False
    for line in [*source.splitlines(), ""]:
        if table and not line.startswith("|"):
            yield _rows(table)
            table = []
        if not line.strip():
            continue
        if line.startswith("|"):
            table.append(line)
            continue
        item = _ITEM.fullmatch(line)
        if item is None:
            in_list = in_list and line.startswith("  ")
        if note := _NOTE.fullmatch(line):
            yield note[1], note[2]
        elif heading := _HEADING.fullmatch(line):
            in_annex = bool(heading[2])
            level = (_ANNEX_LEVELS if in_annex else _HEADING_LEVELS)[heading[1], heading[2]]
            number = counters.next(level)
            yield _Raw(level, heading[3], _heading_label(level, number), heading[4])
        elif line.startswith("%"):
            yield _Raw("subtitle" if line.startswith("%%") else "title", line.lstrip("%").strip())
        elif caption := _CAPTION.fullmatch(line):
            yield _Raw("caption", caption[1], f"Table {counters.next('table')}", caption[2])
        elif item is not None:
            if not in_list:
                list_id, in_list = list_id + 1, True
                counters.values["item"] = 0
            yield _checked("item", item[1], str(counters.next("item")), item[2], "({})", list_id)
        elif numbered := _NUMBERED.fullmatch(line):
            yield _checked("paragraph", numbered[1], str(counters.next("paragraph")), numbered[2], "{}.")
        elif subpoint := _SUBPOINT.fullmatch(line):
            count = roman(counters.next("subpoint")).lower()
            yield _checked("subpoint", subpoint[1], count, subpoint[2], "({})")
        elif point := _POINT.fullmatch(line):
            style = "annex point" if in_annex else "point"
            yield _checked(style, point[1], letter(counters.next(style)), point[2], "({})")
        elif line.startswith(" "):
            raise MarkupError(f"indented line without a marker: {line}")
        else:
            yield _Raw("text", line)


def _checked(style: str, typed: str, counted: str, text: str, form: str, list_id: int | None = None) -> _Raw:
    if typed != counted:
        raise MarkupError(f"{style} is number {counted} but is typed {typed}: {text[:60]}")
    return _Raw(style, text, form.format(counted), None, list_id)


def parse(source: str) -> list[Block]:
    """Blocks in document order, references and footnotes resolved. Raises MarkupError."""
    raw = list(_raw_blocks(source))
    bodies = dict(block for block in raw if isinstance(block, tuple))
    labels = {block.key: block.label for block in raw if isinstance(block, _Raw) and block.key}
    numbers: dict[str, int] = {}

    def inline(text: str) -> Iterator[Inline]:
        reached = 0
        for match in _INLINE.finditer(text):
            if match.start() > reached:
                yield Text(text[reached : match.start()])
            reached = match.end()
            key, note = match[1], match[2]
            if (key or note) not in (labels if key else bodies):
                raise MarkupError(f"nothing is named {key or note}: {text[:60]}")
            if key:
                yield Reference(key, labels[key])
            else:
                yield Footnote(numbers.setdefault(note, len(numbers) + 1), bodies[note])
        if reached < len(text):
            yield Text(text[reached:])

    blocks: list[Block] = []
    for block in raw:
        if isinstance(block, Table):
            blocks.append(block)
        elif isinstance(block, _Raw):
            content = tuple(inline(block.text))
            blocks.append(Line(block.style, content, block.label, block.key, block.list_id))
    if unused := bodies.keys() - numbers.keys():
        raise MarkupError(f"footnotes that nothing refers to: {sorted(unused)}")
    return blocks
