"""How far a run is: what a job stores while it works, and what pages draw."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from engine.bench import closed_book
from engine.bench.run import Event
from engine.models import StrategySpec
from engine.records import Experiment

ERRORS_SHOWN = 20
"""Errors kept in the progress; all are counted, and every one is in the cell or row it belongs to."""


@dataclass
class _Counts:
    done: int
    total: int

    def record(self) -> dict[str, int]:
        return {"done": self.done, "total": self.total}


@dataclass
class _Line:
    """How far one spec is."""

    label: str
    stages: dict[str, _Counts] = field(default_factory=dict)
    not_indexed: set[int] = field(default_factory=set)
    """Numbers of the documents that could not be indexed."""

    def note(self, event: Event) -> None:
        counts = self.stages.setdefault(event.stage, _Counts(0, event.total))
        counts.total = event.total
        # Threads overtake each other, and each pass of an overnight run goes through the documents again.
        counts.done = event.done if event.stage == "batch" else max(counts.done, event.done)
        index, ask = self.stages.get("index"), self.stages.get("ask")
        if event.stage == "ask" and index is not None:
            index.done = index.total
        if event.stage == "index" and event.error:
            self.not_indexed.add(event.done)
            if len(self.not_indexed) == event.total and ask is not None:
                # Without a document the spec fails, and none of its questions is asked any more.
                ask.total = ask.done


class Progress:
    """Sums up the events of one run of an experiment; nothing is known about it while there is none.

    `repeats`: answers per question and spec. `finished`: spec id, question id and repeat of the answers stored before this run.
    `closed_book`: whether the questions are also asked without documents. `spent_usd`: by earlier runs of it. `now`: seconds of a clock that never goes back.
    """

    def __init__(
        self,
        experiment: Experiment | None = None,
        repeats: int = 1,
        finished: Iterable[tuple[str, str, int]] = (),
        *,
        closed_book: bool = False,
        spent_usd: float | None = 0.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._began = now()
        self._first: tuple[float, int] | None = None
        self._lines = {} if experiment is None else _planned(experiment, repeats, finished, closed_book)
        self._errors: dict[str, str] = {}
        self._error_count = 0
        self._spent = spent_usd

    def note(self, event: Event) -> None:
        before = self._asked.done
        label = event.spec.label
        self._lines.setdefault(event.spec.spec_id, _Line(label)).note(event)
        if event.error:
            self._error_count += 1
            if label in self._errors or len(self._errors) < ERRORS_SHOWN:
                self._errors[label] = event.error
        # A batch says nothing about dollars. Threads overtake each other, so the highest sum is the latest.
        if event.stage != "batch" and self._spent is not None:
            self._spent = None if event.spent_usd is None else max(self._spent, event.spent_usd)
        if self._first is None and self._asked.done > before:
            self._first = (self._now(), self._asked.done)

    @property
    def _asked(self) -> _Counts:
        each = [line.stages["ask"] for line in self._lines.values() if "ask" in line.stages]
        return _Counts(sum(counts.done for counts in each), sum(counts.total for counts in each))

    def record(self) -> dict[str, Any]:
        """`stages` by spec label and stage with `done` and `total`; `errors` by spec label (the latest of each) and `error_count`;
        `done` of `total` answers; `seconds` since it began, `eta_seconds` left (None while unknown); `spent_usd` (None: unknown price).
        """
        asked = self._asked
        stages: dict[str, dict[str, dict[str, int]]] = {}
        for line in self._lines.values():
            own = stages.setdefault(line.label, {})
            for stage, counts in line.stages.items():
                known = own.get(stage, {"done": 0, "total": 0})
                own[stage] = {name: known[name] + value for name, value in counts.record().items()}
        return {
            "stages": stages,
            "errors": dict(self._errors),
            "error_count": self._error_count,
            "done": asked.done,
            "total": asked.total,
            "seconds": self._now() - self._began,
            "eta_seconds": self._eta(asked),
            "spent_usd": self._spent,
        }

    def _eta(self, asked: _Counts) -> float | None:
        """At the pace since the first answer of this run."""
        if self._first is None:
            return None
        began, before = self._first
        if asked.done <= before:
            return None
        return (self._now() - began) / (asked.done - before) * (asked.total - asked.done)


def left_in_words(seconds: float) -> str:
    """`40 s`, `3 min`, `2 h`: as exact as a guess may be."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.0f} h"


def _planned(
    experiment: Experiment, repeats: int, finished: Iterable[tuple[str, str, int]], with_closed_book: bool
) -> dict[str, _Line]:
    """By spec id: every document to index and every answer to ask for, with the answers there are."""
    questions = {question.question_id for question in experiment.questions}
    there = Counter(
        spec_id for spec_id, question_id, repeat in finished if question_id in questions and repeat < repeats
    )

    def asking(spec: StrategySpec) -> _Counts:
        return _Counts(there[spec.spec_id], len(questions) * repeats)

    lines = {
        spec.spec_id: _Line(spec.label, {"index": _Counts(0, len(experiment.documents)), "ask": asking(spec)})
        for spec in experiment.specs
    }
    if with_closed_book:
        lines[closed_book.SPEC.spec_id] = _Line(closed_book.SPEC.label, {"ask": asking(closed_book.SPEC)})
    return lines
