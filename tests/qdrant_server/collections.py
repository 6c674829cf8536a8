"""Collections of the test server: one Qdrant Edge shard each, with the configuration it was created with, and aliases."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from uuid import UUID

import qdrant_edge as edge

BODY = dict[str, Any]


class Refused(Exception):
    """An answer with an error status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Collection:
    """One shard. The lock is held around each use."""

    def __init__(self, folder: Path, config: BODY) -> None:
        vectors = config["vectors"]
        hnsw = config.get("hnsw_config") or {}
        self.config = config
        self.exact_only = hnsw.get("m") == 0
        self.lock = threading.Lock()
        self._changed = False
        self._shard = edge.EdgeShard.create(
            str(folder),
            edge.EdgeConfig(
                vectors=edge.EdgeVectorParams(size=vectors["size"], distance=edge.Distance.Cosine),
                hnsw_config=edge.HnswIndexConfig(
                    m=hnsw.get("m", 16), ef_construct=hnsw.get("ef_construct", 100), full_scan_threshold=10
                ),
                optimizers=edge.EdgeOptimizersConfig(indexing_threshold=0 if self.exact_only else 1),
            ),
        )

    def create_index(self, field: str) -> None:
        self._shard.update(edge.UpdateOperation.create_field_index(field, edge.PayloadSchemaType.Keyword))

    def upsert(self, points: list[BODY]) -> None:
        size = self.config["vectors"]["size"]
        if any(len(point["vector"]) != size for point in points):
            raise Refused(400, f"Wrong input: Vector dimension error: expected dim: {size}")
        rows = [edge.Point(point["id"], point["vector"], point.get("payload") or {}) for point in points]
        self._shard.update(edge.UpdateOperation.upsert_points(rows))
        self._changed = True

    def query(self, body: BODY) -> list[BODY]:
        params = body.get("params") or {}
        exact = bool(params.get("exact")) or self.exact_only
        if not exact and self._changed:
            # A Qdrant server builds its graph in the background; here it is built when it is first needed.
            self._shard.optimize()
            self._changed = False
        query = body["query"]
        vector = query["nearest"] if isinstance(query, dict) else query
        found = self._shard.query(
            edge.QueryRequest(
                limit=body.get("limit", 10),
                query=edge.Query.Nearest(vector),
                filter=condition(body.get("filter")),
                params=edge.SearchParams(exact=exact, hnsw_ef=params.get("hnsw_ef")),
                with_payload=body.get("with_payload", False),
                with_vector=bool(body.get("with_vector")),
            )
        )
        return [{**_record(point), "version": 0, "score": point.score} for point in found]

    def scroll(self, body: BODY) -> BODY:
        offset = body.get("offset")
        records, following = self._shard.scroll(
            edge.ScrollRequest(
                offset=None if offset is None else UUID(str(offset)),
                limit=body.get("limit", 10),
                filter=condition(body.get("filter")),
                with_payload=body.get("with_payload", True),
                with_vector=bool(body.get("with_vector")),
            )
        )
        return {
            "points": [_record(record) for record in records],
            "next_page_offset": None if following is None else str(following),
        }

    def count(self, body: BODY) -> int:
        return self._shard.count(edge.CountRequest(exact=True, filter=condition(body.get("filter"))))

    def delete(self, body: BODY) -> None:
        self._shard.update(edge.UpdateOperation.delete_points_by_filter(condition(body["filter"]) or edge.Filter()))

    def info(self) -> BODY:
        config = self.config
        params = {
            "vectors": config["vectors"],
            "shard_number": config.get("shard_number") or 1,
            "replication_factor": config.get("replication_factor") or 1,
            "write_consistency_factor": config.get("write_consistency_factor") or 1,
            "on_disk_payload": config.get("on_disk_payload") or False,
        }
        hnsw = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000} | (config.get("hnsw_config") or {})
        points = self.count({})
        return {
            "status": "green",
            "optimizer_status": "ok",
            "points_count": points,
            "indexed_vectors_count": 0 if self.exact_only else points,
            "segments_count": 1,
            "config": {
                "params": params,
                "hnsw_config": hnsw,
                "optimizer_config": {
                    "deleted_threshold": 0.2,
                    "vacuum_min_vector_number": 1000,
                    "default_segment_number": 0,
                    "flush_interval_sec": 5,
                },
                "quantization_config": config.get("quantization_config"),
                "metadata": config.get("metadata"),
            },
            "payload_schema": {},
        }

    def close(self) -> None:
        self._shard.close()


class Collections:
    """All collections and their aliases, each change under one lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Collection] = {}
        self._aliases: dict[str, str] = {}
        self._lock = threading.RLock()
        self._made = 0

    def names(self) -> list[str]:
        with self._lock:
            return sorted(self._known)

    def aliases(self) -> list[BODY]:
        with self._lock:
            return [{"alias_name": alias, "collection_name": name} for alias, name in sorted(self._aliases.items())]

    def find(self, name: str) -> Collection | None:
        with self._lock:
            return self._known.get(self._aliases.get(name, name))

    def require(self, name: str) -> Collection:
        found = self.find(name)
        if found is None:
            raise Refused(404, f"Not found: Collection `{name}` doesn't exist!")
        return found

    def create(self, name: str, config: BODY) -> None:
        with self._lock:
            if name in self._known or name in self._aliases:
                raise Refused(409, f"Wrong input: Collection `{name}` already exists!")
            self._made += 1
            folder = self._folder / str(self._made)
            folder.mkdir()
            self._known[name] = Collection(folder, config)

    def drop(self, name: str) -> bool:
        """A collection goes with its aliases; an alias is no collection and stays."""
        with self._lock:
            found = self._known.pop(name, None)
            self._aliases = {alias: target for alias, target in self._aliases.items() if target != name}
        if found is None:
            return False
        with found.lock:
            found.close()
        return True

    def change_aliases(self, actions: list[BODY]) -> None:
        """All of them or none."""
        with self._lock:
            changed = dict(self._aliases)
            for action in actions:
                if "create_alias" in action:
                    alias, name = action["create_alias"]["alias_name"], action["create_alias"]["collection_name"]
                    if alias in self._known:
                        raise Refused(409, f"Wrong input: Collection `{alias}` already exists!")
                    if name not in self._known:
                        raise Refused(404, f"Not found: Collection `{name}` doesn't exist!")
                    changed[alias] = name
                elif "delete_alias" in action:
                    changed.pop(action["delete_alias"]["alias_name"], None)
                else:
                    raise Refused(400, "Wrong input: this alias operation is not part of the test server")
            self._aliases = changed

    def close(self) -> None:
        for name in self.names():
            self.drop(name)


def condition(given: BODY | None) -> edge.Filter | None:
    """The filters that Chunkscope writes: fields that must equal a value, or one of several."""
    if given is None:
        return None
    must: list[Any] = []
    for each in given.get("must") or ():
        match = each["match"]
        wanted = edge.MatchAny(match["any"]) if "any" in match else edge.MatchValue(match["value"])
        must.append(edge.FieldCondition(each["key"], wanted))
    return edge.Filter(must=must)


def _record(record: Any) -> BODY:
    found: BODY = {"id": str(record.id), "payload": record.payload or {}}
    if record.vector is not None:
        found["vector"] = list(record.vector)
    return found
