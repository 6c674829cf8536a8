"""What approximate search misses, measured on the vectors that are stored."""

from __future__ import annotations

import random
import time
from typing import NamedTuple

import numpy as np

from engine.index.base import ChunkIndex, Hit, IndexPoint
from engine.providers.base import Vectors

_SPARE = 1e-5
"""Difference of two cosines below which two chunks count as equally near: two ways of computing one score differ by less."""


class Recall(NamedTuple):
    collection: str
    queries: int
    """Stored vectors that were asked for, each among the chunks of its own spec."""
    k: int
    mean: float | None
    """Recall@k: the share of the k exactly nearest chunks that the approximate search found. None without queries."""
    worst: float | None
    """Of the query that did worst."""
    exact_seconds: float
    """Median time of an exact search."""
    approximate_seconds: float


def measure(index: ChunkIndex, collection: str, queries: int, k: int, seed: int = 0) -> Recall:
    """Search a seeded sample of the stored vectors exactly and approximately. Raises IndexUnavailable."""
    points, vectors = _sample(index, collection, queries, seed)
    shares, exact_times, approximate_times = [], [], []
    for point, vector in zip(points, vectors, strict=True):
        began = time.perf_counter()
        wanted = index.search(collection, vector, k, point.spec_id, exact=True)
        between = time.perf_counter()
        found = index.search(collection, vector, k, point.spec_id, exact=False)
        exact_times.append(between - began)
        approximate_times.append(time.perf_counter() - between)
        shares.append(share_found(wanted, found))
    return Recall(
        collection,
        len(shares),
        k,
        float(np.mean(shares)) if shares else None,
        min(shares) if shares else None,
        float(np.median(exact_times)) if shares else 0.0,
        float(np.median(approximate_times)) if shares else 0.0,
    )


def share_found(wanted: list[Hit], found: list[Hit]) -> float:
    """The share of places that hold a chunk as near as an exact search's last one: of chunks equally near, any will do. 1.0 where nothing is wanted."""
    if not wanted:
        return 1.0
    least = wanted[-1].score - _SPARE
    return min(1.0, sum(hit.score >= least for hit in found) / len(wanted))


def _sample(index: ChunkIndex, collection: str, number: int, seed: int) -> tuple[list[IndexPoint], Vectors]:
    """A reservoir sample, so that one page of the collection is in memory at a time."""
    draw = random.Random(seed)
    kept: list[tuple[IndexPoint, Vectors]] = []
    seen, start = 0, None
    while True:
        page = index.read(collection, start)
        for point, vector in zip(page.points, page.vectors, strict=True):
            seen += 1
            if len(kept) < number:
                kept.append((point, vector))
            elif (place := draw.randrange(seen)) < number:
                kept[place] = (point, vector)
        start = page.following
        if start is None:
            return [point for point, _ in kept], np.array([vector for _, vector in kept], np.float32)
