"""The index on a Qdrant server or cluster, with the same contract as the embedded one.

The embedding model a collection is bound to stands in the collection's metadata, written by the call that creates it. `server_layout.py`
says how collections are made and named.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import metadata
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from engine import ids
from engine.errors import BadSetting, IndexUnavailable
from engine.index import server_layout as layout
from engine.index.base import CollectionInfo, Hit, IndexPoint, Page, check_binding, check_vectors, nearest
from engine.index.server_layout import Binding, Layout
from engine.index.server_words import NOT_QDRANTS, in_words, is_missing_collection
from engine.providers.base import Vectors

_BATCH_NUMBERS = 256_000
"""Vector components in one request: 5 MB of JSON at most, 1,000 vectors of 256 numbers. Qdrant takes 32 MB."""

_BATCH_POINTS = 1000
"""Points in one request, however short their vectors are; also those that are read at once."""

_OLDEST = (1, 16)
"""First version of Qdrant that keeps metadata of collections."""

_PORT = 6333
"""Qdrant's, where the address names none."""

_TIMEOUT_SECONDS = 60

Answer = TypeVar("Answer")


class ServerIndex:
    """A `ChunkIndex` on the Qdrant server at `url`. `client`: one that is connected already, in place of one made here.

    Raises BadSetting for an address that is none.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        client: QdrantClient | None = None,
        layout: Layout | None = None,
    ) -> None:
        self._place, self._client = _place(url), client or _connect(url, api_key)
        self._layout = layout = layout or Layout()
        self._writes = threading.Semaphore(layout.writes)
        self._bindings: dict[str, Binding] = {}
        self._lock = threading.Lock()

    def ensure(self, collection: str, model: str, dimension: int) -> None:
        asked = Binding(model, dimension)
        with self._lock, self._in_words():
            if not self._client.collection_exists(collection):
                self._layout.create(self._client, layout.first(collection), asked)
                layout.point_at(self._client, collection, layout.first(collection))
            # Read each time: another process may have made the collection anew with another model.
            bound = layout.read_binding(self._client, collection)
            if bound is None:
                raise IndexUnavailable(
                    f"{collection} on the Qdrant server at {self._place} was not made by Chunkscope, or the server is too old to keep metadata. "
                    "Its points are as they were. Use the server version of docker-compose.yml, or another server."
                )
            check_binding(collection, bound, asked)
            if self._bindings.get(collection) != bound:
                # Also for a collection that was there: its creator may have been killed before this point.
                layout.index_fields(self._client, collection)
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
            self._write(collection, points, vectors)

    def _write(self, collection: str, points: Sequence[IndexPoint], vectors: Vectors) -> None:
        """Send batches side by side, at most `writes` of them in the whole process, each made into JSON only when it is its turn."""

        def put(part: slice) -> None:
            with self._writes:
                points_of_part = _point_structs(points[part], vectors[part])
                self._finished(self._client.upsert(collection, points_of_part, wait=True))

        size = max(1, min(_BATCH_POINTS, _BATCH_NUMBERS // vectors.shape[1]))
        parts = [slice(start, start + size) for start in range(0, len(points), size)]
        if len(parts) == 1:
            put(parts[0])
            return
        pool = ThreadPoolExecutor(min(self._layout.writes, len(parts)), "upsert")
        try:
            for _ in pool.map(put, parts):
                pass
        finally:
            # After a batch that failed, those that were not sent stay unsent.
            pool.shutdown(cancel_futures=True)

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
        if document_ids is not None and not document_ids:
            return []
        query, which = vector.tolist(), _filter(spec_id, document_ids)
        params = layout.search_params(not self._layout.graph if exact is None else exact)

        def find() -> list[Hit]:
            binding = self._binding(collection)
            if binding is None:
                return []
            check_vectors(vector, binding.dimension, collection)

            def fetch(count: int) -> list[Hit]:
                found = self._client.query_points(
                    collection,
                    query=query,
                    query_filter=which,
                    limit=count,
                    search_params=params,
                    with_payload=["document_id"],
                )
                return [_hit(point) for point in found.points]

            return nearest(fetch, limit)

        return self._reading(find)

    def read(self, collection: str, start: str | None = None, limit: int = _BATCH_POINTS) -> Page:
        def page() -> Page:
            binding = self._binding(collection)
            if binding is None:
                return Page([], np.zeros((0, 0), np.float32), None)
            records, after = self._client.scroll(
                collection,
                limit=limit,
                offset=None if start is None else str(UUID(start)),
                with_payload=True,
                with_vectors=True,
            )
            return _page(records, binding, None if after is None else UUID(str(after)).hex)

        return self._reading(page)

    def count(self, collection: str, spec_id: str | None = None, document_id: str | None = None) -> int:
        which = _filter(spec_id, None if document_id is None else [document_id])

        def number() -> int:
            if self._binding(collection) is None:
                return 0
            return self._client.count(collection, count_filter=which, exact=True).count

        return self._reading(number)

    def delete(self, collection: str, spec_id: str | None = None, document_id: str | None = None) -> None:
        if spec_id is None and document_id is None:
            return
        with self._in_words():
            if self._binding(collection) is not None:
                which = _filter(spec_id, None if document_id is None else [document_id])
                self._finished(self._client.delete(collection, models.FilterSelector(filter=which), wait=True))

    def drop(self, collection: str) -> None:
        with self._lock, self._in_words():
            self._bindings.pop(collection, None)
            # What renewals that were cut off have left goes too: a collection that is made anew would take it over.
            for name in (self._behind(collection), *layout.generations(self._client, collection)):
                self._client.delete_collection(name)

    def rebuild(self, collection: str) -> int:
        """Copy a collection into a new one that is made as the settings say now, let its name stand for that one, and drop the old one.

        Searches go on meanwhile. Returns the number of points that were copied. Raises IndexUnavailable, also when points were written or
        removed while they were copied; the old collection is then still the one in use.
        """
        with self._lock, self._in_words():
            binding = self._binding(collection)
            if binding is None:
                raise IndexUnavailable(_gone(collection))
            old, new = self._behind(collection), layout.following(self._client, collection)
            if not self._layout.create(self._client, new, binding):
                raise IndexUnavailable(
                    f"{collection} is being renewed by another process. It is in use as it was. Wait until that one has finished."
                )
            start: str | None = None
            while True:
                page = self.read(old, start)
                if page.points:
                    self._write(new, page.points, page.vectors)
                start = page.following
                if start is None:
                    break
            copied, there = (self._stored_ids(name) for name in (new, old))
            if not np.array_equal(copied, there) or self._behind(collection) != old:
                self._client.delete_collection(new)
                raise IndexUnavailable(
                    f"{collection} was changed while it was copied ({len(there)} points, {len(copied)} copied). It is in use as it was. "
                    "Renew it when nothing is being indexed."
                )
            if old == collection:
                # An alias cannot take the name of a collection that is there.
                self._client.delete_collection(old)
                layout.point_at(self._client, collection, new)
            else:
                layout.point_at(self._client, collection, new)
                self._catch_up(old, new, copied, binding)
                self._client.delete_collection(old)
            numbers, used = layout.generations(self._client, collection), self._behind(collection)
            for name in numbers:
                if name != used and numbers[name] < numbers.get(new, 0):
                    # A renewal that was cut off has left it.
                    self._client.delete_collection(name)
            return len(copied)

    def _behind(self, collection: str) -> str:
        """The collection that a name stands for: another one behind an alias, or itself."""
        return layout.targets(self._client).get(collection, collection)

    def _stored_ids(self, collection: str) -> NDArray[np.bytes_]:
        """Chunk ids in their order, 32 bytes each."""
        pages: list[NDArray[np.bytes_]] = [np.zeros(0, "S32")]
        start: Any = None
        while True:
            records, start = self._client.scroll(
                collection, limit=_BATCH_POINTS, offset=start, with_payload=False, with_vectors=False
            )
            pages.append(np.array([UUID(str(record.id)).hex for record in records], "S32"))
            if start is None:
                return np.concatenate(pages)

    def _catch_up(self, old: str, new: str, copied: NDArray[np.bytes_], binding: Binding) -> None:
        """Do to `new` what others did to `old` after the two were compared and before the name was moved."""
        now = self._stored_ids(old)
        written, removed = _point_ids(np.setdiff1d(now, copied)), _point_ids(np.setdiff1d(copied, now))
        for start in range(0, len(written), _BATCH_POINTS):
            some = written[start : start + _BATCH_POINTS]
            page = _page(self._client.retrieve(old, some, with_payload=True, with_vectors=True), binding, None)
            self._write(new, page.points, page.vectors)
        if removed:
            self._finished(self._client.delete(new, models.PointIdsList(points=removed), wait=True))

    def collections(self) -> list[CollectionInfo]:
        with self._in_words():
            names = {target: alias for alias, target in layout.targets(self._client).items()}
            found = [each.name for each in self._client.get_collections().collections]
            shown = sorted(names.get(name, name) for name in found if name in names or not layout.is_left_over(name))
            bound = [(name, layout.read_binding(self._client, name)) for name in shown]
            return [
                CollectionInfo(name, *binding, self._client.count(name, exact=True).count, None)
                for name, binding in bound
                if binding is not None
            ]

    def health(self) -> str:
        with self._in_words():
            version = self._client.info().version
            found = self._client.get_collections().collections
        numbers = re.match(r"(\d+)\.(\d+)", version)
        known = (int(numbers[1]), int(numbers[2])) if numbers else None
        if known and known < _OLDEST:
            raise IndexUnavailable(
                f"The Qdrant server at {self._place} has version {version}, and Chunkscope needs {_OLDEST[0]}.{_OLDEST[1]} or newer. "
                "Nothing was changed. Update the server, or use that of docker-compose.yml."
            )
        tried = "" if known and known <= _newest() else ", which this Chunkscope does not know"
        return f"The Qdrant server at {self._place} (version {version[:40]}{tried}) answers and holds {len(found)} collections."

    def close(self) -> None:
        self._client.close()

    def _binding(self, collection: str) -> Binding | None:
        bound = self._bindings.get(collection)
        if bound is None and self._client.collection_exists(collection):
            bound = layout.read_binding(self._client, collection)
            if bound is not None:
                self._bindings[collection] = bound
        return bound

    def _finished(self, result: models.UpdateResult) -> None:
        if result.status != models.UpdateStatus.COMPLETED:
            raise IndexUnavailable(
                f"The Qdrant server at {self._place} took a change and did not finish it in time. It may do so later. "
                "Look into the server's log and index the documents again."
            )

    def _reading(self, read: Callable[[], Answer]) -> Answer:
        """A renewal may drop the collection that a request was on its way to: its name then stands for another one already."""
        with self._in_words():
            try:
                return read()
            except UnexpectedResponse as error:
                if not is_missing_collection(error):
                    raise
            self._bindings.clear()
            return read()

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except (ApiException, QdrantException, *NOT_QDRANTS) as error:
            if is_missing_collection(error):
                # Removed by someone else: forget what was known, so that the next call looks again.
                self._bindings.clear()
            raise IndexUnavailable(in_words(error, self._place)) from error


def _newest() -> tuple[int, int]:
    """The last version of Qdrant that the client says it works with: the one after its own."""
    major, minor = metadata.version("qdrant-client").split(".")[:2]
    return int(major), int(minor) + 1


def _place(url: str) -> str:
    """Host and port, as the client will ask them: the address as given may hold a password."""
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname:
            return f"{parts.hostname}:{parts.port or _PORT}"
    except ValueError:
        pass
    raise BadSetting(
        "QDRANT_URL is not an address. Use one like http://localhost:6333, or leave it out for the embedded index."
    )


def _connect(url: str, api_key: str | None) -> QdrantClient:
    # On one machine the client keeps no connections, and has reasons; elsewhere they go before the server ends them, after 5 seconds.
    limits = None if urlsplit(url).hostname in ("localhost", "127.0.0.1") else httpx.Limits(keepalive_expiry=2.0)
    client = QdrantClient(
        url=url, port=_PORT, api_key=api_key, timeout=_TIMEOUT_SECONDS, check_compatibility=False, limits=limits
    )
    client.http.client.add_middleware(_once_more)
    return client


def _once_more(request: httpx.Request, send: Callable[[httpx.Request], httpx.Response]) -> httpx.Response:
    """A request whose connection ended without an answer is sent again: a node was restarted, or the connection had been idle for too long.

    Whatever is sent here may arrive twice.
    """
    try:
        return send(request)
    except ResponseHandlingException as error:
        if not isinstance(error.source, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError):
            raise
    return send(request)


def _point_ids(chunk_ids: NDArray[np.bytes_]) -> list[models.ExtendedPointId]:
    return [ids.point_id(each.decode()) for each in chunk_ids]


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
    # A server writes the fewest digits that name a 32-bit number: 0.6. The embedded index gives that number as 64 bits: 0.60000002.
    score = float(np.float32(point.score))
    return Hit(UUID(str(point.id)).hex, str((point.payload or {})["document_id"]), score)


def _page(records: Sequence[models.Record], binding: Binding, following: str | None) -> Page:
    vectors = np.array([record.vector for record in records], np.float32).reshape(-1, binding.dimension)
    return Page([_stored(record) for record in records], vectors, following)


def _stored(record: models.Record) -> IndexPoint:
    payload = record.payload or {}
    return IndexPoint(UUID(str(record.id)).hex, str(payload["document_id"]), str(payload["spec_id"]))


def _gone(collection: str) -> str:
    return f"{collection} is not in the index any more. The documents are kept: index them again."
