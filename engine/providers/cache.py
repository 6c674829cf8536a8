"""Answers of models that were paid for once and never again: caching wrappers, and what a cache must offer.

`engine/store` keeps the caches in the database; the in-memory ones here serve notebooks and tests.
Keys are content-addressed: a sha256 over everything that can change the answer (`vector_key`, `reply_key`).
A cache stores and returns bytes and text as they are; only this module knows what is inside.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from engine import ids
from engine.errors import ModelCallFailed
from engine.providers.base import (
    NO_USAGE,
    ChatModel,
    ChatReply,
    ChatRequest,
    Embedded,
    EmbeddedBatch,
    Embedder,
    Probe,
    TextKind,
    Usage,
)

_SLICE = 256
"""Texts given at once to an embedder that cannot report its batches, so that finished work is stored while the rest runs."""


class CacheSize(NamedTuple):
    """What a cache holds."""

    entries: int
    bytes: int
    """Bytes of the stored values, keys left out."""


@runtime_checkable
class VectorCache(Protocol):
    """Vectors by key. Values are little-endian float32, 4 bytes per dimension. Safe to call from several threads."""

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The values there are; a key without a value is left out."""

    def put_many(self, entries: Mapping[str, bytes]) -> None:
        """Store all entries, durable when it returns. A key that is already there may keep its value."""

    def size(self) -> CacheSize: ...

    def prune(self, max_bytes: int) -> int:
        """Drop the least recently used entries until at most `max_bytes` of values remain; returns how many were dropped."""


@runtime_checkable
class ReplyCache(Protocol):
    """Replies of chat models by key. Values are JSON text. Safe to call from several threads."""

    def get(self, key: str) -> str | None: ...

    def put(self, key: str, reply: str) -> None:
        """Store one reply, durable when it returns. A key that is already there may keep its value."""

    def size(self) -> CacheSize: ...

    def prune(self, max_bytes: int) -> int:
        """Drop the least recently used entries until at most `max_bytes` of values remain; returns how many were dropped."""


class _Memory:
    """Values in a dict, least recently used first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, bytes] = {}

    def _get(self, key: str) -> bytes | None:
        with self._lock:
            value = self._values.pop(key, None)
            if value is not None:
                self._values[key] = value
            return value

    def _put(self, key: str, value: bytes) -> None:
        with self._lock:
            self._values.setdefault(key, value)

    def size(self) -> CacheSize:
        with self._lock:
            return CacheSize(len(self._values), sum(map(len, self._values.values())))

    def prune(self, max_bytes: int) -> int:
        with self._lock:
            total, dropped = sum(map(len, self._values.values())), 0
            while total > max_bytes:
                total -= len(self._values.pop(next(iter(self._values))))
                dropped += 1
            return dropped


class MemoryVectorCache(_Memory):
    """A `VectorCache` that lasts as long as the process."""

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        found = ((key, self._get(key)) for key in keys)
        return {key: value for key, value in found if value is not None}

    def put_many(self, entries: Mapping[str, bytes]) -> None:
        for key, value in entries.items():
            self._put(key, value)


class MemoryReplyCache(_Memory):
    """A `ReplyCache` that lasts as long as the process."""

    def get(self, key: str) -> str | None:
        value = self._get(key)
        return None if value is None else value.decode("utf-8", "surrogatepass")

    def put(self, key: str, reply: str) -> None:
        self._put(key, reply.encode("utf-8", "surrogatepass"))


def vector_key(scope: str, model: str, dimension: int, kind: TextKind, text: str) -> str:
    """Key of one vector. `scope` names what else decides it: the server's address and how long inputs are treated."""
    return ids.digest("vector", scope, model, str(dimension), kind, text)


def reply_key(scope: str, model: str, request: ChatRequest) -> str:
    """Key of one reply, over every field of the request but `purpose`, which the model never sees."""
    asked = {
        "messages": [dict(message) for message in request.messages],
        "schema": None if request.schema is None else dict(request.schema),
        "schema_name": request.schema_name,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "seed": request.seed,
    }
    return ids.digest("reply", scope, model, ids.canonical_json(asked))


class _InFlight:
    """Keys that some thread is asking for right now, so that no other thread pays for them as well."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, Future[None]] = {}

    def claim(self, keys: Iterable[str]) -> tuple[dict[str, Future[None]], list[Future[None]]]:
        """The claims that are now the caller's, by key, and what to wait for to have the other keys."""
        mine: dict[str, Future[None]] = {}
        others = []
        with self._lock:
            for key in keys:
                running = self._running.get(key)
                if running is None:
                    self._running[key] = mine[key] = Future()
                else:
                    others.append(running)
        return mine, others

    def release(self, claims: Mapping[str, Future[None]]) -> None:
        """The claims were answered or given up; the threads that wait for them look again. Releasing twice is no error."""
        with self._lock:
            for key, claim in claims.items():
                # After an early release the key may already be claimed by another thread.
                if self._running.get(key) is claim:
                    del self._running[key]
        for claim in claims.values():
            if not claim.done():
                claim.set_result(None)


