"""What this process has asked of model servers since it started, for whoever watches it."""

from __future__ import annotations

import threading
from typing import NamedTuple

from engine.providers.base import Usage


class Total(NamedTuple):
    model: str
    calls: int = 0
    """Calls that were sent, repeated tries included."""
    failed: int = 0
    """Calls among them that gave no answer."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    """Dollars of the answers with a known price."""
    unpriced: int = 0
    """Answers whose price is unknown."""


_lock = threading.Lock()
_totals: dict[str, Total] = {}


def called(model: str, answered: bool) -> None:
    """Count one try of a call."""
    with _lock:
        total = _totals.get(model, Total(model))
        _totals[model] = total._replace(calls=total.calls + 1, failed=total.failed + (not answered))


def spent(model: str, usage: Usage) -> Usage:
    """Count the tokens and dollars of one answer; returns them as they are."""
    with _lock:
        total = _totals.get(model, Total(model))
        _totals[model] = total._replace(
            input_tokens=total.input_tokens + usage.input_tokens,
            output_tokens=total.output_tokens + usage.output_tokens,
            cost_usd=total.cost_usd + (usage.cost_usd or 0.0),
            unpriced=total.unpriced + (usage.cost_usd is None),
        )
    return usage


def totals() -> list[Total]:
    """By model, in alphabetical order."""
    with _lock:
        return [_totals[model] for model in sorted(_totals)]
