"""What only the index on a server can meet: no server, a wrong key, a server in trouble, a collection of someone else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from engine.errors import BadSetting, IndexMismatch, IndexUnavailable
from engine.index import IndexPoint, open_index
from engine.index.server import ServerIndex
from engine.settings import load_settings

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning")

POINT = IndexPoint("0" * 32, "doc", "spec")
EAST = np.array([[1, 0]], dtype=np.float32)


class _Answer(BaseHTTPRequestHandler):
    """Answers every request with the server's `status`."""

    server: _Troubled

    def do_GET(self) -> None:
        body = json.dumps({"status": {"error": "the key sesame is wrong"}}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _Troubled(ThreadingHTTPServer):
    status = 500


@pytest.fixture
def troubled() -> Iterator[_Troubled]:
    with _Troubled(("127.0.0.1", 0), _Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "refuses the key"), (403, "refuses the key"), (404, "lost a collection"), (507, r"an error \(507\)")],
)
def test_an_answer_that_is_an_error_is_said_in_words(troubled: _Troubled, status: int, words: str) -> None:
    troubled.status = status
    index = ServerIndex(f"http://127.0.0.1:{troubled.server_port}")
    with pytest.raises(IndexUnavailable, match=words) as caught:
        index.health()
    assert "sesame" not in caught.value.message
    index.close()


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
