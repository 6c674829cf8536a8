"""What only the index on a server can do and meet: no server, a collection of someone else, settings, shards, measuring."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from engine import ids
from engine.errors import BadSetting, IndexMismatch, IndexUnavailable
from engine.index import Hit, IndexPoint, open_index, recall, server
from engine.index.edge import EdgeIndex
from engine.index.server import ServerIndex
from engine.index.server_layout import Layout
from engine.settings import load_settings
from tests.qdrant_server import QdrantServer

pytestmark = [
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning"),
    # A key sent without encryption; the test server is on this machine.
    pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection:UserWarning"),
]

POINT = IndexPoint("0" * 32, "doc", "spec")
EAST = np.array([[1, 0]], dtype=np.float32)


def test_a_server_that_does_not_answer_is_said_in_words() -> None:
    # Port 1 is reserved, and nothing listens there.
    index = ServerIndex("http://anna:sesame@127.0.0.1:1")
    for call in (index.health, lambda: index.count("x"), lambda: index.ensure("x", "wordllama", 2)):
        with pytest.raises(IndexUnavailable, match=r"127\.0\.0\.1:1 cannot be reached") as caught:
            call()
        assert "sesame" not in caught.value.message
    index.close()


@pytest.mark.parametrize("url", ["http://host:port", "localhost:6333", "ftp://anna:sesame@host", "http://"])
def test_an_address_that_is_none_is_said_in_words(url: str) -> None:
    with pytest.raises(BadSetting, match="QDRANT_URL is not an address") as caught:
        open_index(load_settings(qdrant_url=url))
    assert "sesame" not in caught.value.message


def test_settings_with_a_server_open_the_index_there() -> None:
    index = open_index(load_settings(qdrant_url="http://127.0.0.1:6333"))
    assert isinstance(index, ServerIndex)
    index.close()


def test_a_collection_of_someone_else_is_left_alone() -> None:
    client = QdrantClient(":memory:")
    client.create_collection("foreign", vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT))
    index = ServerIndex("http://memory", client=client)
    with pytest.raises(IndexUnavailable, match="not made by Chunkscope"):
        index.ensure("foreign", "wordllama", 2)
    with pytest.raises(IndexUnavailable, match="index them again"):
        index.upsert("foreign", [POINT], EAST)
    assert index.collections() == []
    assert client.count("foreign").count == 0
    index.close()


def test_two_processes_share_a_collection() -> None:
    client = QdrantClient(":memory:")
    one, two = ServerIndex("http://memory", client=client), ServerIndex("http://memory", client=client)
    one.ensure("sentence_collection", "wordllama", 2)
    two.ensure("sentence_collection", "wordllama", 2)
    two.upsert("sentence_collection", [POINT], EAST)
    assert one.count("sentence_collection") == 1
    client.close()


def test_a_collection_that_another_process_made_anew_is_noticed() -> None:
    client = QdrantClient(":memory:")
    one, two = ServerIndex("http://memory", client=client), ServerIndex("http://memory", client=client)
    one.ensure("sentence_collection", "wordllama", 2)
    two.drop("sentence_collection")
    two.ensure("sentence_collection", "another model", 2)
    with pytest.raises(IndexMismatch, match="another model"):
        one.ensure("sentence_collection", "wordllama", 2)
    client.close()


def test_what_a_creator_that_was_killed_has_made_is_taken_over(qdrant_server: QdrantServer) -> None:
    made = {"vectors": {"size": 2, "distance": "Cosine"}, "metadata": {"model": "wordllama", "dimension": 2}}
    qdrant_server.collections.create("sentence_collection-1", made)
    index = ServerIndex(qdrant_server.url)
    index.ensure("sentence_collection", "wordllama", 2)
    index.upsert("sentence_collection", [POINT], EAST)
    assert qdrant_server.collections.names() == ["sentence_collection-1"]
    assert [hit.chunk_id for hit in index.search("sentence_collection", EAST[0], 5, "spec")] == [POINT.chunk_id]
    index.close()


def many(number: int, dimension: int) -> tuple[list[IndexPoint], np.ndarray]:
    points = [IndexPoint(ids.digest(str(place)), f"d{place % 5}", "spec") for place in range(number)]
    return points, np.random.default_rng(3).normal(size=(number, dimension)).astype(np.float32)


def test_a_new_collection_is_made_as_the_settings_say(qdrant_server: QdrantServer) -> None:
    settings = load_settings(
        qdrant_url=qdrant_server.url,
        qdrant_shard_number=3,
        qdrant_replication_factor=2,
        qdrant_write_consistency_factor=2,
        qdrant_on_disk=True,
        qdrant_quantization="scalar",
        qdrant_search="hnsw",
    )
    index = open_index(settings)
    index.ensure("sentence_collection", "wordllama", 4)
    collection = qdrant_server.collections.require("sentence_collection")
    assert qdrant_server.collections.names() == ["sentence_collection-1"]
    config = collection.config
    assert (config["shard_number"], config["replication_factor"], config["write_consistency_factor"]) == (3, 2, 2)
    assert (config["on_disk_payload"], config["vectors"]["on_disk"], config["hnsw_config"]["m"]) == (True, True, 16)
    assert config["quantization_config"]["scalar"]["type"] == "int8"
    index.close()


def test_binary_quantization_and_no_graph(qdrant_server: QdrantServer) -> None:
    index = open_index(load_settings(qdrant_url=qdrant_server.url, qdrant_quantization="binary"))
    index.ensure("sentence_collection", "wordllama", 4)
    config = qdrant_server.collections.require("sentence_collection").config
    assert "binary" in config["quantization_config"]
    # What is not set is left to the server.
    assert not {"shard_number", "replication_factor", "write_consistency_factor"} & config.keys()
    assert config["hnsw_config"]["m"] == 0
    index.close()


@pytest.mark.parametrize("writes", [1, 3])
def test_batches_are_written_side_by_side_and_no_more_than_allowed(
    qdrant_server: QdrantServer, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_BATCH_NUMBERS", 80)
    index = ServerIndex(qdrant_server.url, layout=Layout(writes=writes))
    index.ensure("sentence_collection", "wordllama", 8)
    points, vectors = many(200, 8)
    both = [threading.Thread(target=index.upsert, args=("sentence_collection", points, vectors)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert index.count("sentence_collection") == 200
    assert 1 <= qdrant_server.most_in_flight <= writes
    index.close()


def test_a_batch_that_fails_is_said_in_words(qdrant_server: QdrantServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_BATCH_NUMBERS", 80)
    index = ServerIndex(qdrant_server.url)
    index.ensure("sentence_collection", "wordllama", 8)
    qdrant_server.collections.drop("sentence_collection-1")
    with pytest.raises(IndexUnavailable, match="lost a collection"):
        index.upsert("sentence_collection", *many(200, 8))
    index.close()


def test_a_server_with_shards_ranks_and_scores_as_the_embedded_index(
    qdrant_server: QdrantServer, tmp_path: Path
) -> None:
    points, vectors = many(400, 8)
    # Every vector stands there twice, so that equal scores meet from several shards and at the cut.
    vectors[200:] = vectors[:200]
    embedded, spread = EdgeIndex(tmp_path / "index"), ServerIndex(qdrant_server.url, layout=Layout(shards=3))
    for index in (embedded, spread):
        index.ensure("sentence_collection", "wordllama", 8)
        index.upsert("sentence_collection", points, vectors)
    for query in vectors[:5]:
        for limit in (1, 5, 24):
            found = spread.search("sentence_collection", query, limit, "spec")
            assert found == embedded.search("sentence_collection", query, limit, "spec")
    for each in (embedded, spread):
        each.close()


def test_approximate_search_is_measured_against_exact_search(qdrant_server: QdrantServer) -> None:
    index = ServerIndex(qdrant_server.url, layout=Layout(graph=True))
    points, vectors = many(1500, 16)
    index.ensure("sentence_collection", "wordllama", 16)
    index.upsert("sentence_collection", points, vectors)
    found = recall.measure(index, "sentence_collection", 30, 10)
    assert (found.queries, found.k) == (30, 10)
    assert found.mean is not None
    assert found.worst is not None
    assert 0.8 < found.mean <= 1.0
    assert found.worst <= found.mean
    assert recall.measure(index, "absent_collection", 30, 10).mean is None
    index.close()


def test_recall_is_the_share_of_the_nearest_that_were_found() -> None:
    wanted = [Hit("a", "d", 0.9), Hit("b", "d", 0.8), Hit("c", "d", 0.7), Hit("e", "d", 0.6)]
    assert recall.share_found(wanted, [wanted[0], wanted[2], Hit("f", "d", 0.5)]) == 0.5
    assert recall.share_found(wanted, [*wanted[:3], Hit("as near", "d", 0.6)]) == 1.0
    assert recall.share_found([], []) == 1.0


def test_the_search_that_the_settings_name_is_the_one_that_is_sent(qdrant_server: QdrantServer) -> None:
    for graph, given, expected in ((False, None, True), (True, None, False), (True, True, True), (False, False, False)):
        index = ServerIndex(qdrant_server.url, layout=Layout(graph=graph))
        index.ensure("sentence_collection", "wordllama", 2)
        index.search("sentence_collection", EAST[0], 1, "spec", exact=given)
        assert qdrant_server.last_query["params"]["exact"] is expected
        index.close()
