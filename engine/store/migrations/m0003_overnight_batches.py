"""Batches of chat calls that a provider answers overnight, and how each of their calls ended."""

from __future__ import annotations

from sqlalchemy import Connection, text

_STATEMENTS = """
CREATE TABLE batches (
    batch_id TEXT PRIMARY KEY,
    experiment_id TEXT NOT NULL REFERENCES experiments ON DELETE CASCADE,
    model TEXT NOT NULL,
    provider_id TEXT,
    state TEXT NOT NULL,
    calls INTEGER NOT NULL,
    created_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX batches_by_experiment ON batches (experiment_id);
CREATE TABLE batch_calls (
    experiment_id TEXT NOT NULL REFERENCES experiments ON DELETE CASCADE,
    key TEXT NOT NULL,
    batch_id TEXT NOT NULL,
    payer TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    status TEXT NOT NULL,
    cost_usd DOUBLE PRECISION,
    reply TEXT,
    PRIMARY KEY (experiment_id, key)
)
"""


def m0003_overnight_batches(connection: Connection) -> None:
    for statement in _STATEMENTS.split(";"):
        connection.execute(text(statement))
