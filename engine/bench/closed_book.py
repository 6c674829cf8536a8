"""The closed-book baseline: a chat model answers from memory alone, since public texts may be part of what it was trained on.

A strategy whose answers are no better than these shows nothing about retrieval.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from engine import ids
from engine.answer import closed_book_request, generated
from engine.asking import in_words, status_of
from engine.bench import summary
from engine.bench.open_spec import Parts
from engine.judge import judge
from engine.models import StrategySpec
from engine.prompts import prompt
from engine.providers.base import ChatModel, Usage
from engine.records import Query, Question, QuestionResult, SpecResult, UsageRecord

SPEC = StrategySpec(strategy_name="closed_book", params={}, label="closed book (no documents)")
"""Not a chunking strategy: it stands beside them in the results and takes no part in comparisons of retrieval."""

SIMILARITY = summary.JUDGE + "answer_similarity"
"""The one judged measure that needs no delivered text."""


class ClosedBook:
    """Asks the questions of a benchmark without any document. Safe to use from several threads."""

    def __init__(self, parts: Parts, chat: ChatModel) -> None:
        self.spec = SPEC
        self._parts = parts
        self._chat = chat

    def ask(self, question: Question, repeat: int, seed: int | None) -> tuple[QuestionResult, Exception | None]:
        """One question, answered from memory and scored, and what went wrong. Never raises: a failure is a cell that says why."""
        cell = QuestionResult(question_id=question.question_id, spec_id=SPEC.spec_id, status="skipped", repeat=repeat)
        try:
            return self._asked(cell, question, seed), None
        except Exception as error:
            reason = in_words(error, "a closed-book question", self._parts.experiment.request_id)
            return cell.model_copy(update={"status": status_of(error), "error": reason}), error

    def _asked(self, cell: QuestionResult, question: Question, seed: int | None) -> QuestionResult:
        parts, experiment = self._parts, self._parts.experiment
        began = time.perf_counter()
        asked = closed_book_request(question.question, parts.limits.max_tokens, parts.limits.temperature)
        reply = self._chat.complete(replace(asked, seed=seed))
        answer = generated(reply, self._chat.model, (), parts.document)
        elapsed = time.perf_counter() - began
        query = Query(
            query_id=ids.new_id(),
            question=question.question,
            spec=SPEC,
            document_ids=(),
            answer=answer.text,
            answer_kind="generated",
            answered=answer.answered,
            top_k=experiment.plan.top_k,
            model=self._chat.model,
            embedding_model="none",
            prompt_version=prompt("answer_closed_book").version,
            seconds={"generate": elapsed, "total": elapsed},
            usage=UsageRecord(**reply.usage._asdict()),
            request_id=experiment.request_id,
            created_at=datetime.now(UTC),
        )
        spent: dict[str, Usage] = {"answer": reply.usage}
        usage = summary.recorded(spent)
        if experiment.plan.judge and parts.models.judge is not None:
            verdict = judge(
                parts.models.judge, question.question, question.answer, answer.text, (), parts.document, seed
            )
            query = query.model_copy(update={"judgement": verdict})
            usage = summary.added(usage, {"judge": verdict.usage})
        likeness = {
            name: score
            for name, score in summary.answer_metrics(question, query, parts.proxies).items()
            if name in ("answered", "abstained") or name.startswith("answer_")
        }
        judged = summary.judged_metrics(query.judgement)
        # Without delivered text there is nothing to be faithful to.
        similarity = {name: score for name, score in judged.items() if name == SIMILARITY}
        missing = {name: why for name, why in summary.unjudged(query.judgement).items() if name == SIMILARITY}
        return cell.model_copy(
            update={
                "status": "scored",
                "query": query,
                "metrics": {**likeness, **similarity},
                "unscored": missing,
                "seconds": dict(query.seconds),
                "usage": usage,
            }
        )

    def summary(self, cells: Sequence[QuestionResult]) -> SpecResult:
        """The row of the baseline, from its stored cells."""
        usage = summary.added(*(cell.usage for cell in cells))
        return SpecResult(
            spec=SPEC,
            metrics=summary.summarise(cells),
            seconds=summary.query_latencies(cells),
            usage=summary.total(usage),
            usage_by_purpose=usage,
        )

    def give_up(self) -> None:
        """Nothing to let go of."""
