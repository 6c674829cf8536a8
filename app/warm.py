"""What pages would otherwise wait for: imports are done beside the start, and Python looks through fewer objects for garbage."""

from __future__ import annotations

import gc
import importlib
import threading

_MODULES = ("pandas", "altair", "app.charts", "app.comparisons", "app.inspector", "app.results", "app.answers")
"""What pages import and the start does not, the slow ones first."""


_YOUNG = 10_000
"""Objects made before Python looks for garbage among them. With its own 700, what a page or a question holds for a moment counts as old, and
old objects are looked through, while everything stands still, six times as often."""


def start() -> None:
    """Warm up in a thread of its own; a page that needs one of these imports sooner waits for that one only."""
    gc.set_threshold(_YOUNG, 10, 10)
    threading.Thread(target=_warm_up, name="warm-up", daemon=True).start()


def _warm_up() -> None:
    for name in _MODULES:
        importlib.import_module(name)
    # Modules never become garbage, and walking through them takes longer than drawing what a click has changed.
    gc.collect()
    gc.freeze()
