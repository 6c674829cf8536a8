from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.documents.base import Parsed
from engine.documents.markdown import READER, plain
from engine.models import Node, NodeKind
from engine.settings import Settings
from tests.engine.documents.checks import check_tree, nodes, texts

SETTINGS = Settings(_env_file=None)
SPEECH = Path(__file__).parents[4] / "shared" / "data" / "chroma_sotu" / "state_of_the_union.md"


def read(text: str) -> Parsed:
    parsed = READER.read(text.encode("utf-8", "surrogatepass"), "a.md", SETTINGS)
    check_tree(parsed)
    return parsed


def only(parsed: Parsed, kind: NodeKind) -> Node:
    (node,) = nodes(parsed, kind)
    return node


def test_the_files_own_text_is_canonical_byte_for_byte() -> None:
    source = "#  Title  #\n\n*  item\n\n\n> quote  \n<b>html</b>\n\ttab\n"
    assert read(source).text == source
    assert read(source.replace("\n", "\r\n")).text == source


def test_sections_nest_by_level() -> None:
    parsed = read("# A\n\none\n\n## B\n\ntwo\n\nC\n===\n\nthree")
    first, second = parsed.tree.children
    assert (first.title, first.level, [child.title for child in first.children]) == ("A", 1, [None, "B"])
    assert first.span.slice(parsed.text) == "# A\n\none\n\n## B\n\ntwo"
    assert first.heading.slice(parsed.text) == "# A"
    assert second.heading.slice(parsed.text) == "C\n==="
    assert parsed.structure.confidence == "high"


def test_text_before_the_first_heading_is_a_preamble() -> None:
    parsed = read("before\n\n# A")
    assert [node.title for node in parsed.tree.children] == ["Preamble", "A"]


def test_titles_carry_no_markup() -> None:
    assert only(read("# A *b* `c` [d](http://e) ![f](g) \\# h"), NodeKind.SECTION).title == "A b c d f # h"
    assert plain("x" * 3000) == "x" * 3000


def test_numbers_of_headings_are_labels() -> None:
    section = only(read("## 2.1 *Scope*\n\nx"), NodeKind.SECTION)
    assert (section.label, section.title, section.number_path) == ("2.1", "Scope", (2, 1))


def test_article_headings_become_articles() -> None:
    parsed = read("# Chapter I\n\n## Article 1 Scope\n\nThis.\n\n## Article 2\n\nThat.\n\n## Article 3\n\nSo.")
    articles = nodes(parsed, NodeKind.ARTICLE)
    assert [(node.label, node.title) for node in articles] == [
        ("Article 1", "Scope"),
        ("Article 2", None),
        ("Article 3", None),
    ]
    assert articles[0].heading.slice(parsed.text) == "## Article 1 Scope"


def test_bold_lines_serve_as_headings_where_there_are_none() -> None:
    parsed = read("\n\n".join(f"**Article {n}**\n\nThe text of article {n}." for n in range(1, 5)))
    assert [node.label for node in nodes(parsed, NodeKind.ARTICLE)] == [f"Article {n}" for n in range(1, 5)]


def test_tables_have_rows_that_tile_them() -> None:
    parsed = read("| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\nend")
    assert texts(parsed, NodeKind.ROW) == ["| a | b |\n|---|---|", "| 1 | 2 |", "| 3 | 4 |"]
    assert [node.attributes.get("header", False) for node in nodes(parsed, NodeKind.ROW)] == [True, False, False]


def test_lists_nest_and_keep_their_numbers() -> None:
    parsed = read("3. three\n   - inner\n\n     more of inner\n4. four\n")
    three, four = (node for node in nodes(parsed, NodeKind.LIST_ITEM) if node.level == 1)
    assert (three.label, four.label) == ("3.", "4.")
    (inner,) = three.children
    assert inner.kind is NodeKind.LIST_ITEM
    assert inner.children[0].span.slice(parsed.text) == "     more of inner"


def test_code_in_a_list_hangs_on_its_item() -> None:
    parsed = read("- item\n\n  ```py\n  x = 1\n  ```\n")
    code = only(parsed, NodeKind.CODE)
    assert code.attributes == {"language": "py"}
    assert only(parsed, NodeKind.LIST_ITEM).children == (code,)


def test_footnotes_stay_where_they_are_defined() -> None:
    parsed = read("Text[^1] goes on.\n\n[^1]: The note.\n\nAfter.")
    note = only(parsed, NodeKind.NOTE)
    assert (note.label, note.span.slice(parsed.text)) == ("1", "[^1]: The note.")
    assert texts(parsed, NodeKind.PARAGRAPH)[-1] == "After."


def test_front_matter_is_metadata_and_text() -> None:
    parsed = read('---\ntitle: "The Act"\nauthor: A\ntags: [x]\n---\n# A\n')
    assert parsed.metadata["title"] == "The Act"
    assert parsed.metadata["author"] == "A"
    assert texts(parsed, NodeKind.PARAGRAPH)[0].startswith("---\ntitle")


def test_a_hash_in_code_is_no_heading() -> None:
    parsed = read("```\n# not a heading\n```\n\n    # nor this\n")
    assert len(nodes(parsed, NodeKind.CODE)) == 2
    assert parsed.structure.confidence == "none"


def test_what_makes_no_block_is_kept_in_a_paragraph() -> None:
    parsed = read("[ref]: http://example.org\n\n***\n")
    assert texts(parsed, NodeKind.PARAGRAPH) == ["[ref]: http://example.org\n\n***"]


def test_deep_nesting_ends_in_a_flat_rest() -> None:
    parsed = read("> " * 500 + "text\n\n" + "- " * 300 + "item")
    assert parsed.text.endswith("item")


PIECES = ["# h\n", "## Article 1\n", "- a\n", "  - b\n", "1. c\n", "> q\n", "```\n", "| a |\n", "|---|\n", "[^1]: n\n",
          "\n", "text\n", "    code\n", "<div>\n", "***\n", "---\n", "é第\U0001f600 ", "\t", "\ud800", "\0"]  # fmt: skip


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.lists(st.sampled_from(PIECES), max_size=25))
def test_any_mix_of_markup_keeps_text_and_exact_spans(pieces: list[str]) -> None:
    source = "".join(pieces)
    assert len(read(source).text) == len(source)


@pytest.mark.skipif(not SPEECH.exists(), reason="../shared/data is not there")
def test_a_real_speech_is_kept_whole() -> None:
    source = SPEECH.read_bytes()
    parsed = READER.read(source, SPEECH.name, SETTINGS)
    check_tree(parsed)
    assert parsed.text.encode() == source.replace(b"\r\n", b"\n")
