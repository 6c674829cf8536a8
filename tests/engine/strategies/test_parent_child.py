from __future__ import annotations

from typing import Any

from engine.models import Chunk, Document, Node, NodeKind, Span
from engine.providers.base import Models
from engine.strategies.parent_child import UNSTRUCTURED_PARENT, ParentChild
from engine.strategies.source import Source
from tests.engine.strategies.doubles import document

STRATEGY = ParentChild()

PREAMBLE = "Having regard to the law.\n\n"
PART = "# Part I\n\n"
ARTICLE_1 = "## Article 1\n\nThe fee is due. It is not refundable.\n\nThe form is filed.\n\n"
ARTICLE_2 = "## Article 2\n\nThe case is closed.\n\n"
ANNEX = "# Annex\n\nForms are listed here.\n"
TEXT = PREAMBLE + PART + ARTICLE_1 + ARTICLE_2 + ANNEX


def node(kind: NodeKind, body: str, heading: str, *children: Node, within: str = TEXT) -> Node:
    start = within.index(body)
    return Node(
        kind=kind,
        span=Span(start, start + len(body.rstrip())),
        title=heading,
        heading=Span(start, start + len(body.split("\n")[0])),
        children=children,
    )


def regulation() -> Document:
    tree = Node(
        kind=NodeKind.DOCUMENT,
        span=Span(0, len(TEXT)),
        children=(
            node(
                NodeKind.SECTION,
                PART + ARTICLE_1 + ARTICLE_2,
                "Part I",
                node(NodeKind.ARTICLE, ARTICLE_1, "Article 1"),
                node(NodeKind.ARTICLE, ARTICLE_2, "Article 2"),
            ),
            node(NodeKind.SECTION, ANNEX, "Annex"),
        ),
    )
    return document(TEXT, tree)


def cut(made: Document, **values: Any) -> tuple[Chunk, ...]:
    return STRATEGY.chunk(Source(made), STRATEGY.parse(values), Models()).chunks


def parent(chunk: Chunk, text: str = TEXT) -> str:
    assert chunk.parent_span is not None
    return chunk.parent_span.slice(text)


def test_paragraphs_are_searched_and_articles_delivered() -> None:
    chunks = cut(regulation())
    assert [(chunk.text, parent(chunk)) for chunk in chunks] == [
        (PREAMBLE, PREAMBLE),
        (PART + "## Article 1\n\nThe fee is due. It is not refundable.\n\n", PART + ARTICLE_1),
        ("The form is filed.\n\n", PART + ARTICLE_1),
        (ARTICLE_2, ARTICLE_2),
        (ANNEX, ANNEX),
    ]
    assert chunks[1].parent_id == chunks[2].parent_id != chunks[3].parent_id


def test_children_carry_the_headings_of_their_article() -> None:
    chunks = cut(regulation())
    assert [chunk.heading_path for chunk in chunks] == [
        (),
        ("Part I", "Article 1"),
        ("Part I", "Article 1"),
        ("Part I", "Article 2"),
        ("Annex",),
    ]
    assert chunks[1].article == "Article 1"


def test_sections_as_parents() -> None:
    chunks = cut(regulation(), parent="section")
    assert list(dict.fromkeys(parent(chunk) for chunk in chunks)) == [PREAMBLE, PART + ARTICLE_1 + ARTICLE_2, ANNEX]


def test_paragraphs_as_parents_of_sentences() -> None:
    chunks = cut(regulation(), parent="paragraph", child="sentence")
    assert [chunk.text for chunk in chunks if "fee" in parent(chunk)] == [
        PART + "## Article 1\n\nThe fee is due. ",
        "It is not refundable.\n\n",
    ]


def test_a_child_above_the_limit_is_cut_and_keeps_its_parent() -> None:
    chunks = cut(regulation(), size=8)
    assert all(chunk.token_count <= 8 for chunk in chunks)
    assert [parent(chunk) for chunk in chunks if chunk.text == "It is not refundable.\n\n"] == [PART + ARTICLE_1]


def test_without_articles_sections_are_parents() -> None:
    made = regulation()
    flat = made.tree.model_copy(
        update={"children": tuple(child.model_copy(update={"children": ()}) for child in made.tree.children)}
    )
    chunks = cut(made.model_copy(update={"tree": flat}))
    assert list(dict.fromkeys(parent(chunk) for chunk in chunks)) == [PREAMBLE, PART + ARTICLE_1 + ARTICLE_2, ANNEX]


def test_without_a_tree_markdown_headings_are_parents() -> None:
    chunks = cut(document(TEXT))
    assert list(dict.fromkeys(parent(chunk) for chunk in chunks)) == [PREAMBLE, PART + ARTICLE_1, ARTICLE_2, ANNEX]


def test_without_any_structure_parents_are_runs_of_paragraphs() -> None:
    paragraph = "The fee is due when the form is filed. " * 10 + "\n\n"
    text = paragraph * 40
    made = document(text)
    chunks = cut(made)
    assert len(chunks) == 40
    parents = {chunk.parent_span for chunk in chunks}
    assert 1 < len(parents) < 10
    shares = [Source(made).tokens.share(*span) for span in parents if span is not None]
    assert max(shares) <= UNSTRUCTURED_PARENT
    assert all(parent(chunk, text).count("\n\n") > 3 for chunk in chunks)


def test_label() -> None:
    assert STRATEGY.spec().label == "parent_child article/paragraph"
    assert STRATEGY.spec({"parent": "section", "child": "sentence"}).label == "parent_child section/sentence"
