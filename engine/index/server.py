"""The index on a Qdrant server or cluster, with the same contract as the embedded one.

The embedding model a collection is bound to stands in the collection's metadata, written by the call that creates it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from engine import ids
from engine.errors import BadSetting, IndexUnavailable
from engine.index.base import CollectionInfo, Hit, IndexPoint, check_binding, check_vectors, nearest
from engine.providers.base import Vectors

_BATCH_NUMBERS = 1_000_000
"""Vector components in one request: about 12 MB of JSON, where a server takes 32 MB by default."""

_TIMEOUT_SECONDS = 60


class _Binding(NamedTuple):
    model: str
    dimension: int


class ServerIndex:
    """A `ChunkIndex` on the Qdrant server at `url`. `client`: one that is connected already, in place of one made here.

    Raises BadSetting for an address that is none.
    """

    def __init__(self, url: str, api_key: str | None = None, client: QdrantClient | None = None) -> None:
        self._place, self._client = _place(url), client or _connect(url, api_key)
        self._bindings: dict[str, _Binding] = {}
        self._lock = threading.Lock()

    def ensure(self, collection: str, model: str, dimension: int) -> None:
        asked = _Binding(model, dimension)
        with self._lock, self._in_words():
            if not self._client.collection_exists(collection):
                self._create(collection, asked)
            # Read each time: another process may have made the collection anew with another model.
            bound = self._read_binding(collection)
            if bound is None:
                raise IndexUnavailable(
                    f"{collection} on the Qdrant server at {self._place} was not made by Chunkscope, or the server is too old to keep metadata. "
                    "Its points are as they were. Use the server version of docker-compose.yml, or another server."
                )
            check_binding(collection, bound, asked)
            if self._bindings.get(collection) != bound:
                # Also for a collection that was there: its creator may have been killed before this point.
                for field in ("document_id", "spec_id"):
                    self._client.create_payload_index(collection, field, models.PayloadSchemaType.KEYWORD, wait=True)
                self._bindings[collection] = bound

    def upsert(self, collection: str, points: Sequence[IndexPoint], vectors: Vectors) -> None:
        if len(points) != len(vectors):
            raise ValueError(f"{len(points)} points and {len(vectors)} vectors")
        if not points:
            return
        with self._in_words():
            binding = self._binding(collection)
            if binding is None:
                raise IndexUnavailable(_gone(collection))
            check_vectors(vectors, binding.dimension, collection)
            size = max(1, _BATCH_NUMBERS // binding.dimension)
            for start in range(0, len(points), size):
                part = slice(start, start + size)
                self._client.upsert(collection, _point_structs(points[part], vectors[part]), wait=True)

    def search(
        self, collection: str, vector: Vectors, limit: int, spec_id: str, document_ids: Sequence[str] | None = None
    ) -> list[Hit]:
        if document_ids is not None and not document_ids:
            return []
        with self._in_words():
            binding = self._binding(collection)
            if binding is None:
                return []
            check_vectors(vector, binding.dimension, collection)
            query, which = vector.tolist(), _filter(spec_id, document_ids)

            def fetch(count: int) -> list[Hit]:
                found = self._client.query_points(
                    collection,
                    query=query,
                    query_filter=which,
                    limit=count,
                    search_params=models.SearchParams(exact=True),
                    with_payload=["document_id"],
                )
                return [_hit(point) for point in found.points]

            return nearest(fetch, limit)

    def count(self, collection: str, spec_id: str | None = None, document_id: str | None = None) -> int:
        with self._in_words():
            if self._binding(collection) is None:
                return 0
            which = _filter(spec_id, None if document_id is None else [document_id])
            return self._client.count(collection, count_filter=which, exact=True).count

    def delete(self, collection: str, spec_id: str | None = None, document_id: str | None = None) -> None:
        if spec_id is None and document_id is None:
            return
        with self._in_words():
            if self._binding(collection) is not None:
                which = _filter(spec_id, None if document_id is None else [document_id])
                self._client.delete(collection, models.FilterSelector(filter=which), wait=True)

    def drop(self, collection: str) -> None:
        with self._lock, self._in_words():
            self._bindings.pop(collection, None)
            if self._client.collection_exists(collection):
                self._client.delete_collection(collection)

    def collections(self) -> list[CollectionInfo]:
        with self._in_words():
            names = sorted(found.name for found in self._client.get_collections().collections)
            bound = [(name, self._read_binding(name)) for name in names]
            return [
                CollectionInfo(name, *binding, self._client.count(name, exact=True).count, None)
                for name, binding in bound
                if binding is not None
            ]

    def health(self) -> str:
        with self._in_words():
            found = self._client.get_collections().collections
        return f"The Qdrant server at {self._place} answers and holds {len(found)} collections."

    def close(self) -> None:
        self._client.close()

    def _create(self, collection: str, binding: _Binding) -> None:
        try:
            self._client.create_collection(
                collection,
                vectors_config=models.VectorParams(size=binding.dimension, distance=models.Distance.COSINE),
                # Search is exact, so the server need not build a graph.
                hnsw_config=models.HnswConfigDiff(m=0),
                metadata=binding._asdict(),
            )
        except UnexpectedResponse as error:
            # Another process created it in the meantime; `ensure` checks what it is bound to.
            if error.status_code != 409 and not self._client.collection_exists(collection):
                raise

    def _binding(self, collection: str) -> _Binding | None:
        bound = self._bindings.get(collection)
        if bound is None and self._client.collection_exists(collection):
            bound = self._read_binding(collection)
            if bound is not None:
                self._bindings[collection] = bound
        return bound

    def _read_binding(self, collection: str) -> _Binding | None:
        metadata = self._client.get_collection(collection).config.metadata or {}
        if "model" not in metadata or "dimension" not in metadata:
            return None
        return _Binding(str(metadata["model"]), int(metadata["dimension"]))

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except (ApiException, QdrantException) as error:
            raise IndexUnavailable(self._words(error)) from error

    def _words(self, error: Exception) -> str:
        server = f"The Qdrant server at {self._place}"
        if not isinstance(error, UnexpectedResponse):
            return f"{server} cannot be reached or did not answer in time. What was stored before is kept. Check QDRANT_URL and that the server runs, then try again."
        if error.status_code in (401, 403):
            return f"{server} refuses the key. Nothing was changed. Check QDRANT_API_KEY."
        if error.status_code == 404:
            # Removed by someone else: forget what was known, so that the next call looks again.
            self._bindings.clear()
            return f"{server} lost a collection while it was in use. The documents are kept: index them again."
        return f"{server} answered with an error ({error.status_code}). What was stored before is kept. Look into the server's log (a full disk is a common cause), then try again."


def _place(url: str) -> str:
    """Host and port: the address as given may hold a password."""
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname:
            return f"{parts.hostname}{f':{parts.port}' if parts.port else ''}"
    except ValueError:
        pass
    raise BadSetting(
        "QDRANT_URL is not an address. Use one like http://localhost:6333, or leave it out for the embedded index."
    )


def _connect(url: str, api_key: str | None) -> QdrantClient:
    return QdrantClient(url=url, api_key=api_key, timeout=_TIMEOUT_SECONDS, check_compatibility=False)


def _point_structs(points: Sequence[IndexPoint], vectors: Vectors) -> list[models.PointStruct]:
    return [
        models.PointStruct(
            id=ids.point_id(point.chunk_id),
            vector=row,
            payload={"document_id": point.document_id, "spec_id": point.spec_id},
        )
        for point, row in zip(points, vectors.tolist(), strict=True)
    ]


def _filter(spec_id: str | None, document_ids: Sequence[str] | None) -> models.Filter:
    must: list[Any] = []
    if spec_id is not None:
        must.append(models.FieldCondition(key="spec_id", match=models.MatchValue(value=spec_id)))
    if document_ids is not None:
        must.append(models.FieldCondition(key="document_id", match=models.MatchAny(any=list(document_ids))))
    return models.Filter(must=must)


def _hit(point: models.ScoredPoint) -> Hit:
    return Hit(UUID(str(point.id)).hex, str((point.payload or {})["document_id"]), point.score)


def _gone(collection: str) -> str:
    return f"{collection} is not in the index any more. The documents are kept: index them again."
