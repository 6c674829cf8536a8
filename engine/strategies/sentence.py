"""Sentence: whole sentences, a few at a time, with overlap in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field, model_validator

from engine.providers.base import Models
from engine.strategies.base import Cut, Params, Strategy
from engine.strategies.packing import Part, Ruler, TokenRuler, cut_words, pieces
from engine.strategies.source import Source


class SentenceParams(Params):
    sentences: int = Field(5, ge=1, le=1000, description="Most sentences in a chunk.")
    overlap: int = Field(
        1, ge=0, le=999, description="Sentences that a chunk repeats of the one before; fewer than `sentences`."
    )
    size: int = Field(
        512, ge=1, le=100_000, description="Most tokens in a chunk. A longer sentence is cut between words."
    )

    @model_validator(mode="after")
    def _overlap_fits(self) -> SentenceParams:
        if self.overlap >= self.sentences:
            raise ValueError(f"overlap {self.overlap} must be smaller than sentences {self.sentences}")
        return self

    @property
    def short(self) -> str:
        return f"{self.sentences}/{self.overlap}"


class Sentence(Strategy[SentenceParams]):
    name = "sentence"
    title = "Sentence"
    rule = "Whole sentences, a fixed number at a time and never above a token limit; each chunk repeats the last sentence of the one before."
    best_for = "Short exact answers in running prose: FAQ, news, correspondence."
    avoid_when = "Sentences lean on their section to be understood, or the text is mostly lists, tables or code."
    cost = "No model. Many small chunks: more vectors to store and to search."
    params_type = SentenceParams

    def _cut(self, source: Source, params: SentenceParams, models: Models) -> Cut:
        measure = TokenRuler(source.tokens)
        return Cut(pieces(_groups(source.sentence_edges, measure, params), measure))


def _groups(edges: Sequence[int], measure: Ruler, params: SentenceParams) -> Iterator[Part]:
    first, reached, n_sentences = 0, 0, len(edges) - 1
    ahead = _Ahead(edges, measure, params)
    while reached < n_sentences:
        stop = min(first + params.sentences, n_sentences)
        start = edges[first]
        units = ahead.units(first)
        while units > params.size and stop > reached + 1:
            stop -= 1
            units = measure.exact(start, edges[stop])
        while units > params.size and first < reached:
            first += 1
            start = edges[first]
            units = measure.exact(start, edges[stop])
        if units <= params.size:
            yield Part(start, edges[stop], units, "sentence")
        else:
            yield from cut_words(start, edges[stop], measure, params.size)
        reached = stop
        first = max(first + 1, stop - params.overlap)


_MOST_AHEAD = 1024


class _Ahead:
    """Units of full groups, counted many at a time as if none were above the size: that is how nearly all come out."""

    def __init__(self, edges: Sequence[int], measure: Ruler, params: SentenceParams) -> None:
        self._edges, self._measure = edges, measure
        self._length, self._step = params.sentences, params.sentences - params.overlap
        self._known: dict[int, int] = {}
        self._groups = 4
        """Counted at the next call for a group not yet known: more and more while that is one in line, else few."""
        self._next = 0

    def units(self, first: int) -> int:
        """Units of the group that begins with sentence `first`."""
        known = self._known.get(first)
        if known is not None:
            return known
        self._groups = min(self._groups * 4, _MOST_AHEAD) if first == self._next else 4
        self._next = first + self._groups * self._step
        edges, last = self._edges, len(self._edges) - 1
        firsts = range(first, min(self._next, last), self._step)
        ends = [edges[min(each + self._length, last)] for each in firsts]
        counted = self._measure.exact_all([edges[each] for each in firsts], ends)
        self._known = dict(zip(firsts, counted, strict=True))
        return counted[0]
