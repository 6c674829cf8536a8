"""A benchmark in a process of its own that is killed at a given call, and finished by the next process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from engine import Workbench
from engine.ids import canonical_json
from engine.records import Experiment, Plan
from tests.fake_openai import FakeOpenAI

IN_FLIGHT = 4
"""CONCURRENCY of the processes: most calls that a kill can lose."""
PATIENCE = 120.0
"""Seconds after which a run that should end counts as stuck."""


def law(classes: int) -> str:
    """A document with one article for each class from 1 up to and without `classes`."""
    articles = (
        f"## Article {n}\n\nThe fee of class {n} is {n * 7} euros. It is due on day {n} of the quarter. The supervisor of class {n} reports it."
        for n in range(1, classes)
    )
    return "# Fees\n\n" + "\n\n".join(articles) + "\n"


def questions(classes: int, step: int) -> bytes:
    """A question for every `step`-th article of `law`."""
    rows = [
        {
            "question": f"How high is the fee of class {n}?",
            "answer": f"{n * 7} euros",
            "evidence": [f"The fee of class {n} is {n * 7} euros."],
        }
        for n in range(1, classes, step)
    ]
    return json.dumps(rows).encode()


LAW = law(13)
QUESTIONS = questions(13, 2)

WORK = """
import time
from engine import Workbench
from tests.engine.bench.killing import plan

with Workbench.open() as workbench:
    job = workbench.submit(plan(workbench))
    while workbench.job(job.job_id).state in ("queued", "running"):
        time.sleep(0.02)
"""


def plan(workbench: Workbench) -> Plan:
    """Contexts, embeddings, answers and verdicts: every kind of call."""
    workbench.add_document(LAW.encode(), "law.md")
    questions = workbench.add_question_set(QUESTIONS, "questions.json")
    specs = [
        workbench.spec("sentence", {"sentences": 1, "overlap": 0}),
        workbench.spec("contextual_retrieval", {"size": 48, "overlap": 4}),
        workbench.spec("parent_child"),
    ]
    return workbench.plan(questions.question_set_id, specs, judge=True)


def variables(server: FakeOpenAI, data_dir: Path) -> dict[str, str]:
    """The environment of a process that works against the server."""
    return {
        "DATA_DIR": str(data_dir),
        "OPENAI_BASE_URL": server.url,
        "OPENAI_API_KEY": "any",
        "CONCURRENCY": str(IN_FLIGHT),
    }


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """The variables set in this process."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def calls(server: FakeOpenAI) -> int:
    """Requests that have reached the server."""
    return server.calls("chat") + server.calls("embeddings")


def kill_after(server: FakeOpenAI, data_dir: Path, wanted: int) -> bool:
    """Run the benchmark in a process and kill it when the server has received `wanted` calls. Whether it was still at work then."""
    process = subprocess.Popen([sys.executable, "-c", WORK], env={**os.environ, **variables(server, data_dir)})
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and calls(server) < wanted and time.monotonic() < deadline:
        time.sleep(0.002)
    at_work = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    return at_work


def finish(server: FakeOpenAI, data_dir: Path) -> Experiment:
    """Open the data folder, let what was begun come to its end, and return the experiment. Starts one where none was begun."""
    with environment(variables(server, data_dir)), Workbench.open() as workbench:
        if not workbench.experiments():
            workbench.submit(plan(workbench))
        (summary,) = workbench.experiments()
        wait(workbench, summary.experiment_id)
        return workbench.experiment(summary.experiment_id)


def wait(workbench: Workbench, job_id: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while workbench.job(job_id).state in ("queued", "running"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the benchmark {job_id} did not end")
        time.sleep(0.02)


def paid_twice(server: FakeOpenAI) -> int:
    """Calls that asked, in whole or in part, for something the server had been asked for before."""
    seen: set[str] = set()
    twice = 0
    with server.lock:
        for body in server.counters.requests:
            asked = [canonical_json(body)] if "messages" in body else list(body["input"])
            twice += any(each in seen for each in asked)
            seen.update(asked)
    return twice


def outcome(experiment: Experiment) -> object:
    """What a benchmark found, without when and how fast."""
    rows = [
        (result.spec.label, result.status, result.chunk_count, result.metrics, result.quality)
        for result in experiment.results
    ]
    cells = [
        (
            cell.spec_id,
            cell.question_id,
            cell.status,
            cell.metrics,
            cell.evidence,
            cell.query.answer if cell.query else None,
            [hit.chunk.chunk_id for hit in cell.query.retrieved] if cell.query else None,
        )
        for cell in experiment.cells
    ]
    return (experiment.status, rows, cells, experiment.statistics)
