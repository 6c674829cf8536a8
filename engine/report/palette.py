"""Colours, shapes and dashes of charts, on the pages and in reports. One look per strategy, by its place in the registry."""

from __future__ import annotations

from collections.abc import Sequence

from engine.strategies import registry

OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#999999")
"""For every colour vision."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3), (12, 4), (4, 4))
GREY = "#8A8A8A"
"""Axis-like marks and labels, readable on light and dark."""

BETTER, UNCLEAR, WORSE = "#0072B2", "#8A8A8A", "#D55E00"
"""Verdicts. Always with a sign beside the colour."""

STAGES = {
    "parse": "#999999",
    "chunk": "#0072B2",
    "enrich": "#CC79A7",
    "embed": "#E69F00",
    "upsert": "#56B4E9",
    "retrieve": "#009E73",
    "generate": "#D55E00",
    "judge": "#F0E442",
}
"""Colours of the stages of a run, in their order."""


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


def dashes(names: Sequence[str]) -> list[tuple[int, ...]]:
    """A dash per line: lines of one colour, such as two specs of one strategy, get different ones."""
    colors = [strategy_color(name) for name in names]
    return [DASHES[colors[:place].count(color) % len(DASHES)] for place, color in enumerate(colors)]
