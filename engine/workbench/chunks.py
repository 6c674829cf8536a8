"""The Workbench's strategies, the chunks they make, and the index of those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine import documents as reading
from engine import indexing
from engine.bench.dry_run import DryRunner
from engine.errors import BadRequest, NeedsModel
from engine.index import recall
from engine.index.base import CollectionInfo, Renewable
from engine.index.recall import Recall
from engine.metrics import chunk_quality
from engine.models import ChunkSet, StrategySpec
from engine.providers.base import ChatModel, Models
from engine.providers.estimate import CallsEstimate, embedding_estimate, estimate
from engine.providers.guide import runs_here
from engine.providers.prices import load_prices
from engine.records import Plan
from engine.store import IndexState
from engine.strategies import registry, written
from engine.strategies.base import Need, Strategy
from engine.strategies.describe import StrategyInfo, describe
from engine.strategies.enrich import summary_requests, with_summaries
from engine.strategies.recommend import Recommendation, recommend
from engine.strategies.source import Source
from engine.workbench.documents import Documents


def _describer(models: Models) -> ChatModel:
    if models.chat is None:
        raise NeedsModel(
            "Summaries and keywords need a chat model and none is configured. Set OPENAI_API_KEY or OPENAI_BASE_URL."
        )
    return models.chat


class Chunks(Documents):
    """Strategies, chunks and the index of a Workbench."""

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
        of_settings = {
            "size": "chunk_size",
            "overlap": "chunk_overlap",
            "threshold": "semantic_threshold",
            "min_sentences": "semantic_min_chunk_size",
        }
        # The semantic settings are that strategy's own; the others are general and count where somebody set them.
        counts = {
            *self.settings.model_fields_set,
            *(("semantic_threshold", "semantic_min_chunk_size") if name == "semantic" else ()),
        }
        defaults = {
            param: getattr(self.settings, setting)
            for param, setting in of_settings.items()
            if param in known and setting in counts
        }
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
        return Need.CHAT in needs or (Need.EMBEDDER in needs and self._embedder_may_cost)

    @property
    def _embedder_may_cost(self) -> bool:
        return self.models.embedder is not None and not runs_here(self.models.embedder.model)

    def chunk(self, document_id: str, spec: StrategySpec) -> ChunkSet:
        """The chunks of one document under one spec. Nothing is indexed.

        Raises NotFound, NeedsModel, ModelCallFailed, BudgetExceeded where they cost something that does not fit into a quota.
        """
        source = self._source(document_id)
        if not self.cutting_may_cost(spec):
            return self._cut(document_id, spec, self.models)
        known = self.known_chunks(document_id, spec)
        if known is not None:
            return known
        with self._paying(lambda: self._cutting_usd(source, spec)) as models:
            return self._cut(document_id, spec, models)

    def _cut(self, document_id: str, spec: StrategySpec, models: Models) -> ChunkSet:
        source = self._source(document_id)
        key = (document_id, spec.spec_id, indexing.chunked_with(spec, self.models))
        return self._chunk_sets.get_or_make(key, lambda: registry.cut(source, spec, models))

    def _cutting_usd(self, source: Source, spec: StrategySpec) -> float | None:
        """The most that cutting can cost by calls no cache answers; None: a price is unknown."""
        calls = self._cutting_calls(source, spec)
        return 0.0 if calls is None else calls.most_cost_usd

    def _cutting_calls(self, source: Source, spec: StrategySpec) -> CallsEstimate | None:
        """The calls that cutting makes and no cache answers; None where none goes over the network, or the model is missing."""
        if not self.cutting_may_cost(spec):
            return None
        strategy, prices = registry.strategy(spec.strategy_name), load_prices(self.settings.prices_file)
        if Need.CHAT in strategy.needs:
            if self.models.chat is None:
                return None
            return estimate(self.models.chat, strategy.requests(source, strategy.parse(spec.params)), prices)
        if self.models.embedder is None:
            return None
        # Such a strategy embeds the sentences of the document.
        sentences = [sentence.slice(source.text).strip() for sentence in source.sentences]
        return embedding_estimate(self.models.embedder, sentences, prices, self.settings)

    def known_chunks(self, document_id: str, spec: StrategySpec) -> ChunkSet | None:
        """The chunks where they were made before, in this process or when the document was indexed. Calls no model. Raises NotFound."""
        self._source(document_id)
        made_with = indexing.chunked_with(spec, self.models)
        key = (document_id, spec.spec_id, made_with)
        known = self._chunk_sets.get(key) or self._store.chunk_set(document_id, spec, made_with)
        return None if known is None else self._chunk_sets.keep(key, known)

    def chunk_estimate(self, document_id: str, spec: StrategySpec) -> CallsEstimate | None:
        """What a model would be called for and cost to make the chunks; None where none over the network is needed, or it is not there.

        Calls no model, but for the dimension of an embedder that is not known yet. Raises NotFound, ModelCallFailed.
        """
        return self._cutting_calls(self._source(document_id), spec)

    def enrich_estimate(self, document_id: str, spec: StrategySpec) -> CallsEstimate | None:
        """What `enrich` would call and cost; None without a chat model, or before there are chunks that cost something to make.

        Calls no model over the network. Raises NotFound, NeedsModel.
        """
        known = self.known_chunks(document_id, spec)
        if self.models.chat is None:
            return None
        if known is None:
            if self.cutting_may_cost(spec):
                return None
            known = self.chunk(document_id, spec)
        return self._describing(known)

    def _describing(self, chunk_set: ChunkSet) -> CallsEstimate:
        prices = load_prices(self.settings.prices_file)
        return estimate(_describer(self.models), summary_requests(chunk_set), prices)

    def enrich(self, document_id: str, spec: StrategySpec) -> ChunkSet:
        """The chunks, each with a summary and keywords by the chat model: one call a chunk, repeated ones from the cache.

        Kept with the chunks where those are stored. Raises NotFound, NotAllowed, NeedsModel, ModelCallFailed, BudgetExceeded; nothing is
        changed then.
        """
        _describer(self.models)
        self._store.require_own("document", document_id)
        known = self.known_chunks(document_id, spec) or self.chunk(document_id, spec)
        with self._paying(lambda: self._describing(known).most_cost_usd) as models:
            described = with_summaries(known, _describer(models))
        self._store.update_chunks(described)
        return self._chunk_sets.keep((document_id, spec.spec_id, indexing.chunked_with(spec, self.models)), described)

    def preview(self, data: bytes, name: str, spec: StrategySpec) -> ChunkSet:
        """The chunks of a file that is not stored. Raises BadDocument, NeedsModel, ModelCallFailed, BudgetExceeded."""
        source = Source(reading.read_document(data, name, self.settings))
        with self._paying(lambda: self._cutting_usd(source, spec)) as models:
            return registry.cut(source, spec, models)

    def quality(self, chunk_set: ChunkSet) -> dict[str, float]:
        """Measures of the cut that need no questions."""
        source = self._source(chunk_set.document_id)
        key = (chunk_set.document_id, chunk_set.spec.spec_id, indexing.chunked_with(chunk_set.spec, self.models))
        return dict(self._qualities.get_or_make(key, lambda: chunk_quality.measure(chunk_set, source)))

    def recommended(self, document_id: str) -> Recommendation:
        """The strategy and sizes to try first on a document, with reasons. Calls no model. Raises NotFound."""
        return recommend(self.document(document_id))

    def index(self, document_ids: Sequence[str], specs: Sequence[StrategySpec]) -> list[indexing.Indexed]:
        """Make documents searchable under specs; what already is costs nothing.

        Raises NotFound, NeedsModel, ModelCallFailed, IndexUnavailable, BudgetExceeded where it does not fit into a quota.
        """
        with self._paying(lambda: self._indexing_usd(document_ids, specs)) as models:
            return self._indexed(document_ids, specs, models)

    def _indexed(
        self, document_ids: Sequence[str], specs: Sequence[StrategySpec], models: Models
    ) -> list[indexing.Indexed]:
        return [
            indexing.index_document(self._source(document_id), spec, models, self._index, self._store, self._cutter)
            for spec in specs
            for document_id in document_ids
        ]

    def _indexing_usd(self, document_ids: Sequence[str], specs: Sequence[StrategySpec]) -> float | None:
        """What making documents searchable is expected to cost; None: a price is unknown."""
        if not self._embedder_may_cost and not any(map(self.cutting_may_cost, specs)):
            return 0.0
        plan = Plan(name="index", document_ids=tuple(document_ids), specs=tuple(specs), question_set_id="")
        return self._dry_runner().estimate(plan, ()).estimated_cost_usd

    def _dry_runner(self) -> DryRunner:
        """What work would call and cost. It cuts only where no model is asked."""
        prices = load_prices(self.settings.prices_file)

        def cut(document_id: str, spec: StrategySpec) -> ChunkSet:
            return self._cut(document_id, spec, self.models)

        return DryRunner(self._store, self._index, self.models, self._source, cut, self.settings, prices)

    def rebuild_index(self) -> int:
        """Drop every collection, so that the next use indexes with the embedding model of the settings. Returns how many were dropped.

        Vectors that were paid for stay in the cache. Raises NotAllowed for a signed-in user.
        """
        self._store.require_local()
        collections = self._index.collections()
        for collection in collections:
            self._index.drop(collection.name)
        self._store.forget_index()
        return len(collections)

    def renew_collections(self) -> dict[str, int]:
        """Copy every collection of a Qdrant server into one made as the settings say now, while searches go on. Returns the points of each.

        Calls no model. Raises NotAllowed for a signed-in user, BadRequest for the embedded index, IndexUnavailable.
        """
        self._store.require_local()
        if not isinstance(self._index, Renewable):
            raise BadRequest(
                "The embedded index has no settings to renew. Nothing was changed. Set QDRANT_URL for a Qdrant server, or use `reindex` after a change of model."
            )
        return {info.name: self._index.rebuild(info.name) for info in self._index.collections()}

    def measure_recall(self, queries: int = 100, k: int = 10) -> list[Recall]:
        """What approximate search misses in each collection that holds points. Raises IndexUnavailable."""
        return [recall.measure(self._index, info.name, queries, k) for info in self._index.collections() if info.points]

    def collections(self) -> list[CollectionInfo]:
        return self._index.collections()

    def index_states(self) -> list[IndexState]:
        """What is in the index: per document, spec and embedding model."""
        return self._store.index_states()
