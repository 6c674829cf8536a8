"""Cells of repeated questions, statistics and baseline of experiments, and how long it took to index a document."""

from __future__ import annotations

from sqlalchemy import Connection, text

# SQLite cannot change a primary key, so the cells move to a new table.
_STATEMENTS = """
CREATE TABLE cells_with_repeats (
    experiment_id TEXT NOT NULL REFERENCES experiments ON DELETE CASCADE,
    spec_id TEXT NOT NULL,
    question_id TEXT NOT NULL,
    repeat INTEGER NOT NULL,
    status TEXT NOT NULL,
    body TEXT NOT NULL,
    packed {bytes},
    PRIMARY KEY (experiment_id, spec_id, question_id, repeat)
);
INSERT INTO cells_with_repeats (experiment_id, spec_id, question_id, repeat, status, body, packed)
    SELECT experiment_id, spec_id, question_id, 0, status, body, packed FROM cells;
DROP TABLE cells;
ALTER TABLE cells_with_repeats RENAME TO cells;
ALTER TABLE experiments ADD COLUMN statistics {bytes};
ALTER TABLE experiments ADD COLUMN headline TEXT NOT NULL DEFAULT '';
ALTER TABLE experiments ADD COLUMN baseline BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE index_states ADD COLUMN seconds TEXT NOT NULL DEFAULT '{{}}'
"""


def m0002_repeats_and_statistics(connection: Connection) -> None:
    blob = "BYTEA" if connection.dialect.name == "postgresql" else "BLOB"
    for statement in _STATEMENTS.format(bytes=blob).split(";"):
        connection.execute(text(statement))
