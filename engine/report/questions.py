"""Every question of an experiment with what each strategy found, as a report shows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from engine.bench.history import lies_in
from engine.models import Span
from engine.records import Experiment, Query, Question, QuestionResult, RetrievedChunk
from engine.report.view import labels_of, number

ReadCell = Callable[[str, str], QuestionResult | None]
"""Spec id and question id to the cell with its query."""

EXCERPT = 220
"""Characters shown before and after the evidence in an excerpt."""


class Part(NamedTuple):
    """A piece of an excerpt."""

    text: str
    is_evidence: bool


@dataclass(frozen=True)
class Excerpt:
    """What a strategy found for a question."""

    rank: int
    place: str
    parts: tuple[Part, ...]
    holds_evidence: bool


@dataclass(frozen=True)
class Found:
    """One strategy on one question."""

    label: str
    status: str
    value: str
    """The main metric."""
    rank: str
    """Where the evidence was found among the hits, in words; empty for a question without evidence."""
    lies: str
    answer: str
    answer_kind: str
    judged: str
    error: str
    excerpt: Excerpt | None


@dataclass(frozen=True)
class QuestionView:
    number: int
    question: str
    answer: str
    quotes: tuple[str, ...]
    answerable: bool
    found: tuple[Found, ...]


def questions(experiment: Experiment, metric: str, cell: ReadCell) -> Iterator[QuestionView]:
    """Every question with what each strategy found, one after the other: the cells of one question are in memory at a time."""
    labels = labels_of(experiment)
    for place, question in enumerate(experiment.questions, start=1):
        found = []
        for spec_id, label in labels.items():
            result = cell(spec_id, question.question_id)
            if result is not None:
                found.append(_found(label, question, result, metric))
        yield QuestionView(
            number=place,
            question=question.question,
            answer=question.answer or "",
            quotes=tuple(item.quote for item in question.evidence),
            answerable=question.answerable,
            found=tuple(found),
        )


def _found(label: str, question: Question, result: QuestionResult, metric: str) -> Found:
    query = result.query
    first = next((hit for hit in query.retrieved if _evidence_in(hit, question)), None) if query else None
    return Found(
        label=label,
        status=result.status.replace("_", " "),
        value=number(result.metrics.get(metric)),
        rank=_rank(question, query, first),
        lies=lies_in(result.evidence),
        answer=_answer(query),
        answer_kind="" if query is None else query.answer_kind,
        judged=_judged(query),
        error=result.error or "",
        excerpt=_excerpt(query, question, first),
    )


def _rank(question: Question, query: Query | None, first: RetrievedChunk | None) -> str:
    if query is None or not question.gold:
        return ""
    return f"evidence first in hit {first.rank}" if first else f"no evidence among the first {query.top_k} hits"


def _answer(query: Query | None) -> str:
    if query is None or query.answer_kind == "none" or query.status == "failed":
        return ""
    return query.answer if query.answered else "The documents do not answer this."


def _judged(query: Query | None) -> str:
    verdict = query.judgement if query else None
    if verdict is None:
        return ""
    scores = {
        "faithfulness": verdict.faithfulness,
        "similarity": verdict.answer_similarity,
        "context": verdict.context_relevance,
    }
    parts = [f"{name} {value:.1f}" for name, value in scores.items() if value is not None]
    if verdict.hallucination is not None:
        parts.append("hallucination" if verdict.hallucination else "no hallucination")
    return ", ".join(parts) or verdict.detail


def _evidence_in(hit: RetrievedChunk, question: Question) -> list[Span]:
    """Gold spans that share text with what was found, clipped to it, in code points of the document."""
    span = hit.chunk.evidence_span
    return sorted(
        Span(max(gold.span.start, span.start), min(gold.span.end, span.end))
        for gold in question.gold
        if gold.document_id == hit.chunk.document_id and gold.span.overlap(span)
    )


def _excerpt(query: Query | None, question: Question, first: RetrievedChunk | None) -> Excerpt | None:
    """The text around the evidence in the best hit that holds some; without one, the beginning of the best hit."""
    if query is None or not query.retrieved:
        return None
    hit = first or query.retrieved[0]
    chunk = hit.chunk
    place = " > ".join((chunk.document_name, *chunk.heading_path))
    if chunk.span is None or first is None:
        text = chunk.text if len(chunk.text) <= 2 * EXCERPT else f"{chunk.text[: 2 * EXCERPT]}…"
        return Excerpt(hit.rank, place, (Part(_closer(text), False),), first is not None)
    marks = [Span(span.start - chunk.span.start, span.end - chunk.span.start) for span in _evidence_in(hit, question)]
    begin, end = max(0, marks[0].start - EXCERPT), min(len(chunk.text), marks[-1].end + EXCERPT)
    parts, reached = [Part("…" if begin else "", False)], begin
    for mark in marks:
        start = max(reached, mark.start)
        parts.append(Part(chunk.text[reached:start], False))
        parts.append(Part(chunk.text[start : max(start, mark.end)], True))
        reached = max(reached, mark.end)
    parts.append(Part(chunk.text[reached:end] + ("…" if end < len(chunk.text) else ""), False))
    shown = tuple(Part(_closer(part.text), part.is_evidence) for part in parts if part.text)
    return Excerpt(hit.rank, place, shown, True)


def _closer(text: str) -> str:
    """Without blank lines, which take room and say nothing in an excerpt."""
    return re.sub(r"\n\s*\n", "\n", text)
