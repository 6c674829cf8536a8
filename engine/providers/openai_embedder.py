"""Embeddings from OpenAI or a compatible server."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import httpx2
import numpy as np

from engine import tokens
from engine.errors import ModelCallFailed
from engine.providers import loop, totals
from engine.providers.base import NO_USAGE, Embedded, EmbeddedBatch, Probe, TextKind, Usage, Vectors
from engine.providers.guide import known, prefixes
from engine.providers.long_inputs import over_limit, refusal, split
from engine.providers.openai import BadAnswer, CallFailed, Connection
from engine.providers.openai import token_count as server_count
from engine.providers.prices import Prices
from engine.providers.vectors import unit_rows, well_formed


class RequestLimits(NamedTuple):
    """What one request may hold."""

    texts: int
    tokens: int


OPENAI_LIMITS = RequestLimits(2048, 300_000)
"""OpenAI's documented limits of one embedding request."""
SERVER_LIMITS = RequestLimits(256, 64_000)
"""Servers of one's own differ; a request that is still too large is sent again as two."""


class _Item(NamedTuple):
    """One distinct text: where it stands in the call, and the parts it is sent as."""

    position: int
    parts: tuple[str, ...]
    counts: tuple[int, ...]
    """Tokens of each part."""


class _Answer(NamedTuple):
    vectors: Vectors
    usage: Usage


