"""The text cut into segments of one look."""

from __future__ import annotations

import numpy as np
import pytest

from app.overlay.segments import BLANK, EVIDENCE, MATCH, STARTS, Segment, segments, utf16_offset, utf16_offsets
from engine.models import Span


def pieces(text: str, found: list[Segment]) -> list[tuple[str, int, int, int]]:
    return [(text[each.start : each.end], each.first, each.last, each.look) for each in found]


def test_overlap_gap_and_marks() -> None:
    text = "aaaabbbbcc  dddd"
    found = segments(text, [Span(0, 6), Span(4, 8)], evidence=[Span(5, 9)], matches=[Span(12, 14)])
    assert pieces(text, found) == [
        ("aaaa", 0, 0, STARTS),
        ("b", 0, 1, STARTS),
        ("b", 0, 1, EVIDENCE),
        ("bb", 1, 1, EVIDENCE),
        ("c", -1, -1, EVIDENCE),
        ("c  ", -1, -1, 0),
        ("dd", -1, -1, MATCH),
        ("dd", -1, -1, 0),
    ]
    assert "".join(text[each.start : each.end] for each in found) == text


def test_white_space_between_chunks_is_no_gap() -> None:
    assert segments("ab\n\ncd", [Span(0, 2), Span(4, 6)])[1] == (2, 4, -1, -1, BLANK)


def test_a_window_shows_its_part_alone() -> None:
    text = "abcdefgh"
    found = segments(text, [Span(0, 4), Span(4, 8)], window=Span(2, 6))
    assert pieces(text, found) == [("cd", 0, 0, 0), ("ef", 1, 1, STARTS)]


def test_empty_text() -> None:
    assert segments("", []) == []


@pytest.mark.parametrize(("text", "offset", "units"), [("abc", 2, 2), ("a😀b", 2, 3), ("漢字b", 2, 2), ("😀😀", 2, 4)])
def test_offsets_as_javascript_counts_them(text: str, offset: int, units: int) -> None:
    assert utf16_offset(text, offset) == units
    assert utf16_offsets(text, np.array([offset])).tolist() == [units]
