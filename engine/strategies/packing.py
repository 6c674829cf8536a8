"""Packing under a limit: neighbouring units merged as long as they fit, units that do not fit cut at the next finer level."""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from engine.strategies.base import Piece
from engine.strategies.outline import Boundaries
from engine.tokens import TokenMap

if TYPE_CHECKING:
    from engine.strategies.source import Source

OVER_LIMIT = "over_limit"
"""Flag of a piece that is above its limit because it is a single character, which is never cut."""


class Ruler(ABC):
    """Lengths of spans of one text in one unit."""

    text: str

    @abstractmethod
    def before(self, positions: Sequence[int]) -> list[int]:
        """Units before each offset, by one count of the whole text."""

    @abstractmethod
    def reach(self, start: int, size: int) -> int:
        """The furthest offset that is within `size` units of `start` by one count of the whole text. May be `start` itself."""

    @abstractmethod
    def back(self, end: int, size: int) -> int:
        """The furthest offset before `end` from which there are at most `size` units to it, by one count of the whole text."""

    @abstractmethod
    def exact(self, start: int, end: int) -> int:
        """Units of the span on its own."""

    def exact_all(self, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
        """Units of each of many spans on its own."""
        return list(map(self.exact, starts, ends))

    def rough(self) -> Ruler:
        """This ruler with spans measured by one count of the whole text: off by a few units, and faster."""
        return self

    def tokens(self, exact: int) -> int | None:
        """Tokens of a span that has `exact` units; None where the unit is another one."""
        return exact


class TokenRuler(Ruler):
    def __init__(self, tokens: TokenMap) -> None:
        self.text = tokens.text
        self._map = tokens
        self._ends = tokens.ends

    def before(self, positions: Sequence[int]) -> list[int]:
        before: list[int] = self._map.before(np.asarray(positions, dtype=np.int64)).tolist()
        return before

    def reach(self, start: int, size: int) -> int:
        return self._offset_after(int(self._ends.searchsorted(start, "right")) + size)

    def back(self, end: int, size: int) -> int:
        skipped = int(self._ends.searchsorted(end, "right")) - size
        if skipped <= 0:
            return 0
        place = int(self._ends[skipped - 1])
        return min(place, end)

    def _offset_after(self, n_tokens: int) -> int:
        """The furthest offset with at most `n_tokens` tokens before it."""
        ends = self._ends
        if n_tokens >= ends.size:
            return len(self.text)
        if n_tokens <= 0:
            return 0
        place = int(ends[n_tokens - 1])
        if ends[n_tokens] > place:
            return place
        # Several tokens end inside one character: the character is not within the limit.
        whole = int(ends.searchsorted(place, "left"))
        return int(ends[whole - 1]) if whole else 0

    def exact(self, start: int, end: int) -> int:
        return self._map.count(start, end)

    def exact_all(self, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
        return self._map.counts(starts, ends)

    def rough(self) -> Ruler:
        return _RoughTokenRuler(self._map)


class _RoughTokenRuler(TokenRuler):
    def exact(self, start: int, end: int) -> int:
        return self._map.share(start, end)

    def exact_all(self, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
        return list(map(self._map.share, starts, ends))


class CharacterRuler(Ruler):
    def __init__(self, text: str) -> None:
        self.text = text

    def before(self, positions: Sequence[int]) -> list[int]:
        return list(positions)

    def reach(self, start: int, size: int) -> int:
        return min(start + size, len(self.text))

    def back(self, end: int, size: int) -> int:
        return max(0, end - size)

    def exact(self, start: int, end: int) -> int:
        return end - start

    def tokens(self, exact: int) -> int | None:
        return None


@dataclass(frozen=True, slots=True)
class Level:
    """One kind of boundary."""

    name: str
    boundaries: Boundaries


class Part(NamedTuple):
    """A span under the limit. `level`: the kind of boundary it was packed at; `own`: where what is not overlap begins."""

    start: int
    end: int
    units: int
    level: str
    over_limit: bool = False
    own: int | None = None


Finest = Callable[[int, int, Ruler, int], Iterator[Part]]
"""Cuts a span that has no coarser boundary left: start, end, ruler, size."""

WORD = "word"
CHARACTER = "character"


def pack(
    start: int,
    end: int,
    levels: Sequence[Level],
    ruler: Ruler,
    size: int,
    whole: str = "document",
    finest: Finest | None = None,
) -> Iterator[Part]:
    """Parts that tile `[start, end)`, each of at most `size` units on its own.

    Units of the coarsest level are merged greedily; one that does not fit is cut at the next level, at last by `finest`:
    unless given, between words and between characters. `whole` names the level of a span that fits as it is.
    """
    if end <= start:
        return
    before = ruler.before((start, end))
    if before[1] - before[0] <= size:
        units = ruler.exact(start, end)
        if units <= size:
            yield Part(start, end, units, whole)
            return
    if not levels:
        yield from (finest or cut_words)(start, end, ruler, size)
        return
    level, finer = levels[0], levels[1:]
    edges = [start, *level.boundaries(start, end), end]
    if len(edges) == 2:
        yield from pack(start, end, finer, ruler, size, whole, finest)
        return
    before = ruler.before(edges)
    place, last = 0, len(edges) - 1
    while place < last:
        begin = edges[place]
        stop = min(last, bisect_right(before, before[place] + size) - 1)
        units = size + 1
        if stop > place:
            units = ruler.exact(begin, edges[stop])
            while units > size and stop > place + 1:
                stop -= 1
                units = ruler.exact(begin, edges[stop])
        if units <= size:
            yield Part(begin, edges[stop], units, level.name)
        else:
            stop = place + 1
            yield from pack(begin, edges[stop], finer, ruler, size, level.name, finest)
        place = stop


def cut_words(start: int, end: int, ruler: Ruler, size: int) -> Iterator[Part]:
    """Parts of at most `size` units, cut after white space where there is any, else between characters."""
    while start < end:
        part = first_part(start, end, ruler, size)
        yield part
        start = part.end


def first_part(start: int, end: int, ruler: Ruler, size: int) -> Part:
    """The longest part from `start` that is within `size` on its own; a single character at least."""
    stop = min(ruler.reach(start, size), end)
    while stop > start:
        cut, level = (stop, WORD) if stop == end else _last_cut(ruler.text, start, stop)
        units = ruler.exact(start, cut)
        if units <= size:
            return Part(start, cut, units, level)
        if cut == start + 1:
            break
        stop = min(cut - 1, max(start + 1, ruler.back(cut, units - size)))
    units = ruler.exact(start, start + 1)
    return Part(start, start + 1, units, CHARACTER, units > size)


_SPACES = (" ", "\n", "\t")


def _last_cut(text: str, start: int, stop: int) -> tuple[int, str]:
    """After the last white space in the second half of the span, so that one early space does not make a tiny part."""
    space = max(text.rfind(character, start + (stop - start) // 2, stop) for character in _SPACES)
    if space >= start:
        return space + 1, WORD
    return whole_character(text, start, stop), CHARACTER


_JOINERS = frozenset("\u200d\ufe0e\ufe0f")


def whole_character(text: str, start: int, stop: int) -> int:
    """`stop` moved back so that no combining mark, joined emoji or CRLF is cut; unmoved where nothing would be left."""
    place = stop
    while start < place < len(text) and _continues(text, place):
        place -= 1
    return place if place > start else stop


def _continues(text: str, place: int) -> bool:
    """Whether the character at `place` belongs to the one before it."""
    character = text[place]
    if character == "\n":
        return text[place - 1] == "\r"
    if character < "\u0300":
        return False
    return (
        text[place - 1] == "\u200d"
        or character in _JOINERS
        or unicodedata.combining(character) != 0
        or "\U0001f3fb" <= character <= "\U0001f3ff"
    )


def split(
    start: int, end: int, boundaries: Boundaries, finer: Sequence[Level], ruler: Ruler, size: int, whole: str
) -> Iterator[Part]:
    """Parts that tile `[start, end)`: one per unit, none merged; a unit above `size` is cut at the finer levels."""
    edges = [start, *boundaries(start, end), end]
    for begin, stop in pairwise(edges):
        yield from pack(begin, stop, finer, ruler, size, whole)


def pieces(parts: Iterable[Part], ruler: Ruler, with_separators: bool = False) -> list[Piece]:
    return [
        Piece(
            part.start,
            part.end,
            separator=part.level if with_separators else None,
            own_start=part.own,
            flags=(OVER_LIMIT,) if part.over_limit else (),
            token_count=ruler.tokens(part.units),
        )
        for part in parts
    ]


def ruler(source: Source, unit: Literal["tokens", "characters"]) -> Ruler:
    return TokenRuler(source.tokens) if unit == "tokens" else CharacterRuler(source.text)
