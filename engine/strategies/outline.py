"""Where a text may be cut: headings of the tree, and boundaries that keep a heading with its body."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence

from engine.models import Document, NodeKind
from engine.strategies.blocks import Heading

Boundaries = Callable[[int, int], Sequence[int]]
"""Offsets strictly inside `(start, end)` where a text may be cut, ascending."""

_NON_BLANK = re.compile(r"\S")
_LINE = re.compile(r"\n(?=[^\S\n]*+\S)")


def tree_headings(document: Document) -> tuple[Heading, ...]:
    """Sections and articles of the document tree that have a heading of their own, in order."""
    text = document.text
    found: list[Heading] = []
    stack = [(document.tree, 0)]
    while stack:
        node, depth = stack.pop()
        if node.kind in (NodeKind.SECTION, NodeKind.ARTICLE):
            depth += 1
            if node.heading is not None:
                line_end = text.find("\n", max(node.heading.start, node.heading.end - 1))
                end = len(text) if line_end < 0 else line_end + 1
                found.append(Heading(node.heading.start, end, depth, node.name))
        stack.extend((child, depth) for child in reversed(node.children))
    return tuple(found)


class Seams:
    """Boundaries of one text, without those that would part a heading from its body."""

    def __init__(self, text: str, headings: Sequence[Heading]) -> None:
        self.text = text
        self._starts = [heading.start for heading in headings]
        self._bodies = [self._body(heading.end) for heading in headings]
        self._runs: list[int] = []
        """Where the run of headings begins that each heading belongs to."""
        for index, start in enumerate(self._starts):
            follows = index > 0 and start <= self._bodies[index - 1]
            self._runs.append(self._runs[-1] if follows else start)

    def _body(self, heading_end: int) -> int:
        """Where the body begins: the heading stays with everything up to there."""
        found = _NON_BLANK.search(self.text, heading_end)
        return len(self.text) if found is None else found.start()

    def keeps_heading(self, place: int) -> bool:
        """Whether a cut at `place` leaves every heading with its body."""
        index = bisect_left(self._starts, place) - 1
        return index < 0 or place > self._bodies[index]

    def headings(self) -> list[int]:
        return [place for place in self._starts if self.keeps_heading(place)]

    def kept(self, places: Iterable[int]) -> list[int]:
        """The places, given in ascending order, at which a cut leaves every heading with its body."""
        given = list(places)
        if not given:
            return given
        kept: list[int] = []
        reached = 0
        first = max(0, bisect_left(self._starts, given[0]) - 1)
        for heading in range(first, bisect_left(self._starts, given[-1])):
            lost = bisect_right(given, self._starts[heading], reached)
            after = bisect_right(given, self._bodies[heading], lost)
            if after > lost:
                kept.extend(given[reached:lost])
                reached = after
        kept.extend(given[reached:])
        return kept

    def moved(self, places: Iterable[int]) -> list[int]:
        """Each place, moved up to the first of the headings right above it."""
        found = set()
        for place in places:
            index = bisect_left(self._starts, place) - 1
            found.add(self._runs[index] if index >= 0 and place <= self._bodies[index] else place)
        return sorted(found)

    def lines(self, start: int, end: int) -> list[int]:
        """Where a line that is not blank begins, strictly inside the span."""
        return self.kept(found.end() for found in _LINE.finditer(self.text, start, end - 1))


def between(places: Sequence[int]) -> Boundaries:
    """Boundaries out of a fixed ascending list."""
    return lambda start, end: places[bisect_right(places, start) : bisect_left(places, end)]


def node_edges(document: Document, kind: NodeKind) -> list[int]:
    """Where nodes of a kind begin, and where the text goes on after them. Ascending."""
    edges: set[int] = set()
    for node in document.tree.walk():
        if node.kind is kind:
            edges.add(node.span.start)
            following = _NON_BLANK.search(document.text, node.span.end)
            if following is not None:
                edges.add(following.start())
    return sorted(edges)
