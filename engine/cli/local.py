"""Commands carried out in this process, on the data folder of the settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.bench.dry_run import DryRun
from engine.bench.gate import Check
from engine.bench.history import ExperimentComparison
from engine.cli.backend import Indexed, JobStatus, Order
from engine.cli.output import read
from engine.models import Chunk, DocumentInfo, Node
from engine.providers.estimate import CallsEstimate
from engine.questions import Finding
from engine.records import Experiment, Plan, Query, QuestionSet
from engine.report import Exported
from engine.store import ExperimentSummary, QuestionSetInfo
from engine.store.owners import Kind
from engine.strategies.describe import StrategyInfo
from engine.workbench import Deletion, FileAdded, Workbench


class Local:
    def __init__(self, workbench: Workbench) -> None:
        self.workbench = workbench

    def close(self) -> None:
        self.workbench.close()

    def documents(self) -> list[DocumentInfo]:
        return self.workbench.documents()

    def add(self, path: Path) -> Iterator[FileAdded]:
        return self.workbench.add_files(path, path.name)

    def tree(self, document_id: str) -> Node:
        return self.workbench.document(document_id).tree

    def delete(self, document_id: str) -> Deletion:
        return self.workbench.delete_document(document_id)

    def chunks(self, document_id: str, spec: str) -> Sequence[Chunk]:
        chosen = self.workbench.written_spec(spec)
        # Those that were stored have what a model wrote for them.
        return (self.workbench.known_chunks(document_id, chosen) or self.workbench.chunk(document_id, chosen)).chunks

    def enrich(self, document_id: str, spec: str) -> Sequence[Chunk]:
        return self.workbench.enrich(document_id, self.workbench.written_spec(spec)).chunks

    def enrich_estimate(self, document_id: str, spec: str) -> CallsEstimate | None:
        return self.workbench.enrich_estimate(document_id, self.workbench.written_spec(spec))

    def preview(self, path: Path, spec: str) -> Sequence[Chunk]:
        return self.workbench.preview(read(path), path.name, self.workbench.written_spec(spec)).chunks

    def strategies(self) -> list[StrategyInfo]:
        return self.workbench.strategy_infos()

    def index(self, document_ids: Sequence[str], specs: Sequence[str]) -> Iterator[Indexed]:
        for spec in self.workbench.written_specs(specs):
            for document_id in document_ids:
                (done,) = self.workbench.index([document_id], [spec])
                yield Indexed(document_id, spec, len(done.chunk_set.chunks), done.reused, done.seconds)

    def ask(
        self, question: str, specs: Sequence[str], document_ids: Sequence[str] | None, top_k: int | None
    ) -> list[Query]:
        return self.workbench.ask(question, self.workbench.written_specs(specs), document_ids, top_k)

    def question_sets(self) -> list[QuestionSetInfo]:
        return self.workbench.question_sets()

    def question_set(self, question_set_id: str) -> QuestionSet:
        return self.workbench.question_set(question_set_id)

    def add_questions(self, data: bytes, name: str, document_ids: Sequence[str] | None) -> QuestionSet:
        return self.workbench.add_question_set(data, name, document_ids)

    def draft(self, document_ids: Sequence[str], count: int, seed: int, with_model: bool) -> QuestionSet:
        if with_model:
            return self.workbench.draft_with_model(document_ids, count, seed).question_set
        return self.workbench.draft_question_set(document_ids, count, seed)

    def draft_estimate(self, document_ids: Sequence[str], count: int, seed: int) -> CallsEstimate | None:
        return self.workbench.draft_estimate(document_ids, count, seed)

    def choose_copy(self, question_set_id: str, question_id: str, evidence: int, copy: int | None) -> QuestionSet:
        return self.workbench.choose_copy(question_set_id, question_id, evidence, copy)

    def check_questions(self, question_set_id: str, document_ids: Sequence[str] | None) -> Sequence[Finding]:
        found = self.workbench.resolve_question_set(question_set_id, document_ids)
        return self.workbench.check_question_set(found.question_set_id)

    def dry_run(self, order: Order) -> DryRun:
        return self.workbench.dry_run(self._plan(order))

    def start(self, order: Order) -> str:
        return self.workbench.submit(self._plan(order)).job_id

    def _plan(self, order: Order) -> Plan:
        specs = self.workbench.written_specs(order.specs)
        baseline = None if order.baseline is None else self.workbench.written_spec(order.baseline).spec_id
        return self.workbench.plan(order.question_set_id, specs, order.document_ids, baseline=baseline, **order.options)

    def job(self, job_id: str) -> JobStatus:
        job = self.workbench.job(job_id)
        return JobStatus(job.state, job.error, job.progress)

    def cancel(self, job_id: str) -> None:
        self.workbench.cancel(job_id)

    def resume(self, experiment_id: str, budget_usd: float | None) -> str:
        return self.workbench.resume(experiment_id, budget_usd).job_id

    def experiments(self) -> list[ExperimentSummary]:
        return self.workbench.experiments()

    def experiment(self, experiment_id: str, *, queries: bool = True) -> Experiment:
        return self.workbench.experiment(experiment_id, queries=queries)

    def compare(self, experiment_ids: Sequence[str]) -> ExperimentComparison:
        return self.workbench.compare(experiment_ids)

    def check(self, baseline_id: str, candidate_id: str, metric: str, max_drop: float) -> Check:
        return self.workbench.check(baseline_id, candidate_id, metric, max_drop)

    def export(self, experiment_id: str, kind: str) -> Exported:
        return self.workbench.export(experiment_id, kind)

    def share(self, kind: Kind, item_id: str, shared: bool) -> bool:
        self.workbench.share(kind, item_id, shared)
        return self.workbench.ownership(kind, item_id).shared
