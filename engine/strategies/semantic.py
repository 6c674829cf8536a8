"""Semantic: cut where the topic changes, seen as a drop of similarity between neighbouring sentences."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from engine.models import SimilarityCurve, Span
from engine.providers.base import Models, Vectors
from engine.strategies.base import Cut, Need, Params, Piece, Strategy
from engine.strategies.outline import Seams, between
from engine.strategies.packing import Level, TokenRuler, pack, pieces
from engine.strategies.source import Source


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
        seams = Seams(source.text, source.headings)
        starts = [0, *seams.kept([span.start for span in sentences[1:]])]
        ruler = TokenRuler(source.tokens)
        level = Level("sentence", between(starts))
        made: list[Piece] = []
        edges = [0, *_boundaries(cosines < threshold, params.min_sentences, sentences, seams), len(source.text)]
        for start, end in pairwise(edges):
            made.extend(pieces(pack(start, end, [level], ruler, params.max_tokens), ruler))
        curve = SimilarityCurve(
            positions=tuple(span.end for span in sentences[:-1]), values=tuple(cosines.tolist()), threshold=threshold
        )
        return Cut(made, curve, {"embed": embed_seconds})


def neighbour_cosines(vectors: Vectors) -> NDArray[np.float32]:
    """Cosine of each row with the next: rows of unit length, shape `(n, dimension)`, give shape `(max(0, n - 1),)`, -1 to 1.

    Rounded to six decimals, so that equal sentences compare equal whatever the rounding of their vectors.
    """
    cosines: NDArray[np.float32] = np.einsum("ij,ij->i", vectors[:-1], vectors[1:])
    return cosines.clip(-1.0, 1.0).round(6)


def _boundaries(drops: NDArray[np.bool_], min_sentences: int, sentences: Sequence[Span], seams: Seams) -> Iterator[int]:
    """Where a chunk begins: after a drop that leaves `min_sentences` on both sides and no heading without its body."""
    first = 0
    for following in (np.flatnonzero(drops) + 1).tolist():
        enough = following - first >= min_sentences and len(sentences) - following >= min_sentences
        if enough and seams.keeps_heading(sentences[following].start):
            yield sentences[following].start
            first = following
