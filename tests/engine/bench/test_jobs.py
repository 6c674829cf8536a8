"""The queue of several processes on one database."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from engine.bench import jobs
from engine.bench.jobs import JobRunner
from engine.bench.run import Runner
from engine.errors import Busy
from engine.records import Experiment, QuestionResult, UsageRecord
from engine.store import Store
from engine.store.jobs import NewJob
from tests.engine.store import examples
from tests.engine.store.conftest import url

__all__ = ["url"]

pytestmark = [pytest.mark.postgres, pytest.mark.parametrize("url", ["postgres"], indirect=True)]

A_MOMENT = 0.5
"""Seconds in which another process gets far where nothing holds it up."""


@pytest.fixture
def two(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[JobRunner, JobRunner]]:
    """The queues of two processes, with room for one benchmark, which nobody carries out."""
    monkeypatch.setattr(JobRunner, "start", lambda _: None)
    stores = Store(url), Store(url)
    yield JobRunner(stores[0], no_runner, 1, 1), JobRunner(stores[1], no_runner, 1, 1)
    for store in stores:
        store.close()


def no_runner() -> Runner:
    raise AssertionError("nothing is carried out")


def test_what_two_processes_resume_at_once_is_resumed_once(
    url: str, two: tuple[JobRunner, JobRunner], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(url)
    experiment = examples.experiment()
    failed = examples.cell("q", experiment.plan.specs[0]).model_copy(
        update={"status": "failed", "usage": {"answer": UsageRecord(cost_usd=0.5)}}
    )
    store.create_experiment(experiment, NewJob("benchmark"))
    store.add_cells(experiment.experiment_id, [failed])
    store.take_job("dead", ["benchmark"])
    store.end_job(experiment.experiment_id, "dead", "failed")

    other = threading.Thread(target=two[1].resume, args=(experiment.experiment_id,))
    find = jobs._failed

    def find_while_another_resumes(found: Experiment) -> list[QuestionResult]:
        if other.ident is None:
            other.start()
            other.join(A_MOMENT)
        return find(found)

    monkeypatch.setattr(jobs, "_failed", find_while_another_resumes)
    two[0].resume(experiment.experiment_id)
    other.join()
    assert store.experiment(experiment.experiment_id).retried_usd == 0.5
    assert [job.state for job in store.jobs()] == ["queued"]
    store.close()


def test_two_processes_queue_no_more_than_there_is_room_for(
    url: str, two: tuple[JobRunner, JobRunner], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[Busy] = []

    def submit_another() -> None:
        try:
            two[1].submit(examples.experiment("exp-2"))
        except Busy as error:
            refused.append(error)

    other = threading.Thread(target=submit_another)
    create = Store.create_experiment

    def create_while_another_submits(store: Store, experiment: Experiment, job: NewJob | None = None) -> None:
        if other.ident is None:
            other.start()
            other.join(A_MOMENT)
        create(store, experiment, job)

    monkeypatch.setattr(Store, "create_experiment", create_while_another_submits)
    two[0].submit(examples.experiment("exp-1"))
    other.join()
    store = Store(url)
    assert [job.job_id for job in store.jobs()] == ["exp-1"]
    assert "QUEUE_LIMIT" in refused[0].message
    store.close()
