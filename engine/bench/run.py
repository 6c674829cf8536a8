"""Runs a stored experiment to its end: index every spec, ask every question, score it. Every finished unit is stored at once,
so a run that was killed or cancelled continues where it stopped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from engine import indexing
from engine.answer import SentenceVectors
from engine.asking import Asker, Limits
from engine.errors import UserError
from engine.index.base import ChunkIndex
from engine.judge import judge
from engine.judge.scores import MEASURES
from engine.metrics.ceiling import Pool
from engine.metrics.retrieval import depth_needed, score_question
from engine.models import ChunkSet, Document, StrategySpec
from engine.providers.base import Models
from engine.providers.meter import Meter, metered
from engine.records import (
    CellStatus,
    Experiment,
    MetricValue,
    Query,
    Question,
    QuestionResult,
    RetrievedChunk,
    SpecResult,
    UsageRecord,
)
from engine.store import Store
from engine.strategies.source import Source

logger = logging.getLogger(__name__)

INDEXERS = 2
"""Specs indexed at once. Cutting is CPU work; more threads than cores only wait for each other."""

Stage = Literal["index", "ask"]


@dataclass(frozen=True, slots=True)
class Event:
    """One step of a run, for whoever shows progress."""

    stage: Stage
    spec: StrategySpec
    done: int
    """Units finished in this stage of this spec: documents for `index`, questions for `ask`."""
    total: int
    error: str | None = None


Emit = Callable[[Event], None]


class Runner:
    """Carries out experiments against one set of models, index and store."""

    def __init__(
        self,
        store: Store,
        index: ChunkIndex,
        models: Models,
        source: Callable[[str], Source],
        limits: Limits,
        askers: int,
    ) -> None:
        self._store = store
        self._index = index
        self._models = models
        self._source = source
        self._limits = limits
        self._askers = askers

    def run(self, experiment: Experiment, emit: Emit, cancelled: Callable[[], bool]) -> Experiment:
        """Do what is not done yet and store the outcome. Returns the finished experiment."""
        done = set(self._store.finished_cells(experiment.experiment_id))
        with ThreadPoolExecutor(INDEXERS, "index") as indexers, ThreadPoolExecutor(self._askers, "ask") as askers:
            work = _Work(self, experiment, emit, cancelled, done, askers)
            prepared = [indexers.submit(work.prepare, spec) for spec in experiment.specs]
            for future in as_completed(prepared):
                future.result()
            work.wait()
        cells = self._store.experiment(experiment.experiment_id).cells
        self._store.add_results(experiment.experiment_id, [work.summary(spec, cells) for spec in experiment.specs])
        status: Literal["finished", "cancelled"] = "cancelled" if cancelled() else "finished"
        self._store.finish_experiment(experiment.experiment_id, status)
        return self._store.experiment(experiment.experiment_id)


class _Work:
    """The state of one run."""

    def __init__(
        self,
        runner: Runner,
        experiment: Experiment,
        emit: Emit,
        cancelled: Callable[[], bool],
        done: set[tuple[str, str]],
        askers: ThreadPoolExecutor,
    ) -> None:
        self._runner = runner
        self._experiment = experiment
        self._emit = emit
        self._cancelled = cancelled
        self._done = done
        self._askers = askers
        self._writer = _CellWriter(runner._store, experiment.experiment_id)
        self._sentences = SentenceVectors()
        self._lock = threading.Lock()
        self._asked: list[Future[None]] = []
        self._counts: dict[str, int] = {}
        self._indexed: dict[str, _SpecIndex] = {}
        self._failed: dict[str, str] = {}

    def prepare(self, spec: StrategySpec) -> None:
        """Index all documents under one spec, then queue its questions. A failure is the spec's alone."""
        documents = self._experiment.documents
        meter = Meter()
        models = metered(self._runner._models, meter)
        totals = _SpecIndex(meter)
        try:
            for number, document in enumerate(documents, start=1):
                if self._cancelled():
                    return
                outcome = indexing.index_document(
                    self._runner._source(document.document_id), spec, models, self._runner._index, self._runner._store
                )
                totals = totals.plus(outcome)
                self._emit(Event("index", spec, number, len(documents)))
        except UserError as error:
            self._fail(spec, error.message)
            return
        except Exception:
            logger.exception("indexing %s failed (request %s)", spec.label, self._experiment.request_id)
            self._fail(
                spec, f"This is a bug in Chunkscope. Details are in the log under {self._experiment.request_id}."
            )
            return
        with self._lock:
            self._indexed[spec.spec_id] = totals
        chunks = [chunk for chunk_set in totals.chunk_sets for chunk in chunk_set.chunks]
        by_id = {chunk.chunk_id: chunk for chunk in chunks}
        runner = self._runner
        search = _Search(
            Asker(models, runner._index, lambda _: by_id, runner._source, runner._limits, self._sentences),
            models,
            lambda document_id: runner._source(document_id).document,
            Pool(chunks),
            depth_needed([chunk.token_count for chunk in chunks]),
        )
        remaining = [q for q in self._experiment.questions if (spec.spec_id, q.question_id) not in self._done]
        self._counts[spec.spec_id] = len(self._experiment.questions) - len(remaining)
        futures = [self._askers.submit(self._ask, search, spec, question) for question in remaining]
        with self._lock:
            self._asked.extend(futures)

    def wait(self) -> None:
        for future in as_completed(self._asked):
            future.result()

    def _fail(self, spec: StrategySpec, reason: str) -> None:
        with self._lock:
            self._failed[spec.spec_id] = reason
        self._emit(Event("index", spec, 0, len(self._experiment.documents), error=reason))

    def _ask(self, search: _Search, spec: StrategySpec, question: Question) -> None:
        if self._cancelled():
            return
        experiment = self._experiment
        asked = search.asker.ask(
            question.question,
            spec,
            [document.document_id for document in experiment.documents],
            experiment.plan.top_k,
            experiment.request_id,
            depth=search.depth,
            answer=experiment.plan.answers,
        )
        query = asked.query
        failed = query.status == "failed"
        if experiment.plan.judge and query.answer_kind == "generated" and not failed:
            query = search.judged(query, question)
        cell = QuestionResult(
            question_id=question.question_id,
            spec_id=spec.spec_id,
            status="failed" if failed else "scored",
            error=query.error,
            query=query,
            metrics={} if failed else search.score(question, asked.ranked) | judged_metrics(query),
        )
        self._writer.add(cell)
        with self._lock:
            self._counts[spec.spec_id] += 1
            count = self._counts[spec.spec_id]
        self._emit(Event("ask", spec, count, len(experiment.questions), error=query.error))

    def summary(self, spec: StrategySpec, cells: Sequence[QuestionResult]) -> SpecResult:
        """What one spec came to, from all stored cells of the experiment."""
        reason = self._failed.get(spec.spec_id)
        if reason is not None:
            return SpecResult(spec=spec, status="failed", error=reason)
        own = [cell for cell in cells if cell.spec_id == spec.spec_id]
        indexed = self._indexed.get(spec.spec_id, _SpecIndex(Meter()))
        return SpecResult(
            spec=spec,
            chunk_count=sum(len(chunk_set.chunks) for chunk_set in indexed.chunk_sets),
            metrics=summarise(own),
            seconds={**indexed.seconds, **latencies(own)},
            usage=UsageRecord(**indexed.meter.total._asdict()),
        )


