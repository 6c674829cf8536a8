from __future__ import annotations

from itertools import pairwise
from typing import Any

from engine.models import Chunk, Node, NodeKind, Span
from engine.providers.base import Models
from engine.strategies.recursive import Recursive
from tests.engine.strategies.doubles import source

STRATEGY = Recursive()


def cut(text: str, **values: Any) -> list[Chunk]:
    return list(STRATEGY.chunk(source(text), STRATEGY.parse(values), Models()).chunks)


def test_what_fits_is_one_chunk() -> None:
    [chunk] = cut("# A\n\nShort.\n")
    assert (chunk.text, chunk.separator) == ("# A\n\nShort.\n", "document")


def test_the_coarsest_separator_that_fits_is_used_and_stored() -> None:
    text = "# A\n\n" + "a " * 10 + "\n\n# B\n\n" + "b " * 10 + "\n\n" + "c " * 10 + "\n"
    chunks = cut(text, size=40, overlap=0, unit="characters")
    assert [(chunk.text.split()[:2], chunk.separator) for chunk in chunks] == [
        (["#", "A"], "heading"),
        (["#", "B"], "blank line"),
        (["c", "c"], "blank line"),
    ]


def test_short_neighbours_are_merged_up_to_the_size() -> None:
    text = "one one\n\ntwo two\n\nthree three\n\n"
    assert [chunk.text for chunk in cut(text, size=20, overlap=0, unit="characters")] == [
        "one one\n\ntwo two\n\n",
        "three three\n\n",
    ]


def test_finer_separators_only_where_they_are_needed() -> None:
    sentence = "The fee is due. "
    lines = "first line here\nsecond line here\n"
    text = sentence * 3 + "\n\n" + lines + "\n" + "unbrokenword" * 3
    chunks = cut(text, size=24, overlap=0, unit="characters")
    assert [chunk.text for chunk in chunks] == [
        "The fee is due. ",
        "The fee is due. ",
        "The fee is due. \n\n",
        "first line here\n",
        "second line here\n\n",
        "unbrokenwordunbrokenword",
        "unbrokenword",
    ]
    assert [chunk.separator for chunk in chunks] == ["sentence"] * 3 + ["line"] * 2 + ["character", "word"]


def test_a_heading_stays_with_its_body() -> None:
    body = "word " * 30
    for chunk in cut(f"Before it.\n\n## Title\n\n{body}\n\n{body}", size=60, overlap=0, unit="characters"):
        assert not chunk.text.rstrip().endswith("Title")


def test_two_headings_in_a_row_stay_with_the_body_below() -> None:
    text = "word " * 10 + "\n\n# Part\n\n## Article\n\nBody of it.\n\n" + "word " * 10
    chunks = cut(text, size=64, overlap=0, unit="characters")
    assert "# Part\n\n## Article\n\nBody of it.\n\n" in [chunk.text for chunk in chunks]


def test_overlap_repeats_whole_words_of_the_text_before() -> None:
    text = "alpha beta gamma.\n\ndelta epsilon zeta.\n\neta theta iota.\n"
    chunks = cut(text, size=28, overlap=7, unit="characters")
    assert [chunk.text for chunk in chunks] == [
        "alpha beta gamma.\n\n",
        "delta epsilon zeta.\n\n",
        "zeta.\n\neta theta iota.\n",
    ]


def test_overlap_is_at_most_what_was_asked_and_always_from_the_neighbour() -> None:
    text = "".join(f"Sentence number {number} says so. " for number in range(60))
    chunks = cut(text, size=40, overlap=10)
    for before, after in pairwise(chunks):
        assert before.span is not None
        assert after.span is not None
        repeated = before.span.overlap(after.span)
        assert repeated > 0
        assert source(text).tokens.share(after.span.start, before.span.end) <= 10
        assert text[after.span.start - 1] == " "


def test_fences_are_not_cut_at_their_blank_lines_while_they_fit() -> None:
    fence = "```\na = 1\n\n\nb = 2\n```\n"
    text = f"Some text above.\n\n{fence}\nSome text below.\n"
    assert [chunk.text for chunk in cut(text, size=26, overlap=0, unit="characters")] == [
        "Some text above.\n\n",
        fence + "\n",
        "Some text below.\n",
    ]


def test_a_chunk_carries_the_heading_of_its_own_text_not_of_its_overlap() -> None:
    first, second = "# One\n\nThe fee is due.\n\n", "# Two\n\nThe form is filed.\n"
    tree = Node(
        kind=NodeKind.DOCUMENT,
        span=Span(0, len(first + second)),
        children=tuple(
            Node(kind=NodeKind.SECTION, span=Span(start, end), title=title, heading=Span(start, start + 5))
            for title, start, end in (("One", 0, len(first)), ("Two", len(first), len(first + second)))
        ),
    )
    params = STRATEGY.parse({"size": 34, "overlap": 8, "unit": "characters"})
    chunks = STRATEGY.chunk(source(first + second, tree), params, Models()).chunks
    assert [(chunk.text, chunk.section) for chunk in chunks] == [(first, "One"), ("due.\n\n" + second, "Two")]


def test_defaults_and_label() -> None:
    assert STRATEGY.spec().label == "recursive 512/50"
