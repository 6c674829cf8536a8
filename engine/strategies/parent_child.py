"""Parent and child: small units are searched, the larger unit around the hit is given to the model."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from pydantic import Field

from engine.models import NodeKind, Span
from engine.providers.base import Models
from engine.strategies.base import Cut, Params, Piece, Strategy
from engine.strategies.outline import Seams, between, node_edges
from engine.strategies.packing import OVER_LIMIT, Level, TokenRuler, pack, split
from engine.strategies.sentences import sentence_starts
from engine.strategies.source import Source

UNSTRUCTURED_PARENT = 1024
"""Tokens of a parent, made of whole paragraphs, in a document without articles, sections or headings."""

ParentLevel = Literal["article", "section", "paragraph"]


class ParentChildParams(Params):
    parent: ParentLevel = Field(
        "article",
        description="What is given to the model. A document without articles falls back to sections, then to headings, then to runs of paragraphs.",
    )
    child: Literal["paragraph", "sentence"] = Field("paragraph", description="What is embedded and searched.")
    size: int = Field(512, ge=1, le=100_000, description="Most tokens in a child. A longer one is cut further.")

    @property
    def short(self) -> str:
        return f"{self.parent}/{self.child}"


class ParentChild(Strategy[ParentChildParams]):
    name = "parent_child"
    title = "Parent and child"
    rule = (
        "Paragraphs or sentences are embedded and searched; the article or section they stand in is given to the model."
    )
    best_for = "Regulations and contracts: a question hits one clause, and the answer needs the article around it."
    avoid_when = "Articles are longer than the model may read, or every paragraph stands on its own."
    cost = "No model for cutting. Many small vectors, and more tokens in every answer."
    params_type = ParentChildParams

    def _cut(self, source: Source, params: ParentChildParams, models: Models) -> Cut:
        text, measure = source.text, TokenRuler(source.tokens)
        seams = Seams(text, source.headings)
        paragraphs = between(seams.kept(source.paragraphs))
        finer = [Level("sentence", lambda start, end: seams.kept(sentence_starts(text, start, end)))]
        made: list[Piece] = []
        for parent in parents(source, seams, params.parent):
            for paragraph in pairwise([parent.start, *paragraphs(*parent), parent.end]):
                if params.child == "sentence":
                    parts = split(*paragraph, finer[0].boundaries, [], measure, params.size, "sentence")
                else:
                    parts = pack(*paragraph, finer, measure, params.size, "blank line")
                for part in parts:
                    flags = (OVER_LIMIT,) if part.over_limit else ()
                    made.append(Piece(part.start, part.end, parent=parent, flags=flags, token_count=part.units))
        return Cut(made)


def parents(source: Source, seams: Seams, level: ParentLevel) -> list[Span]:
    """Parents that tile the text. What stands outside every article or section is a parent of its own."""
    edges: list[int] = []
    if level == "article":
        edges = seams.moved(node_edges(source.document, NodeKind.ARTICLE))
    if level == "section" or (level == "article" and not edges):
        edges = seams.moved(node_edges(source.document, NodeKind.SECTION)) or seams.headings()
    if level == "paragraph":
        edges = seams.kept(source.paragraphs)
    elif not edges:
        measure = TokenRuler(source.tokens).rough()
        blank = Level("blank line", between(seams.kept(source.paragraphs)))
        parts = pack(0, len(source.text), [blank], measure, UNSTRUCTURED_PARENT)
        return [Span(part.start, part.end) for part in parts]
    length = len(source.text)
    inner = [edge for edge in edges if 0 < edge < length]
    return [Span(start, end) for start, end in pairwise([0, *inner, length])]
