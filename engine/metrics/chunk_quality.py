"""What can be said about the chunks of a document without a single question."""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from engine.metrics import spans
from engine.metrics.base import Direction, Metric, Unit
from engine.metrics.duplicates import Runs, near_duplicates
from engine.models import Chunk, ChunkSet, Node, NodeKind, Span
from engine.strategies.source import Source

_NON_BLANK = re.compile(r"\S")
_STRUCTURAL_LINE = re.compile(r"^[ \t]*(?:#{1,6}\s|[-*+•]\s|\(?[0-9a-zA-Z]{1,4}[.)]\s|\||>|```|~~~)", re.MULTILINE)
"""Lines that begin a heading, list item, table row, quote or code fence: a chunk may begin there and end before it."""
_FOLLOWING = 100
"""A heading is with its body when its chunk also holds this many characters of what follows, or its first sentence if that is shorter."""


def _metric(name: str, title: str, definition: str, direction: Direction, unit: Unit) -> Metric:
    return Metric(name, title, definition, direction, unit, "counted on the canonical text", "chunks")


METRICS: tuple[Metric, ...] = (
    _metric("chunks", "Chunks", "number of chunks", "none", "count"),
    _metric("coverage", "Coverage", "non-blank characters in some chunk / non-blank characters", "higher", "share"),
    _metric("lost_characters", "Lost characters", "non-blank characters in no chunk", "lower", "characters"),
    _metric(
        "duplicated_share",
        "Duplicated characters",
        "1 - characters in chunks counted once / counted each time",
        "lower",
        "share",
    ),
    _metric(
        "break_rate_end",
        "Ends inside a sentence",
        "chunks that end inside a sentence, heading, list item or table row / chunks, the document's end left out",
        "lower",
        "share",
    ),
    _metric(
        "break_rate_start",
        "Starts inside a sentence",
        "chunks that start inside a sentence, heading, list item or table row / chunks, the document's start left out",
        "lower",
        "share",
    ),
    _metric("break_rate", "Broken boundaries", "broken starts and ends / all starts and ends", "lower", "share"),
    _metric(
        "headings_kept",
        "Headings with their body",
        "headings whose chunk also holds the beginning of what follows / headings",
        "higher",
        "share",
    ),
    _metric("tables_intact", "Tables intact", "tables wholly in one chunk / tables", "higher", "share"),
    _metric("lists_intact", "Lists intact", "lists wholly in one chunk / lists", "higher", "share"),
    _metric("code_intact", "Code intact", "code blocks wholly in one chunk / code blocks", "higher", "share"),
    _metric("size_p5", "Size, 5th percentile", "tokens of a chunk on its own", "none", "tokens"),
    _metric("size_p50", "Size, median", "tokens of a chunk on its own", "none", "tokens"),
    _metric("size_p95", "Size, 95th percentile", "tokens of a chunk on its own", "none", "tokens"),
    _metric("size_mean", "Size, mean", "tokens of a chunk on its own", "none", "tokens"),
    _metric(
        "uniformity",
        "Uniformity",
        "1 - standard deviation / mean of chunk sizes; it rewards blind cutting, so it only describes",
        "none",
        "share",
    ),
    _metric("over_limit", "Over the limit", "chunks larger than the token limit / chunks", "lower", "share"),
    _metric("duplicates", "Duplicates", "chunks whose text another chunk before them has / chunks", "lower", "share"),
    _metric(
        "near_duplicates",
        "Near-duplicates",
        "chunks that share most five-word runs with an earlier chunk elsewhere / chunks",
        "lower",
        "share",
    ),
)

THRESHOLDS: dict[str, float] = {
    "coverage": 1.0,
    "lost_characters": 0.0,
    "duplicated_share": 0.25,
    "break_rate": 0.05,
    "break_rate_end": 0.05,
    "break_rate_start": 0.05,
    "uniformity": 0.7,
    "headings_kept": 0.95,
    "tables_intact": 0.9,
    "lists_intact": 0.8,
    "code_intact": 0.9,
    "over_limit": 0.0,
    "duplicates": 0.0,
    "near_duplicates": 0.05,
}
"""Values from which a cut deserves a look, by metric: a ceiling where less is better, else a floor. Rules of thumb, not verdicts."""


