"""The queue of background work. A job is taken under a lease; a holder that stops renewing it counts as dead, and the job can be taken again."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, and_, func, or_, select, update

from engine.errors import NotFound
from engine.ids import new_id
from engine.store.database import Database, column, moment
from engine.store.records import Job, JobState
from engine.store.schema import experiments, jobs

LEASE_SECONDS = 60.0
"""How long a holder may stay silent, by default."""

FOREGROUND = "foreground"
"""Kind of a job that whoever made it carries out at once and waits for; nobody else takes it when its holder dies."""


class NewJob(NamedTuple):
    """A job to be made."""

    kind: str
    owner: str = ""
    holder: str | None = None
    """Who carries it out from the start; None: it waits in the queue."""
    lease_seconds: float = LEASE_SECONDS


def job_values(new: NewJob, payload: Mapping[str, Any], job_id: str, now: float) -> dict[str, Any]:
    """The row of a new job."""
    is_held = new.holder is not None
    return {
        "job_id": job_id,
        "kind": new.kind,
        "state": "running" if is_held else "queued",
        "owner": new.owner,
        "payload": json.dumps(dict(payload)),
        "progress": "{}",
        "error": None,
        "cancel_requested": False,
        "holder": new.holder,
        "lease_until": now + new.lease_seconds if is_held else None,
        "attempts": int(is_held),
        "created_at": now,
        "updated_at": now,
    }


class JobRecords(Database):
    def add_job(self, kind: str, payload: Mapping[str, Any], owner: str = "", job_id: str | None = None) -> Job:
        """Put a job at the end of the queue."""
        values = job_values(NewJob(kind, owner), payload, job_id or new_id(), self.now())
        with self.write() as connection:
            connection.execute(self.insert(jobs).values(values))
        return _job(values)

    def take_job(self, holder: str, kinds: Collection[str], lease_seconds: float = LEASE_SECONDS) -> Job | None:
        """The oldest job that waits, or whose holder is dead, now held by `holder`; None when there is none.

        No two processes get the same job: PostgreSQL skips rows another one is taking, SQLite lets one writer in at a time.
        """
        now = self.now()
        dead = and_(jobs.c.state == "running", jobs.c.lease_until < now)
        free = or_(jobs.c.state == "queued", dead)
        oldest = (
            select(jobs.c.job_id)
            .where(free, jobs.c.kind.in_(sorted(kinds)))
            .order_by(jobs.c.created_at, jobs.c.job_id)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        with self.write() as connection:
            job_id = connection.execute(oldest).scalar()
            if job_id is None:
                return None
            values = {
                "state": "running",
                "holder": holder,
                "lease_until": now + lease_seconds,
                "attempts": jobs.c.attempts + 1,
                "updated_at": now,
            }
            connection.execute(update(jobs).where(jobs.c.job_id == job_id).values(values))
            return _read(connection, job_id)

    def renew_job(
        self,
        job_id: str,
        holder: str,
        progress: Mapping[str, Any] | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> Job | None:
        """Keep the lease and, where given, note the progress. None: the job is no longer the holder's, who must stop.

        The job that comes back says whether someone asked to cancel it.
        """
        values: dict[str, Any] = {"lease_until": self.now() + lease_seconds, "updated_at": self.now()}
        if progress is not None:
            values["progress"] = json.dumps(dict(progress))
        return self._as_holder(job_id, holder, values)

    def end_job(
        self,
        job_id: str,
        holder: str,
        state: Literal["finished", "failed", "cancelled"],
        error: str | None = None,
        progress: Mapping[str, Any] | None = None,
    ) -> Job | None:
        """Note how a job ended. None: the job is no longer the holder's, and nothing was changed."""
        values: dict[str, Any] = {
            "state": state,
            "error": None if error is None else column(error),
            "lease_until": None,
            "updated_at": self.now(),
        }
        if progress is not None:
            values["progress"] = json.dumps(dict(progress))
        return self._as_holder(job_id, holder, values)

    def release_job(self, job_id: str, holder: str) -> bool:
        """Put a running job back into the queue, for a holder that stops; the next one goes on at once. False: it was no longer the holder's."""
        return self._as_holder(job_id, holder, {**_WAITING, "updated_at": self.now()}) is not None

    def cancel_job(self, job_id: str) -> Job:
        """Cancel a job that waits at once, and its experiment with it; ask the holder of one that runs. An ended job stays as it is.

        Raises NotFound.
        """
        now = self.now()
        with self.write() as connection:
            waiting = and_(jobs.c.job_id == job_id, jobs.c.state == "queued")
            cancelled = update(jobs).where(waiting).values(state="cancelled", updated_at=now)
            if connection.execute(cancelled).rowcount:
                # Nobody else will say that it ended.
                of_job = and_(experiments.c.experiment_id == job_id, experiments.c.status == "running")
                connection.execute(update(experiments).where(of_job).values(status="cancelled", finished_at=now))
            running = and_(jobs.c.job_id == job_id, jobs.c.state == "running")
            connection.execute(update(jobs).where(running).values(cancel_requested=True))
            return _require(connection, job_id)

    def release_dead_jobs(self, *, all_running: bool = False) -> list[str]:
        """Put jobs of dead holders back into the queue, except foreground ones; returns their ids. One that was to be cancelled still is: its next holder sees it.

        `all_running`: every running job, for a process that has just locked its data folder and so knows that no other is alive.
        """
        dead = and_(jobs.c.state == "running", jobs.c.kind != FOREGROUND)
        if not all_running:
            dead = and_(dead, jobs.c.lease_until < self.now())
        with self.write() as connection:
            found = select(jobs.c.job_id).where(dead).order_by(jobs.c.created_at, jobs.c.job_id)
            ids = list(connection.execute(found.with_for_update(skip_locked=True)).scalars())
            connection.execute(update(jobs).where(jobs.c.job_id.in_(ids)).values(**_WAITING, updated_at=self.now()))
        return ids

    def job(self, job_id: str) -> Job:
        """Raises NotFound."""
        with self.read() as connection:
            return _require(connection, job_id)

    def jobs(self, states: Collection[JobState] | None = None, owner: str | None = None, limit: int = 200) -> list[Job]:
        """Jobs of the given states and owner (all when None), oldest first."""
        wanted = select(jobs).where(*_matching(states, owner)).order_by(jobs.c.created_at, jobs.c.job_id).limit(limit)
        with self.read() as connection:
            return [_job(dict(row._mapping)) for row in connection.execute(wanted)]

    def jobs_since(self, owner: str, since: float) -> list[Job]:
        """Every job of an owner that was at work at or after `since` (seconds since 1970), also those whose experiment was deleted."""
        wanted = select(jobs).where(jobs.c.owner == owner, jobs.c.updated_at >= since)
        with self.read() as connection:
            return [_job(dict(row._mapping)) for row in connection.execute(wanted)]

    def count_jobs(self, states: Collection[JobState] | None = None, owner: str | None = None) -> int:
        with self.read() as connection:
            wanted = select(func.count()).select_from(jobs).where(*_matching(states, owner))
            return int(connection.execute(wanted).scalar_one())

    def _as_holder(self, job_id: str, holder: str, values: dict[str, Any]) -> Job | None:
        held = and_(jobs.c.job_id == job_id, jobs.c.holder == holder, jobs.c.state == "running")
        with self.write() as connection:
            if connection.execute(update(jobs).where(held).values(values)).rowcount == 0:
                return None
            return _read(connection, job_id)


