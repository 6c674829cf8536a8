"""An experiment as a report shows it: rows, sentences and excerpts, with every number already written out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine import recommend, stats
from engine.bench.conclude import conclusions
from engine.bench.history import direction
from engine.bench.summary import JUDGE
from engine.errors import BadParameter
from engine.metrics import describe
from engine.metrics.retrieval import BUDGETS
from engine.records import Comparison, Experiment, SpecResult

STAGES = ("parse", "chunk", "enrich", "embed", "upsert", "retrieve", "generate", "judge")
MEASURES = (
    "recall@1000tok",
    "precision@1000tok",
    "iou@1000tok",
    "ndcg@1000tok",
    "mrr",
    "intact_rate",
    "delivered.recall@1000tok",
    "judge.faithfulness",
    "judge.hallucination",
    "judge.answer_similarity",
    "judge.context_relevance",
)
"""Columns of the table of measures, where they were measured."""
QUALITY = (
    "chunks",
    "coverage",
    "lost_characters",
    "duplicated_share",
    "break_rate",
    "headings_kept",
    "tables_intact",
    "lists_intact",
    "size_p5",
    "size_p50",
    "size_p95",
    "over_limit",
)
"""Columns of the table about the cut itself; the exports have all of them."""
CAUSES = {
    "not_applicable": "not applicable (a question without evidence, or nothing to judge)",
    "invalid_output": "the model's reply was not usable",
    "rate_limited": "rate limited",
    "timeout": "timed out",
    "unavailable": "the model was out of reach",
}
"""Causes in words, where their names need some."""


@dataclass(frozen=True)
class Row:
    """One strategy in a table."""

    label: str
    cells: tuple[str, ...]
    note: str = ""
    marked: bool = False
    """The proposed one."""


@dataclass(frozen=True)
class Grid:
    """A table."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    caption: str = ""


@dataclass(frozen=True)
class Fact:
    name: str
    value: str


@dataclass(frozen=True)
class View:
    """Everything the template draws."""

    name: str
    created: str
    status: str
    error: str
    recommendation: str
    note: str
    metric: str
    metric_title: str
    strategies: Grid
    measures: Grid
    quality: Grid
    latency: Grid
    spending: Grid
    unscored: Grid
    documents: Grid
    facts: tuple[Fact, ...]
    settings: tuple[Fact, ...]
    versions: tuple[Fact, ...]
    definitions: tuple[Fact, ...]
    charts: Mapping[str, Any] = field(default_factory=dict)
    """Rows for the charts, by name."""


def view(experiment: Experiment, note: str = "") -> View:
    """The report of an experiment; its cells may come without their queries."""
    statistics = conclusions(experiment)
    experiment = experiment.model_copy(update={"statistics": statistics})
    why_not = "This run has not ended" if experiment.status == "running" else "This run ended before its first answer"
    labels = labels_of(experiment)
    verdict = statistics.verdict if statistics else None
    metric = verdict.metric if verdict and verdict.metric else recommend.primary_metric(experiment) or ""
    values = {result.spec.spec_id: {each.metric: each for each in result.metrics} for result in experiment.results}
    measured = [name for name in MEASURES if any(name in each for each in values.values())]
    return View(
        name=experiment.name,
        created=f"{experiment.created_at:%Y-%m-%d %H:%M} UTC",
        status=experiment.status,
        error=experiment.error or "",
        recommendation=statistics.recommendation if statistics else f"{why_not}, so nothing is concluded.",
        note=note,
        metric=metric,
        metric_title=title_of(metric) if metric else "",
        strategies=_strategies(experiment, labels, metric),
        measures=_grid(
            experiment,
            labels,
            tuple(title_of(name) for name in measured),
            lambda result: tuple(
                number(values[result.spec.spec_id][name].value) if name in values[result.spec.spec_id] else "–"
                for name in measured
            ),
        ),
        quality=_quality(experiment, labels),
        latency=_latency(experiment, labels),
        spending=_spending(experiment, labels),
        unscored=_unscored(experiment, labels, [name for name in (metric, *measured) if name]),
        documents=Grid(
            ("tokens", "sha256", "parser"),
            tuple(
                Row(each.name, (f"{each.token_count:,}", each.sha256, each.parser_version))
                for each in experiment.documents
            ),
        ),
        facts=_facts(experiment),
        settings=tuple(Fact(name.upper(), str(value)) for name, value in experiment.settings.items()),
        versions=(
            *(Fact(name, version) for name, version in experiment.versions.items()),
            *(Fact(f"prompt {name}", f"version {version}") for name, version in experiment.prompts.items()),
        ),
        definitions=_definitions(dict.fromkeys([name for name in (metric, *measured) if name])),
        charts=_charts(experiment, labels, metric),
    )


