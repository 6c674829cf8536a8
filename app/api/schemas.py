"""What clients send, and the answers that are not records of the engine. The records themselves are in engine/models.py and engine/records.py."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.models import DocumentInfo, Span, StrategySpec
from engine.questions import Finding
from engine.records import QuestionSet
from engine.workbench import Workbench

_ID = "^[0-9A-Za-z_-]{1,64}$"


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SpecBody(Body):
    """A strategy and its parameters; what is not given has its default."""

    strategy_name: str = Field(min_length=1, max_length=100, examples=["recursive"])
    params: dict[str, Any] = Field(default_factory=dict, max_length=50, examples=[{"size": 256, "overlap": 32}])

    def spec(self, workbench: Workbench) -> StrategySpec:
        return workbench.spec(self.strategy_name, self.params)


WrittenSpec = str
"""`recursive`, or with parameters `recursive:size=256,overlap=32`."""


def specs_of(workbench: Workbench, given: list[SpecBody | WrittenSpec]) -> list[StrategySpec]:
    """Raises BadParameter, BadRequest."""
    return [workbench.written_spec(each) if isinstance(each, str) else each.spec(workbench) for each in given]


class Uploaded(BaseModel):
    """One file that is now a document."""

    document: DocumentInfo
    existed: bool
    """Whether the same bytes were there already."""


class Refused(BaseModel):
    """One file of an archive that is not a document."""

    path: str
    error: str


class UploadResult(BaseModel):
    added: list[Uploaded]
    failed: list[Refused] = []
    """Files of an archive that could not be read. A single file that cannot be read is an error of the request instead."""


class DeletionView(BaseModel):
    """What went with a document."""

    document: DocumentInfo
    collections: list[str]
    chunks: int
    experiments: int
    """Experiments that used it. They stay."""


class ProcessBody(Body):
    specs: list[SpecBody | WrittenSpec] = Field(
        min_length=1, max_length=64, examples=[["recursive", {"strategy_name": "sentence", "params": {"sentences": 3}}]]
    )


class EnrichBody(Body):
    spec: SpecBody | WrittenSpec = Field(examples=["recursive:size=256"])


class Processed(BaseModel):
    """A document that can be searched under a spec."""

    spec: StrategySpec
    chunks: int
    reused: bool
    """Whether it could be searched before already."""
    seconds: dict[str, float]
    """Latency breakdown: chunk, enrich, embed, upsert."""


class ChunkPage(BaseModel):
    """Chunks of one document under one spec."""

    document_id: str
    spec: StrategySpec
    uncovered: list[Span]
    """Non-blank text that no chunk holds."""
    items: list[dict[str, Any]]
    """Chunks, as docs/API.md describes them."""
    total: int
    offset: int
    next_offset: int | None


class QueryBody(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"question": "How high is the annual fee?", "strategy": "recursive:size=256", "top_k": 5}]
        }
    )

    question: str = Field(min_length=1, max_length=10_000)
    strategy: WrittenSpec | None = Field(None, max_length=1000)
    """A strategy by name, with parameters as in `recursive:size=256,overlap=32`."""
    spec: SpecBody | None = None
    """The same as an object. Give one of the two."""
    top_k: int | None = Field(None, ge=1, le=100)
    document_ids: list[str] | None = Field(None, max_length=10_000)
    """Documents to search; all when left out."""


class QuestionBody(Body):
    """One question, with the fields of a question set's file."""

    question: str = Field(min_length=1, max_length=10_000)
    answer: str | None = Field(None, max_length=100_000)
    """The expected answer."""
    evidence: list[str] = Field(default_factory=list, max_length=100)
    """Quotes of the documents that answer it."""
    answerable: bool = True

    def row(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)


class QuestionSetBody(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "Fees",
                    "questions": [
                        {
                            "question": "How high is the annual fee?",
                            "answer": "300 euros",
                            "evidence": ["The annual fee is 300 euros."],
                        }
                    ],
                }
            ]
        }
    )

    name: str = Field(min_length=1, max_length=200)
    questions: list[dict[str, Any]] = Field(min_length=1, max_length=20_000)
    """Rows with the fields question, answer, evidence, document, tags, answerable, every_copy, id. Only question is required."""
    document_ids: list[str] | None = Field(None, max_length=10_000)
    """Where the evidence is looked for; all documents when left out."""


class DraftBody(Body):
    document_ids: list[str] | None = Field(None, min_length=1, max_length=10_000)
    """Documents to ask about; all when left out."""
    count: int = Field(20, ge=1, le=1000)
    """Questions wanted."""
    seed: int = Field(0, ge=0, le=2**31 - 1)
    """Another seed drafts others."""
    with_model: bool = False
    """Whether the chat model writes them; else rules do, without a model."""


class CopyBody(Body):
    """Which place of a quote that stands in several is the evidence. Numbers count from 0, as in the record."""

    question_id: str = Field(min_length=1, max_length=200)
    evidence: int = Field(ge=0, le=10_000)
    """Which quote of the question."""
    place: int | None = Field(ge=0, le=1_000_000)
    """Which of its `candidates`; null: every place counts."""


class BenchmarkBody(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"question_set_id": "3f0c", "specs": ["recursive", "sentence:sentences=3"], "top_k": 5}]
        }
    )

    question_set_id: str | None = Field(None, pattern=_ID)
    question: QuestionBody | None = None
    """A single question in place of a set."""
    specs: list[SpecBody | WrittenSpec] = Field(default_factory=list, max_length=64)
    grids: list[str] = Field(default_factory=list, max_length=16, examples=[["recursive:size=128|256|512"]])
    """Further specs: every combination of the values between bars."""
    document_ids: list[str] | None = Field(None, max_length=10_000)
    """All documents when left out."""
    name: str | None = Field(None, min_length=1, max_length=200)
    top_k: int | None = Field(None, ge=1, le=100)
    retriever: Literal["vector", "lexical", "hybrid"] = "vector"
    answers: bool = True
    judge: bool = False
    closed_book: bool = False
    """Whether the chat model also answers from memory, as a baseline of the answers."""
    batch: bool = False
    """Whether answers and verdicts go through the provider's batch endpoint: overnight, at the batch price."""
    repeats: int = Field(1, ge=1, le=20)
    seed: int = Field(0, ge=0, le=2**31 - 1)
    budget_usd: float | None = Field(None, ge=0, le=1_000_000)
    """The run stops before it would cost more."""
    baseline: WrittenSpec | None = Field(None, max_length=1000)
    """The spec the others are compared with, as it is written in `specs`, or its id; the first when left out."""


class Validation(BaseModel):
    """What to know about a question set before it is used."""

    question_set: QuestionSet
    usable: bool
    """Whether nothing was found that keeps a question from being scored."""
    findings: list[Finding]
