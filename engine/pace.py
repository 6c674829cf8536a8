"""Who looks at a page goes first: benchmarks that compute in this process begin nothing new while one is being made."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_WAIT = 0.3
"""Seconds a unit of a benchmark gives way at most, so that benchmarks go on however many pages are looked at."""

_calm = threading.Condition()
_being_made = 0


@contextmanager
def first() -> Iterator[None]:
    """What is done inside is waited for."""
    global _being_made
    with _calm:
        _being_made += 1
    try:
        yield
    finally:
        with _calm:
            _being_made -= 1
            if _being_made == 0:
                _calm.notify_all()


def give_way(seconds: float = LONGEST_WAIT) -> bool:
    """Wait until nothing is waited for, at most so many seconds. Returns whether nothing is."""
    with _calm:
        return _calm.wait_for(lambda: _being_made == 0, seconds)
