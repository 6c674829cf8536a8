"""Changes of the database, oldest first. Append only: a change that a user's database has recorded is never edited.

Each change is a function of one connection, recorded by its name. All that are missing run in one transaction under a lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from sqlalchemy import Connection, text

from engine.errors import StoreUnavailable
from engine.store.migrations.m0001_first_tables import m0001_first_tables
from engine.store.migrations.m0002_repeats_and_statistics import m0002_repeats_and_statistics
from engine.store.migrations.m0003_overnight_batches import m0003_overnight_batches
from engine.store.migrations.m0004_tags_on_postgres import m0004_tags_on_postgres
from engine.store.migrations.m0005_owners import m0005_owners
from engine.store.migrations.m0006_charges import m0006_charges
from engine.store.migrations.m0007_batches_outlive_experiments import m0007_batches_outlive_experiments
from engine.store.migrations.m0008_search_of_experiments import m0008_search_of_experiments

Change = Callable[[Connection], None]

CHANGES: tuple[Change, ...] = (
    m0001_first_tables,
    m0002_repeats_and_statistics,
    m0003_overnight_batches,
    m0004_tags_on_postgres,
    m0005_owners,
    m0006_charges,
    m0007_batches_outlive_experiments,
    m0008_search_of_experiments,
)

_LOCK_KEY = 0x43485343
"""Key of the PostgreSQL advisory lock: any constant that no other program of the database uses."""


def migrate(connection: Connection, changes: Sequence[Change] = CHANGES) -> list[str]:
    """Apply what is missing, inside the caller's write transaction; returns the names applied.

    Raises StoreUnavailable when the database has a change this version does not know.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
    connection.execute(
        text("CREATE TABLE IF NOT EXISTS schema_changes (name TEXT PRIMARY KEY, applied_at DOUBLE PRECISION NOT NULL)")
    )
    applied = set(connection.execute(text("SELECT name FROM schema_changes")).scalars())
    newer = applied - {change.__name__ for change in changes}
    if newer:
        raise StoreUnavailable(
            f"The database was written by a newer version of Chunkscope (it has the change {max(newer)}). "
            "Nothing was changed. Start that version, or choose another DATA_DIR or DATABASE_URL."
        )
    missing = [change for change in changes if change.__name__ not in applied]
    for change in missing:
        change(connection)
        connection.execute(
            text("INSERT INTO schema_changes (name, applied_at) VALUES (:name, :now)"),
            {"name": change.__name__, "now": time.time()},
        )
    return [change.__name__ for change in missing]
