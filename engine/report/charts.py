"""The charts of a report as SVG: Vega-Lite specifications drawn by vl-convert in this process. No script, no request.

Text, axes and grid lines get classes from Vega; the page's style sheet colours them, so that one drawing serves light, dark and print.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from engine.report.palette import BETTER, OKABE_ITO, STAGES, UNCLEAR, WORSE, dashes, strategy_color, strategy_shape

VEGA_LITE = "5.21"
"""The version of Vega-Lite the specifications are written for."""
WIDTH = 520
FONT = "system-ui, sans-serif"

Row = Mapping[str, Any]
_NAMESPACES = re.compile(r' xmlns(?::\w+)?="[^"]*"')


def means(rows: Sequence[Row], title: str) -> str | None:
    """Mean and 95 % interval per strategy. Rows: `label`, `mean`, `low`, `high` (None where not defined)."""
    if not rows:
        return None
    y = {"field": "label", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 260}}
    return _svg(
        rows,
        [
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule", "strokeWidth": 2, "color": OKABE_ITO[0]},
                "encoding": {"y": y, "x": _x("low", title), "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70, "color": OKABE_ITO[0], "opacity": 1},
                "encoding": {"y": y, "x": _x("mean", title)},
            },
        ],
        24 * len(rows) + 10,
    )


def differences(rows: Sequence[Row], title: str) -> str | None:
    """Difference to the baseline with its 95 % interval. Rows: `label`, `difference`, `low`, `high`, `verdict` (better, unclear, worse)."""
    if not rows:
        return None
    y = {"field": "label", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 260}}
    color = {
        "field": "verdict",
        "type": "nominal",
        "title": None,
        "scale": {"domain": ["better", "unclear", "worse"], "range": [BETTER, UNCLEAR, WORSE]},
        "legend": {"orient": "top"},
    }
    shape = {
        "field": "verdict",
        "type": "nominal",
        "title": None,
        "scale": {"domain": ["better", "unclear", "worse"], "range": ["triangle-up", "circle", "triangle-down"]},
        "legend": {"orient": "top"},
    }
    return _svg(
        rows,
        [
            {
                "data": {"values": [{"zero": 0}]},
                "mark": {"type": "rule", "color": UNCLEAR},
                "encoding": {"x": _x("zero", title)},
            },
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {"y": y, "x": _x("low", title), "x2": {"field": "high"}, "color": color},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1},
                "encoding": {"y": y, "x": _x("difference", title), "color": color, "shape": shape},
            },
        ],
        24 * len(rows) + 10,
    )


def lines(rows: Sequence[Row], x_title: str, y_title: str, names: Mapping[str, str]) -> str | None:
    """One line per strategy over a logarithmic axis. Rows: `label`, `x`, `y`. `names`: the strategy of each label, in their order."""
    if not rows:
        return None
    values = sorted({row["x"] for row in rows})

    def look(scale: Sequence[Any]) -> dict[str, Any]:
        return {
            "field": "label",
            "type": "nominal",
            "title": None,
            "sort": None,
            "scale": {"domain": list(names), "range": list(scale)},
            "legend": {"labelLimit": 260, "symbolSize": 90},
        }

    encoding = {
        "x": {
            "field": "x",
            "type": "quantitative",
            "title": x_title,
            "scale": {"type": "log", "nice": False, "domain": [values[0], values[-1]]},
            "axis": {"values": values, "format": ",d"},
        },
        "y": {"field": "y", "type": "quantitative", "title": y_title, "scale": {"zero": False}},
        "color": look([strategy_color(name) for name in names.values()]),
        "shape": look([strategy_shape(name) for name in names.values()]),
        "strokeDash": look(dashes(list(names.values()))),
    }
    mark = {"type": "line", "point": {"filled": True, "size": 45, "opacity": 1}, "strokeWidth": 1.5}
    return _svg(rows, [{"mark": mark, "encoding": encoding}], 260)


def stacked(rows: Sequence[Row], title: str, stages: Sequence[str]) -> str | None:
    """Stacked bars per strategy. Rows: `label`, `stage`, `value`."""
    if not rows:
        return None
    encoding = {
        "y": {"field": "label", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 260}},
        "x": {"field": "value", "type": "quantitative", "title": title, "stack": "zero"},
        "color": {
            "field": "stage",
            "type": "nominal",
            "title": None,
            "sort": list(stages),
            "scale": {"domain": list(stages), "range": [STAGES[stage] for stage in stages]},
            "legend": {"orient": "top"},
        },
        "order": {"field": "place", "type": "quantitative"},
    }
    return _svg(rows, [{"mark": {"type": "bar"}, "encoding": encoding}], 24 * len({row["label"] for row in rows}) + 10)


def _x(field: str, title: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "title": title, "scale": {"zero": False}}


def _svg(rows: Sequence[Row], layers: Sequence[Mapping[str, Any]], height: int) -> str:
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "background": "transparent",
        # Room for readers whose system font is wider than the one Vega measures with.
        "padding": {"left": 40, "right": 60, "top": 5, "bottom": 5},
        "width": WIDTH,
        "height": height,
        "data": {"values": [dict(row) for row in rows]},
        "layer": [dict(layer) for layer in layers],
        "config": {
            "font": FONT,
            "view": {"stroke": None},
            "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "gridOpacity": 0.5},
            "legend": {"labelFontSize": 12},
        },
    }
    return _drawn(json.dumps(spec, sort_keys=True))


@lru_cache(maxsize=64)
def _drawn(spec: str) -> str:
    # A large library with an engine of its own: loaded when the first chart is drawn.
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(json.loads(spec), vl_version=VEGA_LITE)
    # Inside an HTML page the name spaces are known; without them the report holds no address at all.
    return _NAMESPACES.sub("", svg)
