"""The Workbench: what dashboard, API and command line call. Parse, chunk, index, ask, measure, remember."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args

from engine import documents as reading
from engine import ids, indexing, questions, report
from engine import judge as judging
from engine.asking import Asker, Limits
from engine.bench import gate, history
from engine.bench import plan as planning
from engine.bench.dry_run import DryRun, DryRunner
from engine.bench.gate import Check
from engine.bench.history import ExperimentComparison
from engine.bench.jobs import JobRunner
from engine.bench.run import Emit, Runner
from engine.errors import BadRequest, NeedsModel, NotFound, UserError
from engine.index import ChunkIndex, open_index
from engine.index.base import CollectionInfo, collection_name
from engine.judge import trust
from engine.judge.calibration import Calibration, calibrate
from engine.live import LiveAsk
from engine.metrics import chunk_quality
from engine.models import Chunk, ChunkSet, Document, DocumentInfo, StrategySpec
from engine.providers import build_models
from engine.providers.base import ChatModel, Models, Probe
from engine.providers.cache import CacheSize
from engine.providers.guide import runs_here
from engine.providers.prices import load_prices
from engine.questions import edit
from engine.recent import Recent
from engine.records import Experiment, Plan, Query, Question, QuestionResult, QuestionSet
from engine.report import Exported
from engine.settings import Settings, load_settings
from engine.store import DataFolder, ExperimentSummary, IndexState, Job, JobState, QuestionSetInfo, Store, open_store
from engine.strategies import registry, written
from engine.strategies.base import Need, Strategy
from engine.strategies.describe import StrategyInfo, describe
from engine.strategies.enrich import with_summaries
from engine.strategies.recommend import Recommendation, recommend
from engine.strategies.source import Source
from engine.tokens import TokenMap

logger = logging.getLogger(__name__)

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
SAMPLE_DOCUMENTS = ("regulation.docx", "manual.md")
SAMPLE_QUESTIONS = "questions.json"
OPEN_DOCUMENTS = 16
"""Documents kept in memory with their tokens and sentences."""
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
OPEN_CHUNK_SETS = 24
"""Chunk sets kept in memory, so that looking at one again costs nothing."""
ORPHANED = "The process that ran it ended. What is finished is kept; resume it to do the rest."
"""Why an experiment stopped that nobody is running any more."""
ASKERS = 4
"""Questions asked at once without a chat model: the work is local."""


@dataclass(frozen=True, slots=True)
class Added:
    """One uploaded file that is now a document."""

    document: DocumentInfo
    existed: bool
    """Whether the same bytes were there already."""


@dataclass(frozen=True, slots=True)
class FileAdded:
    """What became of one file of a folder or archive."""

    path: str
    """Relative to the folder or archive."""
    added: Added | None
    error: str | None
    """Why nothing was stored, in words."""


@dataclass(frozen=True, slots=True)
class Reread:
    """What reading an original again changed."""

    document: DocumentInfo
    """As it is now; the same as before when the reader has not changed."""
    changes: tuple[questions.Change, ...]
    """Evidence of question sets that was lost, found or moved."""
    experiments: int
    """Experiments measured on the old text. They stay readable; comparing them with new ones compares two texts."""


@dataclass(frozen=True, slots=True)
class ModelDraft:
    """Questions a model drafted, stored, and how every one it was asked for ended."""

    question_set: QuestionSet
    drafted: questions.Drafted


@dataclass(frozen=True, slots=True)
class Deletion:
    """What deleting a document takes with it."""

    document: DocumentInfo
    collections: tuple[str, ...]
    """Collections that hold chunks of it."""
    chunks: int
    experiments: int
    """Experiments that used it; they stay readable."""


class Workbench:
    """The engine behind one set of settings. Safe to use from several threads; open one per process.

    Every method raises UserError subclasses for what a reader can fix.
    """

    def __init__(self, settings: Settings, folder: DataFolder, store: Store, index: ChunkIndex, models: Models) -> None:
        self.settings = settings
        self.models = models
        self._folder = folder
        self._store = store
        self._index = index
        self._lock = threading.Lock()
        self._sources: OrderedDict[str, Source] = OrderedDict()
        self._chunk_sets: Recent[tuple[str, str, str], ChunkSet] = Recent(OPEN_CHUNK_SETS)
        self._qualities: Recent[tuple[str, str, str], dict[str, float]] = Recent(OPEN_CHUNK_SETS)
        self._jobs = JobRunner(store, self._runner, settings.queue_limit, settings.queue_limit_per_user)

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
                store.end_orphans(ORPHANED)
                if store.jobs(["queued"], limit=1):
                    workbench._jobs.start()
        except BaseException:
            folder.close()
            raise
        return workbench

    def close(self) -> None:
        """Stop background work after the units in flight, close index and database, release the data folder."""
        self._jobs.close()
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
        """One sentence each about database and index. Raises StoreUnavailable, IndexUnavailable."""
        return {"database": self._store.health(), "index": self._index.health()}

    # Documents

    def add_document(self, data: bytes, name: str) -> Added:
        """Read and store one file. Raises BadDocument; nothing is stored then."""
        began = time.perf_counter()
        document = reading.read_document(data, name, self.settings)
        return self._keep(document, data, time.perf_counter() - began)

    def add_files(self, source: Path | bytes, name: str) -> Iterator[FileAdded]:
        """Read and store a file, or every file of a folder or zip archive; one bad file does not stop the rest.

        Raises NotFound when the path names nothing, BadDocument when an archive itself is refused.
        """
        began = time.perf_counter()
        for read in reading.read_many(source, name, self.settings):
            seconds = time.perf_counter() - began
            path = reading.display_name(read.path)
            if read.document is None:
                yield FileAdded(path, None, str(read.error))
            else:
                yield FileAdded(path, self._keep(read.document, read.data, seconds), None)
            began = time.perf_counter()

    def _keep(self, document: Document, data: bytes, parse_seconds: float) -> Added:
        document = document.model_copy(update={"parse_seconds": parse_seconds})
        self._folder.add_original(data)
        is_new = self._store.add_document(document)
        return Added(document.info, existed=not is_new)

    def documents(self) -> list[DocumentInfo]:
        """All documents, newest first."""
        return self._store.documents()

    def document(self, document_id: str) -> Document:
        """Raises NotFound."""
        return self._source(document_id).document

    def tokens(self, document_id: str) -> TokenMap:
        """The tokens of a document's text, counted once for all strategies. Raises NotFound."""
        return self._source(document_id).tokens

    def original(self, document_id: str) -> bytes:
        """The uploaded bytes. Raises NotFound."""
        return self._folder.original(self._store.document_info(document_id).sha256)

    def deletion(self, document_id: str) -> Deletion:
        """What `delete_document` would remove. Raises NotFound."""
        info = self._store.document_info(document_id)
        states = self._store.index_states(document_id)
        used = [e for e in self._store.experiments() if info.name in e.document_names]
        return Deletion(
            info,
            tuple(sorted({collection_name(state.strategy_name) for state in states})),
            sum(state.points for state in states),
            len(used),
        )

    def delete_document(self, document_id: str) -> Deletion:
        """Remove a document, its chunks in every collection, and its original. Experiments stay. Raises NotFound."""
        deletion = self.deletion(document_id)
        for state in self._store.delete_document(document_id):
            self._index.delete(collection_name(state.strategy_name), document_id=document_id)
        self._store.forget_index(document_id=document_id)
        if not self._store.document_ids_of(deletion.document.sha256):
            self._folder.remove_original(deletion.document.sha256)
        with self._lock:
            self._sources.pop(document_id, None)
        return deletion

    def outdated_documents(self) -> list[DocumentInfo]:
        """Documents that an older version of their reader made, newest first: `reread` makes them anew from their originals."""
        current = reading.parser_versions()
        return [
            info
            for info in self.documents()
            if current.get(info.media_type, info.parser_version) != info.parser_version
        ]

    def reread(self, document_id: str) -> Reread:
        """Read the original again with today's reader and put the result in the old document's place.

        Question sets are resolved in the new text, and what moved is listed. Experiments stay as they were measured.
        Raises NotFound, BadDocument; the old document stays then.
        """
        deletion = self.deletion(document_id)
        document = self.add_document(self.original(document_id), deletion.document.name).document
        if document.document_id == document_id:
            return Reread(document, (), 0)
        others = [info.document_id for info in self.documents() if info.document_id != document_id]
        moved: list[questions.Change] = []
        for info in self._store.question_sets():
            before = self.question_set(info.question_set_id)
            if any(gold.document_id == document_id for question in before.questions for gold in question.gold):
                moved += questions.changes(before, self._resolved(before, others))
        self.delete_document(document_id)
        return Reread(document, tuple(moved), deletion.experiments)

    def _source(self, document_id: str) -> Source:
        with self._lock:
            source = self._sources.get(document_id)
            if source is not None:
                self._sources.move_to_end(document_id)
                return source
        source = Source(self._store.document(document_id))
        with self._lock:
            source = self._sources.setdefault(document_id, source)
            while len(self._sources) > OPEN_DOCUMENTS:
                self._sources.popitem(last=False)
            return source

    # Strategies and chunks

    def strategies(self) -> tuple[Strategy[Any], ...]:
        """All strategies, in the order every page shows them."""
        return registry.STRATEGIES

    def strategy_infos(self) -> list[StrategyInfo]:
        """What a reader should know of each strategy, in the same order."""
        return [describe(strategy, self.spec(strategy.name), self.models) for strategy in self.strategies()]

    def spec(self, name: str, params: Mapping[str, Any] | None = None) -> StrategySpec:
        """A spec with validated parameters; those not given come from the settings, then from the strategy. Raises BadParameter."""
        strategy = registry.strategy(name)
        known = strategy.params_type.model_fields
        configured = {
            "size": self.settings.chunk_size,
            "overlap": self.settings.chunk_overlap,
            "threshold": self.settings.semantic_threshold,
            "min_sentences": self.settings.semantic_min_chunk_size,
        }
        changed = self.settings.model_fields_set
        names = {
            "size": "chunk_size",
            "overlap": "chunk_overlap",
            "threshold": "semantic_threshold",
            "min_sentences": "semantic_min_chunk_size",
        }
        defaults = {key: value for key, value in configured.items() if key in known and names[key] in changed}
        return registry.spec(name, {**defaults, **(params or {})})

    def written_spec(self, text: str) -> StrategySpec:
        """A spec from `recursive:size=256,overlap=32`. Raises BadRequest, BadParameter."""
        return self.spec(*written.read(text))

    def written_specs(self, texts: Sequence[str], grids: Sequence[str] = ()) -> list[StrategySpec]:
        """Specs from such texts, then those of the grids, each once. Raises BadRequest, BadParameter."""
        every = [*map(written.read, texts), *(each for grid in grids for each in written.read_grid(grid))]
        specs = [self.spec(*each) for each in every]
        return list({spec.spec_id: spec for spec in specs}.values())

    def cutting_may_cost(self, spec: StrategySpec) -> bool:
        """Whether cutting under a spec may call a model over the network."""
        needs = registry.strategy(spec.strategy_name).needs
        paid = self.models.embedder is not None and not runs_here(self.models.embedder.model)
        return Need.CHAT in needs or (Need.EMBEDDER in needs and paid)

    def chunk(self, document_id: str, spec: StrategySpec) -> ChunkSet:
        """The chunks of one document under one spec. Nothing is indexed. Raises NotFound, NeedsModel, ModelCallFailed."""
        source = self._source(document_id)
        key = (document_id, spec.spec_id, indexing.chunked_with(spec, self.models))
        return self._chunk_sets.get_or_make(key, lambda: indexing.cut(source, spec, self.models))

    def known_chunks(self, document_id: str, spec: StrategySpec) -> ChunkSet | None:
        """The chunks where they were made before, in this process or when the document was indexed. Calls no model. Raises NotFound."""
        self._source(document_id)
        made_with = indexing.chunked_with(spec, self.models)
        key = (document_id, spec.spec_id, made_with)
        known = self._chunk_sets.get(key) or self._store.chunk_set(document_id, spec, made_with)
        return None if known is None else self._chunk_sets.keep(key, known)

    def enrich(self, document_id: str, spec: StrategySpec) -> ChunkSet:
        """The chunks, each with a summary and keywords by the chat model: one call a chunk, repeated ones from the cache.

        Kept with the chunks where those are stored. Raises NotFound, NeedsModel, ModelCallFailed; nothing is changed then.
        """
        if self.models.chat is None:
            raise NeedsModel(
                "Summaries and keywords need a chat model and none is configured. Set OPENAI_API_KEY or OPENAI_BASE_URL."
            )
        known = self.known_chunks(document_id, spec) or self.chunk(document_id, spec)
        described = with_summaries(known, self.models.chat)
        self._store.update_chunks(described)
        return self._chunk_sets.keep((document_id, spec.spec_id, indexing.chunked_with(spec, self.models)), described)

    def preview(self, data: bytes, name: str, spec: StrategySpec) -> ChunkSet:
        """The chunks of a file that is not stored. Raises BadDocument, NeedsModel, ModelCallFailed."""
        return indexing.cut(Source(reading.read_document(data, name, self.settings)), spec, self.models)

    def quality(self, chunk_set: ChunkSet) -> dict[str, float]:
        """Measures of the cut that need no questions."""
        source = self._source(chunk_set.document_id)
        key = (chunk_set.document_id, chunk_set.spec.spec_id, indexing.chunked_with(chunk_set.spec, self.models))
        return dict(self._qualities.get_or_make(key, lambda: chunk_quality.measure(chunk_set, source)))

    def recommended(self, document_id: str) -> Recommendation:
        """The strategy and sizes to try first on a document, with reasons. Calls no model. Raises NotFound."""
        return recommend(self.document(document_id))

    # Index

    def index(self, document_ids: Sequence[str], specs: Sequence[StrategySpec]) -> list[indexing.Indexed]:
        """Make documents searchable under specs; what already is costs nothing."""
        return [
            indexing.index_document(self._source(document_id), spec, self.models, self._index, self._store)
            for spec in specs
            for document_id in document_ids
        ]

    def rebuild_index(self) -> int:
        """Drop every collection, so that the next use indexes with the embedding model of the settings. Returns how many were dropped.

        Vectors that were paid for stay in the cache.
        """
        collections = self._index.collections()
        for collection in collections:
            self._index.drop(collection.name)
        self._store.forget_index()
        return len(collections)

    def collections(self) -> list[CollectionInfo]:
        return self._index.collections()

    def index_states(self) -> list[IndexState]:
        """What is in the index: per document, spec and embedding model."""
        return self._store.index_states()

    # Questions

    def add_question_set(
        self, data: bytes, name: str, document_ids: Sequence[str] | None = None, *, store: bool = True
    ) -> QuestionSet:
        """Read a question set and find its evidence in the documents (all when None); `store=False` only reads it. Raises BadQuestionSet."""
        return self._resolved(questions.load(data, name), document_ids, store)

    def _resolved(
        self, question_set: QuestionSet, document_ids: Sequence[str] | None, store: bool = True
    ) -> QuestionSet:
        documents = [self.document(document_id) for document_id in self._document_ids(document_ids)]
        resolved = questions.resolve(question_set, documents)
        if store:
            self._store.save_question_set(resolved)
        return resolved

    def edit_question_set(
        self, question_set_id: str, rows: Sequence[Mapping[str, Any]], name: str | None = None
    ) -> QuestionSet:
        """Store the set that edited rows make (`questions.edit.EDITED`), its evidence looked up in all documents.

        Where anything changed, it is a new set and the old one stays. Raises NotFound, BadQuestionSet.
        """
        return self._resolved(edit.edited(self.question_set(question_set_id), rows, name), None)

    def resolve_question_set(self, question_set_id: str) -> QuestionSet:
        """Look the evidence of a set up again, in all documents there are now. Raises NotFound."""
        return self._resolved(self.question_set(question_set_id), None)

    def draft_question_set(self, document_ids: Sequence[str], count: int = 20, seed: int = 0) -> QuestionSet:
        """Questions drafted from documents by rules, without a model, stored as a set to be reviewed. Raises NotFound, BadRequest when there are none."""
        documents = [self.document(document_id) for document_id in document_ids]
        drafted = questions.draft(documents, count, seed)
        if not drafted:
            raise BadRequest(
                "No question could be drafted: no definition, deadline, amount or table row is written in a way the rules understand. Nothing was stored. Write questions in a file and upload it."
            )
        name = f"Drafted from {', '.join(document.name for document in documents)}"
        set_id = ids.digest("question set", name, *(question.question_id for question in drafted))
        question_set = QuestionSet(question_set_id=set_id, name=name, questions=drafted, created_at=datetime.now(UTC))
        return self._resolved(question_set, document_ids)

    def draft_with_model(self, document_ids: Sequence[str], count: int = 20, seed: int = 0) -> ModelDraft:
        """Questions drafted by the chat model from articles of documents, stored as a set to be reviewed.

        An interrupted draft goes on where it stopped: what was answered comes from the cache. Raises NotFound, NeedsModel, BadRequest when
        no question was usable.
        """
        if self.models.chat is None:
            raise NeedsModel(
                "Drafting with a model needs a chat model and none is configured. Set OPENAI_API_KEY, or draft without a model."
            )
        documents = [self.document(document_id) for document_id in document_ids]
        drafted = questions.draft_with_model(documents, self.models.chat, count, seed)
        if not drafted.questions:
            causes = ", ".join(f"{n} {cause.replace('_', ' ')}" for cause, n in drafted.rejected.items())
            raise BadRequest(
                f"{self.models.chat.model} drafted no usable question ({causes or 'no article is of a size to ask about'}). Nothing was stored. Draft without a model, or from another document."
            )
        name = f"Drafted by {self.models.chat.model} from {', '.join(document.name for document in documents)}"
        set_id = ids.digest("question set", name, *(question.question_id for question in drafted.questions))
        made = QuestionSet(question_set_id=set_id, name=name, questions=drafted.questions, created_at=datetime.now(UTC))
        return ModelDraft(self._resolved(made, document_ids), drafted)

    def check_question_set(
        self, question_set_id: str, specs: Sequence[StrategySpec] = (), document_ids: Sequence[str] | None = None
    ) -> tuple[questions.Finding, ...]:
        """What to know about a question set before it is used, on the given documents or all.

        `specs`: the strategies to be compared; those that cut without a cost are cut, so that evidence and documents are held against
        their chunks; without any, against the chunk size of the settings. Raises NotFound.
        """
        chosen = [info.document_id for info in self.documents()] if document_ids is None else document_ids
        free = [spec for spec in specs if not self.cutting_may_cost(spec)]
        return questions.check(
            self.question_set(question_set_id),
            [self.document(document_id) for document_id in chosen],
            [self.chunk(document_id, spec) for spec in free for document_id in chosen],
            chunk_size=self.settings.chunk_size,
        )

    def question_sets(self) -> list[QuestionSetInfo]:
        return self._store.question_sets()

    def question_set(self, question_set_id: str) -> QuestionSet:
        """Raises NotFound."""
        return self._store.question_set(question_set_id)

    def delete_question_set(self, question_set_id: str) -> None:
        self._store.delete_question_set(question_set_id)

    def _document_ids(self, document_ids: Sequence[str] | None) -> list[str]:
        """The given documents, or all. Raises BadRequest when there are none, NotFound for one that does not exist."""
        known = [info.document_id for info in self.documents()]
        chosen = known if document_ids is None else list(document_ids)
        for document_id in set(chosen) - set(known):
            self._store.document_info(document_id)
        if not chosen:
            raise BadRequest("There are no documents yet. Upload one, or load the samples, then try again.")
        return chosen

    # Ask

    def ask(
        self,
        question: str,
        specs: Sequence[StrategySpec],
        document_ids: Sequence[str] | None = None,
        top_k: int | None = None,
        request_id: str | None = None,
    ) -> list[Query]:
        """One question to several specs side by side, each indexed first where it is not yet. A failing one leaves the others.

        Every query is stored. Raises BadRequest for an empty question, no strategy or no document.
        """
        return self.start_asking(question, specs, document_ids, top_k, request_id).wait()

    def start_asking(
        self,
        question: str,
        specs: Sequence[StrategySpec],
        document_ids: Sequence[str] | None = None,
        top_k: int | None = None,
        request_id: str | None = None,
    ) -> LiveAsk:
        """`ask` in the background: answers can be read while they are written, and are stored whoever still watches."""
        if not question.strip():
            raise BadRequest("The question is empty. Write one and ask again.")
        if not specs:
            raise BadRequest("No strategy is chosen. Choose at least one and ask again.")
        chosen = self._document_ids(document_ids)
        request = request_id or ids.new_id()
        k = top_k or self.settings.top_k
        asker = self._asker()

        def answer(spec: StrategySpec, on_text: Callable[[str], None]) -> Query:
            try:
                self.index(chosen, [spec])
            except UserError as error:
                query = asker.failed(question, spec, chosen, k, request, error)
            else:
                query = asker.ask(question, spec, chosen, k, request, on_text=on_text).query
            self._store.save_query(query)
            return query

        return LiveAsk(request, specs, answer, ASKERS)

    def dry_run_question(
        self,
        question: str,
        specs: Sequence[StrategySpec],
        document_ids: Sequence[str] | None = None,
        top_k: int | None = None,
    ) -> DryRun:
        """Calls, tokens and cost of one question before it is asked, with the indexing it still needs. Calls no model and stores nothing."""
        plan = Plan(
            name="question",
            document_ids=tuple(self._document_ids(document_ids)),
            specs=tuple(specs),
            question_set_id="",
            top_k=top_k or self.settings.top_k,
        )
        return self._dry_runner().estimate(plan, [Question(question_id="question", question=question)])

    def query(self, query_id: str) -> Query:
        """Raises NotFound."""
        return self._store.query(query_id)

    def queries(self, limit: int = 50, request_id: str | None = None) -> list[Query]:
        """The newest queries, newest first; with `request_id`, those of one request."""
        return self._store.recent_queries(limit, request_id)

    def judge(self, query_id: str, expected: str | None = None) -> Query:
        """Have the judge score a stored answer; the verdict is stored with it. `expected`: the right answer, where known.

        Raises NotFound, NeedsModel without a judge, BadRequest for an extractive or failed answer.
        """
        query = self._store.query(query_id)
        if query.answer_kind == "extractive":
            raise BadRequest(
                "An extractive answer is made of the delivered text, so its faithfulness is not applicable."
            )
        if query.status == "failed":
            raise BadRequest("This query failed, so there is no answer to judge.")
        verdict = judging.judge(
            self._judge_model(), query.question, expected, query.answer, query.retrieved, self.document
        )
        return self._kept(query.model_copy(update={"judgement": verdict}))

    def rate(self, query_id: str, rating: int | None = None, faithful: bool | None = None) -> Query:
        """Store a person's rating (1 to 10) of an answer, and whether the delivered text supports all of it. Raises NotFound, BadRequest."""
        if rating is not None and not 1 <= rating <= 10:
            raise BadRequest(f"The rating is {rating}. It must be from 1 to 10.")
        return self._kept(self._store.query(query_id).model_copy(update={"rating": rating, "rated_faithful": faithful}))

    def _kept(self, query: Query) -> Query:
        self._store.save_query(query)
        return query

    def calibrate_judge(self) -> Calibration:
        """Score the judge on cases whose verdict is known. Repeated calls come from the cache. Raises NeedsModel without a judge."""
        return calibrate(self._judge_model())

    def judge_warning(self) -> str | None:
        """A warning when the judge scores answers of its own kind."""
        if self.models.chat is None or self.models.judge is None:
            return None
        return trust.self_preference_warning(self.models.chat.model, self.models.judge.model)

    def judge_agreement(self, limit: int = 1000) -> trust.Agreement:
        """The judge beside the people who rated the newest answers."""
        return trust.agreement(self._store.recent_queries(limit))

    def repeat_judge(self, experiment_id: str, repeats: int = 3, sample: int = 10) -> tuple[trust.Spread, ...]:
        """Judge a seeded sample of an experiment's answers several times. Raises NotFound, NeedsModel, BadRequest without judged answers."""
        model = self._judge_model()
        if repeats < 2 or sample < 1:
            raise BadRequest("A spread needs at least one answer and two repeats. Nothing was judged.")
        experiment = self.experiment(experiment_id)
        judged = [
            cell
            for cell in experiment.cells
            if cell.query is not None and cell.query.judgement is not None and cell.query.retrieved
        ]
        if not judged:
            raise BadRequest("This experiment has no judged answers, so there is nothing to repeat.")
        chosen = random.Random(experiment.plan.seed).sample(judged, min(sample, len(judged)))
        answers = {question.question_id: question.answer for question in experiment.questions}
        queries = [cell.query for cell in chosen if cell.query is not None]
        expected = [answers.get(cell.question_id) for cell in chosen]
        return trust.repeat(model, queries, expected, self.document, repeats)

    def _judge_model(self) -> ChatModel:
        if self.models.judge is None:
            raise NeedsModel(
                "Judging needs a chat model and none is configured. Set OPENAI_API_KEY, or JUDGE_BASE_URL and JUDGE_MODEL."
            )
        return self.models.judge

    def _asker(self) -> Asker:
        return Asker(self.models, self._index, self._store.chunks, self._source, Limits.of(self.settings))

    # Benchmarks

    def plan(
        self,
        question_set: QuestionSet | str,
        specs: Sequence[StrategySpec],
        document_ids: Sequence[str] | None = None,
        name: str | None = None,
        **options: Any,
    ) -> Plan:
        """A plan for a question set, or the id of one, over the given documents (all when None). `options`: further fields of Plan."""
        if isinstance(question_set, str):
            question_set = self.question_set(question_set)
        return Plan(
            name=name or question_set.name,
            document_ids=tuple(self._document_ids(document_ids)),
            specs=tuple(specs),
            question_set_id=question_set.question_set_id,
            top_k=options.pop("top_k", None) or self.settings.top_k,
            baseline=options.pop("baseline", None) or (specs[0].spec_id if specs else None),
            **options,
        )

    def dry_run(self, plan: Plan, question_set: QuestionSet | None = None) -> DryRun:
        """Calls, tokens and cost of a benchmark before it runs, on the plan's question set or one that is not stored.

        Calls no model and stores nothing. Raises BadRequest, NotFound.
        """
        documents = [self._store.document_info(document_id) for document_id in plan.document_ids]
        question_set = question_set or self.question_set(plan.question_set_id)
        planning.check(plan, documents, question_set)
        return self._dry_runner().estimate(plan, question_set.questions)

    def _dry_runner(self) -> DryRunner:
        prices = load_prices(self.settings.prices_file)
        return DryRunner(self._store, self._index, self.models, self._source, self.chunk, self.settings, prices)

    def benchmark(self, plan: Plan, emit: Emit = lambda _: None, request_id: str | None = None) -> Experiment:
        """Run a benchmark to its end in this thread.

        Raises BadRequest for a plan that cannot give a result, and the UserError that kept the run from going on.
        """
        experiment = self._freeze(plan, request_id)
        self._store.create_experiment(experiment)
        self._runner().run(experiment, emit, lambda: False)
        return self.experiment(experiment.experiment_id)

    def submit(self, plan: Plan, owner: str = "", request_id: str | None = None) -> Job:
        """Queue a benchmark; it runs in the background. The job has the id of its experiment. Raises BadRequest, Busy."""
        return self._jobs.submit(self._freeze(plan, request_id), owner)

    def rerun(
        self,
        experiment_id: str,
        changes: Mapping[str, Any] | None = None,
        owner: str = "",
        request_id: str | None = None,
    ) -> Job:
        """Queue an experiment again, with its frozen questions and the models of now. `changes`: fields of its plan to set otherwise.

        Raises NotFound, also for a document that was deleted, BadRequest, Busy.
        """
        before = self._store.experiment(experiment_id, cells=False)
        plan = planning.changed(before.plan, changes or {})
        return self._jobs.submit(self._freeze(plan, request_id, before), owner)

    def job(self, job_id: str) -> Job:
        """Raises NotFound."""
        return self._store.job(job_id)

    def jobs(self) -> list[Job]:
        """Jobs that wait or run, oldest first."""
        return self._store.jobs(("queued", "running"))

    def job_counts(self) -> dict[JobState, int]:
        """Jobs of each state there were, and are."""
        return {state: self._store.count_jobs([state]) for state in get_args(JobState)}

    def longest_wait(self) -> float:
        """Seconds the oldest queued job has waited; 0.0 when none waits."""
        waiting = self._store.jobs(["queued"], limit=1)
        return max(0.0, (datetime.now(UTC) - waiting[0].updated_at).total_seconds()) if waiting else 0.0

    def cancel(self, job_id: str) -> Job:
        """Ask a job to stop; what is finished is kept. Raises NotFound."""
        job = self._store.cancel_job(job_id)
        if job.state == "cancelled" and self._store.experiment_summary(job_id).status == "running":
            # It was waiting, so nobody else will say that it ended.
            self._store.finish_experiment(job_id, "cancelled")
        return job

    def resume(self, experiment_id: str, budget_usd: float | None = None, owner: str = "") -> Job:
        """Continue an ended experiment: what is missing is done, and what failed is tried again. What is finished stays as it is.

        `budget_usd`: a new budget for the whole run; None leaves it. Raises NotFound, Busy.
        """
        if budget_usd is not None:
            self._store.set_budget(experiment_id, budget_usd)
        return self._jobs.resume(experiment_id, owner)

    def retry_failed(self, experiment_id: str, owner: str = "") -> Job:
        """Try again what failed in an experiment, and only that. Raises NotFound, Busy."""
        return self._jobs.resume(experiment_id, owner)

    def orphans(self, experiment_id: str, spec_id: str) -> tuple[Chunk, ...]:
        """Chunks of a spec that are among the first `top_k` hits of no question of an experiment, as far as they are still stored.

        Raises NotFound, BadRequest for a spec that is not in it.
        """
        experiment = self.experiment(experiment_id)
        spec = next((each for each in experiment.specs if each.spec_id == spec_id), None)
        if spec is None:
            raise BadRequest("This strategy is not part of the experiment. Choose one that is.")
        own = [cell.query for cell in experiment.cells if cell.spec_id == spec_id and cell.query is not None]
        there = {info.document_id for info in self.documents()} & {each.document_id for each in experiment.documents}
        known = [self.known_chunks(document_id, spec) for document_id in sorted(there)]
        return chunk_quality.orphans(
            [chunk for chunk_set in known if chunk_set is not None for chunk in chunk_set.chunks],
            (hit.chunk.chunk_id for query in own for hit in query.retrieved),
        )

    def experiments(
        self, text: str = "", *, status: str | None = None, tag: str | None = None, pinned: bool | None = None
    ) -> list[ExperimentSummary]:
        """Experiments, newest first. `text`: words that must all occur in name, note, tags, documents, strategies or models."""
        found = self._store.experiments(status)
        return [each for each in found if history.matches(each, text, tag, pinned)]

    def experiment(self, experiment_id: str, *, queries: bool = True, cells: bool = True) -> Experiment:
        """`queries`: whether its cells come with their answers and retrieved chunks, which are most of its bytes; `cells`: whether
        they come at all. Raises NotFound."""
        return self._store.experiment(experiment_id, queries=queries, cells=cells)

    def experiment_summary(self, experiment_id: str) -> ExperimentSummary:
        """What lists show of it: note, tags, marks. Raises NotFound."""
        return self._store.experiment_summary(experiment_id)

    def cell(self, experiment_id: str, spec_id: str, question_id: str, repeat: int = 0) -> QuestionResult | None:
        """One question under one spec, with its query; None when it is not finished."""
        return self._store.cell(experiment_id, spec_id, question_id, repeat)

    def annotate(
        self,
        experiment_id: str,
        *,
        name: str | None = None,
        note: str | None = None,
        tags: Sequence[str] | None = None,
        pinned: bool | None = None,
    ) -> ExperimentSummary:
        """Change what people write on an experiment; None leaves a field as it is. Raises NotFound, BadRequest for an empty name."""
        if name is not None and not name.strip():
            raise BadRequest("An experiment needs a name. Nothing was changed.")
        self._store.annotate_experiment(experiment_id, name=name, note=note, tags=tags, pinned=pinned)
        return self._store.experiment_summary(experiment_id)

    def mark_baseline(self, experiment_id: str, is_baseline: bool = True) -> ExperimentSummary:
        """Mark an experiment as one that others are compared with, or take the mark away. Raises NotFound."""
        self._store.set_baseline(experiment_id, is_baseline)
        return self._store.experiment_summary(experiment_id)

    def compare(self, experiment_ids: Sequence[str]) -> ExperimentComparison:
        """Two to four experiments against the first: settings that differ, metrics on the common questions, questions by regression.

        Raises NotFound, BadRequest in words where nothing can be compared.
        """
        return history.compare([self._store.experiment(each, queries=False) for each in experiment_ids])

    def check(self, baseline_id: str, candidate_id: str, metric: str, max_drop: float) -> Check:
        """Whether a candidate is worse than a baseline by more than `max_drop` on a metric: pass, regression or cannot tell.

        Raises NotFound, BadRequest.
        """
        pair = [self._store.experiment(each, queries=False) for each in (baseline_id, candidate_id)]
        return gate.check(*pair, metric=metric, max_drop=max_drop)

    def export(self, experiment_id: str, kind: str = "html") -> Exported:
        """An experiment as a file: one of `report.FORMATS`. Raises NotFound, BadRequest."""
        experiment = self._store.experiment(experiment_id, queries=False)

        def cell(spec_id: str, question_id: str) -> QuestionResult | None:
            return self._store.cell(experiment_id, spec_id, question_id)

        def cells() -> Iterator[QuestionResult]:
            for each in experiment.cells:
                found = self._store.cell(experiment_id, each.spec_id, each.question_id, each.repeat)
                yield found or each

        note = self._store.experiment_summary(experiment_id).note
        return report.export(experiment, kind, cells, cell, note)

    def delete_experiment(self, experiment_id: str) -> None:
        """Raises NotFound."""
        self._store.delete_experiment(experiment_id)

    def _freeze(self, plan: Plan, request_id: str | None, repeats: Experiment | None = None) -> Experiment:
        """The experiment of a plan; with `repeats`, with the questions of that one."""
        documents = [self._store.document_info(document_id) for document_id in plan.document_ids]
        question_set = history.frozen_questions(repeats) if repeats else self.question_set(plan.question_set_id)
        planning.check(plan, documents, question_set)
        costs = self.models.chat is not None or not planning.is_local(self.models)
        cost = self._dry_runner().estimate(plan, question_set.questions).estimated_cost_usd if costs else 0.0
        planning.check_budget(plan, cost)
        experiment = planning.freeze(
            plan, documents, question_set, self.models, self.settings, request_id or ids.new_id(), cost
        )
        return experiment.model_copy(update={"repeats_experiment": repeats.experiment_id if repeats else None})

    def _runner(self) -> Runner:
        askers = ASKERS if self.models.chat is None else self.settings.concurrency

        def estimate(experiment: Experiment) -> DryRun:
            return self._dry_runner().estimate(experiment.plan, experiment.questions)

        limits = Limits.of(self.settings)
        return Runner(self._store, self._index, self.models, self._source, limits, askers, estimate)

    # Upkeep

    def cache_sizes(self) -> dict[str, CacheSize]:
        """What the caches of vectors and of replies hold."""
        return {"vectors": self._store.vector_cache.size(), "replies": self._store.reply_cache.size()}

    def prune_caches(self, max_bytes: int) -> dict[str, int]:
        """Drop what was not used for longest until each cache holds at most `max_bytes`. Returns how many entries went."""
        return {
            "vectors": self._store.vector_cache.prune(max_bytes),
            "replies": self._store.reply_cache.prune(max_bytes),
        }

    def probe_models(self) -> dict[str, Probe]:
        """One cheap call to each model in use: what works, or what is wrong and what to do."""
        used = {"embeddings": self.models.embedder, "answers": self.models.chat, "judge": self.models.judge}
        return {role: model.probe() for role, model in used.items() if model is not None}

    # Samples

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
