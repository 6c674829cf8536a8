"""What a reader of a dry run should know beside its figures."""

from __future__ import annotations

from collections.abc import Mapping

from engine.bench.plan import answer_with, judged_by
from engine.bench.tally import Tally
from engine.providers.base import Models
from engine.providers.prices import Prices
from engine.records import Plan


def notes(
    plan: Plan, models: Models, prices: Prices, tally: Tally, problems: Mapping[str, str], *, embeds_here: bool
) -> tuple[str, ...]:
    """One sentence each. `problems`: why a spec would fail, by its label. `embeds_here`: whether embeddings call no server."""
    found = [f"{label} will fail: {problem}" for label, problem in problems.items()]
    stages = tally.estimates()
    found.extend(
        f"The price of {stage.model} ({stage.stage}) is not known, so the cost is not either. Name it in PRICES_FILE."
        for stage in stages
        if stage.cost_usd is None
    )
    cached = sum(stage.cached_calls for stage in stages)
    if cached:
        found.append(f"{cached:,} calls are answered from the cache and cost nothing.")
    if embeds_here:
        found.append("Embeddings are computed on this machine: no calls, no cost.")
    if plan.batch:
        found.append(
            f"Answers and verdicts go through the provider's batch endpoint: each stage ends within a day, at {prices.batch_factor:.0%} "
            f"of the price (table of {prices.as_of}). Contexts and embeddings are asked for directly."
        )
    if plan.answers and models.chat is None:
        found.append("Answers are extractive, no model writes them.")
    if plan.judge and models.judge is None:
        found.append("There is no judge model, so answers are not judged. Set OPENAI_API_KEY or JUDGE_BASE_URL.")
    elif plan.judge and judged_by(plan, models) is None:
        found.append("Only answers that a model wrote are judged, and none will be.")
    if plan.repeats > 1 and answer_with(plan, models) is None:
        found.append("Repeats change nothing without a chat model, so each question is asked once.")
    found.extend(_on_budget(plan.budget_usd, tally.cost("expected"), tally.cost("high")))
    return tuple(found)


def _on_budget(budget: float | None, expected: float | None, high: float | None) -> list[str]:
    if budget is None:
        return []
    if high is None:
        return ["The budget cannot be kept while a price is unknown, so the benchmark will not start."]
    if expected is not None and expected > budget:
        return [
            f"The expected cost of ${expected:.4f} is above the budget of ${budget:.4f}: the run would stop before its end and keep what is finished."
        ]
    if high > budget:
        return [f"At the high end (${high:.4f}) the budget of ${budget:.4f} would stop the run before its end."]
    return []
