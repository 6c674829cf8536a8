"""Structure of formats whose own text is canonical: patterns applied to blocks that already have a place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.documents.base import Block
from engine.documents.patterns import Hint, assign
from engine.documents.tree import Placed
from engine.models import NodeKind, Span, Structure

_HEADINGS = (NodeKind.SECTION, NodeKind.ARTICLE)


class Structured(NamedTuple):
    placed: list[Placed]
    structure: Structure


def structured(placed: Sequence[Placed], hints: Sequence[Hint], text: str) -> Structured:
    """The blocks after `patterns.assign`, each with its place in `text`.

    A paragraph that opens with a heading becomes two blocks, the heading and the text behind it.
    """
    if not any(item.block.text.strip() for item in placed):
        return Structured(list(placed), Structure(rule="none", confidence="none"))
    assigned = assign([item.block for item in placed], hints)
    result: list[Placed] = []
    before = -1
    for block, index in zip(assigned.blocks, assigned.sources, strict=True):
        source = placed[index]
        if index == before:
            _split(result, block, text)
        elif block.kind in _HEADINGS:
            result.append(source._replace(block=block, heading=source.span))
        else:
            result.append(source._replace(block=block))
        before = index
    return Structured(result, assigned.structure)


def _split(result: list[Placed], body: Block, text: str) -> None:
    """Cuts the last heading's place in two where the body starts. A body that markup hides stays in the heading's line."""
    span = result[-1].span
    start = text.rfind(body.text, span.start, span.end)
    if start <= span.start:
        return
    head = Span(span.start, span.start + len(text[span.start : start].rstrip()))
    result[-1] = result[-1]._replace(span=head, heading=head)
    result.append(Placed(body, Span(start, span.end)))


def fill_gaps(placed: Sequence[Placed], text: str) -> list[Placed]:
    """The blocks, and a paragraph for every non-blank stretch between them, so that leaves hold the whole text."""
    filled: list[Placed] = []
    reached = 0
    for item in [*placed, None]:
        end = len(text) if item is None else item.span.start
        stretch = text[reached:end]
        if stretch.strip():
            start = reached + len(stretch) - len(stretch.lstrip())
            block = Block(NodeKind.PARAGRAPH, stretch.strip(), rule="markup")
            filled.append(Placed(block, Span(start, reached + len(stretch.rstrip()))))
        if item is not None:
            filled.append(item)
            reached = max(reached, item.span.end)
    return filled