class CachedEmbedder:
    """An embedder that asks for each text once. Every batch is stored when it arrives, so a failure later loses nothing."""

    def __init__(self, inner: Embedder, cache: VectorCache, scope: str = "") -> None:
        self.inner = inner
        self._cache = cache
        self._scope = scope
        self._in_flight = _InFlight()

    @property
    def model(self) -> str:
        return self.inner.model

    @property
    def dimension(self) -> int:
        return self.inner.dimension

    @property
    def max_input_tokens(self) -> int | None:
        return self.inner.max_input_tokens

    def probe(self) -> Probe:
        return self.inner.probe()

    def uncached(self, texts: Sequence[str], kind: TextKind = "passage") -> list[str]:
        """The distinct texts that `embed` would have to ask for. Makes no call when the dimension is known."""
        by_key = dict(zip(self._keys(texts, kind), texts, strict=True))
        found = self._cache.get_many(list(by_key))
        return [text for key, text in by_key.items() if key not in found]

    def embed(
        self, texts: Sequence[str], kind: TextKind = "passage", cancelled: Callable[[], bool] = lambda: False
    ) -> Embedded:
        """Vectors in the order of `texts`, shape `(n_texts, dimension)`. `usage` counts only what was asked for now.

        When `cancelled()` turns true, the calls in flight are stored and the others are not made. Raises ModelCallFailed,
        which tells what was `spent` until then.
        """
        if not texts:
            return Embedded(np.zeros((0, self.dimension), dtype=np.float32), NO_USAGE)
        keys = self._keys(texts, kind)
        by_key = dict(zip(keys, texts, strict=True))
        found = self._cache.get_many(list(by_key))
        usage = NO_USAGE
        while missing := [key for key in by_key if key not in found]:
            mine, others = self._in_flight.claim(missing)
            try:
                # Another thread may have stored a key between the look-up and the claim.
                found |= self._cache.get_many(list(mine))
                wanted = [key for key in mine if key not in found]
                with closing(self._ask([by_key[key] for key in wanted], kind, cancelled)) as batches:
                    for positions, rows, cost in batches:
                        entries = {
                            wanted[place]: row.astype("<f4").tobytes()
                            for place, row in zip(positions, rows, strict=True)
                        }
                        self._cache.put_many(entries)
                        found |= entries
                        usage = usage.plus(cost)
                        self._in_flight.release({key: mine[key] for key in entries})
            except ModelCallFailed as failure:
                failure.spent = usage
                raise
            finally:
                self._in_flight.release(mine)
            for other in others:
                other.result()
            if others:
                found |= self._cache.get_many([key for key in missing if key not in found])
        joined = b"".join(found[key] for key in keys)
        vectors = np.frombuffer(joined, dtype="<f4").reshape(len(texts), -1).astype(np.float32)
        long_texts = getattr(self.inner, "long_texts", None)
        return Embedded(vectors, usage, () if long_texts is None else long_texts(texts, kind))

    def _keys(self, texts: Sequence[str], kind: TextKind) -> list[str]:
        model, dimension = self.model, self.dimension
        key = ids.digests("vector", self._scope, model, str(dimension), kind)
        return [key(text) for text in texts]

    def _ask(
        self, texts: Sequence[str], kind: TextKind, cancelled: Callable[[], bool]
    ) -> Generator[EmbeddedBatch, None, None]:
        batches = getattr(self.inner, "embed_batches", None)
        if batches is not None:
            yield from batches(texts, kind, cancelled)
            return
        for start in range(0, len(texts), _SLICE):
            if cancelled():
                raise ModelCallFailed("Embedding was cancelled. What was embedded before is kept.", "cancelled")
            part = texts[start : start + _SLICE]
            embedded = self.inner.embed(part, kind)
            yield EmbeddedBatch(tuple(range(start, start + len(part))), embedded.vectors, embedded.usage)


