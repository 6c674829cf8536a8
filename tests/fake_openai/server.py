"""The HTTP server: /v1/embeddings, /v1/chat/completions (streamed too), /v1/files, /v1/batches, /v1/models, and switches for faults under /control."""

from __future__ import annotations

import json
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from engine import tokens
from tests.fake_openai import answers
from tests.fake_openai.batches import Batches
from tests.fake_openai.embeddings import DIMENSIONS, dimension_of, encoded
from tests.fake_openai.faults import SPOILING, SPOILING_SHAPE, Fault, Faults, error_body

MAX_INPUTS = 2048
MAX_INPUT_TOKENS = 8192
MAX_REQUEST_TOKENS = 300_000
CHAT_MODELS = ("gpt-4o-mini", "gpt-4o")


@dataclass
class Counters:
    """What reached the server and what it answered."""

    calls: Counter[str] = field(default_factory=Counter)
    """Requests by path: `embeddings`, `chat`; answered calls of batches under `batched`."""
    answered: Counter[str] = field(default_factory=Counter)
    """Requests by path that ended with a complete and usable answer."""
    embedded: Counter[str] = field(default_factory=Counter)
    """How often each text was embedded in such an answer."""
    answered_chats: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of the chat requests that got such an answer."""
    input_tokens: int = 0
    """Billed, whatever became of the answer."""
    output_tokens: int = 0
    most_in_flight: int = 0
    keys: set[str] = field(default_factory=set)
    """Authorization headers that were sent."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    """Bodies in order of arrival."""

    def plain(self) -> dict[str, Any]:
        return {
            "calls": dict(self.calls),
            "answered": dict(self.answered),
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "most_in_flight": self.most_in_flight,
        }


class FakeOpenAI:
    """The server. `with FakeOpenAI() as server: server.url` is the base URL for a client.

    `latency`: seconds every call takes, the work on its answer included. `key`: the only key it accepts (None: any).
    `lacks`: request parameters it refuses, as older servers do (`json_schema`, `json_object`, `stream_options`, `temperature`, `max_tokens`, `base64` is ignored instead).
    `max_batch`: most inputs of an embedding request; more is HTTP 413. `script(body)`: the text to answer, or None for the usual answer.
    `cached_share`: share of the prompt reported as cached. `bend(answer)`: changes an answer, or an event of a stream, before it is sent.
    """

    def __init__(self, port: int = 0, host: str = "127.0.0.1") -> None:
        self.latency = 0.0
        self.key: str | None = None
        self.lacks: set[str] = set()
        self.max_batch = MAX_INPUTS
        self.cached_share = 0.0
        self.bend: Callable[[dict[str, Any]], None] = lambda answer: None
        self.script: Callable[[dict[str, Any]], str | None] = lambda body: None
        self.faults = Faults()
        self.batches: Batches | None = Batches(self.faults.drawn)
        """None: the server has no batches, as many have not."""
        self.counters = Counters()
        self.lock = threading.Lock()
        self.stopped = threading.Event()
        self._in_flight = 0
        self._http = _Server((host, port), _Handler)
        self._http.fake = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        host, port = self._http.server_address[:2]
        return f"http://{host!s}:{port}/v1"

    def start(self) -> FakeOpenAI:
        self._thread.start()
        return self

    def stop(self) -> None:
        self.stopped.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> FakeOpenAI:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def fault(self, kind: str, path: str = "", times: int | None = None, skip: int = 0, seconds: float = 0.0) -> None:
        """Switch a fault on (see `faults.KINDS`)."""
        self.faults.add(Fault(kind, path, times, skip, seconds))

    def reset(self) -> None:
        """No faults, counters at zero."""
        self.faults.clear()
        with self.lock:
            self.counters = Counters()

    def calls(self, path: str) -> int:
        with self.lock:
            return self.counters.calls[path]

    def begin(self, path: str, body: dict[str, Any], key: str) -> None:
        with self.lock:
            self._in_flight += 1
            counters = self.counters
            counters.calls[path] += 1
            counters.most_in_flight = max(counters.most_in_flight, self._in_flight)
            counters.keys.add(key)
            counters.requests.append(body)

    def end(self) -> None:
        with self.lock:
            self._in_flight -= 1


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    fake: FakeOpenAI

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Cut(OSError):
    """Ends a connection in the middle of an answer."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server
    _due = 0.0
    """When the answer may begin: the work on it is part of the latency and not added to it."""

    @property
    def fake(self) -> FakeOpenAI:
        return self.server.fake

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: a test's output is its own."""

    def send_response(self, code: int, message: str | None = None) -> None:
        time.sleep(max(0.0, self._due - time.monotonic()))
        super().send_response(code, message)

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            models = [*DIMENSIONS, *CHAT_MODELS]
            data = [{"id": name, "object": "model", "created": 0, "owned_by": "fake"} for name in models]
            self._send(200, {"object": "list", "data": data})
        elif self._is_batch_path:
            assert self.fake.batches is not None
            status, found = self.fake.batches.get(self.path.removeprefix("/v1/"), self._batched)
            if isinstance(found, bytes):
                self._write(status, found, "application/octet-stream")
            else:
                self._send(status, found)
        elif self.path == "/control/counters":
            with self.fake.lock:
                self._send(200, self.fake.counters.plain())
        else:
            self._send(404, error_body(404, "no such path"))

    def do_DELETE(self) -> None:
        if self.path == "/control/faults":
            self.fake.reset()
            self._send(200, {})
        elif self._is_batch_path and self.fake.batches is not None:
            self._send(*self.fake.batches.delete_file(self.path.removeprefix("/v1/files/")))
        else:
            self._send(404, error_body(404, "no such path"))

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self._is_batch_path:
            self._batch(raw)
            return
        try:
            body = json.loads(raw)
        except ValueError:
            self._send(400, error_body(400, "the body is not JSON"))
            return
        if self.path == "/control/faults":
            self.fake.faults.add(Fault(**body))
            self._send(200, {})
            return
        path = {"/v1/embeddings": "embeddings", "/v1/chat/completions": "chat"}.get(self.path)
        if path is None:
            self._send(404, error_body(404, "no such path"))
            return
        key = self.headers.get("Authorization", "").removeprefix("Bearer ")
        self.fake.begin(path, body, key)
        try:
            self._answer(path, body, key)
        except _Cut:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        finally:
            self.fake.end()

    def _answer(self, path: str, body: dict[str, Any], key: str) -> None:
        shown = self.fake.faults.drawn(path)
        self._due = time.monotonic() + self.fake.latency + (shown["latency"].seconds if "latency" in shown else 0.0)
        if "hang" in shown:
            self.fake.stopped.wait(shown["hang"].seconds or None)
            raise _Cut
        if self._failed(shown, body, key):
            return
        if path == "embeddings":
            self._embeddings(body, shown)
        else:
            self._chat(body, shown)

    @property
    def _is_batch_path(self) -> bool:
        return self.fake.batches is not None and self.path.startswith(("/v1/files", "/v1/batches"))

    def _batch(self, raw: bytes) -> None:
        batches = self.fake.batches
        assert batches is not None
        key = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if self._failed(self.fake.faults.drawn("batches"), {}, key):
            return
        if self.path == "/v1/files":
            self._send(*batches.upload(raw))
        elif self.path == "/v1/batches":
            self._send(*batches.create(json.loads(raw)))
        else:
            self._send(*batches.cancel(self.path.removeprefix("/v1/batches/").removesuffix("/cancel")))

    def _batched(self, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to one call of a batch."""
        answer, sent, written = self._completion(body, {})
        with self.fake.lock:
            counters = self.fake.counters
            counters.requests.append(body)
            counters.answered_chats.append(body)
            counters.calls["batched"] += 1
            counters.answered["batched"] += 1
            counters.input_tokens += sent
            counters.output_tokens += written
        self.fake.bend(answer)
        return answer

    def _failed(self, shown: dict[str, Fault], body: dict[str, Any], key: str) -> bool:
        """Whether the call ended as an HTTP error, which is then sent."""
        if "unauthorized" in shown or self.fake.key not in (None, key):
            self._send(401, error_body(401, f"Incorrect API key provided: {key}.", "invalid_api_key"))
        elif "rate_limited" in shown:
            seconds = shown["rate_limited"].seconds
            said = error_body(429, "Too many requests.", "rate_limit_exceeded")
            # Whole seconds are the header's unit; the finer one is OpenAI's own.
            fine = {} if seconds == int(seconds) else {"retry-after-ms": str(int(seconds * 1000))}
            self._send(429, said, {"Retry-After": str(int(seconds)), **fine})
        elif "no_credit" in shown:
            self._send(429, error_body(429, "You have no credit left.", "insufficient_quota"))
        elif "server_error" in shown:
            self._send(500, error_body(500, f"Failed while handling {json.dumps(body)[:200]} for {key}"))
        elif "bad_request" in shown:
            self._send(400, error_body(400, f"Cannot handle {json.dumps(body)[:500]} for {key}", "invalid_value"))
        elif "redirect" in shown:
            self._send(307, {}, {"Location": f"{self.fake.url}/elsewhere"})
        elif "invalid_json" in shown:
            self._write(200, b"<html><body>Gateway</body></html>", "application/json")
        elif str(body.get("model", "")).startswith("missing"):
            self._send(404, error_body(404, f"The model {body['model']} does not exist.", "model_not_found"))
        else:
            return False
        return True

    def _embeddings(self, body: dict[str, Any], shown: dict[str, Fault]) -> None:
        inputs = [body["input"]] if isinstance(body["input"], str) else body["input"]
        if len(inputs) > self.fake.max_batch:
            self._send(413, error_body(413, f"batch size {len(inputs)} is larger than {self.fake.max_batch}"))
            return
        counts = [tokens.count(text) for text in inputs]
        problem = None
        if len(inputs) > MAX_INPUTS or not inputs or "" in inputs:
            problem = "'$.input' is invalid."
        elif max(counts) > MAX_INPUT_TOKENS or sum(counts) > MAX_REQUEST_TOKENS:
            problem = "This model's maximum context length is exceeded."
        if problem:
            self._send(400, error_body(400, problem, "invalid_value", "input"))
            return
        dimension = dimension_of(body["model"], body.get("dimensions")) + ("wrong_dimension" in shown)
        encoding_format = None if "base64" in self.fake.lacks else body.get("encoding_format")
        data: list[dict[str, Any]] = [
            {"object": "embedding", "index": index, "embedding": encoded(text, dimension, encoding_format)}
            for index, text in enumerate(inputs)
        ]
        if "shuffled" in shown:
            random.Random(len(data)).shuffle(data)
        if "missing_vector" in shown:
            data.pop()
        answer: dict[str, Any] = {"object": "list", "model": body["model"], "data": data}
        if "missing_usage" not in shown:
            answer["usage"] = {"prompt_tokens": sum(counts), "total_tokens": sum(counts)}
        if self._damaged(answer, shown):
            return
        self._count("embeddings", sum(counts), 0, body, shown)
        self.fake.bend(answer)
        self._send(200, answer)

    def _chat(self, body: dict[str, Any], shown: dict[str, Fault]) -> None:
        wanted = body.get("response_format", {}).get("type")
        for name in ("json_schema", "json_object"):
            if wanted == name and name in self.fake.lacks:
                said = f"'response_format' of type '{name}' is not supported by this server"
                self._send(400, error_body(400, said, None, "response_format"))
                return
        for name in ("stream_options", "temperature", "max_tokens", "seed"):
            if name in body and name in self.fake.lacks:
                instead = " Use 'max_completion_tokens' instead." if name == "max_tokens" else ""
                said = f"Unsupported parameter: '{name}' is not supported.{instead}"
                self._send(400, error_body(400, said, "unsupported_parameter", name))
                return
        if body.get("stream"):
            self._stream(body, shown)
            return
        answer, sent, written = self._completion(body, shown)
        if "cut" in shown:
            self._damaged(answer, shown)
            return
        self._count("chat", sent, written, body, shown)
        self.fake.bend(answer)
        self._send(200, answer)

    def _completion(self, body: dict[str, Any], shown: dict[str, Fault]) -> tuple[dict[str, Any], int, int]:
        """The whole answer, and the tokens sent and written."""
        content, finish = self._content(body, shown)
        refusal = _refusal(shown)
        usage = self._usage(body, content)
        message = {"role": "assistant", "content": None if refusal else content, "refusal": refusal}
        answer: dict[str, Any] = {
            **_frame(body),
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        }
        if "missing_usage" not in shown:
            answer["usage"] = usage
        return answer, usage["prompt_tokens"], usage["completion_tokens"]

    def _usage(self, body: dict[str, Any], content: str) -> dict[str, Any]:
        sent = sum(tokens.count(answers.text_of(m.get("content"))) + 4 for m in body["messages"])
        if body.get("response_format", {}).get("type") == "json_schema":
            sent += tokens.count(json.dumps(body["response_format"]["json_schema"]["schema"]))
        written = tokens.count(content) or 1
        return {
            "prompt_tokens": sent,
            "completion_tokens": written,
            "total_tokens": sent + written,
            "prompt_tokens_details": {"cached_tokens": int(sent * self.fake.cached_share)},
        }

    def _content(self, body: dict[str, Any], shown: dict[str, Fault]) -> tuple[str, str]:
        """(text, finish reason) of the answer."""
        scripted = self.fake.script(body)
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
        if schema is None:
            schema = _schema_in_words(body)
        if scripted is not None:
            content = scripted
        elif "empty" in shown:
            content = ""
        elif "off_schema" in shown:
            content = '{"unexpected": true}'
        elif schema is None or "prose" in shown:
            content = answers.prose(body["messages"])
        else:
            content = answers.instance(schema, body["messages"])
        if "truncated_json" in shown:
            return content[: max(1, len(content) * 2 // 3)], "length"
        return content, "stop"

    def _stream(self, body: dict[str, Any], shown: dict[str, Fault]) -> None:
        content, finish = self._content(body, shown)
        refusal, usage = _refusal(shown), self._usage(body, content)
        frame = {**_frame(body), "object": "chat.completion.chunk"}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, delta in enumerate(_deltas(content, refusal)):
            if "cut" in shown and number == 2:
                self.wfile.flush()
                raise _Cut
            self._event({**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        self._event({**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        if (body.get("stream_options") or {}).get("include_usage") and "missing_usage" not in shown:
            self._event({**frame, "choices": [], "usage": usage})
        self._count("chat", usage["prompt_tokens"], usage["completion_tokens"], body, shown)
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _event(self, value: dict[str, Any]) -> None:
        self.fake.bend(value)
        self._chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _count(self, path: str, sent: int, written: int, body: dict[str, Any], shown: dict[str, Fault]) -> None:
        spoiling = SPOILING | (SPOILING_SHAPE if "response_format" in body or _schema_in_words(body) else set())
        with self.fake.lock:
            counters = self.fake.counters
            counters.input_tokens += sent
            counters.output_tokens += written
            if spoiling & shown.keys():
                return
            counters.answered[path] += 1
            if path == "embeddings":
                counters.embedded.update([body["input"]] if isinstance(body["input"], str) else body["input"])
            else:
                counters.answered_chats.append(body)

    def _damaged(self, answer: dict[str, Any], shown: dict[str, Fault]) -> bool:
        data = json.dumps(answer).encode()
        if "truncated_json" in shown:
            self._write(200, data[: len(data) // 2], "application/json")
        elif "cut" in shown:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            raise _Cut
        return "truncated_json" in shown

    def _send(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        self._write(status, json.dumps(body).encode(), "application/json", headers)

    def _write(self, status: int, data: bytes, content_type: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": content_type, "Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def _frame(body: dict[str, Any]) -> dict[str, Any]:
    return {"id": "chat-1", "created": 0, "model": body["model"]}


def _refusal(shown: dict[str, Fault]) -> str | None:
    return "I cannot help with that." if "refusal" in shown else None


def _deltas(content: str, refusal: str | None) -> Iterator[dict[str, str]]:
    yield {"role": "assistant", "content": ""}
    if refusal:
        yield {"refusal": refusal}
        return
    pieces = content.split(" ")
    for number, piece in enumerate(pieces):
        yield {"content": piece + (" " if number < len(pieces) - 1 else "")}


def _schema_in_words(body: dict[str, Any]) -> dict[str, Any] | None:
    """A JSON schema that the last message spells out, as is done for servers without structured output."""
    text = answers.text_of(body["messages"][-1].get("content")) if "messages" in body else ""
    if "JSON schema" not in text:
        return None
    try:
        schema = json.JSONDecoder().raw_decode(text, text.index("{"))[0]
    except ValueError:
        return None
    return schema if isinstance(schema, dict) else None
