"""Requests and tokens per minute, and the pause a server asks for."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

WINDOW = 60.0
"""Seconds over which requests and tokens are counted."""


class MinuteLimits:
    """At most so many requests and tokens in any 60 seconds. Not thread safe: it lives on the event loop of the calls.

    A single call larger than the token limit runs alone: it starts when nothing else counts any more.
    """

    def __init__(self, requests: int | None, tokens: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._requests = requests
        self._tokens = tokens
        self._clock = clock
        self._begun: deque[tuple[float, int]] = deque()
        self._spent = 0
        self._held_until = 0.0

    def book(self, tokens: int) -> float:
        """Books a call of that many tokens and returns 0.0; or books nothing and returns the seconds until it is worth asking again."""
        now = self._clock()
        if now < self._held_until:
            return self._held_until - now
        while self._begun and now - self._begun[0][0] >= WINDOW:
            self._spent -= self._begun.popleft()[1]
        full = self._requests is not None and len(self._begun) >= self._requests
        over = self._tokens is not None and self._begun and self._spent + tokens > self._tokens
        if full or over:
            return self._begun[0][0] + WINDOW - now
        if self._requests is not None or self._tokens is not None:
            self._begun.append((now, tokens))
            self._spent += tokens
        return 0.0

    def hold(self, seconds: float) -> None:
        """No call begins for that many seconds: the server said so."""
        self._held_until = max(self._held_until, self._clock() + seconds)