class OpenAIEmbedder:
    """An embedding model behind the `/v1/embeddings` protocol.

    Requests are filled up to the server's limits, equal texts are sent once, calls run concurrently, and the order is restored.
    A text longer than the model reads is reported before anything is sent, or with `long_input="split"` embedded in parts whose
    vectors are averaged by their tokens. The empty string is not sent; it gets the first unit vector. Safe to call from several threads.
    """

    def __init__(
        self,
        model: str,
        connection: Connection,
        prices: Prices,
        dimension: int | None = None,
        long_input: str = "fail",
        limits: RequestLimits | None = None,
    ) -> None:
        """`dimension`: vector size to ask for; None takes the model's own."""
        self.model = model
        self._connection = connection
        self._prices = prices
        self._asked = dimension
        self._known = known(model)
        self._long_input = long_input
        self._query_prefix, self._passage_prefix = prefixes(model)
        self._limits = limits or (OPENAI_LIMITS if connection.endpoint.is_openai else SERVER_LIMITS)
        self._seen: int | None = None

    @property
    def dimension(self) -> int:
        """Asked for, or known from the guide, or found out by one call. Raises ModelCallFailed in the last case."""
        expected = self._expected
        if expected is None:
            expected = self._ask_one("dimension").vectors.shape[1]
        return expected

    @property
    def max_input_tokens(self) -> int | None:
        return None if self._known is None else self._known.max_input_tokens

    @property
    def scope(self) -> str:
        """What decides the vectors besides model, dimension, kind and text: part of the cache key."""
        return "|".join(
            (self._connection.endpoint.base_url, self._long_input, self._query_prefix, self._passage_prefix)
        )

    def embed(
        self, texts: Sequence[str], kind: TextKind = "passage", cancelled: Callable[[], bool] = lambda: False
    ) -> Embedded:
        """Vectors in the order of `texts`: shape `(n_texts, dimension)`, float32, rows of unit length. Raises ModelCallFailed."""
        if not texts:
            return Embedded(np.zeros((0, self.dimension), dtype=np.float32), NO_USAGE)
        vectors: Vectors | None = None
        usage = NO_USAGE
        for batch in self.embed_batches(texts, kind, cancelled):
            if vectors is None:
                vectors = np.zeros((len(texts), batch.vectors.shape[1]), dtype=np.float32)
            vectors[list(batch.positions)] = batch.vectors
            usage = usage.plus(batch.usage)
        assert vectors is not None
        return Embedded(vectors, usage, self.long_texts(texts, kind))

    def embed_batches(
        self, texts: Sequence[str], kind: TextKind = "passage", cancelled: Callable[[], bool] = lambda: False
    ) -> Generator[EmbeddedBatch, None, None]:
        """The same in parts, each as soon as its call ends, so that a caller can store what was paid for.

        When a call fails or `cancelled()` turns true, those in flight still arrive; then ModelCallFailed is raised.
        """
        places: dict[str, list[int]] = {}
        for position, text in enumerate(texts):
            places.setdefault(text, []).append(position)
        empty = places.pop("", None)
        if empty:
            yield EmbeddedBatch(tuple(empty), unit_rows(np.zeros((len(empty), self.dimension))), NO_USAGE)
        copies = list(places.values())
        pending: Iterable[list[_Item]] = self._pack(self._items(list(places), kind))
        failed: list[CallFailed] = []
        while pending and not failed:
            begun: dict[int, list[_Item]] = {}
            calls = self._calls(pending, begun)
            pending = []
            with closing(loop.as_finished(calls, self._connection.window, cancelled)) as ended:
                for number, answer in ended:
                    batch = begun.pop(number)
                    if not isinstance(answer, CallFailed):
                        rows = [row for row, item in enumerate(batch) for _ in copies[item.position]]
                        positions = tuple(place for item in batch for place in copies[item.position])
                        yield EmbeddedBatch(positions, answer.vectors[rows], answer.usage)
                    elif _can_halve(answer, batch):
                        pending += self._halves(batch)
                    else:
                        failed.append(answer)
        if failed:
            raise next((failure for failure in failed if failure.cause != "cancelled"), failed[0])

    def probe(self) -> Probe:
        """One call with one word: checks address, key, model and dimension."""
        try:
            vectors, usage = self._ask_one("probe", tries=1)
        except ModelCallFailed as error:
            return Probe(False, str(error))
        cost = "unknown" if usage.cost_usd is None else f"{usage.cost_usd:.8f} USD"
        return Probe(
            True,
            f"{self.model} at {self._connection.endpoint.address} works: {vectors.shape[1]} dimensions. The test cost {cost}.",
        )

    def long_texts(self, texts: Sequence[str], kind: TextKind = "passage") -> tuple[int, ...]:
        """Places of the texts that are longer than the model reads, prefix included."""
        return over_limit([self._prepared(text, kind) for text in texts], self.max_input_tokens)

    def _prepared(self, text: str, kind: TextKind) -> str:
        return (self._query_prefix if kind == "query" else self._passage_prefix) + well_formed(text)

    def _items(self, texts: Sequence[str], kind: TextKind) -> Iterator[_Item]:
        """Raises ModelCallFailed before the first one where a text is too long; the others are counted as they are asked for."""
        prepared = [self._prepared(text, kind) for text in texts]
        limit = self.max_input_tokens
        long = set(over_limit(prepared, limit))
        if long and self._long_input != "split":
            raise refusal(self.model, limit or 0, [prepared[place] for place in sorted(long)], len(texts), tokens.count)
        for position, text in enumerate(prepared):
            parts = tuple(split(text, limit)) if position in long and limit else (text,)
            yield _Item(position, parts, tuple(tokens.count(part) for part in parts))

    def _pack(self, items: Iterable[_Item]) -> Iterator[list[_Item]]:
        """Batches filled in order up to the limits. A text whose parts alone exceed them is a batch of its own."""
        batch: list[_Item] = []
        texts, size = 0, 0
        for item in items:
            size += sum(item.counts)
            texts += len(item.parts)
            if batch and (texts > self._limits.texts or size > self._limits.tokens):
                yield batch
                batch, texts, size = [], len(item.parts), sum(item.counts)
            batch.append(item)
        if batch:
            yield batch

    def _calls(
        self, batches: Iterable[list[_Item]], begun: dict[int, list[_Item]]
    ) -> Iterator[Callable[[loop.Stop], Coroutine[Any, Any, _Answer | CallFailed]]]:
        """The calls of the batches, made while earlier ones are in flight; `begun` gets the batch of each by its number."""
        for number, batch in enumerate(batches):
            begun[number] = batch
            yield partial(self._send, batch)

    def _ask_one(self, text: str, tries: int | None = None) -> _Answer:
        answer = loop.run(self._ask([text], 1, loop.Stop(), tries))
        if isinstance(answer, CallFailed):
            raise answer
        return answer

    def _halves(self, batch: list[_Item]) -> list[list[_Item]]:
        """The batch as two, for a server that finds it too large; later requests start at that size."""
        middle = len(batch) // 2
        self._limits = self._limits._replace(texts=max(1, min(self._limits.texts, middle)))
        return [batch[:middle], batch[middle:]]

    async def _send(self, batch: Sequence[_Item], stop: loop.Stop) -> _Answer | CallFailed:
        """One vector per item of the batch. A failure keeps the calls behind it from beginning."""
        answer = await self._ask(
            [part for item in batch for part in item.parts], sum(sum(item.counts) for item in batch), stop
        )
        if isinstance(answer, CallFailed):
            if not _can_halve(answer, batch):
                stop.set()
            return answer
        starts = np.cumsum([0, *(len(item.parts) for item in batch)])[:-1]
        weights = np.array([count for item in batch for count in item.counts], dtype=np.float64)
        return answer._replace(vectors=unit_rows(np.add.reduceat(answer.vectors * weights[:, None], starts, axis=0)))

    async def _ask(
        self, texts: list[str], token_count: int, stop: loop.Stop, tries: int | None = None
    ) -> _Answer | CallFailed:
        async def send() -> _Answer:
            options: dict[str, Any] = {} if self._asked is None else {"dimensions": self._asked}
            # Request and answer as they are: walking the texts and building the SDK's objects takes longer than decoding the vectors.
            raw = await self._connection.client.post(
                "/embeddings",
                body={"model": self.model, "input": texts, "encoding_format": "base64", **options},
                cast_to=httpx2.Response,
            )
            body = json.loads(raw.content)
            answer = body if isinstance(body, dict) else {}
            return _Answer(self._vectors(answer.get("data"), len(texts)), _usage(answer.get("usage"), token_count))

        try:
            called = await self._connection.call(self.model, send, token_count, stop, tries=tries)
        except CallFailed as failure:
            return failure
        usage = called.value.usage._replace(calls=called.attempts)
        return called.value._replace(usage=totals.spent(self.model, self._prices.priced(self.model, usage)))

    @property
    def _expected(self) -> int | None:
        return self._asked or (self._known.dimension if self._known else self._seen)

    def _vectors(self, data: Any, count: int) -> Vectors:
        """Rows in the order that was asked. Raises BadAnswer for anything but one finite vector of the right size per text."""
        if not isinstance(data, list) or len(data) != count:
            found = len(data) if isinstance(data, list) else "no"
            raise BadAnswer(
                f"returned {found} vectors for {count} texts", "Try again; if it stays, use another server."
            )
        try:
            rows = [_row(entry["embedding"]) for entry in data]
            order = [entry.get("index") for entry in data]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise BadAnswer from None
        if all(index is None for index in order):
            order = list(range(count))
        if any(type(index) is not int for index in order) or sorted(order) != list(range(count)):
            raise BadAnswer("returned vectors that cannot be told apart (wrong indexes)", "Use another server.")
        expected = self._expected or rows[0].size
        if wrong := {row.size for row in rows} - {expected}:
            raise BadAnswer(
                f"returned vectors of {wrong.pop()} dimensions where {expected} are expected",
                "Check EMBEDDING_MODEL and EMBEDDING_DIMENSION.",
            )
        vectors = np.empty((count, expected), dtype=np.float32)
        vectors[order] = rows
        if not np.isfinite(vectors).all():
            raise BadAnswer("returned vectors that are not numbers", "Use another server.")
        self._seen = expected
        return vectors


def _usage(said: Any, token_count: int) -> Usage:
    """The server's number where it gives one, else the tokens counted here, marked so."""
    sent = server_count(said.get("prompt_tokens")) if isinstance(said, dict) else None
    if sent:
        return Usage(input_tokens=sent)
    return Usage(input_tokens=token_count, counted=True)


def _row(embedding: Any) -> Vectors:
    """A vector from base64 (little-endian float32) or from a list of numbers, for servers that know only that."""
    if isinstance(embedding, str):
        row = np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float32)
    else:
        with np.errstate(over="ignore"):
            row = np.asarray(embedding, dtype=np.float32)
    if row.ndim != 1 or not row.size:
        raise ValueError("a vector has one axis and at least one number")
    return row


def _can_halve(failure: CallFailed, batch: Sequence[_Item]) -> bool:
    """Whether the server found the request too large and a smaller one is possible."""
    too_large = failure.status_code == 413 or (failure.status_code in (400, 422) and "batch" in failure.named)
    return too_large and len(batch) > 1
