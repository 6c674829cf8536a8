"""A question set edited as rows."""

from __future__ import annotations

import pytest

from engine.errors import BadQuestionSet
from engine.models import Span
from engine.questions import parse_rows
from engine.questions.edit import EDITED, edited, rows
from engine.records import QuestionSet


@pytest.fixture
def two() -> QuestionSet:
    return parse_rows(
        [
            {"id": "fee", "question": "How high is the fee?", "answer": "300", "evidence": ["The fee is 300."]},
            {"id": "due", "question": "When is it due?", "evidence": [{"quote": "in May", "start": 3, "end": 9}]},
        ],
        "fees",
    )


def test_rows_that_nobody_changed_give_the_same_questions(two: QuestionSet) -> None:
    assert [tuple(row) for row in rows(two)] == [EDITED, EDITED]
    assert edited(two, rows(two)).questions == two.questions


def test_a_changed_quote_is_new_and_an_untouched_one_keeps_its_offsets(two: QuestionSet) -> None:
    changed = rows(two)
    changed[0]["evidence"] = ["The fee is 301."]
    after = edited(two, changed)
    assert after.questions[0].evidence[0].quote == "The fee is 301."
    assert after.questions[1].evidence[0].offsets == Span(3, 9)
    assert after.question_set_id != two.question_set_id


def test_rows_may_be_added_and_removed(two: QuestionSet) -> None:
    added = dict.fromkeys(EDITED) | {"question": "Who pays?"}
    after = edited(two, [rows(two)[1], added], "fees 2")
    assert [question.question for question in after.questions] == ["When is it due?", "Who pays?"]
    assert after.name == "fees 2"


def test_a_drafted_question_is_accepted_in_its_row(two: QuestionSet) -> None:
    first = two.questions[0].model_copy(update={"origin": "drafted", "reviewed": False})
    drafted = two.model_copy(update={"questions": (first, two.questions[1])})
    changed = rows(drafted)
    changed[0]["reviewed"] = True
    assert (edited(drafted, changed).questions[0].origin, edited(drafted, changed).questions[0].reviewed) == (
        "drafted",
        True,
    )


def test_an_empty_question_is_refused_by_row(two: QuestionSet) -> None:
    changed = rows(two)
    changed[1]["question"] = "  "
    with pytest.raises(BadQuestionSet, match="row 2"):
        edited(two, changed)
