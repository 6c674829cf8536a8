"""The embedded index: Qdrant Edge, the Qdrant engine inside the process, on disk.

One shard folder per collection, and beside it a small file that binds the collection to an embedding model. The file is
written last and removed first, so a collection exists when its file does, and a folder without one is a left-over.
"""

from __future__ import annotations

import errno
import json
import re
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import numpy as np
import qdrant_edge as edge

from engine import ids
from engine.errors import IndexUnavailable, UserError
from engine.files import write_durably
from engine.index.base import CollectionInfo, Hit, IndexPoint, Page, check_binding, check_vectors, nearest
from engine.providers.base import Vectors

_BATCH = 1000
"""Points given to the engine at once: more would only hold more Python objects at a time."""

_SPARE_BYTES = 64 * 2**20
"""Disk space that must be free before the engine may write. It writes through mapped memory, where a full disk ends the process with a
signal instead of an error, and it may rewrite its log, of at most about this size, when a folder is opened."""

_REMEDY = "The documents are kept: index them again."

_NAME = re.compile(r"[a-z0-9_]+")


class _Binding(NamedTuple):
    model: str
    dimension: int


class _Shard:
    """An open shard folder. The lock is held around every use, so that none is closed or removed under another."""

    def __init__(self, handle: edge.EdgeShard, binding: _Binding) -> None:
        self.handle = handle
        self.binding = binding
        self.lock = threading.Lock()


