"""Files and batches of the fake server: every look at a batch takes it one step further, so that nothing depends on time."""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.fake_openai.faults import Fault, error_body

STEPS = ("validating", "in_progress", "finalizing", "completed")
_ENDED = ("completed", "failed", "expired", "cancelled")

Answer = Callable[[dict[str, Any]], dict[str, Any]]
"""Answers the body of one chat request."""


@dataclass
class _Batch:
    batch_id: str
    input_file: str
    metadata: dict[str, str]
    lines: list[dict[str, Any]]
    state: str = STEPS[0]
    output_file: str | None = None
    error_file: str | None = None
    errors: list[dict[str, str]] = field(default_factory=list)
    failed: int = 0


class Batches:
    """`held`: batches stay in progress. `slow_to_cancel`: cancelled ones go on being cancelled. `drawn(path)`: the faults that a batch (`batch`) or one of its rows (`batch_row`) shows."""

    def __init__(self, drawn: Callable[[str], dict[str, Fault]]) -> None:
        self.held = False
        self.slow_to_cancel = False
        self.files: dict[str, bytes] = {}
        self.deleted: list[str] = []
        self._drawn = drawn
        self._lock = threading.RLock()
        self._batches: dict[str, _Batch] = {}

    def count(self) -> int:
        """Batches that were ever created."""
        with self._lock:
            return len(self._batches)

    def sizes(self) -> list[int]:
        """Calls in each batch, in order of creation."""
        with self._lock:
            return [len(batch.lines) for batch in self._batches.values()]

    def state(self, number: int) -> str:
        with self._lock:
            return list(self._batches.values())[number].state

    def upload(self, form: bytes) -> tuple[int, dict[str, Any]]:
        """`form`: the multipart body; the part named `file` is kept."""
        found = re.search(rb'name="file"[^\r\n]*\r\n(?:[^\r\n]+\r\n)*\r\n(.*?)\r\n--', form, re.DOTALL)
        if found is None:
            return 400, error_body(400, "there is no file")
        with self._lock:
            file_id = self._kept(found[1])
            return 200, _file(file_id, self.files[file_id])

    def create(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self._lock:
            data = self.files.get(body["input_file_id"])
            if data is None:
                return 404, error_body(404, "no such file")
            lines = [json.loads(line) for line in data.decode().splitlines() if line]
            batch = _Batch(f"batch_{len(self._batches) + 1}", body["input_file_id"], body.get("metadata") or {}, lines)
            self._batches[batch.batch_id] = batch
            return 200, self._shown(batch)

    def get(self, path: str, answer: Answer) -> tuple[int, dict[str, Any] | bytes]:
        """`path` below /v1: `files/ID/content`, `batches`, `batches/ID`."""
        parts = path.split("?")[0].split("/")
        with self._lock:
            if parts[0] == "files" and parts[-1] == "content" and parts[1] in self.files:
                return 200, self.files[parts[1]]
            if parts == ["batches"]:
                data = [self._shown(batch) for batch in reversed(self._batches.values())]
                return 200, {"object": "list", "data": data, "has_more": False}
            if len(parts) == 2 and parts[0] == "batches" and parts[1] in self._batches:
                batch = self._batches[parts[1]]
                self._go_on(batch, answer)
                return 200, self._shown(batch)
        return 404, error_body(404, "no such path")

    def cancel(self, batch_id: str) -> tuple[int, dict[str, Any]]:
        with self._lock:
            batch = self._batches.get(batch_id)
            if batch is None:
                return 404, error_body(404, "no such batch")
            if batch.state not in _ENDED:
                batch.state = "cancelling"
            return 200, self._shown(batch)

    def delete_file(self, file_id: str) -> tuple[int, dict[str, Any]]:
        with self._lock:
            if self.files.pop(file_id, None) is None:
                return 404, error_body(404, "no such file")
            self.deleted.append(file_id)
            return 200, {"id": file_id, "object": "file", "deleted": True}

    def _kept(self, data: bytes) -> str:
        file_id = f"file-{len(self.files) + len(self.deleted) + 1}"
        self.files[file_id] = data
        return file_id

    def _go_on(self, batch: _Batch, answer: Answer) -> None:
        if batch.state == "cancelling":
            if self.slow_to_cancel:
                return
            self._end(batch, answer, "cancelled", len(batch.lines) // 2)
        elif batch.state == "validating" and "batch_failed" in self._drawn("batch"):
            batch.state = "failed"
            batch.errors = [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached."}]
        elif batch.state not in _ENDED and not (self.held and batch.state == "in_progress"):
            following = STEPS[STEPS.index(batch.state) + 1]
            if following == "completed":
                self._end(batch, answer, following, len(batch.lines))
            else:
                batch.state = following

    def _end(self, batch: _Batch, answer: Answer, state: str, answered: int) -> None:
        """Writes output and error file. Of a batch that was cancelled, the first `answered` rows were answered."""
        output: list[str] = []
        errors: list[str] = []
        for number, line in enumerate(batch.lines):
            shown = self._drawn("batch_row")
            row: dict[str, Any] = {
                "id": f"row_{number}",
                "custom_id": line["custom_id"],
                "response": None,
                "error": None,
            }
            if number >= answered:
                errors.append(json.dumps({**row, "error": {"code": "batch_cancelled", "message": "Cancelled."}}))
            elif "row_expired" in shown:
                state = "expired"
                errors.append(json.dumps({**row, "error": {"code": "batch_expired", "message": "Expired."}}))
            elif "row_failed" in shown:
                body = error_body(500, "A fault of ours.", "server_error")
                errors.append(json.dumps({**row, "response": {"status_code": 500, "request_id": "r", "body": body}}))
            elif "row_missing" in shown:
                continue
            elif "row_garbage" in shown:
                output.append(json.dumps(row)[:30])
            else:
                body = answer(line["body"])
                output.append(json.dumps({**row, "response": {"status_code": 200, "request_id": "r", "body": body}}))
        if "shuffled" in self._drawn("batch"):
            random.Random(len(output)).shuffle(output)
        batch.state, batch.failed = state, len(errors)
        batch.output_file = self._kept("\n".join([*output, ""]).encode()) if output else None
        batch.error_file = self._kept("\n".join([*errors, ""]).encode()) if errors else None

    def _shown(self, batch: _Batch) -> dict[str, Any]:
        done = len(batch.lines) if batch.state in _ENDED else 0
        return {
            "id": batch.batch_id,
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "created_at": 0,
            "status": batch.state,
            "input_file_id": batch.input_file,
            "output_file_id": batch.output_file,
            "error_file_id": batch.error_file,
            "errors": {"object": "list", "data": batch.errors} if batch.errors else None,
            "metadata": batch.metadata,
            "request_counts": {"total": len(batch.lines), "completed": done - batch.failed, "failed": batch.failed},
        }


def _file(file_id: str, data: bytes) -> dict[str, Any]:
    return {
        "id": file_id,
        "object": "file",
        "bytes": len(data),
        "created_at": 0,
        "filename": "calls.jsonl",
        "purpose": "batch",
        "status": "processed",
    }
