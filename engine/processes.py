"""Worker processes beside the app: they see no keys, are spoken to in frames through pipes, and are ended when they hang.

A frame is eight bytes of length, then that many bytes. Frames hold JSON rather than pickle, because a process that works on hostile text is
not to be trusted with code.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import logging
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

START_TIMEOUT = 120.0
"""Seconds a new worker may take until it is ready. Not part of the time of what it is started for."""

MAX_FRAME = 2**29
"""Bytes of the largest frame; a longer one is not from a worker in order."""
_HEADER_BYTES = 8
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "LD_LIBRARY_PATH")


def module(name: str) -> tuple[str, ...]:
    """The command of a worker that is a module. `-P` keeps the current folder, which may hold anything, out of its imports."""
    return (sys.executable, "-P", "-m", name)


MOST = max(1, min(4, os.cpu_count() or 1))
"""Processes of one kind: one per core, and no more than are useful where documents are few."""


class NotStarted(Exception):
    """A worker process did not start."""


class Process:
    """The parent's side of one worker process, which has said that it is ready. Raises NotStarted."""

    def __init__(self, command: Sequence[str]) -> None:
        root = str(Path(__file__).resolve().parents[1])
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        # One thread each: a second one buys nothing here and reserves address space that a limit would count.
        environment |= {"PYTHONPATH": root, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                start_new_session=os.name == "posix",
            )
        except OSError as error:
            raise NotStarted from error
        self.reusable = False
        """Whether it waits for the next request."""
        ready = None
        try:
            with self.deadline(START_TIMEOUT):
                ready = self.receive()
        finally:
            if ready is None:
                self.stop()
        if ready is None:
            raise NotStarted
        self.reusable = True

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def fit(self) -> bool:
        """Whether it can be given a request after it has waited for one."""
        return self.alive

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode

    def send(self, payload: bytes) -> None:
        """Raises OSError when the process has ended or was stopped, by another thread perhaps."""
        assert self._process.stdin is not None
        try:
            send(self._process.stdin, payload)
        except ValueError as error:
            raise BrokenPipeError from error

    def receive(self) -> bytes | None:
        """None when the process has ended or was stopped, by another thread perhaps."""
        assert self._process.stdout is not None
        try:
            return receive(self._process.stdout)
        except ValueError:
            return None

    def stop(self) -> None:
        self.reusable = False
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    @contextlib.contextmanager
    def deadline(self, seconds: float) -> Iterator[threading.Event]:
        """Kills the process when the block lasts longer; the event says so. A blocked read or write then ends at once.

        Raises NotStarted where the system has no thread left to wait with.
        """
        late = threading.Event()

        def end() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError as error:
            raise NotStarted from error
        try:
            yield late
        finally:
            timer.cancel()
            timer.join()


P = TypeVar("P", bound=Process)


class Pool(Generic[P]):
    """Warm worker processes, started when needed, replaced when they hang or die. Safe to use from several threads."""

    def __init__(self, size: int, start: Callable[[], P]) -> None:
        """`size`: most processes; whoever needs another one waits."""
        self._size = size
        self._start = start
        self._forget()
        _pools.add(self)

    def _forget(self) -> None:
        self._free = threading.BoundedSemaphore(self._size)
        self._lock = threading.Lock()
        self._idle: list[P] = []
        self._all: set[P] = set()

    @contextlib.contextmanager
    def process(self, suits: Callable[[P], bool] = lambda process: False) -> Iterator[P]:
        """A process for one request; one that `suits` where such a one is idle. Raises NotStarted."""
        with self._free:
            process = self._take(suits)
            try:
                yield process
            finally:
                self._give_back(process)

    def close(self) -> None:
        """Ends every process, and one that is just starting with its first request. The next request starts new ones."""
        with self._lock:
            processes, self._idle, self._all = list(self._all), [], set()
        for process in processes:
            process.stop()

    def process_ids(self) -> tuple[int, ...]:
        """Ids of the processes that are running."""
        with self._lock:
            return tuple(process.pid for process in self._all if process.alive)

    def _take(self, suits: Callable[[P], bool]) -> P:
        with self._lock:
            every = self._all
            dead = [process for process in self._idle if not process.fit]
            self._idle = [process for process in self._idle if process not in dead]
            self._all.difference_update(dead)
            chosen = next(filter(suits, self._idle), self._idle[-1] if self._idle else None)
            if chosen is not None:
                self._idle.remove(chosen)
        for process in dead:
            process.stop()
        if chosen is not None:
            return chosen
        process = self._start()
        with self._lock:
            # Of the pool as it was before: where that was closed meanwhile, nobody keeps the process.
            every.add(process)
        return process

    def _give_back(self, process: P) -> None:
        with self._lock:
            if process.reusable and process in self._all:
                self._idle.append(process)
                return
            self._all.discard(process)
        process.stop()


_pools: weakref.WeakSet[Pool[Any]] = weakref.WeakSet()


def _forget_all() -> None:
    # A forked child shares the pipes of its parent's workers; writing to them would mix two conversations.
    for pool in _pools:
        pool._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


@atexit.register
def _close_all() -> None:
    for pool in list(_pools):
        pool.close()


def send(pipe: IO[bytes], payload: bytes) -> None:
    """Writes one frame."""
    pipe.write(len(payload).to_bytes(_HEADER_BYTES, "big"))
    pipe.write(payload)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes | None:
    """One frame; None when the other side ended."""
    size = pipe.read(_HEADER_BYTES)
    if len(size) < _HEADER_BYTES:
        return None
    length = int.from_bytes(size, "big")
    if length > MAX_FRAME:
        return None
    payload = pipe.read(length)
    return payload if len(payload) == length else None


def begin() -> tuple[IO[bytes], IO[bytes]]:
    """What a worker does first: the pipes of its requests and of its replies, the parent told that it is ready.

    Nothing that it prints or logs from here on reaches the pipe or the terminal: it could be text of a document.
    """
    replies = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    logging.disable(logging.CRITICAL)
    # What is imported stays, and a document's tree is one large live structure: looking through both again and again
    # for garbage takes a fifth of the time of a long document.
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    send(replies, b"ready")
    return sys.stdin.buffer, replies
