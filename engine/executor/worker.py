"""Tasks carried out in a worker process, on stores and models of its own environment."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from engine import indexing
from engine.answer import SentenceVectors
from engine.asking import Limits, in_words
from engine.bench.open_spec import OpenSpec, Parts
from engine.errors import BadSetting, IndexUnavailable, NotFound, StoreUnavailable
from engine.executor.base import AskDone, AskTask, Failure, IndexDone, IndexTask
from engine.index import ChunkIndex, open_index
from engine.models import Chunk, StrategySpec
from engine.providers import build_models
from engine.providers.base import Models
from engine.providers.bundled import BundledEmbedder
from engine.providers.meter import Meter, metered
from engine.recent import Recent
from engine.records import Experiment
from engine.settings import Settings, load_settings
from engine.store import Store, open_store
from engine.strategies.source import Source

logger = logging.getLogger(__name__)

OPEN_SPECS = 2
"""Specs whose chunks a worker keeps in memory."""
OPEN_DOCUMENTS = 16
"""Documents a worker keeps in memory."""
_OPEN_EXPERIMENTS = 4

SENT = (
    "embedding_dimension",
    "temperature",
    "max_tokens",
    "context_tokens",
    "long_input",
    "request_timeout",
    "max_retries",
)
"""Settings that go with a task, since they decide its result. Keys and addresses never do: a worker uses those of its own environment, so
that nobody who reaches the scheduler can have a key sent elsewhere."""


def sent(settings: Settings) -> dict[str, Any]:
    """What a worker is told of the settings, the names of the models included."""
    return {
        **{name: getattr(settings, name) for name in SENT},
        "embedding_model": settings.resolved_embedding_model,
        "llm_model": settings.resolved_llm_model,
        "judge_model": settings.resolved_judge_model,
    }


class Work:
    """Carries out tasks on one store, one index and one set of models. Safe to use from several threads."""

    def __init__(self, store: Store, index: ChunkIndex, models: Models, limits: Limits) -> None:
        self._store = store
        self._index = index
        self._models = models
        self._limits = limits
        self._sources: Recent[str, Source] = Recent(OPEN_DOCUMENTS)
        self._experiments: Recent[str, Experiment] = Recent(_OPEN_EXPERIMENTS)
        self._specs: Recent[tuple[str, str, int], OpenSpec] = Recent(OPEN_SPECS)
        self._opening = threading.Lock()
        self._sentences, self._proxies = SentenceVectors(), BundledEmbedder()

    @classmethod
    def of_environment(cls, given: Mapping[str, Any]) -> Work:
        """With the stores, keys and addresses of this process's environment and the rest of the settings as given.

        Raises BadSetting where the environment names no servers, or its models are others; StoreUnavailable, IndexUnavailable.
        """
        settings = load_settings(**given)
        if settings.qdrant_url is None or settings.resolved_database_url.startswith("sqlite"):
            raise BadSetting(
                "A Dask worker was started without QDRANT_URL or DATABASE_URL. Nothing was done there. Start the workers with the same "
                "addresses as the app."
            )
        if sent(settings) != dict(given):
            raise BadSetting(
                "A Dask worker has other models than the app. Nothing was done there. Start the workers with the same keys and the same "
                "OPENAI_BASE_URL, EMBEDDING_BASE_URL and JUDGE_BASE_URL as the app."
            )
        store = open_store(settings)
        try:
            models = build_models(settings, store.vector_cache, store.reply_cache)
            return cls(store, open_index(settings), models, Limits.of(settings))
        except BaseException:
            store.close()
            raise

    def index(self, task: IndexTask) -> IndexDone:
        """Index a document, or find that it is indexed. Never raises: a failure is told."""
        meter = Meter()
        request = task.experiment_id
        try:
            experiment = self._experiment(task.experiment_id)
            request, spec = experiment.request_id, _spec(experiment, task.spec_id)
            source, models = self._source(task.document_id), metered(self._models, meter)
            if experiment.plan.retriever == "lexical":
                indexing.chunk_document(source, spec, models, self._store)
            else:
                indexing.index_document(source, spec, models, self._index, self._store)
        except Exception as error:
            failure = Failure.of(error, in_words(error, "indexing on a worker", request))
            return IndexDone(meter.by_purpose, failure)
        return IndexDone(meter.by_purpose, None)

    def ask(self, task: AskTask) -> list[AskDone]:
        """Ask the questions and store their cells. What a lost worker had stored before is not asked again. Never raises."""
        return [self._ask(task, *unit) for unit in task.units]

    def _ask(self, task: AskTask, question_id: str, repeat: int, seed: int | None) -> AskDone:
        try:
            # A worker goes on with the task of an app that died, and the app that takes over sends the question again.
            with self._store.exclusive("ask", task.experiment_id, task.spec_id, question_id, str(repeat)):
                return self._ask_alone(task, question_id, repeat, seed)
        except Exception as error:
            words = in_words(error, "a question on a worker", task.experiment_id)
            return AskDone(question_id, repeat, stored=False, failure=Failure.of(error, words))

    def _ask_alone(self, task: AskTask, question_id: str, repeat: int, seed: int | None) -> AskDone:
        before = self._store.cell(task.experiment_id, task.spec_id, question_id, repeat)
        if before is not None:
            return AskDone(question_id, repeat, stored=True, failure=None)
        opened = self._open(task)
        questions = self._experiment(task.experiment_id).questions
        question = next(each for each in questions if each.question_id == question_id)
        cell, error = opened.ask(question, repeat, seed)
        failure = None if error is None else Failure.of(error, cell.error or "")
        if isinstance(error, StoreUnavailable | IndexUnavailable):
            return AskDone(question_id, repeat, stored=False, failure=failure)
        self._store.add_cells(task.experiment_id, [cell])
        return AskDone(question_id, repeat, stored=True, failure=failure)

    def _experiment(self, experiment_id: str) -> Experiment:
        return self._experiments.get_or_make(
            experiment_id, lambda: self._store.experiment(experiment_id, queries=False, cells=False)
        )

    def _source(self, document_id: str) -> Source:
        return self._sources.get_or_make(document_id, lambda: Source(self._store.document(document_id)))

    def _open(self, task: AskTask) -> OpenSpec:
        """The spec with its chunks, as the process that runs the experiment has stored them."""
        key = (task.experiment_id, task.spec_id, task.chunk_count)
        with self._opening:
            return self._specs.get_or_make(key, lambda: self._opened(task.experiment_id, task.spec_id))

    def _opened(self, experiment_id: str, spec_id: str) -> OpenSpec:
        experiment = self._experiment(experiment_id)
        spec = _spec(experiment, spec_id)
        parts = Parts(
            experiment,
            self._models,
            self._index,
            self._store,
            self._source,
            self._limits,
            self._sentences,
            self._proxies,
        )
        results = {result.spec.spec_id: result for result in self._store.spec_results(experiment_id)}
        made_with = indexing.chunked_with(spec, self._models)
        chunks: list[Chunk] = []
        for document in experiment.documents:
            if document.document_id not in results[spec_id].document_errors:
                known = self._store.chunk_set(document.document_id, spec, made_with)
                if known is None:
                    raise NotFound(f"The chunks of {document.name} under {spec.label} are gone. Resume the benchmark.")
                chunks.extend(known.chunks)
        return OpenSpec(parts, spec, chunks, results[spec_id])

    def close(self) -> None:
        self._index.close()
        self._store.close()


def _spec(experiment: Experiment, spec_id: str) -> StrategySpec:
    return next(spec for spec in experiment.specs if spec.spec_id == spec_id)


_works: dict[str, Work] = {}
_lock = threading.Lock()


def _work(given: Mapping[str, Any]) -> Work:
    """The work of this process under these settings, made when it is first needed."""
    key = repr(sorted(given.items()))
    with _lock:
        if key not in _works:
            _works[key] = Work.of_environment(given)
        return _works[key]


def index(given: Mapping[str, Any], task: IndexTask) -> IndexDone:
    """A task of the scheduler. Never raises."""
    try:
        work = _work(given)
    except Exception as error:
        return IndexDone({}, Failure.of(error, in_words(error, "opening the stores on a worker", task.experiment_id)))
    return work.index(task)


def ask(given: Mapping[str, Any], task: AskTask) -> list[AskDone]:
    """A task of the scheduler. Never raises."""
    try:
        work = _work(given)
    except Exception as error:
        failure = Failure.of(error, in_words(error, "opening the stores on a worker", task.experiment_id))
        return [AskDone(question_id, repeat, stored=False, failure=failure) for question_id, repeat, _ in task.units]
    return work.ask(task)
