from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from engine import tokens
from engine.errors import ModelCallFailed
from engine.providers.base import Embedder, Models
from engine.providers.cache import CachedEmbedder, MemoryVectorCache
from engine.providers.meter import Meter, metered
from engine.providers.openai_embedder import RequestLimits
from tests.engine.providers.conftest import MakeEmbedder
from tests.fake_openai import FakeOpenAI
from tests.fake_openai.embeddings import embed

TEXTS = ["The operator keeps records.", "Bananas ripen in a bag.", "The operator keeps records.", "", "法规 😀"]


def test_vectors_come_in_the_order_of_the_texts(fake_openai: FakeOpenAI, make_embedder: MakeEmbedder) -> None:
    embedder = make_embedder()
    vectors, usage, _ = embedder.embed(TEXTS)
    assert vectors.shape == (5, 1536)
    assert vectors.dtype == np.float32
    for place in (0, 1, 2, 4):
        np.testing.assert_allclose(vectors[place], embed(TEXTS[place], 1536), atol=1e-6)
    np.testing.assert_array_equal(vectors[3], np.eye(1536, dtype=np.float32)[0])
    # 5 + 6 + 5 tokens in three distinct texts; text-embedding-3-small costs 0.02 USD for a million.
    billed = sum(tokens.count(text) for text in (TEXTS[0], TEXTS[1], TEXTS[4]))
    assert usage == (billed, 0, 0, 1, False, pytest.approx(billed * 0.02 / 1e6))
    assert fake_openai.counters.embedded == {TEXTS[0]: 1, TEXTS[1]: 1, TEXTS[4]: 1}
    assert isinstance(embedder, Embedder)


def test_no_texts_make_no_call(fake_openai: FakeOpenAI, make_embedder: MakeEmbedder) -> None:
    assert make_embedder().embed([]).vectors.shape == (0, 1536)
    assert fake_openai.calls("embeddings") == 0


def test_requests_are_filled_up_to_texts_and_tokens(fake_openai: FakeOpenAI, make_embedder: MakeEmbedder) -> None:
    make_embedder(limits=RequestLimits(4, 1000)).embed([f"text {n}" for n in range(10)])
    assert sorted(len(body["input"]) for body in fake_openai.counters.requests) == [2, 4, 4]
    fake_openai.reset()
    # "word" repeated n times is n tokens: 3 + 3 fit into 7, the third text does not.
    make_embedder(limits=RequestLimits(100, 7)).embed(["a a a", "b b b", "c c c", "d d d"])
    assert sorted(len(body["input"]) for body in fake_openai.counters.requests) == [2, 2]


def test_calls_in_flight_are_bounded_across_threads(fake_openai: FakeOpenAI, make_embedder: MakeEmbedder) -> None:
    fake_openai.latency = 0.02
    embedder = make_embedder(concurrency=3, limits=RequestLimits(1, 1000))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda thread: embedder.embed([f"{thread} {n}" for n in range(8)]), range(4)))
    assert fake_openai.calls("embeddings") == 32
    assert 1 < fake_openai.counters.most_in_flight <= 3


def test_order_is_restored_and_every_vector_checked(fake_openai: FakeOpenAI, make_embedder: MakeEmbedder) -> None:
    texts = [f"number {n}" for n in range(20)]
    expected = make_embedder().embed(texts).vectors
    fake_openai.fault("shuffled")
    np.testing.assert_array_equal(make_embedder().embed(texts).vectors, expected)


@pytest.mark.parametrize(
    ("vector", "index"),
    [
        ([], 0),
        ([float("nan")] * 1536, 0),
        ([None] * 1536, 0),
        ([1e39] * 1536, 0),
        ([[1.0] * 1536], 0),
        ("AAAA", 0),
        (None, 0),
        ([1.0] * 1536, 1),
        ([1.0] * 1536, 0.0),
        ([1.0] * 1536, False),
        ([1.0] * 1536, "0"),
    ],
    ids=lambda value: repr(value)[:12],
)
def test_what_is_no_vector_is_no_answer(
    vector: object, index: object, fake_openai: FakeOpenAI, make_embedder: MakeEmbedder
) -> None:
    fake_openai.bend = lambda answer: answer.update(data=[{"index": index, "embedding": vector}])
    with pytest.raises(ModelCallFailed) as caught:
        make_embedder().embed(["a"])
    assert caught.value.cause == "invalid_output"


def test_vectors_of_any_length_become_unit_vectors(fake_openai: FakeOpenAI, make_embedder: MakeEmbedder) -> None:
    fake_openai.bend = lambda answer: answer.update(data=[{"embedding": [3.0, 4.0]}])
    np.testing.assert_allclose(make_embedder("unlisted").embed(["a"]).vectors, [[0.6, 0.8]])


def test_embedding_ends_between_two_calls_when_cancelled(fake_openai: FakeOpenAI, make_embedder: MakeEmbedder) -> None:
    embedder = CachedEmbedder(make_embedder(limits=RequestLimits(1, 1000), concurrency=1), MemoryVectorCache())
    texts = [f"text {number}" for number in range(10)]
    meter = Meter()
    metered_models = metered(Models(embedder=embedder), meter, lambda: fake_openai.calls("embeddings") >= 2)
    assert metered_models.embedder is not None
    with pytest.raises(ModelCallFailed) as caught:
        metered_models.embedder.embed(texts)
    assert caught.value.cause == "cancelled"
    answered = fake_openai.calls("embeddings")
    assert 2 <= answered < 10
    # What was paid for is stored and counted.
    assert len(embedder.uncached(texts)) == 10 - answered
    assert meter.by_purpose["embedding"].calls == answered
    assert meter.by_purpose["embedding"].input_tokens == fake_openai.counters.input_tokens