class EdgeIndex:
    """A `ChunkIndex` in a folder. One process holds a folder at a time; a second one is refused with IndexUnavailable."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._shards: dict[str, _Shard] = {}
        self._lock = threading.RLock()
        self._closed = False
        with self._in_words("The index"):
            path.mkdir(parents=True, exist_ok=True)

    def ensure(self, collection: str, model: str, dimension: int) -> None:
        asked = _Binding(model, dimension)
        with self._lock:
            shard = self._open(collection)
            if shard is None:
                with self._in_words(collection):
                    self._shards[collection] = self._create(collection, asked)
            else:
                check_binding(collection, shard.binding, asked)

    def upsert(self, collection: str, points: Sequence[IndexPoint], vectors: Vectors) -> None:
        if len(points) != len(vectors):
            raise ValueError(f"{len(points)} points and {len(vectors)} vectors")
        if not points:
            return
        with self._use(collection) as shard:
            if shard is None:
                raise IndexUnavailable(f"{collection} is not in the index any more. {_REMEDY}")
            check_vectors(vectors, shard.binding.dimension, collection)
            # Each vector goes to the log and to its segment.
            self._require_space(2 * vectors.nbytes)
            for start in range(0, len(points), _BATCH):
                part = slice(start, start + _BATCH)
                shard.handle.update(edge.UpdateOperation.upsert_points(_edge_points(points[part], vectors[part])))
            shard.handle.flush()

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
        with self._use(collection) as shard:
            if shard is None or (document_ids is not None and not document_ids):
                return []
            check_vectors(vector, shard.binding.dimension, collection)
            handle, query = shard.handle, edge.Query.Nearest(vector.tolist())
            which = _filter(spec_id, document_ids)

            def fetch(count: int) -> list[Hit]:
                request = edge.QueryRequest(
                    limit=count,
                    query=query,
                    filter=which,
                    params=edge.SearchParams(exact=True),
                    with_payload=["document_id"],
                )
                return [_hit(point) for point in handle.query(request)]

            return nearest(fetch, limit)

    def read(self, collection: str, start: str | None = None, limit: int = 1000) -> Page:
        with self._use(collection) as shard:
            if shard is None:
                return Page([], np.zeros((0, 0), np.float32), None)
            request = edge.ScrollRequest(
                offset=None if start is None else UUID(start), limit=limit, with_payload=True, with_vector=True
            )
            records, following = shard.handle.scroll(request)
            vectors = np.array([record.vector for record in records], np.float32).reshape(-1, shard.binding.dimension)
            return Page(
                [_stored(record) for record in records],
                vectors,
                None if following is None else UUID(str(following)).hex,
            )

    def count(self, collection: str, spec_id: str | None = None, document_id: str | None = None) -> int:
        with self._use(collection) as shard:
            if shard is None:
                return 0
            which = _filter(spec_id, None if document_id is None else [document_id])
            return shard.handle.count(edge.CountRequest(exact=True, filter=which))

    def delete(self, collection: str, spec_id: str | None = None, document_id: str | None = None) -> None:
        if spec_id is None and document_id is None:
            return
        with self._use(collection) as shard:
            if shard is None:
                return
            which = _filter(spec_id, None if document_id is None else [document_id])
            if not shard.handle.count(edge.CountRequest(exact=True, filter=which)):
                # Most deletes come before the first write of a document, and a flush waits for the disk many times.
                return
            # Giving space back copies what stays.
            self._require_space(_bytes_on_disk(self._folder(collection) / "segments"))
            shard.handle.update(edge.UpdateOperation.delete_points_by_filter(which))
            # Gives the space of deleted points back once they are a fifth of a segment; otherwise it does nothing.
            shard.handle.optimize()
            shard.handle.flush()

    def drop(self, collection: str) -> None:
        with self._lock, self._in_words(collection):
            self._binding_file(collection).unlink(missing_ok=True)
            self._discard(collection)
            shutil.rmtree(self._folder(collection), ignore_errors=True)

    def collections(self) -> list[CollectionInfo]:
        with self._in_words("The index"):
            names = sorted(file.stem for file in self._path.glob("*.json"))
        found = (self._info(name) for name in names)
        return [info for info in found if info is not None]

    def health(self) -> str:
        found = self.collections()
        points = sum(info.points for info in found)
        return f"Qdrant Edge holds {points} points in {len(found)} collections at {self._path}."

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for collection in list(self._shards):
                self._discard(collection)

    @contextmanager
    def _use(self, collection: str) -> Iterator[_Shard | None]:
        """The open shard, locked, or None when the collection does not exist; failures inside come out in words."""
        with self._lock:
            shard = self._open(collection)
        if shard is None:
            yield None
            return
        with shard.lock, self._in_words(collection):
            if self._shards.get(collection) is not shard:
                yield None
                return
            if not self._folder(collection).is_dir():
                raise IndexUnavailable(f"{collection} was removed from the folder of the index. {_REMEDY}")
            yield shard

    def _open(self, collection: str) -> _Shard | None:
        if self._closed:
            raise IndexUnavailable("The index is closed: Chunkscope is shutting down. Start it again.")
        found = self._shards.get(collection)
        if found is None:
            with self._in_words(collection):
                binding = self._binding(collection)
                if binding is not None:
                    self._require_space()
                    found = _Shard(edge.EdgeShard.load(str(self._folder(collection))), binding)
                    self._shards[collection] = found
        return found

    def _create(self, collection: str, binding: _Binding) -> _Shard:
        folder = self._folder(collection)
        if folder.exists():
            shutil.rmtree(folder)
        self._require_space()
        # Search is exact, so no graph is built however large a segment grows.
        config = edge.EdgeConfig(
            vectors=edge.EdgeVectorParams(size=binding.dimension, distance=edge.Distance.Cosine),
            optimizers=edge.EdgeOptimizersConfig(indexing_threshold=0),
        )
        handle = edge.EdgeShard.create(str(folder), config)
        for field in ("document_id", "spec_id"):
            handle.update(edge.UpdateOperation.create_field_index(field, edge.PayloadSchemaType.Keyword))
        handle.flush()
        write_durably(self._binding_file(collection), json.dumps(binding._asdict()).encode())
        return _Shard(handle, binding)

    def _binding(self, collection: str) -> _Binding | None:
        file = self._binding_file(collection)
        try:
            values = json.loads(file.read_bytes())
            return _Binding(str(values["model"]), int(values["dimension"]))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise IndexUnavailable(f"The file that describes {collection} is damaged. {_REMEDY}") from None

    def _info(self, collection: str) -> CollectionInfo | None:
        with self._use(collection) as shard:
            if shard is None:
                return None
            points = shard.handle.count(edge.CountRequest(exact=True))
            return CollectionInfo(collection, *shard.binding, points, _bytes_on_disk(self._folder(collection)))

    def _require_space(self, size: int = 0) -> None:
        if shutil.disk_usage(self._path).free < size + _SPARE_BYTES:
            raise OSError(errno.ENOSPC, "No space left on device")

    def _discard(self, collection: str) -> None:
        shard = self._shards.pop(collection, None)
        if shard is not None:
            with shard.lock:
                # The engine flushes when it closes, and cannot when its folder is gone or the disk is full.
                _close_quietly(shard.handle)

    def _folder(self, collection: str) -> Path:
        if not _NAME.fullmatch(collection):
            raise ValueError(f"{collection!r} is no collection name")
        return self._path / collection

    def _binding_file(self, collection: str) -> Path:
        return self._folder(collection).with_suffix(".json")

    @contextmanager
    def _in_words(self, what: str) -> Iterator[None]:
        try:
            yield
        except UserError:
            raise
        except BaseException as error:
            words = self._words(error, what)
            if words is None:
                raise
            raise IndexUnavailable(words) from error

    def _words(self, error: BaseException, what: str) -> str | None:
        """What a reader can do about a failure; None for one that is a bug of ours."""
        # The engine raises plain Exception for all it reports, and a panic of its own when files are damaged.
        if not isinstance(error, OSError) and type(error).__name__ not in ("Exception", "PanicException"):
            return None
        reason = str(error)
        if "WouldBlock" in reason:
            return f"The index at {self._path} is in use by another Chunkscope. Nothing was changed. Stop that one, or choose another DATA_DIR."
        if getattr(error, "errno", None) == errno.ENOSPC or "os error 28" in reason or "No space left" in reason:
            return f"The disk of the index at {self._path} is full, or nearly so. What was stored before is kept. Free some space ({_SPARE_BYTES // 2**20} MB at least), then try again."
        if "os error 13" in reason or isinstance(error, PermissionError):
            return f"The index at {self._path} cannot be written. What was stored before is kept. Give Chunkscope the right to write there, then try again."
        return f"{what} cannot be used: its files at {self._path} are damaged or missing. {_REMEDY}"


def _edge_points(points: Sequence[IndexPoint], vectors: Vectors) -> list[edge.Point]:
    return [
        edge.Point(ids.point_id(point.chunk_id), row, {"document_id": point.document_id, "spec_id": point.spec_id})
        for point, row in zip(points, vectors.tolist(), strict=True)
    ]


def _filter(spec_id: str | None, document_ids: Sequence[str] | None) -> edge.Filter:
    must: list[edge.ConditionType] = []
    if spec_id is not None:
        must.append(edge.FieldCondition("spec_id", edge.MatchValue(spec_id)))
    if document_ids is not None:
        must.append(edge.FieldCondition("document_id", edge.MatchAny(list(document_ids))))
    return edge.Filter(must=must)


def _hit(point: edge.ScoredPoint) -> Hit:
    return Hit(UUID(str(point.id)).hex, str((point.payload or {})["document_id"]), point.score)


def _stored(record: edge.Record) -> IndexPoint:
    payload = record.payload or {}
    return IndexPoint(UUID(str(record.id)).hex, str(payload["document_id"]), str(payload["spec_id"]))


def _close_quietly(handle: edge.EdgeShard) -> None:
    with suppress(Exception):
        handle.close()


def _bytes_on_disk(folder: Path) -> int:
    """Blocks in use, since the engine's files have holes: their lengths would say many times more."""
    return sum(512 * file.stat().st_blocks for file in folder.rglob("*") if file.is_file())
