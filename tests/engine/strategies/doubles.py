"""Models and documents small enough to check by hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine import ids, tokens
from engine.models import Document, Node, NodeKind, Span, Structure
from engine.providers.base import (
    NO_USAGE,
    ChatReply,
    ChatRequest,
    Embedded,
    Probe,
    TextKind,
    TokenVectors,
)
from engine.strategies.source import Source


def document(text: str, tree: Node | None = None, name: str = "test.md") -> Document:
    """A document of that text; without a tree it is one node."""
    data = text.encode("utf-8", "surrogatepass")
    return Document(
        document_id=ids.document_id(data, "test-1"),
        name=name,
        media_type="text/markdown",
        byte_size=len(data),
        sha256=ids.digest(data),
        parser_version="test-1",
        structure=Structure(rule="test", confidence="high"),
        visible_characters=len(text),
        kept_characters=len(text),
        token_count=tokens.count(text),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        text=text,
        tree=tree or Node(kind=NodeKind.DOCUMENT, span=Span(0, len(text))),
    )


def source(text: str, tree: Node | None = None, name: str = "test.md") -> Source:
    return Source(document(text, tree, name))


def _axes(text: str, keywords: Sequence[str]) -> list[float]:
    """One axis per keyword and a last one for text with none of them; unit length."""
    found = [float(keyword in text.lower()) for keyword in keywords]
    vector = np.array([*found, float(not any(found))])
    return (vector / np.linalg.norm(vector)).tolist()


class KeywordEmbedder:
    """Texts with the same keywords have cosine 1, texts without a common keyword 0."""

    def __init__(self, *keywords: str, max_input_tokens: int | None = None) -> None:
        self.keywords = keywords
        self.max_input_tokens = max_input_tokens
        self.calls: list[tuple[str, ...]] = []

    @property
    def model(self) -> str:
        return "keywords:" + ",".join(self.keywords)

    @property
    def dimension(self) -> int:
        return len(self.keywords) + 1

    def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Embedded:
        self.calls.append(tuple(texts))
        rows = [_axes(text, self.keywords) for text in texts]
        return Embedded(np.array(rows, dtype=np.float32).reshape(len(rows), self.dimension), NO_USAGE)

    def probe(self) -> Probe:
        return Probe(True, "ok")


class ScriptedChat:
    """Answers every request by a function, and remembers the requests."""

    def __init__(self, answer: Callable[[ChatRequest], ChatReply]) -> None:
        self.answer = answer
        self.requests: list[ChatRequest] = []

    @property
    def model(self) -> str:
        return "scripted"

    def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        return self.answer(request)

    def complete_many(
        self,
        requests: Sequence[ChatRequest],
        cancelled: Callable[[], bool] = lambda: False,
        on_reply: Callable[[int, ChatReply], None] | None = None,
    ) -> list[ChatReply]:
        replies = []
        for place, request in enumerate(requests):
            reply = ChatReply("cancelled") if cancelled() else self.complete(request)
            if on_reply is not None:
                on_reply(place, reply)
            replies.append(reply)
        return replies

    def stream(self, request: ChatRequest) -> Generator[str, None, ChatReply]:
        reply = self.complete(request)
        yield reply.text
        return reply

    def probe(self) -> Probe:
        return Probe(True, "ok")


def saying(text: str = "", data: Any = None) -> ScriptedChat:
    """A chat model that gives every request the same answer."""
    return ScriptedChat(lambda request: ChatReply("ok", text=text, data=data))


class WordTokenEmbedder:
    """One token per word; its vector has the axes of the keywords in it."""

    def __init__(self, *keywords: str, context_tokens: int = 8192) -> None:
        self.keywords = keywords
        self.context_tokens = context_tokens
        self.texts: list[str] = []

    @property
    def model(self) -> str:
        return "words:" + ",".join(self.keywords)

    @property
    def dimension(self) -> int:
        return len(self.keywords) + 1

    def token_offsets(self, text: str) -> NDArray[np.int64]:
        spans = [match.span() for match in re.finditer(r"\S+", text)]
        return np.array(spans, dtype=np.int64).reshape(len(spans), 2)

    def embed_tokens(self, text: str) -> TokenVectors:
        offsets = self.token_offsets(text)
        assert len(offsets) <= self.context_tokens
        self.texts.append(text)
        rows = [_axes(text[start:end], self.keywords) for start, end in offsets.tolist()]
        return TokenVectors(np.array(rows, dtype=np.float32).reshape(len(rows), self.dimension), offsets)
