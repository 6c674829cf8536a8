"""Semantic parent-child: neighbouring paragraphs on one topic form the parent, each paragraph is a child."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from pydantic import Field, model_validator

from engine.models import SimilarityCurve, Span
from engine.providers.base import Models
from engine.strategies.base import Cut, Need, Params, Piece, Strategy
from engine.strategies.outline import between
from engine.strategies.packing import Level, TokenRuler, pack, pieces
from engine.strategies.propositions import paragraph_spans
from engine.strategies.semantic import neighbour_cosines
from engine.strategies.sentences import sentence_starts
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


def _children(source: Source, limit: int) -> list[Piece]:
    ruler = TokenRuler(source.tokens)
    levels = [Level("sentence", lambda start, end: sentence_starts(source.text, start, end))]
    return [
        piece
        for paragraph in paragraph_spans(source)
        for piece in pieces(pack(paragraph.start, paragraph.end, levels, ruler, limit), ruler)
    ]


def _with_parents(source: Source, cluster: list[Piece], limit: int) -> list[Piece]:
    """The children of one topic with their parent; a topic longer than the limit gives several parents."""
    ruler = TokenRuler(source.tokens)
    level = Level("paragraph", between([child.start for child in cluster]))
    parents = [Span(part.start, part.end) for part in pack(cluster[0].start, cluster[-1].end, [level], ruler, limit)]
    made = []
    place = 0
    for child in cluster:
        while parents[place].end <= child.start:
            place += 1
        made.append(replace(child, parent=parents[place]))
    return made
