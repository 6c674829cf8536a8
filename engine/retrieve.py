"""From a question to the text a reader is given: nearest chunks, expanded to their parents, within a token budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from engine import tokens
from engine.index.base import ChunkIndex, Hit, collection_name
from engine.lexical import Bm25, fuse
from engine.models import Chunk, Document, Span, StrategySpec
from engine.providers.base import Vectors
from engine.records import RetrievedChunk

ChunkLookup = Callable[[Sequence[str]], Mapping[str, Chunk]]
DocumentLookup = Callable[[str], Document]
RetrieverName = Literal["vector", "lexical", "hybrid"]

FUSED_AT_LEAST = 100
"""Hits of each ranking that a hybrid search fuses, or more where more are asked for."""


class Words:
    """The chunks of one spec for searching by words: BM25 over what is embedded. Immutable, safe for threads."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._places = [(chunk.chunk_id, chunk.document_id) for chunk in chunks]
        self._bm25 = Bm25([chunk.embed_text for chunk in chunks])

    def hits(self, question: str, limit: int) -> list[Hit]:
        """The `limit` best chunks, best first, scored by BM25. Chunks that share no word with the question are no hits."""
        return [Hit(*self._places[found.position], found.score) for found in self._bm25.search(question, limit)]


def fused(by_vector: Sequence[Hit], by_words: Sequence[Hit], limit: int) -> list[Hit]:
    """Two rankings as one by reciprocal rank fusion; the score of a hit is its fused score."""
    known = {hit.chunk_id: hit for hit in (*by_vector, *by_words)}
    ranked = fuse([[hit.chunk_id for hit in by_vector], [hit.chunk_id for hit in by_words]], limit)
    return [known[chunk_id]._replace(score=score) for chunk_id, score in ranked]


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
        # A deep ranking goes on over many documents after the budget is full; none of them is opened.
        window: Span | None = None
        body = ""
        if unit == chunk.span and chunk.token_count <= left:
            window, spent, whole, body = unit, chunk.token_count, chunk.token_count, chunk.text
        elif left > 0:
            text = documents(chunk.document_id).text
            window, spent, whole = _window(text, unit, chunk.evidence_span, left)
            body = "" if window is None else window.slice(text)
        if window is None:
            results.append(
                RetrievedChunk(chunk=chunk, score=hit.score, rank=rank, note="not delivered: the budget is full")
            )
            continue
        delivered[(chunk.document_id, unit)] = rank
        left -= spent
        results.append(
            RetrievedChunk(
                chunk=chunk,
                score=hit.score,
                rank=rank,
                delivered_span=window,
                delivered_text=body,
                note=None if window == unit else f"shortened from {whole} tokens to fit the budget",
            )
        )
    return tuple(results)


class _Fitted(NamedTuple):
    window: Span | None
    """None when not even one character fits."""
    tokens: int
    """Of the window."""
    whole: int
    """Tokens of the unit."""


def _window(text: str, unit: Span, center: Span, budget: int) -> _Fitted:
    """The largest part of `unit` around `center` that fits `budget` tokens."""
    whole = tokens.count(unit.slice(text))
    if whole <= budget:
        return _Fitted(unit, whole, whole)
    low, high, spent = 0, max(center.start - unit.start, unit.end - center.end) + center.length, 0
    while low < high:
        middle = (low + high + 1) // 2
        count = tokens.count(_around(unit, center, middle).slice(text))
        if count <= budget:
            low, spent = middle, count
        else:
            high = middle - 1
    return _Fitted(_around(unit, center, low) if low > 0 else None, spent, whole)


def _around(unit: Span, center: Span, reach: int) -> Span:
    """`center` widened, or narrowed from its end when `reach` is shorter than it, inside `unit`. Grows with `reach`."""
    if reach <= center.length:
        return Span(center.start, center.start + reach)
    margin = reach - center.length
    return Span(max(unit.start, center.start - margin), min(unit.end, center.end + margin))
