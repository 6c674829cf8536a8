"""Where documents are cut and cuts are measured: in the process that asks, or, once there is much of it, in processes beside it."""

from __future__ import annotations

import itertools
import json
import logging
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress

from pydantic import BaseModel, TypeAdapter, ValidationError

from engine import processes
from engine.errors import BadDocument
from engine.memory import no_search_for_cycles
from engine.metrics import chunk_quality
from engine.models import ChunkSet, StrategySpec
from engine.providers.base import Models
from engine.strategies import registry
from engine.strategies.source import Source

COMMAND = processes.module("engine.cutting.worker")
HERE_FIRST = 2_000_000
"""Characters that are cut in this process before another one is started, which takes about as long as cutting them."""
IDLE_SECONDS = 120.0
"""A process that nobody has asked for so long ends itself; the next request starts another one."""
NOT_ASKED_AGAIN = IDLE_SECONDS - 20
"""Seconds after which an idle process is replaced rather than asked, so that no request meets one that is just ending itself."""
LONGEST = 120.0
"""Seconds one request may take, and one more for every `PER_SECOND` characters: a hundred times what cutting or measuring mostly takes on a free core."""
PER_SECOND = 20_000
_TRIES = 2
_MEASURES = TypeAdapter(dict[str, float])
_log = logging.getLogger(__name__)


class Cutter:
    """Cuts documents and measures the cut. Safe to use from several threads, which it keeps free for other work.

    What calls a model is always done here. The result is the same wherever it is made.
    """

    def __init__(self, size: int | None = None, here_first: int = HERE_FIRST, command: Sequence[str] = COMMAND) -> None:
        """`size`: most processes; with 0 everything is done here, and without it that is so on a single core. `here_first`: characters that
        are worked on here before a process is started."""
        if size is None:
            size = processes.MOST if processes.MOST > 1 else 0
        self._left = here_first
        self._closed = closed = threading.Event()

        def start() -> _Worker:
            # Whoever waited for a process while all were ended must not start another one.
            if closed.is_set():
                raise processes.NotStarted
            return _Worker(command)

        self._pool = processes.Pool(size, start) if size else None
        self._lock = threading.Lock()
        self._names: weakref.WeakKeyDictionary[Source, str] = weakref.WeakKeyDictionary()
        self._numbers = itertools.count()

    def cut(self, source: Source, spec: StrategySpec, models: Models) -> ChunkSet:
        """The chunks of one document under one spec.

        Raises BadParameter, NeedsModel, ModelCallFailed; BadDocument when two processes in a row ended over it.
        """
        if not registry.strategy(spec.strategy_name).needs:
            done = self._elsewhere("cut", source, spec)
            if done is not None:
                with suppress(ValidationError), no_search_for_cycles():
                    return ChunkSet.model_validate_json(done)
        return registry.cut(source, spec, models)

    def measure(self, chunk_set: ChunkSet, source: Source) -> dict[str, float]:
        """The measures of `chunk_quality.measure`. Raises BadDocument when two processes in a row ended over it."""
        done = self._elsewhere("measure", source, chunk_set)
        if done is not None:
            with suppress(ValidationError):
                return _MEASURES.validate_json(done)
        return chunk_quality.measure(chunk_set, source)

    def close(self) -> None:
        """Ends the processes. What is asked for later is done here."""
        self._closed.set()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def process_ids(self) -> tuple[int, ...]:
        """Ids of the processes that are running."""
        return () if self._pool is None else self._pool.process_ids()

    def _elsewhere(self, task: str, source: Source, body: StrategySpec | ChunkSet) -> bytes | None:
        """The result as JSON; None where it is to be made here: there is little to do, no process, or the process cannot do it."""
        if not self._is_much(source):
            return None
        name = self._name(source)
        ended = 0
        while ended < _TRIES:
            pool = self._pool
            if pool is None:
                return None
            try:
                request = _frame(body)
                with pool.process(lambda worker: name in worker.documents) as worker:
                    return worker.carry_out(task, name, source, request)
            except _NoFrame:
                return None
            except _Late:
                _log.error("a process took too long to %s a document and was ended; the app does it", task)
                return None
            except processes.NotStarted:
                if pool is not self._pool:
                    return None
                _log.warning("no process for cutting could be started; documents are cut in the app for now")
                with self._lock:
                    self._left = HERE_FIRST
                return None
            except _Ended as error:
                if pool is self._pool:
                    ended += 1
                    _log.error("a process ended with code %s while it was to %s a document", error, task)
        raise BadDocument(
            f"{source.document.name} ended the process that was to {task} it, {_TRIES} times. What is finished is kept. "
            "There may be too little memory: free some, or choose other parameters, then try again."
        )

    def _is_much(self, source: Source) -> bool:
        if self._pool is None:
            return False
        with self._lock:
            self._left -= len(source.text)
            return self._left < 0

    def _name(self, source: Source) -> str:
        """What the processes know a document by. Not its id, which a document that is read again keeps."""
        with self._lock:
            return self._names.setdefault(source, str(next(self._numbers)))


HERE = Cutter(0)
"""For processes that are workers themselves."""


class _Ended(Exception):
    """A process ended while it was working."""


class _Late(Exception):
    """A process was ended because it took too long."""


class _NoFrame(Exception):
    """A record cannot be sent: it is too long, or holds half a character, which has no UTF-8."""


def _frame(record: BaseModel) -> bytes:
    """The record as JSON. Raises _NoFrame."""
    try:
        frame = record.model_dump_json().encode()
    except ValueError:
        raise _NoFrame from None
    if len(frame) > processes.MAX_FRAME:
        raise _NoFrame
    return frame


class _Worker(processes.Process):
    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(command)
        self.documents: set[str] = set()
        """Those it was sent. It may have let go of some, and then asks for them again."""
        self._waits_since = time.monotonic()

    @property
    def fit(self) -> bool:
        return time.monotonic() - self._waits_since < NOT_ASKED_AGAIN and super().fit

    def carry_out(self, task: str, name: str, source: Source, body: bytes) -> bytes | None:
        """The result, or None when the process cannot do it. Raises _Ended, _Late, _NoFrame, NotStarted."""
        self.reusable = False
        reply = result = None
        with self.deadline(LONGEST + len(source.text) / PER_SECOND) as late, suppress(OSError):
            self.send(json.dumps({"task": task, "document": name}).encode())
            self.send(body)
            reply = self.receive()
            if reply == b"unknown":
                self.send(_frame(source.document))
                self.documents.add(name)
                reply = self.receive()
            result = self.receive() if reply == b"done" else None
        if reply == b"failed" or result is not None:
            self.reusable = not late.is_set()
            self._waits_since = time.monotonic()
            return result
        self.stop()
        raise _Late if late.is_set() else _Ended(self.exit_code)
