from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.errors import StoreUnavailable
from engine.providers.cache import CacheSize, ReplyCache, VectorCache
from engine.store import Store
from tests.engine.store.conftest import Clock


def test_the_caches_are_what_providers_ask_for(store: Store) -> None:
    assert isinstance(store.vector_cache, VectorCache)
    assert isinstance(store.reply_cache, ReplyCache)


def test_vectors_come_back_bit_by_bit(store: Store) -> None:
    vector = np.array([0.1, -2.5, 3e-38], dtype="<f4")
    store.vector_cache.put_many({"a": vector.tobytes(), "b": b"\x00\xff"})
    found = store.vector_cache.get_many(["b", "unknown", "a", "a"])
    assert set(found) == {"a", "b"}
    assert np.frombuffer(found["a"], dtype="<f4").tolist() == vector.tolist()
    assert found["b"] == b"\x00\xff"


def test_more_vectors_than_one_statement_takes(store: Store) -> None:
    entries = {f"key {number}": number.to_bytes(4, "little") for number in range(1200)}
    store.vector_cache.put_many(entries)
    assert store.vector_cache.get_many(list(entries)) == entries


def test_a_key_that_is_there_keeps_its_value(store: Store) -> None:
    store.vector_cache.put_many({"a": b"1111"})
    store.vector_cache.put_many({"a": b"2222", "b": b"3333"})
    assert store.vector_cache.get_many(["a", "b"]) == {"a": b"1111", "b": b"3333"}


def test_nothing_asked_and_nothing_stored(store: Store) -> None:
    store.vector_cache.put_many({})
    assert store.vector_cache.get_many([]) == {}
    assert store.vector_cache.size() == CacheSize(0, 0)
    assert store.vector_cache.prune(0) == 0


def test_replies_come_back_as_text(store: Store) -> None:
    reply = '{"text": "é 😀 \\u0000 \ud800"}'
    store.reply_cache.put("a", reply)
    assert store.reply_cache.get("a") == reply
    assert store.reply_cache.get("unknown") is None


def test_the_least_recently_used_go_first(store: Store, clock: Clock) -> None:
    day = 24 * 3600
    for key in ("first", "second", "third"):
        store.reply_cache.put(key, "12345678")
        clock.now += day
    assert store.reply_cache.get("first") == "12345678"
    assert store.reply_cache.size() == CacheSize(3, 24)
    assert store.reply_cache.prune(24) == 0
    assert store.reply_cache.prune(23) == 1
    assert [store.reply_cache.get(key) is None for key in ("first", "second", "third")] == [False, True, False]
    assert store.reply_cache.prune(0) == 2
    assert store.reply_cache.size() == CacheSize(0, 0)


def test_reading_works_where_nothing_can_be_written(tmp_path: Path, clock: Clock) -> None:
    store = Store(f"sqlite:///{tmp_path / 'c.db'}", clock=clock)
    store.reply_cache.put("a", "reply")
    clock.now += 24 * 3600
    with store.read() as connection:
        # The one pooled connection of this thread refuses writes from here on.
        connection.exec_driver_sql("PRAGMA query_only = ON")
    assert store.reply_cache.get("a") == "reply"
    with pytest.raises(StoreUnavailable, match="cannot be written"):
        store.reply_cache.put("b", "reply")
    store.close()
