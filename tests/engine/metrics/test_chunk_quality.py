from __future__ import annotations

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.metrics import chunk_quality
from engine.metrics.chunk_quality import legal_boundaries, measure, orphans
from engine.metrics.duplicates import near_duplicates, similar_texts
from engine.models import Node, NodeKind, Span
from engine.strategies.source import Source
from tests.engine.metrics.examples import chunk, chunk_set, document

PROSE = "One two three. Four five six. Seven eight nine."


def source(text: str, *children: Node) -> Source:
    return Source(document(text, *children))


def test_two_whole_sentences_and_one_cut_in_the_middle() -> None:
    """Ends: after sentence one (legal), inside sentence two (not); starts: the same offsets; the document's own ends do not count."""
    values = measure(chunk_set(PROSE, (0, 14), (15, 24), (25, 47)), source(PROSE))
    assert values["break_rate_end"] == 0.5
    assert values["break_rate_start"] == 0.5
    assert values["break_rate"] == 0.5
    assert values["coverage"] == 1
    assert values["lost_characters"] == 0


def test_white_space_between_a_boundary_and_the_next_sentence_is_no_break() -> None:
    for end in (14, 15):
        values = measure(chunk_set(PROSE, (0, end), (end, 47)), source(PROSE))
        assert (values["break_rate_start"], values["break_rate_end"]) == (0, 0)


def test_one_chunk_has_no_boundary_to_break() -> None:
    assert "break_rate" not in measure(chunk_set(PROSE, (0, 47)), source(PROSE))


def test_list_items_headings_and_table_rows_are_legal_boundaries() -> None:
    text = "# Title\n\n- first item\n- second item\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n"
    second_item, row = text.index("- second"), text.index("| 3")
    values = measure(chunk_set(text, (0, second_item), (second_item, row), (row, len(text))), source(text))
    assert (values["break_rate_start"], values["break_rate_end"]) == (0, 0)
    inside = text.index("item\n- second")
    broken = measure(chunk_set(text, (0, inside), (inside, len(text))), source(text))
    assert (broken["break_rate_start"], broken["break_rate_end"]) == (1, 1)


def test_lines_of_code_are_legal_boundaries() -> None:
    text = "```\na = 1\nb = 2\n```\n"
    code = Node(kind=NodeKind.CODE, span=Span(0, len(text)))
    assert text.index("b = 2") in legal_boundaries(source(text, code))
    assert text.index("= 2") not in legal_boundaries(source(text, code))


def test_coverage_counts_visible_characters() -> None:
    """`abcd efgh` has eight; the chunk leaves out `gh`."""
    values = measure(chunk_set("abcd efgh", (0, 7)), source("abcd efgh"))
    assert values["coverage"] == 0.75
    assert values["lost_characters"] == 2


def test_duplicated_characters_are_the_overlap() -> None:
    """60 + 60 characters over 100: 20 of 120 are repeated."""
    text = "x" * 100
    values = measure(chunk_set(text, (0, 60), (40, 100)), source(text))
    assert values["duplicated_share"] == pytest.approx(20 / 120)


def test_sizes_and_uniformity_by_hand() -> None:
    """Sizes 10, 20, 30: mean 20, standard deviation 8.165."""
    values = measure(chunk_set("abcdef", (0, 2), (2, 4), (4, 6), tokens=[10, 20, 30]), source("abcdef"))
    assert (values["size_p5"], values["size_p50"], values["size_p95"], values["size_mean"]) == (11, 20, 29, 20)
    assert values["uniformity"] == pytest.approx(1 - 8.16497 / 20, abs=1e-5)
    assert values["over_limit"] == pytest.approx(2 / 3)
    equal = measure(chunk_set("abcd", (0, 2), (2, 4), tokens=[10, 10]), source("abcd"))
    assert equal["uniformity"] == 1
    assert equal["over_limit"] == 0


def test_the_limit_given_wins_over_the_size_of_the_spec() -> None:
    cut = chunk_set("abcdef", (0, 2), (2, 4), (4, 6), tokens=[10, 20, 30])
    assert measure(cut, source("abcdef"), limit=25)["over_limit"] == pytest.approx(1 / 3)


def test_a_heading_is_kept_when_its_body_begins_in_the_same_chunk() -> None:
    text = "## Scope\n\nThis applies to all.\n\n## Terms\n\nA term is a word.\n"
    terms = text.index("## Terms")
    body = text.index("A term")
    tree = [
        Node(kind=NodeKind.SECTION, span=Span(0, terms), heading=Span(0, 8), title="Scope"),
        Node(kind=NodeKind.SECTION, span=Span(terms, len(text)), heading=Span(terms, terms + 8), title="Terms"),
    ]
    kept = measure(chunk_set(text, (0, terms), (terms, len(text))), source(text, *tree))
    assert kept["headings_kept"] == 1
    parted = measure(chunk_set(text, (0, body), (body, len(text))), source(text, *tree))
    assert parted["headings_kept"] == 0.5