def test_a_server_without_base64_answers_in_numbers(fake_openai: FakeOpenAI, make_embedder: MakeEmbedder) -> None:
    fake_openai.lacks = {"base64"}
    np.testing.assert_allclose(make_embedder().embed(TEXTS).vectors[1], embed(TEXTS[1], 1536), atol=1e-6)


def test_dimension_is_known_asked_for_or_found_out(fake_openai: FakeOpenAI, make_embedder: MakeEmbedder) -> None:
    assert make_embedder().dimension == 1536
    assert make_embedder(dimension=512).embed(["a text"]).vectors.shape == (1, 512)
    assert fake_openai.counters.requests[-1]["dimensions"] == 512
    fake_openai.reset()
    unlisted = make_embedder("some-unlisted-model")
    assert (unlisted.dimension, unlisted.dimension) == (256, 256)
    assert fake_openai.calls("embeddings") == 1
    assert unlisted.embed(["", "x"]).vectors.shape == (2, 256)


def test_prefixes_of_models_that_want_them(fake_openai: FakeOpenAI, make_embedder: MakeEmbedder) -> None:
    fake_openai.fault("wrong_dimension", times=0)
    embedder = make_embedder("intfloat/multilingual-e5-small")
    embedder.embed(["a question"], kind="query")
    embedder.embed(["a passage"])
    assert set(fake_openai.counters.embedded) == {"query: a question", "passage: a passage"}


def test_long_texts_are_reported_before_anything_is_sent(fake_openai: FakeOpenAI, make_embedder: MakeEmbedder) -> None:
    with pytest.raises(ModelCallFailed, match=r"1 of 2 texts are longer than the 8191 tokens") as caught:
        make_embedder().embed(["short", "word " * 9000])
    assert caught.value.cause == "refused"
    assert "LONG_INPUT=split" in str(caught.value)
    assert fake_openai.calls("embeddings") == 0


def test_long_texts_are_split_and_averaged_where_asked(fake_openai: FakeOpenAI, make_embedder: MakeEmbedder) -> None:
    text = "alpha " * 6000 + "omega " * 6000
    embedder = CachedEmbedder(make_embedder(long_input="split"), MemoryVectorCache())
    vectors, _, cut = embedder.embed(["short", text])
    # Recorded, from the cache as well.
    assert cut == embedder.embed(["short", text]).split == (1,)
    parts = sorted(fake_openai.counters.embedded, key=len)[1:]
    assert len(parts) == 2
    assert sum(map(len, parts)) == len(text)
    assert all(tokens.count(part) <= 8191 for part in parts)
    weights = np.array([tokens.count(part) for part in parts])
    mean = (np.stack([embed(part, 1536) for part in parts]) * weights[:, None]).sum(axis=0)
    np.testing.assert_allclose(vectors[1], mean / np.linalg.norm(mean), atol=1e-5)


def test_a_request_too_large_for_the_server_is_sent_in_halves(
    fake_openai: FakeOpenAI, make_embedder: MakeEmbedder
) -> None:
    fake_openai.max_batch = 3
    embedder = make_embedder()
    texts = [f"number {n}" for n in range(10)]
    vectors, usage, _ = embedder.embed(texts)
    np.testing.assert_allclose(vectors, np.stack([embed(text, 1536) for text in texts]), atol=1e-6)
    assert set(fake_openai.counters.embedded.values()) == {1}
    assert usage.input_tokens == sum(map(tokens.count, texts))
    fake_openai.reset()
    embedder.embed([f"later {n}" for n in range(6)])
    assert fake_openai.calls("embeddings") == fake_openai.counters.answered["embeddings"] == 3


def test_usage_is_counted_and_marked_where_the_server_gives_none(
    fake_openai: FakeOpenAI, make_embedder: MakeEmbedder
) -> None:
    fake_openai.fault("missing_usage")
    usage = make_embedder().embed(["The operator keeps records."]).usage
    assert (usage.input_tokens, usage.counted) == (tokens.count("The operator keeps records."), True)


def test_price_of_an_unlisted_model_is_unknown(make_embedder: MakeEmbedder) -> None:
    assert make_embedder("some-unlisted-model").embed(["text"]).usage.cost_usd is None


def test_two_threads_that_want_the_same_texts_pay_once(fake_openai: FakeOpenAI, make_embedder: MakeEmbedder) -> None:
    fake_openai.latency = 0.05
    embedder = CachedEmbedder(make_embedder(limits=RequestLimits(2, 1000)), MemoryVectorCache())
    texts = [f"shared {n}" for n in range(12)]
    together = threading.Barrier(4)

    def ask(_: int) -> object:
        together.wait()
        return embedder.embed(texts).vectors

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(ask, range(4))
    for other in others:
        np.testing.assert_array_equal(first, other)
    assert fake_openai.counters.embedded == dict.fromkeys(texts, 1)


def test_probe_says_what_works_or_what_is_wrong(fake_openai: FakeOpenAI, make_embedder: MakeEmbedder) -> None:
    good = make_embedder().probe()
    assert good.ok
    assert "1536 dimensions" in good.message
    fake_openai.key = "another"
    bad = make_embedder().probe()
    assert not bad.ok
    assert "rejected the key" in bad.message
    assert "OPENAI_API_KEY" in bad.message
    fake_openai.key = None
    missing = make_embedder("missing-model").probe()
    assert "was not found there (HTTP 404, model_not_found)" in missing.message
    assert fake_openai.calls("embeddings") == 3
