"""Chat calls as batches: files of requests that a server answers within a day, at a lower price (OpenAI's Batch API and servers that have it)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

from openai.types import Batch
from openai.types.chat import ChatCompletion

from engine.errors import CallCause
from engine.providers import loop
from engine.providers.base import ChatReply, ChatRequest
from engine.providers.openai import BadAnswer, CallFailed
from engine.providers.openai_chat import OpenAIChat

WINDOW_HOURS = 24
"""Within which the server answers; what it has not answered by then expires and is not billed."""
MOST_CALLS = 50_000
"""Calls in one batch, by OpenAI's limit."""
MOST_BYTES = 190_000_000
"""Bytes of one file; OpenAI's limit is 200 MB."""
TAG = "chunkscope"
"""Key in a batch's metadata under which its sender's own id stands."""

_ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
_CREATE_TRIES = 3
_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_NO_SUCH = frozenset({404, 405, 501})
"""Status of an answer to a request for what is not there or cannot be done there."""
_PASSING = frozenset({"unavailable", "timeout", "rate_limited"})


class BatchState(NamedTuple):
    """A batch at one moment."""

    state: str
    """As the server names it: validating, in_progress, finalizing, completed, failed, expired, cancelling, cancelled."""
    done: int
    """Calls that have ended, failed ones included."""
    total: int
    output_file: str | None
    error_file: str | None
    input_file: str | None
    problem: str = ""
    """Code of the first error of a batch that failed."""

    @property
    def ended(self) -> bool:
        return self.state in _ENDED


@dataclass(frozen=True, slots=True)
class Line:
    """One call of a batch. `call_id`: comes back with its answer."""

    call_id: str
    text: str
    size: int = field(default=0)
    """Bytes of the line."""