def test_tables_lists_and_code_intact() -> None:
    text = "| a |\n| 1 |\n\n- one\n- two\n\n```\nx\n```\n"
    items, code = text.index("- one"), text.index("```")
    tree = [
        Node(kind=NodeKind.TABLE, span=Span(0, 12)),
        Node(kind=NodeKind.LIST_ITEM, span=Span(items, items + 6)),
        Node(kind=NodeKind.LIST_ITEM, span=Span(items + 6, items + 12)),
        Node(kind=NodeKind.CODE, span=Span(code, len(text))),
    ]
    values = measure(chunk_set(text, (0, items + 6), (items + 6, len(text))), source(text, *tree))
    assert (values["tables_intact"], values["lists_intact"], values["code_intact"]) == (1, 0, 1)
    assert "tables_intact" not in measure(chunk_set(PROSE, (0, 47)), source(PROSE))


def test_no_chunks_and_a_blank_document() -> None:
    assert measure(chunk_set("abc"), source("abc")) == {"chunks": 0, "lost_characters": 3, "coverage": 0}
    blank = measure(chunk_set("  \n", (0, 3), tokens=[1]), source("  \n"))
    assert "coverage" not in blank
    assert blank["lost_characters"] == 0


def test_duplicates_and_near_duplicates() -> None:
    clause = "The supplier keeps the records for five years after the end of the contract and shows them on request"
    other = clause.replace("five", "six")
    text = f"{clause}|{clause}|{other} and without delay at any time|Something else entirely stands here today"
    parts = text.split("|")
    starts = [text.index("|" + part) + 1 if i else 0 for i, part in enumerate(parts)]
    starts[1] = len(clause) + 1
    cut = chunk_set(text, *((start, start + len(part)) for start, part in zip(starts, parts, strict=True)))
    values = measure(cut, source(text))
    assert values["duplicates"] == 0.25
    assert values["near_duplicates"] == 0.25
    pairs = similar_texts(parts, threshold=0.3)
    assert (pairs[0].first, pairs[0].second) == (0, 1)
    assert pairs[0].similarity == 1


def test_overlap_is_no_near_duplicate() -> None:
    words = " ".join(f"w{i}" for i in range(60))
    assert near_duplicates([chunk(0, 200, text=words), chunk(10, 210, text=words)]) == []
    assert len(near_duplicates([chunk(0, 200, text=words), chunk(300, 500, text=words)])) == 1


@given(st.text(st.sampled_from("ab .\n\u00a0国"), min_size=1, max_size=25), st.data())
def test_coverage_agrees_with_counting_every_character(text: str, data: st.DataObject) -> None:
    place = st.integers(0, len(text))
    bounds = [each for each in data.draw(st.lists(st.tuples(place, place), min_size=1)) if each[0] < each[1]] or [
        (0, 1)
    ]
    values = measure(chunk_set(text, *bounds), source(text))
    held = {offset for start, end in bounds for offset in range(start, end)}
    visible = {offset for offset, character in enumerate(text) if not character.isspace()}
    assert values["lost_characters"] == len(visible - held)
    assert values.get("coverage") == (len(visible & held) / len(visible) if visible else None)
    assert values["duplicated_share"] == 1 - len(held) / sum(end - start for start, end in bounds)


def test_what_is_known_of_a_document_serves_every_cut_and_goes_with_its_source() -> None:
    known = source(PROSE)
    assert legal_boundaries(known) is legal_boundaries(known)
    assert measure(chunk_set(PROSE, (0, 14), (14, 47)), known)["break_rate"] == 0
    assert measure(chunk_set(PROSE, (0, 10), (10, 47)), known)["break_rate"] == 1
    gone = weakref.ref(known)
    del known
    gc.collect()
    assert gone() is None


def test_orphans_are_chunks_no_question_reached() -> None:
    first, second = chunk(0, 10), chunk(10, 20)
    assert orphans([first, second], [first.chunk_id]) == (second,)


def test_thresholds_are_floors_or_ceilings_by_direction() -> None:
    assert chunk_quality.deserves_a_look("coverage", 0.99)
    assert not chunk_quality.deserves_a_look("coverage", 1.0)
    assert chunk_quality.deserves_a_look("break_rate", 0.06)
    assert not chunk_quality.deserves_a_look("break_rate", 0.05)
    assert not chunk_quality.deserves_a_look("size_p50", 10_000.0)
    assert set(chunk_quality.THRESHOLDS) <= {metric.name for metric in chunk_quality.METRICS}
