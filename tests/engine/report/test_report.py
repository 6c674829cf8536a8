"""What leaves Chunkscope as a file: complete, escaped, readable without anything else."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pyarrow.parquet as parquet
import pytest

from engine import Workbench
from engine.errors import BadRequest
from engine.records import Experiment
from engine.report import FORMATS, SCHEMA_VERSION, from_json, tables
from engine.report.questions import Part, questions
from engine.report.view import number, view
from tests.engine.bench.examples import METRIC, experiment

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)> =1+1"
LAW = f"""# Fees {EVIL}

## Article 1

The annual fee is 300 euros. It is due on 1 May.

## Article 2

=HYPERLINK("evil") A late fee of 45 euros is charged after 30 days.
"""
QUESTIONS = (
    b'[{"question": "How high is the annual fee?", "answer": "-300 euros", "evidence": ["The annual fee is 300 euros."]},'
    b'{"question": "=1+1 <b>Who</b> appoints the auditor?", "answerable": false}]'
)


@pytest.fixture
def workbench() -> Iterator[Workbench]:
    with Workbench.open() as opened:
        yield opened


@pytest.fixture
def stored(workbench: Workbench) -> Experiment:
    workbench.add_document(LAW.encode(), f"{EVIL[:40]}.md")
    question_set = workbench.add_question_set(QUESTIONS, "questions.json")
    specs = [workbench.spec("sentence", {"sentences": 1, "overlap": 0}), workbench.spec("propositions")]
    plan = workbench.plan(question_set.question_set_id, specs, name=f"Fees {EVIL}")
    return workbench.benchmark(plan)


class Page(HTMLParser):
    """Tags, addresses and marked text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.marked: list[str] = []
        self._marks = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [
            f"{name}={value}" for name, value in attrs if name in ("src", "href", "action") or name.startswith("on")
        ]
        self._marks = tag == "mark"

    def handle_data(self, data: str) -> None:
        if self._marks:
            self.marked.append(data)
        self._marks = False


def test_the_report_is_one_page_without_script_or_address_and_everything_in_it_is_escaped(
    workbench: Workbench, stored: Experiment
) -> None:
    exported = workbench.export(stored.experiment_id)
    text = exported.data.decode()
    page = Page(text)
    assert exported.name.endswith(".html")
    assert exported.media_type == "text/html; charset=utf-8"
    assert page.tags.isdisjoint({"script", "img", "link", "iframe", "object", "form"})
    assert page.addresses == []
    assert not re.search(r"https?://|url\(", text)
    assert "svg" in page.tags
    assert page.marked == ["The annual fee is 300 euros."]
    for shown in (
        "Nothing can be recommended",
        "propositions 512",
        "needs a chat model",
        "Delivered recall at equal token budgets",
        "How high is the annual fee?",
    ):
        assert shown in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_a_deleted_document_leaves_the_report_as_it_was(workbench: Workbench, stored: Experiment) -> None:
    before = workbench.export(stored.experiment_id).data
    workbench.delete_document(stored.documents[0].document_id)
    assert workbench.export(stored.experiment_id).data == before


def test_json_is_the_whole_experiment_under_a_version(workbench: Workbench, stored: Experiment) -> None:
    data = workbench.export(stored.experiment_id, "json").data
    assert from_json(data) == stored
    with pytest.raises(BadRequest, match=f"version {SCHEMA_VERSION + 1} of the format"):
        from_json(data.replace(b'"schema_version": 1', b'"schema_version": 2', 1))
    with pytest.raises(BadRequest, match="not an experiment"):
        from_json(b"[]")


def test_csv_has_a_row_per_question_and_nothing_runs_in_a_spreadsheet(workbench: Workbench, stored: Experiment) -> None:
    data = workbench.export(stored.experiment_id, "csv").data
    rows = list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"))))
    assert [row["question"] for row in rows] == [
        "How high is the annual fee?",
        "'=1+1 <b>Who</b> appoints the auditor?",
    ]
    assert rows[0]["expected"] == "'-300 euros"
    assert float(rows[0][METRIC]) == 1.0
    assert rows[1][METRIC] == ""
    assert all(not value.startswith(("=", "+", "-", "@")) for row in rows for value in row.values())


