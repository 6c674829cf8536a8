"""The report as one HTML file that needs nothing else: no script, no request, light and dark, made to be printed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import BinaryIO

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from engine.ids import canonical_json
from engine.metrics.base import DELIVERED
from engine.records import Experiment
from engine.report import charts
from engine.report.questions import ReadCell, questions
from engine.report.view import Fact, View, labels_of, view

_PIECES = 100
"""Pieces of the page that are written at a time."""


@cache
def _template() -> Template:
    # Everything is escaped, whatever the template is called: names and texts come from documents.
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("report.html.j2")


def write_html(experiment: Experiment, cell: ReadCell, out: BinaryIO, note: str = "") -> None:
    """Write the report of an experiment, whose cells may come without their queries; `cell` reads one with it."""
    seen = view(experiment, note)
    labels = labels_of(experiment)
    specs = [
        Fact(labels[spec.spec_id], f"{spec.strategy_name} {canonical_json(spec.params)}") for spec in experiment.specs
    ]
    pieces = _template().stream(
        view=seen,
        specs=specs,
        curve_title=_curve_title(seen),
        charts=_charts(seen, {labels[spec.spec_id]: spec.strategy_name for spec in experiment.specs}),
        questions=questions(experiment, seen.metric, cell),
    )
    pieces.enable_buffering(_PIECES)
    for piece in pieces:
        out.write(piece.encode("utf-8", "replace"))


def _charts(seen: View, names: Mapping[str, str]) -> dict[str, Markup | None]:
    """Drawn charts by name; `names`: the strategy of each label. Vega escapes every text of its drawings, so they are markup already."""
    data = seen.charts
    drawn = {
        "means": charts.means(data.get("means", ()), seen.metric_title),
        "differences": charts.differences(data.get("differences", ()), f"difference in {seen.metric_title.lower()}"),
        "curve": charts.lines(data.get("curve", ()), "token budget", _curve_title(seen).lower(), names),
        "latency": charts.stacked(data.get("latency", ()), "milliseconds", ("retrieve", "generate", "judge")),
    }
    return {name: None if svg is None else Markup(svg) for name, svg in drawn.items()}


def _curve_title(seen: View) -> str:
    """Recall of what the main metric is about: the searched chunks or the delivered text."""
    return "Delivered recall" if seen.metric.startswith(DELIVERED) else "Recall"
