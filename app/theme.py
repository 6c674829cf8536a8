"""Colours and shapes. One look per strategy on all pages, by its place in the registry."""

from __future__ import annotations

from engine.strategies import registry

OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#999999")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")

BETTER, UNCLEAR, WORSE = "#0072B2", "#7A7A7A", "#D55E00"
"""Verdicts. Always with a sign beside the colour."""


def strategy_color(name: str) -> str:
    return OKABE_ITO[registry.names().index(name) % len(OKABE_ITO)]


def strategy_shape(name: str) -> str:
    """Two strategies that share a colour differ in shape."""
    place = registry.names().index(name)
    return SHAPES[(place + place // len(OKABE_ITO)) % len(SHAPES)]
