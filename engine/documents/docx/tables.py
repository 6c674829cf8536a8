"""Tables: the grid with merged cells, header rows, and the tables that are only layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from engine.documents.base import Block
from engine.documents.docx.inline import count_removed
from engine.documents.docx.tally import Tally
from engine.documents.docx.xml import (
    MC,
    REMOVED,
    SILENT,
    WRAPPERS,
    W,
    alternate,
    elements,
    integer,
    own_text,
    toggle,
    value,
)
from engine.documents.patterns import Hint
from engine.models import NodeKind

MAX_COLUMNS = 63
"""Columns Word allows."""
_LONGEST_REPEAT = 500
"""Characters of a merged cell that are repeated in the cells it covers; a longer text stands once."""
_HEADINGS = (NodeKind.SECTION, NodeKind.ARTICLE)


class Cell:
    """A cell with its place in the grid."""

    def __init__(self, element: Any, column: int, span: int, merge: str | None) -> None:
        self.element = element
        self.column = column
        self.span = span
        self.merge = merge
        """`restart` opens a vertical merge, `continue` belongs to the cell above; None for the others."""
        self.blocks: list[Block] = []
        self.hints: list[Hint] = []
        self.bold = False
        self.text = ""

    def fill(self, blocks: list[Block], bold: bool) -> None:
        self.blocks = blocks
        self.bold = bold
        self.text = "\n".join(flat_text(block) for block in blocks if block.kind is not NodeKind.NOTE)


class Row:
    def __init__(self, cells: list[Cell], element: Any) -> None:
        self.cells = cells
        self.header = bool(toggle(element.find(W + "trPr"), "tblHeader"))


class TableReader:
    """Reads one table."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self.strays: list[Any] = []
        """Content that stands in the table but in no cell of it."""

    def rows(self, table: Any) -> Iterator[tuple[Any, list[Cell]]]:
        """Row elements with their empty cells. Deleted and hidden rows are counted and left out."""
        for row in self._inner(table, W + "tr"):
            properties = row.find(W + "trPr")
            deleted = properties is not None and properties.find(W + "del") is not None
            if deleted or toggle(properties, "hidden"):
                for text in row.iter(W + "t", W + "delText"):
                    self._tally.add("deleted" if deleted else "hidden", len("".join(own_text(text).split())))
                continue
            yield row, self._cells(row, properties)

    def _cells(self, row: Any, properties: Any | None) -> list[Cell]:
        cells: list[Cell] = []
        column = _clamped(value(properties, "gridBefore"), 0)
        for element in self._inner(row, W + "tc"):
            own = element.find(W + "tcPr")
            span = max(1, _clamped(value(own, "gridSpan"), 1))
            if column + span > MAX_COLUMNS:
                self._tally.add("columns", column <= MAX_COLUMNS)
                span = 1
            merge = own.find(W + "vMerge") if own is not None else None
            state = None if merge is None else merge.get(W + "val") or "continue"
            cells.append(Cell(element, column, span, state))
            column += span
        return cells

    def _inner(self, parent: Any, wanted: str) -> Iterator[Any]:
        """Rows of a table or cells of a row, through every wrapper."""
        stack = [elements(parent)]
        while stack:
            child = next(stack[-1], None)
            if child is None:
                stack.pop()
            elif child.tag == wanted:
                yield child
            elif child.tag in WRAPPERS or child.tag == W + "sdt":
                stack.append(elements(child))
            elif child.tag == MC + "AlternateContent":
                branch = alternate(child)
                stack.append(elements(branch if branch is not None else ()))
            elif child.tag in REMOVED:
                count_removed(child, self._tally)
            elif child.tag not in SILENT:
                self._tally.unknown(child.tag)
                self.strays.append(child)

    def is_layout(self, rows: Sequence[Row]) -> bool:
        """Whether a table only places text: one column, or cells that are pages of their own."""
        filled = [[cell for cell in row.cells if cell.blocks] for row in rows]
        if all(len(row) <= 1 for row in filled) and len({row[0].column for row in filled if row}) <= 1:
            return True
        cells = [cell for row in filled for cell in row]
        if any(block.kind in _HEADINGS or block.outline for cell in cells for block in cell.blocks):
            return True
        return len(rows) <= 2 and all(len(cell.blocks) >= 3 for cell in cells)

    def block(self, table: Any, rows: Sequence[Row]) -> Block:
        """The table as a block; merged cells repeat their text, so that a row can be read alone."""
        width = max((cell.column + cell.span for row in rows for cell in row.cells), default=0)
        grid: list[tuple[str, ...]] = []
        open_merges: dict[int, str] = {}
        nested: list[tuple[int, str]] = []
        for row in rows:
            line = [""] * width
            for cell in row.cells:
                own = cell.text.strip()
                nested.extend(
                    (len(grid), flat_text(block))
                    for block in cell.blocks
                    if block.kind is NodeKind.TABLE and block.rows
                )
                text = own
                if cell.merge == "continue":
                    above = open_merges.get(cell.column, "")
                    text = "\n".join(part for part in (above, own) if part)
                if cell.merge is not None:
                    open_merges[cell.column] = (
                        text
                        if cell.merge == "restart" and len(text) <= _LONGEST_REPEAT
                        else (open_merges.get(cell.column, "") if cell.merge == "continue" else "")
                    )
                line[cell.column] = text
                if len(text) <= _LONGEST_REPEAT:
                    for covered in range(cell.column + 1, cell.column + cell.span):
                        line[covered] = text
            if any(line):
                grid.append(tuple(line))
        return Block(
            NodeKind.TABLE,
            "",
            rows=tuple(grid),
            header_rows=min(self._header_rows(table, rows), len(grid)),
            nested=tuple(nested),
        )

    def _header_rows(self, table: Any, rows: Sequence[Row]) -> int:
        """Rows marked as header, else the first row when it is bold or the table's look sets it apart."""
        marked = 0
        for row in rows:
            if not row.header:
                break
            marked += 1
        if marked or len(rows) < 2:
            return marked if marked < len(rows) else 1
        filled = [cell for cell in rows[0].cells if cell.blocks]
        if filled and all(cell.bold for cell in filled):
            return 1
        properties = table.find(W + "tblPr")
        look = properties.find(W + "tblLook") if properties is not None else None
        if look is None:
            return 0
        bits = int(look.get(W + "val") or "0", 16) if _is_hex(look.get(W + "val")) else 0
        return int(look.get(W + "firstRow") in ("1", "true", "on") or bool(bits & 0x0020))