class _CellWriter:
    """Stores cells so that each is durable when `add` returns; cells that come while one write runs share the next one."""

    def __init__(self, store: Store, experiment_id: str) -> None:
        self._store = store
        self._experiment_id = experiment_id
        self._waiting: list[QuestionResult] = []
        self._list = threading.Lock()
        self._turn = threading.Lock()

    def add(self, cell: QuestionResult) -> None:
        with self._list:
            self._waiting.append(cell)
        with self._turn:
            with self._list:
                batch, self._waiting = self._waiting, []
            if batch:
                self._store.add_cells(self._experiment_id, batch)


@dataclass(frozen=True, slots=True)
class _Search:
    """What asking under one spec needs."""

    asker: Asker
    models: Models
    document: Callable[[str], Document]
    pool: Pool
    depth: int

    def judged(self, query: Query, question: Question) -> Query:
        """The query with the judge's verdict on its answer. Without a judge it stays as it is."""
        if self.models.judge is None:
            return query
        verdict = judge(
            self.models.judge, query.question, question.answer, query.answer, query.retrieved, self.document
        )
        seconds = {**query.seconds, "judge": verdict.seconds}
        return query.model_copy(update={"judgement": verdict, "seconds": seconds})

    def score(self, question: Question, ranked: Sequence[RetrievedChunk]) -> dict[str, float]:
        """All retrieval metrics. A ranking of every chunk there is measures budgets larger than the corpus too."""
        depth = self.depth if self.depth < len(self.pool.chunks) else None
        return score_question(question, ranked, pool=self.pool, depth=depth)


