from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from engine import tokens
from engine.errors import BadParameter
from engine.models import ChunkSet
from engine.providers.base import Models
from engine.strategies.cluster_semantic import ClusterSemantic, Units, _sums, best_stops
from engine.tokens import TokenMap
from tests.engine.strategies.doubles import KeywordEmbedder, source

STRATEGY = ClusterSemantic()
TAX, LAW, SEA = "A tax is due. ", "The law says so. ", "The sea is deep. "


def cut(text: str, **values: Any) -> ChunkSet:
    models = Models(embedder=KeywordEmbedder("tax", "law", "sea"))
    return STRATEGY.chunk(source(text), STRATEGY.parse(values), models)


def texts(chunks: ChunkSet) -> list[str]:
    return [chunk.text for chunk in chunks.chunks]


def test_topics_become_chunks() -> None:
    parts = [TAX * 4, LAW * 4, SEA * 4]
    assert texts(cut("".join(parts), max_tokens=40, piece_tokens=8)) == parts


def test_a_heading_stays_with_its_body() -> None:
    text = TAX * 4 + "\n\n# Law\n\n" + SEA * 4
    assert texts(cut(text, max_tokens=40, piece_tokens=8)) == [TAX * 4 + "\n\n", "# Law\n\n" + SEA * 4]


def objective(vectors: np.ndarray, stops: tuple[int, ...]) -> float:
    """The definition, word for word: pairs inside chunks, each less the mean of all pairs."""
    n = len(vectors)
    cosine = vectors @ vectors.T
    mean = np.mean([cosine[a, b] for a, b in combinations(range(n), 2)])
    starts = (0, *stops[:-1])
    return sum(
        cosine[a, b] - mean
        for first, stop in zip(starts, stops, strict=True)
        for a, b in combinations(range(first, stop), 2)
    )


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("cap", [17, 25, 49])
def test_no_other_cut_is_better(seed: int, cap: int) -> None:
    """Nine pieces of 8 tokens each, random directions: compared with all 256 cuts."""
    text = "a b c d e f g h " * 9
    vectors = np.random.default_rng(seed).normal(size=(9, 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    units = Units([16 * i for i in range(10)], np.arange(10) * 8, vectors)
    allowed = [
        (*cuts, 9)
        for size in range(9)
        for cuts in combinations(range(1, 9), size)
        if all(
            tokens.count(text[16 * a : 16 * b]) <= cap for a, b in zip((0, *cuts), (*cuts, 9), strict=True) if b - a > 1
        )
    ]
    found = tuple(best_stops(units, cap, TokenMap(text)))
    assert found in allowed
    assert objective(vectors, found) == pytest.approx(max(objective(vectors, cuts) for cuts in allowed), abs=1e-4)


def test_the_cap_is_never_exceeded() -> None:
    text = TAX * 200 + "word " * 900 + "end. " + LAW * 50
    chunks = cut(text, max_tokens=100, piece_tokens=20)
    assert "".join(texts(chunks)) == text
    assert max(tokens.count(part) for part in texts(chunks)) <= 100


@pytest.mark.parametrize("text", ["No stop", "One sentence.", "One sentence. And a second."])
def test_short_texts_are_one_chunk(text: str) -> None:
    assert texts(cut(text)) == [text]


def test_empty_and_blank() -> None:
    assert cut("").chunks == ()
    assert [chunk.flags for chunk in cut("\n\n").chunks] == [("blank",)]


def test_sentences_are_embedded_and_nothing_else() -> None:
    embedder = KeywordEmbedder("tax")
    STRATEGY.chunk(source(TAX + LAW), STRATEGY.parse({}), Models(embedder=embedder))
    assert embedder.calls == [(TAX.strip(), LAW.strip())]


def test_pieces_larger_than_the_cap_are_refused() -> None:
    with pytest.raises(BadParameter, match="piece_tokens 300 must not be larger than max_tokens 200"):
        STRATEGY.parse({"max_tokens": 200, "piece_tokens": 300})


def test_runs_of_rows_are_summed_from_each_first_one_to_the_next() -> None:
    rows = np.arange(14, dtype=np.float32).reshape(7, 2)
    sums = _sums(rows, np.array([0, 1, 4]))
    assert sums.tolist() == [[0, 1], [2 + 4 + 6, 3 + 5 + 7], [8 + 10 + 12, 9 + 11 + 13]]
    assert _sums(rows[:1], np.array([0])).tolist() == [[0, 1]]
