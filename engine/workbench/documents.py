"""The Workbench's documents: read, kept, shown, deleted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from engine import documents as reading
from engine.index.base import collection_name
from engine.models import Document, DocumentInfo
from engine.strategies.source import Source
from engine.tokens import TokenMap
from engine.workbench.parts import Parts

OPEN_DOCUMENTS = 16
"""Documents kept in memory with their tokens and sentences."""


@dataclass(frozen=True, slots=True)
class Added:
    """One uploaded file that is now a document."""

    document: DocumentInfo
    existed: bool
    """Whether the same bytes were there already."""


@dataclass(frozen=True, slots=True)
class FileAdded:
    """What became of one file of a folder or archive."""

    path: str
    """Relative to the folder or archive."""
    added: Added | None
    error: str | None
    """Why nothing was stored, in words."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """What deleting a document takes with it."""

    document: DocumentInfo
    collections: tuple[str, ...]
    """Collections that hold chunks of it."""
    chunks: int
    experiments: int
    """Experiments that used it; they stay readable."""


class Documents(Parts):
    """Documents of a Workbench."""

    def add_document(self, data: bytes, name: str) -> Added:
        """Read and store one file. Raises BadDocument; nothing is stored then."""
        began = time.perf_counter()
        document = reading.read_document(data, name, self.settings)
        return self._keep(document, data, time.perf_counter() - began)

    def add_files(self, source: Path | bytes, name: str) -> Iterator[FileAdded]:
        """Read and store a file, or every file of a folder or zip archive; one bad file does not stop the rest.

        Raises NotFound when the path names nothing, BadDocument when an archive itself is refused.
        """
        for read in reading.read_many(source, name, self.settings):
            path = reading.display_name(read.path)
            if read.document is None:
                yield FileAdded(path, None, str(read.error))
            else:
                yield FileAdded(path, self._keep(read.document, read.data, read.seconds), None)

    def _keep(self, document: Document, data: bytes, parse_seconds: float) -> Added:
        with self._one_at_a_time(document.sha256):
            own_id = self._store.own_document_id(document)
            document = document.model_copy(update={"document_id": own_id, "parse_seconds": parse_seconds})
            self._folder.add_original(data)
            is_new = self._store.add_document(document)
        return Added(document.info, existed=not is_new)

    def documents(self) -> list[DocumentInfo]:
        """All documents, newest first."""
        return self._store.documents()

    def document(self, document_id: str) -> Document:
        """Raises NotFound."""
        return self._source(document_id).document

    def tokens(self, document_id: str) -> TokenMap:
        """The tokens of a document's text, counted once for all strategies. Raises NotFound."""
        return self._source(document_id).tokens

    def original(self, document_id: str) -> bytes:
        """The uploaded bytes. Raises NotFound."""
        return self._folder.original(self._store.document_info(document_id).sha256)

    def deletion(self, document_id: str) -> Deletion:
        """What `delete_document` would remove. Raises NotFound."""
        info = self._store.document_info(document_id)
        states = self._store.index_states(document_id)
        used = [e for e in self._store.experiments() if info.name in e.document_names]
        return Deletion(
            info,
            tuple(sorted({collection_name(state.strategy_name) for state in states})),
            sum(state.points for state in states),
            len(used),
        )

    def delete_document(self, document_id: str) -> Deletion:
        """Remove a document, its chunks in every collection, and its original. Experiments stay. Raises NotFound."""
        deletion = self.deletion(document_id)
        with self._one_at_a_time(deletion.document.sha256):
            for state in self._store.delete_document(document_id):
                self._index.delete(collection_name(state.strategy_name), document_id=document_id)
            self._store.forget_index(document_id=document_id)
            if not self._store.document_ids_of(deletion.document.sha256):
                self._folder.remove_original(deletion.document.sha256)
        with self._lock:
            self._sources.pop(document_id, None)
        return deletion

    def _one_at_a_time(self, sha256: str) -> AbstractContextManager[None]:
        """While what an original gave is added or removed, in whichever process: else what one user adds would go with what another deletes."""
        return self._store.exclusive("original", sha256)

    def _source(self, document_id: str) -> Source:
        self._store.require_readable("document", document_id)
        with self._lock:
            source = self._sources.get(document_id)
            if source is not None:
                self._sources.move_to_end(document_id)
                return source
        source = Source(self._store.document(document_id))
        with self._lock:
            source = self._sources.setdefault(document_id, source)
            while len(self._sources) > OPEN_DOCUMENTS:
                self._sources.popitem(last=False)
            return source
