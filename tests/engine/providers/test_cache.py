from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from engine.errors import ModelCallFailed
from engine.providers.base import NO_USAGE, ChatReply, ChatRequest, Embedded, Probe, TextKind, Usage
from engine.providers.cache import (
    CachedChat,
    CachedEmbedder,
    MemoryReplyCache,
    MemoryVectorCache,
    ReplyCache,
    VectorCache,
    reply_key,
    vector_key,
)
from engine.providers.openai_embedder import RequestLimits
from tests.engine.providers.conftest import MakeChat, MakeEmbedder
from tests.fake_openai import FakeOpenAI

HELLO = ChatRequest(({"role": "user", "content": "Records are kept by the operator."},))


class Lengths:
    """An embedder without batches: a text of n letters is (n, 0), and `bad` cannot be embedded."""

    model = "lengths"
    dimension = 2
    max_input_tokens = None

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Embedded:
        self.asked += texts
        if "bad" in texts:
            raise ModelCallFailed("no", "unavailable")
        vectors = np.array([[len(text), 0] for text in texts], dtype=np.float32)
        return Embedded(vectors, Usage(input_tokens=len(texts), calls=1))

    def probe(self) -> Probe:
        return Probe(True, "works")


def test_the_memory_caches_are_caches() -> None:
    assert isinstance(MemoryVectorCache(), VectorCache)
    assert isinstance(MemoryReplyCache(), ReplyCache)


def test_each_text_is_asked_once_and_costs_once() -> None:
    inner, cache = Lengths(), MemoryVectorCache()
    embedder = CachedEmbedder(inner, cache)
    first = embedder.embed(["a", "bbb", "a"])
    np.testing.assert_array_equal(first.vectors, [[1, 0], [3, 0], [1, 0]])
    assert first.usage.input_tokens == 2
    second = embedder.embed(["bbb", "cc"])
    np.testing.assert_array_equal(second.vectors, [[3, 0], [2, 0]])
    assert inner.asked == ["a", "bbb", "cc"]
    assert embedder.embed(["a", "bbb", "cc"]).usage == NO_USAGE
    assert embedder.uncached(["a", "new", "new"]) == ["new"]
    # Two float32 numbers each.
    assert cache.size() == (3, 24)
    assert embedder.embed([]).vectors.shape == (0, 2)


def test_every_input_is_part_of_the_key() -> None:
    base = ("scope", "model", 3, "passage", "text")
    changed = [("x", *base[1:]), (base[0], "x", *base[2:]), (*base[:2], 4, *base[3:])]
    changed += [(*base[:3], "query", base[4]), (*base[:4], "x")]
    keys = {vector_key(*inputs) for inputs in [base, *changed]}  # type: ignore[arg-type]
    assert len(keys) == 6
    requests = [
        HELLO,
        dataclasses.replace(HELLO, messages=({"role": "system", "content": HELLO.messages[0]["content"]},)),
        dataclasses.replace(HELLO, messages=({"role": "user", "content": "other"},)),
        dataclasses.replace(HELLO, schema={"type": "object"}),
        dataclasses.replace(HELLO, schema={"type": "array"}),
        dataclasses.replace(HELLO, schema_name="other"),
        dataclasses.replace(HELLO, max_tokens=7),
        dataclasses.replace(HELLO, temperature=0.5),
        dataclasses.replace(HELLO, seed=1),
    ]
    keys = {reply_key("scope", "model", request) for request in requests}
    keys |= {reply_key("other", "model", HELLO), reply_key("scope", "other", HELLO)}
    assert len(keys) == 11
    assert reply_key("s", "m", HELLO) == reply_key("s", "m", dataclasses.replace(HELLO, purpose="judge"))
    # Every field of a request is either part of the key or its purpose.
    assert {field.name for field in dataclasses.fields(ChatRequest)} == {
        "messages", "schema", "schema_name", "max_tokens", "temperature", "seed", "purpose",
    }  # fmt: skip


def test_what_was_embedded_before_a_failure_is_kept(fake_openai: FakeOpenAI, make_embedder: MakeEmbedder) -> None:
    fake_openai.fault("server_error", skip=2)
    cache = MemoryVectorCache()
    embedder = CachedEmbedder(make_embedder(concurrency=1, limits=RequestLimits(2, 1000)), cache)
    texts = ["one", "two", "three", "four", "five", "six"]
    with pytest.raises(ModelCallFailed):
        embedder.embed(texts)
    assert cache.size().entries == 4
    fake_openai.faults.clear()
    assert embedder.embed(texts).vectors.shape == (6, 1536)
    assert fake_openai.counters.embedded == dict.fromkeys(texts, 1)


