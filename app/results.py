"""An experiment as tables and figures: what the Benchmark and History pages draw. Numbers come from the engine; here they are arranged."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from app.text import counted
from app.theme import titled
from engine import Workbench, stats
from engine.bench.conclude import conclude
from engine.bench.summary import summarise
from engine.metrics import describe, worst_case
from engine.metrics.thresholds import check_thresholds
from engine.recent import Recent
from engine.recommend import experiment_costs, matrix, measured_metrics, primary_of
from engine.records import Experiment, QuestionResult, SpecResult, Statistics

PARTIAL_SECONDS = 3.0
"""How long the first results of a run stand at least."""
BUDGETS = (500, 1000, 2000, 4000)
Key = tuple[str, str, str]
_experiments: Recent[Key, Experiment] = Recent(8)
_statistics: Recent[Key, Statistics] = Recent(8)
_partial: Recent[tuple[str, str], tuple[Experiment, float]] = Recent(4)
"""Runs that have not ended, each with the time after which it is read again."""
_measured: Recent[tuple[Any, ...], list[str]] = Recent(8)
_frames: Recent[tuple[Any, ...], pd.DataFrame] = Recent(64)


def load(workbench: Workbench, experiment_id: str) -> Experiment:
    """The experiment without its answers, and without its cells while it is running; an ended one is read once. Raises NotFound."""
    summary = next((each for each in workbench.experiments() if each.experiment_id == experiment_id), None)
    if summary is None or summary.status == "running":
        light = workbench.experiment(experiment_id, queries=False, cells=False)
        # It may have ended since it was listed.
        return light if light.status == "running" else workbench.experiment(experiment_id, queries=False)
    return _experiments.get_or_make(
        (experiment_id, summary.status, str(summary.finished_at)),
        lambda: workbench.experiment(experiment_id, queries=False),
    )


def identity(experiment: Experiment) -> Key:
    """What the content of a table or figure about an experiment depends on."""
    return (experiment.experiment_id, experiment.status, str(experiment.finished_at))


def statistics(experiment: Experiment) -> Statistics:
    """What the experiment says; computed here for one that ended early and has none stored."""
    return experiment.statistics or _statistics.get_or_make(identity(experiment), lambda: conclude(experiment))


def so_far(experiment: Experiment) -> Experiment:
    """A run that has not ended, with the means over the questions finished so far as its results."""
    finished: dict[str, list[QuestionResult]] = {}
    for cell in experiment.cells:
        finished.setdefault(cell.spec_id, []).append(cell)
    results = tuple(
        SpecResult(spec=spec, metrics=summarise(finished[spec.spec_id]))
        for spec in experiment.specs
        if spec.spec_id in finished
    )
    return experiment.model_copy(update={"results": results})


def partial(workbench: Workbench, experiment_id: str) -> Experiment:
    """A run that has not ended, as `so_far`. Read and counted once for all sessions of a user, and in a tenth of the time at most:
    both take longer the more is finished. Raises NotFound."""
    key = (workbench.user, experiment_id)
    known, began = _partial.get(key), time.monotonic()
    if known is not None and began < known[1]:
        return known[0]
    made = so_far(workbench.experiment(experiment_id, queries=False))
    now = time.monotonic()
    return _partial.keep(key, (made, now + max(PARTIAL_SECONDS, 9 * (now - began))))[0]


def finished_counts(experiment: Experiment) -> dict[str, int]:
    """Questions finished per spec id; repeats of one question count once."""
    seen = {(cell.spec_id, cell.question_id) for cell in experiment.cells}
    return dict(Counter(spec_id for spec_id, _ in seen))


def labels(experiment: Experiment) -> dict[str, str]:
    """Distinct labels by spec id, the strategies first; a result without documents, such as the closed book, follows them."""
    named = {spec.spec_id: label for spec, label in zip(experiment.specs, titled(experiment.specs), strict=True)}
    return named | {each.spec.spec_id: each.spec.label for each in experiment.results if each.spec.spec_id not in named}


def primary_metric(experiment: Experiment) -> str | None:
    """The metric the conclusion rests on, where any question was scored on one."""
    return primary_of(_measured_metrics(experiment))


def left_out(experiment: Experiment) -> str:
    """Which questions the conclusion of a finished run does not rest on, and why; empty when it rests on all. A partial one says it itself."""
    verdict = statistics(experiment).verdict
    whole = len(experiment.questions)
    if experiment.status != "finished" or verdict is None or verdict.n >= whole:
        return ""
    unanswerable = sum(not question.answerable for question in experiment.questions)
    lost = sum(question.answerable and not question.gold for question in experiment.questions)
    unscored = whole - verdict.n - unanswerable - lost
    reasons = [
        f"{number} {why}"
        for number, why in (
            (unanswerable, "marked as unanswerable"),
            (lost, "without evidence that was found"),
            (unscored, "without a score under some strategy"),
        )
        if number > 0
    ]
    return f"{whole - verdict.n} of {counted(whole, 'question')} take no part: {', '.join(reasons)}."


def _measured_metrics(experiment: Experiment) -> list[str]:
    return _measured.get_or_make((*identity(experiment), len(experiment.cells)), lambda: measured_metrics(experiment))


def headline_metrics(experiment: Experiment) -> list[str]:
    """The metrics of the heat map, as far as they were measured: quality at equal tokens first, then at k, then answers."""
    k = experiment.plan.top_k
    wanted = [
        "delivered.recall@1000tok",
        "recall@1000tok",
        "precision@1000tok",
        "iou@1000tok",
        "mrr",
        f"recall@{k}",
        f"delivered.tokens@{k}",
        "intact_rate",
        "judge.faithfulness",
        "judge.hallucination",
        "judge.context_relevance",
        "judge.answer_similarity",
        "answer_token_f1",
    ]
    measured = set(_measured_metrics(experiment))
    primary = primary_metric(experiment)
    found = [name for name in wanted if name in measured]
    return sorted(found, key=lambda name: name != primary)


def scorable_metrics(experiment: Experiment) -> list[str]:
    """Headline metrics that have a better direction, so that strategies can be compared on them."""
    return [name for name in headline_metrics(experiment) if describe(name).metric.direction != "none"]


def title(metric: str) -> str:
    return describe(metric).title


def explained(metric: str) -> str:
    """Definition and direction, for help texts."""
    about = describe(metric)
    better = {"higher": "More is better.", "lower": "Less is better.", "none": "It only describes."}
    note = (
        " At a fixed number of chunks, strategies with larger chunks deliver more text." if about.unequal_tokens else ""
    )
    return f"{about.definition}. {better[about.metric.direction]}{note}"


def heat(experiment: Experiment, metrics: Sequence[str]) -> pd.DataFrame:
    """One row per spec and metric: spec_id, strategy, name, metric, title, value, shown, shade, n, failed.

    `shade` runs from 0 (worst of the strategies) to 1 (best); 0.5 where nothing is better or all are equal.
    """
    named = labels(experiment)
    base = experiment.plan.baseline or experiment.specs[0].spec_id
    rows = []
    for metric in metrics:
        about = describe(metric)
        values = {
            result.spec.spec_id: value
            for result in experiment.results
            for value in result.metrics
            if value.metric == metric
        }
        known = [value.value for value in values.values() if value.value is not None]
        for result in experiment.results:
            found = values.get(result.spec.spec_id)
            value = found.value if found else None
            rows.append(
                {
                    "spec_id": result.spec.spec_id,
                    "strategy": named[result.spec.spec_id] + (" (baseline)" if result.spec.spec_id == base else ""),
                    "name": result.spec.strategy_name,
                    "metric": metric,
                    "title": about.title,
                    "value": value,
                    "shown": shown(metric, value),
                    "shade": _shade(value, known, about.metric.direction),
                    "n": found.n if found else 0,
                    "not scored": sum(found.unscored.values()) if found else 0,
                }
            )
    return pd.DataFrame(rows)


def _shade(value: float | None, known: Sequence[float], direction: str) -> float | None:
    if value is None:
        return None
    low, high = min(known), max(known)
    if direction == "none" or high - low < 1e-12:
        return 0.5
    share = (value - low) / (high - low)
    return 1 - share if direction == "lower" else share


def shown(metric: str, value: float | None) -> str:
    if value is None or math.isnan(value):
        return "–"
    if describe(metric).metric.unit in ("tokens", "characters", "count"):
        return f"{value:,.0f}"
    # Three digits, without the zero in front, so that many columns fit beside each other.
    digits = 3 if abs(value) < 1 else 2 if abs(value) < 10 else 1
    return f"{value:.{digits}f}".replace("0.", ".", 1) if 0 < value < 0.9995 else f"{value:.{digits}f}"


def wide(experiment: Experiment, metrics: Sequence[str]) -> pd.DataFrame:
    """The table twin of the heat map: one row per spec."""
    frame = heat(experiment, metrics)
    n = {result.spec.spec_id: max((value.n for value in result.metrics), default=0) for result in experiment.results}
    rows = []
    for result in experiment.results:
        own = frame[frame["spec_id"] == result.spec.spec_id]
        rows.append(
            {
                "strategy": own["strategy"].iloc[0] if len(own) else labels(experiment)[result.spec.spec_id],
                "status": result.error or result.status,
                "chunks": result.chunk_count,
                "questions scored": n[result.spec.spec_id],
                **dict(zip(own["title"], own["value"], strict=True)),
            }
        )
    return pd.DataFrame(rows)


def forest(experiment: Experiment, metric: str) -> pd.DataFrame:
    """Paired differences to the baseline with interval and verdict: strategy, name, difference, low, high, p, n, verdict."""
    named = labels(experiment)
    names = {spec.spec_id: spec.strategy_name for spec in experiment.specs}
    rows = [
        {
            "strategy": named[each.spec_id],
            "name": names[each.spec_id],
            "difference": each.difference,
            "low": each.low,
            "high": each.high,
            "adjusted p": each.p_holm,
            "questions": each.n,
            "smallest detectable": each.detectable,
            "verdict": verdict(each.low, each.high, each.p_holm, describe(metric).metric.direction),
        }
        for each in statistics(experiment).comparisons
        if each.metric == metric and each.difference is not None
    ]
    columns = ["strategy", "name", "difference", "low", "high", "adjusted p", "questions"]
    return pd.DataFrame(rows, columns=[*columns, "smallest detectable", "verdict"])


BETTER, UNCLEAR, WORSE = "▲ better", "● unclear", "▼ worse"


def verdict(low: float | None, high: float | None, p: float | None, direction: str) -> str:
    """Whether a difference counts: interval off 0 and adjusted p at most 5 %."""
    if low is None or high is None or p is None or p > stats.ALPHA or low <= 0 <= high:
        return UNCLEAR
    return BETTER if (low > 0) == (direction == "higher") else WORSE


def cost_criteria(experiment: Experiment) -> list[str]:
    """What strategies can be weighed against, as far as it was measured and differs."""
    costs = experiment_costs(experiment, [spec.spec_id for spec in experiment.specs])
    return [cost.criterion for cost in costs if len({value for value in cost.values if value is not None}) > 1]


def pareto(experiment: Experiment, metric: str, criterion: str) -> pd.DataFrame:
    """Mean quality with its interval against a cost: strategy, name, cost, quality, low, high, frontier."""
    key = ("pareto", *identity(experiment), metric, criterion)
    return _frames.get_or_make(key, lambda: _pareto(experiment, metric, criterion))


def _pareto(experiment: Experiment, metric: str, criterion: str) -> pd.DataFrame:
    spec_ids = [spec.spec_id for spec in experiment.specs]
    cost = next(each for each in experiment_costs(experiment, spec_ids) if each.criterion == criterion)
    means = stats.paired(matrix(experiment, metric).T, stats.cluster_keys(experiment.questions), experiment.plan.seed)
    rows = [
        {
            "strategy": labels(experiment)[spec.spec_id],
            "name": spec.strategy_name,
            "cost": cost.values[place],
            "quality": float(means.difference[place]),
            "low": float(means.low[place]),
            "high": float(means.high[place]),
        }
        for place, spec in enumerate(experiment.specs)
        if cost.values[place] is not None and not math.isnan(means.difference[place])
    ]
    frame = pd.DataFrame(rows, columns=["strategy", "name", "cost", "quality", "low", "high"])
    frame = frame.sort_values(["cost", "quality"], ascending=[True, False], ignore_index=True)
    sign = -1.0 if describe(metric).metric.direction == "lower" else 1.0
    best = (sign * frame["quality"]).cummax().shift(fill_value=-math.inf)
    return frame.assign(frontier=np.where(sign * frame["quality"] > best, "yes", "no"))


def budget_curve(experiment: Experiment, delivered: bool) -> pd.DataFrame:
    """Recall after 500 to 4,000 tokens of retrieved text: strategy, name, tokens, recall."""
    prefix = "delivered." if delivered else ""
    rows = [
        {
            "strategy": labels(experiment)[result.spec.spec_id],
            "name": result.spec.strategy_name,
            "tokens": budget,
            "recall": value.value,
        }
        for result in experiment.results
        for value in result.metrics
        for budget in BUDGETS
        if value.metric == f"{prefix}recall@{budget}tok" and value.value is not None
    ]
    frame = pd.DataFrame(rows, columns=["strategy", "name", "tokens", "recall"])
    return frame.sort_values(["strategy", "tokens"], ignore_index=True)


STAGES = ("parse", "chunk", "enrich", "embed", "upsert")
ASKED_STAGES = ("retrieve", "generate", "judge")


def latency(experiment: Experiment) -> pd.DataFrame:
    """Seconds of indexing per stage, and per question the median and 95th percentile: strategy, stage, phase, seconds, p95."""
    rows = []
    for result in experiment.results:
        label = labels(experiment)[result.spec.spec_id]
        for stage in STAGES:
            if stage in result.seconds:
                rows.append((label, stage, "indexing, whole corpus", result.seconds[stage], None))
        for stage in ASKED_STAGES:
            if f"{stage}_p50" in result.seconds:
                middle, high = result.seconds[f"{stage}_p50"], result.seconds.get(f"{stage}_p95")
                rows.append((label, stage, "one question, median", middle, high))
    return pd.DataFrame(rows, columns=["strategy", "stage", "phase", "seconds", "95th percentile"])


def per_question(experiment: Experiment, metric: str, least: float, only_different: bool) -> pd.DataFrame:
    """Scores of the baseline and differences to it, question by question, the largest regression first.

    `only_different`: leave out questions on which no strategy differs from the baseline by at least `least`.
    """
    values = matrix(experiment, metric)
    base = [spec.spec_id for spec in experiment.specs].index(statistics(experiment).baseline)
    sign = -1.0 if describe(metric).metric.direction == "lower" else 1.0
    differences = sign * (values - values[base])
    others = [place for place in range(len(experiment.specs)) if place != base]
    known = np.where(np.isnan(differences), 0.0, differences)
    worst = known[others].min(axis=0) if others else np.zeros(values.shape[1])
    largest = np.abs(known[others]).max(axis=0) if others else np.zeros(values.shape[1])
    order = [
        int(column)
        for column in np.lexsort((-largest, worst))
        if (not only_different or largest[column] >= max(least, 1e-12)) and not np.isnan(values[base, column])
    ]
    named = titled(experiment.specs)
    return pd.DataFrame(
        {
            "question_id": experiment.questions[column].question_id,
            "question": experiment.questions[column].question,
            "tags": ", ".join(experiment.questions[column].tags),
            f"{named[base]} (baseline)": values[base, column],
            **{f"Δ {named[place]}": values[place, column] - values[base, column] for place in others},
        }
        for column in order
    )


def wins(experiment: Experiment, metric: str) -> pd.DataFrame:
    """Questions won, tied and lost against the baseline, per strategy."""
    values = matrix(experiment, metric)
    base = [spec.spec_id for spec in experiment.specs].index(statistics(experiment).baseline)
    sign = -1.0 if describe(metric).metric.direction == "lower" else 1.0
    rows = []
    for place, label in enumerate(titled(experiment.specs)):
        if place == base:
            continue
        gap = sign * (values[place] - values[base])
        gap = gap[~np.isnan(gap)]
        rows.append(
            {
                "strategy": label,
                "wins": int((gap > 1e-9).sum()),
                "ties": int((np.abs(gap) <= 1e-9).sum()),
                "losses": int((gap < -1e-9).sum()),
            }
        )
    return pd.DataFrame(rows, columns=["strategy", "wins", "ties", "losses"])


UNIT_BINS = ("0", "above 0 to ¼", "¼ to ½", "½ to ¾", "¾ to below 1", "1")


def spread(experiment: Experiment, metric: str) -> pd.DataFrame:
    """How many questions of each strategy score how much: strategy, scores, questions, share, shade, shown.

    Scores from 0 to 1 have bins of their own for exactly 0 and exactly 1, where such scores pile up; others get six equal bins.
    """
    values = matrix(experiment, metric)
    known = values[~np.isnan(values)]
    columns = ["strategy", "scores", "questions", "share", "shade", "shown"]
    if not known.size:
        return pd.DataFrame(columns=columns)
    if describe(metric).metric.unit in ("share", "score") and known.min() >= 0 and known.max() <= 1:
        names, edges = list(UNIT_BINS), np.array([1e-9, 0.25, 0.5, 0.75, 1 - 1e-9])
    else:
        ends = np.linspace(known.min(), known.max(), 7) if np.ptp(known) else np.array([known[0], known[0]])
        form = ",.0f" if np.ptp(known) > 20 else ".1f"
        names, edges = [f"{low:{form}} to {high:{form}}" for low, high in itertools.pairwise(ends)], ends[1:-1]
    rows = []
    for label, scores in zip(titled(experiment.specs), values, strict=True):
        own = scores[~np.isnan(scores)]
        counts = np.bincount(np.digitize(own, edges), minlength=len(names)) if own.size else np.zeros(len(names), int)
        for name, count in zip(names, counts, strict=True):
            share = float(count / own.size) if own.size else math.nan
            rows.append((label, name, int(count), share, None if math.isnan(share) else share, _percent(share)))
    return pd.DataFrame(rows, columns=columns)


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{share:.0%}"


def thresholds(experiment: Experiment) -> pd.DataFrame:
    """The five rules of thumb per strategy."""
    rows = []
    for result in experiment.results:
        values = {value.metric: value.value for value in result.metrics}
        checked = check_thresholds({**values, **result.quality})
        rows.append(
            {"strategy": labels(experiment)[result.spec.spec_id]}
            | {
                f"{each.threshold.label} {each.threshold.words}": each.outcome
                if each.value is None
                else f"{each.outcome} ({each.value:.2f})"
                for each in checked
            }
        )
    return pd.DataFrame(rows)


def scored(experiment: Experiment, metrics: Sequence[str]) -> pd.DataFrame:
    """For every metric and strategy: questions scored, those that were not, by cause, and how far the mean could lie off for them."""
    named, rows = labels(experiment), []
    for result in experiment.results:
        values = {value.metric: value for value in result.metrics}
        for metric in metrics:
            value = values.get(metric)
            causes = value.unscored if value else {}
            bounds = worst_case(value) if value else None
            rows.append(
                {
                    "strategy": named[result.spec.spec_id],
                    "metric": title(metric),
                    "scored": value.n if value else 0,
                    "not scored": ", ".join(f"{count} {cause.replace('_', ' ')}" for cause, count in causes.items()),
                    "mean at worst and at best": f"{bounds.low:.2f} to {bounds.high:.2f}"
                    if bounds and bounds.missing
                    else "",
                }
            )
    return pd.DataFrame(rows)


def facts(experiment: Experiment) -> pd.DataFrame:
    """What is needed to trust and to repeat the experiment."""
    rows: dict[str, str] = {
        "experiment": experiment.experiment_id,
        "request id": experiment.request_id,
        "started": f"{experiment.created_at:%Y-%m-%d %H:%M:%S}",
        "ended": f"{experiment.finished_at:%Y-%m-%d %H:%M:%S}" if experiment.finished_at else "",
        "question set": f"{experiment.question_set_name}, {len(experiment.questions)} questions",
        "embeddings": experiment.embedding_model,
        "answers": experiment.llm_model or "extractive, no LLM",
        "judge": experiment.judge_model or "none",
        "retrieval": f"{experiment.plan.retriever}, {experiment.plan.top_k} chunks",
        "repeats and seed": f"{experiment.plan.repeats}, {experiment.plan.seed}",
    }
    rows |= {f"document {document.name}": f"sha256 {document.sha256}" for document in experiment.documents}
    rows |= {f"version of {name}": version for name, version in experiment.versions.items()}
    rows |= {f"setting {name}": str(value) for name, value in experiment.settings.items()}
    return pd.DataFrame({"what": list(rows), "value": list(rows.values())})
