"""Contextual structure: one chunk per unit of the document's structure, embedded together with its place and a written context."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pydantic import Field

from engine.providers.base import ChatRequest, Embedder, Models
from engine.strategies.asking import ask_all, flags_for, request, signature, title_of
from engine.strategies.base import Cut, Headings, Need, Params, Piece, Strategy
from engine.strategies.outline import Seams, between
from engine.strategies.packing import Level, TokenRuler, pack, pieces
from engine.strategies.sentences import sentence_starts
from engine.strategies.source import Source

_PROMPT = "context_structure"
_CONTEXT_TOKENS = 200
"""Longest context, in tokens of the model's answer."""
_HEADINGS_AROUND = 3
"""Headings before and after the unit that the outline in the prompt shows."""


class ContextualStructureParams(Params):
    size: int = Field(
        512,
        ge=1,
        le=100_000,
        description="Most tokens of a chunk's own text; labels and context come on top. A longer unit is cut at paragraphs.",
    )


@dataclass(frozen=True, slots=True)
class _Unit:
    """One chunk to be, with where it stands."""

    piece: Piece
    path: tuple[str, ...]
    section: str | None
    article: str | None
    around: tuple[str, ...]
    """Headings of the neighbouring units, in order."""


class ContextualStructure(Strategy[ContextualStructureParams]):
    name = "contextual_structure"
    title = "Contextual structure"
    rule = (
        "One chunk per article or lowest section, embedded under the labels Document, Section, Article, Context and "
        "Content; a chat model writes the context."
    )
    best_for = "Regulations and manuals whose units refer to each other and say little when they stand alone."
    avoid_when = "There is no structure, no chat model, or the documents may not leave the house."
    cost = "One chat call per chunk, kept for the next run; embeddings of longer texts."
    needs = frozenset({Need.CHAT})
    prompts = (_PROMPT,)
    params_type = ContextualStructureParams

    def _cut(self, source: Source, params: ContextualStructureParams, models: Models) -> Cut:
        assert models.chat is not None
        units = _units(source, params.size)
        answers = ask_all(models.chat, _requests(source, units), self.name)
        made = [
            _enriched(source, unit, reply.text.strip(), models.embedder)
            for unit, reply in zip(units, answers.replies, strict=True)
        ]
        return Cut(made, seconds={"enrich": answers.seconds})

    def requests(self, source: Source, params: ContextualStructureParams) -> Sequence[ChatRequest]:
        return _requests(source, _units(source, params.size)) if source.text.strip() else ()


def _units(source: Source, size: int) -> list[_Unit]:
    text = source.text
    seams = Seams(text, source.headings)
    headings = Headings(source.document.tree)
    ruler = TokenRuler(source.tokens)
    levels = [
        Level("blank line", between(seams.kept(source.paragraphs))),
        Level("sentence", lambda start, end: seams.kept(sentence_starts(text, start, end))),
    ]
    edges = [0, *(place for place in seams.headings() if place > 0), len(text)]
    titles = [heading.title for heading in source.headings]
    begun = [heading.start for heading in source.headings]
    units: list[_Unit] = []
    for start, end in pairwise(edges):
        before, after = bisect_left(begun, start), bisect_left(begun, end)
        around = (*titles[max(0, before - _HEADINGS_AROUND) : before], *titles[after : after + _HEADINGS_AROUND])
        path, section, article = headings.at(start)
        units.extend(
            _Unit(piece, path, section, article, around)
            for piece in pieces(pack(start, end, levels, ruler, size), ruler)
            if not text[piece.start : piece.end].isspace()
        )
    return units


def _requests(source: Source, units: Sequence[_Unit]) -> list[ChatRequest]:
    return [
        request(
            _PROMPT,
            {
                "Document": title_of(source.document),
                "Place": " > ".join(unit.path) or "(no headings)",
                "Headings around it": "\n".join(unit.around) or "(none)",
                "Unit": source.text[unit.piece.start : unit.piece.end],
            },
            max_tokens=_CONTEXT_TOKENS,
            purpose="context",
        )
        for unit in units
    ]


def _enriched(source: Source, unit: _Unit, context: str, embedder: Embedder | None) -> Piece:
    labels = {
        "Document": title_of(source.document),
        "Section": unit.section,
        "Article": unit.article,
        "Context": context,
        "Content": source.text[unit.piece.start : unit.piece.end],
    }
    labelled = "\n".join(f"{label}: {value}" for label, value in labels.items() if value)
    flags = (*unit.piece.flags, *flags_for(labelled, embedder))
    return replace(unit.piece, context=context, embedding_text=labelled, flags=flags, attributes=signature(_PROMPT))
