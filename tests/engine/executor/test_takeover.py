"""One benchmark in one process, on servers with Dask workers, and there again with an app and a worker killed in the middle: the same records."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from engine import Workbench
from engine.ids import canonical_json
from engine.store import Store
from tests import clusters
from tests.engine.bench import killing
from tests.engine.executor import several
from tests.fake_openai import FakeOpenAI

if TYPE_CHECKING:
    from distributed import Client

pytestmark = several.NEEDS_CLUSTER

WORKERS = 2
SPECS = 3
"""Of the plan."""
LEASE_SECONDS = 6
BEGINS = """
import time
from engine import Workbench
from tests.engine.executor.several import plan

with Workbench.open() as workbench:
    job = workbench.submit(plan(workbench))
    while True:
        time.sleep(60)
"""
STANDS_BY = """
import time
from engine import Workbench

with Workbench.open() as workbench:
    print("open", flush=True)
    while workbench.jobs():
        time.sleep(0.05)
"""


class Outcome(NamedTuple):
    """Everything a benchmark leaves behind."""

    record: Any
    chunks: dict[str, Any]
    vectors: dict[str, list[float]]


class Gate:
    """Holds the calls for answers that arrive once `reached()`, until it is opened; the script of a test server."""

    def __init__(self, reached: Callable[[], bool]) -> None:
        self.held: list[str] = []
        self._reached = reached
        self._opened = threading.Event()

    def __call__(self, body: dict[str, Any]) -> None:
        """None: the answer is the usual one."""
        schema = body.get("response_format", {}).get("json_schema", {})
        if schema.get("name") == "answer" and self._reached():
            self.held.append(canonical_json(body))
            self._opened.wait(killing.PATIENCE)

    def open(self) -> None:
        self._opened.set()


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + killing.PATIENCE
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def outcome(workbench: Workbench, experiment_id: str) -> Outcome:
    experiment = workbench.experiment(experiment_id)
    return Outcome(several.record(experiment), several.chunks(workbench, experiment), several.vectors(workbench))


def asked(server: FakeOpenAI) -> list[str]:
    """What the server was asked for: the bodies of chat calls, the texts of embedding calls."""
    with server.lock:
        bodies = list(server.counters.requests)
    every = [[canonical_json(body)] if "messages" in body else body["input"] for body in bodies]
    return [each for call in every for each in call]


def again(every: list[str]) -> list[str]:
    """What was asked for before, once for each time."""
    return [each for place, each in enumerate(every) if each in every[:place]]


@contextmanager
def app(code: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def embedded(server: FakeOpenAI, folder: Path) -> Outcome:
    """One process, SQLite, the embedded index."""
    with killing.environment(killing.variables(server, folder)), Workbench.open() as workbench:
        return outcome(workbench, workbench.benchmark(several.plan(workbench)).experiment_id)


def undisturbed(variables: dict[str, str]) -> Outcome:
    """One app and two workers. Nothing is left of it, so that the next benchmark has to pay for everything again."""
    with killing.environment(variables), Workbench.open() as workbench:
        found = outcome(workbench, workbench.benchmark(several.plan(workbench)).experiment_id)
        for experiment in workbench.experiments():
            workbench.delete_experiment(experiment.experiment_id)
        for question_set in workbench.question_sets():
            workbench.delete_question_set(question_set.question_set_id)
        for document in workbench.documents():
            workbench.delete_document(document.document_id)
        workbench.prune_caches(0)
        assert several.vectors(workbench) == {}
        return found


def taken_over(server: FakeOpenAI, variables: dict[str, str], client: Client) -> tuple[Outcome, list[str]]:
    """Two apps on one queue and two workers. The app that holds the job and one worker are killed when each worker waits for an answer.

    Also returns the calls that were in flight then.
    """
    store = Store(variables["DATABASE_URL"])
    gate = Gate(lambda: is_indexed(store))
    server.script = gate
    with app(BEGINS, variables) as first:
        until(lambda: len(gate.held) == WORKERS and is_calibrated(store), "the first app did not get to the middle")
        with app(STANDS_BY, variables) as second:
            assert second.stdout is not None
            assert second.stdout.readline() == "open\n"
            in_flight = list(gate.held)
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
            first.send_signal(signal.SIGKILL)
            first.wait()
            (summary,) = store.experiments()
            assert store.job(summary.experiment_id).attempts == 1
            # The worker that lives still waits for its answer. It is held until the other app has sent its own tasks, so that the same
            # question is with two workers at once.
            until(lambda: is_taken_over(store, summary.experiment_id, client), "the second app did not take the job")
            gate.open()
            assert second.wait(killing.PATIENCE) == 0
    job = store.job(summary.experiment_id)
    assert (job.state, job.attempts) == ("finished", 2)
    store.close()
    with killing.environment(variables), Workbench.open() as workbench:
        return outcome(workbench, summary.experiment_id), in_flight


def is_indexed(store: Store) -> bool:
    """Whether every spec is on record as open, so that nothing but questions is left to do."""
    (summary,) = store.experiments()
    return len(store.spec_results(summary.experiment_id)) == SPECS


def is_calibrated(store: Store) -> bool:
    (summary,) = store.experiments()
    return store.experiment(summary.experiment_id, cells=False).calibration is not None


def is_taken_over(store: Store, experiment_id: str, client: Client) -> bool:
    busy = sum(bool(tasks) for tasks in client.processing().values())
    return store.job(experiment_id).attempts == 2 and busy == WORKERS


@pytest.mark.timeout(900)
def test_the_same_benchmark_embedded_on_a_cluster_and_after_kills_leaves_the_same_records(
    fake_openai: FakeOpenAI, tmp_path: Path
) -> None:
    from distributed import Client

    expected = embedded(fake_openai, tmp_path / "embedded")
    calls = asked(fake_openai)
    assert again(calls) == []

    with clusters.database() as database, clusters.vector_server() as vectors:
        variables = {
            **killing.variables(fake_openai, tmp_path / "shared"),
            "DATABASE_URL": database,
            "QDRANT_URL": vectors,
            "JOB_LEASE_SECONDS": str(LEASE_SECONDS),
        }
        with (
            clusters.dask_cluster(WORKERS, {**os.environ, **variables}) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            variables["DASK_SCHEDULER_ADDRESS"] = cluster.scheduler_address
            fake_openai.reset()
            assert undisturbed(variables) == expected
            assert sorted(asked(fake_openai)) == sorted(calls)

            fake_openai.reset()
            found, in_flight = taken_over(fake_openai, variables, client)
            assert found == expected
            assert set(asked(fake_openai)) == set(calls)
            twice = again(asked(fake_openai))
            assert set(twice) <= set(in_flight)
            assert len(twice) <= len(in_flight) == WORKERS
