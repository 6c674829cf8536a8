"""Several app processes on one PostgreSQL and one vector server: one queue, and work that outlives the process that began it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine import Workbench
from engine.bench.jobs import ORPHANED
from engine.errors import DataFolderLocked
from tests.engine.bench import killing
from tests.engine.store.conftest import url
from tests.fake_openai import FakeOpenAI
from tests.fake_openai.faults import Fault
from tests.qdrant_server import QdrantServer

__all__ = ["url"]

pytestmark = [pytest.mark.postgres, pytest.mark.parametrize("url", ["postgres"], indirect=True)]

LEASE_SECONDS = 3
STANDS_BY = """
import time
from engine import Workbench

with Workbench.open() as workbench:
    print("open", flush=True)
    while not workbench.experiments() or workbench.jobs():
        time.sleep(0.05)
"""


def servers(url: str, qdrant: QdrantServer, folder: Path, server: FakeOpenAI) -> dict[str, str]:
    return {
        **killing.variables(server, folder),
        "DATABASE_URL": url,
        "QDRANT_URL": qdrant.url,
        "JOB_LEASE_SECONDS": str(LEASE_SECONDS),
    }


def test_a_process_finishes_what_another_was_killed_at(
    url: str, qdrant_server: QdrantServer, fake_openai: FakeOpenAI, tmp_path: Path
) -> None:
    undisturbed = killing.finish(fake_openai, tmp_path / "undisturbed")
    fake_openai.reset()
    fake_openai.latency = 0.05

    variables = servers(url, qdrant_server, tmp_path / "shared", fake_openai)
    environment = {**os.environ, **variables}
    first = subprocess.Popen([sys.executable, "-c", killing.WORK], env=environment)
    second = None
    try:
        wait_for_calls(fake_openai, first, 24)
        # From now on the first one gets no further, so that it is at work when the second one is there.
        fake_openai.faults.add(Fault("hang"))
        second = subprocess.Popen([sys.executable, "-c", STANDS_BY], env=environment, stdout=subprocess.PIPE, text=True)
        assert second.stdout is not None
        assert second.stdout.readline() == "open\n"
        assert first.poll() is None
        first.send_signal(signal.SIGKILL)
        first.wait()
        fake_openai.faults.clear()
        assert second.wait(killing.PATIENCE) == 0
    finally:
        for process in (first, second):
            if process is not None:
                process.kill()
                process.wait()
        if second is not None and second.stdout is not None:
            second.stdout.close()

    with killing.environment(variables), Workbench.open() as workbench:
        (summary,) = workbench.experiments()
        job = workbench.job(summary.experiment_id)
        assert (job.state, job.attempts) == ("finished", 2)
        finished = workbench.experiment(summary.experiment_id)
    assert killing.outcome(finished) == killing.outcome(undisturbed)
    assert killing.paid_twice(fake_openai) <= killing.IN_FLIGHT


IN_THE_FOREGROUND = """
from engine import Workbench
from tests.engine.bench import killing

with Workbench.open() as workbench:
    workbench.benchmark(killing.plan(workbench))
"""


def test_a_benchmark_in_the_foreground_of_a_killed_process_is_ended_by_another_and_can_be_resumed(
    url: str, qdrant_server: QdrantServer, fake_openai: FakeOpenAI, tmp_path: Path
) -> None:
    variables = servers(url, qdrant_server, tmp_path / "shared", fake_openai)
    fake_openai.latency = 0.05
    first = subprocess.Popen([sys.executable, "-c", IN_THE_FOREGROUND], env={**os.environ, **variables})
    try:
        with killing.environment(variables), Workbench.open() as workbench:
            wait_for_calls(fake_openai, first, 12)
            (summary,) = workbench.experiments()
            job = workbench.job(summary.experiment_id)
            assert (summary.status, job.state) == ("running", "running")
            assert workbench.resume(summary.experiment_id).holder == job.holder, "it is at work"
            first.send_signal(signal.SIGKILL)
            first.wait()
            deadline = time.monotonic() + killing.PATIENCE
            while workbench.experiment_summary(summary.experiment_id).status == "running":
                assert time.monotonic() < deadline
                time.sleep(0.05)
            ended = workbench.experiment_summary(summary.experiment_id)
            assert (ended.status, ended.error) == ("cancelled", ORPHANED)
            killing.wait(workbench, workbench.resume(summary.experiment_id).job_id)
            assert workbench.experiment_summary(summary.experiment_id).status == "finished"
    finally:
        first.kill()
        first.wait()
    assert killing.paid_twice(fake_openai) <= killing.IN_FLIGHT


def wait_for_calls(server: FakeOpenAI, process: subprocess.Popen[bytes], wanted: int) -> None:
    deadline = time.monotonic() + killing.PATIENCE
    while killing.calls(server) < wanted:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_a_folder_is_shared_only_where_index_and_database_are_servers(
    url: str, qdrant_server: QdrantServer, fake_openai: FakeOpenAI, tmp_path: Path
) -> None:
    variables = servers(url, qdrant_server, tmp_path / "data", fake_openai)
    with killing.environment(variables), Workbench.open() as one, Workbench.open() as two:
        added = one.add_document(killing.LAW.encode(), "law.md").document
        assert [each.document_id for each in two.documents()] == [added.document_id]
        spec = one.spec("sentence", {"sentences": 1, "overlap": 0})
        (hit, *_), (other, *_) = (
            each.ask("How high is the fee of class 3?", [spec])[0].retrieved for each in (one, two)
        )
        assert hit.chunk == other.chunk
        os.environ.pop("QDRANT_URL")
        with pytest.raises(DataFolderLocked):
            Workbench.open()
        os.environ["QDRANT_URL"] = qdrant_server.url


def test_a_process_that_is_stopped_gives_its_benchmark_to_another_at_once(
    url: str, qdrant_server: QdrantServer, fake_openai: FakeOpenAI, tmp_path: Path
) -> None:
    fake_openai.latency = 0.05
    variables = {**servers(url, qdrant_server, tmp_path / "data", fake_openai), "JOB_LEASE_SECONDS": "3600"}
    with killing.environment(variables):
        with Workbench.open() as one:
            job = one.submit(killing.plan(one))
            deadline = time.monotonic() + killing.PATIENCE
            while killing.calls(fake_openai) < 12:
                assert time.monotonic() < deadline
                time.sleep(0.002)
        with Workbench.open() as two:
            assert two.job(job.job_id).state in ("queued", "running")
            killing.wait(two, job.job_id)
            assert two.job(job.job_id).state == "finished"
            assert two.experiment_summary(job.job_id).status == "finished"
    assert killing.paid_twice(fake_openai) == 0
