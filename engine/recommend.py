"""From a finished benchmark to comparisons, a verdict and a recommendation in words."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from engine import stats
from engine.errors import BadParameter
from engine.metrics import describe
from engine.records import Comparison, Experiment, QuestionResult, Verdict
from engine.verdict import Cost, decide, in_words

PRIMARY_METRICS = (
    "delivered.recall@1000tok",
    "recall@1000tok",
    "delivered.recall@2000tok",
    "recall@2000tok",
    "delivered.recall@500tok",
    "recall@500tok",
    "judge.answer_similarity",
    "answer_token_f1",
)
"""What decides, in order of preference: recall at an equal token budget, then answers. Never recall at k, which favours large chunks."""


def recommend(experiment: Experiment, metric: str | None = None, noise_floor: float | None = None) -> str:
    """One paragraph for a stakeholder, with its numbers, that claims no more than the intervals do. Raises BadParameter."""
    return in_words(experiment_verdict(experiment, metric, noise_floor))


def experiment_verdict(experiment: Experiment, metric: str | None = None, noise_floor: float | None = None) -> Verdict:
    """The verdict of a benchmark on `metric`, or on the first of `PRIMARY_METRICS` that was measured.

    `noise_floor`: difference that rerunning one configuration explains; None: taken from the run's own repeats, where it has any.
    Raises BadParameter for an unknown metric.
    """
    chosen = metric or primary_metric(experiment)
    if chosen is None:
        return Verdict(kind="nothing_to_compare", metric="", n=0, clusters=0)
    direction = describe(chosen).metric.direction
    if direction == "none":
        raise BadParameter(f"{chosen} only describes; neither more nor less of it is better. Choose another metric.")
    failed = {result.spec.spec_id for result in experiment.results if result.status == "failed"}
    values = matrix(experiment, chosen)
    rows = [
        row
        for row, spec in enumerate(experiment.specs)
        if spec.spec_id not in failed and not np.isnan(values[row]).all()
    ]
    every_id = [spec.spec_id for spec in experiment.specs]
    labels = distinct_labels([spec.label for spec in experiment.specs], every_id)
    spec_ids = [every_id[row] for row in rows]
    floor = measured_noise(experiment, chosen) if noise_floor is None else noise_floor
    verdict = decide(
        values[rows],
        [labels[row] for row in rows],
        chosen,
        clusters=stats.cluster_keys(experiment.questions),
        costs=experiment_costs(experiment, spec_ids),
        lower_is_better=direction == "lower",
        noise_floor=floor,
        seed=experiment.plan.seed,
    )
    return verdict.model_copy(update={"left_out": tuple(label for row, label in enumerate(labels) if row not in rows)})


def compare(
    experiment: Experiment, metrics: Sequence[str] | None = None, baseline: str | None = None
) -> tuple[Comparison, ...]:
    """Every other strategy against the baseline (a spec id; the plan's, or the first), metric by metric, in the order of the specs.

    Raises BadParameter for a baseline that is not in the benchmark.
    """
    ids = [spec.spec_id for spec in experiment.specs]
    chosen = baseline or experiment.plan.baseline or ids[0]
    if chosen not in ids:
        raise BadParameter(f"The baseline {chosen} is not among the strategies of this benchmark.")
    names = list(metrics) if metrics is not None else measured_metrics(experiment)
    if not names:
        return ()
    values = np.stack([matrix(experiment, name) for name in names], axis=2)
    versus = stats.versus_baseline(
        values, ids.index(chosen), stats.cluster_keys(experiment.questions), experiment.plan.seed
    )
    return tuple(
        _comparison(versus, row, column, spec_id, name)
        for column, name in enumerate(names)
        for row, spec_id in enumerate(ids)
        if spec_id != chosen
    )


def _comparison(versus: stats.Versus, row: int, column: int, spec_id: str, metric: str) -> Comparison:
    at = (row, column)
    paired = versus.stats
    needed = float(versus.needed[at])
    return Comparison(
        spec_id=spec_id,
        metric=metric,
        n=int(paired.n[at]),
        clusters=int(paired.clusters[at]),
        mean=_known(versus.means[at]),
        baseline_mean=_known(versus.baseline_means[at]),
        difference=_known(paired.difference[at]),
        low=_known(paired.low[at]),
        high=_known(paired.high[at]),
        p=_known(paired.p[at]),
        p_holm=_known(versus.p_holm[at]),
        effect=_known(paired.effect[at]),
        detectable=_known(paired.detectable[at]),
        needed=int(needed) if math.isfinite(needed) else None,
    )


def primary_metric(experiment: Experiment) -> str | None:
    """The first of `PRIMARY_METRICS` that any question was scored on."""
    return primary_of(set(measured_metrics(experiment)))


def primary_of(measured: Container[str]) -> str | None:
    """The first of `PRIMARY_METRICS` among these names."""
    return next((name for name in PRIMARY_METRICS if name in measured), None)


def measured_metrics(experiment: Experiment) -> list[str]:
    """Stored names of all metrics some question was scored on, in the order they first appear."""
    return list(dict.fromkeys(chain.from_iterable(cell.metrics for cell in experiment.cells)))


def matrix(experiment: Experiment, metric: str) -> NDArray[np.float64]:
    """Scores by spec and question: shape `(n_specs, n_questions)`, NaN where a cell has no value. Repeats are averaged."""
    runs = repeated(experiment, metric)
    scored = ~np.isnan(runs)
    counts = scored.sum(axis=0)
    totals = np.where(scored, runs, 0.0).sum(axis=0)
    return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)


def repeated(experiment: Experiment, metric: str) -> NDArray[np.float64]:
    """Scores by repeat, spec and question: shape `(n_repeats, n_specs, n_questions)`, NaN where there is none."""
    # Each repeat has its own place, so that the order in which cells were finished changes no number.
    rows = {spec.spec_id: row for row, spec in enumerate(experiment.specs)}
    columns = {question.question_id: column for column, question in enumerate(experiment.questions)}
    runs = np.full((1 + max((cell.repeat for cell in experiment.cells), default=0), len(rows), len(columns)), np.nan)
    for cell in experiment.cells:
        row, column = rows.get(cell.spec_id), columns.get(cell.question_id)
        if row is not None and column is not None and metric in cell.metrics:
            runs[cell.repeat, row, column] = cell.metrics[metric]
    return runs


def measured_noise(experiment: Experiment, metric: str) -> float:
    """The largest noise floor over the strategies of a run with repeats; 0 without repeats."""
    runs = repeated(experiment, metric)
    floors = [stats.noise_floor(runs[:, row]) for row in range(runs.shape[1])]
    return max((floor for floor in floors if not math.isnan(floor)), default=0.0)


def distinct_labels(labels: Sequence[str], spec_ids: Sequence[str]) -> list[str]:
    """Labels that name one spec each: equal ones get the beginning of the spec id."""
    return [
        label if list(labels).count(label) == 1 else f"{label} ({spec_id[:6]})"
        for label, spec_id in zip(labels, spec_ids, strict=True)
    ]


def experiment_costs(experiment: Experiment, spec_ids: Sequence[str]) -> tuple[Cost, ...]:
    """Tokens delivered, dollars and seconds per strategy, as far as they were measured."""
    results = {result.spec.spec_id: result for result in experiment.results}
    cells: dict[str, list[QuestionResult]] = {}
    for cell in experiment.cells:
        cells.setdefault(cell.spec_id, []).append(cell)
    top_k = experiment.plan.top_k
    names = (f"delivered.tokens@{top_k}", f"tokens@{top_k}")
    tokens, dollars, seconds = [], [], []
    for spec_id in spec_ids:
        own, result = cells.get(spec_id, []), results.get(spec_id)
        tokens.append(
            _mean([next(c.metrics[n] for n in names if n in c.metrics) for c in own if c.metrics.keys() & set(names)])
        )
        dollars.append(None if result is None else result.usage.cost_usd)
        seconds.append(_mean([_seconds(cell) for cell in own if cell.seconds or cell.query is not None]))
    return (
        Cost(criterion=f"tokens delivered per question at {top_k} chunks", values=tuple(tokens)),
        Cost(criterion="dollars of the whole run", values=tuple(dollars), negligible=0.001),
        Cost(criterion="seconds per question", values=tuple(seconds), negligible=0.05),
    )


def _seconds(cell: QuestionResult) -> float:
    spent = cell.seconds or ({} if cell.query is None else cell.query.seconds)
    return spent.get("retrieve", 0.0) + spent.get("generate", 0.0)


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
