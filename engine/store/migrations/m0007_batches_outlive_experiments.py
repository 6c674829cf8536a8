"""Batches stay on record when their experiment is deleted, until the provider holds no file of them."""

from __future__ import annotations

from sqlalchemy import Connection, text

_STATEMENTS = """
CREATE TABLE kept_batches (
    batch_id TEXT PRIMARY KEY,
    experiment_id TEXT NOT NULL,
    model TEXT NOT NULL,
    provider_id TEXT,
    state TEXT NOT NULL,
    calls INTEGER NOT NULL,
    created_at DOUBLE PRECISION NOT NULL
);
INSERT INTO kept_batches SELECT batch_id, experiment_id, model, provider_id, state, calls, created_at FROM batches;
DROP TABLE batches;
ALTER TABLE kept_batches RENAME TO batches;
CREATE INDEX batches_by_experiment ON batches (experiment_id)
"""


def m0007_batches_outlive_experiments(connection: Connection) -> None:
    for statement in _STATEMENTS.split(";"):
        connection.execute(text(statement))
