"""The process that cuts: `python -m engine.cutting.worker`, started and spoken to by cutter.py.

A request is a JSON header and a body: a spec to cut under, or a chunk set to measure. The reply is one word: `done`, and what was asked for;
`failed` where it cannot be done or does not fit into a frame; or `unknown`, which asks for the document, and then the request goes on.
"""

from __future__ import annotations

import json
import os
import select
from typing import IO

from engine.cutting.cutter import IDLE_SECONDS
from engine.metrics import chunk_quality
from engine.models import ChunkSet, Document, StrategySpec
from engine.processes import MAX_FRAME, begin, receive, send
from engine.providers.base import Models
from engine.strategies import registry
from engine.strategies.source import Source

KEPT_CHARACTERS = 8_000_000
"""Most of all documents that a worker keeps; a longer one is kept alone."""

NICE = 10
"""How far a worker stands back where a core is wanted by the app as well, which draws pages."""


class Sources:
    """The documents that were used last."""

    def __init__(self) -> None:
        self._kept: dict[str, Source] = {}

    def get(self, key: str) -> Source | None:
        source = self._kept.pop(key, None)
        if source is not None:
            self._kept[key] = source
        return source

    def keep(self, key: str, source: Source) -> Source:
        self._kept[key] = source
        while len(self._kept) > 1 and sum(len(each.text) for each in self._kept.values()) > KEPT_CHARACTERS:
            del self._kept[next(iter(self._kept))]
        return source


def carry_out(task: str, source: Source, body: bytes) -> bytes:
    """`cut`: the body is a spec, the result a chunk set; `measure`: the body is a chunk set, the result its measures. All are JSON."""
    if task == "cut":
        spec = StrategySpec.model_validate_json(body)
        return registry.cut(source, spec, Models()).model_dump_json().encode()
    return json.dumps(chunk_quality.measure(ChunkSet.model_validate_json(body), source)).encode()


def main() -> None:
    """Serves requests until the parent closes the pipe, or none comes for long."""
    if hasattr(os, "nice"):
        os.nice(NICE)
    requests, replies = begin()
    sources = Sources()
    while _comes(requests) and (header := receive(requests)) is not None and (body := receive(requests)) is not None:
        request = json.loads(header)
        source, document = sources.get(request["document"]), b""
        if source is None:
            send(replies, b"unknown")
            received = receive(requests)
            if received is None:
                return
            document = received
        try:
            if source is None:
                source = sources.keep(request["document"], Source(Document.model_validate_json(document)))
            done = carry_out(request["task"], source, body)
        except Exception:
            # The app does it again itself, and meets the same error where it can be told.
            done = b""
        if done and len(done) <= MAX_FRAME:
            send(replies, b"done")
            send(replies, done)
        else:
            send(replies, b"failed")
        del source, document, body, done


def _comes(requests: IO[bytes]) -> bool:
    """Whether a request comes in time. Where pipes cannot be waited for (Windows), the worker stays until the app ends it."""
    return os.name != "posix" or bool(select.select([requests], [], [], IDLE_SECONDS)[0])


if __name__ == "__main__":
    main()
