"""Semantic parent-child: neighbouring paragraphs on one topic form the parent, each paragraph is a child."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
from pydantic import Field, model_validator

from engine.models import SimilarityCurve, Span
from engine.providers.base import Models
from engine.strategies.base import Cut, Need, Params, Piece, Strategy
from engine.strategies.outline import between
from engine.strategies.packing import OVER_LIMIT, Level, Part, TokenRuler, pack
from engine.strategies.propositions import paragraph_spans
from engine.strategies.semantic import neighbour_cosines
from engine.strategies.source import Source


class SemanticParentChildParams(Params):
    threshold: float = Field(
        0.5, ge=-1.0, le=1.0, description="Neighbouring paragraphs with at least this cosine share a parent."
    )
    child_tokens: int = Field(
        512, ge=1, le=100_000, description="Most tokens in a child. A longer paragraph is cut between sentences."
    )
    parent_tokens: int = Field(2048, ge=1, le=100_000, description="Most tokens in a parent. Never exceeded.")

    @model_validator(mode="after")
    def _children_fit(self) -> SemanticParentChildParams:
        if self.child_tokens > self.parent_tokens:
            raise ValueError(
                f"child_tokens {self.child_tokens} must not be larger than parent_tokens {self.parent_tokens}"
            )
        return self

    @property
    def short(self) -> str:
        return f"{self.threshold:g}/{self.child_tokens}/{self.parent_tokens}"


class SemanticParentChild(Strategy[SemanticParentChildParams]):
    name = "semantic_parent_child"
    title = "Semantic parent-child"
    rule = "Neighbouring paragraphs whose similarity reaches the threshold form a parent; paragraphs are searched, parents delivered."
    best_for = "Prose in paragraphs without headings, where an answer needs more than the paragraph that was found."
    avoid_when = "The document has articles or sections: the plain parent-child strategy follows them."
    cost = "One embedding per paragraph, the same that its chunk is stored with."
    needs = frozenset({Need.EMBEDDER})
    params_type = SemanticParentChildParams

    def _cut(self, source: Source, params: SemanticParentChildParams, models: Models) -> Cut:
        assert models.embedder is not None
        children = _children(source, params.child_tokens)
        began = time.perf_counter()
        # Embedded exactly as the chunks will be, so that a cache answers the second time.
        vectors = models.embedder.embed([source.text[child.start : child.end] for child in children]).vectors
        embed_seconds = time.perf_counter() - began
        cosines = neighbour_cosines(vectors)
        curve = SimilarityCurve(
            positions=tuple(child.end for child in children[:-1]),
            values=tuple(cosines.tolist()),
            threshold=params.threshold,
        )
        firsts = [0, *(np.flatnonzero(cosines < params.threshold) + 1).tolist()]
        made: list[Piece] = []
        for first, stop in zip(firsts, [*firsts[1:], len(children)], strict=True):
            made.extend(_with_parents(source, children[first:stop], params.parent_tokens))
        return Cut(made, curve, {"embed": embed_seconds})


def _children(source: Source, limit: int) -> list[Part]:
    ruler = TokenRuler(source.tokens)
    levels = [Level("sentence", between([span.start for span in source.sentences]))]
    return [
        part
        for paragraph in paragraph_spans(source)
        for part in pack(paragraph.start, paragraph.end, levels, ruler, limit)
    ]


def _with_parents(source: Source, cluster: Sequence[Part], limit: int) -> Iterator[Piece]:
    """The children of one topic with their parent; a topic longer than the limit gives several parents."""
    level = Level("paragraph", between([child.start for child in cluster]))
    packed = pack(cluster[0].start, cluster[-1].end, [level], TokenRuler(source.tokens), limit)
    parents = [Span(part.start, part.end) for part in packed]
    place = 0
    for child in cluster:
        while parents[place].end <= child.start:
            place += 1
        flags = (OVER_LIMIT,) if child.over_limit else ()
        yield Piece(child.start, child.end, parent=parents[place], flags=flags, token_count=child.units)
