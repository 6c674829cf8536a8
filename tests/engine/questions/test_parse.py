from __future__ import annotations

import json

import pytest

from engine.errors import BadQuestionSet
from engine.models import Span
from engine.questions import load, parse_rows

FULL = {
    "id": "q1",
    "question": "Who decides?",
    "answer": "The board.",
    "evidence": ["The board decides.", {"quote": "It meets monthly.", "start": 20, "end": 37, "document": "b.docx"}],
    "document": "a.docx",
    "tags": ["board", "decision"],
    "answerable": True,
    "every_copy": True,
}


def test_json_with_questions_and_answers_only() -> None:
    loaded = load(b'[{"question": "Why?", "answer": "Because."}]', "set.json")
    assert loaded.name == "set.json"
    (question,) = loaded.questions
    assert (question.question, question.answer, question.evidence) == ("Why?", "Because.", ())
    assert question.answerable
    assert question.reviewed


def test_every_field_in_json_and_json_lines() -> None:
    for data, name in (
        (json.dumps([FULL]), "set.json"),
        (json.dumps(FULL) + "\n\n", "set.jsonl"),
        (json.dumps([FULL]), "x"),
    ):
        (question,) = load(data.encode(), name).questions
        assert question.question_id == "q1"
        assert [item.document for item in question.evidence] == ["a.docx", "b.docx"]
        assert question.evidence[1].offsets == Span(20, 37)
        assert question.tags == ("board", "decision")
        assert question.every_copy


def test_a_named_set_is_an_object_with_questions() -> None:
    assert load(b'{"name": "Board rules", "questions": [{"question": "Why?"}]}', "set.json").name == "Board rules"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_with_quotes_line_breaks_and_several_quotes(delimiter: str) -> None:
    evidence = json.dumps(["One.", "Two."]).replace('"', '""')
    header = delimiter.join(["Question", "answer", "evidence", "tags", "answerable"])
    row = delimiter.join(['"Who, when;\nwhere?"', '"He said ""no""."', f'"{evidence}"', '"a, b"', "no"])
    loaded = load(f"\ufeff{header}\r\n{row}\r\n\r\n".encode(), "set.csv")
    (question,) = loaded.questions
    assert question.question == "Who, when;\nwhere?"
    assert question.answer == 'He said "no".'
    assert [item.quote for item in question.evidence] == ["One.", "Two."]
    assert question.tags == ("a", "b")
    assert not question.answerable


def test_ids_come_from_the_content_and_not_from_the_place() -> None:
    one, two = {"question": "One?"}, {"question": "Two?"}
    first = {q.question: q.question_id for q in parse_rows([one, two], "s").questions}
    second = {q.question: q.question_id for q in parse_rows([two, one], "s").questions}
    assert first == second
    twice = parse_rows([one, one], "s").questions
    assert twice[0].question_id != twice[1].question_id


def test_the_same_file_gives_the_same_set_id() -> None:
    assert (
        load(b'[{"question": "Why?"}]', "a.json").question_set_id
        == load(b'[{"question": "Why?"}]', "a.json").question_set_id
    )
    assert (
        load(b'[{"question": "Why?"}]', "a.json").question_set_id
        != load(b'[{"question": "How?"}]', "a.json").question_set_id
    )


def test_csv_as_spreadsheets_write_it() -> None:
    old_mac = load(b"question;answer\rA, b, c, or d?;=1+1\r", "set.csv").questions[0]
    assert (old_mac.question, old_mac.answer) == ("A, b, c, or d?", "=1+1")


def test_a_set_name_that_cannot_be_stored_is_mended() -> None:
    named = load(b'{"name": "Rules \\ud800", "questions": [{"question": "Why?"}]}', "set.json")
    assert named.name == "Rules \ufffd"
    assert named.model_dump_json()


