"""Reading a question set from JSON, JSON Lines, CSV or the rows of a data editor. Evidence is not looked up here."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

from engine import ids
from engine.errors import BadQuestionSet
from engine.models import Span
from engine.records import Evidence, Question, QuestionSet

MAX_QUESTIONS = 20_000
MAX_CHARACTERS = 20_000
"""Longest question or answer. A quote may be as long as a document."""

FIELDS = {
    "question": "the question, in words",
    "answer": "the expected answer",
    "evidence": "one quote, a list of quotes, or a list of {quote, start, end, document}",
    "document": "name or id of the document the evidence stands in",
    "tags": "a list of words, or words separated by commas",
    "answerable": "true or false",
    "every_copy": "true or false: whether every copy of a repeated quote counts",
    "id": "your own id of the question",
}
"""Every field a question may have, and what it holds. Only `question` is required."""

_EVIDENCE_FIELDS = ("quote", "start", "end", "document")
_TRUE = {"true", "yes", "1", "y"}
_FALSE = {"false", "no", "0", "n"}
_BROKEN = re.compile("[\\x00\\ud800-\\udfff]")
"""Characters that cannot be stored: halves of surrogate pairs, and the null character."""
_SHOWN = 60
"""Characters of a file's own words that an error repeats."""


def load(data: bytes, name: str) -> QuestionSet:
    """The question set in a file. The format follows the name's ending, or the content where the ending says nothing.

    Raises BadQuestionSet that names the row and the field.
    """
    text = _decoded(data, name)
    ending = name.rsplit(".", 1)[-1].lower()
    if ending in ("jsonl", "ndjson"):
        return parse_rows(_json_lines(text, name), name)
    if ending == "csv":
        return _parsed(_csv_rows(text, name), name)
    if ending == "json" or text.lstrip()[:1] in ("[", "{"):
        title, rows = _json_rows(text, name)
        return parse_rows(rows, title)
    return _parsed(_csv_rows(text, name), name)


def parse_rows(rows: Sequence[Any], name: str) -> QuestionSet:
    """A question set from rows with the fields of `FIELDS`. Row numbers in errors count from 1. Raises BadQuestionSet."""
    return _parsed(dict(enumerate(rows, start=1)), name)


def _parsed(rows: Mapping[int, Any], name: str) -> QuestionSet:
    """`rows`: by the numbers that errors name them by."""
    if not rows:
        raise BadQuestionSet(
            f"{name} holds no questions. Nothing was stored. Add at least one with the field `question`."
        )
    name = _BROKEN.sub("\ufffd", name)
    if len(rows) > MAX_QUESTIONS:
        raise BadQuestionSet(
            f"{name} holds {len(rows):,} questions, more than the {MAX_QUESTIONS:,} allowed. Nothing was stored. Split the file."
        )
    questions = [_question(row, number, name) for number, row in rows.items()]
    questions = _with_ids(dict(zip(rows, questions, strict=True)), name)
    content = [question.model_dump(mode="json") for question in questions]
    set_id = ids.digest("question set", name, ids.canonical_json(content))
    return QuestionSet(question_set_id=set_id, name=name, questions=tuple(questions), created_at=datetime.now(UTC))


def _decoded(data: bytes, name: str) -> str:
    if not data.strip():
        raise BadQuestionSet(
            f"{name} is empty. Nothing was stored. Upload a JSON, JSON Lines or CSV file with questions."
        )
    for encoding in ("utf-8-sig", "utf-16") if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig",):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise BadQuestionSet(f"{name} is not UTF-8 text. Nothing was stored. Save it as UTF-8 and upload it again.")


def _json_rows(text: str, name: str) -> tuple[str, Sequence[Any]]:
    """The name and the rows of a JSON file: an array, or an object with `questions` and perhaps `name`."""
    try:
        content = _from_json(text)
    except (ValueError, RecursionError) as error:
        place = f" in line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else ""
        place = f": {error}" if isinstance(error, _RepeatedKey) else place
        raise BadQuestionSet(
            f"{name} is not valid JSON{place}. Nothing was stored. Correct it and upload it again."
        ) from None
    if isinstance(content, dict) and isinstance(content.get("questions"), list):
        title = content.get("name")
        return (title if isinstance(title, str) and title.strip() else name), content["questions"]
    if isinstance(content, list):
        return name, content
    raise BadQuestionSet(
        f"{name} is JSON, but neither an array of questions nor an object with `questions`. Nothing was stored."
    )


