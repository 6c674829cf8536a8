"""Charts of an experiment, as pure functions of the frames in `results`."""

from __future__ import annotations

import math

import altair as alt
import pandas as pd

from app.results import BETTER, UNCLEAR, WORSE
from app.theme import BETTER as BLUE
from app.theme import GREY, STAGES, strategy_color, strategy_shape
from app.theme import UNCLEAR as NEUTRAL
from app.theme import WORSE as VERMILLION
from engine.metrics.registry import in_sentence

CELL = 30
"""Height of a row, in pixels."""
LABELS_AT = 4150
"""Where the names of the budget curves stand, in tokens: right of the last budget."""
_LABELS = alt.Axis(labelLimit=320, labelOverlap=False, labelFlush=False, labelBaseline="middle")


def _look(frame: pd.DataFrame) -> tuple[alt.Color, alt.Shape]:
    """Colour and shape of each strategy, the same on every page. Specs of one strategy share them and differ by their label."""
    names = list(dict.fromkeys(frame["name"]))
    color = alt.Color(
        "name:N", scale=alt.Scale(domain=names, range=[strategy_color(each) for each in names]), legend=None
    )
    shape = alt.Shape(
        "name:N", scale=alt.Scale(domain=names, range=[strategy_shape(each) for each in names]), legend=None
    )
    return color, shape


def heat_map(frame: pd.DataFrame) -> alt.LayerChart:
    """Strategies by metrics; darker blue is better within a column, every cell has its number. Clicking selects a cell."""
    pick = alt.selection_point(name="cell", fields=["spec_id", "metric"], empty=False)
    order_x, order_y = list(dict.fromkeys(frame["title"])), list(dict.fromkeys(frame["strategy"]))
    base = alt.Chart(frame).encode(
        x=alt.X(
            "title:N",
            sort=order_x,
            title=None,
            axis=alt.Axis(orient="top", labelAngle=-62, labelLimit=220, labelOverlap=False),
        ),
        y=alt.Y("strategy:N", sort=order_y, title=None, axis=_LABELS),
    )
    shade = alt.Color("shade:Q", scale=alt.Scale(domain=[0, 1], range=["#DCE9F2", "#0072B2"]), legend=None)
    cells = base.mark_rect(stroke="#8A8A8A").encode(
        color=alt.condition("datum.shade === null", alt.value("#BBBBBB"), shade),
        strokeWidth=alt.condition(pick, alt.value(3), alt.value(0.3)),
        tooltip=[
            alt.Tooltip("strategy"),
            alt.Tooltip("title"),
            alt.Tooltip("shown"),
            alt.Tooltip("n"),
            alt.Tooltip("not scored"),
        ],
    )
    # The slanted title of the last column leans out of the chart.
    room = {"left": 5, "top": 5, "right": 45, "bottom": 5}
    return (cells.add_params(pick) + _numbers(base)).properties(height=CELL * len(order_y) + 170, padding=room)


def _numbers(base: alt.Chart) -> alt.LayerChart:
    """The column `shown` over cells shaded by `shade`; where there is no cell the text stands on the page, light or dark."""
    known = base.transform_filter("isValid(datum.shade)").mark_text()
    return alt.layer(
        known.encode(
            text=alt.Text("shown:N"), color=alt.condition("datum.shade > 0.55", alt.value("white"), alt.value("black"))
        ),
        base.transform_filter("!isValid(datum.shade)").mark_text(color=GREY).encode(text=alt.Text("shown:N")),
    )


def spread_plot(frame: pd.DataFrame, title: str) -> alt.LayerChart:
    """Share of each strategy's questions by score, one row per strategy; darker is more."""
    base = alt.Chart(frame).encode(
        x=alt.X(
            "scores:N",
            sort=list(dict.fromkeys(frame["scores"])),
            title=f"{title} of a question",
            axis=alt.Axis(labelAngle=0, labelOverlap=False),
        ),
        y=alt.Y("strategy:N", sort=list(dict.fromkeys(frame["strategy"])), title=None, axis=_LABELS),
    )
    shade = alt.Color("shade:Q", scale=alt.Scale(domain=[0, 1], range=["#DCE9F2", "#0072B2"]), legend=None)
    cells = base.mark_rect(stroke="#8A8A8A", strokeWidth=0.3).encode(
        color=shade,
        tooltip=[alt.Tooltip("strategy"), alt.Tooltip("scores"), alt.Tooltip("questions"), alt.Tooltip("shown")],
    )
    return alt.layer(cells, _numbers(base)).properties(height=CELL * frame["strategy"].nunique() + 70)


