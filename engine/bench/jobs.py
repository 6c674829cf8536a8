"""Benchmarks in the background: worker threads of this process take jobs from the queue in the database, under a lease."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from engine import ids
from engine.bench.run import Event, Runner
from engine.errors import UserError
from engine.records import Experiment
from engine.store import Job, Store
from engine.store.jobs import LEASE_SECONDS

logger = logging.getLogger(__name__)

KIND = "benchmark"
WORKERS = 2
"""Benchmarks that run at once in one process; more wait in the queue."""


class JobRunner:
    """Runs queued benchmarks until it is closed. One per process."""

    def __init__(self, store: Store, runner: Callable[[], Runner]) -> None:
        self._store = store
        self._runner = runner
        self._holder = ids.new_id()
        self._wake = threading.Condition()
        self._closing = False
        self._threads: list[threading.Thread] = []

    def submit(self, experiment: Experiment, owner: str = "") -> Job:
        """Queue a stored experiment; its job has the experiment's id."""
        job = self._store.add_job(KIND, {"experiment_id": experiment.experiment_id}, owner, experiment.experiment_id)
        self.start()
        return job

    def resume(self, experiment_id: str) -> Job:
        """Queue an ended experiment again; only what is missing is done. Raises NotFound."""
        job = self._store.requeue_job(experiment_id)
        self._store.finish_experiment(experiment_id, "running")
        self.start()
        return job

    def start(self) -> None:
        """Make sure that worker threads run, and wake those that sleep."""
        with self._wake:
            if self._closing:
                return
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            while len(self._threads) < WORKERS:
                thread = threading.Thread(target=self._work, name="benchmark", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._wake.notify_all()

    def close(self) -> None:
        """Stop after the units in flight. What is not finished stays queued and resumes with the next process."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while True:
            with self._wake:
                if self._closing:
                    return
                job = self._store.take_job(self._holder, [KIND])
                if job is None:
                    self._wake.wait(timeout=LEASE_SECONDS)
                    continue
            self._carry_out(job)

    def _carry_out(self, job: Job) -> None:
        experiment_id = str(job.payload["experiment_id"])
        watch = _Watch(self._store, job, self._holder, lambda: self._closing)
        try:
            experiment = self._store.experiment(experiment_id)
            ended = self._runner().run(experiment, watch.note, watch.cancelled)
            if self._closing and not watch.cancel_requested and ended.status == "cancelled":
                self._store.finish_experiment(experiment_id, "running")
                return
            self._store.end_job(
                job.job_id,
                self._holder,
                "cancelled" if ended.status == "cancelled" else "finished",
                progress=watch.progress,
            )
        except UserError as error:
            self._fail(job, experiment_id, error.message)
        except Exception:
            logger.exception("benchmark %s failed", experiment_id)
            self._fail(
                job, experiment_id, f"This is a bug in Chunkscope. Details are in the log under {experiment_id}."
            )
        finally:
            watch.close()

    def _fail(self, job: Job, experiment_id: str, reason: str) -> None:
        try:
            self._store.finish_experiment(experiment_id, "failed")
            self._store.end_job(job.job_id, self._holder, "failed", error=reason)
        except UserError as error:
            logger.error("the end of benchmark %s could not be stored: %s", experiment_id, error.message)


class _Watch:
    """Keeps the lease of a job, stores its progress and hears when someone cancels it."""

    def __init__(self, store: Store, job: Job, holder: str, closing: Callable[[], bool]) -> None:
        self._store = store
        self._job = job
        self._holder = holder
        self._closing = closing
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self.cancel_requested = False
        self.progress: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)
        self._thread.start()

    def note(self, event: Event) -> None:
        with self._lock:
            self.progress = note_event(self.progress, event)

    def cancelled(self) -> bool:
        return self.cancel_requested or self._closing()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._ended.wait(0.5):
            with self._lock:
                progress = dict(self.progress)
            try:
                job = self._store.renew_job(self._job.job_id, self._holder, progress)
            except UserError as error:
                logger.warning("the lease of benchmark %s could not be renewed: %s", self._job.job_id, error.message)
                continue
            if job is None or job.cancel_requested:
                self.cancel_requested = True


def note_event(progress: dict[str, Any], event: Event) -> dict[str, Any]:
    """Progress with one event added: per spec label and stage `{"done", "total"}`, and the errors so far by spec label."""
    stages = {**progress.get("stages", {})}
    label = event.spec.label
    stages[label] = {**stages.get(label, {}), event.stage: {"done": event.done, "total": event.total}}
    errors = progress.get("errors", {})
    if event.error:
        errors = {**errors, label: event.error}
    return {"stages": stages, "errors": errors}
