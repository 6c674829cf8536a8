"""Queries: one question against one strategy spec."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Query as Parameter
from starlette.responses import Response

from app import logs
from app.api import jobs, problems
from app.api.answers import Bench, Id, RespondAsync, address, answer, dumped, patient
from app.api.schemas import QueryBody
from engine.errors import BadRequest
from engine.models import StrategySpec
from engine.records import Query
from engine.workbench import Workbench

router = APIRouter(prefix="/queries", tags=["queries"])


@router.post(
    "",
    status_code=201,
    response_model=Query,
    responses={202: {"model": jobs.JobView}, **problems.responses(400, 401, 404, 409, 422, 429)},
)
async def ask(request: Request, bench: Bench, body: QueryBody, respond_async: RespondAsync) -> Response:
    """Ask a question. Documents are indexed first where they are not yet. A search or a model call that fails is in the record, as `status` and `error`."""
    spec = _spec(bench, body)
    # The question is asked in threads of the Workbench, so it is answered and stored even when the client goes away.
    asking = await patient(
        bench.start_asking, body.question, [spec], body.document_ids, body.top_k, logs.request_id.get()
    )
    if respond_async:
        return jobs.begin(request, "query", lambda: asking.wait()[0])
    query = (await patient(asking.wait))[0]
    headers = {"Location": address(request, f"/queries/{query.query_id}")}
    return Response(dumped(query), 201, headers, media_type="application/json")


@router.get("", response_model=list[Query], responses=problems.responses(401, 422))
async def list_queries(
    bench: Bench,
    limit: Annotated[int, Parameter(ge=1, le=200)] = 20,
    request_id: Annotated[
        str | None, Parameter(pattern="^[A-Za-z0-9._-]{1,64}$", description="Only those of one request.")
    ] = None,
) -> Response:
    """The newest queries, newest first."""
    return await answer(lambda: bench.queries(limit, request_id))


@router.get("/{query_id}", response_model=Query, responses=problems.responses(401, 404, 422))
async def get_query(request: Request, bench: Bench, query_id: Id) -> Response:
    """A stored query."""
    return await answer(lambda: bench.query(query_id), unchanging_for=request)


def _spec(workbench: Workbench, body: QueryBody) -> StrategySpec:
    if (body.strategy is None) == (body.spec is None):
        raise BadRequest("Give either `strategy` or `spec`. Nothing was asked.")
    return body.spec.spec(workbench) if body.spec is not None else workbench.written_spec(body.strategy or "")
