"""The tables of the first version."""

from __future__ import annotations

from sqlalchemy import Connection, text

_STATEMENTS = """
CREATE TABLE documents (
    document_id TEXT PRIMARY KEY,
    sha256 TEXT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    info TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX documents_by_sha256 ON documents (sha256);
CREATE INDEX documents_by_time ON documents (created_at);
CREATE TABLE chunk_sets (
    document_id TEXT NOT NULL REFERENCES documents ON DELETE CASCADE,
    spec_id TEXT NOT NULL,
    made_with TEXT NOT NULL,
    chunk_count INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (document_id, spec_id)
);
CREATE TABLE chunks (
    document_id TEXT NOT NULL,
    spec_id TEXT NOT NULL,
    chunk_index INTEGER NOT NULL,
    chunk_id TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (document_id, spec_id, chunk_index),
    FOREIGN KEY (document_id, spec_id) REFERENCES chunk_sets ON DELETE CASCADE
);
CREATE INDEX chunks_by_id ON chunks (chunk_id);
CREATE TABLE index_states (
    document_id TEXT NOT NULL,
    spec_id TEXT NOT NULL,
    model TEXT NOT NULL,
    strategy_name TEXT NOT NULL,
    ready BOOLEAN NOT NULL,
    points INTEGER NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (document_id, spec_id, model)
);
CREATE TABLE vector_cache (
    key TEXT PRIMARY KEY,
    value {bytes} NOT NULL,
    bytes INTEGER NOT NULL,
    used_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX vector_cache_by_use ON vector_cache (used_at, key, bytes);
CREATE TABLE reply_cache (
    key TEXT PRIMARY KEY,
    value {bytes} NOT NULL,
    bytes INTEGER NOT NULL,
    used_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX reply_cache_by_use ON reply_cache (used_at, key, bytes);
CREATE TABLE question_sets (
    question_set_id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    question_count INTEGER NOT NULL,
    body TEXT NOT NULL
);
CREATE TABLE queries (
    query_id TEXT PRIMARY KEY,
    request_id TEXT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    packed {bytes} NOT NULL
);
CREATE INDEX queries_by_time ON queries (created_at);
CREATE INDEX queries_by_request ON queries (request_id);
CREATE TABLE experiments (
    experiment_id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    error TEXT,
    created_at DOUBLE PRECISION NOT NULL,
    finished_at DOUBLE PRECISION,
    note TEXT NOT NULL,
    tags TEXT NOT NULL,
    pinned BOOLEAN NOT NULL,
    summary TEXT NOT NULL,
    header {bytes} NOT NULL
);
CREATE INDEX experiments_by_time ON experiments (created_at);
CREATE TABLE spec_results (
    experiment_id TEXT NOT NULL REFERENCES experiments ON DELETE CASCADE,
    spec_id TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (experiment_id, spec_id)
);
CREATE TABLE cells (
    experiment_id TEXT NOT NULL REFERENCES experiments ON DELETE CASCADE,
    spec_id TEXT NOT NULL,
    question_id TEXT NOT NULL,
    status TEXT NOT NULL,
    body TEXT NOT NULL,
    packed {bytes},
    PRIMARY KEY (experiment_id, spec_id, question_id)
);
CREATE TABLE jobs (
    job_id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    owner TEXT NOT NULL,
    payload TEXT NOT NULL,
    progress TEXT NOT NULL,
    error TEXT,
    cancel_requested BOOLEAN NOT NULL,
    holder TEXT,
    lease_until DOUBLE PRECISION,
    attempts INTEGER NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX jobs_by_state ON jobs (state, created_at)
"""


def m0001_first_tables(connection: Connection) -> None:
    blob = "BYTEA" if connection.dialect.name == "postgresql" else "BLOB"
    for statement in _STATEMENTS.format(bytes=blob).split(";"):
        connection.execute(text(statement))
