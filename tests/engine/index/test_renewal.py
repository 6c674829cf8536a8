"""A collection on a server that is made anew behind its name, while others use it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient

from engine import ids
from engine.errors import IndexUnavailable
from engine.index import IndexPoint, Page, server_layout
from engine.index.server import ServerIndex
from engine.index.server_layout import Layout
from tests.qdrant_server import QdrantServer

NAME = "sentence_collection"
MADE = {
    "vectors": {"size": 2, "distance": "Cosine"},
    "hnsw_config": {"m": 0},
    "metadata": {"model": "wordllama", "dimension": 2},
}


def point(name: str) -> IndexPoint:
    return IndexPoint(ids.digest(name), "doc", "spec")


def east(number: int = 1) -> np.ndarray:
    return np.array([[1, 0]] * number, dtype=np.float32)


def filled(server: QdrantServer, *names: str, layout: Layout | None = None) -> ServerIndex:
    index = ServerIndex(server.url, layout=layout)
    index.ensure(NAME, "wordllama", 2)
    index.upsert(NAME, [point(name) for name in names], east(len(names)))
    return index


def chunks(index: ServerIndex) -> list[str]:
    return [hit.chunk_id for hit in index.search(NAME, east()[0], 100, "spec")]


def test_a_collection_is_renewed_behind_its_name(qdrant_server: QdrantServer) -> None:
    index = filled(qdrant_server, *map(str, range(1200)))
    before = index.search(NAME, east()[0], 20, "spec")
    renewing = ServerIndex(qdrant_server.url, layout=Layout(shards=2, quantization="scalar", graph=True))
    # What a renewal that was killed leaves is no obstacle, and is no collection to anybody.
    qdrant_server.collections.create(f"{NAME}-2", {"vectors": {"size": 3, "distance": "Cosine"}})
    assert [info.name for info in index.collections()] == [NAME]
    assert renewing.rebuild(NAME) == 1200
    assert qdrant_server.collections.names() == [f"{NAME}-3"]
    assert qdrant_server.collections.require(NAME).config["hnsw_config"]["m"] == 16
    # The process that knew the old one goes on as if nothing had happened.
    assert index.search(NAME, east()[0], 20, "spec") == before
    assert [(info.name, info.points) for info in index.collections()] == [(NAME, 1200)]
    index.drop(NAME)
    assert qdrant_server.collections.names() == []
    assert qdrant_server.collections.aliases() == []
    for each in (index, renewing):
        each.close()


def test_a_collection_under_its_own_name_is_used_and_renewed(qdrant_server: QdrantServer) -> None:
    qdrant_server.collections.create(NAME, MADE)
    index = filled(qdrant_server, "a")
    assert index.rebuild(NAME) == 1
    assert qdrant_server.collections.names() == [f"{NAME}-1"]
    assert chunks(index) == [ids.digest("a")]
    index.close()


def test_a_collection_that_changes_while_it_is_copied_stays_in_use(
    qdrant_server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, other = filled(qdrant_server, "a"), ServerIndex(qdrant_server.url)
    read = ServerIndex.read

    def read_and_write(self: ServerIndex, *arguments: Any) -> Page:
        page = read(self, *arguments)
        other.upsert(NAME, [point("b")], east())
        return page

    monkeypatch.setattr(ServerIndex, "read", read_and_write)
    with pytest.raises(IndexUnavailable, match=r"changed while it was copied \(2 points, 1 copied\)"):
        index.rebuild(NAME)
    assert qdrant_server.collections.names() == [f"{NAME}-1"]
    assert index.count(NAME) == 2
    with pytest.raises(IndexUnavailable, match="index them again"):
        index.rebuild("absent_collection")
    for each in (index, other):
        each.close()


def test_as_many_points_but_others_are_a_change(qdrant_server: QdrantServer, monkeypatch: pytest.MonkeyPatch) -> None:
    index = filled(qdrant_server, "a")
    read = ServerIndex.read

    def read_and_exchange(self: ServerIndex, *arguments: Any) -> Page:
        page = read(self, *arguments)
        self.delete(NAME, spec_id="spec")
        self.upsert(NAME, [point("b")], east())
        return page

    monkeypatch.setattr(ServerIndex, "read", read_and_exchange)
    with pytest.raises(IndexUnavailable, match="changed while it was copied"):
        index.rebuild(NAME)
    assert chunks(index) == [ids.digest("b")]
    index.close()


def test_what_changes_just_before_the_name_moves_is_done_to_the_new_collection_too(
    qdrant_server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, other = filled(qdrant_server, "a", "b"), ServerIndex(qdrant_server.url)
    other.upsert(NAME, [point("gone")._replace(document_id="other")], east())
    point_at = server_layout.point_at

    def change_and_move(client: QdrantClient, collection: str, target: str) -> None:
        other.upsert(NAME, [point("late")], east())
        other.delete(NAME, document_id="other")
        point_at(client, collection, target)
        other.upsert(NAME, [point("after")], east())

    monkeypatch.setattr(server_layout, "point_at", change_and_move)
    assert index.rebuild(NAME) == 3
    assert qdrant_server.collections.names() == [f"{NAME}-2"]
    assert chunks(index) == sorted(ids.digest(name) for name in ("a", "b", "late", "after"))
    for each in (index, other):
        each.close()


def test_of_two_renewals_one_is_refused_and_nothing_is_lost(
    qdrant_server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, other = filled(qdrant_server, "a"), ServerIndex(qdrant_server.url)
    read = ServerIndex.read

    def read_while_another_renews(self: ServerIndex, *arguments: Any) -> Page:
        page = read(self, *arguments)
        monkeypatch.setattr(ServerIndex, "read", read)
        other.rebuild(NAME)
        return page

    monkeypatch.setattr(ServerIndex, "read", read_while_another_renews)
    with pytest.raises(IndexUnavailable, match="lost a collection"):
        index.rebuild(NAME)
    assert qdrant_server.collections.names() == [f"{NAME}-3"]
    assert chunks(index) == [ids.digest("a")]

    create = Layout.create

    def create_after_another(self: Layout, client: QdrantClient, name: str, *arguments: Any) -> bool:
        qdrant_server.collections.create(name, MADE)
        return create(self, client, name, *arguments)

    monkeypatch.setattr(Layout, "create", create_after_another)
    with pytest.raises(IndexUnavailable, match="being renewed by another process"):
        index.rebuild(NAME)
    assert chunks(index) == [ids.digest("a")]
    for each in (index, other):
        each.close()


def test_what_a_renewal_has_left_does_not_come_back(qdrant_server: QdrantServer) -> None:
    index = filled(qdrant_server, "a")
    # A renewal that was killed between the move of the name and the end of the old collection.
    qdrant_server.collections.create(f"{NAME}-2", MADE)
    qdrant_server.collections.change_aliases([{"create_alias": {"alias_name": NAME, "collection_name": f"{NAME}-2"}}])
    index.drop(NAME)
    assert qdrant_server.collections.names() == []
    index.ensure(NAME, "wordllama", 2)
    assert index.count(NAME) == 0
    index.close()


def test_a_name_whose_move_is_refused_stays_where_it_is(
    qdrant_server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = filled(qdrant_server, "a")
    point_at = server_layout.point_at

    def move_to_nothing(client: QdrantClient, collection: str, _: str) -> None:
        point_at(client, collection, "nothing")

    monkeypatch.setattr(server_layout, "point_at", move_to_nothing)
    with pytest.raises(IndexUnavailable, match="lost a collection"):
        index.rebuild(NAME)
    assert chunks(index) == [ids.digest("a")]
    index.close()


def test_a_read_that_comes_when_the_old_collection_is_dropped_finds_the_new_one(
    qdrant_server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = filled(qdrant_server, "a")
    require, missed = qdrant_server.collections.require, []

    def miss_once(name: str) -> Any:
        if not missed:
            missed.append(name)
            return require("dropped")
        return require(name)

    for call in (lambda: chunks(index), lambda: index.count(NAME), lambda: len(index.read(NAME).points)):
        missed.clear()
        monkeypatch.setattr(qdrant_server.collections, "require", miss_once)
        assert call() in ([ids.digest("a")], 1)
        assert missed == [NAME]
    index.close()
