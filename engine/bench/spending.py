"""What a run has spent, and the budget that stops it before it would spend more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from engine.errors import BudgetExceeded


class Spending:
    """Dollars of one run. Safe to use from several threads.

    A unit of work reserves what the dearest unit of its kind has cost so far, or the given estimate where that is more, so that units
    which run at once cannot together exceed the budget by more than one of them misjudges.
    """

    def __init__(self, spent_usd: float | None, budget_usd: float | None) -> None:
        self._lock = threading.Lock()
        self._spent = spent_usd
        self._budget = budget_usd
        self._reserved = 0.0
        self._dearest: dict[str, float] = {}

    @property
    def spent_usd(self) -> float | None:
        """None: a price is unknown."""
        with self._lock:
            return self._spent

    def add(self, kind: str, cost_usd: float | None) -> None:
        """Count what a unit has cost. None: unknown."""
        with self._lock:
            if cost_usd is None or self._spent is None:
                self._spent = None
                return
            self._spent += cost_usd
            self._dearest[kind] = max(self._dearest.get(kind, 0.0), cost_usd)

    @contextmanager
    def unit(self, kind: str, estimate_usd: float = 0.0) -> Iterator[None]:
        """Reserve the cost of one unit while it runs. Raises BudgetExceeded when it might not fit."""
        reserved = self._reserve(kind, estimate_usd)
        try:
            yield
        finally:
            with self._lock:
                self._reserved -= reserved

    def _reserve(self, kind: str, estimate_usd: float) -> float:
        with self._lock:
            wanted = max(estimate_usd, self._dearest.get(kind, 0.0))
            if self._budget is not None:
                spent = self._spent
                if spent is None:
                    raise BudgetExceeded(
                        f"The run has a budget of ${self._budget:.4f}, and the price of a model it calls is unknown. It stopped. "
                        "What is finished is kept. Name the price in PRICES_FILE, or run it without a budget."
                    )
                if spent + self._reserved + wanted > self._budget:
                    raise BudgetExceeded(
                        f"The run stopped at its budget: ${spent:.4f} of ${self._budget:.4f} are spent, and going on might cost more than is left. "
                        "What is finished is kept. Raise the budget and resume it."
                    )
            self._reserved += wanted
            return wanted
