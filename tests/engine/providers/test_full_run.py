"""A whole benchmark against a server: what a repetition costs, and that the key is nowhere afterwards."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from engine import Workbench
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
