"""Answers of a benchmark, written as they come."""

from __future__ import annotations

import threading

from engine.records import QuestionResult
from engine.store import Store


class CellWriter:
    """Stores cells so that each is durable when `add` returns; cells that come while one write runs share the next one."""

    def __init__(self, store: Store, experiment_id: str) -> None:
        self._store = store
        self._experiment_id = experiment_id
        self._waiting: list[QuestionResult] = []
        self._list = threading.Lock()
        self._turn = threading.Lock()

    def add(self, cell: QuestionResult) -> None:
        with self._list:
            self._waiting.append(cell)
        with self._turn:
            with self._list:
                batch, self._waiting = self._waiting, []
            if batch:
                self._store.add_cells(self._experiment_id, batch)
