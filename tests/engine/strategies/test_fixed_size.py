from __future__ import annotations

from typing import Any

import pytest

from engine import tokens
from engine.errors import BadParameter
from engine.models import Chunk
from engine.providers.base import Models
from engine.strategies.fixed_size import FixedSize
from tests.engine.strategies.doubles import source

STRATEGY = FixedSize()


def cut(text: str, **values: Any) -> list[Chunk]:
    return list(STRATEGY.chunk(source(text), STRATEGY.parse(values), Models()).chunks)


# Each of these words is one token together with the space before it.
WORDS = "one two three four five six seven eight nine ten"


def test_windows_of_tokens_repeat_the_end_of_the_one_before() -> None:
    chunks = cut(WORDS, size=4, overlap=1)
    assert [chunk.text for chunk in chunks] == ["one two three four", " four five six seven", " seven eight nine ten"]
    assert [chunk.token_count for chunk in chunks] == [4, 4, 4]


def test_windows_without_overlap_tile_the_text() -> None:
    chunks = cut(WORDS, size=4, overlap=0)
    assert [chunk.text for chunk in chunks] == ["one two three four", " five six seven eight", " nine ten"]


def test_windows_of_characters() -> None:
    chunks = cut("abcdefghij", size=4, overlap=1, unit="characters")
    assert [chunk.text for chunk in chunks] == ["abcd", "defg", "ghij"]
    assert [chunk.token_count for chunk in chunks] == [tokens.count(chunk.text) for chunk in chunks]


def test_the_text_ends_with_the_last_window() -> None:
    # A window that reaches the end is the last: nothing is left but what it already repeats.
    assert [chunk.text for chunk in cut("one two three", size=4, overlap=1)] == ["one two three"]
    assert [chunk.text for chunk in cut("one two three four", size=4, overlap=1)] == ["one two three four"]


def test_a_limit_holds_where_a_window_alone_has_more_tokens() -> None:
    text = "龘靐齉" * 40
    for chunk in cut(text, size=5, overlap=0):
        assert len(tokens.encoding().encode_ordinary(chunk.text)) <= 5


def test_a_character_above_the_limit_is_kept_whole_and_flagged() -> None:
    chunks = cut("a龘b", size=1, overlap=0)
    assert [(chunk.text, chunk.flags) for chunk in chunks] == [("a", ()), ("龘", ("over_limit",)), ("b", ())]


def test_combining_marks_joined_emoji_and_crlf_are_not_cut() -> None:
    assert [chunk.text for chunk in cut("abce\u0301xyz", size=4, overlap=0, unit="characters")] == [
        "abc",
        "e\u0301xy",
        "z",
    ]
    family = "👨‍👩‍👧"
    assert [chunk.text for chunk in cut("ab" + family, size=5, overlap=0, unit="characters")] == ["ab", family]
    assert [chunk.text for chunk in cut("abc\r\nd", size=4, overlap=0, unit="characters")] == ["abc", "\r\nd"]


def test_defaults_and_labels() -> None:
    params = STRATEGY.parse({})
    assert (params.size, params.overlap, params.unit) == (512, 50, "tokens")
    assert STRATEGY.spec().label == "fixed_size 512/50"
    assert STRATEGY.spec({"size": 100, "overlap": 0, "unit": "characters"}).label == "fixed_size 100/0 characters"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"size": 0}, "greater than or equal to 1"),
        ({"overlap": -1}, "greater than or equal to 0"),
        ({"size": 10, "overlap": 10}, "must be smaller than size 10"),
        ({"size": 100, "overlap": 26}, "25 %"),
        ({"size": 2.5}, "size = 2.5"),
        ({"unit": "words"}, "'tokens' or 'characters'"),
        ({"length": 5}, "length"),
    ],
)
def test_bad_parameters(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadParameter, match=reason):
        STRATEGY.parse(values)