def deserves_a_look(metric: str, value: float) -> bool:
    """Whether a value is on the wrong side of its threshold. Metrics without one never are."""
    if metric not in THRESHOLDS:
        return False
    direction = next(each.direction for each in METRICS if each.name == metric)
    return value > THRESHOLDS[metric] if direction == "lower" else value < THRESHOLDS[metric]


def measure(chunk_set: ChunkSet, source: Source, limit: int | None = None) -> dict[str, float]:
    """All metrics of `METRICS` that apply to the document, by name. A document without tables has no `tables_intact`; no chunks, only coverage.

    `limit`: tokens a chunk may have; without it, the spec's `size`, and without that `over_limit` counts chunks flagged so. What depends on
    the document alone is computed once for each source.
    """
    chunks, text, facts = chunk_set.chunks, source.text, _facts(source)
    places = spans.as_array([chunk.evidence_span for chunk in chunks])
    total = source.visible_characters
    lost = sum(len("".join(gap.slice(text).split())) for gap in spans.gaps(places, len(text)))
    values = {"chunks": float(len(chunks)), "lost_characters": float(lost)}
    if total:
        values["coverage"] = (total - lost) / total
    if not chunks:
        return values
    verbatim = places[[chunk.span is not None for chunk in chunks]]
    if len(verbatim):
        end = int(verbatim.max())
        held = end - spans.length(spans.gaps(verbatim, end))
        values["duplicated_share"] = 1 - held / int((verbatim[:, 1] - verbatim[:, 0]).sum())
        values.update(_break_rates(verbatim, facts.legal, source))
    for name, wholes in facts.wholes.items():
        values[name] = float(np.count_nonzero(spans.held_whole(wholes, places)) / len(wholes))
    sizes = np.array([chunk.token_count for chunk in chunks], dtype=np.float64)
    values.update(_sizes(sizes))
    values["over_limit"] = _over_limit(chunk_set, sizes, limit)
    copies = Counter(chunk.content_hash for chunk in chunks)
    values["duplicates"] = (len(chunks) - len(copies)) / len(chunks)
    values["near_duplicates"] = len({pair.second for pair in near_duplicates(chunks, runs=facts.runs)}) / len(chunks)
    return values


class _Facts(NamedTuple):
    """What every cut of a document is compared with."""

    legal: NDArray[np.int64]
    """See `legal_boundaries`."""
    wholes: dict[str, NDArray[np.int64]]
    """The spans that a cut should leave whole, by metric; only kinds the document has. Shapes `(n_spans, 2)`."""
    runs: Runs


_known_facts: WeakKeyDictionary[Source, _Facts] = WeakKeyDictionary()
_lock = threading.Lock()


def _facts(source: Source) -> _Facts:
    """Found once for each source and forgotten with it; two threads may find the same at once."""
    with _lock:
        known = _known_facts.get(source)
    if known is None:
        nodes = tuple(source.document.tree.walk())
        known = _Facts(_legal_boundaries(source, nodes), _wholes(source, nodes), Runs(source.text))
        with _lock:
            _known_facts[source] = known
    return known


def legal_boundaries(source: Source) -> NDArray[np.int64]:
    """Offsets of non-blank characters before which a chunk may end or begin: sentences and the parts of the document's structure. Sorted."""
    return _facts(source).legal