class CachedChat:
    """A chat model that asks each request once. Replies that are ok are stored; a failed call may succeed next time, so it is not."""

    def __init__(self, inner: ChatModel, cache: ReplyCache, scope: str = "") -> None:
        self.inner = inner
        self._cache = cache
        self._scope = scope
        self._in_flight = _InFlight()

    @property
    def model(self) -> str:
        return self.inner.model

    def probe(self) -> Probe:
        return self.inner.probe()

    def uncached(self, requests: Sequence[ChatRequest]) -> list[ChatRequest]:
        """The distinct requests that would have to be asked."""
        by_key = {self.key(request): request for request in requests}
        return [request for key, request in by_key.items() if self._cache.get(key) is None]

    def key(self, request: ChatRequest) -> str:
        """Under which the reply to a request is kept."""
        return reply_key(self._scope, self.model, request)

    def stored(self, request: ChatRequest) -> ChatReply | None:
        """The reply that the cache holds."""
        return self._stored(self.key(request))

    def keep(self, key: str, reply: ChatReply) -> None:
        """Store a reply that was paid for elsewhere. One that is not ok may succeed next time, so it is not kept."""
        if reply.ok:
            self._cache.put(key, packed(reply))

    def complete(self, request: ChatRequest) -> ChatReply:
        return self.complete_many([request])[0]

    def complete_many(
        self,
        requests: Sequence[ChatRequest],
        cancelled: Callable[[], bool] = lambda: False,
        on_reply: Callable[[int, ChatReply], None] | None = None,
    ) -> list[ChatReply]:
        """Replies in the order of the requests. Equal requests are asked once; each ok reply is stored the moment it arrives."""
        places: dict[str, list[int]] = {}
        for place, request in enumerate(requests):
            places.setdefault(self.key(request), []).append(place)
        replies: dict[int, ChatReply] = {}

        def settle(key: str, reply: ChatReply) -> None:
            for place in places[key]:
                replies[place] = reply
                if on_reply is not None:
                    on_reply(place, reply)
                # The first place paid for the call; the others are served by it.
                reply = _as_cached(reply)

        open_keys = self._settle_stored(places, settle)
        while open_keys:
            mine, others = self._in_flight.claim(open_keys)
            try:
                wanted = self._settle_stored(mine, settle)
                self._ask(
                    {key: mine[key] for key in wanted}, [requests[places[key][0]] for key in wanted], cancelled, settle
                )
            finally:
                self._in_flight.release(mine)
            for other in others:
                other.result()
            open_keys = self._settle_stored([key for key in open_keys if places[key][0] not in replies], settle)
        return [replies[place] for place in range(len(requests))]

    def stream(self, request: ChatRequest) -> Generator[str, None, ChatReply]:
        """Pieces of the answer, from the cache in one piece. The generator returns the whole reply. Raises ModelCallFailed."""
        key = self.key(request)
        stored = self._stored(key)
        if stored is not None:
            yield stored.text
            return stored
        reply = yield from self.inner.stream(request)
        self.keep(key, reply)
        return reply

    def _stored(self, key: str) -> ChatReply | None:
        value = self._cache.get(key)
        return None if value is None else unpacked(value)

    def _settle_stored(self, keys: Iterable[str], settle: Callable[[str, ChatReply], None]) -> list[str]:
        """Settles the keys that the cache holds and returns the others."""
        left = []
        for key in keys:
            stored = self._stored(key)
            if stored is None:
                left.append(key)
            else:
                settle(key, stored)
        return left

    def _ask(
        self,
        claims: Mapping[str, Future[None]],
        requests: Sequence[ChatRequest],
        cancelled: Callable[[], bool],
        settle: Callable[[str, ChatReply], None],
    ) -> None:
        keys = list(claims)

        def finished(place: int, reply: ChatReply) -> None:
            key = keys[place]
            self.keep(key, reply)
            settle(key, reply)
            self._in_flight.release({key: claims[key]})

        if requests:
            self.inner.complete_many(requests, cancelled, finished)


def _as_cached(reply: ChatReply) -> ChatReply:
    """The same reply for a place that did not pay for it."""
    if reply.from_cache:
        return reply
    return unpacked(packed(reply)) if reply.ok else replace(reply, usage=NO_USAGE, seconds=0.0)


def packed(reply: ChatReply) -> str:
    """A reply that is ok, as the cache keeps it."""
    return json.dumps(
        {"text": reply.text, "data": reply.data, "usage": list(reply.usage), "extra": dict(reply.extra)},
        ensure_ascii=False,
    )


def unpacked(value: str) -> ChatReply:
    """The reply for a place that did not pay for it; `extra["first_usage"]` is what the first one paid."""
    stored = json.loads(value)
    return ChatReply(
        status="ok",
        text=stored["text"],
        data=stored["data"],
        from_cache=True,
        extra={**stored["extra"], "first_usage": Usage(*stored["usage"])},
    )
