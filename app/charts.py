"""Charts, as pure functions from records."""

from __future__ import annotations

import altair as alt
import pandas as pd

from app.theme import strategy_color
from engine.models import ChunkSet
from engine.records import Experiment


def metric_bars(experiment: Experiment, metric: str) -> alt.Chart:
    """One bar per strategy for one metric, best first, the value written beside it."""
    rows = [
        {"strategy": result.spec.label, "name": result.spec.strategy_name, "value": value.value}
        for result in experiment.results
        for value in result.metrics
        if value.metric == metric and value.value is not None
    ]
    frame = pd.DataFrame(rows, columns=["strategy", "name", "value"])
    names = list(dict.fromkeys(frame["name"]))
    base = alt.Chart(frame).encode(
        y=alt.Y("strategy:N", sort="-x", title=None, axis=alt.Axis(labelLimit=260)),
        x=alt.X("value:Q", title=metric),
    )
    bars = base.mark_bar().encode(
        color=alt.Color("name:N", scale=alt.Scale(domain=names, range=[strategy_color(n) for n in names]), legend=None),
        tooltip=["strategy", alt.Tooltip("value:Q", format=".3f")],
    )
    labels = base.mark_text(align="left", dx=4, color="gray").encode(text=alt.Text("value:Q", format=".3f"))
    return bars + labels


def token_histogram(chunk_set: ChunkSet) -> alt.Chart:
    """How many tokens the chunks have."""
    frame = pd.DataFrame({"tokens": [chunk.token_count for chunk in chunk_set.chunks]})
    return (
        alt.Chart(frame)
        .mark_bar(color=strategy_color(chunk_set.spec.strategy_name))
        .encode(
            x=alt.X("tokens:Q", bin=alt.Bin(maxbins=30), title="tokens per chunk"), y=alt.Y("count()", title="chunks")
        )
        .properties(height=160)
    )