_WAITING: dict[str, Any] = {"state": "queued", "holder": None, "lease_until": None}
QUEUED_AGAIN: dict[str, Any] = {**_WAITING, "cancel_requested": False, "error": None}
"""What becomes of an ended job that is to be done again."""


def _matching(states: Collection[JobState] | None, owner: str | None) -> list[ColumnElement[bool]]:
    which: list[ColumnElement[bool]] = []
    if states is not None:
        which.append(jobs.c.state.in_(sorted(states)))
    if owner is not None:
        which.append(jobs.c.owner == owner)
    return which


def _read(connection: Connection, job_id: str) -> Job | None:
    row: Row[Any] | None = connection.execute(select(jobs).where(jobs.c.job_id == job_id)).first()
    return None if row is None else _job(dict(row._mapping))


def _require(connection: Connection, job_id: str) -> Job:
    found = _read(connection, job_id)
    if found is None:
        raise NotFound(f"There is no job {job_id}.")
    return found


def _job(values: Mapping[str, Any]) -> Job:
    lease = values["lease_until"]
    return Job.model_validate(
        {
            **values,
            "payload": json.loads(values["payload"]),
            "progress": json.loads(values["progress"]),
            "lease_until": None if lease is None else moment(lease),
            "created_at": moment(values["created_at"]),
            "updated_at": moment(values["updated_at"]),
        }
    )
