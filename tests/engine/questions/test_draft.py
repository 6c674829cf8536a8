from __future__ import annotations

import pytest

from engine.models import Node, NodeKind, Span
from engine.questions import draft
from engine.questions.draft import drafts
from tests.engine.metrics.examples import document


def made(text: str) -> list[tuple[str, str]]:
    return [(found.question, found.answer) for found in drafts(document(text))]


@pytest.mark.parametrize(
    ("text", "question", "answer"),
    [
        (
            "(3) ‘incident’ means an event that harms a service;",
            "What does “incident” mean?",
            "an event that harms a service",
        ),
        (
            "The operator shall notify the Authority within 30 days.",
            "Within what time must the operator notify the Authority?",
            "within 30 days",
        ),
        (
            "(2) Quarterly returns shall be submitted no later than ten working days after the quarter.",
            "Within what time must quarterly returns be submitted?",
            "no later than ten working days",
        ),
        (
            "3.2 Records shall be kept for at least five years.",
            "How long must records be kept?",
            "for at least five years",
        ),
        (
            "The Bank must publish the list by 31 March of each year.",
            "By which date must the Bank publish the list?",
            "by 31 March",
        ),
        ("The fine shall not exceed EUR 500 000 in any case.", "The fine must not exceed which amount?", "EUR 500 000"),
        (
            "Own funds shall not fall below 8 % of total exposure.",
            "Own funds must not fall below which percentage of total exposure?",
            "8 % of total exposure",
        ),
    ],
)
def test_one_sentence_makes_one_question(text: str, question: str, answer: str) -> None:
    assert made(text) == [(question, answer)]


@pytest.mark.parametrize(
    "text",
    [
        "It shall be submitted within 30 days.",
        "For that purpose the operator shall report within 30 days.",
        "The operator shall keep a register and shall update it within 30 days.",
        "The operator is large.",
        "",
    ],
)
def test_sentences_no_rule_understands_make_none(text: str) -> None:
    assert made(text) == []


def test_a_table_row_asks_for_its_last_cell() -> None:
    text = "Fees\n\n| Class | Scope | Fee |\n|---|---|---|\n| A | large | 100 |\n| B | small | 20 |\n| B | tiny | 5 |\n"
    table = Node(kind=NodeKind.TABLE, span=Span(text.index("|"), len(text)))
    (found,) = drafts(document(text, table))
    assert (found.question, found.answer) == ("What is given as “Fee” for “A” in the table “Fees”?", "100")
    assert found.span.slice(text) == "| A | large | 100 |"


SAMPLE = (
    "‘Client’ means a person. ‘Bank’ means a company. The operator shall report within 30 days. "
    "The auditor shall answer within two weeks. The board shall meet within one month. Records shall be kept for five years. "
    "Returns shall be kept for two years.\n\nReturns shall be kept for three years.\n"
)


def test_drafted_questions_are_marked_and_resolved() -> None:
    questions = draft([document(SAMPLE)], 10)
    assert len(questions) == 6
    for question in questions:
        assert (question.origin, question.reviewed, question.tags[0]) == ("drafted", False, "drafted")
        (gold,) = question.gold
        assert gold.span.slice(SAMPLE) == question.evidence[0].quote
    assert not [question for question in questions if "returns" in question.question]


def test_the_same_seed_drafts_the_same_and_kinds_take_turns() -> None:
    one, again = draft([document(SAMPLE)], 4, seed=3), draft([document(SAMPLE)], 4, seed=3)
    assert one == again
    assert sorted(question.tags[1] for question in one) == ["deadline", "deadline", "definition", "definition"]
    assert draft([document(SAMPLE)], 0) == ()
    assert draft([], 5) == ()
