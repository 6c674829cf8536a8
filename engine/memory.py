"""Memory: what was freed goes back to the system, and cycles are not searched for where none are made."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@cache
def _trim() -> Any:
    """`malloc_trim` of the C library, or None where it has none (only glibc does)."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None


def give_back() -> None:
    """Return what is free to the system; does nothing where the C library cannot.

    glibc keeps freed memory for each thread, which after many large objects in several threads is hundreds of megabytes.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


_lock = threading.Lock()
_pauses = 0
_resume = False


@contextmanager
def no_search_for_cycles() -> Iterator[None]:
    """The garbage collector rests, in the whole process, while at least one thread is inside.

    For short computing that makes very many records and no cycles: the collector would look at every object of the process
    several times and find nothing. Not for work that waits.
    """
    global _pauses, _resume
    with _lock:
        if _pauses == 0:
            _resume = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if _pauses == 0 and _resume:
                gc.enable()
