"""The HTTP side of the test server."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from tests.qdrant_server.collections import Collections
from tests.qdrant_server.strict import BODY, Refused

VERSION = "1.19.1"

LARGEST_BODY = 32 * 1024 * 1024
"""Bytes of JSON that Qdrant takes in one request, unless its `max_request_size_mb` says otherwise."""


class QdrantServer:
    """Serves on a loopback port, from a folder of its own that goes when it is closed.

    `api_key`: refuse requests without it; `read_only_key`: another one, which may read. `version`: what it says it is. `strict_mode`:
    that of new collections.
    """

    def __init__(
        self,
        port: int = 0,
        api_key: str | None = None,
        version: str = VERSION,
        read_only_key: str | None = None,
        strict_mode: BODY | None = None,
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="qdrant-"))
        self.collections = Collections(self._folder, strict_mode or {})
        self.api_key = api_key
        self.read_only_key = read_only_key
        self.version = version
        self.write_status = "completed"
        """What a write of points that is done is said to be."""
        self.in_flight = 0
        self.most_in_flight = 0
        """Most writes of points that were served at once."""
        self.last_query: BODY = {}
        self.counting = threading.Lock()
        self._http = _Http(("127.0.0.1", port), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        self.collections.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def answer(self, method: str, path: str, body: BODY) -> Any:
        """The `result` of a request. Raises Refused."""
        match (method, *[unquote(part) for part in path.strip("/").split("/")]):
            case ("GET", "collections"):
                return {"collections": [{"name": name} for name in self.collections.names()]}
            case ("GET", "aliases"):
                return {"aliases": self.collections.aliases()}
            case ("POST", "collections", "aliases"):
                self.collections.change_aliases(body["actions"])
                return True
            case ("GET", "collections", name, "exists"):
                return {"exists": self.collections.find(name) is not None}
            case ("PUT", "collections", name):
                self.collections.create(name, body)
                return True
            case ("DELETE", "collections", name):
                return self.collections.drop(name)
            case (_, "collections", name, *rest):
                return self._of_collection(method, name, rest, body)
        raise Refused(404, "")

    def _of_collection(self, method: str, name: str, rest: list[str], body: BODY) -> Any:
        collection = self.collections.require(name)
        done = {"operation_id": 0, "status": self.write_status}
        with collection.lock:
            match (method, *rest):
                case ("GET",):
                    return collection.info()
                case ("GET", "aliases"):
                    every = self.collections.aliases()
                    return {"aliases": [each for each in every if each["collection_name"] == name]}
                case ("PUT", "index"):
                    collection.create_index(body["field_name"])
                    return done
                case ("PUT", "points"):
                    collection.upsert(body["points"])
                    return done
                case ("POST", "points"):
                    return collection.retrieve(body)
                case ("POST", "points", "query"):
                    self.last_query = body
                    return {"points": collection.query(body)}
                case ("POST", "points", "scroll"):
                    return collection.scroll(body)
                case ("POST", "points", "count"):
                    return {"count": collection.count(body)}
                case ("POST", "points", "delete"):
                    collection.delete(body)
                    return done
        raise Refused(404, "")

    def refusal(self, method: str, path: str, key: str | None) -> tuple[int, str] | None:
        """The status and text for a key that is missing, wrong, or only reads; what a server says of itself is open to all."""
        if self.api_key is None or path == "/" or key == self.api_key:
            return None
        if key is None:
            return 401, "Must provide an API key or an Authorization bearer token"
        if key != self.read_only_key:
            return 401, "Invalid API key or JWT"
        reads = method == "GET" or path.endswith(("/points", "/query", "/scroll", "/count"))
        return None if reads and method != "PUT" else (403, "Forbidden: Write access is required")


class _Http(ThreadingHTTPServer):
    owner: QdrantServer
    daemon_threads = True
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        owner, path = self.server.owner, urlsplit(self.path).path
        writes = self.command == "PUT" and path.endswith("/points")
        if path in ("/healthz", "/livez", "/readyz"):
            self._send(200, b"healthz check passed", "text/plain")
            return
        refused = owner.refusal(self.command, path, self.headers.get("api-key"))
        if refused is not None:
            status, reason = refused
            if status == 401:
                self._send(status, reason.encode(), "text/plain")
            else:
                self._json(status, {"status": {"error": reason}, "time": 0.0})
            return
        if len(data) > LARGEST_BODY:
            reason = f"JSON payload ({len(data)} bytes) is larger than allowed (limit: {LARGEST_BODY} bytes)."
            self._json(400, {"status": {"error": reason}, "time": 0.0})
            return
        if path == "/":
            self._json(200, {"title": "qdrant - vector search engine", "version": owner.version})
            return
        with owner.counting:
            owner.in_flight += writes
            owner.most_in_flight = max(owner.most_in_flight, owner.in_flight)
        body: BODY | None
        try:
            result = owner.answer(self.command, path, json.loads(data) if data else {})
            status, body = 200, {"result": result, "status": "ok", "time": 0.0}
        except Refused as error:
            # A path that is none is answered with nothing.
            status, body = error.status, {"status": {"error": str(error)}, "time": 0.0} if str(error) else None
        finally:
            # Before the answer goes out: the client may send its next write as soon as it has it.
            with owner.counting:
                owner.in_flight -= writes
        if body is None:
            self._send(status, b"", "text/plain")
            return
        self._json(status, body)

    def _json(self, status: int, body: BODY) -> None:
        self._send(status, json.dumps(body).encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
