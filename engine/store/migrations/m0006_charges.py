"""What users have spent outside the queue of benchmarks."""

from __future__ import annotations

from sqlalchemy import Connection, text

_STATEMENTS = """
CREATE TABLE charges (
    charge_id TEXT PRIMARY KEY NOT NULL,
    owner TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    usd DOUBLE PRECISION NOT NULL
);
CREATE INDEX charges_by_owner ON charges (owner, at)
"""


def m0006_charges(connection: Connection) -> None:
    for statement in _STATEMENTS.split(";"):
        connection.execute(text(statement))
