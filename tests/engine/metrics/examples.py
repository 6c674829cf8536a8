"""Small documents, chunks and questions whose metrics a reader can work out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from engine import ids
from engine.models import Chunk, ChunkSet, Document, Node, NodeKind, Span, StrategySpec, Structure
from engine.records import Evidence, Gold, Question, RetrievedChunk

SPEC = StrategySpec(strategy_name="fixed_size", params={"size": 10}, label="fixed_size 10")


def document(text: str, *children: Node, document_id: str = "d", name: str = "rules.md") -> Document:
    return Document(
        document_id=document_id,
        name=name,
        media_type="text/markdown",
        byte_size=len(text),
        sha256=document_id,
        parser_version="1",
        structure=Structure(rule="none", confidence="none"),
        visible_characters=len("".join(text.split())),
        kept_characters=len("".join(text.split())),
        token_count=len(text.split()),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        text=text,
        tree=Node(kind=NodeKind.DOCUMENT, span=Span(0, len(text)), children=children),
    )


def chunk(
    start: int,
    end: int,
    tokens: int = 10,
    *,
    text: str = "",
    document_id: str = "d",
    parent: tuple[int, int] | None = None,
    number: int = 0,
) -> Chunk:
    """A chunk over `[start, end)`; without `text`, as many `x`."""
    body = text or "x" * (end - start)
    return Chunk(
        chunk_id=ids.chunk_id(document_id, SPEC.spec_id, start, end, body),
        document_id=document_id,
        document_name=document_id,
        strategy_name="fixed_size",
        spec_id=SPEC.spec_id,
        chunk_index=number,
        total_chunks=1,
        text=body,
        span=Span(start, end),
        token_count=tokens,
        character_count=len(body),
        word_count=len(body.split()),
        content_hash=ids.content_hash(body),
        parent_span=None if parent is None else Span(*parent),
    )


def chunk_set(text: str, *spans: tuple[int, int], tokens: Sequence[int] = (), size: int = 10) -> ChunkSet:
    """Chunks of a text over the spans, ten tokens each unless said otherwise."""
    counts = tokens or [10] * len(spans)
    chunks = tuple(
        chunk(start, end, count, text=text[start:end], number=number)
        for number, ((start, end), count) in enumerate(zip(spans, counts, strict=True))
    )
    spec = StrategySpec(strategy_name="fixed_size", params={"size": size}, label=f"fixed_size {size}")
    return ChunkSet(document_id="d", spec=spec, chunks=chunks)


def question(*gold: tuple[int, int], document_id: str = "d", copies: bool = False) -> Question:
    """A question with one quote per span, or with one quote that stands at all of them."""
    places = tuple(Gold(document_id=document_id, span=Span(*span), text_hash="") for span in gold)
    groups = [places] if copies else [(place,) for place in places]
    evidence = tuple(Evidence(quote="q", gold=group, method="exact", score=1.0) for group in groups)
    return Question(question_id="q", question="?", evidence=evidence, every_copy=copies)


def hits(*chunks: Chunk) -> list[RetrievedChunk]:
    return [RetrievedChunk(chunk=found, score=1 / rank, rank=rank) for rank, found in enumerate(chunks, start=1)]
