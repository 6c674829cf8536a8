"""One strategy spec while it is measured: its documents indexed, its questions asked and scored."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine import indexing
from engine.answer import SentenceVectors
from engine.asking import Asked, Asker, Limits, in_words
from engine.bench import summary
from engine.bench.evidence import ChunkPlaces
from engine.cutting import HERE, Cutter
from engine.index.base import ChunkIndex
from engine.judge import judge
from engine.metrics.ceiling import Pool
from engine.metrics.retrieval import depth_needed, score_question
from engine.models import Chunk, Document, StrategySpec
from engine.providers.base import NO_USAGE, Embedder, Models, Usage
from engine.providers.meter import Meter, metered
from engine.records import (
    DocumentRef,
    Experiment,
    Query,
    Question,
    QuestionResult,
    RetrievedChunk,
    SpecResult,
    UsageRecord,
)
from engine.retrieve import Words
from engine.store import Store
from engine.strategies.source import Source

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Parts:
    """What all specs of a run share."""

    experiment: Experiment
    models: Models
    index: ChunkIndex
    store: Store
    source: Callable[[str], Source]
    limits: Limits
    sentences: SentenceVectors
    proxies: Embedder
    """The bundled model, for likeness of answers: free, and the same in every run."""
    stopping: Callable[[], bool] = lambda: False
    """Whether the run is to end; embedding then stops between two calls."""
    cutter: Cutter = HERE

    def document(self, document_id: str) -> Document:
        return self.source(document_id).document


class Indexes:
    """The documents of one spec, indexed one after the other.

    `keeps`: whether their chunks are kept for asking; without it a spec of any size takes no memory here, and questions are asked elsewhere.
    """

    def __init__(
        self, parts: Parts, spec: StrategySpec, spent_before: Mapping[str, UsageRecord], *, keeps: bool = True
    ) -> None:
        self._parts = parts
        self._spec = spec
        self._spent_before = spent_before
        self._keeps = keeps
        self._meter = Meter()
        self._chunks: list[Chunk] = []
        self._chunk_count = 0
        self._quality: list[Mapping[str, float]] = []
        self._seconds: dict[str, list[float]] = {}
        self._bytes: int | None = None
        self.errors: dict[str, str] = {}
        """By document id, in words."""

    @property
    def experiment(self) -> Experiment:
        return self._parts.experiment

    @property
    def spec(self) -> StrategySpec:
        return self._spec

    def fail(self, document: DocumentRef, reason: str) -> None:
        """Note in words why a document could not be indexed, where that was tried elsewhere."""
        self.errors[document.document_id] = reason

    def spend(self, usage: Mapping[str, Usage]) -> float | None:
        """Count usage with this spec. Returns its cost in USD; None: unknown."""
        total = NO_USAGE
        for purpose, each in usage.items():
            self._meter.add(purpose, each)
            total = total.plus(each)
        return total.cost_usd

    def add(self, document: DocumentRef) -> tuple[float | None, Exception | None]:
        """Index one document. Returns what that cost, in USD (None: unknown), and what went wrong. Never raises for a failed document."""
        meter, parts, spec = Meter(), self._parts, self._spec
        models = metered(parts.models, meter, parts.stopping)
        error: Exception | None = None
        try:
            source = parts.source(document.document_id)
            if parts.experiment.plan.retriever == "lexical":
                done = indexing.chunk_document(source, spec, models, parts.store, parts.cutter)
            else:
                done = indexing.index_document(source, spec, models, parts.index, parts.store, parts.cutter)
            self._chunk_count += len(done.chunk_set.chunks)
            if self._keeps:
                self._chunks.extend(done.chunk_set.chunks)
            self._quality.append(parts.cutter.measure(done.chunk_set, source))
            if done.vector_bytes is not None:
                self._bytes = (self._bytes or 0) + done.vector_bytes
            parse = source.document.parse_seconds
            for stage, value in (*done.seconds.items(), *((("parse", parse),) if parse is not None else ())):
                self._seconds.setdefault(stage, []).append(value)
        except Exception as caught:
            error = caught
            self.errors[document.document_id] = in_words(
                caught, f"indexing under {spec.label}", parts.experiment.request_id
            )
        return self.spend(meter.by_purpose), error

    def result(self) -> SpecResult:
        """The row of the spec before a question is asked."""
        usage = summary.added(self._spent_before, summary.recorded(self._meter.by_purpose))
        documents = self._parts.experiment.documents
        seconds: dict[str, float] = {}
        for stage, values in self._seconds.items():
            seconds |= summary.latency(stage, values)
        result = SpecResult(
            spec=self._spec,
            chunk_count=self._chunk_count,
            seconds=seconds,
            usage=summary.total(usage),
            usage_by_purpose=usage,
            index_usage=usage,
            index_bytes=self._bytes,
            quality=summary.joined_quality(self._quality),
            document_errors=dict(self.errors),
        )
        if len(self.errors) < len(documents):
            return result
        reasons = list(dict.fromkeys(self.errors.values()))
        return result.model_copy(update={"status": "failed", "error": reasons[0]})

    def open(self, result: SpecResult) -> OpenSpec:
        return OpenSpec(self._parts, self._spec, self._chunks, result)


class OpenSpec:
    """A spec that is asked; its chunks are in memory where that happens, and with a worker none are here. Safe to use from several threads."""

    def __init__(self, parts: Parts, spec: StrategySpec, chunks: Sequence[Chunk], result: SpecResult) -> None:
        self.spec = spec
        self._parts = parts
        self._result = result
        self._by_id = {chunk.chunk_id: chunk for chunk in chunks}
        self._pool = Pool(chunks)
        self._depth = depth_needed([chunk.token_count for chunk in chunks])
        self._places = ChunkPlaces(chunks)
        plan = parts.experiment.plan
        self._words = None if plan.retriever == "vector" else Words(chunks)
        self._asker = Asker(
            parts.models, parts.index, lambda _: self._by_id, parts.source, parts.limits, parts.sentences
        )
        self._document_ids = [
            document.document_id
            for document in parts.experiment.documents
            if document.document_id not in result.document_errors
        ]

    @property
    def experiment_id(self) -> str:
        return self._parts.experiment.experiment_id

    @property
    def chunk_count(self) -> int:
        return self._result.chunk_count

    def ask(self, question: Question, repeat: int, seed: int | None) -> tuple[QuestionResult, Exception | None]:
        """One question, asked and scored, and what went wrong. Never raises: a failure is a cell that says why."""
        cell = QuestionResult(
            question_id=question.question_id, spec_id=self.spec.spec_id, status="skipped", repeat=repeat
        )
        missing = {gold.document_id for gold in question.gold} & self._result.document_errors.keys()
        if missing:
            names = {document.document_id: document.name for document in self._parts.experiment.documents}
            reason = f"Its evidence lies in {', '.join(sorted(names[each] for each in missing))}, which could not be used under this strategy."
            return cell.model_copy(update={"error": reason}), None
        try:
            return self._asked(cell, question, seed)
        except Exception as error:
            reason = in_words(error, f"a question under {self.spec.label}", self._parts.experiment.request_id)
            return cell.model_copy(update={"status": "failed", "error": reason}), error

    def _asked(
        self, cell: QuestionResult, question: Question, seed: int | None
    ) -> tuple[QuestionResult, Exception | None]:
        experiment = self._parts.experiment
        asked = self._asker.ask(
            question.question,
            self.spec,
            self._document_ids,
            experiment.plan.top_k,
            experiment.request_id,
            depth=self._depth,
            answer=experiment.plan.answers,
            retriever=experiment.plan.retriever,
            words=self._words,
            seed=seed,
        )
        usage = summary.recorded(asked.usage)
        if asked.query.status == "failed":
            failed = {"status": asked.status, "error": asked.query.error, "query": asked.query, "usage": usage}
            return cell.model_copy(update=failed), asked.error
        query = self._judged(asked, question, seed)
        if query.judgement is not None:
            usage = summary.added(usage, {"judge": query.judgement.usage})
        scored = {
            "status": "scored",
            "query": query,
            "metrics": {
                **self._score(question, asked.ranked),
                **summary.answer_metrics(question, query, self._parts.proxies),
                **summary.judged_metrics(query.judgement),
            },
            "unscored": summary.unjudged(query.judgement),
            "seconds": dict(query.seconds),
            "usage": usage,
            "evidence": self._places.of(question, [hit.chunk for hit in query.retrieved]),
        }
        return cell.model_copy(update=scored), None

    def _judged(self, asked: Asked, question: Question, seed: int | None) -> Query:
        """The query with the judge's verdict on its answer, where a judge is asked and a model wrote one."""
        query, model = asked.query, self._parts.models.judge
        if not self._parts.experiment.plan.judge or model is None or query.answer_kind != "generated":
            return query
        verdict = judge(
            model, query.question, question.answer, query.answer, query.retrieved, self._parts.document, seed
        )
        seconds = {**query.seconds, "judge": verdict.seconds}
        return query.model_copy(update={"judgement": verdict, "seconds": seconds})

    def _score(self, question: Question, ranked: Sequence[RetrievedChunk]) -> dict[str, float]:
        """All retrieval metrics. A ranking of every chunk there is measures budgets larger than the corpus too."""
        depth = self._depth if self._depth < len(self._pool.chunks) else None
        return score_question(question, ranked, pool=self._pool, depth=depth)

    def summary(self, cells: Sequence[QuestionResult]) -> SpecResult:
        """The row of the spec, from its stored cells."""
        usage = summary.added(self._result.index_usage, *(cell.usage for cell in cells))
        return self._result.model_copy(
            update={
                "metrics": summary.summarise(cells),
                "seconds": {**self._result.seconds, **summary.query_latencies(cells)},
                "usage": summary.total(usage),
                "usage_by_purpose": usage,
            }
        )

    def give_up(self) -> None:
        """Let go of the chunks."""
        self._by_id = {}
        self._pool = Pool(())
        self._places = ChunkPlaces(())
        self._words = None
