"""Strategies: what there is, what each is for, and its parameters as JSON schema."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api import problems
from app.api.answers import Bench, answer
from engine.strategies.describe import StrategyInfo

router = APIRouter(prefix="/strategies", tags=["strategies"])


@router.get("", response_model=list[StrategyInfo], responses=problems.responses(401))
async def list_strategies(request: Request, bench: Bench) -> Response:
    """All strategies, in the order every page shows them."""
    return await answer(bench.strategy_infos, unchanging_for=request)
