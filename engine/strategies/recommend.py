"""A first strategy for a document, from what the document is made of. A starting point to measure, not a verdict."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from engine.models import Document, Node, NodeKind, Record, Span, StrategySpec
from engine.strategies import registry
from engine.strategies.presets import preset
from engine.strategies.source import SOURCE_CODE, Source


class Figures(Record):
    """What the recommendation is based on."""

    tokens: int
    headings: int
    """Sections and articles with a heading of their own."""
    headings_per_1000_tokens: float
    articles: int
    """Articles with a printed number."""
    code_share: float
    """Characters inside code, of all that are not blank; the other shares likewise."""
    list_share: float
    table_share: float
    question_share: float
    """Headings and paragraphs that end with a question mark, of all."""
    turn_share: float
    """Lines that begin with a speaker or a time, of all that are not blank."""
    speech_share: float
    """Paragraphs that begin with a quotation mark or a dash of speech, of all."""
    references: bool
    """Whether a heading announces references."""
    median_sentence_tokens: float
    """Tokens of the middle sentence; headings, tables and code count as sentences too."""


class Recommendation(Record):
    spec: StrategySpec
    preset: str | None
    """Name of the preset the sizes come from; None for the general defaults."""
    reasons: tuple[str, ...]
    """Why, in sentences with the document's own numbers."""
    figures: Figures


_NON_BLANK = re.compile(r"\S+")
_TURN = re.compile(
    r"^[>*_\s]*(?:\[?\(?\d{1,2}:\d{2}(?::\d{2})?\)?\]?\s*(?:[-–]\s*)?|[^\W\d_][\w.'’ -]{0,30}?(?:\*\*)?:(?:\*\*)?\s)",
    re.MULTILINE,
)
_LINE = re.compile(r"^.*\S.*$", re.MULTILINE)
_SPOKEN = re.compile(r"[\"“„«‚‘»—–]\s?\w")
_QUESTION_MARKS = ("?", "？", "؟")
_REFERENCES = re.compile(
    r"\W*(?:\d+\.?\s+)?(?:references|bibliography|works cited|literatur(?:verzeichnis)?|références|bibliographie|referencias|bibliografía|参考文献)\W*",
    re.IGNORECASE,
)

_MOST = 0.5
_QUESTIONS = 0.25
_FEWEST_QUESTIONS = 4
_ARTICLES = 3
_FEWEST_TURNS = 8
_HEADINGS = 3
_HEADINGS_PER_1000_TOKENS = 0.5
_TABLES = 0.2
_SPEECH = 0.2
_LONG_PROSE = 3000
_ONE_CHUNK = 512
_SHORT_SENTENCE = 12
_HALF_SIZE = MappingProxyType({"size": 256, "overlap": 25})


class _Choice(NamedTuple):
    strategy_name: str
    preset: str | None
    reasons: tuple[str, ...]
    params: Mapping[str, Any] = MappingProxyType({})
    """Parameters where no preset sets them and the defaults do not fit."""


def recommend(document: Document) -> Recommendation:
    """The strategy and sizes to try first, with reasons. Never calls a model."""
    figures = measure(Source(document))
    choice = _choose(figures)
    if choice.preset is None:
        spec, reasons = registry.spec(choice.strategy_name, choice.params), choice.reasons
    else:
        chosen = preset(choice.preset)
        spec, reasons = chosen.spec(choice.strategy_name), (*choice.reasons, chosen.reason)
    return Recommendation(spec=spec, preset=choice.preset, reasons=reasons, figures=figures)


