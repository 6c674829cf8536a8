"""Benchmarks in the background: worker threads of this process take jobs from the queue in the database, under a lease."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from engine import ids
from engine.bench import overnight, summary
from engine.bench.plan import answer_seeds
from engine.bench.progress import Progress
from engine.bench.run import Emit, Event, Runner
from engine.errors import Busy, NotFound, UserError
from engine.records import Experiment, QuestionResult
from engine.store import Job, JobState, Store
from engine.store.jobs import FOREGROUND, LEASE_SECONDS, NewJob

logger = logging.getLogger(__name__)

KIND = "benchmark"
OVERNIGHT = "overnight"
"""Benchmarks that wait for a provider's batches most of the time, so that they must not keep others from running."""
ORPHANED = "The process that ran it ended. What is finished is kept; resume it to do the rest."
"""Why an experiment stopped that nobody is running any more."""
INTERRUPTED = "It was interrupted. What is finished is kept; resume it to do the rest."
WAITING: tuple[JobState, ...] = ("queued", "running")
AT_ONCE = 2
"""Benchmarks that run at once in one process; more wait in the queue."""
OVERNIGHT_AT_ONCE = 4
"""The same of overnight benchmarks."""
LOOK_SECONDS = 5.0
"""Pause between two looks for jobs of other processes on the same database."""
AGAIN_SECONDS = 5.0
"""Pause before the end of a run is stored once more, where the database could not be written."""


