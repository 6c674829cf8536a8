"""What commands need of Chunkscope: the same from a Workbench in this process and from an app that is running."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from engine.bench.dry_run import DryRun
from engine.bench.gate import Check
from engine.bench.history import ExperimentComparison
from engine.errors import BadRequest, NotFound
from engine.models import Chunk, DocumentInfo, Node, StrategySpec
from engine.providers.estimate import CallsEstimate
from engine.questions import Finding
from engine.records import Experiment, Query, QuestionSet
from engine.report import Exported
from engine.store import ExperimentSummary, QuestionSetInfo
from engine.store.owners import Kind
from engine.strategies.describe import StrategyInfo
from engine.workbench import Deletion, FileAdded


class Indexed(NamedTuple):
    """One document under one spec in the index."""

    document_id: str
    spec: StrategySpec
    chunks: int
    reused: bool
    seconds: dict[str, float]


class JobStatus(NamedTuple):
    state: str
    error: str | None
    progress: dict[str, Any]


@dataclass(frozen=True)
class Order:
    """A benchmark as it was written on the command line."""

    question_set_id: str
    document_ids: tuple[str, ...] | None
    specs: tuple[str, ...]
    baseline: str | None = None
    """One of the specs, as it was written."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further fields of the plan: name, top_k, judge, budget_usd, ..."""


class Backend(Protocol):
    """Specs come as people write them. Everything raises UserError."""

    def documents(self) -> list[DocumentInfo]: ...

    def add(self, path: Path) -> Iterator[FileAdded]: ...

    def tree(self, document_id: str) -> Node: ...

    def delete(self, document_id: str) -> Deletion: ...

    def chunks(self, document_id: str, spec: str) -> Sequence[Chunk]: ...

    def enrich(self, document_id: str, spec: str) -> Sequence[Chunk]: ...

    def enrich_estimate(self, document_id: str, spec: str) -> CallsEstimate | None: ...

    def preview(self, path: Path, spec: str) -> Sequence[Chunk]: ...

    def strategies(self) -> list[StrategyInfo]: ...

    def index(self, document_ids: Sequence[str], specs: Sequence[str]) -> Iterator[Indexed]: ...

    def ask(
        self, question: str, specs: Sequence[str], document_ids: Sequence[str] | None, top_k: int | None
    ) -> list[Query]: ...

    def question_sets(self) -> list[QuestionSetInfo]: ...

    def question_set(self, question_set_id: str) -> QuestionSet: ...

    def add_questions(self, data: bytes, name: str, document_ids: Sequence[str] | None) -> QuestionSet: ...

    def draft(self, document_ids: Sequence[str], count: int, seed: int, with_model: bool) -> QuestionSet: ...

    def draft_estimate(self, document_ids: Sequence[str], count: int, seed: int) -> CallsEstimate | None: ...

    def choose_copy(self, question_set_id: str, question_id: str, evidence: int, copy: int | None) -> QuestionSet:
        """Numbers count from 0; every copy when `copy` is None."""

    def check_questions(self, question_set_id: str, document_ids: Sequence[str] | None) -> Sequence[Finding]:
        """Looks its evidence up again first, in the given documents or all, and stores what is found."""

    def dry_run(self, order: Order) -> DryRun: ...

    def start(self, order: Order) -> str:
        """Begin a benchmark; returns the id of its job, which is that of its experiment."""

    def job(self, job_id: str) -> JobStatus: ...

    def cancel(self, job_id: str) -> None: ...

    def resume(self, experiment_id: str, budget_usd: float | None) -> str:
        """Go on, with a new budget where one is given; returns the id of the job."""

    def experiments(self) -> list[ExperimentSummary]: ...

    def experiment(self, experiment_id: str, *, queries: bool = True) -> Experiment: ...

    def compare(self, experiment_ids: Sequence[str]) -> ExperimentComparison: ...

    def check(self, baseline_id: str, candidate_id: str, metric: str, max_drop: float) -> Check: ...

    def export(self, experiment_id: str, kind: str) -> Exported: ...

    def share(self, kind: Kind, item_id: str, shared: bool) -> bool:
        """Whether everyone can read it then."""

    def close(self) -> None: ...


def find(what: str, given: str, known: Sequence[tuple[str, str]]) -> str:
    """The id that is meant: a whole id, its beginning, or a name. `known`: (id, name), newest first. Raises NotFound, BadRequest."""
    ids = [each for each, _ in known]
    if given in ids:
        return given
    named = [each for each, name in known if name == given]
    begun = [each for each in ids if len(given) >= 4 and each.startswith(given)]
    found = named or begun
    if not found:
        raise NotFound(f"There is no {what} {given}. List them to see ids and names.")
    if len(found) > 1:
        raise BadRequest(f"{given} could be {len(found)} {what}s. Give the id: {', '.join(found[:5])}.")
    return found[0]


def find_document(backend: Backend, given: str) -> str:
    return find("document", given, [(info.document_id, info.name) for info in backend.documents()])


def find_question_set(backend: Backend, given: str) -> str:
    return find("question set", given, [(info.question_set_id, info.name) for info in backend.question_sets()])


def find_experiment(backend: Backend, given: str) -> str:
    return find("experiment", given, [(each.experiment_id, each.name) for each in backend.experiments()])
