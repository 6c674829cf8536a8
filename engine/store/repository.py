"""The store: everything Chunkscope remembers, in one database."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.models import Document
from engine.settings import Settings
from engine.store.batches import BatchRecords
from engine.store.caches import StoredReplyCache, StoredVectorCache
from engine.store.charges import ChargeRecords
from engine.store.database import BUSY_SECONDS, CONNECTIONS
from engine.store.documents import DocumentRecords
from engine.store.experiments import ExperimentRecords
from engine.store.jobs import JobRecords
from engine.store.owners import LOCAL, OwnerRecords
from engine.store.questions import QuestionRecords


class Store(DocumentRecords, QuestionRecords, ExperimentRecords, JobRecords, BatchRecords, OwnerRecords, ChargeRecords):
    """Documents, chunks, index states, caches, question sets, queries, experiments, jobs, batches, owners and charges.

    Every method is one transaction: durable when it returns, without effect when it raises. Safe to use from several threads.
    All raise StoreUnavailable when the database cannot be reached or written.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Callable[[], float] = time.time,
        busy_seconds: float = BUSY_SECONDS,
        connections: int = CONNECTIONS,
    ) -> None:
        """Opens the database at `url` and brings it up to date. Raises BadSetting for an address that is none, StoreUnavailable."""
        super().__init__(url, clock=clock, busy_seconds=busy_seconds, connections=connections)
        self.vector_cache = StoredVectorCache(self)
        self.reply_cache = StoredReplyCache(self)

    def add_document(self, document: Document) -> bool:
        """Store a document, and note that the user owns it; one with the same id is kept as it is. Returns whether it is new."""
        # Whoever adds the same meanwhile must find both the document and its owner, or neither.
        with self.exclusive("owner of document", document.document_id):
            is_new = super().add_document(document)
            is_newly_owned = self.claim("document", document.document_id, existed=not is_new)
        # Whether somebody else has the same file is not told.
        return is_new if self.user == LOCAL else is_newly_owned

    def own_document_id(self, document: Document) -> str:
        """Under which id the user stores a document. Who adds the same file under the same name shares it with who was first; under another
        name it is a document of its own, so that nobody reads how others call their files."""
        content_id = document.document_id
        own = self.own_id("document", content_id)
        if own == content_id or self._exists("document", own):
            return own
        return content_id if DocumentRecords.document_info(self, content_id).name == document.name else own


def open_store(settings: Settings) -> Store:
    """The store that the settings name. For SQLite, DATA_DIR must exist: open the `DataFolder` first."""
    return Store(settings.resolved_database_url, connections=settings.database_connections)