@pytest.mark.parametrize(
    ("data", "name", "words"),
    [
        (b"", "set.json", ["set.json is empty"]),
        (b"  \n", "set.csv", ["is empty"]),
        (b"[]", "set.json", ["holds no questions"]),
        (b"question,answer\n", "set.csv", ["holds no questions"]),
        (b"{", "set.json", ["not valid JSON", "line 1"]),
        (b'{"a": 1}', "set.json", ["neither an array"]),
        (b'[{"answer": "x"}]', "set.json", ["row 1", "`question`", "missing"]),
        (b'[{"question": "a?"}, {"question": " "}]', "set.json", ["row 2", "`question`"]),
        (b'[{"question": ["a"]}]', "set.json", ["row 1", "`question`", "a list"]),
        (b'["a?"]', "set.json", ["row 1", "text"]),
        (b'[{"question": "a?", "anwser": "x"}]', "set.json", ["row 1", "`anwser`", "unknown field", "answerable"]),
        (b'[{"question": "a?", "answerable": "maybe"}]', "set.json", ["`answerable`", "true or false"]),
        (b'[{"question": "a?", "tags": 5}]', "set.json", ["`tags`", "list of words"]),
        (b'[{"question": "a?", "evidence": [""]}]', "set.json", ["`evidence 1`", "empty"]),
        (
            b'[{"question": "a?", "evidence": {"start": 5, "end": 5}}]',
            "set.json",
            ["`evidence 1`", "start 5 and end 5"],
        ),
        (b'[{"question": "a?", "evidence": {"start": 5}}]', "set.json", ["`evidence 1`", "whole numbers"]),
        (b'[{"question": "a?", "evidence": {"text": "x"}}]', "set.json", ["`evidence 1`", "`text`"]),
        (b'[{"question": "a?", "evidence": 7}]', "set.json", ["`evidence 1`", "a number"]),
        (
            b'[{"question": "a?", "id": "x"}, {"question": "b?", "id": "x"}]',
            "set.json",
            ["row 2", "`id`", "used twice"],
        ),
        (b'{"question": "a?"}\nnot json\n', "set.jsonl", ["line 2"]),
        (b"question,answer\na?,b,c\n", "set.csv", ["row 2", "3 cells"]),
        (b"\nquestion,answer\na?,b\n\n,\nb?,c\n,c\n", "set.csv", ["row 7", "`question`", "missing"]),
        (b"question,id\na?,x\nb?,x\n", "set.csv", ["row 3", "`id`", "used twice"]),
        (b'question\n"a?\n', "set.csv", ["not valid CSV"]),
        (b'[{"question": "a\\ud800?"}]', "set.json", ["row 1", "`question`", "broken character"]),
        (b'[{"question": "a?", "evidence": ["b\\u0000"]}]', "set.json", ["row 1", "`evidence 1`", "broken character"]),
        (b"\xff\xfa\x00", "set.csv", ["not UTF-8"]),
        (b"[" * 100_000, "set.json", ["not valid JSON"]),
        (b'[{"question": ' + b"9" * 5000 + b"}]", "set.json", ["not valid JSON"]),
        (b'{"question": ' + b"9" * 5000 + b"}", "set.jsonl", ["line 1"]),
        (b'[{"question": "a?",}]', "set.json", ["not valid JSON", "line 1"]),
        (b'[{"question": "a?", "question": "b?"}]', "set.json", ["`question`", "twice"]),
        (b"question,question\na?,b?\n", "set.csv", ["`question`", "twice"]),
        (b",,\n", "set.csv", ["no header"]),
        (b"\xef\xbb\xbf", "set.csv", ["no header"]),
        (b'[{"question": Infinity}]', "set.json", ["`question`", "a number"]),
        (b'[{"question": "' + b"a" * 20_001 + b'"}]', "set.json", ["`question`", "20,001 characters"]),
        (b'[{"question": "a?", "tags": ["\\ud800"]}]', "set.json", ["`tags`", "broken character"]),
        (b'[{"question": "a?", "document": "\\ud800", "evidence": "b"}]', "set.json", ["broken character"]),
        (b'[{"question": "a?", "evidence": {"quote": "b", "document": "\\ud800"}}]', "set.json", ["broken character"]),
        (b'[{"question": "a?", "\\ud800' + b"x" * 500 + b'": 1}]', "set.json", ["`\ufffdx", "x\u2026`"]),
    ],
)
def test_what_is_wrong_is_said_with_row_and_field(data: bytes, name: str, words: list[str]) -> None:
    with pytest.raises(BadQuestionSet) as caught:
        load(data, name)
    for word in words:
        assert word in caught.value.message


def test_rows_of_a_data_editor_may_hold_nothing_in_optional_fields() -> None:
    nan = float("nan")
    rows = [{"question": "Why?", "answer": nan, "evidence": nan, "answerable": None, "tags": nan, "document": nan}]
    (question,) = parse_rows(rows, "edited").questions
    assert (question.answer, question.evidence, question.answerable) == (None, (), True)