class BatchChat:
    """The batches of one chat model. Every method raises ModelCallFailed when the server cannot be reached or refuses."""

    def __init__(self, chat: OpenAIChat) -> None:
        self._chat = chat
        self._connection = chat.connection

    @property
    def model(self) -> str:
        return self._chat.model

    def line(self, call_id: str, request: ChatRequest) -> Line:
        asked = {"custom_id": call_id, "method": "POST", "url": _ENDPOINT, "body": self._chat.batch_body(request)}
        text = json.dumps(asked, ensure_ascii=False)
        return Line(call_id, text, len(text.encode()) + 1)

    def create(self, tag: str, lines: Sequence[Line]) -> str:
        """Send a batch; returns the server's id. `tag`: our own id, by which `find` knows the batch again."""
        data = "".join(f"{line.text}\n" for line in lines).encode()
        client = self._connection.client
        uploaded = self._run(partial(client.files.create, file=(f"{TAG}-{tag}.jsonl", data), purpose="batch"))
        send = partial(
            client.batches.create,
            input_file_id=uploaded.id,
            endpoint=_ENDPOINT,
            completion_window="24h",
            metadata={TAG: tag},
        )
        tries = 0
        while True:
            tries += 1
            try:
                return str(self._run(send, tries=1).id)
            except CallFailed as failure:
                # An answer that was lost on its way leaves a batch behind that will be billed.
                found = self.find(tag) if failure.cause in _PASSING and failure.status_code != 404 else None
                if found is not None:
                    return found
                if failure.cause not in _PASSING or failure.status_code in (400, 404, 422) or tries >= _CREATE_TRIES:
                    raise

    def find(self, tag: str) -> str | None:
        """The server's id of the batch that was sent under our id; None when it has none."""

        async def search() -> str | None:
            async for batch in await self._connection.client.batches.list(limit=100):
                if (batch.metadata or {}).get(TAG) == tag:
                    return str(batch.id)
            return None

        found: str | None = self._run(search)
        return found

    def state(self, batch_id: str) -> BatchState:
        batch: Batch = self._run(partial(self._connection.client.batches.retrieve, batch_id))
        counts, errors = batch.request_counts, batch.errors
        problems = [error.code or "" for error in (errors.data or [] if errors else [])]
        return BatchState(
            batch.status,
            counts.completed + counts.failed if counts else 0,
            counts.total if counts else 0,
            batch.output_file_id,
            batch.error_file_id,
            batch.input_file_id,
            problems[0] if problems and problems[0].isidentifier() else "",
        )

    def cancel(self, batch_id: str) -> None:
        """Ask the server to stop; calls that have ended stay answered and billed."""
        self._run(partial(self._connection.client.batches.cancel, batch_id))

    def rows(self, state: BatchState) -> dict[str, dict[str, Any]]:
        """What the server wrote on each call of a batch that has ended, by its id. What it does not speak of, or not in a readable line, is missing.

        The order of the lines means nothing; of two lines for one call an answer counts more than an error.
        """
        found: dict[str, dict[str, Any]] = {}
        for file in (state.output_file, state.error_file):
            for row in self._rows(file):
                call_id = row.get("custom_id")
                if isinstance(call_id, str) and not (call_id in found and _status(found[call_id]) == 200):
                    found[call_id] = row
        return found

    def clear(self, state: BatchState) -> bool:
        """Delete the files of a batch at the server: they hold texts of documents. Returns whether that is done; a server that deletes none is
        left as it is."""
        done = True
        for file in (state.input_file, state.output_file, state.error_file):
            if file is None:
                continue
            try:
                self._run(partial(self._connection.client.files.delete, file), tries=1)
            except CallFailed as failure:
                done &= failure.cause not in _PASSING or failure.status_code in _NO_SUCH
        return done

    def _rows(self, file: str | None) -> Iterator[dict[str, Any]]:
        if file is None:
            return
        content = self._run(partial(self._connection.client.files.content, file)).content
        for line in content.decode("utf-8", "replace").split("\n"):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                yield row

    def reply(self, request: ChatRequest, row: Mapping[str, Any]) -> ChatReply:
        """How a call ended, from what the server wrote on it."""
        response, error = row.get("response"), row.get("error")
        status = _status(row)
        body = response.get("body") if isinstance(response, dict) else None
        if status == 200 and isinstance(body, dict):
            try:
                return self._chat.batch_reply(request, ChatCompletion.construct(**body))
            except (BadAnswer, AttributeError, TypeError):
                return self._failed("unavailable", "was answered with something that is not a valid reply")
        code = _code(error) or _code(body.get("error") if isinstance(body, dict) else None)
        if code == "batch_expired":
            return self._failed("timeout", f"was not answered within {WINDOW_HOURS} hours")
        if code == "batch_cancelled":
            return self._failed("cancelled", "was cancelled")
        said = ", ".join(part for part in (f"HTTP {status}" if isinstance(status, int) else "", code) if part)
        return self._failed(_cause(status, code), f"failed ({said or 'no reason given'})")

    def _failed(self, cause: CallCause, words: str) -> ChatReply:
        return ChatReply(cause, detail=f"A call to {self.model} in an overnight batch {words}. Resume to ask it again.")

    def _run(self, send: Any, tries: int | None = None) -> Any:
        """The result of one call to the server, repeated after passing faults."""
        return loop.run(self._connection.call(self.model, send, 0, loop.Stop(), tries=tries, watch=False)).value


def _status(row: Mapping[str, Any]) -> Any:
    """The HTTP status of an answer."""
    response = row.get("response")
    return response.get("status_code") if isinstance(response, dict) else None


def _code(error: Any) -> str:
    """The server's error code where it is a plain identifier, which holds neither key nor text."""
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) and code.isidentifier() and len(code) <= 40 else ""


def _cause(status: Any, code: str) -> CallCause:
    if status in (401, 403):
        return "auth"
    if status == 429:
        return "rate_limited"
    return "refused" if code in ("content_filter", "content_policy_violation") else "unavailable"
