"""The text cut wherever a chunk or a mark begins or ends, so that every segment has one look."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.models import Span

EVIDENCE, MATCH, STARTS, BLANK = 1, 2, 4, 8
"""Bits of a segment's look: holds evidence, matches the search, begins a chunk, is white space."""


class Segment(NamedTuple):
    """A stretch of the text, in code points; the first and last chunk that cover it (-1 for none); its look."""

    start: int
    end: int
    first: int
    last: int
    look: int


def segments(
    text: str,
    chunks: Sequence[Span],
    evidence: Sequence[Span] = (),
    matches: Sequence[Span] = (),
    window: Span | None = None,
) -> list[Segment]:
    """Disjoint segments that tile the text (or a window of it), in order.

    `chunks` are ordered by start, so the chunks of a segment are neighbours.
    """
    low, high = window or (0, len(text))
    cuts = {low, high}
    for spans in (chunks, evidence, matches):
        for span in spans:
            cuts.update(span)
    edges = [edge for edge in sorted(cuts) if low <= edge <= high]
    starts = {span.start for span in chunks}
    result: list[Segment] = []
    first = 0
    following = 0
    evidence_at, match_at = _Cursor(evidence), _Cursor(matches)
    for start, end in itertools.pairwise(edges):
        while following < len(chunks) and chunks[following].start <= start:
            following += 1
        while first < following and chunks[first].end <= start:
            first += 1
        covering = [i for i in range(first, following) if chunks[i].end > start]
        look = (
            (EVIDENCE if evidence_at.holds(start) else 0)
            | (MATCH if match_at.holds(start) else 0)
            | (STARTS if start in starts else 0)
            | (BLANK if text[start:end].isspace() else 0)
        )
        ends = (covering[0], covering[-1]) if covering else (-1, -1)
        result.append(Segment(start, end, *ends, look))
    return result


def utf16_offset(text: str, offset: int) -> int:
    """An offset in code points as JavaScript counts it: in UTF-16 units."""
    head = text[:offset]
    return offset if head.isascii() else len(head.encode("utf-16-le", "surrogatepass")) // 2


def utf16_offsets(text: str, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Many offsets of `text` at once: `(n,)` code points to `(n,)` UTF-16 units."""
    if text.isascii():
        return offsets
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    beyond = np.flatnonzero(points > 0xFFFF)
    return offsets + np.searchsorted(beyond, offsets)


class _Cursor:
    """Whether an offset lies in one of some spans; offsets are asked for in order."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = sorted(spans)
        self._place = 0
        self._reach = -1

    def holds(self, offset: int) -> bool:
        while self._place < len(self._spans) and self._spans[self._place].start <= offset:
            self._reach = max(self._reach, self._spans[self._place].end)
            self._place += 1
        return offset < self._reach
