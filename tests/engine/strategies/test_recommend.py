from __future__ import annotations

from engine.models import Document, Node, NodeKind, Span
from engine.strategies.recommend import recommend
from engine.strategies.source import SOURCE_CODE
from tests.engine.strategies.doubles import document

PROSE = "The board of the association meets twice a year in the town where it has its seat. "


def made(*blocks: tuple[NodeKind, str], media_type: str | None = None) -> Document:
    """A flat document: one node per block, headings marked as such, articles numbered."""
    nodes, text = [], ""
    for kind, block in blocks:
        span = Span(len(text), len(text) + len(block))
        heading = span if kind in (NodeKind.SECTION, NodeKind.ARTICLE) else None
        label = "Article 1" if kind is NodeKind.ARTICLE else None
        title = block.strip("# ") if heading else None
        nodes.append(Node(kind=kind, span=span, heading=heading, label=label, title=title))
        text += block + "\n\n"
    root = Node(kind=NodeKind.DOCUMENT, span=Span(0, len(text)), children=tuple(nodes))
    plain = document(text, root)
    return plain if media_type is None else plain.model_copy(update={"media_type": media_type})


def paragraphs(*texts: str) -> list[tuple[NodeKind, str]]:
    return [(NodeKind.PARAGRAPH, text) for text in texts]


def test_numbered_articles_ask_for_parent_and_child() -> None:
    blocks = [(NodeKind.ARTICLE, "## Article"), (NodeKind.PARAGRAPH, PROSE)] * 4
    found = recommend(made(*blocks))
    assert (found.spec.strategy_name, found.preset) == ("parent_child", "legal")
    assert found.reasons[0] == "It has 4 numbered articles."


def test_a_source_file_is_code_whatever_its_tree_says() -> None:
    found = recommend(made(*paragraphs('"""Only a docstring."""'), media_type=SOURCE_CODE))
    assert (found.spec.strategy_name, found.preset) == ("code_aware", "code")
    assert found.reasons[0] == "100% of the text is code."


def test_the_code_share_counts_characters_that_are_not_blank() -> None:
    """Six letters of code, two of prose; white space counts for neither."""
    found = recommend(made((NodeKind.CODE, "a b c\n\n\n\nd e f"), (NodeKind.PARAGRAPH, "x    y")))
    assert found.figures.code_share == 0.75
    assert found.spec.strategy_name == "code_aware"


def test_sections_ask_for_the_structure() -> None:
    found = recommend(made(*[(NodeKind.SECTION, "# Title"), (NodeKind.PARAGRAPH, PROSE * 5)] * 5))
    assert (found.spec.strategy_name, found.preset) == ("markdown_structure", "technical")
    assert found.reasons[0].startswith("It has 5 headings, ")


def test_a_heading_of_references_makes_it_a_paper() -> None:
    blocks = [(NodeKind.SECTION, "# Method"), (NodeKind.PARAGRAPH, PROSE), (NodeKind.SECTION, "# Results")]
    assert recommend(made(*blocks, (NodeKind.SECTION, "# References"))).preset == "academic"


def test_questions_make_it_an_faq() -> None:
    found = recommend(
        made(*paragraphs("How do I pay?", "By card.", "When?", "In March.", "Who?", "All.", "Why?", "So."))
    )
    assert (found.spec.strategy_name, found.preset) == ("paragraph", "faq")
    assert found.figures.question_share == 0.5
    assert found.spec.params["size"] == 128


def test_speakers_make_it_a_chat() -> None:
    found = recommend(made(*paragraphs("Ada: I am here.\n[10:02] Ben: So am I.\n**Ada Lovelace:** Good.\n" * 4)))
    assert (found.spec.strategy_name, found.preset) == ("recursive", "chat")
    assert found.figures.turn_share == 1.0


def test_tables_stay_whole() -> None:
    table = "| a | b |\n| - | - |\n" + "| 1 | 2 |\n" * 20
    found = recommend(made((NodeKind.TABLE, table), (NodeKind.PARAGRAPH, "About it.")))
    assert found.spec.strategy_name == "markdown_structure"
    assert "in tables" in found.reasons[0]


def test_long_prose_with_speech_is_fiction() -> None:
    found = recommend(made(*paragraphs(*["“I know,” she said. " + PROSE * 4, PROSE * 5] * 30)))
    assert (found.spec.strategy_name, found.preset) == ("recursive", "fiction")
    assert found.figures.speech_share == 0.5


def test_plain_prose_gets_the_general_defaults() -> None:
    found = recommend(made(*paragraphs(PROSE * 40, PROSE * 40)))
    assert found.spec.label == "recursive 512/50"
    assert found.preset is None
    assert found.reasons[0] == "It has 0 headings, 0.0 per 1,000 tokens: too few to cut by."


def test_short_sentences_halve_the_size() -> None:
    found = recommend(made(*paragraphs("It is so. He ran. We left. " * 80)))
    assert found.spec.label == "recursive 256/25"
    assert "middle sentence has" in found.reasons[1]


def test_lists_are_named_as_the_reason() -> None:
    found = recommend(made(*[(NodeKind.LIST_ITEM, "- " + PROSE)] * 30))
    assert found.figures.list_share == 1.0
    assert found.reasons[1].startswith("100% of the text are list items")


def test_an_empty_document_has_an_answer() -> None:
    assert recommend(document("")).spec.strategy_name == "recursive"
