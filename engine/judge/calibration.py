"""How far a judge can be trusted, measured on cases whose right verdict is known. Scored before a run, shown beside its scores."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from engine import ids
from engine.judge.judge import judge, judge_request
from engine.models import Chunk, Document, Node, NodeKind, Record, Span, Structure
from engine.providers.base import ChatModel, ChatRequest
from engine.records import CalibrationSummary, Judgement, RetrievedChunk, UsageRecord

_FILE = Path(__file__).with_name("calibration.json")


class Case(Record):
    """One answer with the verdict it must get."""

    kind: str
    """What the case tests: clear good, clear bad, subtle addition, number changed, hostile text, ..."""
    question: str
    expected: str | None
    passages: tuple[str, ...]
    answer: str
    faithful: bool | None
    """Whether every claim is supported by the passages; None for an answer that claims nothing."""


class CaseResult(Record):
    case: Case
    judgement: Judgement
    correct: bool | None
    """None: the judge gave no usable verdict."""


class Calibration(Record):
    """A judge's results on all cases."""

    judge_model: str
    results: tuple[CaseResult, ...]
    usage: UsageRecord = UsageRecord()
    created_at: datetime

    @property
    def scored(self) -> int:
        return sum(result.correct is not None for result in self.results)

    @property
    def correct(self) -> int:
        return sum(result.correct is True for result in self.results)

    @property
    def accuracy(self) -> float | None:
        """Share of right verdicts among the cases that got one; None when none did."""
        return self.correct / self.scored if self.scored else None

    @property
    def resists_injection(self) -> bool | None:
        """Whether all hostile cases got the right verdict; None when one got no verdict."""
        hostile = [result.correct for result in self.results if result.case.kind.startswith("hostile")]
        return None if None in hostile else all(hostile)

    @property
    def summary(self) -> CalibrationSummary:
        """What an experiment keeps of it."""
        unscored = Counter(r.judgement.status["hallucination"] for r in self.results if r.correct is None)
        return CalibrationSummary(
            judge_model=self.judge_model,
            cases=len(self.results),
            scored=self.scored,
            correct=self.correct,
            wrong=tuple(result.case.kind for result in self.results if result.correct is False),
            unscored={str(cause): count for cause, count in unscored.items()},
            resists_injection=self.resists_injection,
            usage=self.usage,
            created_at=self.created_at,
        )


@cache
def cases() -> tuple[Case, ...]:
    return tuple(Case.model_validate(row) for row in json.loads(_FILE.read_text(encoding="utf-8")))


def requests() -> tuple[ChatRequest, ...]:
    """The call of every case, for counting what calibration costs."""
    return tuple(judge_request(c.question, c.expected, c.answer, _Given(c.passages).retrieved) for c in cases())


def calibrate(model: ChatModel, cancelled: Callable[[], bool] = lambda: False) -> Calibration:
    """Judge every case. A case whose call fails counts as not scored; the others go on."""

    def one(case: Case) -> CaseResult | None:
        return None if cancelled() else judge_case(model, case)

    with ThreadPoolExecutor(8, "calibrate") as pool:
        return collected(model, [result for result in pool.map(one, cases()) if result is not None])


def judge_case(model: ChatModel, case: Case) -> CaseResult:
    """One case judged. Never raises for a failed call."""
    given = _Given(case.passages)
    verdict = judge(model, case.question, case.expected, case.answer, given.retrieved, given.document)
    return CaseResult(case=case, judgement=verdict, correct=is_correct(case, verdict))


def collected(model: ChatModel, results: Sequence[CaseResult]) -> Calibration:
    """The calibration that judged cases make."""
    return Calibration(
        judge_model=model.model,
        results=tuple(results),
        usage=total([result.judgement.usage for result in results]),
        created_at=datetime.now(UTC),
    )


def is_correct(case: Case, verdict: Judgement) -> bool | None:
    """Whether a verdict is the one the case must get; None when there is no verdict."""
    status = verdict.status["hallucination"]
    if status == "not_applicable":
        return case.faithful is None
    if status != "scored":
        return None
    return case.faithful is not None and verdict.hallucination == (not case.faithful)


def total(usages: Sequence[UsageRecord]) -> UsageRecord:
    """The sum; an unknown cost makes the sum unknown."""
    costs = [usage.cost_usd for usage in usages]
    return UsageRecord(
        input_tokens=sum(usage.input_tokens for usage in usages),
        output_tokens=sum(usage.output_tokens for usage in usages),
        cached_input_tokens=sum(usage.cached_input_tokens for usage in usages),
        calls=sum(usage.calls for usage in usages),
        counted=any(usage.counted for usage in usages),
        cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
    )


@dataclass(frozen=True, slots=True)
class _Given:
    """Passages of a case as a document and what was delivered of it."""

    passages: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n\n".join(self.passages)

    def document(self, _: str) -> Document:
        size = len(self.text)
        return Document(
            document_id=ids.content_hash(self.text),
            name="calibration",
            media_type="text/plain",
            byte_size=size,
            sha256="",
            parser_version="calibration",
            structure=Structure(rule="none", confidence="none"),
            visible_characters=size,
            kept_characters=size,
            token_count=0,
            created_at=datetime.now(UTC),
            text=self.text,
            tree=Node(kind=NodeKind.DOCUMENT, span=Span(0, size)),
        )

    @property
    def retrieved(self) -> tuple[RetrievedChunk, ...]:
        hits = []
        start = 0
        for rank, passage in enumerate(self.passages, start=1):
            span = Span(start, start + len(passage))
            chunk = Chunk(
                chunk_id=ids.content_hash(passage),
                document_id=ids.content_hash(self.text),
                document_name="calibration",
                strategy_name="calibration",
                spec_id="calibration",
                chunk_index=rank - 1,
                total_chunks=len(self.passages),
                text=passage,
                span=span,
                token_count=0,
                character_count=len(passage),
                word_count=len(passage.split()),
                content_hash=ids.content_hash(passage),
            )
            hits.append(RetrievedChunk(chunk=chunk, score=1.0, rank=rank, delivered_span=span, delivered_text=passage))
            start = span.end + 2
        return tuple(hits)
