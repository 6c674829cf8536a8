"""A gate for pipelines: is a candidate worse than its baseline by more than it may be?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from engine import recommend, stats
from engine.bench.history import common_questions, direction
from engine.errors import BadRequest
from engine.models import Record
from engine.records import Experiment

Outcome = Literal["pass", "regression", "cannot_tell"]


class SpecCheck(Record):
    """One strategy of the candidate against the same strategy of the baseline."""

    label: str
    outcome: Outcome
    n: int
    """Common questions both have scored."""
    baseline_mean: float | None
    candidate_mean: float | None
    worse_by: float | None
    """How much worse the candidate is; negative when it is better."""
    low: float | None
    high: float | None
    """95 % BCa interval of `worse_by`."""
    words: str


class Check(Record):
    """The outcome of a gate: the worst of its strategies."""

    outcome: Outcome
    metric: str
    max_drop: float
    specs: tuple[SpecCheck, ...]
    words: str
    """In one sentence."""


def check(baseline: Experiment, candidate: Experiment, *, metric: str, max_drop: float) -> Check:
    """Compares every strategy that both experiments have, on the questions both have scored.

    `regression`: the whole interval lies above `max_drop`. `pass`: the whole interval lies at or below it. `cannot_tell`: the interval
    holds `max_drop`, or there is none because there are too few questions. Raises BadRequest where nothing can be compared.
    """
    if max_drop < 0 or not math.isfinite(max_drop):
        raise BadRequest(f"The largest drop is {max_drop}. It must be a number of 0 or more.")
    sign = -1.0 if direction(metric) == "lower" else 1.0
    shared = [spec for spec in candidate.specs if spec.spec_id in {each.spec_id for each in baseline.specs}]
    if not shared:
        raise BadRequest("The two experiments have no strategy in common, so there is nothing to check.")
    questions = common_questions([baseline, candidate])
    scores = [recommend.matrix(experiment, metric) for experiment in (baseline, candidate)]
    columns = [
        [place[question_id] for question_id, _ in questions]
        for place in (
            {question.question_id: column for column, question in enumerate(experiment.questions)}
            for experiment in (baseline, candidate)
        )
    ]
    keys = stats.cluster_keys([question for _, question in questions])
    checks = []
    for spec in shared:
        rows = [
            scores[side][[each.spec_id for each in experiment.specs].index(spec.spec_id), columns[side]]
            for side, experiment in enumerate((baseline, candidate))
        ]
        checks.append(_check_spec(spec.label, rows[0], rows[1], keys, sign, max_drop, metric))
    order: tuple[Outcome, ...] = ("regression", "cannot_tell", "pass")
    outcome = next(each for each in order if any(check.outcome == each for check in checks))
    worst = next(check for check in checks if check.outcome == outcome)
    return Check(outcome=outcome, metric=metric, max_drop=max_drop, specs=tuple(checks), words=worst.words)


def _check_spec(
    label: str,
    before: np.ndarray[tuple[int], np.dtype[np.float64]],
    after: np.ndarray[tuple[int], np.dtype[np.float64]],
    keys: Sequence[object],
    sign: float,
    max_drop: float,
    metric: str,
) -> SpecCheck:
    worse = sign * (before - after)
    found = stats.paired(worse[:, None], list(map(repr, keys)))
    n, mean = int(found.n[0]), _known(found.difference[0])
    low, high = _known(found.low[0]), _known(found.high[0])
    both = ~np.isnan(worse)
    outcome: Outcome = "cannot_tell"
    if mean is not None and low is not None and high is not None:
        outcome = "pass" if high <= max_drop else "regression" if low > max_drop else "cannot_tell"
    return SpecCheck(
        label=label,
        outcome=outcome,
        n=n,
        baseline_mean=float(before[both].mean()) if n else None,
        candidate_mean=float(after[both].mean()) if n else None,
        worse_by=mean,
        low=low,
        high=high,
        words=_words(label, metric, outcome, n, mean, low, high, max_drop),
    )


def _words(
    label: str,
    metric: str,
    outcome: Outcome,
    n: int,
    mean: float | None,
    low: float | None,
    high: float | None,
    max_drop: float,
) -> str:
    if mean is None:
        return f"Cannot tell: {label} has no question that both experiments have scored on {metric}."
    if low is None or high is None:
        return f"Cannot tell: {label} is worse by {mean:+.3f} on {metric}, but {n} common question{'s' if n != 1 else ''} give no interval."
    interval = f"worse by {mean:+.3f} on {metric} (95 % interval {low:+.3f} to {high:+.3f}, {n} common questions)"
    if outcome == "pass":
        return f"Pass: {label} is {interval}, which stays within the allowed {max_drop:.3f}."
    if outcome == "regression":
        return f"Regression: {label} is {interval}, which lies wholly above the allowed {max_drop:.3f}."
    return f"Cannot tell: {label} is {interval}, and the allowed {max_drop:.3f} lies inside. Ask more questions."


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