def test_a_failure_frees_the_texts_for_others() -> None:
    embedder = CachedEmbedder(Lengths(), MemoryVectorCache())
    for _ in range(2):
        with pytest.raises(ModelCallFailed):
            embedder.embed(["bad"])


def test_five_thousand_texts_with_copies(fake_openai: FakeOpenAI, make_embedder: MakeEmbedder) -> None:
    distinct = [f"passage number {n} of the regulation" for n in range(4000)]
    texts = distinct + distinct[::4]
    cache = MemoryVectorCache()
    embedder = CachedEmbedder(make_embedder(dimension=32, limits=RequestLimits(100, 300_000)), cache)
    vectors, usage, _ = embedder.embed(texts)
    assert vectors.shape == (5000, 32)
    np.testing.assert_array_equal(vectors[4000:], vectors[:4000:4])
    assert fake_openai.calls("embeddings") == usage.calls == 40
    assert fake_openai.counters.most_in_flight <= 16
    assert set(fake_openai.counters.embedded.values()) == {1}
    assert usage.input_tokens == fake_openai.counters.input_tokens
    again = embedder.embed(texts)
    np.testing.assert_array_equal(again.vectors, vectors)
    assert again.usage == NO_USAGE
    assert fake_openai.calls("embeddings") == 40
    # One changed text pays for one text.
    embedder.embed([*texts, "a new passage"])
    assert fake_openai.calls("embeddings") == 41
    assert cache.size() == (4001, 4001 * 32 * 4)


def test_replies_are_asked_once_and_free_afterwards(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    cache = MemoryReplyCache()
    chat = CachedChat(make_chat(), cache)
    first, twin = chat.complete_many([HELLO, HELLO])
    assert (first.from_cache, twin.from_cache) == (False, True)
    again = chat.complete(HELLO)
    assert (again.text, again.from_cache, again.usage, again.seconds) == (first.text, True, NO_USAGE, 0.0)
    assert again.extra["first_usage"] == first.usage
    assert fake_openai.calls("chat") == 1
    other = dataclasses.replace(HELLO, seed=1)
    assert chat.uncached([HELLO, other, other]) == [other]
    assert chat.complete(other).usage.calls == 1
    assert cache.size().entries == 2


def test_failed_replies_are_not_stored(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    cache = MemoryReplyCache()
    chat = CachedChat(make_chat(), cache)
    fake_openai.fault("refusal", times=1)
    replies = chat.complete_many([HELLO, HELLO])
    assert [reply.status for reply in replies] == ["refused", "refused"]
    assert [reply.usage.calls for reply in replies] == [1, 0]
    assert cache.size().entries == 0
    assert chat.complete(HELLO).ok


def test_every_place_is_reported_once(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    chat = CachedChat(make_chat(), MemoryReplyCache())
    chat.complete(HELLO)
    other = dataclasses.replace(HELLO, seed=1)
    reported: list[tuple[int, ChatReply]] = []
    replies = chat.complete_many([HELLO, other, other], on_reply=lambda *ended: reported.append(ended))
    assert sorted(place for place, _ in reported) == [0, 1, 2]
    assert [replies[place] for place, _ in reported] == [reply for _, reply in reported]
    assert sum(reply.usage.calls for reply in replies) == 1


def test_cancelling_keeps_what_the_cache_knows(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    chat = CachedChat(make_chat(), MemoryReplyCache())
    chat.complete(HELLO)
    cancelled: Callable[[], bool] = lambda: True  # noqa: E731
    replies = chat.complete_many([HELLO, dataclasses.replace(HELLO, seed=1)], cancelled)
    assert [reply.status for reply in replies] == ["ok", "cancelled"]
    assert fake_openai.calls("chat") == 1


def test_streams_are_stored_and_come_from_the_cache(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    chat = CachedChat(make_chat(), MemoryReplyCache())
    pieces = list(chat.stream(HELLO))
    assert len(pieces) > 1
    assert list(chat.stream(HELLO)) == ["".join(pieces)]
    # The same request without streaming is the same question.
    assert chat.complete(HELLO).text == "".join(pieces)
    assert fake_openai.calls("chat") == 1


def test_pruning_drops_what_was_used_longest_ago() -> None:
    cache = MemoryReplyCache()
    for key in ("a", "b", "c"):
        cache.put(key, "0123456789")
    cache.get("a")
    assert cache.prune(20) == 1
    assert [cache.get(key) for key in ("a", "b", "c")] == ["0123456789", None, "0123456789"]
    assert cache.size() == (2, 20)
    assert cache.prune(0) == 2
