"""The model calls of a dry run, counted by stage, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from engine.bench.estimate import NOTHING, Range, StageEstimate, StageName
from engine.bench.plan import answer_with, judged_by
from engine.providers.base import Models
from engine.providers.prices import Prices
from engine.records import Plan

STAGES: tuple[StageName, ...] = get_args(StageName)
BATCHED: tuple[StageName, ...] = ("answers", "judge", "calibration")
"""Stages that an overnight run sends as batches."""


@dataclass
class Calls:
    """Calls of one stage that no cache answers, with their tokens, and the number of those it does."""

    calls: Range = NOTHING
    cached: int = 0
    input: Range = NOTHING
    output: Range = NOTHING

    def add(self, calls: Range, tokens_in: Range, tokens_out: Range = NOTHING, cached: int = 0) -> None:
        self.calls = self.calls.plus(calls)
        self.input = self.input.plus(tokens_in)
        self.output = self.output.plus(tokens_out)
        self.cached += cached


class Tally:
    """Calls per stage of a plan, priced for the models that would be asked."""

    def __init__(self, plan: Plan, models: Models, prices: Prices) -> None:
        self._plan = plan
        self._prices = prices
        self._calls = {name: Calls() for name in STAGES}
        self._models = {
            "context": models.chat,
            "embedding": models.embedder,
            "answers": models.chat if plan.closed_book else answer_with(plan, models),
            "judge": models.judge if plan.judge else None,
            "calibration": judged_by(plan, models),
        }

    def __getitem__(self, name: StageName) -> Calls:
        return self._calls[name]

    def include(self, other: Tally) -> None:
        """Count the calls of another tally of the same plan with these."""
        for name, calls in other._calls.items():
            self[name].add(calls.calls, calls.input, calls.output, calls.cached)

    def estimates(self) -> tuple[StageEstimate, ...]:
        return tuple(self.estimate(name) for name in STAGES)

    def estimate(self, name: StageName) -> StageEstimate:
        stage, model = self._calls[name], self._models[name]
        cost: Range | None = NOTHING
        if model is not None and stage.calls.high > 0:
            cost = self._cost(model.model, stage, self._plan.batch and name in BATCHED)
        return StageEstimate(
            stage=name,
            model=None if model is None else model.model,
            calls=stage.calls,
            cached_calls=stage.cached,
            input_tokens=_whole(stage.input),
            output_tokens=_whole(stage.output),
            cost_usd=cost,
        )

    def cost(self, end: Literal["low", "expected", "high"], stages: Sequence[StageName] = STAGES) -> float | None:
        """Dollars of some stages at one end of their ranges; None when a price is unknown."""
        costs = [self.estimate(name).cost_usd for name in stages]
        return total_usd(None if cost is None else float(getattr(cost, end)) for cost in costs)

    def overnight_cost(self) -> float | None:
        """Expected dollars with answers and verdicts at the batch price; None when a price is unknown."""
        factor = 1.0 if self._plan.batch else self._prices.batch_factor
        costs = [(stage.cost_usd, factor if stage.stage in BATCHED else 1.0) for stage in self.estimates()]
        return total_usd(None if cost is None else cost.expected * share for cost, share in costs)

    def _cost(self, model: str, stage: Calls, batch: bool) -> Range | None:
        values = [
            self._prices.cost(model, round(getattr(stage.input, each)), round(getattr(stage.output, each)), batch=batch)
            for each in ("low", "expected", "high")
        ]
        if any(value is None for value in values):
            return None
        low, expected, high = (float(value or 0.0) for value in values)
        return Range(low=low, expected=expected, high=high)


def total_usd(costs: Iterable[float | None]) -> float | None:
    """The sum; None when one is unknown."""
    found = list(costs)
    return None if any(cost is None for cost in found) else math.fsum(cost or 0.0 for cost in found)


def _whole(amount: Range) -> Range:
    return Range(low=round(amount.low), expected=round(amount.expected), high=round(amount.high))
