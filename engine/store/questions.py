"""Question sets, and the queries that were asked."""

from __future__ import annotations

from functools import lru_cache

from sqlalchemy import delete, select

from engine.errors import NotFound
from engine.records import Query, QuestionSet
from engine.store.database import Database, column, moment, pack, seconds, unpack
from engine.store.records import QuestionSetInfo
from engine.store.schema import queries, question_sets


@lru_cache(maxsize=8)
def _read(body: str) -> QuestionSet:
    """Pages read the same sets in every run. Nobody can change a record, so that all may have the same one."""
    return QuestionSet.model_validate_json(body)


class QuestionRecords(Database):
    def save_question_set(self, question_set: QuestionSet) -> None:
        """Store a question set in place of the one with the same id."""
        values = {
            "name": column(question_set.name),
            "created_at": seconds(question_set.created_at),
            "question_count": len(question_set.questions),
            "body": question_set.model_dump_json(),
        }
        upsert = self.insert(question_sets).values(question_set_id=question_set.question_set_id, **values)
        with self.write() as connection:
            connection.execute(upsert.on_conflict_do_update(index_elements=["question_set_id"], set_=values))

    def question_set(self, question_set_id: str) -> QuestionSet:
        """Raises NotFound."""
        wanted = select(question_sets.c.body).where(question_sets.c.question_set_id == question_set_id)
        with self.read() as connection:
            found = connection.execute(wanted).scalar()
        if found is None:
            raise _no_question_set(question_set_id)
        return _read(found)

    def question_sets(self) -> list[QuestionSetInfo]:
        """All question sets, newest first, without their questions."""
        table = question_sets
        columns = (table.c.question_set_id, table.c.name, table.c.question_count, table.c.created_at)
        with self.read() as connection:
            rows = connection.execute(select(*columns).order_by(table.c.created_at.desc(), table.c.question_set_id))
            return [
                QuestionSetInfo(question_set_id=key, name=name, question_count=count, created_at=moment(created))
                for key, name, count, created in rows
            ]

    def delete_question_set(self, question_set_id: str) -> None:
        """Experiments keep the questions they asked. Raises NotFound."""
        gone = delete(question_sets).where(question_sets.c.question_set_id == question_set_id)
        with self.write() as connection:
            if connection.execute(gone).rowcount == 0:
                raise _no_question_set(question_set_id)

    def save_query(self, query: Query) -> None:
        """Store a query in place of the one with the same id."""
        values = {
            "request_id": query.request_id,
            "created_at": seconds(query.created_at),
            "packed": pack(query.model_dump_json()),
        }
        upsert = self.insert(queries).values(query_id=query.query_id, **values)
        with self.write() as connection:
            connection.execute(upsert.on_conflict_do_update(index_elements=["query_id"], set_=values))

    def query(self, query_id: str) -> Query:
        """Raises NotFound."""
        with self.read() as connection:
            found = connection.execute(select(queries.c.packed).where(queries.c.query_id == query_id)).scalar()
        if found is None:
            raise NotFound(f"There is no query {query_id}.")
        return Query.model_validate_json(unpack(found))

    def recent_queries(self, limit: int = 50, request_id: str | None = None) -> list[Query]:
        """The newest queries, newest first; with `request_id`, those of one request (one question to several strategies)."""
        wanted = select(queries.c.packed).order_by(queries.c.created_at.desc(), queries.c.query_id).limit(limit)
        if request_id is not None:
            wanted = wanted.where(queries.c.request_id == request_id)
        with self.read() as connection:
            rows = connection.execute(wanted).scalars().all()
        return [Query.model_validate_json(unpack(row)) for row in rows]


def _no_question_set(question_set_id: str) -> NotFound:
    return NotFound(f"There is no question set {question_set_id}. It may have been deleted.")
