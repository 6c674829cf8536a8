"""Units carried out by the workers of a Dask cluster. Through the scheduler go ids, settings without keys, usage and errors in words."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from engine.bench.closed_book import ClosedBook
from engine.bench.open_spec import Indexes, OpenSpec
from engine.errors import BadSetting, ModelCallFailed, WorkersUnavailable
from engine.executor import worker
from engine.executor.base import AskDone, Asked, AskTask, Failure, IndexDone, IndexTask, Unit
from engine.executor.local import LocalExecutor
from engine.records import DocumentRef, QuestionResult
from engine.settings import Settings
from engine.store import Store

if TYPE_CHECKING:
    from distributed import Client, Future

AHEAD = 8
"""Documents of one spec that are with the workers at once."""
CONNECT_SECONDS = 20.0
NO_WORKER_SECONDS = 60.0
"""How long a run waits for the first worker, or for another one when all are gone."""
_LOOK_SECONDS = 0.5
"""Between two looks at whether the run was told to stop."""
_MOST_LOST = 3
"""Times a task is sent again whose result the scheduler lost with a worker."""


class DaskExecutor:
    """Sends units to a Dask cluster; connects when the first one is sent. The workers store what they make, so `store` has it.

    A task whose worker is lost goes to another one, which finds what was stored before.
    Raises BadSetting when `distributed` is not installed.
    """

    batch = 4
    asks_here = False

    def __init__(self, settings: Settings, store: Store) -> None:
        if importlib.util.find_spec("distributed") is None:
            raise BadSetting(
                "DASK_SCHEDULER_ADDRESS is set and Dask is not installed. Nothing was started. Run `pip install -r requirements-scale.txt`, "
                "or remove the setting."
            )
        self._address = settings.dask_scheduler_address or ""
        self._sent = worker.sent(settings)
        self._store = store
        self._local = LocalExecutor()
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._ahead: dict[tuple[str, str], dict[int, Future[Any]]] = {}

    def index(
        self, indexes: Indexes, documents: Sequence[DocumentRef], place: int, stopping: Callable[[], bool]
    ) -> tuple[float | None, Exception | None]:
        document = documents[place]
        done = self._wait(*self._indexing(indexes, documents, place), stopping)
        if done is None:
            error = ModelCallFailed("The run was stopped before this document was indexed. Resume it.", "cancelled")
            indexes.fail(document, error.message)
            return 0.0, error
        if isinstance(done, Failure):
            done = IndexDone({}, done)
        cost = indexes.spend(done.usage)
        if done.failure is not None:
            _check_settings(done.failure)
            indexes.fail(document, done.failure.message)
            return cost, done.failure.error()
        more, error_here = indexes.add(document)
        return (None if cost is None or more is None else cost + more), error_here

    def _indexing(
        self, indexes: Indexes, documents: Sequence[DocumentRef], place: int
    ) -> tuple[Future[Any], Callable[[], Future[Any]]]:
        """The task of one document, and what sends it again; those that follow it are sent as well, as many as may be under way."""
        experiment = indexes.experiment
        # What is under way cannot be taken back, so a run with a budget begins no document before the one ahead of it is paid.
        width = AHEAD if experiment.plan.budget_usd is None else 1
        client = self._connected()
        with self._lock:
            sent = self._ahead.setdefault((experiment.experiment_id, indexes.spec.spec_id), {})

        def send(number: int) -> Future[Any]:
            task = IndexTask(experiment.experiment_id, indexes.spec.spec_id, documents[number].document_id)
            return self._submit(client, worker.index, task)

        for number in range(place, min(place + width, len(documents))):
            if number not in sent:
                sent[number] = send(number)
        return sent.pop(place), lambda: send(place)

    def ask(
        self, opened: OpenSpec | ClosedBook, units: Sequence[Unit], stopping: Callable[[], bool]
    ) -> Iterator[Asked]:
        if isinstance(opened, ClosedBook):
            yield from self._local.ask(opened, units, stopping)
            return
        asked = tuple((unit.question.question_id, unit.repeat, unit.seed) for unit in units)
        task = AskTask(opened.experiment_id, opened.spec.spec_id, opened.chunk_count, asked)

        def send() -> Future[Any]:
            return self._submit(self._connected(), worker.ask, task)

        done: list[AskDone] | Failure | None = self._wait(send(), send, stopping)
        if done is None:
            return
        if isinstance(done, Failure):
            done = [AskDone(question_id, repeat, stored=False, failure=done) for question_id, repeat, _ in asked]
        for each in done:
            yield self._asked(task, each)

    def _asked(self, task: AskTask, done: AskDone) -> Asked:
        if done.failure is not None:
            _check_settings(done.failure)
        words = "" if done.failure is None else done.failure.message
        error = None if done.failure is None else done.failure.error()
        cell = (
            self._store.cell(task.experiment_id, task.spec_id, done.question_id, done.repeat) if done.stored else None
        )
        if cell is not None:
            return Asked(cell, error, stored=True)
        failed = QuestionResult(
            question_id=done.question_id, spec_id=task.spec_id, status="failed", repeat=done.repeat, error=words
        )
        return Asked(failed, error, stored=False)

    def release(self, experiment_id: str) -> None:
        with self._lock:
            ended = [key for key in self._ahead if key[0] == experiment_id]
            left = [future for key in ended for future in self._ahead.pop(key).values()]
        for future in left:
            future.cancel()

    def health(self) -> str:
        workers = self._connected().scheduler_info(n_workers=-1)["workers"]
        if not workers:
            raise WorkersUnavailable(
                f"The Dask scheduler at {self._address} answers and has no workers. Start some, then try again."
            )
        threads = sum(each["nthreads"] for each in workers.values())
        return f"The Dask scheduler at {self._address} answers and has {len(workers)} workers with {threads} threads."

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
            self._ahead.clear()
        if client is not None:
            client.close()

    def _connected(self) -> Client:
        from distributed import Client

        with self._lock:
            if self._client is None or self._client.status in ("closed", "closing"):
                try:
                    self._client = Client(
                        self._address, timeout=CONNECT_SECONDS, set_as_default=False, name="chunkscope"
                    )
                except (OSError, TimeoutError, ValueError) as error:
                    raise WorkersUnavailable(
                        f"The Dask scheduler at {self._address} cannot be reached. What is finished is kept. Check DASK_SCHEDULER_ADDRESS "
                        "and that the scheduler runs, then resume."
                    ) from error
            return self._client

    def _submit(
        self, client: Client, function: Callable[[Mapping[str, Any], Any], Any], task: IndexTask | AskTask
    ) -> Future[Any]:
        # Impure: a task that was done before may have to be done again, after its cells were deleted.
        return client.submit(function, self._sent, task, pure=False)

    def _wait(self, future: Future[Any], again: Callable[[], Future[Any]], stopping: Callable[[], bool]) -> Any:
        """What the task gave; None when the run stops first; a Failure when the task has ended several workers.

        A result that is lost with its worker is asked for again: the task finds what it stored. Raises WorkersUnavailable.
        """
        from distributed import KilledWorker

        alone_since: float | None = None
        lost = 0
        while True:
            try:
                ended, result = future.client.sync(_outcome, future, callback_timeout=_LOOK_SECONDS)
                if ended:
                    return result
            except (TimeoutError, CancelledError):
                pass
            except KilledWorker:
                return Failure(
                    "BadRequest",
                    "The Dask workers that took this up ended, several in a row. The rest goes on. They may have too little memory for it.",
                )
            except OSError as error:
                raise self._lost() from error
            if stopping():
                future.cancel()
                return None
            if future.cancelled():
                lost += 1
                if lost > _MOST_LOST or future.client.status != "running":
                    raise self._lost()
                future = again()
            alone_since = self._alone_since(alone_since)

    def _lost(self) -> WorkersUnavailable:
        return WorkersUnavailable(
            f"The Dask scheduler at {self._address} was lost. What is finished is kept. Start it, then resume."
        )

    def _alone_since(self, before: float | None) -> float | None:
        """Since when there has been no worker; None while there is one. Raises WorkersUnavailable when that takes too long."""
        client = self._connected()
        if client.scheduler_info()["workers"]:
            return None
        now = time.monotonic()
        since = now if before is None else before
        if now - since > NO_WORKER_SECONDS:
            raise WorkersUnavailable(
                f"The Dask scheduler at {self._address} has had no worker for {NO_WORKER_SECONDS:.0f} seconds. What is finished is kept. "
                "Start workers, then resume."
            )
        return since


async def _outcome(future: Future[Any]) -> tuple[bool, Any]:
    """Whether the task has ended, and what it gave. Dask's own `result` fails in a way of its own when the wait is cancelled inside."""
    try:
        return True, await future
    except asyncio.CancelledError:
        return False, None


def _check_settings(failure: Failure) -> None:
    """Raises WorkersUnavailable where a worker could not begin: every other unit would meet the same."""
    if failure.kind == "BadSetting":
        raise WorkersUnavailable(failure.message)
