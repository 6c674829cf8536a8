"""Propositions: a chat model takes each paragraph apart into statements that stand alone; each keeps the paragraph it came from.

After T. Chen et al., "Dense X Retrieval: What Retrieval Granularity Should We Use?", arXiv 2312.06648.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from pydantic import Field

from engine.models import Span
from engine.providers.base import ChatRequest, Models
from engine.strategies.asking import ask_all, request, signature, title_of
from engine.strategies.base import Cut, Headings, Need, Params, Piece, Strategy
from engine.strategies.language import COMMON_WORDS
from engine.strategies.outline import Seams, between
from engine.strategies.packing import Level, TokenRuler, pack
from engine.strategies.source import Source

UNVERIFIED = "unverified"
"""Flag of a statement that names nothing of its paragraph, or a number that stands neither there nor in its headings."""
NO_STATEMENTS = "no_statements"
"""Flag of a paragraph that gave no statement and stands for itself."""

_PROMPT = "propositions"
_SCHEMA = {
    "type": "object",
    "properties": {"statements": {"type": "array", "items": {"type": "string"}}},
    "required": ["statements"],
    "additionalProperties": False,
}


class PropositionsParams(Params):
    paragraph_tokens: int = Field(
        512,
        ge=16,
        le=8192,
        description="Most tokens of a paragraph given to the model at once. A longer one is cut between sentences.",
    )


class Propositions(Strategy[PropositionsParams]):
    name = "propositions"
    title = "Propositions"
    rule = (
        "A chat model breaks each paragraph into statements that stand alone; a found statement delivers its paragraph."
    )
    best_for = "Fact questions over dense prose where one paragraph holds many facts."
    avoid_when = (
        "Questions need more than one fact at a time, the text is tables, lists or code, or there is no chat model."
    )
    cost = "One chat call per paragraph, kept for the next run, with answers about as long as the text; many small vectors."
    needs = frozenset({Need.CHAT})
    prompts = (_PROMPT,)
    params_type = PropositionsParams

    def _cut(self, source: Source, params: PropositionsParams, models: Models) -> Cut:
        assert models.chat is not None
        paragraphs = _paragraphs(source, params.paragraph_tokens)
        answers = ask_all(models.chat, _requests(source, paragraphs, params), self.name)
        headings = Headings(source.document.tree)
        made: list[Piece] = []
        for paragraph, reply in zip(paragraphs, answers.replies, strict=True):
            made.extend(_statements(source.text, paragraph, _place(headings, paragraph), reply.data))
        return Cut(made, seconds={"enrich": answers.seconds})

    def requests(self, source: Source, params: PropositionsParams) -> Sequence[ChatRequest]:
        if not source.text.strip():
            return ()
        return _requests(source, _paragraphs(source, params.paragraph_tokens), params)


def _paragraphs(source: Source, limit: int) -> list[Span]:
    """Paragraphs with their headings, none blank; long ones cut between sentences."""
    ruler = TokenRuler(source.tokens)
    levels = [Level("sentence", between([span.start for span in source.sentences]))]
    return [
        Span(part.start, part.end)
        for paragraph in paragraph_spans(source)
        for part in pack(paragraph.start, paragraph.end, levels, ruler, limit)
        if not source.text[part.start : part.end].isspace()
    ]


def paragraph_spans(source: Source) -> list[Span]:
    """Paragraphs between blank lines that tile the text; a heading belongs to the paragraph below it. None is blank."""
    text = source.text
    seams = Seams(text, source.headings)
    first = len(text) - len(text.lstrip())
    last = len(text.rstrip())
    inner = [place for place in seams.kept(source.paragraphs) if first < place < last]
    return [Span(start, end) for start, end in pairwise((0, *inner, len(text)))]


def _requests(source: Source, paragraphs: Sequence[Span], params: PropositionsParams) -> list[ChatRequest]:
    headings = Headings(source.document.tree)
    return [
        request(
            _PROMPT,
            {
                "Document": title_of(source.document),
                "Place": _place(headings, paragraph) or "(no headings)",
                "Paragraph": paragraph.slice(source.text),
            },
            max_tokens=3 * params.paragraph_tokens + 200,
            purpose="propositions",
            schema=_SCHEMA,
            schema_name="statements",
        )
        for paragraph in paragraphs
    ]


def _place(headings: Headings, paragraph: Span) -> str:
    return " > ".join(headings.at(paragraph.start)[0])


def _statements(text: str, paragraph: Span, place: str, data: Any) -> Iterator[Piece]:
    said: dict[str, str] = {}
    for statement in data["statements"]:
        plain = " ".join(statement.split())
        if plain:
            said.setdefault(plain.casefold(), plain)
    if not said:
        yield Piece(paragraph.start, paragraph.end, flags=(NO_STATEMENTS,))
    for statement in said.values():
        flags = () if is_grounded(statement, paragraph.slice(text), place) else (UNVERIFIED,)
        yield Piece(paragraph.start, paragraph.end, text=statement, flags=flags, attributes=signature(_PROMPT))


_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]")
_STEM = 6
"""Words that agree in this many first letters count as the same word in another form."""


def is_grounded(statement: str, paragraph: str, place: str = "") -> bool:
    """Whether a statement names a word of the paragraph, common words aside, and only numbers of the paragraph or its place.

    A cheap check that finds statements about something else. It does not say that a statement is true.
    """
    if not set(_NUMBER.findall(statement)) <= set(_NUMBER.findall(f"{paragraph} {place}")):
        return False
    terms = _terms(statement)
    return bool((terms - COMMON_WORDS or terms) & _terms(paragraph))


def _terms(text: str) -> set[str]:
    """Words cut to their stem; scripts without spaces give pairs of neighbouring characters."""
    terms: set[str] = set()
    for word in _WORD.findall(text.casefold()):
        if _UNSPACED.search(word):
            terms.update(word[i : i + 2] for i in range(max(1, len(word) - 1)))
        else:
            terms.add(word[:_STEM])
    return terms
