"""Charts, as pure functions from records. Every page shows the numbers of a chart as a table beside it."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from app.theme import GREY, strategy_color, titled
from engine.models import ChunkSet, Document, SimilarityCurve

BINS = 24


def token_bins(chunk_sets: Sequence[ChunkSet]) -> pd.DataFrame:
    """Chunks per token range, in the same ranges for every spec: columns spec, name, from, to, chunks."""
    sizes = [np.array([chunk.token_count for chunk in each.chunks], dtype=np.int64) for each in chunk_sets]
    most = max((int(each.max()) for each in sizes if each.size), default=1)
    width = max(1, -(-(most + 1) // BINS))
    edges = np.arange(0, (most // width + 1) * width + 1, width)
    rows = [
        {
            "spec": label,
            "name": each.spec.strategy_name,
            "from": int(low),
            "to": int(low + width - 1),
            "chunks": int(count),
        }
        for label, each, own in zip(titled([one.spec for one in chunk_sets]), chunk_sets, sizes, strict=True)
        for low, count in zip(edges[:-1], np.histogram(own, edges)[0], strict=True)
    ]
    return pd.DataFrame(rows, columns=["spec", "name", "from", "to", "chunks"])


def token_histogram(chunk_sets: Sequence[ChunkSet], place: int) -> alt.LayerChart:
    """How many tokens the chunks of one spec have, over the bins and heights that all of them share.

    A line stands at the median, a dashed one at the limit.
    """
    frame = token_bins(chunk_sets)
    end = int(frame["to"].max()) + 1 if len(frame) else 1
    scale = alt.Scale(domain=[0, end], nice=False)
    height = alt.Scale(domain=[0, int(frame["chunks"].max()) if len(frame) else 1])
    label, each = titled([one.spec for one in chunk_sets])[place], chunk_sets[place]
    own = frame[frame["spec"] == label].assign(end=lambda rows: rows["to"] + 1)
    limit = each.spec.params.get("size")
    in_tokens = isinstance(limit, int) and each.spec.params.get("unit", "tokens") == "tokens"
    bars = (
        alt.Chart(own)
        .mark_bar(color=strategy_color(each.spec.strategy_name))
        .encode(
            x=alt.X("from:Q", scale=scale, title="tokens per chunk"),
            x2="end:Q",
            y=alt.Y("chunks:Q", title="chunks", scale=height),
            y2=alt.datum(0),
            tooltip=["spec", "from", "to", "chunks"],
        )
    )
    median = float(np.median([chunk.token_count for chunk in each.chunks])) if each.chunks else 0.0
    marks = [{"at": median, "what": f"median {median:.0f}"}]
    layers = [bars, _rule(marks, scale)]
    if in_tokens and limit <= end:
        layers.append(_rule([{"at": limit, "what": f"limit {limit}"}], scale, dash=True))
    return alt.layer(*layers).properties(height=190)


def _rule(marks: list[dict[str, object]], scale: alt.Scale, dash: bool = False) -> alt.LayerChart:
    base = alt.Chart(pd.DataFrame(marks)).encode(x=alt.X("at:Q", scale=scale))
    line = base.mark_rule(color=GREY, strokeWidth=2, strokeDash=[5, 4] if dash else [1, 0])
    return line + base.mark_text(color=GREY, align="left", dx=4, y=8).encode(text="what:N")


CURVE_POINTS = 1500
"""A longer curve is drawn by the lowest value of each stretch, because a boundary is a low value."""


def curve_frame(curve: SimilarityCurve) -> pd.DataFrame:
    return pd.DataFrame({"offset": curve.positions, "similarity": curve.values})


def similarity_curve(curve: SimilarityCurve, name: str) -> alt.LayerChart:
    """Similarity of neighbouring sentences along the text, with the threshold; cuts are the points below it."""
    frame = curve_frame(curve)
    if len(frame) > CURVE_POINTS:
        stretch = np.arange(len(frame)) // -(-len(frame) // CURVE_POINTS)
        frame = frame.loc[frame.groupby(stretch)["similarity"].idxmin()]
    frame = frame.assign(cut=frame["similarity"] < curve.threshold)
    x = alt.X("offset:Q", title="character", scale=alt.Scale(nice=False))
    y = alt.Y("similarity:Q", title="cosine of neighbouring sentences", scale=alt.Scale(zero=False))
    line = alt.Chart(frame).mark_line(color=strategy_color(name), strokeWidth=1).encode(x=x, y=y)
    points = (
        alt.Chart(frame[frame["cut"]])
        .mark_point(color="#D55E00", filled=True, size=28)
        .encode(x=x, y=y, tooltip=["offset", alt.Tooltip("similarity:Q", format=".3f")])
    )
    threshold = alt.Chart(pd.DataFrame({"similarity": [curve.threshold]})).mark_rule(color=GREY, strokeDash=[5, 4])
    return alt.layer(line, points, threshold.encode(y=y)).properties(height=220)


def icicle_frame(document: Document, depth: int = 6) -> pd.DataFrame:
    """Sections, articles and tables by place in the text and depth: columns node, kind, depth, start, end."""
    rows: list[dict[str, object]] = []
    stack = [(document.tree, 0)]
    while stack:
        node, level = stack.pop()
        if node.kind in ("document", "section", "article", "table"):
            name = document.name if node.kind == "document" else node.name or node.kind.value.capitalize()
            rows.append(
                {
                    "node": name[:80],
                    "kind": node.kind.value,
                    "depth": level,
                    "start": node.span.start,
                    "end": node.span.end,
                }
            )
            level += 1
        if level <= depth:
            stack.extend((child, level) for child in reversed(node.children))
    return pd.DataFrame(rows, columns=["node", "kind", "depth", "start", "end"])


def icicle(document: Document) -> alt.Chart:
    """How much of the text each part takes: the document on top, its parts below, widths in characters."""
    frame = icicle_frame(document)
    frame = frame.assign(below=frame["depth"] + 1)
    kinds = ["document", "section", "article", "table"]
    return (
        alt.Chart(frame)
        .mark_rect(stroke="white", strokeWidth=0.6)
        .encode(
            x=alt.X("start:Q", title="character", scale=alt.Scale(domain=[0, max(1, len(document.text))], nice=False)),
            x2="end:Q",
            y=alt.Y("depth:Q", title=None, scale=alt.Scale(reverse=True, nice=False), axis=None),
            y2="below:Q",
            color=alt.Color(
                "kind:N",
                title=None,
                scale=alt.Scale(domain=kinds, range=["#8A8A8A", "#0072B2", "#56B4E9", "#E69F00"]),
                legend=alt.Legend(orient="bottom"),
            ),
            tooltip=["node", "kind", "start", "end"],
        )
        .properties(height=220)
    )
