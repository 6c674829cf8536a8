"""A question set as rows that a person edits in a table, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.questions.parse import FIELDS, parse_rows
from engine.records import Evidence, Question, QuestionSet

EDITED = ("question", "answer", "evidence", "document", "answerable", "every_copy", "tags", "reviewed", "id")
"""Columns of a row, in order: the fields of a file and whether a person has accepted a drafted question."""


def rows(question_set: QuestionSet) -> list[dict[str, Any]]:
    """One row per question with the columns of `EDITED`; `evidence` is the list of quotes."""
    return [
        {
            "question": question.question,
            "answer": question.answer,
            "evidence": [item.quote for item in question.evidence],
            "document": next((item.document for item in question.evidence if item.document), None),
            "answerable": question.answerable,
            "every_copy": question.every_copy,
            "tags": list(question.tags),
            "reviewed": question.reviewed,
            "id": question.question_id,
        }
        for question in question_set.questions
    ]


def edited(before: QuestionSet, changed: Sequence[Mapping[str, Any]], name: str | None = None) -> QuestionSet:
    """The set that changed rows make, with a new id where anything changed. Evidence is to be looked up again.

    What a table cannot show is kept by question id: offsets, the document of each quote, the chosen copy, and that a question was drafted.
    Raises BadQuestionSet that names row and field.
    """
    known = {question.question_id: question for question in before.questions}
    read = [{field: row[field] for field in FIELDS if row.get(field) is not None} for row in changed]
    parsed = parse_rows(read, name or before.name)
    questions = tuple(
        _completed(question, known.get(question.question_id), bool(row.get("reviewed", True)))
        for question, row in zip(parsed.questions, changed, strict=True)
    )
    return parsed.model_copy(update={"questions": questions})


def _completed(question: Question, before: Question | None, reviewed: bool) -> Question:
    if before is None:
        return question
    quotes = {item.quote: item for item in before.evidence}
    evidence = tuple(_kept(item, quotes.get(item.quote)) for item in question.evidence)
    return question.model_copy(update={"evidence": evidence, "origin": before.origin, "reviewed": reviewed})


def _kept(item: Evidence, before: Evidence | None) -> Evidence:
    return item if before is None or (item.document and before.document != item.document) else before