def forest_plot(frame: pd.DataFrame, title: str) -> alt.LayerChart:
    """Paired difference to the baseline with its interval; colour, shape and word say what may be concluded."""
    looks = [BETTER, UNCLEAR, WORSE]
    base = alt.Chart(frame).encode(
        y=alt.Y("strategy:N", sort=alt.EncodingSortField("difference", order="descending"), title=None, axis=_LABELS),
        color=alt.Color(
            "verdict:N",
            title=None,
            scale=alt.Scale(domain=looks, range=[BLUE, NEUTRAL, VERMILLION]),
            legend=alt.Legend(orient="bottom", labelExpr="slice(datum.label, 2)"),
        ),
    )
    name = f"difference in {in_sentence(title)}, 95 % interval"
    x = alt.X("difference:Q", title=name)
    zero = (
        alt.Chart(pd.DataFrame({"difference": [0.0]}))
        .mark_rule(color=GREY, strokeDash=[4, 4])
        .encode(x=alt.X("difference:Q"))
    )
    bars = base.mark_rule(strokeWidth=2.5).encode(x=alt.X("low:Q", title=name), x2=alt.X2("high:Q"))
    points = base.mark_point(filled=True, size=110, opacity=1).encode(
        x=x,
        shape=alt.Shape(
            "verdict:N",
            title=None,
            scale=alt.Scale(domain=looks, range=["triangle-up", "circle", "triangle-down"]),
            legend=alt.Legend(orient="bottom", labelExpr="slice(datum.label, 2)"),
        ),
        tooltip=[
            alt.Tooltip("strategy"),
            alt.Tooltip("difference:Q", format="+.3f"),
            alt.Tooltip("low"),
            alt.Tooltip("high"),
            alt.Tooltip("adjusted p"),
            alt.Tooltip("questions"),
        ],
    )
    return alt.layer(zero, bars, points).properties(height=CELL * max(1, len(frame)) + 140)


def pareto_plot(frame: pd.DataFrame, quality: str, cost: str) -> alt.LayerChart:
    """Quality against cost with intervals; the step line joins strategies that nothing beats at their cost."""
    color, shape = _look(frame)
    log = bool(len(frame)) and float(frame["cost"].min()) > 0 and float(frame["cost"].max() / frame["cost"].min()) > 5
    kind = {"type": "log"} if log else {"zero": False}
    scale = alt.Scale(nice=False, padding=PARETO_MARGIN, **kind)
    # Room for labels may reach below zero, where no cost is.
    x = alt.X("cost:Q", title=cost, scale=scale, axis=alt.Axis(labelExpr="datum.value < 0 ? '' : datum.label"))
    base = alt.Chart(frame.assign(corner=label_corners(frame, log)))
    frontier = (
        alt.Chart(frame[frame["frontier"] == "yes"])
        .mark_line(interpolate="step-after", color=GREY, strokeDash=[5, 4])
        .encode(x=x, y=alt.Y("quality:Q"))
    )
    bars = base.mark_rule(strokeWidth=1.5).encode(
        x=x, y=alt.Y("low:Q", title=quality), y2=alt.Y2("high:Q"), color=color
    )
    points = base.mark_point(filled=True, size=120, opacity=1).encode(
        x=x,
        y=alt.Y("quality:Q", title=quality, scale=alt.Scale(zero=False)),
        color=color,
        shape=shape,
        tooltip=[
            alt.Tooltip("strategy"),
            alt.Tooltip("cost:Q", format=",.4~g"),
            alt.Tooltip("quality:Q", format=".3f"),
            alt.Tooltip("frontier"),
        ],
    )
    names = [
        base.transform_filter(f"datum.corner == {number}")
        .mark_text(align="left" if side > 0 else "right", baseline="middle", dx=9 * side, dy=down, color=GREY)
        .encode(x=x, y=alt.Y("quality:Q"), text=alt.Text("strategy:N"))
        for number, (side, down) in enumerate(CORNERS)
    ]
    return alt.layer(frontier, bars, points, *names).properties(height=PARETO_HEIGHT)


PARETO_HEIGHT = 360
PARETO_MARGIN = 120
"""Pixels left and right of the outermost points, in which a label has room."""
CORNERS = ((1, -10), (-1, -10), (1, 11), (-1, 11), (1, -25), (-1, -25), (1, 26), (-1, 26))
"""Where a point's label may stand: right (1) or left (-1) of it, and how many pixels below its middle."""


