"""Sentence: whole sentences, a few at a time, with overlap in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field, model_validator

from engine.models import Span
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
        return Cut(pieces(_groups(source.sentences, measure, params), measure))


def _groups(sentences: Sequence[Span], measure: Ruler, params: SentenceParams) -> Iterator[Part]:
    first, reached, n_sentences = 0, 0, len(sentences)
    while reached < n_sentences:
        stop = min(first + params.sentences, n_sentences)
        start = sentences[first].start
        units = measure.exact(start, sentences[stop - 1].end)
        while units > params.size and stop > reached + 1:
            stop -= 1
            units = measure.exact(start, sentences[stop - 1].end)
        while units > params.size and first < reached:
            first += 1
            start = sentences[first].start
            units = measure.exact(start, sentences[stop - 1].end)
        if units <= params.size:
            yield Part(start, sentences[stop - 1].end, units, "sentence")
        else:
            yield from cut_words(start, sentences[stop - 1].end, measure, params.size)
        reached = stop
        first = max(first + 1, stop - params.overlap)
