"""What every vector index looks like to the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

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
        self, collection: str, vector: Vectors, limit: int, spec_id: str, document_ids: Sequence[str] | None = None
    ) -> list[Hit]:
        """The nearest chunks of one spec, best first, ties by chunk id. Exact. `vector`: shape `(dimension,)`. A collection that does not exist gives []."""

    def count(self, collection: str, spec_id: str | None = None, document_id: str | None = None) -> int: ...

    def delete(self, collection: str, spec_id: str | None = None, document_id: str | None = None) -> None:
        """Remove matching points; with neither filter, nothing. A collection that does not exist is no error."""

    def drop(self, collection: str) -> None: ...

    def collections(self) -> list[CollectionInfo]: ...

    def health(self) -> str:
        """One sentence about the index. Raises IndexUnavailable when it is not usable."""

    def close(self) -> None: ...
