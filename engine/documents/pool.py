"""The processes in which files are parsed, from the side of the app: a hostile file can end a worker, never the app.

A worker is `python -m engine.documents.worker`. Both pipes carry frames: eight bytes of length, then that many bytes.
A request is a JSON header and the file; a reply is a JSON header and, for a document that was read, the document as
JSON. JSON rather than pickle, because a process that parses hostile bytes is not to be trusted with code.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from engine.documents.names import shown
from engine.errors import BadDocument, Busy
from engine.models import Document
from engine.settings import Settings

MAX_WORKERS = max(1, min(4, os.cpu_count() or 1))
"""Files parsed at the same time; further calls wait for a free worker."""

START_TIMEOUT = 120.0
"""Seconds a new worker may take until it is ready. Not part of the time of a document."""

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

COMMAND = (sys.executable, "-P", "-m", "engine.documents.worker")
"""Starts a worker. `-P` keeps the current folder, which may hold anything, out of its imports."""

MAX_FRAME = 2**29
"""Bytes of the largest frame; a longer one is not from a worker in order."""
_HEADER_BYTES = 8
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "LD_LIBRARY_PATH")
_log = logging.getLogger(__name__)


class ReaderFailed(BadDocument):
    """A reader met something it does not handle, or its process died: a bug or an attack, logged; the app lives on."""


class WorkerPool:
    """Warm workers, started when needed, replaced when they hang, die or grow. Safe to use from several threads."""

    def __init__(self, size: int = MAX_WORKERS, command: Sequence[str] = COMMAND) -> None:
        """`command` starts a worker: it answers on its standard output what it reads from its standard input."""
        self._command = command
        self._free = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()

    def read(self, data: bytes, name: str, settings: Settings) -> Document:
        """The document of a file. Raises BadDocument, and its subclass ReaderFailed when the worker did not survive."""
        with self._free:
            worker = self._take()
            try:
                document = worker.read(data, name, settings)
            finally:
                self._give_back(worker)
        return document

    def close(self) -> None:
        """Ends every worker. A later `read` starts new ones."""
        with self._lock:
            workers, self._idle, self._all = list(self._all), [], set()
        for worker in workers:
            worker.stop()

    def process_ids(self) -> tuple[int, ...]:
        """Ids of the workers that are running."""
        with self._lock:
            return tuple(worker.pid for worker in self._all if worker.alive)

    def _take(self) -> _Worker:
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.alive:
                    return worker
                self._all.discard(worker)
                worker.stop()
        worker = _Worker(self._command)
        with self._lock:
            self._all.add(worker)
        return worker

    def _give_back(self, worker: _Worker) -> None:
        with self._lock:
            if worker.reusable and worker in self._all:
                self._idle.append(worker)
                return
            self._all.discard(worker)
        worker.stop()


class _Worker:
    """The parent's side of one worker process."""

    def __init__(self, command: Sequence[str]) -> None:
        root = str(Path(__file__).resolve().parents[2])
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        # One thread each: a second one buys nothing here and reserves address space the limit would count.
        environment |= {"PYTHONPATH": root, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=os.name == "posix",
        )
        self.reusable = False
        with self._deadline(START_TIMEOUT):
            ready = receive(self._out)
        if ready is None:
            self.stop()
            raise Busy("The process that reads documents did not start. Nothing was stored. Try again in a moment.")
        self.reusable = True

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def _in(self) -> BinaryIO:
        assert self._process.stdin is not None
        return self._process.stdin  # type: ignore[return-value]

    @property
    def _out(self) -> BinaryIO:
        assert self._process.stdout is not None
        return self._process.stdout  # type: ignore[return-value]

    def read(self, data: bytes, name: str, settings: Settings) -> Document:
        self.reusable = False
        request = {"name": name, "limits": {limit: getattr(settings, limit) for limit in LIMITS}}
        body: bytes | None = None
        with self._deadline(settings.parse_timeout) as late:
            try:
                send(self._in, json.dumps(request).encode())
                send(self._in, data)
                header = receive(self._out)
            except OSError:
                header = None
            reply = _parsed(header)
            if reply.get("outcome") == "document":
                body = receive(self._out)
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
        _log.error("A document worker ended with code %s while reading", self._process.returncode)
        raise ReaderFailed(
            f"{shown(name)} ended the process that was reading it. Nothing was stored and the app is not affected. "
            "Save the file again with the program that made it and upload that copy."
        )

    def stop(self) -> None:
        self.reusable = False
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    @contextlib.contextmanager
    def _deadline(self, seconds: float) -> Iterator[threading.Event]:
        """Kills the process when the block lasts longer; the event says so. A blocked read or write then ends at once."""
        late = threading.Event()

        def end() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield late
        finally:
            timer.cancel()
            timer.join()


def _parsed(header: bytes | None) -> dict[str, Any]:
    """The header of a reply; empty when there is none or it is not what a worker sends."""
    try:
        reply = json.loads(header or b"")
    except ValueError:
        return {}
    return reply if isinstance(reply, dict) else {}


def send(pipe: BinaryIO, payload: bytes) -> None:
    """Writes one frame."""
    pipe.write(len(payload).to_bytes(_HEADER_BYTES, "big"))
    pipe.write(payload)
    pipe.flush()


def receive(pipe: BinaryIO) -> bytes | None:
    """One frame; None when the other side ended."""
    size = pipe.read(_HEADER_BYTES)
    if len(size) < _HEADER_BYTES:
        return None
    length = int.from_bytes(size, "big")
    if length > MAX_FRAME:
        return None
    payload = pipe.read(length)
    return payload if len(payload) == length else None


_pool = WorkerPool()


def pool() -> WorkerPool:
    """The workers of this process."""
    return _pool


def _forget_workers() -> None:
    # A forked child shares the pipes of its parent's workers; writing to them would mix two conversations.
    global _pool
    _pool = WorkerPool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers)
atexit.register(lambda: _pool.close())
