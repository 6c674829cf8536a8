from __future__ import annotations

from engine.models import Chunk, Document, Node, NodeKind, Span
from engine.providers.base import Models
from engine.strategies.markdown_structure import HEADER_NOT_REPEATED, MarkdownStructure
from engine.strategies.source import Source
from tests.engine.strategies.doubles import document, source

STRATEGY = MarkdownStructure()


def cut(text: str, size: int = 512) -> tuple[Chunk, ...]:
    return STRATEGY.chunk(source(text), STRATEGY.parse({"size": size}), Models()).chunks


def test_one_chunk_per_leaf_section_with_its_heading_path() -> None:
    text = "Before.\n\n# A\n\nIntro.\n\n## B\n\nBody b.\n\n#### C\n\nBody c.\n\n# D\nBody d.\n"
    assert [(chunk.text, chunk.heading_path) for chunk in cut(text)] == [
        ("Before.\n\n", ()),
        ("# A\n\nIntro.\n\n", ("A",)),
        ("## B\n\nBody b.\n\n", ("A", "B")),
        ("#### C\n\nBody c.\n\n", ("A", "B", "C")),
        ("# D\nBody d.\n", ("D",)),
    ]


def test_short_sections_are_never_merged() -> None:
    assert len(cut("# A\na\n\n# B\nb\n\n# C\nc\n")) == 3


def test_a_heading_without_a_body_stays_with_the_section_below() -> None:
    chunks = cut("# Part\n\n## Article\n\nBody.\n\n## Empty\n")
    assert [(chunk.text, chunk.heading_path) for chunk in chunks] == [
        ("# Part\n\n## Article\n\nBody.\n\n", ("Part", "Article")),
        ("## Empty\n", ("Part", "Empty")),
    ]


def test_headings_in_code_are_none_and_setext_headings_are() -> None:
    text = "Title\n=====\n\n~~~\n# comment\n~~~\n\nSub\n---\nBody.\n"
    assert [chunk.heading_path for chunk in cut(text)] == [("Title",), ("Title", "Sub")]


def test_front_matter_stands_before_the_first_heading() -> None:
    assert [chunk.text for chunk in cut("---\ntitle: a\n---\n# One\nBody.\n")] == [
        "---\ntitle: a\n---\n",
        "# One\nBody.\n",
    ]


def test_a_long_section_is_cut_between_paragraphs_then_sentences() -> None:
    text = "# A\n\nOne one one.\n\nTwo two two.\n\nThe fee is due. The form is filed. The case is closed.\n"
    chunks = cut(text, 14)
    assert [chunk.text for chunk in chunks] == [
        "# A\n\nOne one one.\n\nTwo two two.\n\n",
        "The fee is due. The form is filed. ",
        "The case is closed.\n",
    ]
    assert {chunk.heading_path for chunk in chunks} == {("A",)}


ROW = "| form A | 12 |\n"
HEADER = "| item | fee |\n|---|---|\n"


def test_a_table_that_fits_stays_whole() -> None:
    [chunk] = cut("# Fees\n\n" + HEADER + ROW * 3)
    assert chunk.embedding_text is None


def test_a_long_table_is_cut_between_rows_and_its_header_is_embedded_again() -> None:
    text = "# Fees\n\n" + HEADER + ROW * 20 + "\nAfter the table.\n"
    first, *rest, last = cut(text, 48)
    assert first.text.startswith("# Fees\n\n" + HEADER + ROW)
    assert first.embedding_text is None
    for chunk in rest:
        assert set(chunk.text.rstrip("\n").split("\n")) == {ROW.strip()}
        assert chunk.embedding_text == HEADER + chunk.text
    assert last.text == "After the table.\n"
    assert last.embedding_text is None
    assert "".join(chunk.text for chunk in (first, *rest, last)) == text


def test_the_repeated_header_is_inside_the_limit() -> None:
    chunks = STRATEGY.chunk(source(HEADER + ROW * 30), STRATEGY.parse({"size": 40}), Models()).chunks
    counted = source("")
    assert all(counted.count(chunk.embed_text) <= 40 for chunk in chunks)


def test_a_header_above_half_of_the_size_is_not_repeated_and_the_chunk_says_so() -> None:
    wide = "| " + " | ".join(f"column {number}" for number in range(8)) + " |\n" + "|---" * 8 + "|\n"
    first, *rest = cut(wide + ("| " + " | ".join("1" * 8) + " |\n") * 8, 60)
    assert first.flags == ()
    assert rest
    assert all(chunk.flags == (HEADER_NOT_REPEATED,) and chunk.embedding_text is None for chunk in rest)


def test_a_long_fence_is_cut_between_lines() -> None:
    chunks = cut("```\n" + "value = compute(1)\n" * 20 + "```\n", 24)
    assert all(chunk.text.endswith("\n") for chunk in chunks)


def test_sections_of_the_document_tree_count_where_the_text_has_no_markup() -> None:
    text = "Article 1 Scope\n\nIt applies.\n\nArticle 2 Fees\n\nThey are due.\n"
    start = text.index("Article 2")
    tree = Node(
        kind=NodeKind.DOCUMENT,
        span=Span(0, len(text)),
        children=(
            Node(kind=NodeKind.ARTICLE, span=Span(0, start), label="Article 1", title="Scope", heading=Span(0, 15)),
            Node(
                kind=NodeKind.ARTICLE,
                span=Span(start, len(text)),
                label="Article 2",
                title="Fees",
                heading=Span(start, start + 14),
            ),
        ),
    )
    made: Document = document(text, tree)
    chunks = STRATEGY.chunk(Source(made), STRATEGY.parse({}), Models()).chunks
    assert [(chunk.text[:9], chunk.heading_path, chunk.article) for chunk in chunks] == [
        ("Article 1", ("Article 1 Scope",), "Article 1 Scope"),
        ("Article 2", ("Article 2 Fees",), "Article 2 Fees"),
    ]
