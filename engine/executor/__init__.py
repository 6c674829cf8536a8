"""Where the units of a benchmark are carried out: in this process, or on a Dask cluster. `open_executor` chooses by the settings."""

from __future__ import annotations

from engine.errors import BadSetting
from engine.executor.base import Executor
from engine.executor.local import LocalExecutor
from engine.settings import Settings
from engine.store import Store

__all__ = ["Executor", "LocalExecutor", "open_executor"]


def open_executor(settings: Settings, store: Store) -> Executor:
    """The executor that the settings name: a Dask cluster with DASK_SCHEDULER_ADDRESS, else this process. Connects to nothing yet.

    Raises BadSetting where the workers could not reach the stores, or the extra for Dask is not installed.
    """
    if settings.dask_scheduler_address is None:
        return LocalExecutor()
    if settings.qdrant_url is None or settings.resolved_database_url.startswith("sqlite"):
        raise BadSetting(
            "DASK_SCHEDULER_ADDRESS is set, and workers on other machines cannot reach the embedded index or a SQLite database. "
            "Nothing was started. Set QDRANT_URL and DATABASE_URL to servers, or remove DASK_SCHEDULER_ADDRESS."
        )
    from engine.executor.dask import DaskExecutor

    return DaskExecutor(settings, store)