@dataclass(frozen=True, slots=True)
class _SpecIndex:
    """What indexing one spec gave so far."""

    meter: Meter
    chunk_sets: tuple[ChunkSet, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)

    def plus(self, outcome: indexing.Indexed) -> _SpecIndex:
        seconds = dict(self.seconds)
        for stage, value in outcome.seconds.items():
            seconds[stage] = seconds.get(stage, 0.0) + value
        return _SpecIndex(self.meter, (*self.chunk_sets, outcome.chunk_set), seconds)


JUDGE = "judge."
"""Prefix of the values a judge model gave."""


def judged_metrics(query: Query) -> dict[str, float]:
    """The judge's scores that there are, by stored name; hallucination as 1.0 or 0.0."""
    if query.judgement is None:
        return {}
    scores = {measure: getattr(query.judgement, measure) for measure in MEASURES}
    return {JUDGE + measure: float(score) for measure, score in scores.items() if score is not None}


def summarise(cells: Sequence[QuestionResult]) -> tuple[MetricValue, ...]:
    """Means over the questions each metric was scored on. A question without a metric counts as unscored for it, by cause."""
    judged = {JUDGE + m for cell in cells if cell.query and cell.query.judgement for m in cell.query.judgement.status}
    names = sorted({name for cell in cells for name in cell.metrics} | judged)
    values = []
    for name in names:
        scored = [cell.metrics[name] for cell in cells if name in cell.metrics]
        causes: dict[str, int] = {}
        for cell in cells:
            if name not in cell.metrics:
                cause = _cause(cell, name)
                causes[cause] = causes.get(cause, 0) + 1
        values.append(
            MetricValue(metric=name, value=float(np.mean(scored)) if scored else None, n=len(scored), unscored=causes)
        )
    return tuple(values)


def _cause(cell: QuestionResult, name: str) -> CellStatus:
    """Why a question has no value of a metric."""
    if cell.status != "scored":
        return cell.status
    judgement = cell.query.judgement if cell.query is not None else None
    if judgement is not None and name.startswith(JUDGE):
        return judgement.status.get(name.removeprefix(JUDGE), "not_applicable")
    return "not_applicable"


def latencies(cells: Sequence[QuestionResult]) -> dict[str, float]:
    """Median and 95th percentile per stage of the queries, in seconds: `retrieve_p50`, `retrieve_p95`, ..."""
    result = {}
    for stage in ("retrieve", "generate", "judge"):
        values = [c.query.seconds[stage] for c in cells if c.query is not None and stage in c.query.seconds]
        if values:
            result[f"{stage}_p50"] = float(np.percentile(values, 50))
            result[f"{stage}_p95"] = float(np.percentile(values, 95))
    return result
