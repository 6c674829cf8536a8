"""How far a run is: what a job stores while it works, and what pages draw."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from engine.bench.run import Event

ERRORS_SHOWN = 20
"""Errors kept in the progress; all are counted, and every one is in the cell or row it belongs to."""


class Progress:
    """Sums up the events of one run.

    `total`: questions x specs x repeats. `now`: seconds of a clock that never goes back.
    """

    def __init__(self, total: int, now: Callable[[], float] = time.monotonic) -> None:
        self._total = total
        self._now = now
        self._began = now()
        self._first: tuple[float, int] | None = None
        self._stages: dict[str, dict[str, dict[str, int]]] = {}
        self._errors: dict[str, str] = {}
        self._error_count = 0
        self._spent: float | None = 0.0

    def note(self, event: Event) -> None:
        label = event.spec.label
        stages = self._stages.setdefault(label, {})
        stages[event.stage] = {"done": event.done, "total": event.total}
        if event.error:
            self._error_count += 1
            if label in self._errors or len(self._errors) < ERRORS_SHOWN:
                self._errors[label] = event.error
        self._spent = event.spent_usd
        if event.stage == "ask" and self._first is None:
            self._first = (self._now(), self._done - 1)

    @property
    def _done(self) -> int:
        return sum(stages.get("ask", {}).get("done", 0) for stages in self._stages.values())

    def record(self) -> dict[str, Any]:
        """`stages` by spec label and stage with `done` and `total`; `errors` by spec label (the latest of each) and `error_count`;
        `done` of `total` answers; `seconds` since it began, `eta_seconds` left (None while unknown); `spent_usd` (None: unknown price).
        """
        done = self._done
        return {
            "stages": {
                label: {stage: dict(counts) for stage, counts in own.items()} for label, own in self._stages.items()
            },
            "errors": dict(self._errors),
            "error_count": self._error_count,
            "done": done,
            "total": self._total,
            "seconds": self._now() - self._began,
            "eta_seconds": self._eta(done),
            "spent_usd": self._spent,
        }

    def _eta(self, done: int) -> float | None:
        """At the pace since the first answer of this run."""
        if self._first is None:
            return None
        began, before = self._first
        if done <= before:
            return None
        return (self._now() - began) / (done - before) * max(0, self._total - done)
