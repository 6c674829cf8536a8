"""One event loop in one background thread, where all model calls of the process run; and the bridge to it from ordinary code."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")
E = TypeVar("E")

_POLL = 0.05
"""Seconds between looks at `cancelled()` while no call ends."""
_THREAD = "model-calls"
_lock = threading.Lock()
_running: list[asyncio.AbstractEventLoop] = []
_END = object()


def _loop() -> asyncio.AbstractEventLoop:
    with _lock:
        if not _running:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name=_THREAD, daemon=True).start()
            _running.append(loop)
        return _running[0]


def _forget_loop() -> None:
    # The thread that runs the loop is not in a forked process.
    global _lock
    _lock = threading.Lock()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_loop)


def submit(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    return asyncio.run_coroutine_threadsafe(coroutine, _loop())


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result. An interrupt of the waiting thread ends the coroutine too."""
    future = submit(coroutine)
    try:
        return future.result()
    finally:
        future.cancel()


class Stop:
    """Tells calls that have not begun, or that wait for their next try, to end."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """From any thread; at once from a call itself, so that no other call begins after it."""
        if threading.current_thread().name == _THREAD:
            self._event.set()
        else:
            _loop().call_soon_threadsafe(self._event.set)

    def is_set(self) -> bool:
        return self._event.is_set()

    async def sleep(self, seconds: float) -> None:
        """Sleeps, or less when stopped."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return


def as_finished(
    calls: Sequence[Callable[[Stop], Coroutine[Any, Any, T]]],
    cancelled: Callable[[], bool] = lambda: False,
    window: int | None = None,
) -> Iterator[tuple[int, T]]:
    """(place, result) of every call, in the order in which they end.

    `window`: most calls that are begun and not yet dealt with by the caller; the next one begins when the caller asks on. What a killed
    process loses is then bounded by it, however slowly results are stored. None: all begin at once.
    When `cancelled()` turns true, the calls are told to stop; those in flight still end in their own way, because they are paid for.
    `cancelled` is asked in the calling thread. Leaving the iterator early ends every call at once.
    """
    ended: queue.SimpleQueue[tuple[int, Future[T]]] = queue.SimpleQueue()
    stop = Stop()
    if cancelled():
        stop.set()
    futures: list[Future[T]] = []
    waiting = iter(enumerate(calls))

    def begin(count: int) -> None:
        for place, call in islice(waiting, count):
            future = submit(call(stop))
            futures.append(future)
            future.add_done_callback(lambda done, place=place: ended.put((place, done)))  # type: ignore[misc]

    try:
        begin(len(calls) if window is None else window)
        for _ in calls:
            while True:
                if not stop.is_set() and cancelled():
                    stop.set()
                try:
                    place, done = ended.get(timeout=_POLL)
                    break
                except queue.Empty:
                    continue
            yield place, done.result()
            begin(1)
    finally:
        for future in futures:
            future.cancel()


def emitted(start: Callable[[Callable[[E], None]], Coroutine[Any, Any, T]]) -> Generator[E, None, T]:
    """What the coroutine `start(emit)` emits, as it comes; the generator returns the coroutine's result. Leaving early ends it."""
    items: queue.SimpleQueue[Any] = queue.SimpleQueue()
    future = submit(start(items.put))
    future.add_done_callback(lambda _: items.put(_END))
    try:
        while (item := items.get()) is not _END:
            yield item
        return future.result()
    finally:
        future.cancel()