def test_strategies_come_as_rows_with_their_failures(workbench: Workbench, stored: Experiment) -> None:
    data = workbench.export(stored.experiment_id, "strategies.csv").data
    rows = {row["strategy"]: row for row in csv.DictReader(io.StringIO(data.decode("utf-8-sig")))}
    assert rows["propositions 512"]["status"] == "failed"
    assert "needs a chat model" in rows["propositions 512"]["error"]
    own = rows[stored.results[0].spec.label]
    assert float(own["cut.coverage"]) == 1.0
    assert float(own["seconds.retrieve_p50"]) > 0
    assert (own[METRIC], own[f"{METRIC}.n"]) == ("1.0", "1")


def test_parquet_keeps_types_and_texts(workbench: Workbench, stored: Experiment) -> None:
    data = workbench.export(stored.experiment_id, "parquet").data
    table = parquet.read_table(io.BytesIO(data)).to_pydict()
    assert table["question"][1] == "=1+1 <b>Who</b> appoints the auditor?"
    assert table[METRIC] == [1.0, None]
    assert table["repeat"] == [0, 0]


def test_an_unknown_export_is_refused_in_words(workbench: Workbench, stored: Experiment) -> None:
    with pytest.raises(BadRequest, match="html, json, csv, parquet"):
        workbench.export(stored.experiment_id, "docx")
    assert set(FORMATS) == {"html", "json", "csv", "parquet", "strategies.csv", "strategies.parquet"}


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+49 30", "'+49 30"),
        ("-5 percent", "'-5 percent"),
        ("@name", "'@name"),
        ("\t=1", "'\t=1"),
        (" =1", "' =1"),
        ("a = b", "a = b"),
        (-0.5, -0.5),
        (None, ""),
        (True, True),
    ],
)
def test_cells_that_a_spreadsheet_would_run_get_an_apostrophe(value: tables.Cell, cell: tables.Cell) -> None:
    assert tables.safe(value) == cell


def test_the_view_says_what_was_not_scored_and_marks_the_proposal() -> None:
    found = experiment("one", {"sentence": [0.5] * 40, "paragraph": [1.0] * 39 + [None]})
    seen = view(found)
    assert seen.metric == METRIC
    rows = {row.label: row for row in seen.strategies.rows}
    assert rows["sentence 1"].cells[:3] == ("0.500", "40", "baseline")
    assert rows["paragraph 1"].cells[:3] == ("1.000", "39", "+0.500 (+0.500 to +0.500, p 0.000)")
    assert [label for label, row in rows.items() if row.marked] == ["paragraph 1"]
    (unscored,) = seen.unscored.rows
    assert (unscored.label, unscored.cells) == ("paragraph 1", ("Recall at 1,000 tokens", "39 scored", "1 failed"))
    assert seen.charts["differences"][0]["verdict"] == "better"


def test_a_run_that_was_stopped_says_so_and_how_much_it_rests_on() -> None:
    whole = experiment("one", {"sentence": [0.5, 1.0], "paragraph": [0.5, 0.0]})
    stopped = whole.model_copy(
        update={
            "status": "cancelled",
            "error": "The run stopped at its budget.",
            "statistics": None,
            "cells": whole.cells[:3],
        }
    )
    seen = view(stopped)
    assert (seen.status, seen.error) == ("cancelled", "The run stopped at its budget.")
    partial = "Partial, resting on 1 of 2 questions, as only 3 of 4 answers are there: Too few questions"
    assert seen.recommendation.startswith(partial)
    assert view(whole).recommendation.startswith("Too few questions")
    empty = view(stopped.model_copy(update={"cells": ()}))
    assert empty.recommendation == "This run ended before its first answer, so nothing is concluded."


def test_the_excerpt_stands_around_the_evidence(workbench: Workbench, stored: Experiment) -> None:
    def cell(spec_id: str, question_id: str):  # type: ignore[no-untyped-def]
        return workbench.cell(stored.experiment_id, spec_id, question_id)

    first, second = questions(stored, METRIC, cell)
    found = first.found[0]
    assert found.rank == "evidence first in hit 1"
    assert found.lies.startswith("chunk ")
    assert found.excerpt is not None
    assert Part("The annual fee is 300 euros.", True) in found.excerpt.parts
    assert second.answerable is False
    assert second.found[0].rank == ""
    assert second.found[0].excerpt is not None
    assert not any(part.is_evidence for part in second.found[0].excerpt.parts)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0.0, "0.000"),
        (0.12345, "0.123"),
        (12.345, "12.35"),
        (1234.5, "1,234"),
        (0.0001, "1.0e-04"),
    ],
)
def test_numbers_have_the_digits_that_count(value: float | None, text: str) -> None:
    assert number(value) == text
