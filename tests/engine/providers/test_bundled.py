import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from engine.providers.base import Embedder
from engine.providers.bundled import DIMENSION, BundledEmbedder

TEXTS = [
    "The operator shall keep records for five years.",
    "Records are kept by the operator for a period of five years.",
    "Bananas ripen faster in a paper bag.",
]


def test_rows_are_unit_length_float32_and_in_order() -> None:
    embedder = BundledEmbedder()
    vectors = embedder.embed(TEXTS).vectors
    assert vectors.shape == (3, 256)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    np.testing.assert_array_equal(embedder.embed(TEXTS[::-1]).vectors, vectors[::-1])
    assert isinstance(embedder, Embedder)


def test_similar_texts_are_closer_than_unrelated_ones() -> None:
    similar, paraphrase, unrelated = BundledEmbedder().embed(TEXTS).vectors
    assert similar @ paraphrase > 0.6
    assert similar @ unrelated < 0.3


def test_a_text_has_the_same_vector_in_any_company() -> None:
    embedder = BundledEmbedder()
    alone = embedder.embed([TEXTS[0]]).vectors[0]
    crowd = embedder.embed([*(f"filler {i} " * (i % 50 + 1) for i in range(1100)), TEXTS[0]]).vectors[-1]
    np.testing.assert_array_equal(alone, crowd)


def test_texts_without_tokens_get_the_first_unit_vector() -> None:
    embedder = BundledEmbedder()
    vectors = embedder.embed(["", "words", ""]).vectors
    first_axis = np.eye(DIMENSION, dtype=np.float32)[0]
    np.testing.assert_array_equal(vectors[0], first_axis)
    np.testing.assert_array_equal(vectors[2], first_axis)
    assert embedder.embed([]).vectors.shape == (0, 256)
    np.testing.assert_allclose(np.linalg.norm(embedder.embed([" ", "\n", "\t"]).vectors, axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize(
    "text", ["\ud800 lone surrogate", "<|endoftext|>", "<s></s>", "😀" * 50, "法规", "x" * 100_000]
)
def test_any_text_has_a_vector(text: str) -> None:
    vector = BundledEmbedder().embed([text]).vectors[0]
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-6)


def test_threads_get_the_same_vectors() -> None:
    embedder = BundledEmbedder()
    expected = embedder.embed(TEXTS).vectors
    with ThreadPoolExecutor(8) as pool:
        for vectors in pool.map(lambda _: embedder.embed(TEXTS).vectors, range(32)):
            np.testing.assert_array_equal(vectors, expected)


def test_vectors_are_those_of_the_wordllama_package(monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    import wordllama

    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    np.testing.assert_allclose(BundledEmbedder().embed(TEXTS).vectors, model.embed(TEXTS, norm=True), atol=1e-6)


def test_importing_loads_nothing_heavy_and_embedding_leaves_logging_alone() -> None:
    script = (
        "import sys, logging, engine.providers.bundled as b\n"
        "assert 'tokenizers' not in sys.modules\n"
        "assert b.BundledEmbedder().probe().ok\n"
        "assert 'wordllama' not in sys.modules and logging.getLogger().handlers == []\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells what a process holds")
def test_texts_that_were_embedded_are_not_kept() -> None:
    """6,000 texts that differ; kept by the tokenizer, each would take 4,500 bytes."""
    script = (
        "import random\n"
        "from pathlib import Path\n"
        "from engine.providers.bundled import BundledEmbedder\n"
        "embedder, drawn, words = BundledEmbedder(), random.Random(1), ['the', 'court', 'may', 'order', 'a', 'report']\n"
        "sizes = []\n"
        "for _ in range(32):\n"
        "    embedder.embed([' '.join(drawn.choices(words, k=30)) for _ in range(200)])\n"
        "    sizes.append(int(Path('/proc/self/statm').read_text().split()[1]) * 4096)\n"
        "print(sizes[-1] - sizes[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 6000 * 1000
