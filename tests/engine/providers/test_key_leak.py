"""A marked key and a marked text through every fault: neither is in logs, errors, reprs, replies or caches."""

from __future__ import annotations

import json
import logging
import pickle
import traceback

import pytest

from engine.errors import ModelCallFailed
from engine.providers import build_models
from engine.providers.base import ChatRequest
from engine.providers.cache import MemoryReplyCache, MemoryVectorCache
from engine.settings import Settings
from tests.engine.providers.conftest import KEY
from tests.fake_openai import KINDS, FakeOpenAI
from tests.fake_openai.matrix import SCHEMA

TEXT = "Marked-Text-58c2 of the document."


def test_key_and_text_are_nowhere(fake_openai: FakeOpenAI, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    vectors, replies = MemoryVectorCache(), MemoryReplyCache()
    settings = Settings(openai_api_key=KEY, openai_base_url=fake_openai.url, request_timeout=0.5, max_retries=0)
    models = build_models(settings, vectors, replies)
    assert models.embedder is not None
    assert models.chat is not None
    said: list[str] = [repr(models), repr(settings), json.dumps(settings.snapshot())]
    messages = ({"role": "user", "content": TEXT},)
    for kind in [*KINDS, None]:
        fake_openai.faults.clear()
        if kind is not None:
            fake_openai.fault(kind, seconds=0.01 if kind != "hang" else 0)
        try:
            models.embedder.embed([f"{TEXT} {kind}"])
            list(models.chat.stream(ChatRequest(messages, seed=len(said))))
        except ModelCallFailed as error:
            said += traceback.format_exception(error)
            said += [repr(error), repr(vars(error)), repr(error.__cause__), repr(error.__context__)]
        for schema in (None, SCHEMA):
            reply = models.chat.complete(ChatRequest(messages, schema=schema, seed=len(said)))
            said += [reply.detail, repr(reply.extra)]
        said += [models.embedder.probe().message, models.chat.probe().message]
    said += [caplog.text, *(repr(record.__dict__) for record in caplog.records)]
    assert fake_openai.counters.keys == {KEY}
    stored = pickle.dumps((vectors._values, replies._values))
    assert vectors.size().entries > 0
    assert replies.size().entries > 0
    assert KEY.encode() not in stored
    everything = "\n".join(said)
    assert "sk-marked" not in everything.lower()
    assert KEY not in everything
    assert "Marked-Text" not in everything
