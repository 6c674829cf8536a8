"""Five rules of thumb, shown as pass or fail beside the measured value. They are no verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from engine.metrics.registry import describe


class Threshold(NamedTuple):
    """A bound on a stored metric."""

    label: str
    metric: str
    bound: float
    at_least: bool
    """False: the value must not exceed the bound."""

    @property
    def words(self) -> str:
        sign = "≥" if self.at_least else "≤"
        return f"{sign} {self.bound:.0%}" if self.metric != "uniformity" else f"{sign} {self.bound:g}"


THRESHOLDS: tuple[Threshold, ...] = (
    Threshold("Information completeness", "intact_rate", 0.95, True),
    Threshold("Semantic break rate", "break_rate", 0.05, False),
    Threshold("Size uniformity", "uniformity", 0.70, True),
    Threshold("Precision at 5", "precision@5", 0.60, True),
    Threshold("Recall at 10", "recall@10", 0.80, True),
)


class Checked(NamedTuple):
    """A threshold beside the measured value."""

    threshold: Threshold
    value: float | None
    outcome: Literal["pass", "fail", "not measured"]
    definition: str


def check_thresholds(values: Mapping[str, float | None]) -> tuple[Checked, ...]:
    """All five, in order. `values`: means by stored metric name; a missing one is "not measured", never a fail."""
    checked = []
    for threshold in THRESHOLDS:
        value = values.get(threshold.metric)
        outcome: Literal["pass", "fail", "not measured"] = "not measured"
        if value is not None:
            kept = value >= threshold.bound if threshold.at_least else value <= threshold.bound
            outcome = "pass" if kept else "fail"
        checked.append(Checked(threshold, value, outcome, describe(threshold.metric).definition))
    return tuple(checked)
