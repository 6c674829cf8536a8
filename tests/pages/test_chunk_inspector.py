"""Chunk Inspector: one to four strategies on one text, live."""

from __future__ import annotations

import io

import docx
import pytest

from app import families
from engine import Workbench
from tests.pages.conftest import Open, words

TEXT = """# Fees

## Article 1

The annual fee is 300 euros. It is due on 1 May. Whoever pays late pays more.

## Article 2

A late fee of 45 euros is charged after 30 days. 😀 The emoji is no accident. 漢字も。

| Kind | Euros |
|---|---|
| late | 45 |
"""


@pytest.fixture(scope="module")
def law(workbench: Workbench) -> str:
    return workbench.add_document(TEXT.encode(), "law.md").document.document_id


def test_without_documents_it_leads_to_upload(open_page: Open) -> None:
    app = open_page("chunk_inspector")
    assert "No documents yet" in words(app)


def test_two_strategies_stand_side_by_side_at_first(open_page: Open, law: str) -> None:
    app = open_page("chunk_inspector")
    assert [app.selectbox(key=f"inspector.{pane}.strategy").value for pane in (0, 1)] == ["recursive", "parent_child"]
    assert app.query_params["strategies"] == "recursive;parent_child"
    assert "0 characters in no chunk" in words(app).replace("\\", "")


def test_a_parameter_changes_the_chunks_at_once(open_page: Open, law: str, workbench: Workbench) -> None:
    app = open_page("chunk_inspector")
    app.number_input(key="inspector.0.recursive.overlap").set_value(0).run()
    app.number_input(key="inspector.0.recursive.size").set_value(24).run()
    assert not app.error
    assert app.query_params["strategies"] == "recursive:size=24,overlap=0;parent_child"
    count = len(workbench.chunk(law, workbench.spec("recursive", {"size": 24, "overlap": 0})).chunks)
    assert count > 1
    assert f"{count} chunks" in words(app)


def test_a_bad_parameter_is_said_in_its_column_and_the_other_stays(open_page: Open, law: str) -> None:
    app = open_page("chunk_inspector")
    app.number_input(key="inspector.0.recursive.size").set_value(40).run()
    assert "overlap" in app.error[0].value
    assert len(app.error) == 1
    assert app.selectbox(key="inspector.1.strategy").value == "parent_child"


def test_a_link_opens_strategies_parameters_and_chunk(open_page: Open, law: str, workbench: Workbench) -> None:
    spec = workbench.spec("fixed_size", {"size": 20, "overlap": 0})
    third = workbench.chunk(law, spec).chunks[2]
    line = "recursive;fixed_size:size=20,overlap=0;nonsense:x=1"
    app = open_page("chunk_inspector", document=law, strategies=line, chunk=third.chunk_id)
    assert app.number_input(key="inspector.1.fixed_size.size").value == 20
    assert f"Id: {third.chunk_id}" in words(app)
    assert "Chunk 3 of" in words(app)
    assert third.text in [code.value for code in app.code]
    app.button(key="inspector.next_chunk").click().run()
    assert "Chunk 4 of" in words(app)


@pytest.mark.parametrize(
    "section", ["Sizes", "Quality", "Chunks", "Agreement", "Text in no chunk", "Where to start", "Export"]
)
def test_every_section_is_drawn(open_page: Open, law: str, section: str) -> None:
    app = open_page("chunk_inspector", {"inspector.section": section})
    assert not app.error
    assert app.segmented_control(key="inspector.section").value == section


def test_four_columns_and_the_similarity_curve(open_page: Open, law: str) -> None:
    line = "semantic;semantic;fixed_size;sentence"
    app = open_page("chunk_inspector", {"inspector.section": "Similarity"}, strategies=line)
    assert not app.error
    assert app.selectbox(key="inspector.3.strategy").value == "sentence"
    assert "a boundary may be cut below" in words(app)


def test_a_strategy_without_its_model_says_so_and_the_rest_is_drawn(open_page: Open, law: str) -> None:
    app = open_page("chunk_inspector", strategies="contextual_retrieval;recursive")
    assert "chat model" in app.error[0].value
    assert len(app.error) == 1
    assert "characters in no chunk" in words(app).replace("\\", "")


