"""Chunks that say nearly the same: minhash over runs of five words, candidates checked exactly."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.lexical import words as words_of
from engine.models import Chunk

RUN = 5
"""Words in a shingle."""
THRESHOLD = 0.8
"""Least Jaccard similarity of two shingle sets that makes chunks near-duplicates."""
_HASHES, _BAND = 64, 4
_CROWD = 40
_PRIME = np.uint64((1 << 61) - 1)


class Pair(NamedTuple):
    """Two near-duplicates by their place in the sequence; `first < second`."""

    first: int
    second: int
    similarity: float
    """Jaccard similarity of their five-word runs, 0 to 1."""


def near_duplicates(chunks: Sequence[Chunk], threshold: float = THRESHOLD) -> list[Pair]:
    """All pairs at or above the threshold that do not share text of the document (overlap is not duplication).

    Pairs clearly above the threshold are found with near certainty (at 0.9, all but 1 in 10^6); the hashes are fixed, so every run finds the same.
    """
    return [
        pair
        for pair in similar_texts([chunk.text for chunk in chunks], threshold)
        if not _share_text(chunks[pair.first], chunks[pair.second])
    ]


def similar_texts(texts: Sequence[str], threshold: float = THRESHOLD) -> list[Pair]:
    """All pairs of texts whose five-word runs agree at or above the threshold. Equal texts are pairs too; blank ones are not."""
    sets = [shingles(text) for text in texts]
    buckets: defaultdict[tuple[int, bytes], list[int]] = defaultdict(list)
    for position, found in enumerate(sets):
        if found.size:
            signature = _signature(found)
            for band in range(0, _HASHES, _BAND):
                buckets[band, signature[band : band + _BAND].tobytes()].append(position)
    candidates = {pair for members in buckets.values() for pair in _pairs(members)}
    pairs = []
    for first, second in sorted(candidates):
        similarity = _jaccard(sets[first], sets[second])
        if similarity >= threshold:
            pairs.append(Pair(first, second, similarity))
    return pairs


def _pairs(members: Sequence[int]) -> Iterator[tuple[int, int]]:
    """All pairs of a bucket; in a crowded one only those with its first member, which keeps repeated boilerplate from growing as a square."""
    if len(members) <= _CROWD:
        return combinations(members, 2)
    return ((members[0], other) for other in members[1:])


def shingles(text: str) -> NDArray[np.uint64]:
    """Hashes of the text's runs of five words, sorted; of all its words where it has fewer."""
    words = words_of(text)
    if not words:
        return np.empty(0, dtype=np.uint64)
    runs = {" ".join(words[i : i + RUN]) for i in range(max(1, len(words) - RUN + 1))}
    return np.array(sorted(zlib.crc32(run.encode("utf-8", "surrogatepass")) for run in runs), dtype=np.uint64)


_generator = np.random.default_rng(20240711)
_FACTORS = _generator.integers(1, 2**32, size=_HASHES, dtype=np.uint64)
_OFFSETS = _generator.integers(0, 2**32, size=_HASHES, dtype=np.uint64)


def _signature(found: NDArray[np.uint64]) -> NDArray[np.uint64]:
    signature: NDArray[np.uint64] = ((found[:, None] * _FACTORS + _OFFSETS) % _PRIME).min(axis=0)
    return signature


def _jaccard(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> float:
    common = np.intersect1d(first, second, assume_unique=True).size
    return float(common / (first.size + second.size - common))


def _share_text(first: Chunk, second: Chunk) -> bool:
    return first.document_id == second.document_id and first.evidence_span.overlap(second.evidence_span) > 0