def _legal_boundaries(source: Source, nodes: Sequence[Node]) -> NDArray[np.int64]:
    text = source.text
    legal = set(source.sentence_edges[:-1])
    for node in nodes:
        legal.update(node.span)
        if node.heading is not None:
            legal.add(node.heading.end)
        if node.kind is NodeKind.CODE:
            legal.update(node.span.start + match.end() for match in re.finditer("\n", node.span.slice(text)))
    for match in _STRUCTURAL_LINE.finditer(text):
        legal.add(match.start())
        following = text.find("\n", match.end())
        if match.group().lstrip()[:1] in ("#", "|") and following >= 0:
            legal.add(following)
    return np.unique(source.next_visible(list(legal)))


def orphans(chunks: Sequence[Chunk], retrieved: Iterable[str]) -> tuple[Chunk, ...]:
    """Chunks that no question of a benchmark retrieved. `retrieved`: the ids of all chunks that some question did."""
    reached = set(retrieved)
    return tuple(chunk for chunk in chunks if chunk.chunk_id not in reached)


def _break_rates(places: NDArray[np.int64], legal: NDArray[np.int64], source: Source) -> dict[str, float]:
    ends, starts = source.next_visible(places[:, 1]), source.next_visible(places[:, 0])
    ends = ends[ends < len(source.text)]
    starts = starts[starts > source.next_visible([0])]
    rates = {}
    broken = {"break_rate_end": ~np.isin(ends, legal), "break_rate_start": ~np.isin(starts, legal)}
    for name, found in broken.items():
        if found.size:
            rates[name] = float(found.mean())
    both = np.concatenate(list(broken.values()))
    if both.size:
        rates["break_rate"] = float(both.mean())
    return rates


def _wholes(source: Source, nodes: Sequence[Node]) -> dict[str, NDArray[np.int64]]:
    groups = {
        "headings_kept": _with_following([node.heading for node in nodes if node.heading is not None], source),
        "tables_intact": [node.span for node in nodes if node.kind is NodeKind.TABLE],
        "lists_intact": list(_lists(source.document.tree)),
        "code_intact": [node.span for node in nodes if node.kind is NodeKind.CODE],
    }
    return {
        name: spans.as_array([_stripped(source.text, span) for span in members])
        for name, members in groups.items()
        if members
    }


def _with_following(headings: Sequence[Span], source: Source) -> list[Span]:
    """Each heading with the beginning of what follows it."""
    edges, size, found = source.sentence_edges, len(source.text), []
    for heading, begin in zip(headings, source.next_visible([each.end for each in headings]).tolist(), strict=True):
        end = heading.end if begin == size else min(edges[bisect_right(edges, begin)], begin + _FOLLOWING)
        found.append(Span(heading.start, end))
    return found


def _lists(tree: Node) -> Iterator[Span]:
    """Runs of list items beside each other, the outermost ones."""
    stack = [tree]
    while stack:
        node = stack.pop()
        run: list[Node] = []
        for child in [*node.children, None]:
            if child is not None and child.kind is NodeKind.LIST_ITEM:
                run.append(child)
                continue
            if run:
                yield Span(run[0].span.start, run[-1].span.end)
                run = []
            if child is not None:
                stack.append(child)


def _stripped(text: str, span: Span) -> Span:
    part = span.slice(text)
    start = span.start + len(part) - len(part.lstrip())
    return Span(start, max(start, span.end - (len(part) - len(part.rstrip()))))


def _sizes(sizes: NDArray[np.float64]) -> dict[str, float]:
    p5, p50, p95 = np.percentile(sizes, [5, 50, 95])
    mean = float(sizes.mean())
    values = {"size_p5": float(p5), "size_p50": float(p50), "size_p95": float(p95), "size_mean": mean}
    if mean:
        values["uniformity"] = 1 - float(sizes.std()) / mean
    return values


def _over_limit(chunk_set: ChunkSet, sizes: NDArray[np.float64], limit: int | None) -> float:
    size = limit if limit is not None else chunk_set.spec.params.get("size")
    if size is None:
        return sum("over_limit" in chunk.flags for chunk in chunk_set.chunks) / len(chunk_set.chunks)
    return float((sizes > size).mean())
