from __future__ import annotations

from typing import Any

import pytest

from engine.errors import BadParameter
from engine.models import Chunk
from engine.providers.base import Models
from engine.strategies.sentence import Sentence
from tests.engine.strategies.doubles import source

STRATEGY = Sentence()


def cut(text: str, **values: Any) -> list[str]:
    return [chunk.text for chunk in chunks(text, **values)]


def chunks(text: str, **values: Any) -> tuple[Chunk, ...]:
    return STRATEGY.chunk(source(text), STRATEGY.parse(values), Models()).chunks


A, B, C, D, E = "A fee is due. ", "Books are kept. ", "Cases are heard. ", "Debts are paid. ", "Ends are met."


def test_sentences_with_overlap() -> None:
    assert cut(A + B + C + D + E, sentences=2, overlap=1) == [A + B, B + C, C + D, D + E]
    assert cut(A + B + C + D + E, sentences=3, overlap=1) == [A + B + C, C + D + E]


def test_sentences_without_overlap() -> None:
    assert cut(A + B + C + D + E, sentences=2, overlap=0) == [A + B, C + D, E]


def test_fewer_sentences_than_asked() -> None:
    assert cut(A + B) == [A + B]
    assert cut(E) == [E]


def test_the_token_limit_takes_fewer_sentences() -> None:
    # Each sentence is five tokens, six with the space before it.
    assert cut(A + B + C, sentences=3, overlap=0, size=11) == [A + B, C]


def test_where_an_overlap_does_not_fit_it_gives_way() -> None:
    long = "This one sentence has rather many words in it. "
    assert cut(A + long + B, sentences=2, overlap=1, size=12) == [A, long, B]


def test_a_sentence_above_the_limit_is_cut_between_words() -> None:
    made = chunks("one two three four five six seven. Eight.", sentences=1, overlap=0, size=4)
    assert [chunk.text for chunk in made] == ["one two three ", "four five six ", "seven. ", "Eight."]
    assert all(chunk.token_count <= 4 for chunk in made)


def test_label_and_bad_overlap() -> None:
    assert STRATEGY.spec().label == "sentence 5/1"
    with pytest.raises(BadParameter, match="must be smaller than sentences 2"):
        STRATEGY.parse({"sentences": 2, "overlap": 2})
