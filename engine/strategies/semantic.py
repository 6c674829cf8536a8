"""Semantic: cut where the topic changes, seen as a drop of similarity between neighbouring sentences."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from engine.models import SimilarityCurve, Span
from engine.providers.base import Models, Vectors
from engine.strategies.base import Cut, Need, Params, Piece, Strategy
from engine.strategies.source import Source
from engine.tokens import TokenMap


class SemanticParams(Params):
    mode: Literal["threshold", "percentile"] = Field(
        "threshold",
        description="`threshold`: cut below a fixed cosine. `percentile`: cut below a percentile of this document's own cosines.",
    )
    threshold: float = Field(
        0.5, ge=-1.0, le=1.0, description="Mode `threshold`: cut between two sentences whose cosine is below this."
    )
    percentile: float = Field(
        25.0, ge=0.0, le=100.0, description="Mode `percentile`: cut below this percentile of all cosines."
    )
    min_sentences: int = Field(3, ge=1, le=1000, description="Fewest sentences in a chunk, where the cap allows.")
    max_tokens: int = Field(512, ge=1, le=100_000, description="Most tokens in a chunk. Never exceeded.")

    @property
    def short(self) -> str:
        level = f"{self.threshold:g}" if self.mode == "threshold" else f"p{self.percentile:g}"
        return f"{level}/{self.min_sentences}/{self.max_tokens}"


class Semantic(Strategy[SemanticParams]):
    name = "semantic"
    title = "Semantic"
    rule = "Cut between two sentences where their similarity drops; the sentence before the drop stays with the chunk before it."
    best_for = "Running prose that changes topic without headings: reports, transcripts, articles."
    avoid_when = (
        "The text has a structure of its own (articles, lists, tables) or short sentences that all sound alike."
    )
    cost = "One embedding per sentence, once per document for all semantic strategies."
    needs = frozenset({Need.EMBEDDER})
    params_type = SemanticParams

    def _cut(self, source: Source, params: SemanticParams, models: Models) -> Cut:
        assert models.embedder is not None
        began = time.perf_counter()
        vectors = source.sentence_vectors(models.embedder)
        embed_seconds = time.perf_counter() - began
        sentences = source.sentences
        cosines = neighbour_cosines(vectors)
        threshold = params.threshold
        if params.mode == "percentile":
            threshold = float(np.percentile(cosines, params.percentile)) if cosines.size else -1.0
        pieces: list[Piece] = []
        first = 0
        for stop in [*_boundaries(cosines < threshold, params.min_sentences), len(sentences)]:
            pieces.extend(within_limit(source.tokens, sentences[first:stop], params.max_tokens))
            first = stop
        curve = SimilarityCurve(
            positions=tuple(span.end for span in sentences[:-1]), values=tuple(cosines.tolist()), threshold=threshold
        )
        return Cut(pieces, curve, {"embed": embed_seconds})


def neighbour_cosines(vectors: Vectors) -> NDArray[np.float32]:
    """Cosine of each row with the next: rows of unit length, shape `(n, dimension)`, give shape `(max(0, n - 1),)`, -1 to 1.

    Rounded to six decimals, so that equal sentences compare equal whatever the rounding of their vectors.
    """
    cosines: NDArray[np.float32] = np.einsum("ij,ij->i", vectors[:-1], vectors[1:])
    return cosines.clip(-1.0, 1.0).round(6)


def _boundaries(drops: NDArray[np.bool_], min_sentences: int) -> Iterator[int]:
    """Indexes of sentences that begin a chunk: those after a drop that leave `min_sentences` on both sides."""
    n_sentences = drops.size + 1
    first = 0
    for start in (np.flatnonzero(drops) + 1).tolist():
        if start - first >= min_sentences and n_sentences - start >= min_sentences:
            yield start
            first = start


def within_limit(tokens: TokenMap, units: Sequence[Span], limit: int) -> Iterator[Piece]:
    """Neighbouring units merged greedily into pieces of at most `limit` tokens; a unit that cannot fit is cut inside."""
    ends = np.fromiter((unit.end for unit in units), dtype=np.int64, count=len(units))
    shares = np.searchsorted(tokens.ends, ends, side="right")
    first = 0
    while first < len(units):
        start = units[first].start
        before = int(np.searchsorted(tokens.ends, start, side="right"))
        stop = max(first + 1, int(np.searchsorted(shares, before + limit, side="right")))
        count = tokens.count(start, units[stop - 1].end)
        # A slice on its own can have a few tokens more than its share of the whole text.
        while count > limit and stop > first + 1:
            stop -= 1
            count = tokens.count(start, units[stop - 1].end)
        if count <= limit:
            yield Piece(start, units[stop - 1].end, token_count=count)
        else:
            yield from _cut_inside(tokens, units[first], limit)
        first = stop


def _cut_inside(tokens: TokenMap, unit: Span, limit: int) -> Iterator[Piece]:
    """One unit cut into pieces of at most `limit` tokens, after white space where there is any in the second half."""
    start = unit.start
    while start < unit.end:
        before = int(np.searchsorted(tokens.ends, start, side="right"))
        last = min(before + limit, tokens.n_tokens) - 1
        end = min(unit.end, max(start + 1, int(tokens.ends[last])))
        end = _after_space(tokens.text, start, end, unit.end)
        count = tokens.count(start, end)
        while count > limit and end > start + 1:
            end = max(start + 1, end - max(1, (end - start) * (count - limit) // (2 * count)))
            end = _after_space(tokens.text, start, end, unit.end)
            count = tokens.count(start, end)
        yield Piece(start, end, token_count=count, flags=("over_limit",) if count > limit else ())
        start = end


def _after_space(text: str, start: int, end: int, stop: int) -> int:
    if end == stop:
        return end
    half = start + (end - start) // 2
    space = max(text.rfind(character, half, end) for character in " \n\t")
    return space + 1 if space >= 0 else end
