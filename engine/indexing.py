"""From a document and a spec to searchable chunks: cut, embed, write. All of a document's chunks are there, or none."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from engine.cutting import HERE, Cutter
from engine.errors import NeedsModel
from engine.index.base import ChunkIndex, IndexPoint, collection_name
from engine.models import ChunkSet, StrategySpec
from engine.prompts import prompt
from engine.providers.base import Embedder, Models, Vectors
from engine.store import IndexState, Store
from engine.strategies import registry
from engine.strategies.base import Need
from engine.strategies.late_chunking import embed_query
from engine.strategies.source import Source

EMBEDDED_IN_PARTS = "embedded_in_parts"
"""Flag of a chunk that is longer than the embedder reads: its vector is the mean of those of its parts."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """What indexing one document under one spec gave."""

    chunk_set: ChunkSet
    seconds: dict[str, float]
    """Latency breakdown: chunk, enrich, embed, upsert, as measured when it was done, which may have been earlier."""
    reused: bool
    vector_bytes: int | None
    """Bytes of the vectors, 4 per dimension; None without vectors."""


def chunk_document(source: Source, spec: StrategySpec, models: Models, store: Store, cutter: Cutter = HERE) -> Indexed:
    """The chunks of one document, stored, for a search by words: nothing is embedded.

    Raises BadDocument, NeedsModel, ModelCallFailed, StoreUnavailable.
    """
    made_with = chunked_with(spec, models)
    known = store.chunk_set(source.document.document_id, spec, made_with)
    if known is not None:
        return Indexed(known, dict(known.seconds), reused=True, vector_bytes=None)
    chunk_set = cutter.cut(source, spec, models)
    store.save_chunk_set(chunk_set, made_with)
    return Indexed(chunk_set, dict(chunk_set.seconds), reused=False, vector_bytes=None)


def index_document(
    source: Source, spec: StrategySpec, models: Models, index: ChunkIndex, store: Store, cutter: Cutter = HERE
) -> Indexed:
    """Make one document searchable under one spec, or find that it already is.

    The order keeps a killed process harmless: chunks and vectors are complete before the first write, a begun write is
    on record before it starts, and what was begun and not finished is removed by `clean_up`. Two that index the same at once, in one
    process or in several on the same PostgreSQL, wait for each other, and the second finds what the first has done.
    Raises BadDocument, NeedsModel, ModelCallFailed, IndexUnavailable, IndexMismatch, StoreUnavailable.
    """
    embedder = models.embedder
    if embedder is None:
        raise NeedsModel("Searching needs an embedder and none is configured. Set EMBEDDING_MODEL.")
    found = _found(source, spec, models, index, store)
    if isinstance(found, Indexed):
        return found
    with store.exclusive("index", source.document.document_id, spec.spec_id, vector_model(spec, models)):
        found = _found(source, spec, models, index, store)
        if isinstance(found, Indexed):
            return found
        return _index(source, spec, models, embedder, index, store, cutter, found)


def _found(
    source: Source, spec: StrategySpec, models: Models, index: ChunkIndex, store: Store
) -> Indexed | ChunkSet | None:
    """What is there of a document under a spec: all, the chunks alone, or nothing."""
    document_id, model = source.document.document_id, vector_model(spec, models)
    known = store.chunk_set(document_id, spec, chunked_with(spec, models))
    state = store.index_state(document_id, spec.spec_id, model)
    if known is not None and state is not None and state.ready and _is_there(state, spec, index):
        seconds = {**known.seconds, **state.seconds}
        return Indexed(known, seconds, reused=True, vector_bytes=_bytes(len(known.chunks), spec, models))
    return known


def _index(
    source: Source,
    spec: StrategySpec,
    models: Models,
    embedder: Embedder,
    index: ChunkIndex,
    store: Store,
    cutter: Cutter,
    known: ChunkSet | None,
) -> Indexed:
    document_id, model = source.document.document_id, vector_model(spec, models)
    made_with = chunked_with(spec, models)
    # Vectors that a strategy makes itself are not stored with its chunks, so such a set is cut anew.
    brings_vectors = Need.TOKEN_EMBEDDER in registry.strategy(spec.strategy_name).needs
    chunk_set = known if known is not None and not brings_vectors else cutter.cut(source, spec, models)
    seconds = dict(chunk_set.seconds)
    began = time.perf_counter()
    if chunk_set.vectors is not None:
        vectors = chunk_set.vectors.rows
    else:
        embedded = embedder.embed([chunk.embed_text for chunk in chunk_set.chunks])
        vectors = embedded.vectors
        chunk_set = _marked(chunk_set, embedded.split)
    seconds["embed"] = seconds.get("embed", 0.0) + time.perf_counter() - began

    began = time.perf_counter()
    collection = collection_name(spec.strategy_name)
    if chunk_set.chunks:
        index.ensure(collection, model, int(vectors.shape[1]))
    if chunk_set is not known:
        store.save_chunk_set(chunk_set, made_with)
    store.begin_index(document_id, spec, model)
    index.delete(collection, spec_id=spec.spec_id, document_id=document_id)
    points = [IndexPoint(chunk.chunk_id, document_id, spec.spec_id) for chunk in chunk_set.chunks]
    index.upsert(collection, points, vectors)
    seconds["upsert"] = time.perf_counter() - began
    spent = {stage: seconds[stage] for stage in ("embed", "upsert")}
    store.finish_index(document_id, spec, model, len(points), spent)
    return Indexed(chunk_set, seconds, reused=False, vector_bytes=int(vectors.nbytes))


def _is_there(state: IndexState, spec: StrategySpec, index: ChunkIndex) -> bool:
    """Whether the index still has the points it is known to have: a folder can be deleted, a server emptied."""
    return index.count(collection_name(spec.strategy_name), spec.spec_id, state.document_id) == state.points


def _marked(chunk_set: ChunkSet, split: Sequence[int]) -> ChunkSet:
    """The chunks, those flagged whose text was longer than the embedder reads and was embedded in parts."""
    parts = frozenset(split)
    chunks = []
    for place, chunk in enumerate(chunk_set.chunks):
        flags = tuple(flag for flag in chunk.flags if flag != EMBEDDED_IN_PARTS)
        flags += (EMBEDDED_IN_PARTS,) if place in parts else ()
        chunks.append(chunk if flags == chunk.flags else chunk.model_copy(update={"flags": flags}))
    same = all(new is old for new, old in zip(chunks, chunk_set.chunks, strict=True))
    return chunk_set if same else chunk_set.model_copy(update={"chunks": tuple(chunks)})


def _bytes(vectors: int, spec: StrategySpec, models: Models) -> int:
    late = Need.TOKEN_EMBEDDER in registry.strategy(spec.strategy_name).needs
    model = models.token_embedder if late else models.embedder
    return 4 * vectors * model.dimension if vectors and model is not None else 0


def vector_model(spec: StrategySpec, models: Models) -> str:
    """Name of the model whose vectors a spec's chunks have: the token embedder for strategies that pool its vectors."""
    late = Need.TOKEN_EMBEDDER in registry.strategy(spec.strategy_name).needs and models.token_embedder is not None
    model = models.token_embedder if late else models.embedder
    return model.model if model is not None else "none"


