"""Memory that was freed goes back to the system."""

from __future__ import annotations

import ctypes
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
