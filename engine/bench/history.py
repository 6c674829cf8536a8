"""Stored experiments beside each other: finding them, and what changed from one to the next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine import recommend, stats
from engine.bench.conclude import compared_metrics
from engine.bench.summary import JUDGE
from engine.errors import BadParameter, BadRequest
from engine.metrics import describe
from engine.models import Record
from engine.records import EvidencePlace, Experiment, Question, QuestionResult, QuestionSet

MOST = 4
"""Experiments that can be compared at once."""
QUESTIONS_SHOWN = 200
"""Per-question differences kept in a comparison; the worst come first."""


class Setting(Record):
    """One setting that is not the same in all compared experiments."""

    name: str
    values: tuple[str, ...]
    """As shown, one per experiment."""


class MetricChange(Record):
    """One metric of one strategy in another experiment, against the first, on the questions both have scored."""

    experiment_id: str
    spec_id: str
    label: str
    metric: str
    direction: str
    """`higher` or `lower` is better, or `none`."""
    n: int
    baseline_mean: float | None
    mean: float | None
    difference: float | None
    low: float | None
    high: float | None
    """95 % BCa interval; None where it is not defined."""
    p_holm: float | None
    """Two-sided sign-flip p, adjusted over the strategies of that experiment."""


class QuestionChange(Record):
    """One question under one strategy in another experiment, against the first."""

    experiment_id: str
    spec_id: str
    label: str
    question_id: str
    question: str
    baseline: float | None
    value: float | None
    """None: not scored there."""
    difference: float | None
    """Positive is better, whatever the direction of the metric."""
    places: str
    """Where its evidence lies here and there, in words; empty for a question without evidence."""


class ExperimentComparison(Record):
    """Experiments against the first of them."""

    experiment_ids: tuple[str, ...]
    names: tuple[str, ...]
    common_questions: int
    """Questions all of them asked in the same words."""
    settings: tuple[Setting, ...]
    """Only those that differ."""
    metric: str | None
    """The metric of `questions`: the first, in the order of preference, that all measured."""
    metrics: tuple[MetricChange, ...]
    questions: tuple[QuestionChange, ...]
    """Sorted by regression: what got worst comes first."""
    notes: tuple[str, ...] = ()


def frozen_questions(experiment: Experiment) -> QuestionSet:
    """The questions of an experiment as they were."""
    return QuestionSet(
        question_set_id=experiment.plan.question_set_id,
        name=experiment.question_set_name,
        questions=experiment.questions,
        created_at=experiment.created_at,
    )


def direction(metric: str) -> str:
    """`higher`, `lower` or `none`. Raises BadRequest for a metric nobody knows."""
    if metric.startswith(JUDGE):
        return "lower" if metric.endswith("hallucination") else "higher"
    try:
        return describe(metric).metric.direction
    except BadParameter as error:
        raise BadRequest(error.message) from None


def common_questions(experiments: Sequence[Experiment]) -> list[tuple[str, Question]]:
    """Questions that all experiments asked, with the same id, words and evidence. Raises BadRequest when there are none."""
    first, *others = experiments
    asked = [{question.question_id: question for question in each.questions} for each in others]
    common = [
        (question.question_id, question)
        for question in first.questions
        if all(_same(question, each.get(question.question_id)) for each in asked)
    ]
    if not common:
        raise BadRequest(
            "The experiments have no question in common, so their numbers cannot be compared. Choose experiments on the same question set."
        )
    return common


def _same(question: Question, other: Question | None) -> bool:
    return other is not None and (other.question, other.gold) == (question.question, question.gold)


def compare(experiments: Sequence[Experiment]) -> ExperimentComparison:
    """Two to four experiments; cells may come without their queries. Raises BadRequest where nothing can be compared."""
    ids = [experiment.experiment_id for experiment in experiments]
    if not 2 <= len(ids) <= MOST or len(set(ids)) < len(ids):
        raise BadRequest(f"Choose two to {MOST} different experiments to compare.")
    common = common_questions(experiments)
    first = experiments[0]
    notes: list[str] = []
    measured = [set(recommend.measured_metrics(each)) for each in experiments]
    shared = [name for name in compared_metrics(first) if all(name in each for each in measured)]
    metric = recommend.primary_of(shared)
    changes: list[MetricChange] = []
    questions: list[QuestionChange] = []
    base = _Scores(first, [question_id for question_id, _ in common], shared)
    keys = stats.cluster_keys([question for _, question in common])
    for other in experiments[1:]:
        specs = [spec for spec in other.specs if spec.spec_id in base.rows]
        missing = [spec.label for spec in other.specs if spec.spec_id not in base.rows]
        if missing:
            notes.append(f"{other.name}: {', '.join(missing)} not in {first.name}, so not compared.")
        scores = _Scores(other, [question_id for question_id, _ in common], shared)
        pairs = [(base.rows[spec.spec_id], scores.rows[spec.spec_id]) for spec in specs]
        changes.extend(_metric_changes(base, scores, pairs, shared, keys, first.plan.seed))
        if metric is not None:
            questions.extend(_question_changes(base, scores, pairs, common, metric))
    listed, note = _listed(questions)
    notes.extend(note)
    asked = max(len(each.questions) for each in experiments)
    if len(common) < asked:
        notes.append(f"Compared on {len(common)} common questions; some experiments asked up to {asked}.")
    return ExperimentComparison(
        experiment_ids=tuple(ids),
        names=tuple(each.name for each in experiments),
        common_questions=len(common),
        settings=_differing(experiments),
        metric=metric,
        metrics=tuple(changes),
        questions=listed,
        notes=tuple(notes),
    )


def _listed(changes: Sequence[QuestionChange]) -> tuple[tuple[QuestionChange, ...], list[str]]:
    """The changes worth a line, the largest regression first, and what is said when not all are among them.

    Where there are too many, those without a difference are left out first.
    """

    def regression(each: QuestionChange) -> tuple[bool, float]:
        return each.difference is None, each.difference or 0.0

    ordered = sorted(changes, key=lambda each: (each.difference == 0.0, *regression(each)))
    listed = tuple(sorted(ordered[:QUESTIONS_SHOWN], key=regression))
    differ = sum(each.difference != 0.0 for each in changes)
    if len(changes) <= QUESTIONS_SHOWN or not differ:
        return listed, []
    said = f"{differ:,} of {len(changes):,} pairs of scores differ; "
    if differ > QUESTIONS_SHOWN:
        return listed, [f"{said}the {QUESTIONS_SHOWN} with the largest regressions are listed."]
    return listed, [f"{said}all of them are listed."]


class _Scores:
    """The scores of one experiment on the common questions."""

    def __init__(self, experiment: Experiment, question_ids: Sequence[str], metrics: Sequence[str]) -> None:
        self.experiment = experiment
        self.rows = {spec.spec_id: row for row, spec in enumerate(experiment.specs)}
        self._columns = {question_id: column for column, question_id in enumerate(question_ids)}
        self._metrics = {name: place for place, name in enumerate(metrics)}
        self._cells = {(cell.spec_id, cell.question_id): cell for cell in experiment.cells if cell.repeat == 0}
        self._values = self._read()

    def _read(self) -> np.ndarray[tuple[int, int, int], np.dtype[np.float64]]:
        """Shape `(n_metrics, n_specs, n_common_questions)`, NaN where not scored; repeats averaged. One pass over the cells."""
        shape = (len(self._metrics), len(self.rows), len(self._columns))
        sums, counts = np.zeros(shape), np.zeros(shape)
        for cell in self.experiment.cells:
            row, column = self.rows.get(cell.spec_id), self._columns.get(cell.question_id)
            if row is None or column is None:
                continue
            for name, place in self._metrics.items():
                value = cell.metrics.get(name)
                if value is not None:
                    sums[place, row, column] += value
                    counts[place, row, column] += 1
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    def of(self, metric: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """Shape `(n_specs, n_common_questions)`."""
        found: np.ndarray[tuple[int, int], np.dtype[np.float64]] = self._values[self._metrics[metric]]
        return found

    def cell(self, spec_id: str, question_id: str) -> QuestionResult | None:
        return self._cells.get((spec_id, question_id))


def _metric_changes(
    base: _Scores,
    other: _Scores,
    pairs: Sequence[tuple[int, int]],
    metrics: Sequence[str],
    keys: Sequence[Any],
    seed: int,
) -> list[MetricChange]:
    if not pairs or not metrics:
        return []
    before = np.stack([base.of(name)[[row for row, _ in pairs]] for name in metrics])
    after = np.stack([other.of(name)[[row for _, row in pairs]] for name in metrics])
    differences = after - before
    n_metrics, n_specs, n_questions = differences.shape
    found = stats.paired(differences.reshape(n_metrics * n_specs, n_questions).T, keys, seed)
    adjusted = stats.holm(found.p.reshape(n_metrics, n_specs).T).T
    ids = list(other.rows)
    changes = []
    for place, name in enumerate(metrics):
        which = direction(name)
        for number, (_, row) in enumerate(pairs):
            at = place * n_specs + number
            both = ~np.isnan(differences[place, number])
            changes.append(
                MetricChange(
                    experiment_id=other.experiment.experiment_id,
                    spec_id=ids[row],
                    label=other.experiment.specs[row].label,
                    metric=name,
                    direction=which,
                    n=int(found.n[at]),
                    baseline_mean=_mean(before[place, number][both]),
                    mean=_mean(after[place, number][both]),
                    difference=_known(found.difference[at]),
                    low=_known(found.low[at]),
                    high=_known(found.high[at]),
                    p_holm=_known(adjusted[place, number]),
                )
            )
    return changes


def _question_changes(
    base: _Scores,
    other: _Scores,
    pairs: Sequence[tuple[int, int]],
    common: Sequence[tuple[str, Question]],
    metric: str,
) -> list[QuestionChange]:
    before, after = base.of(metric), other.of(metric)
    sign = -1.0 if direction(metric) == "lower" else 1.0
    changes = []
    for old, new in pairs:
        spec = other.experiment.specs[new]
        spec_id = spec.spec_id
        for column, (question_id, question) in enumerate(common):
            was, now = _known(before[old, column]), _known(after[new, column])
            if was is None and now is None:
                continue
            changes.append(
                QuestionChange(
                    experiment_id=other.experiment.experiment_id,
                    spec_id=spec_id,
                    label=spec.label,
                    question_id=question_id,
                    question=question.question,
                    baseline=was,
                    value=now,
                    difference=None if was is None or now is None else sign * (now - was),
                    places=moved(base.cell(spec_id, question_id), other.cell(spec_id, question_id)),
                )
            )
    return changes


def moved(here: QuestionResult | None, there: QuestionResult | None) -> str:
    """Where the evidence of a question lies in two experiments, or under two strategies, in words."""
    first = "" if here is None else lies_in(here.evidence)
    second = "" if there is None else lies_in(there.evidence)
    if not first and not second:
        return ""
    if first == second:
        return f"Its evidence lies in {first} in both."
    return f"Its evidence lies in {first or 'no chunk'} here and in {second or 'no chunk'} there."


def lies_in(places: Sequence[EvidencePlace]) -> str:
    """`chunk 7`, or `chunks 12 + 13`; quotes of one question are separated by commas."""
    parts = []
    for place in places:
        if not place.chunks:
            parts.append("no chunk")
        elif place.whole:
            # Overlapping chunks may each hold it whole: one is enough.
            found = place.retrieved or place.chunks
            parts.append(f"chunk {found[0]}")
        elif len(place.chunks) == 1:
            parts.append(f"a part of chunk {place.chunks[0]}")
        else:
            parts.append(f"chunks {' + '.join(map(str, place.chunks))}")
    return ", ".join(parts)


def _differing(experiments: Sequence[Experiment]) -> tuple[Setting, ...]:
    """Inputs, models, settings and versions that are not the same in all experiments."""
    facts = [_facts(experiment) for experiment in experiments]
    names = dict.fromkeys(name for each in facts for name in each)
    differing = []
    for name in names:
        values = tuple(each.get(name, "") for each in facts)
        if len(set(values)) > 1:
            differing.append(Setting(name=name, values=values))
    return tuple(differing)


def _facts(experiment: Experiment) -> Mapping[str, str]:
    plan = experiment.plan
    return {
        "documents": ", ".join(f"{each.name} ({each.sha256[:8]})" for each in experiment.documents),
        "strategies": ", ".join(spec.label for spec in experiment.specs),
        "questions": f"{experiment.question_set_name} ({len(experiment.questions)})",
        "embedding model": experiment.embedding_model,
        "chat model": experiment.llm_model or "none",
        "judge model": experiment.judge_model or "none",
        "retriever": plan.retriever,
        "top k": str(plan.top_k),
        "repeats": str(plan.repeats),
        "seed": str(plan.seed),
        "answers": "yes" if plan.answers else "no",
        **{f"parser of {each.name}": each.parser_version for each in experiment.documents},
        **{f"prompt {name}": version for name, version in experiment.prompts.items()},
        **{f"setting {name}": str(value) for name, value in experiment.settings.items()},
        **{f"version of {name}": version for name, version in experiment.versions.items()},
    }


def _mean(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float | None:
    return float(values.mean()) if values.size else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
