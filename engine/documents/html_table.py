"""The grid of an HTML table: merged cells repeated, header rows told, layout tables recognised."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MAX_SPAN = 64
"""Columns one cell may cover; more is never a real table."""

MAX_COLUMNS = 256
"""Columns of a row from which merged cells stand once."""

MAX_REPEATS = 100_000
"""Places of one table that may repeat merged cells; beyond, a merged cell stands once."""

LAYOUT_BLOCKS = 4
"""Paragraphs in one cell from which a table is taken for page layout."""


@dataclass(slots=True)
class Cell:
    """One place in the grid. A merged cell appears in every place it covers; `first` marks the place it starts at."""

    element: Any
    first: bool
    origin: Cell | None = None
    own_text: str | None = None

    @property
    def text(self) -> str | None:
        return (self.origin or self).own_text

    def set_text(self, text: str) -> None:
        (self.origin or self).own_text = text


@dataclass(slots=True)
class Grid:
    rows: list[list[Cell]] = field(default_factory=list)
    header_rows: int = 0
    loose: list[Any] = field(default_factory=list)
    """Captions, and text and elements that stand in the table but in no cell."""


def grid(table: Any) -> Grid:
    """The rows of a table; rows of tables nested in its cells are not among them."""
    found = Grid()
    covered: dict[int, tuple[int, Cell]] = {}
    in_header = True
    repeats = 0
    for section, row in _rows(table, found.loose):
        cells: list[Cell] = []
        own = list(row.iterchildren("td", "th"))
        for cell in own:
            _take_covered(cells, covered)
            start = Cell(cell, first=True)
            merging = repeats < MAX_REPEATS and len(cells) < MAX_COLUMNS
            rows_down = _span(cell.get("rowspan"), 65534) if merging else 1
            across = _span(cell.get("colspan"), MAX_SPAN) if merging else 1
            for offset in range(across):
                place = start if offset == 0 else Cell(cell, first=False, origin=start)
                if rows_down > 1:
                    covered[len(cells)] = (rows_down - 1, start)
                cells.append(place)
        _take_covered(cells, covered)
        if not cells:
            continue
        repeats += len(cells) - len(own)
        if repeats >= MAX_REPEATS or len(cells) >= MAX_COLUMNS:
            covered.clear()
        is_header = section == "thead" or (bool(own) and all(cell.tag == "th" for cell in own))
        if in_header and is_header:
            found.header_rows += 1
        else:
            in_header = False
        found.rows.append(cells)
    if found.rows and found.header_rows == len(found.rows):
        found.header_rows = 1
    return found


def is_layout(table: Any, found: Grid) -> bool:
    """Whether a table only places content on the page: one column, marked so, or with headings or running text in its cells."""
    if table.get("role") in ("presentation", "none"):
        return True
    if found.header_rows:
        return False
    if max((len(row) for row in found.rows), default=0) <= 1:
        return True
    cells = [cell.element for row in found.rows for cell in row if cell.first]
    return any(
        next(cell.iter("h1", "h2", "h3", "h4"), None) is not None or len(cell.findall("p")) >= LAYOUT_BLOCKS
        for cell in cells
    )


def _rows(table: Any, loose: list[Any]) -> list[tuple[str, Any]]:
    """Rows with the section they stand in; what is neither section, row nor cell goes to `loose`."""
    rows: list[tuple[str, Any]] = []
    for child in _parts(table, loose):
        if child.tag == "tr":
            rows.append(("", child))
        elif child.tag in ("thead", "tbody", "tfoot"):
            for row in _parts(child, loose):
                if row.tag == "tr":
                    rows.append((child.tag, row))
                else:
                    loose.append(row)
        else:
            loose.append(child)
    for _, row in rows:
        loose.extend(cell for cell in _parts(row, loose) if cell.tag not in ("td", "th"))
    return rows


def _parts(element: Any, loose: list[Any]) -> Iterator[Any]:
    """The child elements; text between them goes to `loose`."""
    for text in (element.text, *(child.tail for child in element)):
        if text and text.strip():
            loose.append(f"{text} ")
    return iter(child for child in element if isinstance(child.tag, str))


def _take_covered(cells: list[Cell], covered: dict[int, tuple[int, Cell]]) -> None:
    """Places that a merged cell from a row above covers at the current column."""
    while len(cells) in covered:
        left, start = covered.pop(len(cells))
        if left > 1:
            covered[len(cells)] = (left - 1, start)
        cells.append(Cell(start.element, first=False, origin=start))


def _span(value: str | None, limit: int) -> int:
    if value is None or not re.fullmatch(r"\d{1,6}", value.strip()):
        return 1
    return max(1, min(limit, int(value)))