def flat_text(block: Block) -> str:
    """A block as lines of plain text, for cells and notes."""
    if block.kind is NodeKind.TABLE:
        return flat_rows(block.rows, block.header_rows)
    if block.kind is NodeKind.LIST_ITEM:
        return f"{block.label or '-'} {block.text}"
    return f"{block.label}{block.separator}{block.text}" if block.label else block.text


def flat_rows(rows: Iterable[Sequence[str]], header_rows: int) -> str:
    """A table inside a cell as text: "key: value; key: value", one line per row."""
    lines = [[" ".join(cell.split()) for cell in row] for row in rows]
    header, body = lines[:header_rows], lines[header_rows:]
    if header and body:
        keys = header[-1]
        printed = ["; ".join(filter(None, row)) for row in header[:-1]]
        for row in body:
            pairs = [f"{key}: {cell}" if key else cell for key, cell in zip(keys, row, strict=True) if cell or key]
            printed.append("; ".join(pairs))
        return "\n".join(printed)
    if all(len(row) == 2 for row in lines):
        return "\n".join(f"{key}: {cell}" if key and cell else key or cell for key, cell in lines)
    return "\n".join("; ".join(filter(None, row)) for row in lines)


def _clamped(text: str | None, default: int) -> int:
    number = integer(text)
    return default if number is None else max(0, min(number, MAX_COLUMNS))


def _is_hex(text: str | None) -> bool:
    return bool(text) and all(character in "0123456789abcdefABCDEF" for character in text or "")
