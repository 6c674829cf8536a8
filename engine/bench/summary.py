"""From the cells of one strategy spec to its row: means, latencies, spending, measures of the cut."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from engine.judge.scores import MEASURES
from engine.metrics.answers import score_answer
from engine.providers.base import NO_USAGE, Embedder, Usage
from engine.records import CellStatus, Judgement, MetricValue, Query, Question, QuestionResult, UsageRecord

JUDGE = "judge."
"""Prefix of the values a judge model gave."""
QUERY_STAGES = ("retrieve", "generate", "judge")
COUNTED = ("chunks", "lost_characters")
"""Measures of the cut that are summed over documents; the others are averaged."""


def answer_metrics(question: Question, query: Query, embedder: Embedder) -> dict[str, float]:
    """What can be said about an answer without a judge.

    An extractive answer is made of the delivered text, so only its likeness to the expected answer says anything.
    """
    if query.answer_kind == "none":
        return {}
    counted = {"answered": float(query.answered)} if question.answerable else {"abstained": float(not query.answered)}
    if not query.answered:
        return counted
    delivered = [hit.delivered_text for hit in query.retrieved if hit.delivered_span is not None]
    scores = score_answer(query.answer, delivered, question.answer, embedder)
    if query.answer_kind == "extractive":
        scores = {name: score for name, score in scores.items() if name.startswith("answer_")}
    return counted | scores


def judged_metrics(judgement: Judgement | None) -> dict[str, float]:
    """The judge's scores that there are, by stored name; hallucination as 1.0 or 0.0."""
    if judgement is None:
        return {}
    scores = {measure: getattr(judgement, measure) for measure in MEASURES}
    return {JUDGE + measure: float(score) for measure, score in scores.items() if score is not None}


def unjudged(judgement: Judgement | None) -> dict[str, CellStatus]:
    """The judge's measures without a score, and why."""
    if judgement is None:
        return {}
    return {JUDGE + measure: status for measure, status in judgement.status.items() if status != "scored"}


def summarise(cells: Sequence[QuestionResult]) -> tuple[MetricValue, ...]:
    """Means over the questions each metric was scored on; repeats of a question are averaged first.

    A question without a value of a metric counts as unscored for it, by cause.
    """
    names = sorted({name for cell in cells for name in (*cell.metrics, *cell.unscored)})
    questions: dict[str, list[QuestionResult]] = {}
    for cell in cells:
        questions.setdefault(cell.question_id, []).append(cell)
    values = []
    for name in names:
        scored: list[float] = []
        causes: dict[str, int] = {}
        for repeats in questions.values():
            own = [cell.metrics[name] for cell in repeats if name in cell.metrics]
            if own:
                scored.append(math.fsum(own) / len(own))
            else:
                cause = _cause(repeats[0], name)
                causes[cause] = causes.get(cause, 0) + 1
        mean = float(np.mean(scored)) if scored else None
        values.append(MetricValue(metric=name, value=mean, n=len(scored), unscored=causes))
    return tuple(values)


def _cause(cell: QuestionResult, name: str) -> CellStatus:
    """Why a question has no value of a metric."""
    return cell.status if cell.status != "scored" else cell.unscored.get(name, "not_applicable")


def latency(stage: str, values: Sequence[float]) -> dict[str, float]:
    """Sum, median and 95th percentile of a stage, in seconds: `chunk`, `chunk_p50`, `chunk_p95`. Empty without values."""
    if not values:
        return {}
    p50, p95 = np.percentile(values, [50, 95])
    return {stage: math.fsum(values), f"{stage}_p50": float(p50), f"{stage}_p95": float(p95)}


def query_latencies(cells: Iterable[QuestionResult]) -> dict[str, float]:
    """Latencies of what happens per question."""
    found: dict[str, float] = {}
    spent = [cell.seconds for cell in cells]
    for stage in QUERY_STAGES:
        found |= latency(stage, [seconds[stage] for seconds in spent if stage in seconds])
    return found


def joined_quality(per_document: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Measures of the cut of several documents as one: counts summed, the rest averaged by chunks over the documents that have them."""
    joined: dict[str, float] = {}
    for name in dict.fromkeys(name for values in per_document for name in values):
        own = [(values[name], max(1.0, values.get("chunks", 1.0))) for values in per_document if name in values]
        total = math.fsum(value if name in COUNTED else value * weight for value, weight in own)
        joined[name] = total if name in COUNTED else total / math.fsum(weight for _, weight in own)
    return joined


def added(*usages: Mapping[str, UsageRecord]) -> dict[str, UsageRecord]:
    """Usage by purpose, summed."""
    totals: dict[str, Usage] = {}
    for each in usages:
        for purpose, usage in each.items():
            totals[purpose] = totals.get(purpose, NO_USAGE).plus(Usage(**usage.model_dump()))
    return {purpose: UsageRecord(**usage._asdict()) for purpose, usage in totals.items()}


def total(by_purpose: Mapping[str, UsageRecord]) -> UsageRecord:
    """Usage over all purposes."""
    summed = NO_USAGE
    for usage in by_purpose.values():
        summed = summed.plus(Usage(**usage.model_dump()))
    return UsageRecord(**summed._asdict())


def recorded(by_purpose: Mapping[str, Usage]) -> dict[str, UsageRecord]:
    return {purpose: UsageRecord(**usage._asdict()) for purpose, usage in by_purpose.items()}
