"""The servers of `benchmarks.scale --workers N`: PostgreSQL, the vector server of the tests, a Dask scheduler and its workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import create_engine, text

from engine.settings import Settings, load_settings
from tests import clusters


@dataclass(frozen=True, slots=True)
class Servers:
    settings: Settings
    """Of an app that uses them."""
    pids: dict[str, int]
    """The processes whose memory is watched, by name. The scheduler runs in this one."""
    vectors: Path
    """Folder of the vector server."""

    def database_mb(self) -> float:
        engine = create_engine(self.settings.resolved_database_url)
        with engine.connect() as connection:
            size = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
        engine.dispose()
        return float(size) / 1e6


@contextmanager
def servers(data: Path, workers: int) -> Iterator[Servers]:
    """All of them, running."""
    with ExitStack() as stack:
        vectors = stack.enter_context(clusters.vector_process())
        shared = {
            "DATA_DIR": str(data),
            "DATABASE_URL": stack.enter_context(clusters.database()),
            "QDRANT_URL": vectors.url,
            "EMBEDDING_MODEL": "wordllama",
        }
        environment = {**os.environ, **shared, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
        cluster = stack.enter_context(clusters.dask_cluster(workers, environment))
        pids = {f"worker {number}": nanny.pid for number, nanny in cluster.workers.items()}
        given = {name.lower(): value for name, value in shared.items()}
        settings = load_settings(**given, dask_scheduler_address=cluster.scheduler_address)
        yield Servers(settings, {**pids, "vector server": vectors.pid}, vectors.folder)
