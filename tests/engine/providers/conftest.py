from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import SecretStr

from engine.providers.openai import Endpoint, connect
from engine.providers.openai_chat import OpenAIChat
from engine.providers.openai_embedder import OpenAIEmbedder, RequestLimits
from engine.providers.prices import load_prices
from tests.fake_openai import FakeOpenAI

KEY = "sk-marked-7f3a91"
"""A key that must show up nowhere."""

MakeEmbedder = Callable[..., OpenAIEmbedder]
MakeChat = Callable[..., OpenAIChat]


def endpoint(server: FakeOpenAI, **changes: object) -> Endpoint:
    """An endpoint whose retries do not wait long."""
    values: dict[str, object] = {"retries": 3, "first_pause": 0.01, "timeout": 30.0, **changes}
    return Endpoint(base_url=server.url, api_key=SecretStr(KEY), **values)  # type: ignore[arg-type]


@pytest.fixture
def make_embedder(fake_openai: FakeOpenAI) -> MakeEmbedder:
    def make(
        model: str = "text-embedding-3-small",
        dimension: int | None = None,
        long_input: str = "fail",
        limits: RequestLimits | None = None,
        **changes: object,
    ) -> OpenAIEmbedder:
        return OpenAIEmbedder(
            model, connect(endpoint(fake_openai, **changes)), load_prices(), dimension, long_input, limits
        )

    return make


@pytest.fixture
def make_chat(fake_openai: FakeOpenAI) -> MakeChat:
    def make(model: str = "gpt-4o-mini", **changes: object) -> OpenAIChat:
        return OpenAIChat(model, connect(endpoint(fake_openai, **changes)), load_prices())

    return make
