from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import lexical
from engine.metrics import duplicates
from engine.metrics.duplicates import Runs, near_duplicates, similar_texts
from engine.models import Chunk
from tests.engine.metrics.examples import chunk


def runs_as_text(text: str) -> set[str]:
    words = lexical.words(text)
    return {" ".join(words[i : i + 5]) for i in range(max(1, len(words) - 4))} if words else set()


def similarity(first: str, second: str) -> float:
    one, other = runs_as_text(first), runs_as_text(second)
    return len(one & other) / len(one | other) if one | other else 0.0


def cut(text: str, *bounds: tuple[int, int]) -> list[Chunk]:
    return [chunk(start, end, text=text[start:end]) for start, end in bounds if start < end]


pieces = st.sampled_from(
    [
        "one ", "two ", "three ", "Four ", "five, ", "six\n", "seven ", "eight. ", "one two three four five six seven eight ", "数据保护",
        "。", "法", "กำไร ", "ß ", "\ufdfa ", "صلى الله عليه وسلم ", "\ufc5e", "\ud800", "\u0301", " ", "é ", "ab",
    ]
)  # fmt: skip


@settings(max_examples=300)
@given(st.lists(pieces, max_size=40).map("".join), st.data())
def test_chunks_that_are_left_out_have_no_near_duplicate(text: str, data: st.DataObject) -> None:
    """Against sets of strings: cuts anywhere, also through words and over each other; texts that the document does not have."""
    place = st.integers(0, len(text))
    chunks = cut(text, *data.draw(st.lists(st.tuples(place, place), max_size=8)))
    chunks += [
        chunk(0, 3, text=other) for other in data.draw(st.lists(st.lists(pieces, min_size=1).map("".join), max_size=2))
    ]
    for threshold in (0.8, 0.3):
        candidates = set(Runs(text).candidates(chunks, threshold))
        for first, second in combinations(range(len(chunks)), 2):
            apart = chunks[first].evidence_span.overlap(chunks[second].evidence_span) == 0
            if apart and similarity(chunks[first].text, chunks[second].text) >= threshold:
                assert {first, second} <= candidates
        assert near_duplicates(chunks, threshold, Runs(text)) == near_duplicates(chunks, threshold)


def test_runs_that_differ_in_one_word_are_told_apart() -> None:
    runs = [" ".join("abcde"[:place] + letter + "abcde"[place + 1 :]) for place in range(5) for letter in "vwxyz"]
    assert len({Runs(run)._hashes.item() for run in runs}) == 25


def test_chunks_of_a_text_that_says_nothing_twice_are_all_left_out() -> None:
    """Also where half of each stands in the one before."""
    text = " ".join(f"w{i}" for i in range(400))
    starts = [text.index(f"w{i} ") for i in range(0, 380, 20)]
    chunks = cut(text, *zip(starts, starts[2:], strict=False))
    assert Runs(text).candidates(chunks, 0.8) == []


def test_a_copy_elsewhere_is_found_through_cut_words_and_among_others() -> None:
    other = " ".join(f"w{i}" for i in range(60))
    clause = "The supplier keeps all records for five years after the end of the contract and shows them on request"
    text = f"{clause}. {other} {clause}."
    again = text.rindex(clause)
    chunks = cut(text, (0, len(clause)), (len(clause), again), (again + 2, len(text)))
    assert Runs(text).candidates(chunks, 0.8) == [0, 2]
    assert [(pair.first, pair.second) for pair in near_duplicates(chunks, runs=Runs(text))] == [(0, 2)]


@pytest.mark.parametrize(
    ("text", "first", "second", "value"),
    [
        pytest.param("a b c d e foo. a b c d e fo", (0, 12), (15, 27), 1.0, id="the last word is cut"),
        pytest.param("xone b c d e f. one b c d e", (1, 14), (16, 27), 0.5, id="the first word is cut"),
        pytest.param("\ufdfa. صلى الله عليه وسلم", (0, 1), (3, 21), 1.0, id="a ligature and the words it unfolds to"),
        pytest.param(
            "\ufdfa صلى الله عليه وسلم. صلى الله عليه وسلم \ufdfa",
            (0, 20),
            (22, 42),
            1.0,
            id="a ligature elsewhere in the run",
        ),
    ],
)
def test_runs_are_compared_as_strings(text: str, first: tuple[int, int], second: tuple[int, int], value: float) -> None:
    chunks = cut(text, first, second)
    assert [pair.similarity for pair in near_duplicates(chunks, value)] == [value]
    assert [pair.similarity for pair in near_duplicates(chunks, value, Runs(text))] == [value]


def test_chunks_that_do_not_stand_in_the_text_are_compared_by_their_own() -> None:
    text, clause = " ".join(f"w{i}" for i in range(60)), "the fee is due within ten days of the notice"
    chunks = [chunk(0, 44, text=clause), chunk(50, 94, text=clause)]
    assert len(near_duplicates(chunks, runs=Runs(text))) == 1


def test_similarities_are_those_of_sets_of_strings() -> None:
    picked = random.Random(5)
    base = [f"w{picked.randrange(50)}" for _ in range(120)]
    texts = [" ".join(base)]
    for changed in (1, 2, 3, 4):
        words = list(base)
        for place in picked.sample(range(len(words)), changed):
            words[place] = "other"
        texts.append(" ".join(words))
    found = {(pair.first, pair.second): pair.similarity for pair in similar_texts(texts)}
    wanted = {(i, j): similarity(texts[i], texts[j]) for i, j in combinations(range(len(texts)), 2)}
    assert found == {pair: value for pair, value in wanted.items() if value >= 0.8}
    assert len(found) >= 3


def test_runs_do_not_depend_on_blocks_and_words_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "one two three four five six seven one two three four five six seven"
    before = Runs(text)._hashes.tolist()
    assert (len(before), len(set(before))) == (10, 7)
    monkeypatch.setattr(duplicates, "_KNOWN_WORDS", 2)
    monkeypatch.setattr(lexical, "_BLOCK", 9)
    assert Runs(text)._hashes.tolist() == before
