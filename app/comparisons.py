"""Experiments beside each other, as tables."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from app import results
from engine import Workbench
from engine.bench import history
from engine.bench.history import ExperimentComparison
from engine.store import ExperimentSummary


def found(summaries: Sequence[ExperimentSummary], wanted: str, pinned: bool) -> list[ExperimentSummary]:
    """Experiments in which every searched word occurs, pinned ones first."""
    fitting = [each for each in summaries if history.matches(each, wanted, None, True if pinned else None)]
    return sorted(fitting, key=lambda each: not each.pinned)


def compare(workbench: Workbench, chosen: Sequence[ExperimentSummary]) -> ExperimentComparison:
    """Raises BadRequest where nothing can be compared."""
    return history.compare([results.load(workbench, each.experiment_id) for each in chosen])


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
