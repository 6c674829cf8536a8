from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.metrics import spans
from engine.metrics.spans import Holders
from engine.models import Span

span_lists = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 10)).map(lambda p: Span(p[0], p[0] + p[1])), max_size=8
)


def characters(found: list[Span]) -> set[int]:
    return {place for span in found for place in range(span.start, span.end)}


def test_union_joins_overlapping_and_touching_spans_and_drops_empty_ones() -> None:
    assert spans.union([Span(5, 8), Span(0, 3), Span(3, 4), Span(7, 9), Span(20, 20)]) == [Span(0, 4), Span(5, 9)]


@given(span_lists, span_lists)
def test_sets_agree_with_sets_of_characters(first: list[Span], second: list[Span]) -> None:
    one, other = spans.union(first), spans.union(second)
    assert characters(one) == characters(first)
    assert spans.length(one) == len(characters(first))
    assert spans.common_length(one, other) == len(characters(first) & characters(second))


@given(span_lists, st.integers(0, 45))
def test_gaps_hold_the_characters_that_no_span_holds(found: list[Span], size: int) -> None:
    open_places = spans.gaps(spans.as_array(found), size)
    assert spans.length(open_places) == len(characters(open_places))
    assert characters(open_places) == set(range(size)) - characters(found)


@given(span_lists, span_lists)
def test_held_whole_agrees_with_looking_at_every_span(found: list[Span], holders: list[Span]) -> None:
    held = spans.held_whole(spans.as_array(found), spans.as_array(holders)).tolist()
    assert held == [any(each.start <= span.start and span.end <= each.end for each in holders) for span in found]


@given(span_lists)
def test_adding_spans_one_by_one_gives_their_union(found: list[Span]) -> None:
    cover: list[Span] = []
    for span in found:
        cover = spans.with_span(cover, span)
    assert cover == spans.union(found)


@given(span_lists, st.integers(0, 30), st.integers(1, 10))
def test_holders_agree_with_looking_at_every_span(found: list[Span], start: int, length: int) -> None:
    span, holders = Span(start, start + length), Holders(found)
    touching = [holders.spans[i] for i in holders.touching(span)]
    assert touching == [other for other in sorted(found) if other.start < span.end and other.end > span.start]
    assert holders.hold(span) == any(other.start <= span.start and span.end <= other.end for other in found)
    assert (holders.pieces(span) is not None) == (characters([span]) <= characters(found))


def test_pieces_counts_the_fewest_spans_that_hold_a_passage() -> None:
    holders = Holders([Span(0, 10), Span(5, 12), Span(9, 20), Span(25, 30)])
    assert holders.pieces(Span(2, 8)) == 1
    assert holders.pieces(Span(2, 15)) == 2
    assert holders.pieces(Span(18, 28)) is None
