"""The look of all pages: the palette that reports share, and one label per spec."""

from __future__ import annotations

from collections.abc import Sequence

from engine.models import StrategySpec
from engine.report.palette import BETTER, GREY, OKABE_ITO, STAGES, UNCLEAR, WORSE, strategy_color, strategy_shape

__all__ = [
    "BETTER",
    "GREY",
    "OKABE_ITO",
    "STAGES",
    "UNCLEAR",
    "WORSE",
    "strategy_color",
    "strategy_shape",
    "titled",
]


def titled(specs: Sequence[StrategySpec]) -> list[str]:
    """One label per spec; equal labels are numbered."""
    labels = [spec.label for spec in specs]
    return [
        label if labels.count(label) == 1 else f"{label} #{labels[: place + 1].count(label)}"
        for place, label in enumerate(labels)
    ]
