from __future__ import annotations

import math
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import lexical
from engine.lexical import Bm25, fuse, inside_word, placed_words, terms, words


def found(text: str) -> list[str]:
    return [term.text for term in terms(text)]


def test_terms_are_folded_words_with_their_offsets() -> None:
    assert found("The Straße, A1-b") == ["the", "strasse", "a1", "b"]
    first = next(terms("  Word"))
    assert (first.start, first.end) == (2, 6)


def test_scripts_without_spaces_become_pairs_of_characters() -> None:
    assert found("数据保护") == ["数据", "据保", "保护"]
    assert found("法") == ["法"]
    assert found("GDPR第5条") == ["gdpr", "第", "5", "条"]


def test_combining_marks_stay_in_their_word() -> None:
    assert found("कानून है") == ["कानून", "है"]
    assert found("e\u0301te\u0301") == ["été"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Tax, taxes: §12a (Straße, ﬁnal) — naïve İstanbul",
        "e\u0301tat किताबें",
        "税法 and tax",
        "ภาษี 12",
        "\ufdfa a\nb",
    ],
)
def test_words_are_the_terms_without_their_places(text: str) -> None:
    assert words(text) == [term.text for term in terms(text)]


any_text = st.lists(
    st.one_of(
        st.text(max_size=4),
        st.sampled_from(
            ["Word", "ß", " ", "\n", "。", "数据保护", "法", "กำไร", "한국어", "가", "\ufdfa", "\u0301", "\ud800", "5"]
        ),
    ),
    max_size=12,
).map("".join)


@given(st.text(st.sampled_from("国家法กำไรຳ가각がかヿ豈𠀀𡃁က"), min_size=2, max_size=8))
def test_pairs_of_unspaced_scripts_are_folded_each_on_its_own(run: str) -> None:
    assert words(run) == [unicodedata.normalize("NFKC", "".join(pair)).casefold() for pair in pairwise(run)]


@given(any_text)
def test_placed_words_are_the_terms_however_small_the_blocks(text: str) -> None:
    wanted = [(term.text, term.start) for term in terms(text)]
    assert words(text) == [word for word, _ in wanted]
    whole = lexical._BLOCK
    try:
        for lexical._BLOCK in (1, 3, whole):
            blocks = list(placed_words(text))
            assert [pair for block in blocks for pair in zip(block.words, block.starts.tolist(), strict=True)] == wanted
    finally:
        lexical._BLOCK = whole


def test_a_cut_goes_through_a_word_where_letters_stand_on_both_sides() -> None:
    assert [offset for offset in range(8) if inside_word("ab, c7", offset)] == [1, 5]
    assert inside_word("x" * 10, 9)
    assert not inside_word("", 0)


def test_bm25_by_hand() -> None:
    """`fish` is in one of two texts of two words each: idf = ln(1 + 1.5 / 1.5), frequency part = 2.2 / (1 + 1.2)."""
    hits = Bm25(["fish soup", "meat soup"]).search("fish", 5)
    assert [hit.position for hit in hits] == [0]
    assert hits[0].score == pytest.approx(math.log(2))


def test_bm25_second_example_by_hand() -> None:
    """`a` is in both texts, so its idf is ln(1 + 0.5 / 2.5). Two in four words: 4.4 / 3.5; one in two words: 2.2 / 1.9 (three on average)."""
    hits = Bm25(["a a b c", "a d"]).search("a", 5)
    assert [hit.position for hit in hits] == [0, 1]
    assert hits[0].score == pytest.approx(math.log(1.2) * 4.4 / 3.5)
    assert hits[1].score == pytest.approx(math.log(1.2) * 2.2 / 1.9)


def test_rarer_words_weigh_more_and_no_shared_word_is_no_hit() -> None:
    index = Bm25(["common rare", "common", "common other", "nothing"])
    assert index.search("rare common", 10)[0].position == 0
    assert {hit.position for hit in index.search("common", 10)} == {0, 1, 2}
    assert index.search("absent", 10) == []
    assert index.search("", 10) == []
    assert index.search("common", 0) == []


def test_ties_keep_the_order_of_the_texts_and_the_limit_holds() -> None:
    index = Bm25(["same words", "same words", "same words", "other"])
    assert [hit.position for hit in index.search("same", 2)] == [0, 1]


def test_empty_inputs() -> None:
    assert Bm25([]).search("word", 5) == []
    assert Bm25(["", "  "]).search("word", 5) == []


def test_a_question_in_chinese_finds_its_passage() -> None:
    index = Bm25(["第一条 为了保护数据安全", "第二条 本法适用于境内活动"])
    assert index.search("数据安全如何保护", 1)[0].position == 0


def test_fusion_by_hand() -> None:
    """b: 1/62 + 1/61; a: 1/61; c: 1/62."""
    fused = fuse([["a", "b"], ["b", "c"]], limit=3)
    assert [key for key, _ in fused] == ["b", "a", "c"]
    assert fused[0][1] == pytest.approx(1 / 62 + 1 / 61)
    assert fuse([["a", "b"], ["b", "a"]], limit=1)[0][0] == "a"
    assert fuse([], limit=5) == []
