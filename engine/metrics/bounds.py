"""How far a mean could lie from the truth because of what has no score: the worst case on either side."""

from __future__ import annotations

from typing import NamedTuple

from engine.metrics.registry import describe
from engine.records import MetricValue

NOT_MISSING = frozenset({"not_applicable"})
"""Causes that leave nothing to score: such questions have no part in the mean, whatever it were."""
_RANGES = {"share": (0.0, 1.0), "score": (1.0, 10.0)}


class Bounds(NamedTuple):
    low: float
    high: float
    missing: int
    """Questions that have no score and should have one."""


def worst_case(value: MetricValue) -> Bounds | None:
    """The mean if every missing score were the lowest there is, and if it were the highest.

    Equal to the mean when none is missing. None for metrics without a lowest and highest value, such as tokens, and where no question
    applies.
    """
    ends = _RANGES.get(describe(value.metric).metric.unit)
    missing = sum(count for cause, count in value.unscored.items() if cause not in NOT_MISSING)
    total = value.n + missing
    if ends is None or not total:
        return None
    held = 0.0 if value.value is None else value.value * value.n
    if not missing and value.value is not None:
        return Bounds(value.value, value.value, 0)
    low, high = ((held + missing * end) / total for end in ends)
    return Bounds(low, high, missing)
