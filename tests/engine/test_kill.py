"""A process killed with SIGKILL while it works: nothing is lost, nothing is half there, the next run gives the same result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine import Workbench
from engine.records import Experiment
from tests.engine.bench import killing
from tests.fake_openai import FakeOpenAI
from tests.fake_openai.fixture import fake_openai

__all__ = ["fake_openai"]

LAW = killing.law(60)
QUESTIONS = killing.questions(60, 6)

WORK = """
import sys
from engine import Workbench
from tests.engine.test_kill import LAW, QUESTIONS, plan

with Workbench.open() as workbench:
    workbench.benchmark(plan(workbench), lambda event: print(event.stage, flush=True))
"""


def plan(workbench: Workbench):  # type: ignore[no-untyped-def]
    workbench.add_document(LAW.encode(), "law.md")
    questions = workbench.add_question_set(QUESTIONS, "questions.json")
    specs = [workbench.spec("sentence", {"sentences": 1, "overlap": 0}), workbench.spec("parent_child")]
    return workbench.plan(questions.question_set_id, specs)


def numbers(experiment: Experiment) -> list[object]:
    return [(result.spec.label, result.chunk_count, result.metrics) for result in experiment.results]


@pytest.mark.parametrize("lines", [0, 1, 3], ids=["while indexing", "between two specs", "while asking"])
def test_a_killed_benchmark_leaves_nothing_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    process = subprocess.Popen([sys.executable, "-c", WORK], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if lines == 0:
        database = tmp_path / "data" / "chunkscope.db"
        while process.poll() is None and not database.exists():
            os.sched_yield()
    for _ in range(lines):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()

    with Workbench.open() as workbench:
        for collection in workbench.collections():
            indexed = sum(
                s.points for s in workbench.index_states() if f"{s.strategy_name}_collection" == collection.name
            )
            assert collection.points == indexed
        after_kill = workbench.benchmark(plan(workbench))
        assert [document.name for document in workbench.documents()] == ["law.md"]

    monkeypatch.setenv("DATA_DIR", str(tmp_path / "untouched"))
    with Workbench.open() as workbench:
        assert numbers(after_kill) == numbers(workbench.benchmark(plan(workbench)))


def test_a_killed_job_resumes_to_the_same_result_and_pays_twice_for_calls_in_flight_alone(
    tmp_path: Path, fake_openai: FakeOpenAI
) -> None:
    fake_openai.latency = 0.05
    undisturbed = killing.finish(fake_openai, tmp_path / "undisturbed")
    for wanted in (2, 18, 40):
        fake_openai.reset()
        folder = tmp_path / f"killed-after-{wanted}"
        assert killing.kill_after(fake_openai, folder, wanted)
        resumed = killing.finish(fake_openai, folder)
        assert killing.outcome(resumed) == killing.outcome(undisturbed)
        assert killing.paid_twice(fake_openai) <= killing.IN_FLIGHT
