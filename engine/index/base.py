"""What every vector index looks like to the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from engine.errors import IndexMismatch
from engine.providers.base import Vectors


class IndexPoint(NamedTuple):
    """One chunk in the index. The text stays in the database; the index holds only what a search filters on."""

    chunk_id: str
    document_id: str
    spec_id: str


class Hit(NamedTuple):
    chunk_id: str
    document_id: str
    score: float
    """Cosine similarity, -1 to 1."""


class Page(NamedTuple):
    """Points of a collection as they are stored, in the order of their chunk ids."""

    points: list[IndexPoint]
    vectors: Vectors
    """Shape `(len(points), dimension)`, rows of unit length."""
    following: str | None
    """Chunk id that the next page starts with; None after the last."""


class CollectionInfo(NamedTuple):
    name: str
    model: str
    """Embedding model the collection is bound to."""
    dimension: int
    points: int
    bytes_on_disk: int | None
    """None where the index does not tell (a server)."""


def collection_name(strategy_name: str) -> str:
    return f"{strategy_name}_collection"


@runtime_checkable
class ChunkIndex(Protocol):
    """Vectors of chunks, one collection per strategy. Safe to call from several threads.

    Raises IndexUnavailable when it cannot be reached or written, IndexMismatch for vectors of another model or dimension.
    """

    def ensure(self, collection: str, model: str, dimension: int) -> None:
        """Create the collection with keyword indexes on `document_id` and `spec_id`, or check that it is bound to the same model."""

    def upsert(self, collection: str, points: Sequence[IndexPoint], vectors: Vectors) -> None:
        """Write points; the same chunk id written twice is one point. Durable when it returns."""

    def search(
        self,
        collection: str,
        vector: Vectors,
        limit: int,
        spec_id: str,
        document_ids: Sequence[str] | None = None,
        *,
        exact: bool | None = None,
    ) -> list[Hit]:
        """The nearest chunks of one spec, best first, ties by chunk id. `vector`: shape `(dimension,)`. A collection that does not exist gives [].

        `exact`: compare with every vector, or let a graph choose which; None: as the settings say, exact by default. An index without a
        graph is exact always.
        """

    def read(self, collection: str, start: str | None = None, limit: int = 1000) -> Page:
        """Stored points from the chunk id `start` on. A collection that does not exist is empty."""

    def count(self, collection: str, spec_id: str | None = None, document_id: str | None = None) -> int: ...

    def delete(self, collection: str, spec_id: str | None = None, document_id: str | None = None) -> None:
        """Remove matching points; with neither filter, nothing. A collection that does not exist is no error."""

    def drop(self, collection: str) -> None: ...

    def collections(self) -> list[CollectionInfo]: ...

    def health(self) -> str:
        """One sentence about the index. Raises IndexUnavailable when it is not usable."""

    def close(self) -> None: ...


@runtime_checkable
class Renewable(Protocol):
    """An index whose collections can be made anew as the settings say, from the vectors they hold."""

    def rebuild(self, collection: str) -> int: ...


def check_vectors(vectors: Vectors, dimension: int, collection: str) -> None:
    """Raises IndexMismatch when vectors (one per row, or a single one) have another length than the collection's, or hold NaN or infinity."""
    if vectors.shape[-1] != dimension:
        raise IndexMismatch(
            f"{collection} holds vectors of {dimension} numbers, and one of {vectors.shape[-1]} was given. Nothing was changed. "
            "Index the documents again with the model that is set now, or set EMBEDDING_MODEL back."
        )
    if not np.isfinite(vectors).all():
        raise IndexMismatch(
            f"The embedding model gave vectors that are not numbers, so nothing was written to {collection} or searched in it. Try again, or choose another EMBEDDING_MODEL."
        )


def check_binding(collection: str, bound: tuple[str, int], asked: tuple[str, int]) -> None:
    """Raises IndexMismatch when a collection is bound to another (model, dimension) than is asked for."""
    if bound != asked:
        raise IndexMismatch(
            f"{collection} holds vectors of {bound[0]} ({bound[1]} numbers each), and {asked[0]} ({asked[1]}) is set now. Nothing was changed. "
            "Index the documents again with the new model, or set EMBEDDING_MODEL back."
        )


def nearest(fetch: Callable[[int], list[Hit]], limit: int) -> list[Hit]:
    """The `limit` best hits, ties by chunk id, from a search that breaks ties in no order we may rely on.

    `fetch(n)` gives the n best hits. It is asked for more until the last place is no longer tied with hits that were cut off.
    """
    if limit < 1:
        return []
    asked = limit + 8
    while True:
        hits = fetch(asked)
        if len(hits) < asked or hits[-1].score < hits[limit - 1].score:
            return sorted(hits, key=lambda hit: (-hit.score, hit.chunk_id))[:limit]
        asked *= 4