class JobRunner:
    """Runs queued benchmarks until it is closed. One per process.

    `limit`: most benchmarks that wait or run; `limit_per_user`: of one owner. `lease_seconds`: after this silence a process counts as dead.
    `at_once`: how many run at the same time, overnight ones apart.
    """

    def __init__(
        self,
        store: Store,
        runner: Callable[[], Runner],
        limit: int,
        limit_per_user: int,
        lease_seconds: float = LEASE_SECONDS,
        at_once: int = AT_ONCE,
    ) -> None:
        self._store = store
        self._runner = runner
        self._limit = limit
        self._limit_per_user = limit_per_user
        self._lease_seconds = lease_seconds
        self._most = {KIND: at_once, OVERNIGHT: OVERNIGHT_AT_ONCE}
        self._look_seconds = lease_seconds
        self._is_shared = False
        self._holder = ids.new_id()
        self._wake = threading.Condition()
        self._closing = False
        self._threads: list[threading.Thread] = []
        self._here: set[str] = set()

    def submit(self, experiment: Experiment, owner: str = "") -> Job:
        """Store an experiment and queue it; its job has the experiment's id. Raises Busy; nothing is stored then."""
        with self._one_at_a_time():
            self._check_room(owner)
            self._store.create_experiment(experiment, NewJob(_kind(experiment), owner))
        self.start()
        return self._store.job(experiment.experiment_id)

    def hold(self, experiment: Experiment, owner: str = "") -> Job:
        """Store an experiment that is carried out in the foreground, with `run_here`. Its job is under a lease like those of the queue, so
        that it is known when this process dies."""
        self._here.add(experiment.experiment_id)
        self._store.create_experiment(experiment, NewJob(FOREGROUND, owner, self._holder, self._lease_seconds))
        return self._store.job(experiment.experiment_id)

    def run_here(self, experiment: Experiment, job: Job, emit: Emit) -> None:
        """Carry out an experiment that is held, in this thread. Raises the UserError that kept it from going on."""
        experiment_id = experiment.experiment_id
        watch = _Watch(self._store, job, self._holder, self._lease_seconds, lambda: self._closing)

        def note(event: Event) -> None:
            watch.note(event)
            emit(event)

        try:
            runner = self._runner()
            watch.begin(self._progress(experiment, runner, job))
            ended = runner.run(experiment, note, watch.cancelled)
            self._store.end_job(experiment_id, self._holder, ended, progress=watch.record())
        except BaseException as error:
            reason = error.message if isinstance(error, UserError) else INTERRUPTED
            with suppress(UserError):
                self._store.end_job(experiment_id, self._holder, "failed", error=reason, progress=watch.record())
                if not isinstance(error, UserError):
                    self._store.finish_experiment(experiment_id, "cancelled", reason)
            raise
        finally:
            watch.close()
            self._here.discard(experiment_id)

    def resume(self, experiment_id: str, owner: str = "") -> Job:
        """Queue an ended experiment again: what is missing is done, what failed is tried again. Raises NotFound, Busy."""
        with self._one_at_a_time():
            experiment = self._store.experiment(experiment_id, queries=False)
            try:
                job = self._store.job(experiment_id)
            except NotFound:
                job = None
            if job is not None and job.state in WAITING and not self._is_over(job):
                return job
            self._check_room(owner if job is None else job.owner)
            self._store.forget_batch_calls(experiment_id, but=("ok", "waiting"))
            failed = _failed(experiment)
            self._store.delete_cells(experiment_id, [_key(cell) for cell in failed], self._cost(experiment_id, failed))
            self._store.requeue_experiment(experiment_id, NewJob(_kind(experiment), owner))
        self.start()
        return self._store.job(experiment_id)

    def _one_at_a_time(self) -> AbstractContextManager[None]:
        """While something is queued, in whichever process: else more might be queued than there is room for, or the same experiment twice."""
        return self._store.exclusive("queue")

    def _is_over(self, job: Job) -> bool:
        """Whether a foreground job that counts as running ended without being able to say so."""
        if job.kind != FOREGROUND or job.lease_until is None:
            return False
        return (
            job.job_id not in self._here
            if job.holder == self._holder
            else job.lease_until.timestamp() < self._store.now()
        )

    def _cost(self, experiment_id: str, failed: Sequence[QuestionResult]) -> float | None:
        """Dollars of cells that are tried again; None when a price is unknown.

        Without the replies of batches that are kept: the new cell is paid with them.
        """
        payers = {overnight.unit_name(*_key(cell)) for cell in failed}
        kept = sum(call.cost_usd or 0.0 for call in self._store.batch_calls(experiment_id) if call.payer in payers)
        costs = [summary.total(cell.usage).cost_usd for cell in failed]
        return None if None in costs else max(0.0, sum(cost or 0.0 for cost in costs) - kept)

    def _check_room(self, owner: str) -> None:
        if self._store.count_jobs(WAITING) >= self._limit:
            raise Busy(
                f"{self._limit} benchmarks wait or run already, which is the limit (QUEUE_LIMIT). Nothing was started. "
                "Try again when one has ended, or cancel one."
            )
        if self._store.count_jobs(WAITING, owner) >= self._limit_per_user:
            raise Busy(
                f"{self._limit_per_user} of your benchmarks wait or run already, which is the limit (QUEUE_LIMIT_PER_USER). "
                "Nothing was started. Try again when one has ended, or cancel one."
            )

    def start(self) -> None:
        """Make sure that worker threads run, and wake those that sleep."""
        with self._wake:
            if self._closing:
                return
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            for kind, most in self._most.items():
                for _ in range(most - sum(thread.name == kind for thread in self._threads)):
                    thread = threading.Thread(target=self._work, args=(kind,), name=kind, daemon=True)
                    self._threads.append(thread)
                    thread.start()
            self._wake.notify_all()

    def share(self) -> None:
        """Also take the jobs of other processes on the same database: those that wait there too long, and those of a process that died.

        The first look is a moment away, so that a process that lives shorter takes nothing.
        """
        self._look_seconds = min(LOOK_SECONDS, self._lease_seconds / 3)
        self._is_shared = True
        first = threading.Timer(self._look_seconds, self.start)
        first.daemon = True
        first.start()

    def close(self) -> None:
        """Stop after the units in flight. What is not finished goes back into the queue, for another process or the next."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self, kind: str) -> None:
        while True:
            with self._wake:
                if self._closing:
                    return
                job = self._take(kind)
                if job is None:
                    self._wake.wait(timeout=self._look_seconds)
                    continue
            self._carry_out(job)

    def _take(self, kind: str) -> Job | None:
        try:
            if self._is_shared:
                self._store.end_orphans(ORPHANED)
            return self._store.take_job(self._holder, [kind], self._lease_seconds)
        except UserError as error:
            logger.warning("the queue of benchmarks cannot be read: %s", error.message)
            return None

    def _carry_out(self, job: Job) -> None:
        experiment_id = str(job.payload["experiment_id"])
        watch = _Watch(self._store, job, self._holder, self._lease_seconds, lambda: self._closing)
        try:
            experiment = self._store.experiment(experiment_id, cells=False)
            runner = self._runner()
            watch.begin(self._progress(experiment, runner, job))
            ended = runner.run(experiment, watch.note, watch.cancelled)
            if self._closing and not watch.cancel_requested and ended == "cancelled":
                self._store.finish_experiment(experiment_id, "running")
                self._store.release_job(job.job_id, self._holder)
                return
            if self._store.end_job(job.job_id, self._holder, ended, progress=watch.record()) is None:
                self._leave_to_other(job.job_id, experiment_id)
        except UserError as error:
            self._fail(job, experiment_id, error.message)
        except Exception:
            logger.exception("benchmark %s failed", experiment_id)
            self._fail(
                job, experiment_id, f"This is a bug in Chunkscope. Details are in the log under {experiment_id}."
            )
        finally:
            watch.close()

    def _progress(self, experiment: Experiment, runner: Runner, job: Job) -> Progress:
        return Progress(
            experiment,
            len(answer_seeds(experiment.plan, runner.models)),
            self._store.finished_cells(experiment.experiment_id),
            closed_book=experiment.plan.closed_book and runner.models.chat is not None,
            spent_usd=job.progress.get("spent_usd", 0.0),
        )

    def _leave_to_other(self, job_id: str, experiment_id: str) -> None:
        """This process was silent for so long that another took its job: how the experiment stands is the other's to say."""
        job = self._store.job(job_id)
        if job.state == "queued" or job.state == "running":
            self._store.finish_experiment(experiment_id, "running")
        else:
            self._store.finish_experiment(experiment_id, job.state, job.error)

    def _fail(self, job: Job, experiment_id: str, reason: str) -> None:
        """Store that a run could not go on. Where even that cannot be written, until it can, or until the process ends."""
        while True:
            try:
                self._store.finish_experiment(experiment_id, "failed", reason)
                self._store.end_job(job.job_id, self._holder, "failed", error=reason)
                return
            except NotFound:
                self._store.end_job(job.job_id, self._holder, "failed", error=reason)
                return
            except UserError as error:
                logger.error("the end of benchmark %s could not be stored: %s", experiment_id, error.message)
            with self._wake:
                if self._closing or self._wake.wait_for(lambda: self._closing, timeout=AGAIN_SECONDS):
                    return


