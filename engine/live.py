"""One question being answered under several specs in background threads, so that whoever watches may come and go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import NamedTuple

from engine.models import StrategySpec
from engine.records import Query

Work = Callable[[StrategySpec, Callable[[str], None]], Query]
"""Answers under one spec and stores the query; calls back with the answer so far."""


class Progress(NamedTuple):
    spec: StrategySpec
    text: str
    """The answer so far."""
    query: Query | None
    """The stored record, once it is finished."""


class LiveAsk:
    """Answers of one request, as they come. `on_end` is called once when the last of them is there, before anyone can see it."""

    def __init__(
        self,
        request_id: str,
        specs: Sequence[StrategySpec],
        work: Work,
        threads: int,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.request_id = request_id
        self._specs = tuple(specs)
        self._on_end = on_end
        self._open = len(self._specs)
        self._lock = threading.Lock()
        self._texts: dict[str, str] = {}
        pool = ThreadPoolExecutor(max(1, min(len(specs), threads)), "ask")
        # What is logged meanwhile belongs to the request that asked.
        self._answers: list[Future[Query]] = [
            pool.submit(copy_context().run, self._carry_out, work, spec) for spec in self._specs
        ]
        pool.shutdown(wait=False)

    def _carry_out(self, work: Work, spec: StrategySpec) -> Query:
        try:
            return work(spec, self._listener(spec))
        finally:
            with self._lock:
                self._open -= 1
                is_last = self._open == 0
            if is_last:
                self._on_end()

    def _listener(self, spec: StrategySpec) -> Callable[[str], None]:
        def hear(text: str) -> None:
            with self._lock:
                self._texts[spec.spec_id] = text

        return hear

    @property
    def done(self) -> bool:
        return all(answer.done() for answer in self._answers)

    def progress(self) -> list[Progress]:
        """Where each spec is, in the order asked. Raises what a bug raised."""
        with self._lock:
            texts = dict(self._texts)
        return [
            Progress(spec, texts.get(spec.spec_id, ""), answer.result() if answer.done() else None)
            for spec, answer in zip(self._specs, self._answers, strict=True)
        ]

    def wait(self) -> list[Query]:
        """All queries, in the order asked."""
        return [answer.result() for answer in self._answers]
