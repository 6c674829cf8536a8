"""What a Qdrant server answers when it does not do as it was asked, and which servers those are."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from typing import Any

import numpy as np
import pytest
from httpx import ConnectError
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException

from engine import ids
from engine.errors import IndexUnavailable
from engine.index import IndexPoint
from engine.index.server import ServerIndex
from engine.index.server_layout import Layout
from engine.index.server_words import in_words
from tests.qdrant_server import QdrantServer, server

# A key sent without encryption; the test server is on this machine.
pytestmark = pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection:UserWarning")

NAME = "sentence_collection"


class _Answer(BaseHTTPRequestHandler):
    """Answers every request with the server's `status`, `headers` and `body`."""

    server: _Troubled

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if len(self.server.asked) <= self.server.silent:
            self.close_connection = True
            return
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        pass


class _Troubled(ThreadingHTTPServer):
    status = 500
    body = b""
    silent = 0
    """The first requests, whose connections end without an answer."""
    headers: dict[str, str]
    asked: list[str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def troubled() -> Iterator[_Troubled]:
    with _Troubled(("127.0.0.1", 0), _Answer) as found:
        found.headers, found.asked = {}, []
        thread = threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def said(reason: str) -> bytes:
    return json.dumps({"status": {"error": f"{reason}, sesame"}, "time": 0.0}).encode()


PAGE = b"<html>sesame</html>"
STRICT = said('Bad request: Limit exceeded 1000 > 100 for "limit". Help: Reduce the "limit" parameter to or below 100.')


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (200, PAGE, "not Qdrant's"),
        (200, b"\xff", "not Qdrant's"),
        (200, b"{}", "not Qdrant's"),
        (301, PAGE, "sends requests on to another address"),
        (400, STRICT, "under its strict mode"),
        (400, said("Wrong input: Vector dimension error"), r"refuses what was asked \(400\)"),
        (401, b"Invalid API key or JWT", "refuses the key"),
        (403, said("Forbidden"), "does not let this key"),
        (404, said("Not found: Collection `x` doesn't exist!"), "lost a collection"),
        (404, PAGE, "has nothing at this address"),
        (404, b"[]", "has nothing at this address"),
        (408, said("Timeout"), r"an error \(408\)"),
        (413, PAGE, "takes no request of this size"),
        (422, said("Validation error in JSON body"), r"refuses what was asked \(422\)"),
        (429, said("Rate limiting exceeded"), "takes no more requests for now"),
        (500, said("Service internal error"), r"an error \(500\).*a node that is down"),
        (503, said("Shard temporarily unavailable"), r"an error \(503\)"),
        (507, said("No space left"), r"an error \(507\).*full disk"),
    ],
)
def test_an_answer_that_is_an_error_is_said_in_words(troubled: _Troubled, status: int, body: bytes, words: str) -> None:
    troubled.status, troubled.body = status, body
    index = ServerIndex(troubled.url)
    with pytest.raises(IndexUnavailable, match=words) as caught:
        index.health()
    assert "sesame" not in caught.value.message
    index.close()


def test_a_certificate_that_is_not_trusted_is_said_in_words() -> None:
    refused = ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate")
    assert "Set SSL_CERT_FILE" in in_words(ResponseHandlingException(refused), "vectors:6333")
    assert "cannot be reached" in in_words(ResponseHandlingException(ConnectError("refused")), "vectors:6333")


def test_json_without_a_result_is_not_an_answer_of_qdrant(troubled: _Troubled) -> None:
    troubled.status, troubled.body = 200, b"{}"
    index = ServerIndex(troubled.url)
    for call in (index.collections, lambda: index.count(NAME)):
        with pytest.raises(IndexUnavailable, match="not Qdrant's"):
            call()
    index.close()


def test_a_server_that_says_how_long_to_wait_is_said_in_words(troubled: _Troubled) -> None:
    troubled.status, troubled.headers = 429, {"Retry-After": "7"}
    index = ServerIndex(troubled.url)
    with pytest.raises(IndexUnavailable, match="takes no more requests for now"):
        index.health()
    index.close()


def test_a_connection_that_ends_without_an_answer_is_tried_once_more(troubled: _Troubled) -> None:
    troubled.status, troubled.body = 200, json.dumps({"result": {"aliases": []}, "status": "ok", "time": 0.0}).encode()
    index = ServerIndex(troubled.url)
    for silent, tries in ((0, 1), (1, 2)):
        troubled.silent, troubled.asked = silent, []
        with pytest.raises(IndexUnavailable, match="not Qdrant's"):
            # The list of collections that is asked for next is not one.
            index.collections()
        assert troubled.asked == ["/aliases"] * tries + ["/collections"]
    troubled.silent, troubled.asked = 9, []
    with pytest.raises(IndexUnavailable, match="cannot be reached"):
        index.collections()
    assert troubled.asked == ["/aliases"] * 2
    index.close()


@pytest.mark.parametrize("path", ["/vectors", "/vectors/"])
def test_a_path_before_those_of_qdrant_is_kept(troubled: _Troubled, path: str) -> None:
    index = ServerIndex(troubled.url + path)
    for call in (index.health, index.collections):
        with pytest.raises(IndexUnavailable):
            call()
    assert troubled.asked == ["/vectors/", "/vectors/aliases"]
    index.close()


def test_an_address_without_a_port_means_that_of_qdrant() -> None:
    index = ServerIndex("http://vectors", client=QdrantClient(":memory:"))
    assert "at vectors:6333 " in index.health()
    index.close()


class _Version(QdrantClient):
    """The client's in-memory mode, saying another version."""

    def __init__(self, version: str) -> None:
        super().__init__(":memory:")
        self.said = version

    def info(self) -> Any:
        return super().info().model_copy(update={"version": self.said})


