"""From the words of a PDF page to lines and paragraphs in reading order."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from engine.documents import clauses

_BOLD = re.compile(r"bold|black|heavy|semibold|demi", re.IGNORECASE)
_SENTENCE_END = (".", "!", "?", ";", ":", "。", "；", "：", "！", "？")
_HYPHENS = ("-", "\u2010", "\u00ad")
_RTL = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_LTR_RUN = re.compile(r"[0-9A-Za-z\u0660-\u0669\u06f0-\u06f9](?:[.,/:%-]?[0-9A-Za-z\u0660-\u0669\u06f0-\u06f9])*")
_SHAPED = re.compile(r"[\ufb1d-\ufdff\ufe70-\ufefc]")
MIN_COLUMN_ROWS = 10
"""Rows of a page from which it is searched for columns."""

Word = dict[str, Any]

_CJK = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")


@dataclass(slots=True)
class Line:
    """One line of print. Distances are points from the top and from the edge at which lines begin."""

    text: str
    page: int
    """Pages count from 1."""
    x0: float
    x1: float
    top: float
    bottom: float
    size: float
    """Font size of most of its characters."""
    bold: bool
    column: int = 0
    """0 for lines across the page, 1 and 2 for lines of two columns."""

    @property
    def centre(self) -> float:
        return (self.x0 + self.x1) / 2


@dataclass(slots=True)
class Table:
    """A ruled table, cells as text."""

    rows: list[list[str]]
    page: int
    top: float
    bottom: float
    x0: float = 0.0


@dataclass(slots=True)
class Paragraph:
    """Lines that belong together."""

    lines: list[Line] = field(default_factory=list)

    @property
    def size(self) -> float:
        return self.lines[0].size

    @property
    def bold(self) -> bool:
        return all(line.bold for line in self.lines)


def in_reading_order(words: Sequence[Word], width: float, page: int) -> list[Line]:
    """Words with `text`, `x0`, `x1`, `top`, `bottom`, `size` and `fontname` to lines; every word stands in exactly one.

    Lines across the page come in their order; between them one column comes after the other. On a page written from
    right to left distances are measured from the right edge.
    """
    mirrored = _mostly_rtl(words)
    if mirrored:
        words = [{**word, "x0": width - word["x1"], "x1": width - word["x0"]} for word in words]
    rows = _rows(words)
    gutter = _gutter(rows, width)
    ordered: list[Line] = []
    columns: tuple[list[Line], list[Line]] = ([], [])
    for row in rows:
        if gutter is None or _crosses(row, gutter):
            ordered += [*columns[0], *columns[1], _line(row, page, 0, mirrored)]
            columns = ([], [])
            continue
        for side, part in enumerate(_sides(row, gutter)):
            if part:
                columns[side].append(_line(part, page, side + 1, mirrored))
    return [*ordered, *columns[0], *columns[1]]


def _rows(words: Iterable[Word]) -> list[list[Word]]:
    """Words that stand on one height, from top to bottom, each row from left to right."""
    rows: list[list[Word]] = []
    for word in sorted(words, key=lambda each: (each["bottom"], each["x0"])):
        height = max(1.0, word["bottom"] - word["top"])
        if rows and word["bottom"] - rows[-1][0]["bottom"] < 0.5 * height:
            rows[-1].append(word)
        else:
            rows.append([word])
    return [sorted(row, key=lambda each: each["x0"]) for row in rows]


def _gutter(rows: Sequence[Sequence[Word]], width: float) -> float | None:
    """The x of the gutter of a page set in two columns of running text; None for one column.

    Both sides must be filled with text in many rows: lists of short labels with values beside them are read across.
    """
    if len(rows) < MIN_COLUMN_ROWS:
        return None
    candidates = [width * share / 100 for share in range(35, 66)]
    clear = [sum(not _crosses(row, x) for row in rows) for x in candidates]
    most = max(clear)
    # The middle of the widest clear strip, so that a ragged edge does not decide.
    best = [x for x, count in zip(candidates, clear, strict=True) if count == most]
    gutter = best[len(best) // 2]
    left_edge = min(row[0]["x0"] for row in rows)
    right_edge = max(word["x1"] for row in rows for word in row)
    filled = [0, 0]
    for row in rows:
        if not _crosses(row, gutter):
            left, right = _sides(row, gutter)
            filled[0] += bool(left) and left[-1]["x1"] - left[0]["x0"] > 0.6 * (gutter - left_edge)
            filled[1] += bool(right) and right[-1]["x1"] - right[0]["x0"] > 0.6 * (right_edge - gutter)
    enough = max(MIN_COLUMN_ROWS // 2, 0.35 * len(rows))
    return gutter if most >= 0.6 * len(rows) and min(filled) >= enough else None


def _crosses(row: Sequence[Word], x: float) -> bool:
    return any(word["x0"] < x + 3 and word["x1"] > x - 3 for word in row)


def _sides(row: Sequence[Word], gutter: float) -> tuple[list[Word], list[Word]]:
    return [word for word in row if word["x1"] <= gutter], [word for word in row if word["x1"] > gutter]


def _line(row: Sequence[Word], page: int, column: int, mirrored: bool) -> Line:
    sizes: Counter[float] = Counter()
    bold = 0
    total = 0
    for word in row:
        sizes[round(word["size"] * 2) / 2] += len(word["text"])
        total += len(word["text"])
        bold += len(word["text"]) if _BOLD.search(word["fontname"]) else 0
    rtl = _mostly_rtl(row)
    words = (
        _right_to_left(row if mirrored else list(reversed(row))) if rtl else list(reversed(row) if mirrored else row)
    )
    pieces = [_logical(words[0]["text"])]
    for word, following in pairwise(words):
        # Words are also cut where the font changes; without a gap they are one word.
        gap = max(following["x0"] - word["x1"], word["x0"] - following["x1"])
        touching = gap < 0.1 * max(1.0, following["size"])
        pieces.append(("" if touching else " ") + _logical(following["text"]))
    return Line(
        text="".join(pieces),
        page=page,
        x0=min(word["x0"] for word in row),
        x1=max(word["x1"] for word in row),
        top=min(word["top"] for word in row),
        bottom=max(word["bottom"] for word in row),
        size=sizes.most_common(1)[0][0],
        bold=bold > 0.9 * total,
        column=column,
    )


def _is_rtl(word: Word) -> bool:
    return _RTL.search(word["text"]) is not None


def _mostly_rtl(words: Sequence[Word]) -> bool:
    """Whether more words are written from right to left than from left to right; numbers do not count."""
    right = sum(map(_is_rtl, words))
    return right > sum(any(char.isalpha() for char in word["text"]) for word in words) - right


def _right_to_left(words: Sequence[Word]) -> list[Word]:
    """Words from right to left, with runs of Latin words inside put back from left to right."""
    ordered: list[Word] = []
    run: list[Word] = []
    for word in words:
        if _is_rtl(word):
            ordered += _latin_order(run)
            run = []
            ordered.append(word)
        else:
            run.append(word)
    return ordered + _latin_order(run)


def _latin_order(run: list[Word]) -> list[Word]:
    return run[::-1] if any(char.isalpha() for word in run for char in word["text"]) else run


def _logical(text: str) -> str:
    """A word as it is read: a PDF places the letters of a right-to-left word from left to right, often as shaped forms."""
    if not _RTL.search(text):
        return text
    turned = _LTR_RUN.sub(lambda match: match[0][::-1], text[::-1])
    return _SHAPED.sub(lambda match: unicodedata.normalize("NFKC", match[0]), turned)


def paragraphs(items: Sequence[Line | Table]) -> list[Paragraph | Table]:
    """Lines to paragraphs, in the order given; tables stand between them."""
    lines = [item for item in items if isinstance(item, Line)]
    spacing = _usual_spacing(lines)
    margins = _right_margins(lines)
    made: list[Paragraph | Table] = []
    for item in items:
        last = made[-1] if made else None
        if isinstance(item, Table):
            made.append(item)
        elif isinstance(last, Paragraph) and _continues(last.lines[-1], item, spacing, margins):
            last.lines.append(item)
        else:
            made.append(Paragraph([item]))
    return made


def _usual_spacing(lines: Sequence[Line]) -> float:
    """The most common distance from line to line as a share of the font size."""
    ratios = Counter(
        round((below.top - above.top) / max(1.0, above.size), 1)
        for above, below in pairwise(lines)
        if above.page == below.page and 0 < below.top - above.top < 3 * max(1.0, above.size)
    )
    return ratios.most_common(1)[0][0] if ratios else 1.2


def _right_margins(lines: Sequence[Line]) -> dict[tuple[int, int], float]:
    """Where the longest line of each page and column ends."""
    margins: dict[tuple[int, int], float] = {}
    for line in lines:
        key = (line.page, line.column)
        margins[key] = max(margins.get(key, 0.0), line.x1)
    return margins


def _continues(last: Line, line: Line, spacing: float, margins: dict[tuple[int, int], float]) -> bool:
    """Whether `line` goes on with the paragraph that `last` belongs to."""
    if abs(line.size - last.size) > 0.6 or line.bold != last.bold or _opens_with_label(line.text):
        return False
    if line.page != last.page or line.top < last.top:
        # A new page or column: only running text goes on, which starts in lower case.
        return not last.text.rstrip().endswith(_SENTENCE_END) and line.text[:1].islower()
    size = max(1.0, last.size)
    if line.top - last.top > (spacing + 0.25) * size:
        return False
    if abs(line.centre - last.centre) < 3 and abs(line.x0 - last.x0) > size:
        return True
    # Where the next word had room on the line above, the line was ended on purpose.
    first_word = len(line.text.split()[0]) / max(1, len(line.text)) * (line.x1 - line.x0)
    had_room = last.x1 + first_word + size < margins[last.page, last.column]
    indented = line.x0 > last.x0 + size and last.text.rstrip().endswith(_SENTENCE_END)
    return not (had_room or indented)


def _opens_with_label(text: str) -> bool:
    return clauses.match_clause(text) is not None or clauses.match_point(text) is not None


class Joiner:
    """Joins the lines of a paragraph to one text and mends words that were divided at a line end."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.mended = 0
        self._hyphenated = {
            word.casefold().strip(".,;:()") for line in lines for word in line.text.split()[:-1] if "-" in word[1:-1]
        }

    def join(self, lines: Sequence[Line]) -> str:
        text = lines[0].text.strip()
        for line in lines[1:]:
            text = self._append(text, line.text.strip())
        return text.replace("\u00ad", "")

    def _append(self, text: str, following: str) -> str:
        if not text or not following:
            return text or following
        if text[-1] in _HYPHENS and len(text) > 1 and text[-2].isalpha() and following[0].islower():
            head = text.split()[-1][:-1]
            tail = following.split()[0]
            if f"{head}-{tail}".casefold().strip(".,;:()") in self._hyphenated:
                return text + following
            self.mended += 1
            return text[:-1] + following
        if _CJK.match(text[-1]) and _CJK.match(following[0]):
            return text + following
        return f"{text} {following}"


def normalised(text: str) -> str:
    """Letters and digits only, in lower case: for comparing headings with outline entries."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(char for char in folded if char.isalnum())
