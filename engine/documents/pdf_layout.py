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
_CJK = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")


@dataclass(slots=True)
class Line:
    """One line of print. Distances are points from the top left corner of the page."""

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


def lines_of(words: Iterable[dict[str, Any]], page: int, column: int = 0) -> list[Line]:
    """Words with `text`, `x0`, `x1`, `top`, `bottom`, `size` and `fontname` to lines: from top to bottom, columns not yet told."""
    rows: list[list[dict[str, Any]]] = []
    for word in sorted(words, key=lambda each: (each["bottom"], each["x0"])):
        height = max(1.0, word["bottom"] - word["top"])
        if rows and word["bottom"] - rows[-1][0]["bottom"] < 0.5 * height:
            rows[-1].append(word)
        else:
            rows.append([word])
    return [_line(sorted(row, key=lambda each: each["x0"]), page, column) for row in rows]


def _line(words: Sequence[dict[str, Any]], page: int, column: int) -> Line:
    sizes: Counter[float] = Counter()
    bold = 0
    total = 0
    for word in words:
        sizes[round(word["size"] * 2) / 2] += len(word["text"])
        total += len(word["text"])
        bold += len(word["text"]) if _BOLD.search(word["fontname"]) else 0
    pieces = [words[0]["text"]]
    for left, right in pairwise(words):
        # Words are also cut where the font changes; without a gap they are one word.
        touching = right["x0"] - left["x1"] < 0.1 * max(1.0, right["size"])
        pieces.append(right["text"] if touching else f" {right['text']}")
    return Line(
        text="".join(pieces),
        page=page,
        x0=min(word["x0"] for word in words),
        x1=max(word["x1"] for word in words),
        top=min(word["top"] for word in words),
        bottom=max(word["bottom"] for word in words),
        size=sizes.most_common(1)[0][0],
        bold=bold > 0.9 * total,
        column=column,
    )


def columns(words: Sequence[dict[str, Any]], width: float) -> float | None:
    """The x of the gutter of a page set in two columns of running text; None for one column.

    Both sides must be filled with text in most rows: lists of short labels with values beside them are read across.
    """
    rows: dict[int, list[dict[str, Any]]] = {}
    for word in words:
        rows.setdefault(round(word["bottom"] / 3), []).append(word)
    if len(rows) < 10:
        return None
    best: tuple[int, float] | None = None
    x = 0.35 * width
    while x < 0.65 * width:
        clear = sum(all(word["x1"] <= x - 3 or word["x0"] >= x + 3 for word in row) for row in rows.values())
        if best is None or clear > best[0]:
            best = (clear, x)
        x += 3
    assert best is not None
    gutter = best[1]
    sides: list[float] = []
    filled = [0, 0]
    left_edge = min(word["x0"] for word in words)
    right_edge = max(word["x1"] for word in words)
    for row in rows.values():
        if any(word["x0"] < gutter < word["x1"] for word in row):
            continue
        left = [word for word in row if word["x1"] <= gutter]
        right = [word for word in row if word["x0"] >= gutter]
        sides.append(1.0 if left and right else 0.0)
        filled[0] += bool(left) and left[-1]["x1"] - left[0]["x0"] > 0.6 * (gutter - left_edge)
        filled[1] += bool(right) and right[-1]["x1"] - right[0]["x0"] > 0.6 * (right_edge - gutter)
    if best[0] < 0.6 * len(rows) or min(filled) < 0.35 * len(rows) or min(filled) < 5:
        return None
    return gutter


def in_reading_order(words: Sequence[dict[str, Any]], width: float, page: int) -> list[Line]:
    """Lines of a page: across the page, or column by column between lines that cross both."""
    gutter = columns(words, width)
    if gutter is None:
        return lines_of(words, page)
    crossing = [line for line in lines_of(words, page) if _crosses(line, words, gutter)]
    bands = sorted((line.top, line.bottom) for line in crossing)
    ordered: list[Line] = []
    above = float("-inf")
    for top, bottom in [*bands, (float("inf"), float("inf"))]:
        band = [word for word in words if above <= word["top"] and word["bottom"] <= top + 1]
        ordered.extend(lines_of([word for word in band if word["x1"] <= gutter], page, 1))
        ordered.extend(lines_of([word for word in band if word["x1"] > gutter], page, 2))
        if top != float("inf"):
            ordered.extend(lines_of([word for word in words if top <= word["top"] < bottom and word not in band], page))
        above = bottom
    return ordered


def _crosses(line: Line, words: Sequence[dict[str, Any]], gutter: float) -> bool:
    return line.x0 < gutter < line.x1 and any(
        word["x0"] < gutter < word["x1"] and line.top <= word["top"] and word["bottom"] <= line.bottom for word in words
    )


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
