"""A whole benchmark against a server: what a repetition costs, and that the key is nowhere afterwards."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from engine import Workbench
from engine.cli import main
from engine.records import Experiment
from engine.settings import Settings
from tests.engine.providers.conftest import KEY
from tests.fake_openai import FakeOpenAI

LAW = """# Fees

## Article 1

The annual fee is 300 euros. It is due on 1 May.

## Article 2

A late fee of 45 euros is charged after 30 days.
"""
QUESTIONS: list[dict[str, Any]] = [
    {"question": "How high is the annual fee?", "answer": "300 euros", "evidence": ["The annual fee is 300 euros."]},
    {"question": "When is a late fee charged?", "answer": "after 30 days", "evidence": ["A late fee of 45 euros"]},
]
OTHER = {"question": "On which day is the fee due?", "answer": "1 May", "evidence": ["It is due on 1 May."]}


def run(workbench: Workbench, questions: list[dict[str, Any]]) -> Experiment:
    question_set = workbench.add_question_set(json.dumps(questions).encode(), "questions.json")
    specs = [workbench.spec("recursive"), workbench.spec("propositions")]
    experiment = workbench.benchmark(workbench.plan(question_set.question_set_id, specs))
    assert [result.status for result in experiment.results] == ["ok", "ok"]
    return experiment


def cost(experiment: Experiment) -> float:
    costs = [result.usage.cost_usd for result in experiment.results]
    return sum(amount for amount in costs if amount is not None)


def test_a_repeated_benchmark_is_free_and_the_key_is_nowhere(
    fake_openai: FakeOpenAI, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = Settings(openai_api_key=KEY, openai_base_url=fake_openai.url, data_dir=tmp_path / "marked")
    with Workbench.open(settings) as workbench:
        workbench.add_document(LAW.encode(), "law.md")
        first = run(workbench, QUESTIONS)
        assert cost(first) > 0
        before = dict(fake_openai.counters.calls)
        assert before["chat"] > 0
        assert before["embeddings"] > 0
        assert cost(run(workbench, QUESTIONS)) == 0
        assert dict(fake_openai.counters.calls) == before
        asked = {str(body["messages"]) for body in fake_openai.counters.answered_chats}
        run(workbench, [QUESTIONS[0], OTHER])
        later = fake_openai.counters.answered_chats[len(asked) :]
        # Only the changed question is asked, and judged, under each of the two specs.
        assert later
        assert all(OTHER["question"] in str(body["messages"]) for body in later)
        fake_openai.fault("unauthorized")
        workbench.ask("Who pays the fee?", [workbench.spec("recursive")])
        records = [workbench.experiment(info.experiment_id).model_dump_json() for info in workbench.experiments()]
        records += [query.model_dump_json() for query in workbench.queries()]
    assert fake_openai.counters.keys == {KEY}
    files = [file for file in (tmp_path / "marked").rglob("*") if file.is_file()]
    assert files
    for file in files:
        assert KEY.encode() not in file.read_bytes(), file.name
    everything = "\n".join([*records, caplog.text, *(repr(record.__dict__) for record in caplog.records)])
    assert KEY not in everything


def test_the_key_is_in_no_export_of_a_judged_run_nor_in_what_the_command_line_prints(
    fake_openai: FakeOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in {
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": fake_openai.url,
        "DATA_DIR": str(tmp_path / "marked"),
    }.items():
        monkeypatch.setenv(name, value)
    law, questions = tmp_path / "law.md", tmp_path / "questions.json"
    law.write_text(LAW)
    questions.write_text(json.dumps(QUESTIONS))
    assert main(["benchmark", str(questions), "--documents", str(law), "--strategy", "recursive", "--judge"]) == 0
    with Workbench.open() as workbench:
        (summary,) = workbench.experiments()
        exports = {
            kind: workbench.export(summary.experiment_id, kind).data for kind in ("html", "json", "csv", "parquet")
        }
        judged = [cell.query for cell in workbench.experiment(summary.experiment_id).cells]
    # Columns are compressed, so that their bytes alone would show nothing.
    columns = repr(parquet.read_table(io.BytesIO(exports["parquet"])).to_pylist())
    assert any(query is not None and query.judgement is not None for query in judged)
    assert fake_openai.counters.keys == {KEY}
    printed = capfd.readouterr()
    assert printed.out
    for name, data in {
        **exports,
        "columns": columns.encode(),
        "stdout": printed.out.encode(),
        "stderr": printed.err.encode(),
    }.items():
        assert KEY.encode() not in data, name
