"""Chunks that say nearly the same: minhash over runs of five words, candidates checked exactly."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine import lexical
from engine.models import Chunk

RUN = 5
"""Words in a shingle."""
THRESHOLD = 0.8
"""Least Jaccard similarity of two shingle sets that makes chunks near-duplicates."""
_HASHES, _BAND = 64, 4
_CROWD = 40
_PRIME = np.uint64((1 << 61) - 1)
_BASE = 0x94D049BB133111EB
_KNOWN_WORDS = 200_000

Hashes = NDArray[np.uint64]
ShortHashes = NDArray[np.uint32]


class Pair(NamedTuple):
    """Two near-duplicates by their place in the sequence; `first < second`."""

    first: int
    second: int
    similarity: float
    """Jaccard similarity of their five-word runs, 0 to 1."""


def near_duplicates(chunks: Sequence[Chunk], threshold: float = THRESHOLD, runs: Runs | None = None) -> list[Pair]:
    """All pairs at or above the threshold that do not share text of the document (overlap is not duplication).

    Pairs clearly above the threshold are found with near certainty (at 0.9, all but 1 in 10^6); the hashes are fixed, so every run finds the same.
    `runs`: those of the text all the chunks were cut from. With them, chunks that resemble nothing elsewhere are told at a fraction of the
    cost; the pairs are the same, or more where such chunks would stand first in a crowded bucket.
    """
    found = range(len(chunks)) if runs is None else runs.candidates(chunks, threshold)
    return [
        pair
        for pair in _similar({number: chunks[number].text for number in found}, threshold)
        if not _share_text(chunks[pair.first], chunks[pair.second])
    ]


def similar_texts(texts: Sequence[str], threshold: float = THRESHOLD) -> list[Pair]:
    """All pairs of texts whose five-word runs agree at or above the threshold. Equal texts are pairs too; blank ones are not."""
    return _similar(dict(enumerate(texts)), threshold)


class Runs:
    """The runs of five words of one text, hashed once for all chunk sets cut from it. Immutable, safe for threads."""

    def __init__(self, text: str) -> None:
        self._text = text
        known, unfinished = _WordHashes(), list[str]()
        starts, hashes = [np.empty(0, dtype=np.int32)], [np.empty(0, dtype=np.uint32)]
        for block in lexical.placed_words(text):
            starts.append(block.starts.astype(np.int32))
            words = unfinished + block.words
            if len(words) >= RUN:
                hashes.append(_hashed_runs(words, known))
            unfinished = words[1 - RUN :]
        self._starts: NDArray[np.int32] = np.concatenate(starts)
        self._hashes: ShortHashes = np.concatenate(hashes)
        self._repeated = _repeated(self._hashes)

    def candidates(self, chunks: Sequence[Chunk], threshold: float) -> list[int]:
        """The chunks of this text, by place in the sequence, that may have a near-duplicate elsewhere; but for an accident of hashes, no other has.

        What two chunks without common text share stands at two places of the text, or is a run that the text does not have: a word was
        cut, or the chunk is not verbatim. All other runs of a chunk are its alone and differ from each other, so no similarity is above
        the share of the first kinds.
        """
        places = self._places(chunks)
        strange = np.sort(np.concatenate([np.empty(0, dtype=np.uint32), *(place.strange for place in places)]))
        shared = np.append(0, np.cumsum(self._repeated | _among(self._hashes, strange)))
        found = []
        for number, (start, stop, more) in enumerate(places):
            count = stop - start + more.size
            if count and (shared[stop] - shared[start] + more.size) / count >= threshold:
                found.append(number)
        return found

    def _places(self, chunks: Sequence[Chunk]) -> list[_Place]:
        text, known, none, found = self._text, _WordHashes(), np.empty(0, dtype=np.uint32), []
        bounds = np.array([chunk.evidence_span for chunk in chunks], dtype=np.int32).reshape(-1, 2)
        for chunk, (start, stop) in zip(chunks, self._starts.searchsorted(bounds).tolist(), strict=True):
            span = chunk.evidence_span
            cut = lexical.inside_word(text, span.end)
            stop -= RUN - 1 + cut
            verbatim = (
                chunk.span is not None and span.length == len(chunk.text) and text.startswith(chunk.text, span.start)
            )
            if verbatim and start < stop:
                more = none
                if cut or lexical.inside_word(text, span.start):
                    own = _hashed_runs(lexical.words(chunk.text), known)
                    more = own[~_among(own, np.sort(self._hashes[start:stop]))]
                found.append(_Place(start, stop, more))
            else:
                found.append(_Place(0, 0, _hashed_runs(lexical.words(chunk.text), known)))
        return found


class _Place(NamedTuple):
    """The runs of a chunk."""

    start: int
    stop: int
    """It holds the text's runs from `start` to before `stop`."""
    strange: ShortHashes
    """Its others."""


