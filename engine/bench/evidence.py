"""Where the evidence of a question lies among the chunks of one strategy spec."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.models import Chunk
from engine.records import EvidencePlace, Gold, Question


class ChunkPlaces:
    """The spans of all chunks of a spec, by document."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        grouped: dict[str, list[Chunk]] = {}
        for chunk in chunks:
            grouped.setdefault(chunk.document_id, []).append(chunk)
        self._spans: dict[str, NDArray[np.int64]] = {
            document_id: np.array([[*chunk.evidence_span, chunk.chunk_index + 1] for chunk in members], dtype=np.int64)
            for document_id, members in grouped.items()
        }

    def of(self, question: Question, retrieved: Sequence[Chunk]) -> tuple[EvidencePlace, ...]:
        """One entry per quote that was found in the documents; of copies, the one the fewest chunks hold."""
        found = {(chunk.document_id, chunk.chunk_index + 1) for chunk in retrieved}
        places = []
        for item in question.evidence:
            held = [self._holding(gold, found) for gold in item.gold]
            if held:
                places.append(min(held, key=lambda place: (not place.retrieved, not place.whole, len(place.chunks))))
        return tuple(places)

    def _holding(self, gold: Gold, found: set[tuple[str, int]]) -> EvidencePlace:
        spans = self._spans.get(gold.document_id, np.empty((0, 3), dtype=np.int64))
        start, end = gold.span
        whole = (spans[:, 0] <= start) & (spans[:, 1] >= end)
        part = (spans[:, 0] < end) & (spans[:, 1] > start)
        numbers: list[int] = spans[whole if whole.any() else part, 2].tolist()
        return EvidencePlace(
            document_id=gold.document_id,
            chunks=tuple(numbers),
            whole=bool(whole.any()),
            retrieved=tuple(number for number in numbers if (gold.document_id, number) in found),
        )
