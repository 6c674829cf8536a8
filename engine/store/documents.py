"""Documents, their chunks, and what the vector index holds of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, and_, bindparam, delete, insert, select, true, update

from engine.errors import NotFound
from engine.models import Chunk, ChunkSet, Document, DocumentInfo, StrategySpec
from engine.store.database import Database, distinct, moment, seconds, slices
from engine.store.records import IndexState
from engine.store.schema import chunk_sets, chunks, documents, index_states


class DocumentRecords(Database):
    def add_document(self, document: Document) -> bool:
        """Store a document; one with the same id is kept as it is. Returns whether it is new."""
        values = {
            "document_id": document.document_id,
            "sha256": document.sha256,
            "created_at": seconds(document.created_at),
            "info": document.info.model_dump_json(),
            "body": document.model_dump_json(),
        }
        added = self.insert(documents).values(values).on_conflict_do_nothing().returning(documents.c.document_id)
        with self.write() as connection:
            return connection.execute(added).first() is not None

    def document(self, document_id: str) -> Document:
        """Raises NotFound."""
        return Document.model_validate_json(self._document_column(document_id, "body"))

    def document_info(self, document_id: str) -> DocumentInfo:
        """Raises NotFound."""
        return DocumentInfo.model_validate_json(self._document_column(document_id, "info"))

    def documents(self) -> list[DocumentInfo]:
        """All documents, newest first."""
        order = (documents.c.created_at.desc(), documents.c.document_id)
        with self.read() as connection:
            rows = connection.execute(select(documents.c.info).order_by(*order)).scalars().all()
        return [DocumentInfo.model_validate_json(row) for row in rows]

    def document_ids_of(self, sha256: str) -> list[str]:
        """The documents made from one original: one per parser version."""
        with self.read() as connection:
            found = (
                select(documents.c.document_id).where(documents.c.sha256 == sha256).order_by(documents.c.document_id)
            )
            return list(connection.execute(found).scalars())

    def originals(self) -> set[str]:
        """The sha256 of every original a document was made from; other files in the folder of originals are left-overs."""
        with self.read() as connection:
            return set(connection.execute(select(documents.c.sha256).distinct()).scalars())

    def delete_document(self, document_id: str) -> list[IndexState]:
        """Remove a document and its chunk sets. Experiments and queries keep their own copies of what they showed.

        Returns what the vector index still holds of it. Until `forget_index` says that the points are removed,
        `unfinished_index` lists it, so a process killed in between leaves nothing behind. Raises NotFound.
        """
        with self.write() as connection:
            if connection.execute(delete(documents).where(documents.c.document_id == document_id)).rowcount == 0:
                raise _no_document(document_id)
            return self._invalidate_index(connection, index_states.c.document_id == document_id)

    def save_chunk_set(self, chunk_set: ChunkSet, made_with: str = "") -> None:
        """Store all chunks of one document under one spec, in place of those there were.

        `made_with` names the models the chunks depend on; `chunk_set` finds them only under the same name.
        Where other chunks were there before, their points in the index count as unfinished. Raises NotFound without the document.
        """
        key = {"document_id": chunk_set.document_id, "spec_id": chunk_set.spec.spec_id}
        header = {
            "made_with": made_with,
            "chunk_count": len(chunk_set.chunks),
            "body": chunk_set.model_copy(update={"chunks": ()}).model_dump_json(),
        }
        rows = [
            {**key, "chunk_index": place, "chunk_id": chunk.chunk_id, "body": chunk.model_dump_json()}
            for place, chunk in enumerate(chunk_set.chunks)
        ]
        of_set = _set_is(chunks, **key)
        with self.write() as connection:
            known = select(documents.c.document_id).where(documents.c.document_id == chunk_set.document_id)
            if connection.execute(known).first() is None:
                raise _no_document(chunk_set.document_id)
            before = connection.execute(select(chunks.c.body).where(of_set).order_by(chunks.c.chunk_index)).scalars()
            if list(before) != [row["body"] for row in rows]:
                self._invalidate_index(connection, _set_is(index_states, **key))
            upsert = self.insert(chunk_sets).values(**key, **header)
            connection.execute(
                upsert.on_conflict_do_update(index_elements=["document_id", "spec_id"], set_=header),
            )
            connection.execute(delete(chunks).where(of_set))
            if rows:
                connection.execute(insert(chunks), rows)

    def update_chunks(self, chunk_set: ChunkSet) -> None:
        """Store what was learned about chunks after they were cut, such as summaries; chunks that are not stored are passed over.

        Nothing that is searched may have changed: the index is left as it is.
        """
        key = {"document_id": chunk_set.document_id, "spec_id": chunk_set.spec.spec_id}
        changed = update(chunks).where(_set_is(chunks, **key), chunks.c.chunk_id == bindparam("of"))
        rows = [{"of": chunk.chunk_id, "as_it_is": chunk.model_dump_json()} for chunk in chunk_set.chunks]
        if rows:
            with self.write() as connection:
                connection.execute(changed.values(body=bindparam("as_it_is")), rows)

    def chunk_set(self, document_id: str, spec: StrategySpec, made_with: str = "") -> ChunkSet | None:
        """The stored chunks of a document under a spec; None when there are none, or they were made with other models."""
        key = {"document_id": document_id, "spec_id": spec.spec_id}
        with self.read() as connection:
            wanted = and_(_set_is(chunk_sets, **key), chunk_sets.c.made_with == made_with)
            header = connection.execute(select(chunk_sets.c.body).where(wanted)).scalar()
            if header is None:
                return None
            bodies = select(chunks.c.body).where(_set_is(chunks, **key)).order_by(chunks.c.chunk_index)
            found = tuple(Chunk.model_validate_json(body) for body in connection.execute(bodies).scalars())
        return ChunkSet.model_validate_json(header).model_copy(update={"chunks": found, "spec": spec})

    def chunks(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        """Chunks by id; an id that names nothing is left out."""
        found: dict[str, Chunk] = {}
        with self.read() as connection:
            for part in slices(distinct(chunk_ids)):
                rows = connection.execute(select(chunks.c.chunk_id, chunks.c.body).where(chunks.c.chunk_id.in_(part)))
                found.update((row.chunk_id, Chunk.model_validate_json(row.body)) for row in rows)
        return found

    def begin_index(self, document_id: str, spec: StrategySpec, model: str) -> None:
        """Note that points of a chunk set are about to be written. Until `finish_index` they count as unfinished."""
        self._put_index_state(document_id, spec, model, ready=False, points=0)

    def finish_index(
        self,
        document_id: str,
        spec: StrategySpec,
        model: str,
        points: int,
        seconds: Mapping[str, float] | None = None,
    ) -> None:
        """Note that all points of a chunk set are durable in the index, and how long it took."""
        self._put_index_state(document_id, spec, model, ready=True, points=points, seconds=seconds or {})

    def index_state(self, document_id: str, spec_id: str, model: str) -> IndexState | None:
        found = self._index_states(and_(_set_is(index_states, document_id, spec_id), index_states.c.model == model))
        return found[0] if found else None

    def ready_documents(self, document_ids: Sequence[str], spec_id: str, model: str) -> set[str]:
        """Which of the documents are whole in the index under one spec and model."""
        ready: set[str] = set()
        for part in slices(distinct(document_ids)):
            wanted = and_(index_states.c.document_id.in_(part), index_states.c.spec_id == spec_id)
            states = self._index_states(and_(wanted, index_states.c.model == model, index_states.c.ready))
            ready.update(state.document_id for state in states)
        return ready

    def index_states(self, document_id: str | None = None) -> list[IndexState]:
        """What the index holds, of one document or of all, by document, spec and model."""
        return self._index_states(true() if document_id is None else index_states.c.document_id == document_id)

    def unfinished_index(self, idle_seconds: float = 0.0) -> list[IndexState]:
        """What was begun and not finished, and not touched for `idle_seconds`: remove its points, then `forget_index`.

        A process that owns its data folder alone asks with 0 when it starts; where several share a server, longer than any write takes.
        """
        quiet = index_states.c.updated_at <= self.now() - idle_seconds
        return self._index_states(and_(index_states.c.ready.is_(False), quiet))

    def forget_index(
        self,
        document_id: str | None = None,
        spec_id: str | None = None,
        model: str | None = None,
        strategy_name: str | None = None,
    ) -> int:
        """Forget what matches all given values (with none: everything), after its points were removed; returns how many."""
        given = {"document_id": document_id, "spec_id": spec_id, "model": model, "strategy_name": strategy_name}
        wanted = [index_states.c[name] == value for name, value in given.items() if value is not None]
        with self.write() as connection:
            return connection.execute(delete(index_states).where(true(), *wanted)).rowcount

    def _document_column(self, document_id: str, name: str) -> str:
        with self.read() as connection:
            wanted = select(documents.c[name]).where(documents.c.document_id == document_id)
            found: str | None = connection.execute(wanted).scalar()
        if found is None:
            raise _no_document(document_id)
        return found

    def _put_index_state(
        self,
        document_id: str,
        spec: StrategySpec,
        model: str,
        ready: bool,
        points: int,
        seconds: Mapping[str, float] | None = None,
    ) -> None:
        key = {"document_id": document_id, "spec_id": spec.spec_id, "model": model}
        state = {
            "strategy_name": spec.strategy_name,
            "ready": ready,
            "points": points,
            "updated_at": self.now(),
            "seconds": json.dumps(dict(seconds or {})),
        }
        upsert = self.insert(index_states).values(**key, **state)
        with self.write() as connection:
            connection.execute(upsert.on_conflict_do_update(index_elements=list(key), set_=state))

    def _invalidate_index(self, connection: Connection, which: ColumnElement[bool]) -> list[IndexState]:
        connection.execute(update(index_states).where(which).values(ready=False, updated_at=self.now()))
        return _read_index_states(connection, which)

    def _index_states(self, which: ColumnElement[bool]) -> list[IndexState]:
        with self.read() as connection:
            return _read_index_states(connection, which)


def _read_index_states(connection: Connection, which: ColumnElement[bool]) -> list[IndexState]:
    order = (index_states.c.document_id, index_states.c.spec_id, index_states.c.model)
    return [_index_state(row) for row in connection.execute(select(index_states).where(which).order_by(*order))]


def _index_state(row: Row[Any]) -> IndexState:
    values = dict(row._mapping)
    changed = {"updated_at": moment(values["updated_at"]), "seconds": json.loads(values["seconds"])}
    return IndexState(**{**values, **changed})


def _set_is(table: Table, document_id: str, spec_id: str) -> ColumnElement[bool]:
    return and_(table.c.document_id == document_id, table.c.spec_id == spec_id)


def _no_document(document_id: str) -> NotFound:
    return NotFound(
        f"There is no document {document_id}. It may have been deleted; the list of documents shows what there is."
    )
