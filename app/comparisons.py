"""Experiments beside each other, as tables."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from app import results
from engine import Workbench
from engine.bench.history import ExperimentComparison
from engine.recent import Recent
from engine.store import ExperimentSummary

_compared: Recent[tuple[str, ...], ExperimentComparison] = Recent(8)


def compare(workbench: Workbench, chosen: Sequence[ExperimentSummary]) -> ExperimentComparison:
    """The others against the first; ended experiments are compared once. Raises BadRequest where nothing can be compared."""
    key = tuple(f"{each.experiment_id} {each.status} {each.finished_at} {each.name}" for each in chosen)
    return _compared.get_or_make(key, lambda: workbench.compare([each.experiment_id for each in chosen]))


def settings(comparison: ExperimentComparison) -> pd.DataFrame:
    """One row per setting that differs, one column per experiment."""
    columns = _columns(comparison)
    return pd.DataFrame(
        {"setting": each.name, **dict(zip(columns, each.values, strict=True))} for each in comparison.settings
    )


def metrics(comparison: ExperimentComparison, only_changed: bool) -> pd.DataFrame:
    """One row per experiment, strategy and metric, with the verdict in words."""
    names = dict(zip(comparison.experiment_ids, _columns(comparison), strict=True))
    rows = [
        {
            "experiment": names[each.experiment_id],
            "strategy": each.label,
            "metric": results.title(each.metric),
            "before": each.baseline_mean,
            "after": each.mean,
            "difference": each.difference,
            "low": each.low,
            "high": each.high,
            "adjusted p": each.p_holm,
            "questions": each.n,
            "verdict": results.verdict(each.low, each.high, each.p_holm, each.direction),
        }
        for each in comparison.metrics
        if not only_changed or (each.difference is not None and abs(each.difference) > 1e-12)
    ]
    frame = pd.DataFrame(rows, columns=["experiment", "strategy", "metric", "before", "after", "difference"])
    return pd.DataFrame(rows) if rows else frame


def questions(comparison: ExperimentComparison, only_changed: bool) -> pd.DataFrame:
    """Differences of single questions, the worst first."""
    names = dict(zip(comparison.experiment_ids, _columns(comparison), strict=True))
    rows = [
        {
            "experiment": names[each.experiment_id],
            "strategy": each.label,
            "question": each.question,
            "before": each.baseline,
            "after": each.value,
            "difference": each.difference,
            "evidence": each.places,
        }
        for each in comparison.questions
        if not only_changed or each.difference != 0.0
    ]
    return pd.DataFrame(
        rows, columns=["experiment", "strategy", "question", "before", "after", "difference", "evidence"]
    )


def _columns(comparison: ExperimentComparison) -> list[str]:
    """A name per experiment; equal names get the beginning of the id."""
    names = list(comparison.names)
    return [
        name if names.count(name) == 1 else f"{name} ({experiment_id[:6]})"
        for name, experiment_id in zip(names, comparison.experiment_ids, strict=True)
    ]
