"""Colours and shapes. One look per strategy on all pages, by its place in the registry."""

from __future__ import annotations

from collections.abc import Sequence

from engine.models import StrategySpec
from engine.strategies import registry

OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#999999")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
GREY = "#8A8A8A"
"""Axis-like marks and labels, readable on light and dark."""

BETTER, UNCLEAR, WORSE = "#0072B2", "#8A8A8A", "#D55E00"
"""Verdicts. Always with a sign beside the colour."""


def strategy_color(name: str) -> str:
    """Grey for what is no strategy, such as the closed-book baseline."""
    if name not in registry.names():
        return GREY
    return OKABE_ITO[registry.names().index(name) % len(OKABE_ITO)]


def strategy_shape(name: str) -> str:
    """Two strategies that share a colour differ in shape."""
    if name not in registry.names():
        return SHAPES[0]
    place = registry.names().index(name)
    return SHAPES[(place + place // len(OKABE_ITO)) % len(SHAPES)]


def titled(specs: Sequence[StrategySpec]) -> list[str]:
    """One label per spec; equal labels are numbered."""
    labels = [spec.label for spec in specs]
    return [
        label if labels.count(label) == 1 else f"{label} #{labels[: place + 1].count(label)}"
        for place, label in enumerate(labels)
    ]
