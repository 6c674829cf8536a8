"""The canonical text and the tree, made from the blocks of any reader.

`build` renders the Markdown and places every block while it does, so a node's span is where its text was written.
`nest` places blocks that already stand somewhere in a text: formats whose own text is the canonical text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine.documents.base import Block
from engine.models import Node, NodeKind, Span

MAX_DEPTH = 24
"""Deepest nesting of a tree; what lies deeper hangs on its ancestor at this depth."""
FLAT_ARTICLE = 10
"""Blocks per implied article in a text without any heading."""
PREAMBLE = "Preamble"
BODY = "Body"

_HEADINGS = (NodeKind.SECTION, NodeKind.ARTICLE)
_POINTS = (NodeKind.PARAGRAPH, NodeKind.LIST_ITEM)


class Built(NamedTuple):
    """A canonical text and its tree."""

    text: str
    tree: Node


class Placed(NamedTuple):
    """A block with the place it already has in the canonical text."""

    block: Block
    span: Span
    """The block alone; descendants widen the node's span."""
    heading: Span | None = None
    """The heading line, for SECTION and ARTICLE blocks."""
    row_spans: tuple[Span, ...] = ()
    """One span per row of a TABLE."""


def build(blocks: Iterable[Block]) -> Built:
    """Render blocks in reading order to Markdown and nest them: Document > Section > Article > Paragraph.

    Headings nest by `level`; an ARTICLE with level 0 hangs on the innermost open section. A heading below an article
    becomes a titled paragraph of it. Content before the first heading becomes the section "Preamble", articles
    without a section get one implied section, and a text without headings becomes one section "Body" cut into
    articles of `FLAT_ARTICLE` blocks. Time grows linearly with the text.
    """
    visible = [block for block in blocks if _has_content(block)]
    nesting = _Nesting(flat=not _has_heading(visible))
    parts: list[str] = []
    position = 0
    previous: Block | None = None
    for block in visible:
        if previous is not None:
            both_items = previous.kind is NodeKind.LIST_ITEM and block.kind is NodeKind.LIST_ITEM
            gap = "\n" if both_items else "\n\n"
            parts.append(gap)
            position += len(gap)
        draft = nesting.place(block)
        rendered = _render(block, draft.level)
        parts.append(rendered.text)
        draft.start, draft.end = position, position + len(rendered.text)
        if block.kind in _HEADINGS:
            draft.heading = Span(draft.start, draft.end)
        nested = [(row, cell_markdown(inner)) for row, inner in block.nested]
        spans = [Span(position + start, position + end) for start, end in rendered.rows]
        nesting.add_rows(draft, spans, _find_nested(rendered, position, nested))
        position = draft.end
        previous = block
    text = "".join(parts)
    return Built(text, nesting.finish(len(text)))


def nest(placed: Iterable[Placed], length: int, *, implied: bool = True) -> Node:
    """Nest blocks that already stand in a canonical text of `length` code points, in order of their spans.

    With `implied=False` content outside headings hangs directly on the document (code files).
    """
    items = list(placed)
    flat = implied and not _has_heading([item.block for item in items])
    nesting = _Nesting(flat=flat, implied=implied)
    for item in items:
        draft = nesting.place(item.block)
        draft.start, draft.end = item.span
        draft.heading = item.heading
        nesting.add_rows(draft, item.row_spans)
    return nesting.finish(length)


def node_counts(tree: Node) -> dict[str, int]:
    """Nodes per kind, the document itself left out."""
    counts: dict[str, int] = {}
    for node in tree.walk():
        if node.kind is not NodeKind.DOCUMENT:
            counts[node.kind.value] = counts.get(node.kind.value, 0) + 1
    return counts


def _has_heading(blocks: Sequence[Block]) -> bool:
    return any(block.kind in _HEADINGS for block in blocks)


def _has_content(block: Block) -> bool:
    return bool(block.rows or block.label or block.text.strip())


# --- rendering ---------------------------------------------------------------------------------------------------


class _Rendered(NamedTuple):
    text: str
    rows: Sequence[tuple[int, int]] = ()


