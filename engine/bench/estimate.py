"""What a dry run says: calls, tokens and dollars of a benchmark before it runs."""

from __future__ import annotations

from typing import Literal

from engine.models import Record, StrategySpec

StageName = Literal["context", "embedding", "answers", "judge", "calibration"]


class Range(Record):
    low: float
    expected: float
    high: float

    def plus(self, other: Range) -> Range:
        return Range(low=self.low + other.low, expected=self.expected + other.expected, high=self.high + other.high)

    def times(self, factor: float) -> Range:
        return Range(low=self.low * factor, expected=self.expected * factor, high=self.high * factor)


def exactly(value: float) -> Range:
    return Range(low=value, expected=value, high=value)


NOTHING = exactly(0)


class StageEstimate(Record):
    """One kind of model call over the whole benchmark. Calls that a cache answers are not counted."""

    stage: StageName
    model: str | None
    """None: no model is configured, or the plan does not use one."""
    calls: Range = NOTHING
    cached_calls: int = 0
    """Calls the cache answers, as far as that can be known before anything is found."""
    input_tokens: Range = NOTHING
    output_tokens: Range = NOTHING
    cost_usd: Range | None = NOTHING
    """None: the price of the model is unknown."""


class SpecEstimate(Record):
    """One strategy spec in a dry run."""

    spec: StrategySpec
    chunks: int | None = None
    """None where only the run itself can tell."""
    indexed: bool = False
    """Whether all documents are searchable under it already."""
    problem: str | None = None
    """Why it would fail, in words."""
    index_cost_usd: float | None = 0.0
    """Dollars of making it searchable, at the high end; None when a price is unknown."""


class ClosedBookEstimate(Record):
    """The closed-book baseline in a dry run: every question answered without documents."""

    answers: int
    """Questions x repeats."""
    calls: Range
    """Answers and their verdicts, as far as no cache has them; part of the stages."""
    cost_usd: float | None
    """Expected dollars of those calls, part of the whole; None when a price is unknown."""


class DryRun(Record):
    """A benchmark in numbers, before it runs."""

    estimated_calls: int
    """Expected calls to models over the network."""
    estimated_cost_usd: float | None
    """Expected dollars; None when a price is unknown."""
    high_cost_usd: float | None
    """Dollars if every reply is as long as it may be and every verdict is asked for twice; None when a price is unknown."""
    overnight_cost_usd: float | None
    """Expected dollars with answers and verdicts at the batch price; None when a price is unknown."""
    high_ask_usd: float | None
    """Dollars of one answer and its verdict at the high end, on average; None when a price is unknown."""
    questions: int
    cells: int
    """Questions x strategies x repeats."""
    stages: tuple[StageEstimate, ...]
    specs: tuple[SpecEstimate, ...]
    closed_book: ClosedBookEstimate | None = None
    """None: the plan asks for none, or there is no chat model."""
    notes: tuple[str, ...] = ()
    """What a reader should know, one sentence each."""

    def stage(self, name: StageName) -> StageEstimate:
        return next(stage for stage in self.stages if stage.stage == name)

    def answers_in_words(self) -> str:
        """What would be answered, without a full stop."""
        words = (
            f"{_counted(self.cells, 'answer')} to {_counted(self.questions, 'question')} "
            f"under {_counted(len(self.specs), 'strategy', 'strategies')}"
        )
        book = self.closed_book
        if book is None:
            return words
        cost = "price unknown" if book.cost_usd is None else f"{book.cost_usd:.4f} USD" if book.cost_usd else "no cost"
        calls = _counted(round(book.calls.expected), "call")
        return f"{words}, and {_counted(book.answers, 'closed-book answer')} without documents ({calls}, {cost})"


def _counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
