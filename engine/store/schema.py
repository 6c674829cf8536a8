"""The tables, as queries see them. `migrations/` creates and changes them; a test keeps the two in step.

Records are stored as the JSON of their pydantic model, beside the few columns that queries filter and sort on.
Times are seconds since 1970 (UTC). `packed` columns hold zlib-compressed JSON.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

metadata = MetaData()

schema_changes = Table(
    "schema_changes",
    metadata,
    Column("name", Text, primary_key=True),
    Column("applied_at", Double, nullable=False),
)

documents = Table(
    "documents",
    metadata,
    Column("document_id", Text, primary_key=True),
    Column("sha256", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("info", Text, nullable=False),
    Column("body", Text, nullable=False),
    Index("documents_by_sha256", "sha256"),
    Index("documents_by_time", "created_at"),
)

chunk_sets = Table(
    "chunk_sets",
    metadata,
    Column("document_id", Text, primary_key=True),
    Column("spec_id", Text, primary_key=True),
    Column("made_with", Text, nullable=False),
    Column("chunk_count", Integer, nullable=False),
    Column("body", Text, nullable=False),
)

chunks = Table(
    "chunks",
    metadata,
    Column("document_id", Text, primary_key=True),
    Column("spec_id", Text, primary_key=True),
    Column("chunk_index", Integer, primary_key=True),
    Column("chunk_id", Text, nullable=False),
    Column("body", Text, nullable=False),
    Index("chunks_by_id", "chunk_id"),
)

index_states = Table(
    "index_states",
    metadata,
    Column("document_id", Text, primary_key=True),
    Column("spec_id", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("strategy_name", Text, nullable=False),
    Column("ready", Boolean, nullable=False),
    Column("points", Integer, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("seconds", Text, nullable=False),
)

vector_cache = Table(
    "vector_cache",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
    Column("bytes", Integer, nullable=False),
    Column("used_at", Double, nullable=False),
    Index("vector_cache_by_use", "used_at", "key", "bytes"),
)

reply_cache = Table(
    "reply_cache",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
    Column("bytes", Integer, nullable=False),
    Column("used_at", Double, nullable=False),
    Index("reply_cache_by_use", "used_at", "key", "bytes"),
)

question_sets = Table(
    "question_sets",
    metadata,
    Column("question_set_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("question_count", Integer, nullable=False),
    Column("body", Text, nullable=False),
)

queries = Table(
    "queries",
    metadata,
    Column("query_id", Text, primary_key=True),
    Column("request_id", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("packed", LargeBinary, nullable=False),
    Index("queries_by_time", "created_at"),
    Index("queries_by_request", "request_id"),
)

experiments = Table(
    "experiments",
    metadata,
    Column("experiment_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("error", Text),
    Column("created_at", Double, nullable=False),
    Column("finished_at", Double),
    Column("note", Text, nullable=False),
    Column("tags", Text, nullable=False),
    Column("pinned", Boolean, nullable=False),
    Column("summary", Text, nullable=False),
    Column("header", LargeBinary, nullable=False),
    Column("statistics", LargeBinary),
    Column("headline", Text, nullable=False),
    Column("baseline", Boolean, nullable=False),
    Column("search", Text, nullable=False),
    Index("experiments_by_time", "created_at"),
)

spec_results = Table(
    "spec_results",
    metadata,
    Column("experiment_id", Text, primary_key=True),
    Column("spec_id", Text, primary_key=True),
    Column("body", Text, nullable=False),
)

cells = Table(
    "cells",
    metadata,
    Column("experiment_id", Text, primary_key=True),
    Column("spec_id", Text, primary_key=True),
    Column("question_id", Text, primary_key=True),
    Column("repeat", Integer, primary_key=True),
    Column("status", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("packed", LargeBinary),
)

jobs = Table(
    "jobs",
    metadata,
    Column("job_id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("progress", Text, nullable=False),
    Column("error", Text),
    Column("cancel_requested", Boolean, nullable=False),
    Column("holder", Text),
    Column("lease_until", Double),
    Column("attempts", Integer, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Index("jobs_by_state", "state", "created_at"),
)

batches = Table(
    "batches",
    metadata,
    Column("batch_id", Text, primary_key=True),
    Column("experiment_id", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("provider_id", Text),
    Column("state", Text, nullable=False),
    Column("calls", Integer, nullable=False),
    Column("created_at", Double, nullable=False),
    Index("batches_by_experiment", "experiment_id"),
)

batch_calls = Table(
    "batch_calls",
    metadata,
    Column("experiment_id", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("batch_id", Text, nullable=False),
    Column("payer", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("cost_usd", Double),
    Column("reply", Text),
)

owners = Table(
    "owners",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("item_id", Text, primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("shared", Boolean, nullable=False),
    Column("since", Double, nullable=False),
    Index("owners_by_owner", "owner", "kind", "since"),
)

charges = Table(
    "charges",
    metadata,
    Column("charge_id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("usd", Double, nullable=False),
    Index("charges_by_owner", "owner", "at"),
)
