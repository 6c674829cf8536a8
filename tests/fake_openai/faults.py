"""Faults the server can be told to show."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

KINDS = {
    "latency": "answers after `seconds`",
    "rate_limited": "HTTP 429 with Retry-After `seconds`",
    "no_credit": "HTTP 429 with the code insufficient_quota",
    "unauthorized": "HTTP 401 that repeats the key",
    "server_error": "HTTP 500",
    "bad_request": "HTTP 400 that repeats the text",
    "redirect": "HTTP 307 to another address",
    "hang": "never answers",
    "cut": "closes the connection in the middle of the answer",
    "invalid_json": "HTTP 200 with a page of HTML",
    "truncated_json": "an answer whose JSON ends too early",
    "refusal": "the model declines (chat)",
    "prose": "prose where JSON was asked for (chat)",
    "off_schema": "JSON that does not follow the schema (chat)",
    "empty": "an empty answer (chat)",
    "wrong_dimension": "vectors with one number too many (embeddings)",
    "shuffled": "vectors in another order, with their indexes (embeddings)",
    "missing_vector": "one vector too few (embeddings)",
    "missing_usage": "no usage in the answer",
    "row_failed": "a call of a batch ends with HTTP 500",
    "row_expired": "a call of a batch is not answered in time",
    "row_garbage": "a line of a batch's output is cut off",
    "row_missing": "a line of a batch's output is left out",
    "batch_failed": "a batch is refused as a whole",
}

SPOILING = {"refusal", "empty", "wrong_dimension", "missing_vector"}
"""Faults that leave an answer complete and billed, but of no use."""
SPOILING_SHAPE = {"prose", "off_schema", "truncated_json"}
"""The same where an object was asked for."""


@dataclass
class Fault:
    """One fault. It shows on matching calls: the first `skip` pass, the next `times` fail (None: all)."""

    kind: str
    path: str = ""
    """`embeddings`, `chat`, `batch` or `batch_row`; empty: all."""
    times: int | None = None
    skip: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown fault {self.kind!r}; there are {', '.join(KINDS)}")


class Faults:
    """The faults that are switched on. Several may show on one call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._on: list[Fault] = []

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._on.append(fault)

    def clear(self) -> None:
        with self._lock:
            self._on.clear()

    def drawn(self, path: str) -> dict[str, Fault]:
        """The faults this call shows, by kind; their counts go down."""
        shown = {}
        with self._lock:
            for fault in self._on:
                if fault.path not in ("", path):
                    continue
                if fault.skip > 0:
                    fault.skip -= 1
                elif fault.times is None or fault.times > 0:
                    fault.times = None if fault.times is None else fault.times - 1
                    shown[fault.kind] = fault
        return shown


def error_body(status: int, message: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    kind = {401: "invalid_request_error", 429: "requests", 500: "server_error"}.get(status, "invalid_request_error")
    return {"error": {"message": message, "type": kind, "code": code, "param": param}}
