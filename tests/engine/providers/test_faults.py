"""Every fault against every operation, through the real SDK: the cause that callers see, what is stored, what is paid."""

from __future__ import annotations

import time

import pytest

from engine.errors import ModelCallFailed
from engine.providers import openai
from engine.providers.base import ChatRequest
from tests.engine.providers.conftest import MakeChat, MakeEmbedder
from tests.fake_openai import KINDS, FakeOpenAI, matrix

HTTP = {
    "rate_limited": "rate_limited",
    "no_credit": "rate_limited",
    "unauthorized": "auth",
    "server_error": "unavailable",
    "redirect": "unavailable",
    "bad_request": "unavailable",
    "hang": "timeout",
    "cut": "unavailable",
    "invalid_json": "invalid_output",
}
"""Faults of the connection are the same for all operations."""
OTHERS = {
    ("truncated_json", "embed"): "invalid_output",
    ("truncated_json", "chat with schema"): "invalid_output",
    ("refusal", "chat"): "refused",
    ("refusal", "chat with schema"): "refused",
    ("refusal", "stream"): "refused",
    ("prose", "chat with schema"): "invalid_output",
    ("off_schema", "chat with schema"): "invalid_output",
    ("empty", "chat"): "invalid_output",
    ("empty", "chat with schema"): "invalid_output",
    ("empty", "stream"): "invalid_output",
    ("wrong_dimension", "embed"): "invalid_output",
    ("missing_vector", "embed"): "invalid_output",
}
RETRIED = {"rate_limited", "server_error", "cut"}


def test_matrix(fake_openai: FakeOpenAI) -> None:
    rows = matrix.run(fake_openai)
    assert len(rows) == len(KINDS) * len(matrix.OPERATIONS)
    for row in rows:
        cause = HTTP.get(row.fault) or OTHERS.get((row.fault, row.operation), "ok")
        single = row.operation in ("embed", "stream")
        assert row.got == (cause if single or cause == "ok" else f"ok, {cause}"), row
        # What arrived before the fault is stored: two of four calls (20 of 40 texts), or the one stream.
        whole = {"embed": 40, "stream": 1}.get(row.operation, 4)
        assert row.stored == (whole if cause == "ok" else whole // 2), row
        assert row.then == "ok", row
        assert row.calls_then == (0 if cause == "ok" else 1 if row.operation == "stream" else 2), row
        assert row.paid_twice == 0, row
        # Two good calls, then at most three tries for each of the two others.
        assert row.calls <= (8 if row.fault in RETRIED or row.operation == "chat with schema" else 4), row


def test_passing_faults_are_tried_again(fake_openai: FakeOpenAI, make_embedder: MakeEmbedder) -> None:
    fake_openai.fault("server_error", times=2)
    usage = make_embedder().embed(["a text"]).usage
    assert (usage.calls, fake_openai.calls("embeddings")) == (3, 3)
    fake_openai.reset()
    fake_openai.fault("server_error")
    with pytest.raises(ModelCallFailed, match="after 4 tries"):
        make_embedder(retries=3).embed(["another"])
    assert fake_openai.calls("embeddings") == 4


def test_a_call_that_timed_out_is_tried_once_more(fake_openai: FakeOpenAI, make_chat: MakeChat) -> None:
    fake_openai.fault("hang")
    reply = make_chat(timeout=0.2, retries=5).complete(ChatRequest(({"role": "user", "content": "hello"},)))
    assert (reply.status, reply.attempts) == ("timeout", 2)
    assert "Raise REQUEST_TIMEOUT" in reply.detail


def test_retry_after_is_honoured_by_all_calls(fake_openai: FakeOpenAI, make_embedder: MakeEmbedder) -> None:
    fake_openai.fault("rate_limited", times=1, seconds=0.3)
    began = time.monotonic()
    make_embedder().embed(["a text"])
    assert time.monotonic() - began >= 0.3
    assert fake_openai.calls("embeddings") == 2


def test_a_pause_longer_than_one_waits_is_a_failure(fake_openai: FakeOpenAI, make_embedder: MakeEmbedder) -> None:
    fake_openai.fault("rate_limited", seconds=3600)
    with pytest.raises(ModelCallFailed) as caught:
        make_embedder().embed(["a text"])
    assert caught.value.cause == "rate_limited"
    assert fake_openai.calls("embeddings") == 1


def test_no_server_at_all(make_embedder: MakeEmbedder, make_chat: MakeChat, fake_openai: FakeOpenAI) -> None:
    embedder, chat = make_embedder(retries=1), make_chat(retries=1)
    fake_openai.stop()
    with pytest.raises(ModelCallFailed, match="could not be reached") as caught:
        embedder.embed(["a text"])
    assert caught.value.cause == "unavailable"
    reply = chat.complete(ChatRequest(({"role": "user", "content": "hello"},)))
    assert (reply.status, reply.attempts) == ("unavailable", 2)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_forms(headers: dict[str, str], seconds: float | None) -> None:
    import httpx2

    assert openai._retry_after(httpx2.Response(429, headers=headers)) == seconds


def test_addresses_are_shown_without_their_password() -> None:
    endpoint = openai.Endpoint(base_url="http://me:secret@localhost:1234/v1/", api_key=None)
    assert endpoint.address == "http://localhost:1234/v1"
    assert "secret" not in repr(endpoint)
