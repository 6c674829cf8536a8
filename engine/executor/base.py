"""What a runner asks of an executor, and the tasks that go to another process: ids alone, since the data is in the stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, get_args

from engine import errors
from engine.bench.closed_book import ClosedBook
from engine.bench.open_spec import Indexes, OpenSpec
from engine.errors import CallCause, ModelCallFailed, UserError
from engine.providers.base import Usage
from engine.records import DocumentRef, Question, QuestionResult


@dataclass(frozen=True, slots=True)
class Unit:
    """One question, asked once of one spec."""

    question: Question
    repeat: int
    seed: int | None
    """Of the answer; None for the first."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A unit that was carried out."""

    cell: QuestionResult
    error: Exception | None
    """What went wrong; the cell says it in words."""
    stored: bool
    """Whether the cell is in the store already."""


class Executor(Protocol):
    """Carries out the units of runs. Safe to use from several threads."""

    batch: int
    """Questions that are handed over together."""
    asks_here: bool
    """Whether `ask` needs the chunks of an open spec in this process."""

    def index(
        self, indexes: Indexes, documents: Sequence[DocumentRef], place: int, stopping: Callable[[], bool]
    ) -> tuple[float | None, Exception | None]:
        """Make `documents[place]` searchable and add it to `indexes`; later documents may be begun as well, where no budget forbids it.

        Returns what it cost in USD (None: unknown) and what went wrong. Raises WorkersUnavailable.
        """
        ...

    def ask(
        self, opened: OpenSpec | ClosedBook, units: Sequence[Unit], stopping: Callable[[], bool]
    ) -> Iterator[Asked]:
        """Ask and score units, each told when it is done. Those not begun when `stopping()` turns true are left out. Raises WorkersUnavailable."""
        ...

    def release(self, experiment_id: str) -> None:
        """A run has ended: what was begun ahead for it is given up."""
        ...

    def health(self) -> str | None:
        """One sentence about the workers; None where there are none. Raises WorkersUnavailable."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class IndexTask:
    """One document under one spec of an experiment."""

    experiment_id: str
    spec_id: str
    document_id: str


@dataclass(frozen=True, slots=True)
class AskTask:
    """Questions, each with the number of its repeat and its seed, under one spec of an experiment."""

    experiment_id: str
    spec_id: str
    chunk_count: int
    """Of the spec: a resumed run may have more than the one before it."""
    units: tuple[tuple[str, int, int | None], ...]
    """(question id, repeat, seed)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error on its way between processes."""

    kind: str
    """Name of a class of `engine.errors`; empty for a bug, whose details are in the worker's log."""
    message: str
    cause: str = ""
    """Of a ModelCallFailed."""

    @classmethod
    def of(cls, error: Exception, words: str) -> Failure:
        kind = type(error).__name__ if isinstance(error, UserError) else ""
        return cls(kind, words, error.cause if isinstance(error, ModelCallFailed) else "")

    def error(self) -> Exception:
        """The error again, or one that stands for a bug."""
        if self.kind == "ModelCallFailed":
            cause: CallCause = next(each for each in get_args(CallCause) if each == self.cause)
            return ModelCallFailed(self.message, cause)
        kind = getattr(errors, self.kind, None) if self.kind else None
        if isinstance(kind, type) and issubclass(kind, UserError):
            return kind(self.message)
        # A subclass that a package keeps to itself is still one of these to whoever reads it.
        return UserError(self.message) if self.kind else RuntimeError(self.message)


@dataclass(frozen=True, slots=True)
class IndexDone:
    """What indexing elsewhere gave; the chunks are in the stores."""

    usage: dict[str, Usage]
    """By purpose."""
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class AskDone:
    """A question that was asked elsewhere; its cell is in the store unless a store failed."""

    question_id: str
    repeat: int
    stored: bool
    failure: Failure | None
