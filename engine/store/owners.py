"""Who owns what. Without sign-in there is one owner, the local user, who may do everything."""

from __future__ import annotations

from typing import Literal, NamedTuple

from sqlalchemy import Column, and_, delete, select, update

from engine import ids
from engine.store.database import Database
from engine.store.schema import documents, experiments, owners, queries, question_sets

LOCAL = "local"
"""The user of the command line and of an app without sign-in: sees and changes everything, as whoever holds the data folder can."""

Kind = Literal["document", "question set", "query", "experiment"]

_KEYS: dict[Kind, Column[str]] = {
    "document": documents.c.document_id,
    "question set": question_sets.c.question_set_id,
    "query": queries.c.query_id,
    "experiment": experiments.c.experiment_id,
}


class Ownership(NamedTuple):
    """Of one thing."""

    owners: frozenset[str] = frozenset()
    """More than one where several people uploaded the same; empty: the local user's."""
    shared: bool = False
    """Whether everyone may read it."""


class OwnerRecords(Database):
    user = LOCAL
    """On whose behalf records are read and written."""

    def claim(self, kind: Kind, item_id: str, *, existed: bool = False) -> bool:
        """Note that the user owns something; False where that was so before. The local user owns what nobody has claimed.

        `existed`: it was there before, so that it is the local user's as well where nobody has claimed it; from now on by name.
        """
        row = {"kind": kind, "item_id": item_id, "shared": False, "since": self.now()}
        others = select(owners.c.owner).where(owners.c.kind == kind, owners.c.item_id == item_id).limit(1)
        with self.write() as connection:
            is_claimed = connection.execute(others).first() is not None
            if self.user == LOCAL and not is_claimed:
                return False
            claiming = {self.user, LOCAL} if existed and not is_claimed else {self.user}
            rows = {
                owner: connection.execute(
                    self.insert(owners).values({**row, "owner": owner}).on_conflict_do_nothing()
                ).rowcount
                for owner in sorted(claiming)
            }
        return rows[self.user] > 0

    def disclaim(self, kind: Kind, item_id: str) -> Ownership:
        """The user no longer owns something (the local user: nobody does). Returns who still does."""
        mine = and_(owners.c.kind == kind, owners.c.item_id == item_id)
        if self.user != LOCAL:
            mine = and_(mine, owners.c.owner == self.user)
        with self.write() as connection:
            connection.execute(delete(owners).where(mine))
        return self.ownership(kind, item_id)

    def share(self, kind: Kind, item_id: str, shared: bool) -> None:
        """Let everyone read something, or only its owners. What was nobody's is then the local user's by name."""
        which = and_(owners.c.kind == kind, owners.c.item_id == item_id)
        if self.user != LOCAL:
            which = and_(which, owners.c.owner == self.user)
        row = {"kind": kind, "item_id": item_id, "owner": self.user, "shared": shared, "since": self.now()}
        with self.write() as connection:
            if connection.execute(update(owners).where(which).values(shared=shared)).rowcount == 0:
                connection.execute(self.insert(owners).values(row))

    def ownership(self, kind: Kind, item_id: str) -> Ownership:
        wanted = select(owners.c.owner, owners.c.shared)
        with self.read() as connection:
            rows = connection.execute(wanted.where(owners.c.kind == kind, owners.c.item_id == item_id)).all()
        return Ownership(frozenset(row.owner for row in rows), any(row.shared for row in rows))

    def owned(self, kind: Kind, since: float = 0.0) -> set[str]:
        """Ids of what the user owns, claimed at or after `since` (seconds since 1970)."""
        wanted = select(owners.c.item_id).where(owners.c.owner == self.user, owners.c.kind == kind)
        with self.read() as connection:
            return set(connection.execute(wanted.where(owners.c.since >= since)).scalars())

    def claimed(self, kind: Kind) -> dict[str, float]:
        """When the user claimed what they own, in seconds since 1970, by id."""
        wanted = select(owners.c.item_id, owners.c.since).where(owners.c.owner == self.user, owners.c.kind == kind)
        with self.read() as connection:
            return {row.item_id: row.since for row in connection.execute(wanted)}

    def readable(self, kind: Kind) -> set[str]:
        """Ids of what the user owns, and of what is shared."""
        wanted = select(owners.c.item_id).where(owners.c.kind == kind)
        with self.read() as connection:
            shared = owners.c.shared.is_(True)
            return set(connection.execute(wanted.where((owners.c.owner == self.user) | shared)).scalars())

    def require_readable(self, kind: Kind, item_id: str) -> None:
        """Nothing is hidden from the local user; see `OwnedStore`."""

    def require_own(self, kind: Kind, item_id: str) -> None:
        """The local user may change everything; see `OwnedStore`."""

    def require_local(self) -> None:
        """What belongs to all users is the local user's to change; see `OwnedStore`."""

    def own_id(self, kind: Kind, item_id: str) -> str:
        """Under which id the user stores something with this content-derived id: another one where it is somebody else's."""
        own = ids.digest(kind, self.user, item_id)
        if self._exists(kind, own) and not self.is_anothers(kind, own):
            return own
        return own if self.is_anothers(kind, item_id) else item_id

    def is_anothers(self, kind: Kind, item_id: str) -> bool:
        """Whether the user may not write under this id. What is there and was never claimed is the local user's."""
        found = self.ownership(kind, item_id).owners
        if found:
            return self.user not in found
        return self.user != LOCAL and self._exists(kind, item_id)

    def _exists(self, kind: Kind, item_id: str) -> bool:
        key = _KEYS[kind]
        with self.read() as connection:
            return connection.execute(select(key).where(key == item_id)).first() is not None
