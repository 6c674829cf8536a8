"""Arithmetic on sets of half-open spans. A set is a list of disjoint, non-touching spans in order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.models import Span


def union(spans: Iterable[Span]) -> list[Span]:
    """The set that holds every character of the spans. Empty spans vanish; touching spans become one."""
    merged: list[Span] = []
    for span in sorted(spans):
        if span.end <= span.start:
            continue
        if merged and span.start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


def length(spans: Iterable[Span]) -> int:
    """Characters in a set; for spans that overlap, their sum."""
    return sum(span.end - span.start for span in spans)


def as_array(spans: Sequence[Span]) -> NDArray[np.int64]:
    """Starts and ends: shape `(n_spans, 2)`."""
    return np.array([end for span in spans for end in span], dtype=np.int64).reshape(-1, 2)


def gaps(spans: NDArray[np.int64], size: int) -> list[Span]:
    """What none of the spans holds of `[0, size)`, in order. They are those of `as_array`, and may overlap."""
    ordered = spans[np.argsort(spans[:, 0], kind="stable")]
    begins = np.append(0, np.maximum.accumulate(ordered[:, 1]))
    ends = np.append(ordered[:, 0], size).clip(max=size)
    empty = begins >= ends
    return list(map(Span, begins[~empty].tolist(), ends[~empty].tolist()))


def held_whole(spans: NDArray[np.int64], holders: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the spans lie wholly in one of the holders, both as of `as_array`: shape `(n_spans,)`."""
    if not len(holders):
        return np.zeros(len(spans), dtype=np.bool_)
    ordered = holders[np.argsort(holders[:, 0], kind="stable")]
    furthest = np.maximum.accumulate(ordered[:, 1])
    places = ordered[:, 0].searchsorted(spans[:, 0], side="right") - 1
    return np.asarray((places >= 0) & (furthest[places] >= spans[:, 1]))


def covered_length(span: Span, cover: Sequence[Span]) -> int:
    """Characters of `span` that the set `cover` holds."""
    total = 0
    place = bisect_right(cover, span.start, key=_end)
    while place < len(cover) and cover[place].start < span.end:
        total += span.overlap(cover[place])
        place += 1
    return total


def common_length(first: Sequence[Span], second: Sequence[Span]) -> int:
    """Characters two sets have in common."""
    small, large = (first, second) if len(first) <= len(second) else (second, first)
    return sum(covered_length(span, large) for span in small)


def with_span(cover: Sequence[Span], span: Span) -> list[Span]:
    """The set `cover` and the characters of `span`; `cover` itself is left alone."""
    if span.end <= span.start:
        return list(cover)
    first = bisect_left(cover, span.start, key=_end)
    last = bisect_right(cover, span.end, key=_start)
    if first >= last:
        return [*cover[:first], span, *cover[first:]]
    joined = Span(min(span.start, cover[first].start), max(span.end, cover[last - 1].end))
    return [*cover[:first], joined, *cover[last:]]


class Holders:
    """Answers which spans of a collection touch or wholly hold a given one, in logarithmic time. The spans may overlap."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.spans: tuple[Span, ...] = tuple(sorted(spans))
        self._furthest: list[int] = []
        reached = 0
        for span in self.spans:
            reached = max(reached, span.end)
            self._furthest.append(reached)

    def hold(self, span: Span) -> bool:
        """Whether one of the spans holds the whole of `span`."""
        place = bisect_right(self.spans, span.start, key=_start) - 1
        return place >= 0 and self._furthest[place] >= span.end

    def touching(self, span: Span, edges: bool = False) -> list[int]:
        """Positions in `spans` of those that share a character with `span`; with `edges`, also of those that only touch it."""
        slack = 1 if edges else 0
        first = bisect_right(self._furthest, span.start - slack)
        last = bisect_left(self.spans, span.end + slack, key=_start)
        return [i for i in range(first, last) if self.spans[i].end > span.start - slack]

    def pieces(self, span: Span) -> int | None:
        """Fewest of the spans that together hold `span`; None when they do not hold all of it."""
        needed, reached = 0, span.start
        while reached < span.end:
            place = bisect_right(self.spans, reached, key=_start) - 1
            if place < 0 or self._furthest[place] <= reached:
                return None
            reached, needed = self._furthest[place], needed + 1
        return needed


def _start(span: Span) -> int:
    return span.start


def _end(span: Span) -> int:
    return span.end
