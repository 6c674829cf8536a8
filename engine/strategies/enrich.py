"""Optional enrichment of the chunks of any strategy: language by rule; summary and keywords by a chat model.

Heading path, position and content hash need no step of their own: every chunk has them.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.models import Chunk, ChunkSet
from engine.providers.base import ChatModel, ChatReply, ChatRequest
from engine.strategies.asking import ask_all, request
from engine.strategies.language import language

_SCHEMA = {
    "type": "object",
    "properties": {
        "summary": {"type": "string"},
        "keywords": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["summary", "keywords"],
    "additionalProperties": False,
}
_MOST_KEYWORDS = 8


def with_languages(chunks: ChunkSet) -> ChunkSet:
    """The same chunks with their language, where it can be told."""
    named = tuple(chunk.model_copy(update={"language": language(chunk.text)}) for chunk in chunks.chunks)
    return chunks.model_copy(update={"chunks": named})


def summary_requests(chunks: ChunkSet) -> list[ChatRequest]:
    """The model calls of `with_summaries`, one per chunk that is not blank."""
    return [
        request(
            "enrichment",
            {
                "Document": chunk.document_name,
                "Place": " > ".join(chunk.heading_path) or "(no headings)",
                "Passage": chunk.text,
            },
            max_tokens=300,
            purpose="enrichment",
            schema=_SCHEMA,
            schema_name="enrichment",
        )
        for chunk in _described(chunks)
    ]


def with_summaries(chunks: ChunkSet, chat: ChatModel) -> ChunkSet:
    """The same chunks with summary and keywords. Raises ModelCallFailed when a call fails; no chunk is then changed."""
    answers = ask_all(chat, summary_requests(chunks), "Enrichment", "The chunks stay as they were.")
    described = {
        chunk.chunk_id: _described_by(chunk, reply)
        for chunk, reply in zip(_described(chunks), answers.replies, strict=True)
    }
    seconds = {**chunks.seconds, "enrich": chunks.seconds.get("enrich", 0.0) + answers.seconds}
    return chunks.model_copy(
        update={"chunks": tuple(described.get(c.chunk_id, c) for c in chunks.chunks), "seconds": seconds}
    )


def _described(chunks: ChunkSet) -> Sequence[Chunk]:
    return [chunk for chunk in chunks.chunks if not chunk.text.isspace()]


def _described_by(chunk: Chunk, reply: ChatReply) -> Chunk:
    keywords = dict.fromkeys(" ".join(word.split()) for word in reply.data["keywords"])
    return chunk.model_copy(
        update={
            "summary": " ".join(reply.data["summary"].split()) or None,
            "keywords": tuple(word for word in keywords if word)[:_MOST_KEYWORDS],
        }
    )
