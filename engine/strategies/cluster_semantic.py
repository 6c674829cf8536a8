"""Cluster semantic: of all ways to cut a text under a size cap, the one whose chunks hold the most similarity.

The objective is the one of B. Smith and A. Troynikov, "Evaluating Chunking Strategies for Retrieval", Chroma technical report 2024
(ClusterSemanticChunker): the sum over chunks of the pairwise cosines inside them, each less the mean cosine of the document.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import pairwise
from operator import add
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from engine.providers.base import Models, Vectors
from engine.strategies.base import Cut, Need, Params, Piece, Strategy
from engine.strategies.outline import Seams, between
from engine.strategies.packing import Level, TokenRuler, pack, pieces
from engine.strategies.source import Source
from engine.tokens import TokenMap

_EDGE_TOKENS = 8
"""A slice has at most a few tokens more than its share of the whole text; nearer to the cap than this it is counted on its own."""


class ClusterSemanticParams(Params):
    max_tokens: int = Field(400, ge=16, le=4096, description="Most tokens in a chunk. Never exceeded.")
    piece_tokens: int = Field(
        50, ge=8, le=512, description="Sentences are joined up to this size before they are compared."
    )

    @model_validator(mode="after")
    def _pieces_fit(self) -> ClusterSemanticParams:
        if self.piece_tokens > self.max_tokens:
            raise ValueError(f"piece_tokens {self.piece_tokens} must not be larger than max_tokens {self.max_tokens}")
        return self

    @property
    def short(self) -> str:
        return f"{self.max_tokens}/{self.piece_tokens}"


class ClusterSemantic(Strategy[ClusterSemanticParams]):
    name = "cluster_semantic"
    title = "Cluster semantic"
    rule = (
        "Of all ways to cut the text under the size cap, take the one whose chunks are most similar inside: "
        "a global optimum by dynamic programming over small pieces."
    )
    best_for = "Prose whose topics return or fade into each other, where single drops of similarity mislead."
    avoid_when = "The structure of the document already says what belongs together."
    cost = "One embedding per sentence, shared with the other semantic strategies; time and memory linear in the text."
    needs = frozenset({Need.EMBEDDER})
    params_type = ClusterSemanticParams

    def _cut(self, source: Source, params: ClusterSemanticParams, models: Models) -> Cut:
        assert models.embedder is not None
        began = time.perf_counter()
        vectors = source.sentence_vectors(models.embedder)
        embed_seconds = time.perf_counter() - began
        free = [0, *Seams(source.text, source.headings).kept(source.sentence_edges[1:-1])]
        units = _join(source, free, vectors, params.piece_tokens)
        made: list[Piece] = []
        edges = [0, *(units.edges[stop] for stop in best_stops(units, params.max_tokens, source.tokens))]
        counts = source.tokens.counts(edges[:-1], edges[1:])
        for (start, end), count in zip(pairwise(edges), counts, strict=True):
            if count <= params.max_tokens:
                made.append(Piece(start, end, token_count=count))
            else:
                # A single piece above the cap.
                ruler = TokenRuler(source.tokens)
                parts = pack(start, end, [Level("sentence", between(free))], ruler, params.max_tokens)
                made.extend(pieces(parts, ruler))
        return Cut(made, seconds={"embed": embed_seconds})


class Units(NamedTuple):
    """What is compared: neighbouring sentences joined to small pieces."""

    edges: list[int]
    """Where each piece begins, and the end of the text: n + 1 offsets."""
    shares: NDArray[np.int64]
    """Tokens of the whole text before each edge: shape `(n + 1,)`."""
    vectors: Vectors
    """Shape `(n, dimension)`, rows of unit length."""


def _join(source: Source, free: Sequence[int], sentence_vectors: Vectors, piece_tokens: int) -> Units:
    """Sentences joined up to `piece_tokens`. `free`: where a sentence begins and a piece may, which is not below a heading.

    A piece's vector is the mean of its sentences' vectors weighted by their tokens.
    """
    edges = np.array(source.sentence_edges, dtype=np.int64)
    starts, totals = edges[:-1], source.tokens.before(edges)
    sentences = np.searchsorted(starts, free)
    reached = np.append(totals[sentences], totals[-1])
    furthest = np.searchsorted(reached, reached[:-1] + piece_tokens, "right") - 1
    following = np.maximum(furthest, np.arange(1, reached.size)).tolist()
    places = [0]
    while following[places[-1]] < sentences.size:
        places.append(following[places[-1]])
    firsts = sentences[places]
    weights = np.maximum(1, np.diff(totals)).astype(np.float32)
    sums = _sums(sentence_vectors * weights[:, None], firsts)
    sums /= np.maximum(np.sqrt(np.einsum("ij,ij->i", sums, sums)), 1e-12)[:, None]
    return Units(
        edges=[*starts[firsts].tolist(), len(source.text)],
        shares=np.append(totals[firsts], totals[-1]),
        vectors=sums,
    )


def _sums(rows: Vectors, firsts: NDArray[np.int64]) -> Vectors:
    """Sum of the rows from each of `firsts` up to the next: what `np.add.reduceat` gives, in a fifth of the time for short runs."""
    counts = np.diff(firsts, append=len(rows))
    sums = rows[firsts]
    for nth in range(1, int(counts.max())):
        longer = np.flatnonzero(counts > nth)
        sums[longer] += rows[firsts[longer] + nth]
    return sums


def best_stops(units: Units, max_tokens: int, tokens: TokenMap) -> list[int]:
    """Where the chunks of the best cut end, as indexes of pieces; the last is the number of pieces.

    Equally good cuts: the one with longer chunks at its end. A piece above the cap is a chunk of its own.
    """
    # Longest chunk first, so that it wins a tie.
    gains = _gains(units, max_tokens)[:, ::-1].tolist()
    close = max_tokens - _EDGE_TOKENS
    shares = units.shares.tolist()
    best = [0.0]
    froms = [0]
    for stop, (row, lowest) in enumerate(zip(gains, _lowest(units, max_tokens).tolist(), strict=True), start=1):
        values = list(map(add, best[lowest:], row[lowest - stop :]))
        while True:
            value = max(values)
            start = lowest + values.index(value)
            near = start < stop - 1 and shares[stop] - shares[start] > close
            if not near or tokens.count(units.edges[start], units.edges[stop]) <= max_tokens:
                break
            values[start - lowest] = -math.inf
        best.append(value)
        froms.append(start)
    stops = []
    stop = len(gains)
    while stop > 0:
        stops.append(stop)
        stop = froms[stop]
    return stops[::-1]


def _lowest(units: Units, max_tokens: int) -> NDArray[np.int64]:
    """The first piece with which piece j can share a chunk, by the tokens of the whole text; at most j: shape `(n_pieces,)`."""
    first = np.searchsorted(units.shares, units.shares[1:] - max_tokens)
    return np.minimum(first, np.arange(first.size))


def _gains(units: Units, max_tokens: int) -> NDArray[np.float64]:
    """`gains[j, n - 1]`: what the chunk of the `n` pieces up to and with piece j adds to the objective; -inf above the cap.

    Only pieces that can share a chunk are compared: shape `(n_pieces, widest chunk)`, so memory grows linearly with the text.
    """
    n_pieces = len(units.edges) - 1
    widest = int(np.max(np.arange(1, n_pieces + 1) - _lowest(units, max_tokens)))
    gains = np.full((n_pieces, widest), -np.inf)
    gains[:, 0] = 0.0
    mean = _mean_cosine(units.vectors)
    to_earlier = np.zeros(n_pieces)
    for n in range(2, widest + 1):
        back = n - 1
        cosines = np.einsum("ij,ij->i", units.vectors[:-back], units.vectors[back:]).astype(np.float64).round(6)
        # Sum of the last piece's cosines to the other pieces of the chunk, one more piece than in the round before.
        to_earlier[back:] += cosines - mean
        gains[back:, n - 1] = np.where(
            units.shares[n:] - units.shares[:-n] <= max_tokens, gains[back - 1 : -1, n - 2] + to_earlier[back:], -np.inf
        )
    return gains


def _mean_cosine(vectors: Vectors) -> float:
    """Mean over all pairs of different rows of unit length, without forming the pairs: (|sum|^2 - n) / (n (n - 1))."""
    n = len(vectors)
    if n < 2:
        return 0.0
    total = vectors.sum(axis=0, dtype=np.float64)
    return round(float((total @ total - n) / (n * (n - 1))), 6)