def _render(block: Block, level: int) -> _Rendered:
    """Markdown of one block; `rows` are the row ranges of a table inside it."""
    text = block.text.strip()
    if block.kind in _HEADINGS:
        return _Rendered("#" * min(max(level, 1), 6) + " " + _labelled(block, " ".join(text.split())))
    if block.kind is NodeKind.TABLE and block.rows:
        return _render_table(block.rows, block.header_rows)
    if block.kind is NodeKind.CODE:
        return _Rendered(_fenced(block.text.strip("\n"), str(block.attributes.get("language") or "")))
    if block.kind is NodeKind.LIST_ITEM:
        indent = "  " * max(min(block.level, MAX_DEPTH) - 1, 0)
        marker = block.label or "-"
        lines = text.replace("\n", "\n" + indent + "  ")
        return _Rendered(f"{indent}{marker} {lines}".rstrip())
    if block.kind is NodeKind.NOTE:
        return _Rendered(f"[^{block.label or '*'}]: {text}")
    return _Rendered(_labelled(block, text))


def _labelled(block: Block, text: str) -> str:
    if not block.label:
        return text
    return f"{block.label}{block.separator}{text}".rstrip()


def _fenced(code: str, language: str) -> str:
    longest = max((len(run) for run in re.findall(r"`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{code}\n{fence}"


def _render_table(rows: Sequence[Sequence[str]], header_rows: int) -> _Rendered:
    """A pipe table. The first row's range holds the delimiter line too, so that the ranges tile the table."""
    width = max(len(row) for row in rows)
    delimiter = "|" + " --- |" * width
    lines = [_row_line(row, width) for row in rows]
    if header_rows > 0:
        lines[0] = lines[0] + "\n" + delimiter
    else:
        lines[0] = "|" + "  |" * width + "\n" + delimiter + "\n" + lines[0]
    ranges = []
    start = 0
    for line in lines:
        ranges.append((start, start + len(line)))
        start += len(line) + 1
    return _Rendered("\n".join(lines), ranges)


def _find_nested(table: _Rendered, position: int, nested: Sequence[tuple[int, str]]) -> dict[int, list[Span]]:
    """Where the flattened texts of inner tables stand, by row. Equal texts are found one after the other."""
    found: dict[int, list[Span]] = {}
    for row, text in nested:
        spans = found.setdefault(row, [])
        start, end = table.rows[row]
        place = table.text.find(text, spans[-1].end - position if spans else start, end) if text else -1
        if place >= 0:
            spans.append(Span(position + place, position + place + len(text)))
    return found


def _row_line(row: Sequence[str], width: int) -> str:
    cells = [cell_markdown(cell) for cell in row] + [""] * (width - len(row))
    return "| " + " | ".join(cells) + " |"


def cell_markdown(cell: str) -> str:
    """Text of a cell on one line: line ends become `<br>`, pipes are escaped."""
    lines = [line.strip() for line in cell.strip().splitlines()]
    return "<br>".join(line for line in lines if line).replace("|", "\\|")


# --- nesting -----------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Draft:
    """A node under construction. `rank` orders headings among headings and points among points."""

    kind: NodeKind
    level: int
    rank: int
    parent: _Draft | None
    block: Block | None = None
    title: str | None = None
    start: int = -1
    end: int = -1
    heading: Span | None = None
    is_heading: bool = False
    introduces: bool = False
    """A paragraph that ends with a colon: the points that follow belong to it."""
    attributes: dict[str, Any] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)


class _Nesting:
    """Places blocks under each other with a stack of open nodes; no recursion, every block is pushed and popped once."""

    def __init__(self, *, flat: bool, implied: bool = True) -> None:
        self._root = _Draft(NodeKind.DOCUMENT, level=0, rank=-1, parent=None)
        self._drafts: list[_Draft] = []
        self._stack: list[_Draft] = [self._root]
        self._flat = flat
        self._implied = implied
        self._seen_heading = False
        self._in_flat_article = 0

    def place(self, block: Block) -> _Draft:
        return self._place_heading(block) if block.kind in _HEADINGS else self._place_content(block)

    def add_rows(
        self, table: _Draft, spans: Iterable[Span], nested: Mapping[int, Sequence[Span]] | None = None
    ) -> None:
        """Rows of a table, and the tables inside their cells."""
        header_rows = table.block.header_rows if table.block else 0
        for index, span in enumerate(spans):
            row = _Draft(NodeKind.ROW, level=0, rank=0, parent=table, start=span.start, end=span.end)
            row.attributes["row"] = index
            if index < header_rows:
                row.attributes["header"] = True
            self._drafts.append(row)
            for inner in (nested or {}).get(index, ()):
                self._drafts.append(
                    _Draft(NodeKind.TABLE, level=0, rank=0, parent=row, start=inner.start, end=inner.end)
                )

    def finish(self, length: int) -> Node:
        """The document node. Drafts are in document order, so walking them backwards meets children before parents."""
        for draft in reversed(self._drafts):
            parent = draft.parent
            assert parent is not None
            parent.children.append(_freeze(draft))
            parent.end = max(parent.end, draft.end)
            if parent.attributes.get("implied"):
                parent.start = draft.start
        self._root.start, self._root.end = 0, length
        return _freeze(self._root)

    def _push(self, draft: _Draft, *, open_: bool = True) -> _Draft:
        self._drafts.append(draft)
        if open_ and len(self._stack) < MAX_DEPTH:
            self._stack.append(draft)
        return draft

    def _place_heading(self, block: Block) -> _Draft:
        self._seen_heading = True
        self._close_points()
        kind = block.kind
        if kind is NodeKind.ARTICLE:
            self._close_article()
            self._close_headings(block.level or MAX_DEPTH)
            if self._stack[-1].title == PREAMBLE and self._stack[-1].block is None:
                self._stack.pop()
            if self._stack[-1] is self._root and self._implied:
                self._push(self._implied_node(NodeKind.SECTION, BODY))
            rank = block.level or self._stack[-1].rank + 1
        else:
            rank = max(block.level, 1)
            self._close_headings(rank)
            if self._inside_article():
                kind = NodeKind.PARAGRAPH
            elif self._stack[-1].block is None and self._stack[-1] is not self._root:
                self._stack.pop()
        draft = _Draft(kind, level=len(self._stack), rank=rank, parent=self._stack[-1], block=block, is_heading=True)
        draft.title = " ".join(block.text.split()) or None
        return self._push(draft)

    def _inside_article(self) -> bool:
        return any(draft.kind is NodeKind.ARTICLE for draft in self._stack)

    def _close_headings(self, rank: int) -> None:
        """Close headings of this rank and deeper. Implied sections have rank 0 and stay."""
        while self._stack[-1].rank >= rank:
            self._stack.pop()

    def _close_article(self) -> None:
        while self._inside_article():
            self._stack.pop()

    def _close_points(self, rank: int = 0) -> None:
        """Close open points whose rank is `rank` or more; the headings they stand under stay open."""
        while not self._stack[-1].is_heading and self._stack[-1].kind in _POINTS and self._stack[-1].rank >= rank:
            self._stack.pop()

    def _place_content(self, block: Block) -> _Draft:
        rank = max(block.level, 0)
        if block.kind is NodeKind.LIST_ITEM:
            rank = max(rank, 1)
        self._close_points(0 if block.outline else rank)
        if block.outline:
            self._close_headings(block.outline)
        if rank > 0 and self._top_is_closed_paragraph():
            self._stack.pop()
        if len(self._stack) == 1 and self._implied:
            self._open_implied()
        elif self._flat and self._implied and not self._open_point():
            self._next_flat_article()
        parent = self._stack[-1]
        level = rank if block.kind in _POINTS else 0
        draft = _Draft(block.kind, level=level, rank=rank, parent=parent, block=block, title=block.title)
        draft.introduces = block.text.rstrip().endswith((":", "：", ":-"))
        return self._push(draft, open_=block.kind in _POINTS)

    def _top_is_closed_paragraph(self) -> bool:
        """A plain paragraph takes points only when it introduces them."""
        top = self._stack[-1]
        return self._open_point() and top.rank == 0 and not top.introduces

    def _open_point(self) -> bool:
        top = self._stack[-1]
        return top.kind in _POINTS and not top.is_heading

    def _open_implied(self) -> None:
        self._push(self._implied_node(NodeKind.SECTION, BODY if self._flat or self._seen_heading else PREAMBLE))
        if self._flat:
            self._in_flat_article = 0
            self._next_flat_article()

    def _next_flat_article(self) -> None:
        if self._in_flat_article % FLAT_ARTICLE == 0:
            self._close_article()
            self._push(self._implied_node(NodeKind.ARTICLE, None))
        self._in_flat_article += 1

    def _implied_node(self, kind: NodeKind, title: str | None) -> _Draft:
        draft = _Draft(kind, level=len(self._stack), rank=0, parent=self._stack[-1], title=title, is_heading=True)
        draft.attributes["implied"] = True
        return draft


def _freeze(draft: _Draft) -> Node:
    block = draft.block
    return Node(
        kind=draft.kind,
        span=Span(draft.start, draft.end),
        level=draft.level,
        label=block.label if block else None,
        number_path=block.number_path if block else (),
        title=draft.title,
        heading=draft.heading,
        rule=block.rule if block else ("implied" if draft.attributes.get("implied") else None),
        attributes={**block.attributes, **draft.attributes} if block else draft.attributes,
        children=tuple(reversed(draft.children)),
    )
