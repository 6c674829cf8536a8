"""What every index must do: the same tests on Qdrant Edge, on the client's in-memory mode, over HTTP on the test server with one shard and
with three under the strict mode of Qdrant's cloud, and on a Qdrant server when there is one."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from qdrant_client import QdrantClient

from engine import ids
from engine.errors import IndexMismatch, IndexUnavailable
from engine.index import ChunkIndex, IndexPoint
from engine.index.edge import EdgeIndex
from engine.index.server import ServerIndex
from engine.index.server_layout import Layout

# The in-memory mode says that it needs no payload indexes and is exact anyway.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning"),
    pytest.mark.filterwarnings("ignore:Local mode performs exact:UserWarning"),
]

MODEL = "wordllama"


@pytest.fixture(params=["edge", "memory", "http", "shards", "server"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ChunkIndex]:
    if request.param == "edge":
        found: ChunkIndex = EdgeIndex(tmp_path / "index")
    elif request.param == "memory":
        # It cannot take two writes at once.
        found = ServerIndex("http://memory", client=QdrantClient(":memory:"), layout=Layout(writes=1))
    elif request.param == "http":
        found = ServerIndex(request.getfixturevalue("qdrant_server").url)
    elif request.param == "shards":
        strict = {"enabled": True, "unindexed_filtering_retrieve": False, "unindexed_filtering_update": False}
        server = request.getfixturevalue("qdrant_server")
        server.collections.strict_mode = strict
        found = ServerIndex(server.url, layout=Layout(shards=3))
    else:
        url = os.environ.get("QDRANT_TEST_URL")
        if not url:
            pytest.skip("QDRANT_TEST_URL names no Qdrant server")
        found = ServerIndex(url)
    yield found
    found.close()


@pytest.fixture
def collection(index: ChunkIndex) -> Iterator[str]:
    """A collection of two-dimensional vectors that no other test uses."""
    name = f"t{uuid.uuid4().hex}_collection"
    index.ensure(name, MODEL, 2)
    yield name
    index.drop(name)


def point(name: str, document: str = "doc", spec: str = "spec") -> IndexPoint:
    return IndexPoint(ids.digest(name), document, spec)


def rows(*vectors: tuple[float, float]) -> np.ndarray:
    return np.array(vectors, dtype=np.float32)


EAST = rows((1, 0))[0]


def test_the_nearest_comes_first_with_its_cosine(index: ChunkIndex, collection: str) -> None:
    index.upsert(collection, [point("north"), point("east"), point("north-east")], rows((0, 1), (1, 0), (3, 4)))
    hits = index.search(collection, EAST, 3, "spec")
    assert [hit.chunk_id for hit in hits] == [ids.digest("east"), ids.digest("north-east"), ids.digest("north")]
    assert [hit.score for hit in hits] == pytest.approx([1.0, 0.6, 0.0], abs=1e-6)
    assert {hit.document_id for hit in hits} == {"doc"}


def test_only_the_asked_spec_and_documents_are_searched(index: ChunkIndex, collection: str) -> None:
    points = [point("a1", "a"), point("b1", "b"), point("c1", "c"), point("other", "a", "other spec")]
    index.upsert(collection, points, rows((1, 0), (1, 1), (0, 1), (1, 0)))

    def found(documents: list[str] | None) -> list[str]:
        return [hit.document_id for hit in index.search(collection, EAST, 10, "spec", documents)]

    assert found(None) == ["a", "b", "c"]
    assert found(["c", "b"]) == ["b", "c"]
    assert found([]) == []
    assert found(["unknown"]) == []


def test_ties_are_broken_by_chunk_id_even_at_the_cut(index: ChunkIndex, collection: str) -> None:
    tied = [point(f"copy {number}") for number in range(40)]
    index.upsert(collection, [point("best"), *tied], rows((1, 0), *[(1, 1)] * 40))
    expected = [ids.digest("best"), *sorted(each.chunk_id for each in tied)]
    for limit in (1, 3, 12, 41, 100):
        hits = index.search(collection, EAST, limit, "spec")
        assert [hit.chunk_id for hit in hits] == expected[:limit]
    assert index.search(collection, EAST, 0, "spec") == []


def test_the_same_chunk_written_twice_is_one_point(index: ChunkIndex, collection: str) -> None:
    index.upsert(collection, [point("a")], rows((0, 1)))
    index.upsert(collection, [point("a")], rows((1, 0)))
    assert index.count(collection) == 1
    assert index.search(collection, EAST, 5, "spec")[0].score == pytest.approx(1.0)


def test_counts_and_deletes_by_spec_and_document(index: ChunkIndex, collection: str) -> None:
    points = [point(f"{d}{s}", d, s) for d in ("a", "b") for s in ("x", "y", "z")]
    index.upsert(collection, points, rows(*[(1, 0)] * 6))
    assert [index.count(collection), index.count(collection, spec_id="x")] == [6, 2]
    assert [index.count(collection, document_id="a"), index.count(collection, "x", "a")] == [3, 1]
    index.delete(collection)
    assert index.count(collection) == 6
    index.delete(collection, spec_id="x", document_id="a")
    assert [index.count(collection), index.count(collection, "x")] == [5, 1]
    index.delete(collection, document_id="b")
    assert [index.count(collection), index.count(collection, document_id="b")] == [2, 0]
    index.delete(collection, spec_id="y")
    assert index.count(collection) == 1


def test_a_collection_that_does_not_exist_is_empty(index: ChunkIndex) -> None:
    name = "never_made_collection"
    assert index.search(name, EAST, 5, "spec") == []
    assert index.count(name) == 0
    index.delete(name, spec_id="spec")
    index.drop(name)
    with pytest.raises(IndexUnavailable, match="index them again"):
        index.upsert(name, [point("a")], rows((1, 0)))


def test_a_collection_is_bound_to_one_model_and_dimension(index: ChunkIndex, collection: str) -> None:
    index.ensure(collection, MODEL, 2)
    for model, dimension in (("another-model", 2), (MODEL, 3)):
        with pytest.raises(IndexMismatch, match="wordllama"):
            index.ensure(collection, model, dimension)
    index.drop(collection)
    index.ensure(collection, "another-model", 3)
    info = next(each for each in index.collections() if each.name == collection)
    assert (info.model, info.dimension, info.points) == ("another-model", 3, 0)


def test_vectors_that_do_not_fit_are_refused_and_nothing_is_written(index: ChunkIndex, collection: str) -> None:
    too_long = np.ones((1, 3), dtype=np.float32)
    no_number = rows((float("nan"), 0))
    for vectors in (too_long, no_number):
        with pytest.raises(IndexMismatch):
            index.upsert(collection, [point("a")], vectors)
        with pytest.raises(IndexMismatch):
            index.search(collection, vectors[0], 5, "spec")
    with pytest.raises(ValueError, match="2 points and 1 vectors"):
        index.upsert(collection, [point("a"), point("b")], rows((1, 0)))
    assert index.count(collection) == 0


def test_nothing_to_write_is_no_error(index: ChunkIndex, collection: str) -> None:
    index.upsert(collection, [], np.zeros((0, 2), dtype=np.float32))
    assert index.count(collection) == 0


def test_collections_and_health_tell_what_is_there(index: ChunkIndex, collection: str) -> None:
    index.upsert(collection, [point("a"), point("b")], rows((1, 0), (0, 1)))
    info = next(each for each in index.collections() if each.name == collection)
    assert (info.model, info.dimension, info.points) == (MODEL, 2, 2)
    assert "collections" in index.health()


def test_more_points_than_one_batch_are_all_found(index: ChunkIndex, collection: str) -> None:
    number = 2500
    angles = np.linspace(0, np.pi / 2, number, dtype=np.float64)
    vectors = np.column_stack((np.cos(angles), np.sin(angles))).astype(np.float32)
    index.upsert(collection, [point(str(place)) for place in range(number)], vectors)
    assert index.count(collection) == number
    last = index.search(collection, rows((0, 1))[0], 1, "spec")
    assert last[0].chunk_id == ids.digest(str(number - 1))


# The client's in-memory mode is not made for threads.
@pytest.mark.parametrize("index", ["edge", "http", "shards", "server"], indirect=True)
def test_threads_write_and_search_at_once(index: ChunkIndex, collection: str) -> None:
    failures: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            for number in range(10):
                index.upsert(collection, [point(f"{worker}-{number}", f"d{worker}")], rows((1, number)))
                assert index.search(collection, EAST, 20, "spec", [f"d{worker}"])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert index.count(collection) == 40


def test_what_is_stored_is_read_page_by_page_in_the_order_of_ids(index: ChunkIndex, collection: str) -> None:
    points = [point(str(number), f"d{number % 2}", f"s{number % 3}") for number in range(7)]
    index.upsert(collection, points, rows(*[(number, 1) for number in range(7)]))
    read, start, pages = [], None, 0
    while pages == 0 or start is not None:
        page = index.read(collection, start, 3)
        assert page.vectors.shape == (len(page.points), 2)
        assert np.linalg.norm(page.vectors, axis=1) == pytest.approx(np.ones(len(page.points)), abs=1e-6)
        read += page.points
        start, pages = page.following, pages + 1
    assert read == sorted(points)
    assert pages == 3
    empty = index.read("never_made_collection")
    assert (empty.points, empty.following) == ([], None)