def labels_of(experiment: Experiment) -> dict[str, str]:
    """By spec id; every label names one spec. A result without documents, such as the closed book, follows the strategies."""
    ids = [spec.spec_id for spec in experiment.specs]
    names = recommend.distinct_labels([spec.label for spec in experiment.specs], ids)
    more = {each.spec.spec_id: each.spec.label for each in experiment.results if each.spec.spec_id not in ids}
    return dict(zip(ids, names, strict=True)) | more


def title_of(metric: str) -> str:
    if metric.startswith(JUDGE):
        words = metric.removeprefix(JUDGE).replace("_", " ")
        return f"{words[:1].upper()}{words[1:]} (judge)"
    try:
        return describe(metric).title
    except BadParameter:
        return metric


def number(value: float | None) -> str:
    """As a report writes it: three digits that count."""
    if value is None or math.isnan(value):
        return "–"
    if value and abs(value) < 0.0005:
        return f"{value:.1e}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) >= 10 else f"{value:.3f}"


def measure(name: str, value: float | None) -> str:
    """A value as its unit asks: counts, characters and tokens whole."""
    if value is not None and describe(name).metric.unit not in ("share", "chunks"):
        return f"{value:,.0f}"
    return number(value)


def dollars(value: float | None) -> str:
    return "unknown" if value is None else f"${value:,.4f}" if value else "$0"


def _strategies(experiment: Experiment, labels: Mapping[str, str], metric: str) -> Grid:
    """The main table: how good, how sure, how dear."""
    statistics = experiment.statistics
    verdict = statistics.verdict if statistics else None
    compared = {each.spec_id: each for each in statistics.comparisons if each.metric == metric} if statistics else {}
    results = {result.spec.spec_id: result for result in experiment.results}
    k = experiment.plan.top_k
    rows = []
    for spec_id, label in labels.items():
        result = results.get(spec_id)
        if result is None or result.status == "failed":
            reason = (result.error if result else None) or "not run"
            rows.append(Row(label, ("–",) * 8, f"failed: {reason}"))
            continue
        values = {each.metric: each for each in result.metrics}
        main, size = values.get(metric), values.get(f"delivered.tokens@{k}") or values.get(f"tokens@{k}")
        rows.append(
            Row(
                label,
                (
                    number(main.value if main else None),
                    str(main.n if main else 0),
                    _difference(compared.get(spec_id), spec_id, statistics.baseline if statistics else ""),
                    _group(label, verdict.groups if verdict else ()),
                    number(size.value if size else None),
                    f"{result.chunk_count:,}",
                    seconds(result.seconds.get("retrieve_p50")),
                    dollars(result.usage.cost_usd),
                ),
                marked=verdict is not None and verdict.proposal == label,
            )
        )
    heads = (
        title_of(metric) if metric else "Score",
        "n",
        "against the baseline",
        "group",
        f"tokens at {k} chunks",
        "chunks",
        "search, median",
        "cost",
    )
    return Grid(heads, tuple(rows))


def _difference(found: Comparison | None, spec_id: str, baseline: str) -> str:
    if spec_id == baseline:
        return "baseline"
    if found is None or found.difference is None:
        return "–"
    if found.low is None or found.high is None:
        return f"{found.difference:+.3f} (no interval)"
    p = "" if found.p_holm is None else f", p {found.p_holm:.3f}"
    return f"{found.difference:+.3f} ({found.low:+.3f} to {found.high:+.3f}{p})"


def _group(label: str, groups: Sequence[Any]) -> str:
    for place, group in enumerate(groups, start=1):
        if label in group.labels:
            return str(place)
    return "–"


def seconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value * 1000:,.1f} ms" if value < 1 else f"{value:,.2f} s"


def _grid(
    experiment: Experiment,
    labels: Mapping[str, str],
    columns: tuple[str, ...],
    cells: Callable[[SpecResult], tuple[str, ...]],
    caption: str = "",
) -> Grid:
    """A table over the specs that gave a result."""
    worked = [result for result in experiment.results if result.status == "ok"]
    return Grid(columns, tuple(Row(labels[result.spec.spec_id], cells(result)) for result in worked), caption)


def _quality(experiment: Experiment, labels: Mapping[str, str]) -> Grid:
    names = [name for name in QUALITY if any(name in result.quality for result in experiment.results)]
    return _grid(
        experiment,
        labels,
        tuple(title_of(name) for name in names),
        lambda result: tuple(measure(name, result.quality.get(name)) for name in names),
    )


def _latency(experiment: Experiment, labels: Mapping[str, str]) -> Grid:
    stages = [stage for stage in STAGES if any(stage in result.seconds for result in experiment.results)]
    return _grid(
        experiment,
        labels,
        tuple(stages),
        lambda result: tuple(
            f"{seconds(result.seconds.get(f'{stage}_p50'))} / {seconds(result.seconds.get(f'{stage}_p95'))}"
            if stage in result.seconds
            else "–"
            for stage in stages
        ),
        "Median / 95th percentile, per document up to upsert and per question from retrieve on.",
    )


def _spending(experiment: Experiment, labels: Mapping[str, str]) -> Grid:
    def cells(result: SpecResult) -> tuple[str, ...]:
        usage = result.usage
        by_purpose = ", ".join(
            f"{purpose} {dollars(each.cost_usd)}" for purpose, each in result.usage_by_purpose.items() if each.calls
        )
        size = "–" if result.index_bytes is None else f"{result.index_bytes / 1e6:,.2f} MB"
        return (
            f"{usage.calls:,}",
            f"{usage.input_tokens:,}",
            f"{usage.output_tokens:,}",
            dollars(usage.cost_usd),
            by_purpose or "–",
            size,
        )

    total = actual_cost(experiment)
    return _grid(
        experiment,
        labels,
        ("calls", "input tokens", "output tokens", "cost", "by purpose", "vectors"),
        cells,
        f"Estimated before the run: {dollars(experiment.estimated_cost_usd)}. Spent: {dollars(total)}.",
    )


def actual_cost(experiment: Experiment) -> float | None:
    """USD of the whole run; None when a price is unknown."""
    costs = [result.usage.cost_usd for result in experiment.results]
    if experiment.calibration is not None:
        costs.append(experiment.calibration.usage.cost_usd)
    return None if any(cost is None for cost in costs) else math.fsum(cost or 0.0 for cost in costs)


def _unscored(experiment: Experiment, labels: Mapping[str, str], metrics: Sequence[str]) -> Grid:
    """What has no score, and why: failed is not zero."""
    rows: list[Row] = []
    names = {document.document_id: document.name for document in experiment.documents}
    for result in experiment.results:
        label = labels[result.spec.spec_id]
        if result.status == "failed":
            rows.append(Row(label, ("everything", "failed", result.error or "")))
        for document_id, reason in result.document_errors.items():
            rows.append(Row(label, (names.get(document_id, document_id), "document failed", reason)))
    rows.extend(_unscored_metrics(experiment, labels, metrics))
    return Grid(("what", "how much", "why"), tuple(rows))


def _unscored_metrics(experiment: Experiment, labels: Mapping[str, str], metrics: Sequence[str]) -> Iterator[Row]:
    """One row per cause and count; strategies with the same metrics in it share the row."""
    groups: dict[tuple[str, str], dict[str, list[str]]] = {}
    for result in experiment.results:
        for each in result.metrics:
            if each.metric in metrics and each.unscored:
                causes = ", ".join(f"{count} {CAUSES.get(cause, cause)}" for cause, count in each.unscored.items())
                found = groups.setdefault((f"{each.n} scored", causes), {})
                found.setdefault(labels[result.spec.spec_id], []).append(title_of(each.metric))
    worked = sum(result.status == "ok" for result in experiment.results)
    for (scored, causes), by_label in groups.items():
        same: dict[tuple[str, ...], list[str]] = {}
        for label, titles in by_label.items():
            same.setdefault(tuple(titles), []).append(label)
        for measures, names in same.items():
            who = "all strategies" if len(names) == worked else ", ".join(names)
            yield Row(who, (", ".join(measures), scored, causes))


