"""Benchmarks and the experiments they become."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from typing import IO, Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from app import logs
from app.api import jobs, problems
from app.api.answers import Bench, Id, Page, Pages, RespondAsync, address, answer, dumped, patient, quick
from app.api.schemas import BenchmarkBody, specs_of
from engine.bench.dry_run import DryRun
from engine.errors import BadRequest, StoreUnavailable
from engine.records import Experiment, Plan, QuestionSet
from engine.report import Exported, Format
from engine.store import ExperimentSummary, Job
from engine.workbench import Workbench

router = APIRouter(prefix="/benchmarks", tags=["benchmarks"])

_PIECE = 256 * 1024
"""Bytes of a file that are sent at a time."""

_OPTIONS = {"name", "top_k", "retriever", "answers", "judge", "closed_book", "batch", "repeats", "seed", "budget_usd"}


@router.post(
    "",
    status_code=201,
    response_model=Experiment,
    responses={
        200: {"model": DryRun, "description": "The estimate of a dry run."},
        202: {"model": jobs.JobView},
        **problems.responses(400, 401, 402, 404, 409, 422, 429, 503),
    },
)
async def start(
    request: Request,
    bench: Bench,
    body: BenchmarkBody,
    respond_async: RespondAsync,
    dry_run: Annotated[
        bool, Query(description="Only estimate calls, tokens and cost. Calls no model, stores nothing.")
    ] = False,
) -> Response:
    """Run strategies against questions and answer with the experiment. It goes on when the client goes away."""
    plan, question_set = await patient(_plan, bench, body, not dry_run)
    if dry_run:
        return Response(dumped(await patient(bench.dry_run, plan, question_set)), media_type="application/json")
    job = await patient(bench.submit, plan, request.state.owner, logs.request_id.get())
    return await _outcome(request, bench, job, respond_async, 201)


@router.get("", response_model=Page[ExperimentSummary], responses=problems.responses(401, 422))
async def list_benchmarks(bench: Bench, page: Pages) -> Response:
    """All experiments, newest first."""
    return await answer(lambda: page.of(bench.experiments()))


@router.get("/{experiment_id}", response_model=Experiment, responses=problems.responses(401, 404, 422))
async def get_benchmark(
    request: Request,
    bench: Bench,
    experiment_id: Id,
    queries: Annotated[
        bool, Query(description="Whether cells come with answers and retrieved chunks, most of the bytes.")
    ] = True,
) -> Response:
    """The whole record of an experiment."""
    ended = (await quick(bench.experiment, experiment_id, queries=False)).status != "running"
    return await answer(
        lambda: bench.experiment(experiment_id, queries=queries), unchanging_for=request if ended else None
    )


@router.get(
    "/{experiment_id}/report",
    response_class=HTMLResponse,
    responses=problems.responses(401, 404, 422),
)
async def get_report(bench: Bench, experiment_id: Id) -> Response:
    """The report as one HTML file that opens offline."""
    return await _file(bench, experiment_id, "html", "inline")


@router.get(
    "/{experiment_id}/export",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}, **problems.responses(400, 401, 404, 422)},
)
async def export(
    bench: Bench,
    experiment_id: Id,
    kind: Annotated[Format, Query(alias="format")] = "json",
) -> Response:
    """An experiment as a file."""
    return await _file(bench, experiment_id, kind, "attachment")


async def _file(bench: Workbench, experiment_id: str, kind: Format, shown: str) -> Response:
    exported, file = await patient(_written, bench, experiment_id, kind)
    # The report holds answers of models: whatever they wrote, no script runs in it.
    headers = {
        "Content-Disposition": f"{shown}; filename*=UTF-8''{quote(exported.name)}",
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox",
        "Content-Length": str(os.fstat(file.fileno()).st_size),
    }
    return StreamingResponse(_pieces(file), media_type=exported.media_type, headers=headers)


def _written(bench: Workbench, experiment_id: str, kind: Format) -> tuple[Exported, IO[bytes]]:
    """The export as a temporary file without a name, which is gone when it is closed.

    It is written before the answer begins, so that the answer is the whole file or says what is wrong, and no slow client keeps
    the database waiting. Raises NotFound, StoreUnavailable.
    """
    exported = bench.export(experiment_id, kind)
    try:
        file = tempfile.TemporaryFile()  # noqa: SIM115  closed by `_pieces`, when the answer is sent
        try:
            exported.write(file)
            file.seek(0)
        except BaseException:
            file.close()
            raise
    except OSError as error:
        raise StoreUnavailable(
            f"The export cannot be written to the server's temporary folder: {error.strerror}. The experiment is as it was. "
            "Make room there, or start the app with TMPDIR set to another folder."
        ) from None
    return exported, file


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE):
            yield piece


@router.post("/{experiment_id}/cancel", response_model=jobs.JobView, responses=problems.responses(401, 404, 422))
async def cancel(request: Request, bench: Bench, experiment_id: Id) -> Response:
    """Ask a benchmark to stop. What is finished is kept, and it can be resumed."""
    return await answer(lambda: jobs.of_job(request, bench.cancel(experiment_id)))


@router.post(
    "/{experiment_id}/resume",
    response_model=Experiment,
    responses={202: {"model": jobs.JobView}, **problems.responses(401, 404, 422, 429, 503)},
)
async def resume(
    request: Request,
    bench: Bench,
    experiment_id: Id,
    respond_async: RespondAsync,
    budget_usd: Annotated[
        float | None,
        Query(ge=0, le=1_000_000, description="A new budget for the whole run; left as it is when absent."),
    ] = None,
) -> Response:
    """Go on with a benchmark that was cancelled or failed. Only what is missing or failed is done and paid for."""
    job = await patient(bench.resume, experiment_id, budget_usd, request.state.owner)
    return await _outcome(request, bench, job, respond_async, 200)


async def _outcome(request: Request, workbench: Workbench, job: Job, respond_async: bool, status: int) -> Response:
    if respond_async:
        return jobs.accepted_job(request, job)
    await jobs.ended(workbench, job.job_id)
    return await answer(
        lambda: workbench.experiment(job.job_id),
        status,
        location=lambda experiment: address(request, f"/benchmarks/{experiment.experiment_id}"),
    )


def _plan(workbench: Workbench, body: BenchmarkBody, store: bool) -> tuple[Plan, QuestionSet]:
    if (body.question_set_id is None) == (body.question is None):
        raise BadRequest("Give either `question_set_id` or `question`. Nothing was run.")
    if body.question is not None:
        name = body.name or body.question.question[:60]
        data = json.dumps({"name": name, "questions": [body.question.row()]}).encode()
        question_set = workbench.add_question_set(data, f"{name}.json", body.document_ids, store=store)
    else:
        question_set = workbench.question_set(body.question_set_id or "")
    specs = specs_of(workbench, [*body.specs]) + workbench.written_specs([], body.grids)
    options: dict[str, Any] = body.model_dump(include=_OPTIONS)
    if body.baseline is not None:
        by_id = any(spec.spec_id == body.baseline for spec in specs)
        options["baseline"] = body.baseline if by_id else workbench.written_spec(body.baseline).spec_id
    return workbench.plan(question_set, specs, body.document_ids, **options), question_set
