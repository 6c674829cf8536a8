from __future__ import annotations

import numpy as np
import pytest

from engine.metrics.answers import (
    copied_share,
    embedding_similarity,
    numbers_found,
    score_answer,
    sentence_support,
    token_f1,
    trigram_support,
)
from engine.providers.base import Embedded, Probe, TextKind

SOURCE = [
    "The operator shall notify the Authority within 30 days of any major incident.",
    "Records are kept for five years.",
]


class Axes:
    """Vectors by the first letter of a text: equal letters have cosine 1, different ones 0, `-` the opposite of `a`."""

    model, dimension, max_input_tokens = "axes", 3, None

    def embed(self, texts: list[str], kind: TextKind = "passage") -> Embedded:
        rows = {"a": [1, 0, 0], "b": [0, 1, 0], "-": [-1, 0, 0]}
        return Embedded(np.array([rows[text[0]] for text in texts], dtype=np.float32), None)

    def probe(self) -> Probe:
        return Probe(True, "ok")


def test_token_f1_by_hand() -> None:
    """Two of three words on one side, two of four on the other: 2 * 2 / 7."""
    assert token_f1("thirty days late", "within thirty days only") == pytest.approx(4 / 7)
    assert token_f1("a a b", "a b b") == pytest.approx(4 / 6)
    assert token_f1("The Board.", "the board") == 1
    assert token_f1("yes", "no") == token_f1("", "no") == 0


def test_embedding_similarity_is_the_cosine_and_never_negative() -> None:
    assert embedding_similarity("a one", "a two", Axes()) == 1
    assert embedding_similarity("a one", "b two", Axes()) == 0
    assert embedding_similarity("a one", "- two", Axes()) == 0


def test_trigram_support_by_hand() -> None:
    """Triples of "the operator shall notify nobody": two of three stand in the source."""
    assert trigram_support("The operator shall notify nobody", SOURCE) == pytest.approx(2 / 3)
    assert trigram_support("Records are kept", SOURCE) == 1
    assert trigram_support("incident Records are", SOURCE) == 0
    assert trigram_support("five years", SOURCE) == 1
    assert trigram_support("", SOURCE) == 0


def test_the_unsupported_sentence_is_marked() -> None:
    answer = "The operator shall notify the Authority within 30 days. It must also publish a yearly report."
    first, second = sentence_support(answer, SOURCE)
    assert (first.support, first.unsupported) == (1, False)
    assert (second.support, second.unsupported) == (0, True)
    assert second.span.slice(answer) == "It must also publish a yearly report."
    assert score_answer(answer, SOURCE)["unsupported_sentences"] == 0.5


def test_numbers_and_dates_as_written() -> None:
    assert numbers_found("Within 30 days, by 1.5.2026, 30 times", [*SOURCE, "on 1.5.2026"]) == 1
    assert numbers_found("Within 60 days, not 30", SOURCE) == 0.5
    assert numbers_found("3", SOURCE) == 0
    assert numbers_found("No number", SOURCE) is None


def test_copied_share_by_hand() -> None:
    """Eight copied words, then two of its own."""
    assert copied_share("the operator shall notify the authority within 30 hours maybe", SOURCE) == pytest.approx(0.8)
    assert copied_share("the operator shall notify the authority within", SOURCE) == 0
    assert copied_share("", SOURCE) == 0


def test_only_what_applies_is_scored() -> None:
    assert score_answer("  ", SOURCE, "expected") == {}
    assert set(score_answer("Records are kept", SOURCE)) == {"trigram_support", "unsupported_sentences", "copied_share"}
    full = score_answer("a 30", SOURCE, "a", Axes())
    assert {"answer_token_f1", "answer_embedding_similarity", "numbers_found"} <= full.keys()
