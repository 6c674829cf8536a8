"""What the first page would otherwise wait for, done beside the start: imports, and a smaller heap for Python's garbage collector."""

from __future__ import annotations

import gc
import importlib
import threading

_MODULES = ("pandas", "altair", "app.charts", "app.comparisons", "app.inspector", "app.results", "app.answers")
"""What pages import and the start does not, the slow ones first."""


def start() -> None:
    """Warm up in a thread of its own; a page that needs one of these imports sooner waits for that one only."""
    threading.Thread(target=_warm_up, name="warm-up", daemon=True).start()


def _warm_up() -> None:
    for name in _MODULES:
        importlib.import_module(name)
    # Modules never become garbage, and walking through them takes longer than drawing what a click has changed.
    gc.collect()
    gc.freeze()
