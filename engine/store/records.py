"""Records that only the store makes: what it knows about indexes, experiments in lists, and jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from engine.models import Record

JobState = Literal["queued", "running", "finished", "failed", "cancelled"]


class IndexState(Record):
    """What the vector index holds of one document under one spec and embedding model."""

    document_id: str
    spec_id: str
    strategy_name: str
    """Names the collection."""
    model: str
    ready: bool
    """False: writing was begun and not finished, or the chunks changed since; the points must be removed or written again."""
    points: int
    updated_at: datetime
    seconds: dict[str, float] = Field(default_factory=dict)
    """How long it took to embed and to write them."""


class QuestionSetInfo(Record):
    """A question set without its questions."""

    question_set_id: str
    name: str
    question_count: int
    created_at: datetime


class ExperimentSummary(Record):
    """An experiment as lists show it."""

    experiment_id: str
    name: str
    status: Literal["running", "finished", "cancelled", "failed"]
    error: str | None
    created_at: datetime
    finished_at: datetime | None
    document_names: tuple[str, ...]
    question_set_name: str
    question_count: int
    spec_labels: tuple[str, ...]
    embedding_model: str
    llm_model: str | None
    judge_model: str | None
    note: str = ""
    tags: tuple[str, ...] = ()
    pinned: bool = False
    baseline: bool = False
    """Whether people compare other experiments with it."""
    headline: str = ""
    """The first sentence of its recommendation."""


class Job(Record):
    """A unit of background work and who is doing it."""

    job_id: str
    kind: str
    """Names the code that runs it."""
    state: JobState
    owner: str
    """The user it is counted for; empty where there are no users."""
    payload: dict[str, Any]
    """What to do. Never changed after the job was added."""
    progress: dict[str, Any] = Field(default_factory=dict)
    """How far it is; written by its holder."""
    error: str | None = None
    """Why it failed, in words."""
    cancel_requested: bool = False
    holder: str | None = None
    """The process that runs it."""
    lease_until: datetime | None = None
    """After this moment the holder counts as dead."""
    attempts: int = 0
    """How often it was taken."""
    created_at: datetime
    updated_at: datetime


class Batch(Record):
    """Chat calls that a provider answers together, at its batch price."""

    batch_id: str
    """Our own id; the provider knows the batch under it as well."""
    experiment_id: str
    model: str
    provider_id: str | None = None
    """None: it is not known yet whether the provider has it."""
    state: str
    """As the provider names it; `creating` before it has the batch; `answered`, `read`, `fetched` and `kept` when its answers are stored
    (`engine/store/batches.py`)."""
    calls: int


class BatchCall(Record):
    """One call of a batch, by the key of its reply."""

    key: str
    batch_id: str
    payer: str
    """The answer or verdict that the call is counted with; equal calls are asked once."""
    attempts: int = 1
    status: str = "waiting"
    """`waiting`, or how it ended."""
    cost_usd: float | None = 0.0
    """None: the price is unknown."""
    reply: str | None = None
    """The reply as JSON."""
