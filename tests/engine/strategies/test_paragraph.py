from __future__ import annotations

from engine.models import Chunk
from engine.providers.base import Models
from engine.strategies.paragraph import Paragraph
from tests.engine.strategies.doubles import source

STRATEGY = Paragraph()


def cut(text: str, size: int = 512) -> list[Chunk]:
    return list(STRATEGY.chunk(source(text), STRATEGY.parse({"size": size}), Models()).chunks)


def test_paragraphs_are_merged_up_to_the_limit() -> None:
    # "one one one" and the others are three tokens; a blank line is one more.
    text = "one one one\n\ntwo two two\n\nten ten ten\n\n"
    assert [chunk.text for chunk in cut(text, 8)] == ["one one one\n\ntwo two two\n\n", "ten ten ten\n\n"]
    assert [chunk.text for chunk in cut(text, 4)] == ["one one one\n\n", "two two two\n\n", "ten ten ten\n\n"]


def test_a_paragraph_above_the_limit_is_cut_between_sentences() -> None:
    text = "The fee is due. The form is filed. The case is closed.\n\nNext."
    assert [chunk.text for chunk in cut(text, 6)] == [
        "The fee is due. ",
        "The form is filed. ",
        "The case is closed.\n\n",
        "Next.",
    ]


def test_white_space_on_a_blank_line_still_parts_paragraphs() -> None:
    assert [chunk.text for chunk in cut("one one one\n \t \ntwo two two", 7)] == ["one one one\n \t \n", "two two two"]


def test_a_heading_stays_with_its_paragraph() -> None:
    assert [chunk.text for chunk in cut("one one one\n\n# Two\n\ntwo two two", 7)] == [
        "one one one\n\n",
        "# Two\n\ntwo two two",
    ]


def test_a_single_line_break_parts_nothing() -> None:
    [chunk] = cut("one one\none one")
    assert chunk.text == "one one\none one"


def test_label() -> None:
    assert STRATEGY.spec().label == "paragraph 512"
