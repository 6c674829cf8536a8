"""The canonical text and the tree made from blocks."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.documents.base import Block
from engine.documents.tree import FLAT_ARTICLE, MAX_DEPTH, Placed, build, nest, node_counts
from engine.models import Node, NodeKind, Span

K = NodeKind


def outline(node: Node, text: str) -> list[str]:
    """Every node as `depth kind name`, the document left out."""
    lines: list[str] = []
    stack = [(child, 0) for child in reversed(node.children)]
    while stack:
        child, depth = stack.pop()
        lines.append(f"{'  ' * depth}{child.kind} {child.name}".rstrip())
        stack.extend((grandchild, depth + 1) for grandchild in reversed(child.children))
    return lines


def test_headings_labels_and_points_are_rendered_and_nested() -> None:
    text, tree = build(
        [
            Block(K.PARAGRAPH, "Whereas …"),
            Block(K.SECTION, "General", level=1, label="CHAPTER I"),
            Block(K.ARTICLE, "Scope", label="Article 1", separator=". "),
            Block(K.PARAGRAPH, "This law covers:", label="1.", level=1),
            Block(K.PARAGRAPH, "ships,", label="(a)", level=2),
            Block(K.PARAGRAPH, "planes.", label="(b)", level=2),
            Block(K.PARAGRAPH, "Nothing else.", label="2.", level=1),
            Block(K.ARTICLE, "", label="Article 2"),
        ]
    )

    assert text == (
        "Whereas …\n\n# CHAPTER I General\n\n## Article 1. Scope\n\n1. This law covers:\n\n"
        "(a) ships,\n\n(b) planes.\n\n2. Nothing else.\n\n## Article 2"
    )
    assert outline(tree, text) == [
        "section Preamble",
        "  paragraph",
        "section CHAPTER I General",
        "  article Article 1 Scope",
        "    paragraph 1.",
        "      paragraph (a)",
        "      paragraph (b)",
        "    paragraph 2.",
        "  article Article 2",
    ]
    article = tree.children[1].children[0]
    assert article.heading is not None
    assert article.heading.slice(text) == "## Article 1. Scope"
    assert article.span.slice(text).startswith("## Article 1. Scope")
    assert article.span.slice(text).endswith("2. Nothing else.")
    assert (article.level, article.children[0].level, article.children[0].children[0].level) == (2, 1, 2)


def test_articles_without_a_section_share_one_implied_section() -> None:
    _, tree = build(
        [Block(K.ARTICLE, "", label="Article 1", level=1), Block(K.ARTICLE, "", label="Article 2", level=1)]
    )

    (section,) = tree.children
    assert (section.kind, section.heading, section.rule) == (K.SECTION, None, "implied")
    assert [child.label for child in section.children] == ["Article 1", "Article 2"]


def test_a_heading_below_an_article_is_a_titled_paragraph_of_it() -> None:
    text, tree = build(
        [
            Block(K.SECTION, "Part", level=1),
            Block(K.ARTICLE, "Scope", level=2),
            Block(K.SECTION, "Exceptions", level=3),
            Block(K.PARAGRAPH, "None."),
            Block(K.SECTION, "Next part", level=1),
        ]
    )

    assert outline(tree, text) == [
        "section Part",
        "  article Scope",
        "    paragraph Exceptions",
        "      paragraph",
        "section Next part",
    ]


def test_points_belong_to_the_paragraph_that_introduces_them_and_to_no_other() -> None:
    _, tree = build(
        [
            Block(K.ARTICLE, "One"),
            Block(K.PARAGRAPH, "A sentence."),
            Block(K.PARAGRAPH, "first", label="(a)", level=1),
            Block(K.PARAGRAPH, "The list:"),
            Block(K.PARAGRAPH, "second", label="(a)", level=1),
        ]
    )

    article = tree.children[0].children[0]
    assert [len(child.children) for child in article.children] == [0, 0, 1]


def test_a_table_becomes_a_pipe_table_whose_rows_tile_it() -> None:
    text, tree = build([Block(K.TABLE, "", rows=(("Unit", "a|b"), ("m", "one\ntwo")), header_rows=1)])

    assert text == "| Unit | a\\|b |\n| --- | --- |\n| m | one<br>two |"
    table = next(node for node in tree.walk() if node.kind is K.TABLE)
    assert [row.span.slice(text) for row in table.children] == [
        "| Unit | a\\|b |\n| --- | --- |",
        "| m | one<br>two |",
    ]
    assert [row.attributes.get("header", False) for row in table.children] == [True, False]


def test_a_table_without_a_header_gets_an_empty_one() -> None:
    text, tree = build([Block(K.TABLE, "", rows=(("a", "b"), ("c",)))])

    assert text == "|  |  |\n| --- | --- |\n| a | b |\n| c |  |"
    assert node_counts(tree) == {"section": 1, "article": 1, "table": 1, "row": 2}


def test_list_items_code_and_notes() -> None:
    text, tree = build(
        [
            Block(K.LIST_ITEM, "outer", level=1),
            Block(K.LIST_ITEM, "inner\nsecond line", level=2, label="1."),
            Block(K.CODE, "print('```')", attributes={"language": "python"}),
            Block(K.NOTE, "A note.", label="1"),
        ]
    )

    assert text == "- outer\n  1. inner\n    second line\n\n````python\nprint('```')\n````\n\n[^1]: A note."
    assert outline(tree, text) == [
        "section Body",
        "  article",
        "    list_item",
        "      list_item 1.",
        "    code",
        "    note 1",
    ]


def test_a_text_without_headings_is_cut_into_implied_articles() -> None:
    _, tree = build([Block(K.PARAGRAPH, str(number)) for number in range(2 * FLAT_ARTICLE + 1)])

    (body,) = tree.children
    assert body.title == "Body"
    assert [len(article.children) for article in body.children] == [FLAT_ARTICLE, FLAT_ARTICLE, 1]


def test_an_empty_document_has_a_tree_without_children() -> None:
    text, tree = build([Block(K.PARAGRAPH, "  "), Block(K.SECTION, "")])

    assert (text, tree.span, tree.children) == ("", Span(0, 0), ())


def test_depth_is_capped() -> None:
    _, tree = build([Block(K.SECTION, "x", level=level) for level in range(1, 500)])

    assert max(node.level for node in tree.walk()) == MAX_DEPTH
    assert node_counts(tree)["section"] == 499


def test_blocks_that_already_stand_in_a_text_are_nested_by_the_same_rules() -> None:
    text = "intro\n# One\nbody\n"
    tree = nest(
        [
            Placed(Block(K.PARAGRAPH, "intro"), Span(0, 5)),
            Placed(Block(K.SECTION, "One", level=1), Span(6, 11), Span(6, 11)),
            Placed(Block(K.PARAGRAPH, "body"), Span(12, 16)),
        ],
        len(text),
    )

    assert outline(tree, text) == ["section Preamble", "  paragraph", "section One", "  paragraph"]
    assert tree.children[1].span == Span(6, 16)
    bare = nest([Placed(Block(K.CODE, "x = 1"), Span(0, 5))], 5, implied=False)
    assert [child.kind for child in bare.children] == [K.CODE]


BLOCKS = st.builds(
    Block,
    kind=st.sampled_from([K.SECTION, K.ARTICLE, K.PARAGRAPH, K.LIST_ITEM, K.CODE, K.NOTE]),
    text=st.text(alphabet="ab :\n|#", max_size=12),
    level=st.integers(0, 12),
    label=st.sampled_from([None, "1.", "(a)"]),
)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.lists(BLOCKS, max_size=30))
def test_spans_nest_in_order_and_hold_every_block(blocks: list[Block]) -> None:
    text, tree = build(blocks)

    for node in tree.walk():
        position = node.span.start
        for child in node.children:
            assert position <= child.span.start < child.span.end <= node.span.end
            position = child.span.end
        if node.heading is not None:
            assert node.heading.start == node.span.start
            assert node.heading.slice(text).startswith("#")
    covered = "".join(child.span.slice(text) for child in tree.children)
    assert "".join(covered.split()) == "".join(text.split())