class _RepeatedKey(ValueError):
    """An object says one thing twice, and only one of them could be kept."""


def _from_json(text: str) -> Any:
    """Raises ValueError for what is not JSON, or is a number too long to be one, and for a key that stands in one object twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            key = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
            raise _RepeatedKey(f"the key `{_shown(key)}` stands in one object twice")
        return found

    return json.loads(text, object_pairs_hook=once)


def _shown(text: str) -> str:
    """The beginning of a file's own words, as an error may repeat them."""
    text = _BROKEN.sub("\ufffd", text)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _json_lines(text: str, name: str) -> list[Any]:
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(_from_json(line))
        except (ValueError, RecursionError):
            raise BadQuestionSet(
                f"{name}, line {number} is not valid JSON. Nothing was stored. Correct that line."
            ) from None
    return rows


def _csv_rows(text: str, name: str) -> dict[int, dict[str, Any]]:
    """Rows of a CSV file with a header line; comma, semicolon or tab, whichever the header uses. Empty cells are absent fields.

    By the numbers a spreadsheet gives them: the header is row 1, and blank rows count.
    """
    header = re.split(r"[\r\n]", text.lstrip("\r\n"), maxsplit=1)[0]
    delimiter = max(",;\t", key=header.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        lines = [(number, line) for number, line in enumerate(reader, start=1) if any(cell.strip() for cell in line)]
    except csv.Error as error:
        raise BadQuestionSet(
            f"{name} is not valid CSV, near line {reader.line_num}: {error}. Nothing was stored."
        ) from None
    if not lines:
        raise BadQuestionSet(f"{name} has no header line and no questions. Nothing was stored.")
    fields = [cell.strip().lower() for cell in lines[0][1]]
    twice = sorted(field for field, count in Counter(fields).items() if field and count > 1)
    if twice:
        raise BadQuestionSet(
            f"{name} has the column `{_shown(twice[0])}` twice. Nothing was stored. Remove one of them."
        )
    rows = {}
    for number, line in lines[1:]:
        if len(line) > len(fields):
            raise BadQuestionSet(
                f"{name}, row {number} has {len(line)} cells and the header {len(fields)}. Nothing was stored. Quote cells that contain '{delimiter}'."
            )
        cells = dict(zip(fields, line, strict=False))
        rows[number] = {field: _cell(field, cell) for field, cell in cells.items() if field and cell.strip()}
    return rows


def _cell(field: str, cell: str) -> Any:
    """A CSV cell; lists and objects in `evidence` and `tags` may be written as JSON."""
    if field in ("evidence", "tags") and cell.lstrip()[:1] in ("[", "{"):
        try:
            return _from_json(cell)
        except (ValueError, RecursionError):
            return cell
    return cell


class _Row:
    """One row being read; knows how to complain about a field."""

    def __init__(self, row: Mapping[str, Any], number: int, name: str) -> None:
        self.row, self.number, self.name = row, number, name

    def refuse(self, field: str, problem: str) -> NoReturn:
        raise BadQuestionSet(f"{self.name}, row {self.number}, field `{_shown(field)}`: {problem}. Nothing was stored.")

    def value(self, field: str) -> Any:
        """What the row holds; None where it holds nothing, which the rows of a data editor write as NaN."""
        value = self.row.get(field)
        return None if isinstance(value, float) and math.isnan(value) else value

    def text(self, field: str, longest: int = MAX_CHARACTERS) -> str | None:
        value = self.value(field)
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        if isinstance(value, bool) or not isinstance(value, str | int | float) or value in (math.inf, -math.inf):
            self.refuse(field, f"expected text, found {_kind(value)}")
        text = self.whole(field, str(value).strip())
        if len(text) > longest:
            self.refuse(field, f"has {len(text):,} characters, more than the {longest:,} allowed")
        return text

    def whole(self, field: str, text: str) -> str:
        """The text, unless it holds characters that cannot be stored."""
        if _BROKEN.search(text):
            self.refuse(field, "holds a broken character (half a surrogate pair, or null)")
        return text

    def flag(self, field: str, default: bool) -> bool:
        value = self.value(field)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        word = str(value).strip().lower()
        if word not in _TRUE | _FALSE:
            self.refuse(field, "expected true or false")
        return word in _TRUE

    def tags(self) -> tuple[str, ...]:
        value = self.value("tags")
        if value is None:
            return ()
        if isinstance(value, str):
            value = value.replace(";", ",").split(",")
        if not isinstance(value, list | tuple) or not all(isinstance(tag, str) for tag in value):
            self.refuse("tags", f"expected a list of words, found {_kind(value)}")
        return tuple(dict.fromkeys(self.whole("tags", tag.strip()) for tag in value if tag.strip()))

    def evidence(self) -> tuple[Evidence, ...]:
        value = self.value("evidence")
        if value is None or value == "" or value == []:
            return ()
        items = list(value) if isinstance(value, list | tuple) else [value]
        return tuple(self._evidence(item, number) for number, item in enumerate(items, start=1))

    def _evidence(self, item: Any, number: int) -> Evidence:
        field = f"evidence {number}"
        document = self.text("document")
        if isinstance(item, str):
            if not item.strip():
                self.refuse(field, "the quote is empty")
            return Evidence(quote=self.whole(field, item.strip()), document=document)
        if not isinstance(item, Mapping):
            self.refuse(field, f"expected a quote or an object, found {_kind(item)}")
        unknown = sorted(str(key) for key in item if key not in _EVIDENCE_FIELDS)
        if unknown:
            self.refuse(field, f"unknown key `{_shown(unknown[0])}`; allowed are {', '.join(_EVIDENCE_FIELDS)}")
        quote, named = item.get("quote") or "", item.get("document") or document
        if not isinstance(quote, str) or not isinstance(named, str | None):
            self.refuse(field, "`quote` and `document` must be text")
        start, end = item.get("start"), item.get("end")
        named = None if named is None else self.whole(field, named)
        offsets = None
        if start is not None or end is not None:
            if type(start) is not int or type(end) is not int:
                self.refuse(field, "`start` and `end` must both be whole numbers")
            if not 0 <= start < end:
                self.refuse(field, f"start {start} and end {end} do not describe a passage")
            offsets = Span(start, end)
        if not quote.strip() and offsets is None:
            self.refuse(field, "neither a quote nor start and end")
        quote = self.whole(field, quote.strip() if offsets is None else quote)
        return Evidence(quote=quote, document=named, offsets=offsets)


def _question(row: Any, number: int, name: str) -> Question:
    if not isinstance(row, Mapping):
        raise BadQuestionSet(
            f"{name}, row {number} is {_kind(row)}, not an object with the field `question`. Nothing was stored."
        )
    reader = _Row(row, number, name)
    unknown = sorted(str(field) for field in row if field not in FIELDS)
    if unknown:
        reader.refuse(unknown[0], f"unknown field; allowed are {', '.join(FIELDS)}")
    question = reader.text("question")
    if question is None:
        reader.refuse("question", "missing or empty")
    return Question(
        question_id=reader.text("id", longest=200) or "",
        question=question,
        answer=reader.text("answer"),
        evidence=reader.evidence(),
        answerable=reader.flag("answerable", True),
        every_copy=reader.flag("every_copy", False),
        tags=reader.tags(),
    )


def question_id(question: Question) -> str:
    """An id made of the question, its answer and its quotes: the same in every set and at every place."""
    quotes = [[item.quote, item.document, item.offsets] for item in question.evidence]
    return ids.digest("question", question.question, question.answer or "", ids.canonical_json(quotes))[:16]


def _with_ids(questions: Mapping[int, Question], name: str) -> list[Question]:
    """Questions without an id get one from their content, so it is the same whatever their order; the n-th equal one is told apart by n."""
    seen: Counter[str] = Counter()
    completed = []
    for number, question in questions.items():
        if question.question_id:
            if seen[question.question_id]:
                raise BadQuestionSet(
                    f"{name}, row {number}, field `id`: {_shown(question.question_id)!r} is used twice. Nothing was stored."
                )
            seen[question.question_id] += 1
            completed.append(question)
            continue
        key = question_id(question)
        copy = seen[key]
        seen[key] += 1
        completed.append(question.model_copy(update={"question_id": key if copy == 0 else f"{key}-{copy + 1}"}))
    return completed


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", bool: "true or false", int: "a number", float: "a number", str: "text"}
    return "nothing" if value is None else names.get(type(value), "something else")
