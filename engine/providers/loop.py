"""One event loop in one background thread, where all model calls of the process run; and the bridge to it from ordinary code."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import Future
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


class Window:
    """Room for calls that are begun and not yet dealt with, shared by all threads that call; who waits first is served first.

    A call leaves the window when its result is stored. What a killed process has to pay for again is therefore at most one window, however
    many threads work and however slowly results are stored.
    """

    def __init__(self, size: int) -> None:
        self._free = size
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()

    def take(self, wait: bool) -> bool:
        """Take one place. False: there is none and `wait` is not set."""
        with self._lock:
            if self._free and not self._waiting:
                self._free -= 1
                return True
            if not wait:
                return False
            turn = threading.Event()
            self._waiting.append(turn)
        try:
            turn.wait()
        except BaseException:
            with self._lock:
                if not turn.is_set():
                    self._waiting.remove(turn)
                    raise
            self.give()
            raise
        return True

    def give(self) -> None:
        """Give one place back, or to the thread that has waited longest."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1


def as_finished(
    calls: Iterable[Callable[[Stop], Coroutine[Any, Any, T]]],
    window: Window,
    cancelled: Callable[[], bool] = lambda: False,
) -> Generator[tuple[int, T], None, None]:
    """(place, result) of every call, in the order in which they end. `calls` may be made while the first ones are under way.

    A call begins when there is a place in the `window`, and holds it until the caller asks on.
    When `cancelled()` turns true, the calls are told to stop; those in flight still end in their own way, because they are paid for.
    `cancelled` is asked in the calling thread. Closing the generator early ends every call at once.
    """
    ended: queue.SimpleQueue[Future[T]] = queue.SimpleQueue()
    stop = Stop()
    if cancelled():
        stop.set()
    open_calls: dict[Future[T], int] = {}
    waiting = enumerate(calls)
    coming = next(waiting, None)
    try:
        while coming is not None or open_calls:
            # A thread without a call in flight waits for its turn; one that has some looks after those first.
            while coming is not None and window.take(wait=not open_calls):
                place, call = coming
                future = submit(call(stop))
                open_calls[future] = place
                future.add_done_callback(ended.put)
                coming = next(waiting, None)
            while True:
                if not stop.is_set() and cancelled():
                    stop.set()
                try:
                    done = ended.get(timeout=_POLL)
                    break
                except queue.Empty:
                    continue
            yield open_calls[done], done.result()
            del open_calls[done]
            window.give()
    finally:
        for future in open_calls:
            future.cancel()
            window.give()


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
