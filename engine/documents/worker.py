"""The process that parses files: `python -m engine.documents.worker`, started and spoken to by pool.py."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.documents.assemble import assemble
from engine.errors import BadDocument
from engine.processes import begin, receive, send
from engine.settings import Settings

MAX_SERVED = 500
"""Files after which a worker is replaced, so that what parsers leak stays small."""

GRACE = 30.0
"""Seconds after the time limit at which a worker ends itself, for a parent that was killed and cannot end it."""

_MB = 1024 * 1024


def main() -> None:
    """Serves requests until the parent closes the pipe."""
    requests, replies = begin()
    served = 0
    while (header := receive(requests)) is not None and (data := receive(requests)) is not None:
        request = json.loads(header)
        settings = Settings.model_construct(**request["limits"])
        served += 1
        reply: dict[str, Any]
        body: bytes | None = None
        try:
            with _limited(settings):
                document = assemble(data, request["name"], settings)
                body = document.model_dump_json().encode()
            reply = {"outcome": "document"}
        except BadDocument as error:
            reply = {"outcome": "refused", "message": error.message}
        except MemoryError:
            reply = {"outcome": "memory"}
        except Exception as error:
            # The message of the error is left out: it may quote the document.
            frames = "".join(traceback.format_tb(error.__traceback__))
            reply = {"outcome": "bug", "error": type(error).__name__, "frames": frames}
        reply["last"] = served >= MAX_SERVED or _grown(settings)
        send(replies, json.dumps(reply).encode())
        if body is not None:
            send(replies, body)
        if reply["outcome"] == "memory":
            return
        del data, body


@contextlib.contextmanager
def _limited(settings: Settings) -> Iterator[None]:
    """Memory and time limits of one document, kept by the kernel where it can (POSIX; memory on Linux only)."""
    if os.name != "posix":
        yield
        return
    import resource

    signal.setitimer(signal.ITIMER_REAL, settings.parse_timeout + GRACE)
    before = resource.getrlimit(resource.RLIMIT_AS)
    if sys.platform == "linux":
        used = _pages(0) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + settings.parse_memory_mb * _MB, before[1]))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, before)


def _grown(settings: Settings) -> bool:
    """Whether the process holds so much memory after a document that a new one is better."""
    if sys.platform != "linux":
        return False
    import resource

    return _pages(1) * resource.getpagesize() > settings.parse_memory_mb * _MB // 2


def _pages(field: int) -> int:
    """Pages of address space (field 0) or of resident memory (field 1) of this process."""
    return int(Path("/proc/self/statm").read_text().split()[field])


if __name__ == "__main__":
    main()
