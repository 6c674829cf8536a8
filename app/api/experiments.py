"""Experiments beside each other."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from app.api import problems
from app.api.answers import Bench, answer
from engine.bench.gate import Check
from engine.bench.history import ExperimentComparison

router = APIRouter(prefix="/experiments", tags=["benchmarks"])

_Id = Annotated[str, Query(pattern="^[0-9A-Za-z_-]{1,64}$")]


@router.get("/compare", response_model=ExperimentComparison, responses=problems.responses(400, 401, 404, 422))
async def compare(
    bench: Bench,
    ids: Annotated[
        list[str], Query(max_length=10, description="Two to four experiments: `ids=A&ids=B`, or `ids=A,B`.")
    ],
) -> Response:
    """Against the first: settings that differ, metrics on the common questions with intervals, questions by regression."""
    every = [each.strip() for part in ids for each in part.split(",") if each.strip()]
    return await answer(lambda: bench.compare(every))


@router.get("/check", response_model=Check, responses=problems.responses(400, 401, 404, 422))
async def check(
    bench: Bench,
    baseline: _Id,
    candidate: _Id,
    metric: Annotated[str, Query(max_length=100, examples=["recall@1000tok"])] = "recall@1000tok",
    max_drop: Annotated[float, Query(ge=0, le=1_000_000)] = 0.02,
) -> Response:
    """Whether a candidate is worse than a baseline by more than it may be: `pass`, `regression` or `cannot_tell`."""
    return await answer(lambda: bench.check(baseline, candidate, metric, max_drop))
