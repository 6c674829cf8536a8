"""Every fault against every operation: what the caller got, what was stored, and what a second run without the fault paid for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pydantic import SecretStr

from engine.errors import ModelCallFailed
from engine.providers.base import ChatRequest
from engine.providers.cache import CachedChat, CachedEmbedder, MemoryReplyCache, MemoryVectorCache
from engine.providers.openai import Endpoint, close_connections, connect
from engine.providers.openai_chat import OpenAIChat
from engine.providers.openai_embedder import OpenAIEmbedder, RequestLimits
from engine.providers.prices import load_prices
from tests.fake_openai.faults import KINDS
from tests.fake_openai.server import FakeOpenAI

TEXTS = [f"text number {n}" for n in range(40)]
REQUESTS = [ChatRequest(({"role": "user", "content": f"Say something about number {n}."},)) for n in range(4)]
SCHEMA = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
    "additionalProperties": False,
}
SHAPED = [ChatRequest(request.messages, schema=SCHEMA) for request in REQUESTS]
OPERATIONS = ("embed", "chat", "chat with schema", "stream")


class Row(NamedTuple):
    """One fault against one operation. Four calls, one at a time; the fault shows from the third on (streams: on the only call)."""

    fault: str
    operation: str
    got: str
    """How the calls ended, in words of the engine."""
    calls: int
    stored: int
    """Vectors or replies in the cache afterwards."""
    then: str
    """How the same ended when the fault was gone."""
    calls_then: int
    paid_twice: int
    """Texts or requests with more than one usable answer, over both runs. (An answer that cannot be used is billed and asked for again.)"""


def run(server: FakeOpenAI) -> list[Row]:
    """The whole matrix. Leaves the server without faults."""
    rows = [_row(server, fault, operation) for fault in KINDS for operation in OPERATIONS]
    server.reset()
    close_connections()
    return rows


def _row(server: FakeOpenAI, fault: str, operation: str) -> Row:
    server.reset()
    endpoint = Endpoint(
        base_url=server.url,
        api_key=SecretStr("any"),
        timeout=2.0 if fault == "hang" else 60.0,
        retries=0 if fault == "hang" else 2,
        concurrency=1,
        first_pause=0.01,
    )
    perform, stored = _operation(endpoint, operation)
    server.fault(fault, skip=0 if operation == "stream" else 2, seconds=0.01 if fault != "hang" else 0.0)
    got = perform()
    calls, kept = sum(server.counters.calls.values()), stored()
    server.faults.clear()
    then = perform()
    paid = list(server.counters.embedded.values())
    asked = [str(body["messages"][0]) for body in server.counters.answered_chats]
    return Row(
        fault,
        operation,
        got,
        calls,
        kept,
        then,
        sum(server.counters.calls.values()) - calls,
        sum(count > 1 for count in paid) + len(asked) - len(set(asked)),
    )


def _operation(endpoint: Endpoint, operation: str) -> tuple[Callable[[], str], Callable[[], int]]:
    prices = load_prices()
    if operation == "embed":
        vectors = MemoryVectorCache()
        embedder = CachedEmbedder(
            OpenAIEmbedder("text-embedding-3-small", connect(endpoint), prices, 64, limits=RequestLimits(10, 10_000)),
            vectors,
        )
        return lambda: _embedded(embedder), lambda: vectors.size().entries
    replies = MemoryReplyCache()
    chat = CachedChat(OpenAIChat("gpt-4o-mini", connect(endpoint), prices), replies)
    perform = {
        "chat": lambda: _asked(chat, REQUESTS),
        "chat with schema": lambda: _asked(chat, SHAPED),
        "stream": lambda: _streamed(chat),
    }[operation]
    return perform, lambda: replies.size().entries


def _embedded(embedder: CachedEmbedder) -> str:
    try:
        embedder.embed(TEXTS)
    except ModelCallFailed as error:
        return error.cause
    return "ok"


def _asked(chat: CachedChat, requests: Sequence[ChatRequest]) -> str:
    return ", ".join(dict.fromkeys(reply.status for reply in chat.complete_many(requests)))


def _streamed(chat: CachedChat) -> str:
    try:
        pieces = list(chat.stream(REQUESTS[0]))
    except ModelCallFailed as error:
        return error.cause
    return "ok" if pieces else "nothing"