def test_search_and_evidence_are_counted(open_page: Open, law: str, workbench: Workbench) -> None:
    rows = b'[{"question": "How high?", "evidence": ["The annual fee is 300 euros."]}]'
    question_set = workbench.add_question_set(rows, "fees.json")
    app = open_page("chunk_inspector", {"inspector.evidence": question_set.question_set_id})
    app.text_input(key="inspector.search").set_value("FEE").run()
    assert "1 passage of evidence" in words(app)
    assert "3 matches of the search" in words(app)


def test_next_difference_steps_through_the_places(open_page: Open, law: str) -> None:
    app = open_page("chunk_inspector", strategies="fixed_size:size=20,overlap=0;sentence:sentences=1,overlap=0")
    app.button(key="inspector.next").click().run()
    assert "Disagreement 1 of" in words(app)
    app.button(key="inspector.next").click().run()
    assert "Disagreement 2 of" in words(app)


def test_the_recommendation_can_be_shown(open_page: Open, law: str, workbench: Workbench) -> None:
    app = open_page("chunk_inspector", {"inspector.section": "Where to start"})
    app.button(key="inspector.recommended").click().run()
    advice = workbench.recommended(law)
    assert app.selectbox(key="inspector.0.strategy").value == advice.spec.strategy_name


def test_a_document_without_text_has_nothing_to_cut(open_page: Open, workbench: Workbench) -> None:
    buffer = io.BytesIO()
    docx.Document().save(buffer)
    empty = workbench.add_document(buffer.getvalue(), "empty.docx").document
    assert empty.token_count == 0
    try:
        app = open_page("chunk_inspector", document=empty.document_id)
        assert "empty.docx holds no text, so there is nothing to cut." in words(app).replace("\\", "")
        assert "inspector.0.strategy" not in [box.key for box in app.selectbox]
    finally:
        workbench.delete_document(empty.document_id)


def test_a_preset_sets_the_sizes(open_page: Open, law: str) -> None:
    app = open_page("chunk_inspector")
    app.selectbox(key="inspector.0.preset").set_value("chat").run()
    assert app.number_input(key="inspector.0.recursive.size").value == 256
    assert app.number_input(key="inspector.0.recursive.overlap").value == 48


def test_parents_stand_above_their_children(open_page: Open, law: str, workbench: Workbench) -> None:
    spec = workbench.spec("parent_child", {"child": "sentence"})
    chunks = workbench.chunk(law, spec).chunks
    app = open_page(
        "chunk_inspector",
        {"inspector.section": "Parents"},
        document=law,
        strategies="recursive;parent_child:child=sentence",
    )
    table = app.dataframe[-1].value
    first, second = (len(family.children) for family in families.families(workbench.chunk(law, spec)))
    children = [f"\u2003Chunk {number}" for number in range(1, len(chunks) + 1)]
    assert first + second == len(chunks)
    assert table["part"].tolist() == [
        f"Parent 1: Fees > Article 1 ({first} chunks)",
        *children[:first],
        f"Parent 2: Fees > Article 2 ({second} chunks)",
        *children[first:],
    ]
    for parent, below in ((table.loc[0], table.loc[1:first]), (table.loc[first + 1], table.loc[first + 2 :])):
        assert below["start"].min() >= parent["start"]
        assert below["end"].max() <= parent["end"]
        assert below["tokens"].max() < parent["tokens"]
    assert f"2 parents of {len(chunks)} chunks." in words(app)
    # A strategy without parents takes the section away again.
    app.selectbox(key="inspector.1.strategy").set_value("sentence").run()
    assert not app.exception
    assert "Parents" not in app.segmented_control(key="inspector.section").options


def test_rows_of_parents_lead_to_chunks(law: str, workbench: Workbench) -> None:
    chunk_set = workbench.chunk(law, workbench.spec("parent_child", {"child": "sentence"}))
    found = families.families(chunk_set)
    assert [child for family in found for child in family.children] == list(chunk_set.chunks)
    assert families.chunk_of_row(found, 0) == families.chunk_of_row(found, 1) == 0
    for chunk in chunk_set.chunks:
        row = families.row_of_chunk(found, chunk.chunk_index)
        assert row is not None
        assert families.chunk_of_row(found, row) == chunk.chunk_index
    flat = families.families(workbench.chunk(law, workbench.spec("recursive")))
    assert (flat, families.row_of_chunk(flat, 0)) == ([], None)
