"""What a reader should know of each strategy before choosing one, as one record."""

from __future__ import annotations

from functools import cache
from typing import Any

from engine.errors import NeedsModel
from engine.index.base import collection_name
from engine.models import Record, StrategySpec
from engine.providers.base import Models
from engine.strategies.base import Params, Strategy


class StrategyInfo(Record):
    name: str
    title: str
    rule: str
    best_for: str
    avoid_when: str
    cost: str
    needs: tuple[str, ...]
    """Models it cannot work without."""
    available: bool
    """Whether those models are configured."""
    unavailable_because: str | None
    collection: str
    defaults: StrategySpec
    parameters: dict[str, Any]
    """JSON schema of its parameters."""


def describe(strategy: Strategy[Any], defaults: StrategySpec, models: Models) -> StrategyInfo:
    """`defaults`: its spec when nothing is given."""
    try:
        strategy.check_models(models)
        reason = None
    except NeedsModel as error:
        reason = error.message
    return StrategyInfo(
        name=strategy.name,
        title=strategy.title,
        rule=strategy.rule,
        best_for=strategy.best_for,
        avoid_when=strategy.avoid_when,
        cost=strategy.cost,
        needs=tuple(sorted(strategy.needs)),
        available=reason is None,
        unavailable_because=reason,
        collection=collection_name(strategy.name),
        defaults=defaults,
        parameters=_schema(strategy.params_type),
    )


@cache
def _schema(params_type: type[Params]) -> dict[str, Any]:
    return params_type.model_json_schema()
