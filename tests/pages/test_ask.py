"""Ask: answers side by side, what was found, what a person does with them."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from app import answers
from engine import Workbench
from engine.errors import StoreUnavailable
from engine.records import Query
from tests.pages.conftest import Open, words

LAW = """# Fees

## Article 1

The annual fee is 300 euros. It is due on 1 May.

## Article 2

A late fee of 45 euros is charged after 30 days.
"""
QUESTION = "How high is the annual fee?"


@pytest.fixture(scope="module")
def law(workbench: Workbench) -> str:
    rows = b'[{"question": "How high is the annual fee?", "answer": "300 euros", "evidence": ["The annual fee is 300 euros."]}]'
    document_id = workbench.add_document(LAW.encode(), "law.md").document.document_id
    workbench.add_question_set(rows, "fees.json")
    return document_id


def ask(app: AppTest, question: str) -> AppTest:
    """Ask and wait until all strategies have answered."""
    app.text_input(key="ask.question").set_value(question)
    next(button for button in app.button if button.label == "Ask").click().run()
    assert not app.exception
    if "request" in app.query_params:
        from app import runtime

        live = runtime.asking.get(("local", app.query_params["request"]))
        assert live is not None
        live.wait()
        app.run()
    return app


def stored(app: AppTest, workbench: Workbench) -> list[Query]:
    return workbench.queries(50, app.query_params["request"])


def test_without_documents_it_leads_to_upload(open_page: Open) -> None:
    assert "No documents yet" in words(open_page("ask"))


def test_two_strategies_answer_and_are_stored(open_page: Open, law: str, workbench: Workbench) -> None:
    app = ask(open_page("ask"), QUESTION)
    shown = words(app)
    assert "recursive 512/50" in shown.replace("\\", "").replace("\u2060", "")
    assert shown.count("extractive, no LLM") >= 2
    assert len(stored(app, workbench)) == 2
    assert "Expected answer" in shown
    assert "300 euros" in shown
    assert len(app.dataframe) == 1
    assert list(app.dataframe[0].value.columns[:2]) == ["place", "evidence"]


def test_hits_name_their_document_where_there_are_several(open_page: Open, law: str, workbench: Workbench) -> None:
    alone = ask(open_page("ask", {"ask.strategies": ["paragraph"], "ask.documents": [law]}), QUESTION)
    assert not any("law" in expander.label for expander in alone.expander)
    other = workbench.add_document(LAW.replace("300", "500").encode(), "decree.md").document.document_id
    try:
        both = ask(open_page("ask", {"ask.strategies": ["paragraph"]}), QUESTION)
        labels = " ".join(expander.label for expander in both.expander)
        assert "law" in labels
        assert "decree" in labels
    finally:
        workbench.delete_document(other)


def test_an_extractive_answer_that_is_none_says_why(open_page: Open, law: str) -> None:
    app = ask(open_page("ask", {"ask.strategies": ["sentence"]}), "zebra giraffe savannah")
    assert "The documents do not answer this." in words(app)
    assert "No sentence found is close enough to the question." in words(app)


def test_what_stops_a_page_is_told_in_words_and_a_bug_in_one_line(
    open_page: Open, law: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = open_page("ask")

    def down(_: Workbench) -> None:
        raise StoreUnavailable("The database does not answer. Nothing was lost. Try again.")

    monkeypatch.setattr(Workbench, "question_sets", down)
    app.run()
    assert [error.value.replace("\\", "") for error in app.error] == [
        "The database does not answer. Nothing was lost. Try again."
    ]
    assert not app.exception

    def broken(_: Workbench) -> None:
        raise RuntimeError("a secret of the document")

    monkeypatch.setattr(Workbench, "question_sets", broken)
    app.run()
    assert len(app.error) == 1
    assert app.error[0].value.startswith("Something went wrong in Chunkscope.")
    assert "secret" not in words(app)
    assert not app.exception
    caplog.clear()


def test_a_link_opens_the_answers_in_another_session(open_page: Open, law: str) -> None:
    first = ask(open_page("ask"), QUESTION)
    again = open_page("ask", request=first.query_params["request"])
    assert QUESTION in words(again)
    assert "In the document" in words(again)


def test_a_link_to_nothing_says_so(open_page: Open, law: str) -> None:
    assert "not in this installation" in words(open_page("ask", request="0" * 32))


def test_an_empty_question_is_refused_in_words(open_page: Open, law: str) -> None:
    app = ask(open_page("ask"), "  ")
    assert "The question is empty" in app.error[0].value.replace("\\", "")


def test_a_strategy_without_its_model_fails_alone(open_page: Open, law: str) -> None:
    app = ask(open_page("ask", {"ask.strategies": ["recursive", "contextual_retrieval"]}), QUESTION)
    assert len(app.error) == 1
    assert "1 of 2 strategies failed" in words(app)
    assert "extractive, no LLM" in words(app)


def test_other_strategies_make_the_answers_stale(open_page: Open, law: str) -> None:
    app = ask(open_page("ask"), QUESTION)
    app.pills(key="ask.strategies").set_value(["sentence"]).run()
    assert "Ask again for the strategies chosen now" in words(app)


def test_a_hit_opens_in_the_document(open_page: Open, law: str, workbench: Workbench) -> None:
    app = ask(open_page("ask"), QUESTION)
    query = stored(app, workbench)[0]
    app.button(key=f"hit.{query.query_id}.1").click().run()
    assert not app.exception
    assert app.session_state[answers.PLACE][:2] == (query.query_id, law)
    assert "The passage is underlined" in words(app)
    assert not app.error


def test_a_rating_is_stored(open_page: Open, law: str, workbench: Workbench) -> None:
    app = ask(open_page("ask"), QUESTION)
    query = stored(app, workbench)[0]
    app.slider(key=f"rate.{query.query_id}.score").set_value(9)
    app.radio(key=f"rate.{query.query_id}.faithful").set_value("yes")
    app.button(key=f"rate.{query.query_id}.save").click().run()
    rated = workbench.query(query.query_id)
    assert (rated.rating, rated.rated_faithful) == (9, True)


def test_a_question_is_taken_from_a_set(open_page: Open, law: str, workbench: Workbench) -> None:
    app = open_page("ask")
    question = workbench.question_set(workbench.question_sets()[0].question_set_id).questions[0]
    app.selectbox(key="ask.suggestion").set_value(question.question_id).run()
    assert app.text_input(key="ask.question").value == question.question