def _choose(f: Figures) -> _Choice:
    """The first rule that holds decides."""
    structured = f.headings >= _HEADINGS and f.headings_per_1000_tokens >= _HEADINGS_PER_1000_TOKENS
    headings = f"It has {f.headings} headings, {f.headings_per_1000_tokens:.1f} per 1,000 tokens"
    if f.code_share >= _MOST:
        return _Choice("code_aware", "code", (f"{f.code_share:.0%} of the text is code.",))
    if f.question_share >= _QUESTIONS:
        asked = f"{f.question_share:.0%} of its headings and paragraphs are questions: it reads like an FAQ."
        if structured:
            return _Choice("markdown_structure", "faq", (asked, f"{headings}, so that a section is one pair."))
        return _Choice("paragraph", "faq", (asked,))
    if f.articles >= _ARTICLES:
        return _Choice("parent_child", "legal", (f"It has {f.articles} numbered articles.",))
    if f.turn_share >= _MOST:
        return _Choice("recursive", "chat", (f"{f.turn_share:.0%} of its lines begin with a speaker or a time.",))
    if f.references and f.headings >= _HEADINGS:
        return _Choice("markdown_structure", "academic", (f"{headings}, and one of them announces references.",))
    if structured:
        return _Choice("markdown_structure", "technical", (f"{headings}: its sections are units to cut by.",))
    if f.table_share >= _TABLES:
        tables = f"{f.table_share:.0%} of the text stands in tables, which are kept whole or cut between rows."
        return _Choice("markdown_structure", "technical", (tables,))
    flat = f"{headings}: too few to cut by."
    if f.tokens >= _LONG_PROSE and f.speech_share >= _SPEECH:
        return _Choice("recursive", "fiction", (flat, f"{f.speech_share:.0%} of its paragraphs begin with speech."))
    if f.list_share >= _MOST:
        listed = f"{f.list_share:.0%} of the text are list items: they are cut between, not through."
        return _Choice("recursive", None, (flat, listed))
    sentence = f"Its middle sentence has {f.median_sentence_tokens:.0f} tokens"
    if f.tokens > _ONE_CHUNK and f.median_sentence_tokens < _SHORT_SENTENCE:
        return _Choice("recursive", None, (flat, f"{sentence}: half the general size holds a thought."), _HALF_SIZE)
    return _Choice("recursive", None, (flat, f"{sentence}: the general size holds several."))


def measure(source: Source) -> Figures:
    """Counts and shares of a document."""
    document, text = source.document, source.text
    nodes = list(document.tree.walk())
    characters = max(1, _characters(text, [Span(0, len(text))]))
    with_heading = [n for n in nodes if n.heading is not None and n.kind in (NodeKind.SECTION, NodeKind.ARTICLE)]
    n_tokens = source.tokens.n_tokens
    is_source_file = document.media_type == SOURCE_CODE
    lines = _LINE.findall(text)
    turns = sum(_TURN.match(line) is not None for line in lines)
    starts = source.paragraphs
    paragraphs = [text[a:b].strip() for a, b in zip(starts, [*starts[1:], len(text)], strict=True)] if text else []
    questions = [p.rstrip("*_ ").endswith(_QUESTION_MARKS) for p in paragraphs if p]
    speech = sum(_SPOKEN.match(p) is not None for p in paragraphs)
    edges = source.tokens.before(np.array([*(span.start for span in source.sentences), len(text)], dtype=np.int64))
    return Figures(
        tokens=n_tokens,
        headings=len(with_heading),
        headings_per_1000_tokens=round(1000 * len(with_heading) / max(1, n_tokens), 2),
        articles=sum(n.kind is NodeKind.ARTICLE and n.label is not None for n in nodes),
        code_share=1.0 if is_source_file else _share(text, document.tree, NodeKind.CODE, characters),
        list_share=_share(text, document.tree, NodeKind.LIST_ITEM, characters),
        table_share=_share(text, document.tree, NodeKind.TABLE, characters),
        question_share=round(sum(questions) / len(questions), 3) if sum(questions) >= _FEWEST_QUESTIONS else 0.0,
        turn_share=round(turns / len(lines), 3) if turns >= _FEWEST_TURNS else 0.0,
        speech_share=round(speech / max(1, len(paragraphs)), 3),
        references=any(_REFERENCES.fullmatch(n.title or "") is not None for n in with_heading),
        median_sentence_tokens=float(np.median(np.diff(edges))) if source.sentences else 0.0,
    )


def _share(text: str, tree: Node, kind: NodeKind, characters: int) -> float:
    return round(_characters(text, _outermost(tree, kind)) / characters, 3)


def _outermost(tree: Node, kind: NodeKind) -> Iterable[Span]:
    """Spans of the nodes of a kind that stand in no other of that kind."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if node.kind is kind:
            yield node.span
        else:
            stack.extend(node.children)


def _characters(text: str, spans: Iterable[Span]) -> int:
    """Characters that are not white space."""
    return sum(len(run) for span in spans for run in _NON_BLANK.findall(text, span.start, span.end))