def label_corners(frame: pd.DataFrame, log: bool, width: int = 860) -> list[int]:
    """For each point the first of `CORNERS` whose label touches no point and no label placed before, else the one that touches fewest.

    `width`: pixels between the axes on a page 1,300 pixels wide; where there is more room, labels are only further apart.
    """
    height, letter, line = PARETO_HEIGHT - 60, 5.0, 13.0
    costs = frame["cost"].astype(float).map(math.log if log else float)
    xs = PARETO_MARGIN + _shares(costs) * (width - 2 * PARETO_MARGIN)
    count = len(frame)
    places = (1 - _shares(pd.concat([frame["low"], frame["high"], frame["quality"]]).astype(float))) * height
    bottoms, tops, ys = places[:count], places[count : 2 * count], places[2 * count :]
    points = list(zip(xs, ys, strict=True))
    taken: list[tuple[float, float, float, float]] = [(x - 7, x + 7, y - 7, y + 7) for x, y in points]
    taken += [(x - 2, x + 2, top, bottom) for x, top, bottom in zip(xs, tops, bottoms, strict=True)]
    corners = []
    for place, (x, y) in enumerate(points):
        length = letter * len(str(frame["strategy"].iloc[place]))
        options = []
        for number, (side, down) in enumerate(CORNERS):
            left = x + 9 if side > 0 else x - 9 - length
            box = (left, left + length, y + down - line / 2, y + down + line / 2)
            touched = sum(
                box[0] < other[1] and other[0] < box[1] and box[2] < other[3] and other[2] < box[3]
                for at, other in enumerate(taken)
                if at not in (place, count + place)
            )
            outside = box[0] < 0 or box[1] > width or box[2] < 0 or box[3] > height
            options.append((touched + 4 * outside, number, box))
        _, chosen, box = min(options)
        corners.append(chosen)
        taken.append(box)
    return corners


def _shares(values: pd.Series) -> pd.Series:
    """Places between the smallest (0) and the largest (1)."""
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else values * 0 + 0.5


def budget_plot(frame: pd.DataFrame, title: str) -> alt.LayerChart:
    """Recall over the token budget, one line per strategy, named at its end."""
    color, shape = _look(frame)
    x = alt.X(
        "tokens:Q",
        title="tokens of retrieved text",
        scale=alt.Scale(domain=[400, 6200], nice=False),
        axis=alt.Axis(values=sorted(set(frame["tokens"].tolist()))),
    )
    y = alt.Y("recall:Q", title=title, scale=alt.Scale(zero=False))
    base = alt.Chart(frame).encode(x=x, y=y, color=color, detail=alt.Detail("strategy:N"))
    ends = frame[frame["tokens"] == frame["tokens"].max()].sort_values("recall")
    gap = 0.055 * float(frame["recall"].max() - frame["recall"].min())
    named = alt.Chart(ends.assign(place=_apart(ends["recall"].tolist(), gap), tokens=LABELS_AT))
    keys = named.mark_point(filled=True, size=60, opacity=1).encode(x=x, y=alt.Y("place:Q"), color=color, shape=shape)
    names = named.mark_text(align="left", dx=9, color=GREY).encode(x=x, y=alt.Y("place:Q"), text=alt.Text("strategy:N"))
    points = base.mark_point(filled=True, size=60).encode(
        shape=shape, tooltip=[alt.Tooltip("strategy"), alt.Tooltip("tokens"), alt.Tooltip("recall:Q", format=".3f")]
    )
    return alt.layer(base.mark_line(), points, keys, names).properties(height=320)


def _apart(values: list[float], gap: float) -> list[float]:
    """Sorted values moved as little downwards as keeps them `gap` apart, for labels at the ends of lines; no label stands above the highest value."""
    places: list[float] = []
    for value in reversed(values):
        places.append(min(value, places[-1] - gap) if places else value)
    return places[::-1]


def latency_plot(frame: pd.DataFrame, phase: str) -> alt.Chart:
    """Stacked time per stage of one phase, in milliseconds where all of it is under a second."""
    own = frame[frame["phase"] == phase]
    is_short = bool(own.groupby("strategy")["seconds"].sum().max() < 1)
    own = own.assign(time=own["seconds"] * (1000 if is_short else 1))
    stages = [stage for stage in STAGES if stage in set(own["stage"])]
    return (
        alt.Chart(own)
        .mark_bar()
        .encode(
            y=alt.Y("strategy:N", sort=list(dict.fromkeys(own["strategy"])), title=None, axis=_LABELS),
            x=alt.X("time:Q", title="milliseconds" if is_short else "seconds"),
            color=alt.Color(
                "stage:N",
                title=None,
                scale=alt.Scale(domain=stages, range=[STAGES[stage] for stage in stages]),
                legend=alt.Legend(orient="right"),
            ),
            order=alt.Order("stage_order:Q"),
            tooltip=[alt.Tooltip("strategy"), alt.Tooltip("stage"), alt.Tooltip("seconds:Q", format=".4f")],
        )
        .transform_calculate(stage_order=f"indexof({stages}, datum.stage)")
        .properties(height=CELL * max(1, own["strategy"].nunique()) + 60)
    )
