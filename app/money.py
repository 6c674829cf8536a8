"""Dollars in words: an unknown price is said to be unknown, never 0."""

from __future__ import annotations

from app.text import counted
from engine.bench.dry_run import DryRun
from engine.providers.estimate import CallsEstimate


def dollars(amount: float | None) -> str:
    if amount is None:
        return "price unknown"
    if amount == 0:
        return "no cost"
    return f"{amount:.4f} USD" if amount < 0.01 else f"{amount:.2f} USD"


def in_short(dry_run: DryRun) -> str:
    """Calls and cost of a dry run, as one sentence."""
    if not dry_run.estimated_calls and any(stage.cached_calls for stage in dry_run.stages):
        return "Every model call is in the cache: no cost."
    if not dry_run.estimated_calls:
        return "No model is called over the network: no cost."
    calls = f"About {dry_run.estimated_calls:,} model calls"
    if dry_run.estimated_cost_usd is None:
        return f"{calls}. The price of a model is unknown, so the cost is too."
    return f"{calls}, {dollars(dry_run.estimated_cost_usd)}, at most {dollars(dry_run.high_cost_usd)}."


def calls_in_short(estimate: CallsEstimate) -> str:
    """Calls and the most they can cost, as one sentence."""
    if not estimate.calls:
        return "Every model call is in the cache: no cost."
    calls = counted(estimate.calls, "call")
    if estimate.most_cost_usd is None:
        return f"{calls} to {estimate.model}. The price of this model is unknown, so the cost is too."
    return f"{calls} to {estimate.model}, at most {dollars(estimate.most_cost_usd)}."
