"""Strategies: what there is, what each is for, and its parameters as JSON schema."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api import problems
from app.api.answers import Bench, answer
from app.api.schemas import StrategyView
from engine.errors import NeedsModel
from engine.index.base import collection_name
from engine.workbench import Workbench

router = APIRouter(prefix="/strategies", tags=["strategies"])


@router.get("", response_model=list[StrategyView], responses=problems.responses(401))
async def list_strategies(request: Request, bench: Bench) -> Response:
    """All strategies, in the order every page shows them."""
    return await answer(lambda: views(bench), unchanging_for=request)


def views(workbench: Workbench) -> list[StrategyView]:
    found = []
    for strategy in workbench.strategies():
        try:
            strategy.check_models(workbench.models)
            reason = None
        except NeedsModel as error:
            reason = error.message
        found.append(
            StrategyView(
                name=strategy.name,
                title=strategy.title,
                rule=strategy.rule,
                best_for=strategy.best_for,
                avoid_when=strategy.avoid_when,
                cost=strategy.cost,
                needs=sorted(strategy.needs),
                available=reason is None,
                unavailable_because=reason,
                collection=collection_name(strategy.name),
                defaults=workbench.spec(strategy.name),
                parameters=strategy.params_type.model_json_schema(),
            )
        )
    return found
