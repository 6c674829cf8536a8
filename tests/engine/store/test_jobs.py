from __future__ import annotations

import threading
from collections import Counter

import pytest
from sqlalchemy.exc import IntegrityError

from engine.errors import NotFound
from engine.records import Experiment
from engine.store import Store
from engine.store.jobs import FOREGROUND, NewJob
from tests.engine.store import examples
from tests.engine.store.conftest import Clock


def begun(experiment_id: str) -> Experiment:
    return examples.experiment().model_copy(update={"experiment_id": experiment_id, "status": "running"})


KINDS = ["benchmark"]


def test_jobs_are_taken_in_the_order_they_came(store: Store, clock: Clock) -> None:
    for name in ("first", "second"):
        store.add_job("benchmark", {"name": name}, owner="anna", job_id=name)
        clock.now += 1
    store.add_job("report", {})
    assert [job.job_id for job in store.jobs(["queued"], owner="anna")] == ["first", "second"]
    taken = store.take_job("p1", KINDS)
    assert taken is not None
    assert (taken.job_id, taken.state, taken.holder, taken.attempts) == ("first", "running", "p1", 1)
    assert taken.payload == {"name": "first"}
    second = store.take_job("p2", KINDS)
    assert second is not None
    assert second.job_id == "second"
    assert store.take_job("p3", KINDS) is None
    assert store.count_jobs(["running"], owner="anna") == 2
    assert store.count_jobs(["queued"]) == 1


def test_a_job_whose_holder_is_silent_is_taken_by_another(store: Store, clock: Clock) -> None:
    store.add_job("benchmark", {}, job_id="job")
    assert store.take_job("p1", KINDS, lease_seconds=60)
    clock.now += 50
    renewed = store.renew_job("job", "p1", {"done": 3}, lease_seconds=60)
    assert renewed is not None
    assert renewed.progress == {"done": 3}
    clock.now += 50
    assert store.take_job("p2", KINDS) is None
    clock.now += 11
    taken = store.take_job("p2", KINDS)
    assert taken is not None
    assert (taken.holder, taken.attempts, taken.progress) == ("p2", 2, {"done": 3})
    assert store.renew_job("job", "p1") is None
    assert store.end_job("job", "p1", "finished") is None
    ended = store.end_job("job", "p2", "failed", error="The budget is spent.", progress={"done": 4})
    assert ended is not None
    assert (ended.state, ended.error, ended.progress) == ("failed", "The budget is spent.", {"done": 4})
    assert store.renew_job("job", "p2") is None


def test_jobs_of_dead_holders_go_back_into_the_queue(store: Store, clock: Clock) -> None:
    for name in ("old", "new"):
        store.add_job("benchmark", {}, job_id=name)
        clock.now += 1
        assert store.take_job("p1", KINDS, lease_seconds=100)
        clock.now += 60
    assert store.release_dead_jobs() == ["old"]
    assert (store.job("old").state, store.job("old").holder) == ("queued", None)
    assert store.job("new").state == "running"
    store.cancel_job("new")
    assert store.release_dead_jobs(all_running=True) == ["new"]
    assert (store.job("new").state, store.job("new").cancel_requested) == ("queued", True)
    assert store.release_dead_jobs(all_running=True) == []
    assert store.cancel_job("new").state == "cancelled"


def test_a_holder_that_stops_gives_its_job_back(store: Store) -> None:
    store.add_job("benchmark", {}, job_id="job")
    assert store.take_job("p1", KINDS)
    assert not store.release_job("job", "p2")
    assert store.job("job").holder == "p1"
    assert store.release_job("job", "p1")
    taken = store.take_job("p2", KINDS)
    assert taken is not None
    assert (taken.holder, taken.attempts) == ("p2", 2)
    assert not store.release_job("job", "p1")


def test_a_job_that_waits_is_cancelled_and_one_that_runs_is_asked_to_stop(store: Store, clock: Clock) -> None:
    for name in ("runs", "waits"):
        store.add_job("benchmark", {}, job_id=name)
        clock.now += 1
    store.take_job("p1", KINDS)
    assert store.cancel_job("waits").state == "cancelled"
    asked = store.cancel_job("runs")
    assert (asked.state, asked.cancel_requested) == ("running", True)
    seen = store.renew_job("runs", "p1")
    assert seen is not None
    assert seen.cancel_requested
    store.end_job("runs", "p1", "cancelled")
    assert store.take_job("p2", KINDS) is None


