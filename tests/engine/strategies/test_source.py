from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from engine.strategies.source import Source
from tests.engine.metrics.examples import document

texts = st.one_of(
    st.text(max_size=30), st.text(st.sampled_from("ab .\n\t\x1c\u00a0\u2028\u3000\u200b国\ud800😀"), max_size=30)
)


@given(texts)
def test_visible_characters_are_those_that_splitting_leaves(text: str) -> None:
    assert Source(document(text)).visible_characters == len("".join(text.split()))


@given(texts)
def test_the_next_visible_character_is_the_one_a_search_finds(text: str) -> None:
    offsets = [*range(len(text), -1, -1), len(text) + 3]
    found = [re.compile(r"\S").search(text, offset) for offset in offsets]
    wanted = [len(text) if match is None else match.start() for match in found]
    assert Source(document(text)).next_visible(offsets).tolist() == wanted


@given(texts, st.data())
def test_words_of_spans_are_counted_as_splitting_does(text: str, data: st.DataObject) -> None:
    if text:
        start = data.draw(st.integers(0, len(text) - 1))
        end = data.draw(st.integers(start + 1, len(text)))
        assert Source(document(text)).word_counts([start], [end]) == [len(text[start:end].split())]
