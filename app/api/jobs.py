"""Work that a client does not wait for: benchmarks are jobs of the Workbench, shorter work is remembered here while the process lives."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from app import logs
from app.api import problems
from app.api.answers import Bench, Id, address, answer, quick
from engine import UserError, ids
from engine.errors import Busy, NotFound
from engine.store import Job
from engine.workbench import Workbench

logger = logging.getLogger(__name__)

JobState = Literal["queued", "running", "finished", "failed", "cancelled"]
ENDED = ("finished", "failed", "cancelled")
REMEMBERED = 1000
"""Ended pieces of short work whose results are kept."""
THREADS = 16
POLL_SECONDS = 0.2

router = APIRouter(tags=["jobs"])


stopping = threading.Event()
"""Set when this process was asked to stop: who waits for a benchmark is answered, so that the server can close."""


class Stopping(UserError):
    status = 503


class JobView(BaseModel):
    """Work in the background."""

    job_id: str
    kind: str = Field(examples=["benchmark"])
    state: JobState
    error: str | None = None
    """Why it failed, in words."""
    progress: dict[str, Any] = Field(default_factory=dict)
    """Per stage, where the work tells."""
    created_at: datetime
    job_url: str
    result_url: str | None = None
    """What the same request without `Prefer: respond-async` would have answered; null until there is a result."""


@dataclass
class _Work:
    kind: str
    created_at: datetime
    future: Future[Any]


class Background:
    """Short work that outlives its request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(THREADS, "api")
        self._known: OrderedDict[str, _Work] = OrderedDict()

    def start(self, kind: str, work: Callable[[], Any]) -> str:
        """Begin; returns the id of the job. Raises Busy when too much is waiting."""
        with self._lock:
            waiting = sum(not each.future.done() for each in self._known.values())
            if waiting >= REMEMBERED:
                raise Busy(f"{waiting} jobs wait already. Nothing was begun. Try again later.")
            job_id = ids.new_id()
            request = logs.request_id.get()
            future = self._pool.submit(_with_request, request, work)
            self._known[job_id] = _Work(kind, datetime.now(UTC), future)
            ended = [key for key, each in self._known.items() if each.future.done()]
            for key in ended[: max(0, len(self._known) - REMEMBERED)]:
                del self._known[key]
        return job_id

    def get(self, job_id: str) -> _Work | None:
        with self._lock:
            return self._known.get(job_id)


def _with_request(request: str | None, work: Callable[[], Any]) -> Any:
    logs.request_id.set(request)
    try:
        return work()
    except UserError:
        raise
    except Exception:
        logger.exception("background work failed")
        raise


def _of_work(request: Request, job_id: str, work: _Work) -> JobView:
    state: JobState = "running" if work.future.running() else "queued"
    error = None
    if work.future.done():
        failure = work.future.exception()
        state = "finished" if failure is None else "failed"
        if failure is not None:
            error = failure.message if isinstance(failure, UserError) else "This is a bug in Chunkscope. See the log."
    return _view(request, job_id, work.kind, state, error, {}, work.created_at)


def of_job(request: Request, job: Job) -> JobView:
    return _view(request, job.job_id, job.kind, job.state, job.error, job.progress, job.created_at)


def _view(
    request: Request,
    job_id: str,
    kind: str,
    state: JobState,
    error: str | None,
    progress: dict[str, Any],
    created_at: datetime,
) -> JobView:
    url = address(request, f"/jobs/{job_id}")
    return JobView(
        job_id=job_id,
        kind=kind,
        state=state,
        error=error,
        progress=progress,
        created_at=created_at,
        job_url=url,
        result_url=f"{url}/result" if state in ENDED else None,
    )


def accepted(request: Request, view: JobView) -> Response:
    """202 with the job to poll."""
    headers = {"Location": view.job_url, "Retry-After": "1", "Preference-Applied": "respond-async"}
    return Response(view.model_dump_json(), 202, headers, media_type="application/json")


def begin(request: Request, kind: str, work: Callable[[], Any]) -> Response:
    """Start short work and answer 202."""
    background: Background = request.app.state.background
    job_id = background.start(kind, work)
    found = background.get(job_id)
    if found is None:
        raise NotFound(f"There is no job {job_id}.")
    return accepted(request, _of_work(request, job_id, found))


def accepted_job(request: Request, job: Job) -> Response:
    return accepted(request, of_job(request, job))


async def ended(workbench: Workbench, job_id: str) -> Job:
    """The job once it has ended, however long that takes. A client that goes away stops nothing. Raises Stopping when the app stops first."""
    while True:
        job = await quick(workbench.job, job_id)
        if job.state in ENDED:
            return job
        if stopping.is_set():
            raise Stopping(
                f"The app is stopping. What is finished of benchmark {job_id} is kept, and it goes on when the app starts again."
            )
        await asyncio.sleep(POLL_SECONDS)


@router.get("/jobs", response_model=list[JobView], responses=problems.responses(401))
async def list_jobs(request: Request, bench: Bench) -> Response:
    """Benchmarks that wait or run, oldest first."""
    return await answer(lambda: [of_job(request, job) for job in bench.jobs()])


@router.get("/jobs/{job_id}", response_model=JobView, responses=problems.responses(401, 404, 422))
async def get_job(request: Request, bench: Bench, job_id: Id) -> Response:
    """How far a job is. Jobs of queries and indexing are remembered until the app stops; those of benchmarks stay."""
    work = request.app.state.background.get(job_id)
    if work is not None:
        return await answer(lambda: _of_work(request, job_id, work))
    return await answer(lambda: of_job(request, bench.job(job_id)))


@router.get("/jobs/{job_id}/result", responses=problems.responses(401, 404, 409, 422))
async def get_result(request: Request, bench: Bench, job_id: Id) -> Response:
    """What the request would have answered had it waited. A failure is the same problem."""
    work = request.app.state.background.get(job_id)
    if work is not None:
        if not work.future.done():
            raise _NotYet(f"Job {job_id} has not ended. Poll it, then come back.")
        return await answer(work.future.result)

    def experiment() -> Any:
        job = bench.job(job_id)
        if job.state not in ENDED:
            raise _NotYet(f"Job {job_id} has not ended. Poll it, then come back.")
        return bench.experiment(job_id)

    return await answer(experiment)


class _NotYet(UserError):
    status = 409
