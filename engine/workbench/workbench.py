"""The Workbench itself: opened, closed, looked after, shown on samples."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from engine import documents as reading
from engine import indexing
from engine.bench.jobs import ORPHANED
from engine.errors import NotFound
from engine.index import open_index
from engine.providers import build_models
from engine.providers.base import Probe
from engine.providers.cache import CacheSize
from engine.records import Plan, QuestionSet
from engine.settings import Settings, load_settings
from engine.store import DataFolder, open_store
from engine.store.owners import Kind, Ownership
from engine.workbench import quotas
from engine.workbench.benchmarks import Benchmarks

logger = logging.getLogger(__name__)

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
SAMPLE_DOCUMENTS = ("regulation.docx", "manual.md")
SAMPLE_QUESTIONS = "questions.json"
FIRST_STRATEGIES = (
    "fixed_size",
    "recursive",
    "sentence",
    "paragraph",
    "semantic",
    "markdown_structure",
    "parent_child",
)
"""Strategies of a first benchmark: different ideas, and none that a chat model has to write for."""


class Workbench(Benchmarks):
    """The engine behind one set of settings. Safe to use from several threads; open one per process.

    Every method raises UserError subclasses for what a reader can fix.
    """

    @classmethod
    def open(cls, settings: Settings | None = None) -> Self:
        """Open data folder, database, index and models, and clean up after a process that was killed.

        Raises BadSetting, DataFolderLocked, StoreUnavailable, IndexUnavailable.
        """
        settings = settings or load_settings()
        shared = settings.qdrant_url is not None and settings.database_url is not None
        folder = DataFolder(settings.data_dir, shared=shared)
        try:
            store = open_store(settings)
            index = open_index(settings)
            models = build_models(settings, store.vector_cache, store.reply_cache)
            workbench = cls(settings, folder, store, index, models)
            if not shared:
                cleaned = indexing.clean_up(index, store)
                if cleaned:
                    logger.info("removed %d half-written chunk sets of an earlier run", cleaned)
                store.release_dead_jobs(all_running=True)
                store.end_orphans(ORPHANED, alone=True)
                if store.jobs(["queued"], limit=1):
                    workbench._jobs.start()
            else:
                store.end_orphans(ORPHANED)
                workbench._jobs.share()
            workbench._leftovers.start()
        except BaseException:
            folder.close()
            raise
        return workbench

    def ownership(self, kind: Kind, item_id: str) -> Ownership:
        """Who owns a document, question set or experiment, and whether it is shared. Raises NotFound."""
        self._require(kind, item_id)
        return self._store.ownership(kind, item_id)

    def share(self, kind: Kind, item_id: str, shared: bool = True) -> None:
        """Let every user read a document, question set or experiment of one's own, or no longer. Raises NotFound, NotAllowed."""
        self._require(kind, item_id)
        self._store.require_own(kind, item_id)
        self._store.share(kind, item_id, shared)

    def _require(self, kind: Kind, item_id: str) -> None:
        """Raises NotFound for what is not there."""
        look_up: dict[Kind, Callable[[str], object]] = {
            "document": self._store.document_info,
            "question set": self._store.question_set,
            "query": self._store.query,
            "experiment": self._store.experiment_summary,
        }
        look_up[kind](item_id)

    def spending(self) -> tuple[quotas.Spent, ...]:
        """What the user has spent today and this month, and their quotas."""
        return quotas.spent(self._store, self.settings)

    def close(self) -> None:
        """Stop background work after the units in flight, close index and database, release the data folder."""
        # First, so that a process that hangs keeps no job; the app finishes what it was to do.
        self._cutter.close()
        self._jobs.close()
        self._leftovers.close()
        self._executor.close()
        self._index.close()
        self._store.close()
        reading.close_worker()
        self._folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def health(self) -> dict[str, str]:
        """One sentence each about database and index, and about the workers where there are some. Raises StoreUnavailable, IndexUnavailable,
        WorkersUnavailable."""
        workers = self._executor.health()
        stores = {"database": self._store.health(), "index": self._index.health()}
        return stores if workers is None else {**stores, "workers": workers}

    def cache_sizes(self) -> dict[str, CacheSize]:
        """What the caches of vectors and of replies hold."""
        return {"vectors": self._store.vector_cache.size(), "replies": self._store.reply_cache.size()}

    def prune_caches(self, max_bytes: int) -> dict[str, int]:
        """Drop what was not used for longest until each cache holds at most `max_bytes`. Returns how many entries went.

        Raises NotAllowed for a signed-in user.
        """
        self._store.require_local()
        return {
            "vectors": self._store.vector_cache.prune(max_bytes),
            "replies": self._store.reply_cache.prune(max_bytes),
        }

    def probe_models(self) -> dict[str, Probe]:
        """One cheap call to each model in use: what works, or what is wrong and what to do. Raises NotAllowed for a signed-in user."""
        self._store.require_local()
        used = {"embeddings": self.models.embedder, "answers": self.models.chat, "judge": self.models.judge}
        return {role: model.probe() for role, model in used.items() if model is not None}

    def sample_plan(self, question_set: QuestionSet) -> Plan:
        """A first benchmark on the samples: every strategy of `FIRST_STRATEGIES` on the sample documents, run with the bundled models or those set."""
        documents = [info.document_id for info in self.documents() if info.name in SAMPLE_DOCUMENTS]
        specs = [self.spec(name) for name in FIRST_STRATEGIES]
        return self.plan(question_set.question_set_id, specs, documents, name="Sample benchmark")

    def load_samples(self) -> QuestionSet:
        """Add the sample documents, the first of them last so that lists begin with it, and their questions; nothing happens twice.

        Returns the question set.
        """
        if not all((SAMPLES / name).is_file() for name in (*SAMPLE_DOCUMENTS, SAMPLE_QUESTIONS)):
            raise NotFound(
                "The samples are missing from this installation. Get the folder samples/ from the repository."
            )
        documents = [
            self.add_document((SAMPLES / name).read_bytes(), name).document.document_id
            for name in reversed(SAMPLE_DOCUMENTS)
        ]
        return self.add_question_set((SAMPLES / SAMPLE_QUESTIONS).read_bytes(), SAMPLE_QUESTIONS, documents)