def query_vector(question: str, spec: StrategySpec, models: Models) -> Vectors:
    """The question as the chunks of a spec are embedded: shape `(dimension,)`, unit length. Raises NeedsModel, ModelCallFailed."""
    if Need.TOKEN_EMBEDDER in registry.strategy(spec.strategy_name).needs and models.token_embedder is not None:
        return embed_query(models.token_embedder, question)
    if models.embedder is None:
        raise NeedsModel("Searching needs an embedder and none is configured. Set EMBEDDING_MODEL.")
    row: Vectors = models.embedder.embed([question], kind="query").vectors[0]
    return row


def chunked_with(spec: StrategySpec, models: Models) -> str:
    """The models and prompts that decide where a spec cuts or what it writes, so that stored chunks are not taken for those of others."""
    strategy = registry.strategy(spec.strategy_name)
    named = {need.value: getattr(models, need.name.lower(), None) for need in sorted(strategy.needs)}
    used = [f"{need}: {model.model}" for need, model in named.items() if model is not None]
    used += [f"prompt: {name}/{prompt(name).version}" for name in strategy.prompts]
    return ", ".join(used)


def clean_up(index: ChunkIndex, store: Store) -> int:
    """Remove what a killed process left half written. Returns how many (document, spec) pairs were cleaned."""
    unfinished = store.unfinished_index()
    for state in unfinished:
        index.delete(collection_name(state.strategy_name), spec_id=state.spec_id, document_id=state.document_id)
        store.forget_index(document_id=state.document_id, spec_id=state.spec_id, model=state.model)
    return len(unfinished)
