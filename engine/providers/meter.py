"""Counts what a piece of work spends: the same models, with every call's usage added to a meter."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace

from engine.errors import ModelCallFailed
from engine.providers.base import (
    NO_USAGE,
    ChatModel,
    ChatReply,
    ChatRequest,
    Embedded,
    Embedder,
    Models,
    Probe,
    TextKind,
    Usage,
)
from engine.providers.cache import CachedEmbedder


class Meter:
    """Usage by purpose (`embedding`, `context`, `answer`, `judge`, ...). Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_purpose: dict[str, Usage] = {}

    def add(self, purpose: str, usage: Usage) -> None:
        with self._lock:
            self._by_purpose[purpose] = self._by_purpose.get(purpose, NO_USAGE).plus(usage)

    @property
    def by_purpose(self) -> dict[str, Usage]:
        with self._lock:
            return dict(self._by_purpose)

    @property
    def total(self) -> Usage:
        total = NO_USAGE
        for usage in self.by_purpose.values():
            total = total.plus(usage)
        return total


def metered(models: Models, meter: Meter, cancelled: Callable[[], bool] = lambda: False) -> Models:
    """The same models; what they spend is added to `meter`.

    When `cancelled()` turns true, an embedder that asks a server stops between two calls: ModelCallFailed, `cancelled`.
    """
    return replace(
        models,
        embedder=models.embedder and _MeteredEmbedder(models.embedder, meter, cancelled),
        chat=models.chat and _MeteredChat(models.chat, meter),
        judge=models.judge and _MeteredChat(models.judge, meter),
    )


class _MeteredEmbedder:
    def __init__(self, inner: Embedder, meter: Meter, cancelled: Callable[[], bool]) -> None:
        self._inner = inner
        self._meter = meter
        self._cancelled = cancelled

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def dimension(self) -> int:
        return self._inner.dimension

    @property
    def max_input_tokens(self) -> int | None:
        return self._inner.max_input_tokens

    def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Embedded:
        try:
            if isinstance(self._inner, CachedEmbedder):
                embedded = self._inner.embed(texts, kind, self._cancelled)
            else:
                embedded = self._inner.embed(texts, kind)
        except ModelCallFailed as failure:
            if isinstance(failure.spent, Usage):
                self._meter.add("embedding", failure.spent)
            raise
        self._meter.add("embedding", embedded.usage)
        return embedded

    def probe(self) -> Probe:
        return self._inner.probe()


class _MeteredChat:
    def __init__(self, inner: ChatModel, meter: Meter) -> None:
        self._inner = inner
        self._meter = meter

    @property
    def model(self) -> str:
        return self._inner.model

    def complete(self, request: ChatRequest) -> ChatReply:
        reply = self._inner.complete(request)
        self._meter.add(request.purpose, reply.usage)
        return reply

    def complete_many(
        self,
        requests: Sequence[ChatRequest],
        cancelled: Callable[[], bool] = lambda: False,
        on_reply: Callable[[int, ChatReply], None] | None = None,
    ) -> list[ChatReply]:
        replies = self._inner.complete_many(requests, cancelled, on_reply)
        for request, reply in zip(requests, replies, strict=True):
            self._meter.add(request.purpose, reply.usage)
        return replies

    def stream(self, request: ChatRequest) -> Generator[str, None, ChatReply]:
        reply = yield from self._inner.stream(request)
        self._meter.add(request.purpose, reply.usage)
        return reply

    def probe(self) -> Probe:
        return self._inner.probe()
