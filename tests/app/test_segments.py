"""The text cut into segments of one look."""

from __future__ import annotations

import pytest

from app.overlay.segments import BLANK, EVIDENCE, MATCH, STARTS, segments, utf16_offset
from engine.models import Span


def test_overlap_gap_and_marks() -> None:
    text = "aaaabbbbcc  dddd"
    found = segments(text, [Span(0, 6), Span(4, 8)], evidence=[Span(5, 9)], matches=[Span(12, 14)])
    assert found == [
        ("aaaa", 0, 0, STARTS),
        ("b", 0, 1, STARTS),
        ("b", 0, 1, EVIDENCE),
        ("bb", 1, 1, EVIDENCE),
        ("c", -1, -1, EVIDENCE),
        ("c  ", -1, -1, 0),
        ("dd", -1, -1, MATCH),
        ("dd", -1, -1, 0),
    ]
    assert "".join(piece for piece, *_ in found) == text


def test_white_space_between_chunks_is_no_gap() -> None:
    assert segments("ab\n\ncd", [Span(0, 2), Span(4, 6)])[1] == ("\n\n", -1, -1, BLANK)


def test_a_window_shows_its_part_alone() -> None:
    found = segments("abcdefgh", [Span(0, 4), Span(4, 8)], window=Span(2, 6))
    assert found == [("cd", 0, 0, 0), ("ef", 1, 1, STARTS)]


def test_empty_text() -> None:
    assert segments("", []) == []


@pytest.mark.parametrize(("text", "offset", "units"), [("abc", 2, 2), ("a😀b", 2, 3), ("漢字b", 2, 2), ("😀😀", 2, 4)])
def test_offsets_as_javascript_counts_them(text: str, offset: int, units: int) -> None:
    assert utf16_offset(text, offset) == units