def _facts(experiment: Experiment) -> tuple[Fact, ...]:
    plan = experiment.plan
    finished = experiment.finished_at
    took = "" if finished is None else f"{(finished - experiment.created_at).total_seconds():,.1f} s"
    return (
        Fact("Experiment", experiment.experiment_id),
        Fact("Questions", f"{len(experiment.questions)} from {experiment.question_set_name}"),
        Fact("Strategies", str(len(experiment.specs))),
        Fact("Embedding model", experiment.embedding_model),
        Fact("Answers", "none" if not plan.answers else experiment.llm_model or "extractive, no model"),
        Fact("Judge", experiment.judge_model or "none"),
        *((Fact("Judge's trust", experiment.calibration.in_words),) if experiment.calibration else ()),
        *((Fact("Judge and answers", experiment.judge_warning),) if experiment.judge_warning else ()),
        Fact("Retriever", plan.retriever),
        Fact("Top k", str(plan.top_k)),
        Fact("Repeats", str(plan.repeats)),
        Fact("Seed", str(plan.seed)),
        Fact("Budget", "none" if plan.budget_usd is None else dollars(plan.budget_usd)),
        Fact("From start to end", took or "not ended"),
        *((Fact("Repeats experiment", experiment.repeats_experiment),) if experiment.repeats_experiment else ()),
    )


def _definitions(metrics: Sequence[str] | Mapping[str, None]) -> tuple[Fact, ...]:
    found = []
    for name in metrics:
        try:
            about = describe(name)
        except BadParameter:
            continue
        metric = about.metric
        better = "" if metric.direction == "none" else f" {metric.direction.capitalize()} is better."
        found.append(Fact(title_of(name), f"{about.definition}.{better} {metric.source}."))
    return tuple(found)


def _charts(experiment: Experiment, labels: Mapping[str, str], metric: str) -> dict[str, Any]:
    if not metric:
        return {}
    statistics = experiment.statistics
    scores = recommend.matrix(experiment, metric)
    keys = stats.cluster_keys(experiment.questions)
    means = []
    for row, label in enumerate(labels[spec.spec_id] for spec in experiment.specs):
        mean, low, high = stats.mean_interval(scores[row], keys, experiment.plan.seed)
        if not math.isnan(mean):
            means.append({"label": label, "mean": mean, "low": _known(low), "high": _known(high)})
    sign = -1.0 if direction(metric) == "lower" else 1.0
    differences = [
        {
            "label": labels[each.spec_id],
            "difference": each.difference,
            "low": each.low,
            "high": each.high,
            "verdict": _sign(each, sign),
        }
        for each in (statistics.comparisons if statistics else ())
        if each.metric == metric and each.difference is not None
    ]
    prefix = "delivered." if metric.startswith("delivered.") else ""
    curve = [
        {"label": labels[result.spec.spec_id], "x": budget, "y": value.value}
        for result in experiment.results
        for budget in BUDGETS
        for value in result.metrics
        if value.metric == f"{prefix}recall@{budget}tok" and value.value is not None
    ]
    latency = [
        {
            "label": labels[result.spec.spec_id],
            "stage": stage,
            "place": place,
            "value": 1000 * result.seconds[f"{stage}_p50"],
        }
        for result in experiment.results
        for place, stage in enumerate(("retrieve", "generate", "judge"))
        if f"{stage}_p50" in result.seconds
    ]
    return {"means": means, "differences": differences, "curve": curve, "latency": latency}


def _sign(found: Comparison, sign: float) -> str:
    if found.low is None or found.high is None or found.p_holm is None or found.p_holm > stats.ALPHA:
        return "unclear"
    low, high = sorted((sign * found.low, sign * found.high))
    return "better" if low > 0 else "worse" if high < 0 else "unclear"


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
