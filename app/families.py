"""The parents of a chunk set and the children cut from each, for strategies that search children and deliver parents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from engine.models import Chunk, ChunkSet, Span


@dataclass(frozen=True, slots=True)
class Family:
    """A parent and its children, in the order of the text."""

    parent_id: str
    span: Span
    name: str
    """The headings that all its children stand under; empty where there are none."""
    children: tuple[Chunk, ...]


def families(chunk_set: ChunkSet) -> list[Family]:
    """In the order of the first child; empty for strategies whose chunks have no parent."""
    children: dict[str, list[Chunk]] = {}
    for chunk in chunk_set.chunks:
        if chunk.parent_id is not None and chunk.parent_span is not None:
            children.setdefault(chunk.parent_id, []).append(chunk)
    return [
        Family(parent_id, span, _common([chunk.heading_path for chunk in each]), tuple(each))
        for parent_id, each in children.items()
        if (span := each[0].parent_span) is not None
    ]


def _common(paths: Sequence[tuple[str, ...]]) -> str:
    levels = takewhile(lambda level: len(set(level)) == 1, zip(*paths, strict=False))
    return " > ".join(level[0] for level in levels)


def chunk_of_row(found: Sequence[Family], row: int) -> int:
    """Index of the chunk in a row of `tables.families`; the first child's in the row of a parent."""
    return _chunks(found)[row]


def row_of_chunk(found: Sequence[Family], index: int) -> int | None:
    """The row of a chunk below its parent; None where it has none."""
    rows = [row for row, each in enumerate(_chunks(found)) if each == index]
    return rows[-1] if rows else None


def _chunks(found: Sequence[Family]) -> list[int]:
    """Index of the chunk of every row: a parent's row, with its first child, then one per child."""
    return [child.chunk_index for family in found for child in (family.children[0], *family.children)]
