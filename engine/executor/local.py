"""Units carried out in this process, in the threads of the runner."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from engine import pace
from engine.bench.closed_book import ClosedBook
from engine.bench.open_spec import Indexes, OpenSpec
from engine.executor.base import Asked, Unit
from engine.records import DocumentRef


class LocalExecutor:
    """The executor of one machine.

    Documents are read, cut and measured in worker processes (`engine.documents`, `engine.cutting`); the threads embed, write, search and ask.

    `turns`: units of all runs that are worked on at once; None: as many as runs bring. Where nothing waits for a server, more of them than
    there are cores are not faster, and whoever opens a page has to wait behind all of them. Each gives way to pages first.
    """

    batch = 1
    asks_here = True

    def __init__(self, turns: int | None = None) -> None:
        self.turns = turns
        self._turn: AbstractContextManager[object] = nullcontext() if turns is None else threading.Semaphore(turns)

    def index(
        self, indexes: Indexes, documents: Sequence[DocumentRef], place: int, stopping: Callable[[], bool]
    ) -> tuple[float | None, Exception | None]:
        with self._at_work():
            return indexes.add(documents[place])

    def ask(
        self, opened: OpenSpec | ClosedBook, units: Sequence[Unit], stopping: Callable[[], bool]
    ) -> Iterator[Asked]:
        for unit in units:
            with self._at_work():
                if stopping():
                    return
                cell, error = opened.ask(unit.question, unit.repeat, unit.seed)
            yield Asked(cell, error, stored=False)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        with self._turn:
            if self.turns is not None:
                pace.give_way()
            yield

    def release(self, experiment_id: str) -> None:
        """Nothing is begun ahead."""

    def health(self) -> None:
        return None

    def close(self) -> None:
        """Nothing is open."""