class _WordHashes(dict[str, int]):
    """A hash of each word, made when it is first asked for. Words with a space (some ligatures unfold to several) count as several."""

    spaced = False

    def __missing__(self, word: str) -> int:
        value = 0
        for part in word.split(" "):
            value = (value * _BASE + zlib.crc32(part.encode("utf-8", "surrogatepass"))) % 2**64
        self.spaced = self.spaced or " " in word
        if len(self) >= _KNOWN_WORDS:
            self.clear()
        self[word] = value
        return value


def _hashed_runs(words: Sequence[str], known: _WordHashes) -> ShortHashes:
    """A hash of each run of `shingles`, in order, repeated ones too: equal for equal runs, and with rare exceptions only for those.

    It is the upper half of the polynomial of the hashes of the run's words modulo 2^64.
    """
    if not words:
        return np.empty(0, dtype=np.uint32)
    length = min(RUN, len(words))
    count = len(words) - length + 1
    values = np.fromiter(map(known.__getitem__, words), np.uint64, len(words))
    factors = np.broadcast_to(np.array([_BASE], dtype=np.uint64), values.shape)
    if known.spaced:
        powers = (pow(_BASE, word.count(" ") + 1, 2**64) for word in words)
        factors = np.fromiter(powers, np.uint64, len(words))
    hashes = np.zeros(count, dtype=np.uint64)
    for place in range(length):
        hashes *= factors[place : place + count]
        hashes += values[place : place + count]
    # The last word has only reached the lower half so far.
    hashes *= np.uint64(_BASE)
    return (hashes >> np.uint64(32)).astype(np.uint32)


def _repeated(hashes: ShortHashes) -> NDArray[np.bool_]:
    """Which of the hashes stand at more than one place."""
    order = np.argsort(hashes)
    ordered = hashes[order]
    same = ordered[1:] == ordered[:-1]
    repeated = np.zeros(hashes.size, dtype=np.bool_)
    repeated[order[1:][same]] = True
    repeated[order[:-1][same]] = True
    return repeated


def _among(hashes: ShortHashes, ordered: ShortHashes) -> NDArray[np.bool_]:
    """Which of the hashes are among some sorted ones."""
    if not ordered.size:
        return np.zeros(hashes.size, dtype=np.bool_)
    return np.asarray(ordered.take(ordered.searchsorted(hashes), mode="clip") == hashes)


def _similar(texts: Mapping[int, str], threshold: float) -> list[Pair]:
    """Pairs of texts at or above the threshold, by number, in order."""
    known = {text: shingles(text) for text in dict.fromkeys(texts.values())}
    signatures = {text: _signature(found) for text, found in known.items() if found.size}
    buckets: defaultdict[tuple[int, bytes], list[int]] = defaultdict(list)
    for number, text in texts.items():
        if text in signatures:
            for band in range(0, _HASHES, _BAND):
                buckets[band, signatures[text][band : band + _BAND].tobytes()].append(number)
    candidates = {pair for members in buckets.values() for pair in _pairs(members)}
    pairs = []
    for first, second in sorted(candidates):
        similarity = _jaccard(known[texts[first]], known[texts[second]])
        if similarity >= threshold:
            pairs.append(Pair(first, second, similarity))
    return pairs


def _pairs(members: Sequence[int]) -> Iterator[tuple[int, int]]:
    """All pairs of a bucket; in a crowded one only those with its first member, which keeps repeated boilerplate from growing as a square."""
    if len(members) <= _CROWD:
        return combinations(members, 2)
    return ((members[0], other) for other in members[1:])


def shingles(text: str) -> Hashes:
    """Hashes of the text's different runs of five words, sorted; of all its words where it has fewer."""
    words = lexical.words(text)
    if not words:
        return np.empty(0, dtype=np.uint64)
    runs = {" ".join(words[i : i + RUN]) for i in range(max(1, len(words) - RUN + 1))}
    return np.array(sorted(zlib.crc32(run.encode("utf-8", "surrogatepass")) for run in runs), dtype=np.uint64)


_generator = np.random.default_rng(20240711)
_FACTORS = _generator.integers(1, 2**32, size=_HASHES, dtype=np.uint64)
_OFFSETS = _generator.integers(0, 2**32, size=_HASHES, dtype=np.uint64)


def _signature(found: Hashes) -> Hashes:
    signature: Hashes = ((found[:, None] * _FACTORS + _OFFSETS) % _PRIME).min(axis=0)
    return signature


def _jaccard(first: Hashes, second: Hashes) -> float:
    common = np.intersect1d(first, second, assume_unique=True).size
    return float(common / (first.size + second.size - common))


def _share_text(first: Chunk, second: Chunk) -> bool:
    return first.document_id == second.document_id and first.evidence_span.overlap(second.evidence_span) > 0
