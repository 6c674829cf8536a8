"""Collections of the test server: Qdrant Edge shards, with the configuration a collection was created with, and aliases."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import qdrant_edge as edge

from tests.qdrant_server.strict import BODY, Refused, Strict


class Collection:
    """Points are spread over the shards by id, and what the shards find is merged as Qdrant 1.19 does. The lock is held around each use."""

    def __init__(self, folder: Path, config: BODY, strict_mode: BODY) -> None:
        vectors = config["vectors"]
        hnsw = config.get("hnsw_config") or {}
        self.config = config
        self.links = hnsw.get("m", 16)
        self.strict_mode = strict_mode | (config.get("strict_mode_config") or {})
        self.lock = threading.Lock()
        self._strict = Strict(self.strict_mode)
        self._indexed: set[str] = set()
        self._changed = False
        made = edge.EdgeConfig(
            vectors=edge.EdgeVectorParams(size=vectors["size"], distance=edge.Distance.Cosine),
            hnsw_config=edge.HnswIndexConfig(
                m=self.links, ef_construct=hnsw.get("ef_construct", 100), full_scan_threshold=10
            ),
            optimizers=edge.EdgeOptimizersConfig(indexing_threshold=1 if self.links else 0),
        )
        folders = [folder / str(number) for number in range(config.get("shard_number") or 1)]
        for each in folders:
            each.mkdir()
        self._shards = [edge.EdgeShard.create(str(each), made) for each in folders]

    def create_index(self, field: str) -> None:
        self._indexed.add(field)
        self._everywhere(edge.UpdateOperation.create_field_index(field, edge.PayloadSchemaType.Keyword))

    def upsert(self, points: list[BODY]) -> None:
        self._strict.check_batch(len(points))
        size = self.config["vectors"]["size"]
        for point in points:
            if len(point["vector"]) != size:
                got = len(point["vector"])
                raise Refused(400, f"Wrong input: Vector dimension error: expected dim: {size}, got {got}")
        for number, shard in enumerate(self._shards):
            rows = [
                edge.Point(point["id"], point["vector"], point.get("payload") or {})
                for point in points
                if self._home(point["id"]) == number
            ]
            if rows:
                shard.update(edge.UpdateOperation.upsert_points(rows))
        self._changed = True

    def query(self, body: BODY) -> list[BODY]:
        params, limit = body.get("params") or {}, body.get("limit", 10)
        self._strict.check_graph(self.links)
        self._strict.check_limit(limit)
        self._strict.check_filter(body.get("filter"), self._indexed)
        self._strict.check_exact(bool(params.get("exact")))
        exact = bool(params.get("exact")) or not self.links
        if not exact and self._changed:
            # A Qdrant server builds its graph in the background; here it is built when it is first needed.
            for shard in self._shards:
                shard.optimize()
            self._changed = False
        query = body["query"]
        vector = query["nearest"] if isinstance(query, dict) else query
        asked = edge.QueryRequest(
            limit=limit,
            query=edge.Query.Nearest(vector),
            filter=condition(body.get("filter")),
            params=edge.SearchParams(exact=exact, hnsw_ef=params.get("hnsw_ef")),
            with_payload=body.get("with_payload", False),
            with_vector=bool(body.get("with_vector")),
        )
        found = [point for shard in self._shards for point in shard.query(asked)]
        # Of equal scores, the larger id comes first.
        found.sort(key=lambda point: (point.score, UUID(str(point.id))), reverse=True)
        return [{**_record(point), "version": 0, "score": _shortest(point.score)} for point in found[:limit]]

    def scroll(self, body: BODY) -> BODY:
        offset, limit = body.get("offset"), body.get("limit", 10)
        self._strict.check_limit(limit)
        self._strict.check_filter(body.get("filter"), self._indexed)
        asked = edge.ScrollRequest(
            offset=None if offset is None else UUID(str(offset)),
            limit=limit + 1,
            filter=condition(body.get("filter")),
            with_payload=body.get("with_payload", True),
            with_vector=bool(body.get("with_vector")),
        )
        records = [record for shard in self._shards for record in shard.scroll(asked)[0]]
        records.sort(key=lambda record: UUID(str(record.id)))
        return {
            "points": [_record(record) for record in records[:limit]],
            "next_page_offset": str(records[limit].id) if len(records) > limit else None,
        }

    def retrieve(self, body: BODY) -> list[BODY]:
        wanted = [UUID(each) for each in body["ids"]]
        vectors = bool(body.get("with_vector"))
        return [
            _record(record)
            for shard in self._shards
            for record in shard.retrieve(wanted, body.get("with_payload", True), vectors)
        ]

    def count(self, body: BODY) -> int:
        self._strict.check_filter(body.get("filter"), self._indexed)
        self._strict.check_exact(body.get("exact", True))
        asked = edge.CountRequest(exact=True, filter=condition(body.get("filter")))
        return sum(shard.count(asked) for shard in self._shards)

    def delete(self, body: BODY) -> None:
        if "points" in body:
            self._everywhere(edge.UpdateOperation.delete_points([UUID(each) for each in body["points"]]))
            return
        self._strict.check_filter(body["filter"], self._indexed, writes=True)
        self._everywhere(edge.UpdateOperation.delete_points_by_filter(condition(body["filter"]) or edge.Filter()))

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
        points = sum(shard.count(edge.CountRequest(exact=True)) for shard in self._shards)
        return {
            "status": "green",
            "optimizer_status": "ok",
            "points_count": points,
            "indexed_vectors_count": points if self.links else 0,
            "segments_count": len(self._shards),
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
                "strict_mode_config": self.strict_mode or None,
                "metadata": config.get("metadata"),
            },
            "payload_schema": {field: {"data_type": "keyword", "points": points} for field in sorted(self._indexed)},
        }

    def close(self) -> None:
        for shard in self._shards:
            shard.close()

    def _home(self, point: str) -> int:
        return UUID(point).int % len(self._shards)

    def _everywhere(self, operation: edge.UpdateOperation) -> None:
        for shard in self._shards:
            shard.update(operation)


class Collections:
    """All collections and their aliases, each change under one lock."""

    def __init__(self, folder: Path, strict_mode: BODY) -> None:
        self._folder = folder
        self.strict_mode = strict_mode
        """That of new collections."""
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
            raise _missing(name)
        return found

    def create(self, name: str, config: BODY) -> None:
        with self._lock:
            if name in self._known:
                raise _exists(name)
            if name in self._aliases:
                reason = f"Can't create collection with name {name}. Alias with the same name already exists"
                raise Refused(400, f"Wrong input: {reason}")
            self._made += 1
            folder = self._folder / str(self._made)
            folder.mkdir()
            self._known[name] = Collection(folder, config, self.strict_mode)

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
        """One after the other, as Qdrant 1.19 does: one that is refused leaves those before it done. An alias that is there is moved."""
        with self._lock:
            for action in actions:
                if "create_alias" in action:
                    alias, name = action["create_alias"]["alias_name"], action["create_alias"]["collection_name"]
                    if name not in self._known:
                        raise _missing(name)
                    if alias in self._known:
                        raise _exists(alias)
                    self._aliases[alias] = name
                elif "delete_alias" in action:
                    self._aliases.pop(action["delete_alias"]["alias_name"], None)
                else:
                    raise Refused(400, "Wrong input: this alias operation is not part of the test server")

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


def _missing(name: str) -> Refused:
    return Refused(404, f"Not found: Collection `{name}` doesn't exist!")


def _exists(name: str) -> Refused:
    return Refused(409, f"Wrong input: Collection `{name}` already exists!")


def _record(record: Any) -> BODY:
    found: BODY = {"id": str(record.id), "payload": record.payload or {}}
    if record.vector is not None:
        found["vector"] = list(record.vector)
    return found


def _shortest(score: float) -> float:
    """The fewest digits that name a 32-bit number, as Qdrant writes scores: 0.6, which is 0.6000000238418579 as 64 bits."""
    return float(str(np.float32(score)))
