"""The one Workbench of this process, shared by dashboard and API."""

from __future__ import annotations

import threading

from engine.live import LiveAsk
from engine.recent import Recent
from engine.records import CalibrationSummary
from engine.settings import Settings
from engine.workbench import Workbench

_lock = threading.Lock()
_workbench: Workbench | None = None

asking: Recent[tuple[str, str], LiveAsk] = Recent(64)
"""Questions being answered, by who asked and request id: a reader may leave the page and come back to them, and nobody else."""

calibrations: Recent[str, CalibrationSummary] = Recent(16)
"""How judges did on the calibration cases, by model."""


def workbench(settings: Settings | None = None) -> Workbench:
    """The open Workbench; the first call opens it, from the environment where no settings are given. Raises UserError when it cannot be opened."""
    global _workbench
    with _lock:
        if _workbench is None:
            _workbench = Workbench.open(settings)
        return _workbench


def close() -> None:
    """Stop running jobs and release the data folder. The next `workbench()` opens it again."""
    global _workbench
    with _lock:
        if _workbench is not None:
            _workbench.close()
            _workbench = None