def _kind(experiment: Experiment) -> str:
    return OVERNIGHT if experiment.plan.batch else KIND


_SETTLED = frozenset({"not_applicable", "scored"})


def _key(cell: QuestionResult) -> tuple[str, str, int]:
    return cell.spec_id, cell.question_id, cell.repeat


def _failed(experiment: Experiment) -> list[QuestionResult]:
    """Cells worth another try: the question failed, or the judge gave no verdict."""
    return [
        cell
        for cell in experiment.cells
        if cell.status not in _SETTLED or any(status not in _SETTLED for status in cell.unscored.values())
    ]


class _Watch:
    """Keeps the lease of a job, stores its progress and hears when someone cancels it."""

    def __init__(self, store: Store, job: Job, holder: str, lease_seconds: float, closing: Callable[[], bool]) -> None:
        self._store = store
        self._job = job
        self._holder = holder
        self._lease_seconds = lease_seconds
        self._closing = closing
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._progress = Progress(spent_usd=job.progress.get("spent_usd", 0.0))
        self.cancel_requested = False
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)
        self._thread.start()

    def begin(self, progress: Progress) -> None:
        with self._lock:
            self._progress = progress

    def note(self, event: Event) -> None:
        with self._lock:
            self._progress.note(event)

    def record(self) -> dict[str, Any]:
        with self._lock:
            return self._progress.record()

    def cancelled(self) -> bool:
        return self.cancel_requested or self._closing()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._ended.wait(0.5):
            try:
                job = self._store.renew_job(self._job.job_id, self._holder, self.record(), self._lease_seconds)
            except UserError as error:
                logger.warning("the lease of benchmark %s could not be renewed: %s", self._job.job_id, error.message)
                continue
            if job is None or job.cancel_requested:
                self.cancel_requested = True
