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
    """Chunks per token range, in the same ranges for every spec: columns spec, name, from, to (counted in), chunks, share.

    A range ends at a limit that all specs share, so that no bar stands on both sides of it.
    """
    sizes = [np.array([chunk.token_count for chunk in each.chunks], dtype=np.int64) for each in chunk_sets]
    most = max((int(each.max()) for each in sizes if each.size), default=1)
    limits = {limit for each in chunk_sets if (limit := _limit(each)) is not None and limit <= 1.25 * most}
    most = max(most, *limits, 1)
    width = _bin_width(most, limits)
    # Each range counts its last value in: a chunk as large as the limit allows stands left of the line.
    ends = np.arange(width, most + width, width)
    rows = [
        {
            "spec": label,
            "name": each.spec.strategy_name,
            "from": int(end - width + 1),
            "to": int(end),
            "chunks": int(count),
            "share": int(count) / max(1, own.size),
        }
        for label, each, own in zip(titled([one.spec for one in chunk_sets]), chunk_sets, sizes, strict=True)
        for end, count in zip(ends, np.bincount(np.maximum(own - 1, 0) // width, minlength=len(ends)), strict=True)
    ]
    return pd.DataFrame(rows, columns=["spec", "name", "from", "to", "chunks", "share"])


def _bin_width(most: int, limits: set[int]) -> int:
    """The width nearest to that of `BINS` ranges up to `most` that divides every limit, if there is one not far from it."""
    width = max(1, -(-most // BINS))
    near = sorted(range(-(-width // 2), 2 * width + 1), key=lambda each: abs(each - width))
    return next((each for each in near if all(limit % each == 0 for limit in limits)), width)


def _limit(chunk_set: ChunkSet) -> int | None:
    """The most tokens a chunk of this spec may have; None where it has no such limit."""
    size = chunk_set.spec.params.get("size")
    return size if isinstance(size, int) and chunk_set.spec.params.get("unit", "tokens") == "tokens" else None


def token_histogram(chunk_sets: Sequence[ChunkSet], place: int) -> alt.LayerChart:
    """How many tokens the chunks of one spec have: the share of them per range, over ranges that all specs share.

    Heights are each spec's own, because a strategy of few chunks would lie flat beside one of many. A line stands at the median,
    a dashed one at the limit.
    """
    frame = token_bins(chunk_sets)
    end = int(frame["to"].max()) if len(frame) else 1
    scale = alt.Scale(domain=[0, end], nice=False)
    label, each = titled([one.spec for one in chunk_sets])[place], chunk_sets[place]
    own = frame[frame["spec"] == label].assign(start=lambda rows: rows["from"] - 1)
    limit = _limit(each)
    bars = (
        alt.Chart(own)
        .mark_bar(color=strategy_color(each.spec.strategy_name))
        .encode(
            x=alt.X("start:Q", scale=scale, title="tokens per chunk"),
            x2=alt.X2("to:Q"),
            y=alt.Y("share:Q", title="share of its chunks", axis=alt.Axis(format=".0%", tickCount=4)),
            y2=alt.datum(0),
            tooltip=[
                alt.Tooltip("spec"),
                alt.Tooltip("from"),
                alt.Tooltip("to"),
                alt.Tooltip("chunks"),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
    )
    median = float(np.median([chunk.token_count for chunk in each.chunks])) if each.chunks else 0.0
    layers = [bars, _rule(median, f"median {median:.0f}", scale, end)]
    if limit is not None and limit <= end:
        layers.append(_rule(limit, f"limit {limit}", scale, end, row=1))
    return alt.layer(*layers).properties(height=230)


def _rule(at: float, words: str, scale: alt.Scale, end: float, row: int = 0) -> alt.LayerChart:
    """A line with words beside it, on the side with more room; `row`: 1 for the dashed one, whose words stand lower."""
    base = alt.Chart(pd.DataFrame([{"at": at, "what": words}])).encode(x=alt.X("at:Q", scale=scale))
    line = base.mark_rule(color=GREY, strokeWidth=2, strokeDash=[5, 4] if row else [1, 0])
    left = at <= 0.7 * end
    text = base.mark_text(color=GREY, align="left" if left else "right", dx=4 if left else -4, y=-14 + 14 * row - 6)
    return line + text.encode(text=alt.Text("what:N"))


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
        .encode(x=x, y=y, tooltip=[alt.Tooltip("offset"), alt.Tooltip("similarity:Q", format=".3f")])
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
            x2=alt.X2("end:Q"),
            y=alt.Y("depth:Q", title=None, scale=alt.Scale(reverse=True, nice=False), axis=None),
            y2=alt.Y2("below:Q"),
            color=alt.Color(
                "kind:N",
                title=None,
                scale=alt.Scale(domain=kinds, range=["#8A8A8A", "#0072B2", "#56B4E9", "#E69F00"]),
                legend=alt.Legend(orient="bottom"),
            ),
            tooltip=[alt.Tooltip("node"), alt.Tooltip("kind"), alt.Tooltip("start"), alt.Tooltip("end")],
        )
        .properties(height=220)
    )
