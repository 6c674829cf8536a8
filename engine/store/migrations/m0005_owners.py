"""Who owns documents, question sets, queries and experiments, and which of them are shared. What has no owner is the local user's."""

from __future__ import annotations

from sqlalchemy import Connection, text

# Ids are derived from content, so two people may own the same one.
_STATEMENTS = """
CREATE TABLE owners (
    kind TEXT NOT NULL,
    item_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    shared BOOLEAN NOT NULL DEFAULT FALSE,
    since DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (kind, item_id, owner)
);
CREATE INDEX owners_by_owner ON owners (owner, kind, since)
"""


def m0005_owners(connection: Connection) -> None:
    for statement in _STATEMENTS.split(";"):
        connection.execute(text(statement))