def test_an_experiment_and_its_job_are_stored_together_or_not_at_all(store: Store) -> None:
    store.create_experiment(begun("queued"), NewJob("benchmark", "anna"))
    job = store.job("queued")
    assert (job.state, job.kind, job.owner, job.payload) == ("queued", "benchmark", "anna", {"experiment_id": "queued"})
    store.add_job("report", {}, job_id="taken")
    with pytest.raises(IntegrityError):
        store.create_experiment(begun("taken"), NewJob("benchmark"))
    with pytest.raises(NotFound):
        store.experiment_summary("taken")


def test_an_experiment_that_waits_is_cancelled_with_its_job(store: Store, clock: Clock) -> None:
    store.create_experiment(begun("waits"), NewJob("benchmark"))
    store.create_experiment(begun("runs"), NewJob(FOREGROUND, holder="p1"))
    for name in ("waits", "runs"):
        store.cancel_job(name)
    assert store.end_orphans("gone") == 0
    summary = store.experiment_summary("waits")
    assert (summary.status, summary.error) == ("cancelled", None)
    assert summary.finished_at is not None
    assert summary.finished_at.timestamp() == clock.now
    assert store.experiment_summary("runs").status == "running"


def test_an_ended_experiment_is_queued_again_with_its_job(store: Store) -> None:
    store.create_experiment(begun("exp"), NewJob(FOREGROUND, "anna", holder="p1"))
    store.cancel_job("exp")
    store.end_job("exp", "p1", "cancelled", error="why")
    store.finish_experiment("exp", "cancelled", "why")
    store.requeue_experiment("exp", NewJob("benchmark", "ben"))
    job, summary = store.job("exp"), store.experiment_summary("exp")
    assert (job.state, job.kind, job.owner, job.error, job.cancel_requested) == (
        "queued",
        "benchmark",
        "anna",
        None,
        False,
    )
    assert (summary.status, summary.error, summary.finished_at) == ("running", None, None)
    assert store.take_job("p2", KINDS) is not None
    store.create_experiment(begun("never queued"))
    store.requeue_experiment("never queued", NewJob("benchmark", "ben"))
    assert store.job("never queued").owner == "ben"
    with pytest.raises(NotFound):
        store.requeue_experiment("x", NewJob("benchmark"))


def test_experiments_in_the_foreground_of_a_silent_process_end_and_no_others(store: Store, clock: Clock) -> None:
    store.create_experiment(begun("queued"), NewJob("benchmark"))
    store.create_experiment(begun("taken"), NewJob("benchmark"))
    clock.now += 1
    store.create_experiment(begun("here"), NewJob(FOREGROUND, holder="p1", lease_seconds=60))
    store.create_experiment(begun("without a job"))
    assert store.take_job("p1", KINDS, lease_seconds=1)
    clock.now += 50
    store.renew_job("here", "p1", lease_seconds=60)
    clock.now += 50
    assert store.end_orphans("gone") == 1
    assert store.end_orphans("gone") == 0
    running = {each.experiment_id for each in store.experiments("running")}
    assert running == {"queued", "taken", "here"}
    assert store.release_dead_jobs(all_running=True) == ["queued"]

    clock.now += 11
    assert store.end_orphans("gone") == 1
    ended = store.experiment_summary("here")
    assert (ended.status, ended.error) == ("cancelled", "gone")
    assert (store.job("here").state, store.job("here").error) == ("cancelled", "gone")
    assert store.renew_job("here", "p1") is None, "whoever held it is told to stop"

    store.create_experiment(begun("last"), NewJob(FOREGROUND, holder="p1", lease_seconds=3600))
    assert store.end_orphans("gone", alone=True) == 1
    assert store.job("last").state == "cancelled"


def test_an_unknown_job_is_not_found(store: Store) -> None:
    for call in (store.job, store.cancel_job):
        with pytest.raises(NotFound, match="no job"):
            call("unknown")


def test_no_job_is_taken_twice(url: str) -> None:
    stores = [Store(url) for _ in range(4)]
    for number in range(20):
        stores[0].add_job("benchmark", {}, job_id=f"job {number:02}")
    taken: list[str] = []
    failures: list[BaseException] = []

    def work(store: Store, holder: str) -> None:
        try:
            while job := store.take_job(holder, KINDS):
                taken.append(job.job_id)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(store, f"process {place}")) for place, store in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert Counter(taken) == Counter(f"job {number:02}" for number in range(20))
    for store in stores:
        store.close()
