"""The servers of `benchmarks.scale --workers N`: PostgreSQL, the vector server of the tests, a Dask scheduler and its workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from engine.settings import Settings, load_settings
from tests import clusters


@contextmanager
def servers(data: Path, workers: int) -> Iterator[Settings]:
    """The settings of an app that uses them."""
    with ExitStack() as stack:
        shared = {
            "DATA_DIR": str(data),
            "DATABASE_URL": stack.enter_context(clusters.database()),
            "QDRANT_URL": stack.enter_context(clusters.vector_server()),
            "EMBEDDING_MODEL": "wordllama",
        }
        environment = {**os.environ, **shared, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
        cluster = stack.enter_context(clusters.dask_cluster(workers, environment))
        given = {name.lower(): value for name, value in shared.items()}
        yield load_settings(**given, dask_scheduler_address=cluster.scheduler_address)
