"""The processes in which files are parsed, from the side of the app: a hostile file can end a worker, never the app.

A worker is `python -m engine.documents.worker`. A request is a JSON header and the file; a reply is a JSON header and, for a document that was
read, the document as JSON.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from engine import processes
from engine.documents.names import shown
from engine.errors import BadDocument, Busy
from engine.models import Document
from engine.settings import Settings

LIMITS = (
    "max_upload_mb",
    "max_archive_members",
    "max_unpacked_mb",
    "max_part_mb",
    "max_compression_ratio",
    "max_paragraphs",
    "parse_timeout",
    "parse_memory_mb",
)
"""The settings a worker is told. It gets no others: neither keys nor the environment."""

COMMAND = processes.module("engine.documents.worker")
_log = logging.getLogger(__name__)


class ReaderFailed(BadDocument):
    """A reader met something it does not handle, or its process died: a bug or an attack, logged; the app lives on."""


class WorkerPool:
    """Warm workers, started when needed, replaced when they hang, die or grow. Safe to use from several threads."""

    def __init__(self, size: int = processes.MOST, command: Sequence[str] = COMMAND) -> None:
        """`command` starts a worker: it answers on its standard output what it reads from its standard input."""
        self._pool = processes.Pool(size, lambda: _Worker(command))

    def read(self, data: bytes, name: str, settings: Settings) -> Document:
        """The document of a file. Raises BadDocument, and its subclass ReaderFailed when the worker did not survive; Busy when none starts."""
        try:
            with self._pool.process() as worker:
                return worker.read(data, name, settings)
        except processes.NotStarted as error:
            raise Busy(
                "The process that reads documents did not start. Nothing was stored. Try again in a moment."
            ) from error

    def close(self) -> None:
        """Ends every worker. A later `read` starts new ones."""
        self._pool.close()

    def process_ids(self) -> tuple[int, ...]:
        """Ids of the workers that are running."""
        return self._pool.process_ids()


class _Worker(processes.Process):
    """The parent's side of one worker process."""

    def read(self, data: bytes, name: str, settings: Settings) -> Document:
        self.reusable = False
        request = {"name": name, "limits": {limit: getattr(settings, limit) for limit in LIMITS}}
        body: bytes | None = None
        with self.deadline(settings.parse_timeout) as late:
            try:
                self.send(json.dumps(request).encode())
                self.send(data)
                header = self.receive()
            except OSError:
                header = None
            reply = _parsed(header)
            if reply.get("outcome") == "document":
                body = self.receive()
        if late.is_set():
            raise BadDocument(
                f"{shown(name)} took longer than {settings.parse_timeout:g} seconds to read. Nothing was stored. "
                "Split the file, or raise PARSE_TIMEOUT."
            )
        outcome = reply.get("outcome")
        if outcome == "document" and body is not None:
            with contextlib.suppress(ValidationError):
                document = Document.model_validate_json(body)
                self.reusable = not reply.get("last", True)
                return document
        if outcome == "refused":
            self.reusable = not reply.get("last", True)
            raise BadDocument(str(reply.get("message")))
        if outcome == "memory":
            raise BadDocument(
                f"{shown(name)} needs more than {settings.parse_memory_mb} MB of memory to read. Nothing was stored. "
                "Split the file, or raise PARSE_MEMORY_MB."
            )
        if outcome == "bug":
            self.reusable = not reply.get("last", True)
            _log.error("A document reader failed: %s\n%s", reply.get("error"), reply.get("frames"))
            raise ReaderFailed(
                f"{shown(name)} could not be read: its content is not what the format allows ({reply.get('error')}). "
                "Nothing was stored. Save it again with the program that made it and upload that copy."
            )
        self.stop()
        _log.error("A document worker ended with code %s while reading", self.exit_code)
        raise ReaderFailed(
            f"{shown(name)} ended the process that was reading it. Nothing was stored and the app is not affected. "
            "Save the file again with the program that made it and upload that copy."
        )


def _parsed(header: bytes | None) -> dict[str, Any]:
    """The header of a reply; empty when there is none or it is not what a worker sends."""
    try:
        reply = json.loads(header or b"")
    except ValueError:
        return {}
    return reply if isinstance(reply, dict) else {}


_pool = WorkerPool()


def pool() -> WorkerPool:
    """The workers of this process."""
    return _pool
