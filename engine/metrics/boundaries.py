"""Where strategies agree and disagree about where a chunk begins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.models import Chunk

TOLERANCE = 20
"""Boundaries this many characters apart count as the same: white space and markup stand between them."""


def boundaries(chunks: Sequence[Chunk]) -> NDArray[np.int64]:
    """Offsets where a chunk begins, the first chunk left out. Sorted, without repeats."""
    return np.unique(np.array([chunk.evidence_span.start for chunk in chunks[1:]], dtype=np.int64))


def agreement(first: NDArray[np.int64], second: NDArray[np.int64], tolerance: int = TOLERANCE) -> float:
    """Boundaries with a counterpart in the other list at most `tolerance` characters away / all boundaries. 1.0 when there are none."""
    total = first.size + second.size
    if not total:
        return 1.0
    return float(((distance(first, second) <= tolerance).sum() + (distance(second, first) <= tolerance).sum()) / total)


def disagreements(cuts: Sequence[NDArray[np.int64]], tolerance: int = TOLERANCE) -> NDArray[np.int64]:
    """Boundaries that at least one of the other lists lacks. Sorted; those closer than `tolerance` to the one before are one place."""
    alone = [
        own[np.any([distance(own, other) > tolerance for place, other in enumerate(cuts) if place != number], axis=0)]
        for number, own in enumerate(cuts)
        if own.size and len(cuts) > 1
    ]
    places = np.unique(np.concatenate(alone)) if alone else np.array([], dtype=np.int64)
    apart = np.diff(places, prepend=-tolerance - 1) > tolerance
    return np.asarray(places[apart], dtype=np.int64)


def distance(offsets: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.float64]:
    """Characters from each offset to the nearest of the others, which are sorted; inf when there are none."""
    if not others.size:
        return np.full(offsets.size, np.inf)
    after = np.searchsorted(others, offsets).clip(0, others.size - 1)
    before = (after - 1).clip(0)
    return np.asarray(np.minimum(np.abs(others[after] - offsets), np.abs(others[before] - offsets)), dtype=np.float64)