NEXT = "1." + str(int(metadata.version("qdrant-client").split(".")[1]) + 1)
AFTER = "1." + str(int(metadata.version("qdrant-client").split(".")[1]) + 2)


@pytest.mark.parametrize(
    ("version", "unknown"),
    [
        ("1.16.0", False),
        ("1.19.2-dev", False),
        (f"{NEXT}.0", False),
        (f"{AFTER}.0", True),
        ("2.0.0", True),
        ("nightly", True),
        ("", True),
    ],
)
def test_a_version_that_is_not_known_is_told_and_used(version: str, unknown: bool) -> None:
    index = ServerIndex("http://memory", client=_Version(version))
    assert ("which this Chunkscope does not know" in index.health()) is unknown
    index.close()


@pytest.mark.parametrize("version", ["1.15.5", "1.9.2", "0.11.7"])
def test_a_version_that_is_too_old_is_refused(version: str) -> None:
    with QdrantServer(version=version) as old:
        index = ServerIndex(old.url)
        with pytest.raises(IndexUnavailable, match=rf"version {version}, and Chunkscope needs 1\.16"):
            index.health()
        index.close()


def test_a_key_is_needed_and_one_that_only_reads_does_not_write() -> None:
    points, vectors = chunks(3, 2)
    with QdrantServer(api_key="sesame", read_only_key="poppy") as locked:
        for key in (None, "wrong"):
            index = ServerIndex(locked.url, key)
            with pytest.raises(IndexUnavailable, match="refuses the key"):
                index.health()
            index.close()
        index = ServerIndex(locked.url, "sesame")
        index.ensure(NAME, "wordllama", 2)
        index.upsert(NAME, points, vectors)
        assert "version 1.19.1" in index.health()
        reader = ServerIndex(locked.url, "poppy")
        assert "holds 1 collections" in reader.health()
        assert (len(reader.search(NAME, vectors[0], 5, "spec")), reader.count(NAME)) == (3, 3)
        assert reader.read(NAME).points == sorted(points)
        for call in (
            lambda: reader.upsert(NAME, points, vectors),
            lambda: reader.delete(NAME, spec_id="spec"),
            lambda: reader.drop(NAME),
            lambda: reader.ensure("other_collection", "wordllama", 2),
        ):
            with pytest.raises(IndexUnavailable, match="does not let this key"):
                call()
        assert index.count(NAME) == 3
        for each in (index, reader):
            each.close()


def chunks(number: int, dimension: int) -> tuple[list[IndexPoint], np.ndarray]:
    points = [IndexPoint(ids.digest(str(place)), "doc", "spec") for place in range(number)]
    return points, np.random.default_rng(3).normal(size=(number, dimension)).astype(np.float32)


@pytest.mark.parametrize(
    ("limits", "layout"),
    [
        # Qdrant's cloud, and limits that Chunkscope stays within.
        ({"unindexed_filtering_retrieve": False, "unindexed_filtering_update": False}, Layout()),
        ({"max_query_limit": 1000, "upsert_max_batchsize": 1000}, Layout()),
        ({"search_max_oversampling": 2.0}, Layout(graph=True)),
    ],
)
def test_usual_limits_of_strict_mode_are_kept(limits: dict[str, Any], layout: Layout) -> None:
    points, vectors = chunks(1500, 2)
    with QdrantServer(strict_mode={"enabled": True} | limits) as limited:
        index = ServerIndex(limited.url, layout=layout)
        index.ensure(NAME, "wordllama", 2)
        index.upsert(NAME, points, vectors)
        assert len(index.search(NAME, vectors[0], 50, "spec", ["doc", "other"])) == 50
        assert index.rebuild(NAME) == 1500
        index.delete(NAME, document_id="doc")
        assert index.count(NAME, spec_id="spec") == 0
        index.close()


@pytest.mark.parametrize("limits", [{"search_allow_exact": False}, {"max_query_limit": 10}, {"condition_max_size": 1}])
def test_limits_that_forbid_the_search_are_said_in_words(limits: dict[str, Any]) -> None:
    points, vectors = chunks(3, 2)
    with QdrantServer(strict_mode={"enabled": True} | limits) as limited:
        index = ServerIndex(limited.url)
        index.ensure(NAME, "wordllama", 2)
        index.upsert(NAME, points, vectors)
        with pytest.raises(IndexUnavailable, match="under its strict mode"):
            index.search(NAME, vectors[0], 5, "spec", ["doc", "other"])
        index.close()


@pytest.mark.parametrize("dimension", [1, 256, 3072])
def test_what_is_sent_at_once_is_far_below_the_size_that_qdrant_takes(
    qdrant_server: QdrantServer, dimension: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LARGEST_BODY", server.LARGEST_BODY // 5)
    index = ServerIndex(qdrant_server.url)
    index.ensure(NAME, "wordllama", dimension)
    # More than one batch, of numbers that take as many digits as there are.
    points, vectors = chunks(100 if dimension == 3072 else 1001, dimension)
    index.upsert(NAME, points, vectors * np.float32(1e-7))
    assert index.count(NAME) == len(points)
    index.close()


@pytest.mark.parametrize("status", ["acknowledged", "wait_timeout"])
def test_a_change_that_is_not_finished_is_not_done(qdrant_server: QdrantServer, status: str) -> None:
    index = ServerIndex(qdrant_server.url)
    index.ensure(NAME, "wordllama", 2)
    qdrant_server.write_status = status
    for call in (lambda: index.upsert(NAME, *chunks(2, 2)), lambda: index.delete(NAME, spec_id="spec")):
        with pytest.raises(IndexUnavailable, match="did not finish it in time"):
            call()
    index.close()
