"""From a question to the text a reader is given: nearest chunks, expanded to their parents, within a token budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from engine import tokens
from engine.index.base import ChunkIndex, Hit, collection_name
from engine.models import Chunk, Document, Span, StrategySpec
from engine.providers.base import Vectors
from engine.records import RetrievedChunk

ChunkLookup = Callable[[Sequence[str]], Mapping[str, Chunk]]
DocumentLookup = Callable[[str], Document]


def vector_hits(
    index: ChunkIndex, spec: StrategySpec, vector: Vectors, top_k: int, document_ids: Sequence[str]
) -> list[Hit]:
    """The `top_k` nearest chunks of one spec, best first. `vector`: shape `(dimension,)`, unit length."""
    return index.search(collection_name(spec.strategy_name), vector, top_k, spec.spec_id, document_ids)


def deliver(
    hits: Sequence[Hit], chunks: ChunkLookup, documents: DocumentLookup, context_tokens: int
) -> tuple[RetrievedChunk, ...]:
    """Hits with the text a reader is given for each, best first.

    A chunk with a parent delivers the parent, once; a chunk that is not verbatim delivers the passage it was made from.
    A unit longer than what is left of `context_tokens` is delivered as a window around the chunk, and its note says so.
    """
    found = chunks([hit.chunk_id for hit in hits])
    left = context_tokens
    delivered: dict[tuple[str, Span], int] = {}
    results = []
    for rank, hit in enumerate(hits, start=1):
        chunk = found[hit.chunk_id]
        unit = chunk.parent_span or chunk.evidence_span
        earlier = delivered.get((chunk.document_id, unit))
        if earlier is not None:
            note = f"delivered with hit {earlier}"
            results.append(RetrievedChunk(chunk=chunk, score=hit.score, rank=rank, note=note))
            continue
        text = documents(chunk.document_id).text
        window = _window(text, unit, chunk.evidence_span, left)
        if window is None:
            results.append(
                RetrievedChunk(chunk=chunk, score=hit.score, rank=rank, note="not delivered: the budget is full")
            )
            continue
        delivered[(chunk.document_id, unit)] = rank
        passage = window.slice(text)
        left -= tokens.count(passage)
        results.append(
            RetrievedChunk(
                chunk=chunk,
                score=hit.score,
                rank=rank,
                delivered_span=window,
                delivered_text=passage,
                note=None
                if window == unit
                else f"shortened from {tokens.count(unit.slice(text))} tokens to fit the budget",
            )
        )
    return tuple(results)


def _window(text: str, unit: Span, center: Span, budget: int) -> Span | None:
    """The largest part of `unit` around `center` that fits `budget` tokens; None when not even one character fits."""
    if tokens.count(unit.slice(text)) <= budget:
        return unit
    low, high = 0, max(center.start - unit.start, unit.end - center.end) + center.length
    while low < high:
        middle = (low + high + 1) // 2
        if tokens.count(_around(unit, center, middle).slice(text)) <= budget:
            low = middle
        else:
            high = middle - 1
    return _around(unit, center, low) if low > 0 else None


def _around(unit: Span, center: Span, reach: int) -> Span:
    """`center` widened, or narrowed from its end when `reach` is shorter than it, inside `unit`. Grows with `reach`."""
    if reach <= center.length:
        return Span(center.start, center.start + reach)
    margin = reach - center.length
    return Span(max(unit.start, center.start - margin), min(unit.end, center.end + margin))
