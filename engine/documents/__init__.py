"""Documents: one reader per format, each in a worker process, all returning the same record."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from engine import processes, tokens
from engine.documents.limits import Archive, check_upload
from engine.documents.names import display_name, shown
from engine.documents.pool import pool
from engine.documents.readers import reader
from engine.documents.sniff import WORDS, FileType, is_archive
from engine.errors import BadDocument, NotFound, UserError
from engine.models import Document
from engine.settings import Settings

__all__ = [
    "FileRead",
    "close_worker",
    "display_name",
    "is_archive",
    "parser_versions",
    "read_document",
    "read_many",
    "shown",
    "supported_types",
]

_LITTER = re.compile(r"(?:^|/)(?:__MACOSX/|\.|~\$|Thumbs\.db$|desktop\.ini$)", re.IGNORECASE)
"""What operating systems and editors leave in folders and archives: hidden files, resource forks, lock files."""


@dataclass(frozen=True, slots=True)
class FileRead:
    """One file of a folder or an archive: a document, or the error that says why not."""

    path: str
    """Where the file stood, relative to the folder or archive. Data, never opened."""
    data: bytes
    """The original bytes; empty when they could not be taken out."""
    document: Document | None
    error: UserError | None
    seconds: float = 0.0
    """How long reading it took."""


def read_document(data: bytes, name: str, settings: Settings) -> Document:
    """The document in `data`, read in a worker process under the limits of `settings`.

    The type is decided by content. `name` is data: it is shown, and its extension tells Markdown, code and text apart.
    Raises BadDocument: what is wrong with the file, and what to do.
    """
    check_upload(len(data), name, settings)
    document = pool().read(data, name, settings)
    return document.model_copy(update={"token_count": tokens.count(document.text)})


def read_many(source: bytes | Path, name: str, settings: Settings) -> Iterator[FileRead]:
    """Every file of a zip archive (its bytes, or its path) or of a folder, in order of their paths; one bad file does not stop the rest.

    Several are read at once, so that at most a few more are in memory than the one that is yielded.
    Hidden files and the litter of operating systems are passed over. Links are not followed. A single document is
    yielded alone. Raises NotFound when the path names nothing, and BadDocument when the archive itself is refused;
    errors of single files are yielded.
    """
    if isinstance(source, Path):
        if source.is_dir():
            yield from _read_all(_in_folder(source, settings), settings)
            return
        if not source.is_file():
            raise NotFound(f"{shown(name)} was not found. Nothing was stored. Check the path.")
        check_upload(source.stat().st_size, name, settings)
        source = source.read_bytes()
    if not is_archive(source, name):
        yield _read_one(FileRead(display_name(name), source, None, None), settings)
        return
    check_upload(len(source), name, settings)
    yield from _read_all(_in_archive(Archive(source, settings, name)), settings)


def _in_archive(archive: Archive) -> Iterator[FileRead]:
    """The files of an archive, not read yet, and those that cannot be taken out."""
    for member in sorted(archive.members, key=lambda member: member.filename):
        if member.is_dir() or _LITTER.search(member.filename):
            continue
        try:
            data = archive.read(member)
        except UserError as error:
            yield FileRead(member.filename, b"", None, error)
        else:
            yield FileRead(member.filename, data, None, None)


def close_worker() -> None:
    """Ends the worker processes. They start again with the next document."""
    pool().close()


def parser_versions() -> dict[str, str]:
    """Version of each reader by media type. A stored document with another version was read by an older parser."""
    readers = (reader(kind) for kind in FileType)
    return {each.media_type: each.version for each in readers}


def supported_types() -> dict[str, str]:
    """Extension to what it stands for, such as `.docx`: `a Word document`. For upload forms and help texts."""
    return {suffix: words.noun for words in WORDS.values() for suffix in words.extensions}


def _in_folder(folder: Path, settings: Settings) -> Iterator[FileRead]:
    """The files of a folder, not read yet, and those that cannot be opened."""
    for root, folders, files in os.walk(folder, followlinks=False):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for file in sorted(files):
            path = Path(root) / file
            relative = path.relative_to(folder).as_posix()
            if _LITTER.search(relative) or path.is_symlink() or not path.is_file():
                continue
            try:
                check_upload(path.stat().st_size, relative, settings)
                data = path.read_bytes()
            except UserError as error:
                yield FileRead(relative, b"", None, error)
            except OSError as error:
                reason = error.strerror or "it cannot be opened"
                yield FileRead(
                    relative, b"", None, BadDocument(f"{shown(relative)} was not read: {reason}. Nothing was stored.")
                )
            else:
                yield FileRead(relative, data, None, None)


def _read_all(files: Iterator[FileRead], settings: Settings) -> Iterator[FileRead]:
    """Each file read, in the same order, as many at once as there are processes for it."""
    ahead: deque[Future[FileRead]] = deque()
    with ThreadPoolExecutor(processes.MOST, "read") as threads:
        try:
            for file in files:
                # What is logged meanwhile belongs to the request that asked.
                ahead.append(threads.submit(copy_context().run, _read_one, file, settings))
                if len(ahead) > processes.MOST:
                    yield _dated(ahead.popleft().result())
            while ahead:
                yield _dated(ahead.popleft().result())
        finally:
            for future in ahead:
                future.cancel()


def _dated(read: FileRead) -> FileRead:
    """As of now: lists of documents are in the order of their dates, which is that of the files and not how fast each was read."""
    if read.document is None:
        return read
    return replace(read, document=read.document.model_copy(update={"created_at": datetime.now(UTC)}))


def _read_one(file: FileRead, settings: Settings) -> FileRead:
    if file.error is not None:
        return file
    began = time.perf_counter()
    try:
        document = read_document(file.data, file.path, settings)
    except UserError as error:
        return replace(file, error=error)
    return replace(file, document=document, seconds=time.perf_counter() - began)
