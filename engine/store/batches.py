"""Batches that a provider answers overnight. Everything is written before it is sent, so that a killed process pays for nothing twice."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import and_, delete, or_, select, update

from engine.store.database import Database, slices
from engine.store.records import Batch, BatchCall
from engine.store.schema import batch_calls, batches, experiments

ANSWERED = "answered"
"""State of a batch whose replies are stored and of which the provider may still hold files."""
READ = "read"
"""State of one of which it holds none any more."""
FETCHED = "fetched"
"""State of a batch whose answers are stored as the provider wrote them, for a run that knows what was asked to read them; it may still
hold files."""
KEPT = "kept"
"""State of one of which it holds none any more."""
CLEARED = (READ, KEPT)
STORED = (ANSWERED, FETCHED, *CLEARED)


class BatchRecords(Database):
    def begin_batch(self, batch: Batch, calls: Sequence[BatchCall]) -> None:
        """Note a batch that is about to be sent, with its calls, in place of earlier attempts at them."""
        table = batch_calls
        with self.write() as connection:
            connection.execute(self.insert(batches).values({**batch.model_dump(), "created_at": self.now()}))
            for part in slices([call.key for call in calls]):
                mine = and_(table.c.experiment_id == batch.experiment_id, table.c.key.in_(part))
                connection.execute(delete(table).where(mine))
            rows = [{**call.model_dump(), "experiment_id": batch.experiment_id} for call in calls]
            if rows:
                connection.execute(self.insert(table), rows)

    def set_batch(self, batch_id: str, state: str, provider_id: str | None = None) -> None:
        """Note how far a batch is, and the provider's id where it has just been given."""
        values = {"state": state} if provider_id is None else {"state": state, "provider_id": provider_id}
        with self.write() as connection:
            connection.execute(update(batches).where(batches.c.batch_id == batch_id).values(values))

    def fetch_batch(self, batch_id: str, rows: Mapping[str, str]) -> None:
        """Store the answers of a batch as the provider wrote them, by the keys of its calls, unless they were read meanwhile."""
        table = batch_calls
        with self.write() as connection:
            unread = and_(batches.c.batch_id == batch_id, batches.c.state.not_in(STORED))
            if connection.execute(update(batches).where(unread).values(state=FETCHED)).rowcount == 0:
                return
            for key, row in rows.items():
                connection.execute(
                    update(table).where(table.c.batch_id == batch_id, table.c.key == key).values(reply=row)
                )

    def end_batch(self, batch_id: str, calls: Sequence[BatchCall]) -> None:
        """Note that the replies of a batch are stored, and how each of its calls ended."""
        table = batch_calls
        with self.write() as connection:
            for call in calls:
                values = {"status": call.status, "cost_usd": call.cost_usd, "reply": call.reply}
                mine = and_(table.c.batch_id == batch_id, table.c.key == call.key)
                connection.execute(update(table).where(mine).values(values))
            connection.execute(update(batches).where(batches.c.batch_id == batch_id).values(state=ANSWERED))

    def clear_batch(self, batch_id: str) -> None:
        """Note that the provider holds no file any more of a batch whose answers are stored."""
        with self.write() as connection:
            for before, after in ((ANSWERED, READ), (FETCHED, KEPT)):
                mine = and_(batches.c.batch_id == batch_id, batches.c.state == before)
                connection.execute(update(batches).where(mine).values(state=after))

    def drop_batch(self, batch_id: str) -> None:
        """Forget a batch that was never answered, and its calls, so that they are asked again."""
        with self.write() as connection:
            connection.execute(delete(batch_calls).where(batch_calls.c.batch_id == batch_id))
            connection.execute(delete(batches).where(batches.c.batch_id == batch_id))

    def batches(self, experiment_id: str) -> list[Batch]:
        """The batches of an experiment, oldest first."""
        wanted = select(batches).where(batches.c.experiment_id == experiment_id)
        with self.read() as connection:
            rows = connection.execute(wanted.order_by(batches.c.created_at, batches.c.batch_id)).mappings()
            return [Batch.model_validate({name: row[name] for name in Batch.model_fields}) for row in rows]

    def leftover_batches(self) -> list[tuple[Batch, bool]]:
        """Batches a provider may hold files of although nobody is carrying out their experiment, oldest first, and whether it was deleted."""
        status = experiments.c.status
        whose = batches.outerjoin(experiments, experiments.c.experiment_id == batches.c.experiment_id)
        wanted = select(batches, status).select_from(whose).where(batches.c.state.not_in(CLEARED))
        wanted = wanted.where(or_(status.is_(None), status != "running"))
        with self.read() as connection:
            rows = connection.execute(wanted.order_by(batches.c.created_at, batches.c.batch_id)).mappings().all()
        return [
            (Batch.model_validate({name: row[name] for name in Batch.model_fields}), row["status"] is None)
            for row in rows
        ]

    def batch_calls(self, experiment_id: str) -> list[BatchCall]:
        """The calls of an experiment's batches, without their replies."""
        table = batch_calls
        wanted = select(
            table.c.key, table.c.batch_id, table.c.payer, table.c.attempts, table.c.status, table.c.cost_usd
        )
        with self.read() as connection:
            rows = connection.execute(wanted.where(table.c.experiment_id == experiment_id)).mappings()
            return [BatchCall.model_validate(dict(row)) for row in rows]

    def batch_reply(self, experiment_id: str, key: str) -> str | None:
        """The reply to a call, as `end_batch` was given it."""
        table = batch_calls
        mine = and_(table.c.experiment_id == experiment_id, table.c.key == key)
        with self.read() as connection:
            found: str | None = connection.execute(select(table.c.reply).where(mine)).scalar()
        return found

    def forget_batch_calls(self, experiment_id: str, *, but: Collection[str] = ()) -> None:
        """Forget the calls of an experiment, except those with a status in `but`. What was answered is in the reply cache."""
        table = batch_calls
        gone = and_(table.c.experiment_id == experiment_id, table.c.status.not_in(sorted(but)))
        with self.write() as connection:
            connection.execute(delete(table).where(gone))
