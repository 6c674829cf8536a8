"""Where the units of a benchmark are carried out: in this process, or on a Dask cluster. `open_executor` chooses by the settings."""

from __future__ import annotations

import os

from engine.errors import BadSetting
from engine.executor.base import Executor
from engine.executor.local import LocalExecutor
from engine.providers.base import Models
from engine.settings import Settings
from engine.store import Store

__all__ = ["Executor", "LocalExecutor", "open_executor"]


def open_executor(settings: Settings, store: Store, models: Models | None = None) -> Executor:
    """The executor that the settings name: a Dask cluster with DASK_SCHEDULER_ADDRESS, else this process. Connects to nothing yet.

    `models`: where none of them waits for a server, this process works on one unit per core at a time.

    Raises BadSetting where the workers could not reach the stores, or the extra for Dask is not installed.
    """
    if settings.dask_scheduler_address is None:
        is_waiting = models is None or models.chat is not None or hasattr(models.embedder, "uncached")
        return LocalExecutor(turns=None if is_waiting else os.cpu_count() or 1)
    if settings.qdrant_url is None or settings.resolved_database_url.startswith("sqlite"):
        raise BadSetting(
            "DASK_SCHEDULER_ADDRESS is set, and workers on other machines cannot reach the embedded index or a SQLite database. "
            "Nothing was started. Set QDRANT_URL and DATABASE_URL to servers, or remove DASK_SCHEDULER_ADDRESS."
        )
    from engine.executor.dask import DaskExecutor

    return DaskExecutor(settings, store)
