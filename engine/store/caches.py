"""The caches of `engine.providers.cache`, kept in the database: what was paid for once is not paid for again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from sqlalchemy import Table, delete, func, select, update

from engine.errors import StoreUnavailable
from engine.providers.cache import CacheSize
from engine.store.database import Database, distinct, slices
from engine.store.schema import reply_cache, vector_cache

_TOUCH_AFTER = 6 * 3600.0
"""Seconds before a use is noted again: a read then writes at most once in that time, and `prune` still drops what is long unused."""


class _StoredCache:
    def __init__(self, database: Database, table: Table) -> None:
        self._database = database
        self._table = table

    def size(self) -> CacheSize:
        table = self._table
        with self._database.read() as connection:
            row = connection.execute(select(func.count(), func.coalesce(func.sum(table.c.bytes), 0)).select_from(table))
            entries, size = row.one()
        return CacheSize(int(entries), int(size))

    def prune(self, max_bytes: int) -> int:
        """Drop the least recently used entries until at most `max_bytes` of values remain; returns how many were dropped."""
        table = self._table
        newest = select(table.c.key, table.c.bytes).order_by(table.c.used_at.desc(), table.c.key)
        with self._database.write() as connection:
            kept, dropped = 0, []
            for key, size in connection.execute(newest):
                kept += size
                if kept > max_bytes:
                    dropped.append(key)
            for part in slices(dropped):
                connection.execute(delete(table).where(table.c.key.in_(part)))
        return len(dropped)

    def _get(self, keys: Sequence[str]) -> dict[str, bytes]:
        table, found, stale = self._table, {}, []
        now = self._database.now()
        with self._database.read() as connection:
            for part in slices(distinct(keys)):
                wanted = select(table.c.key, table.c.value, table.c.used_at).where(table.c.key.in_(part))
                for key, value, used_at in connection.execute(wanted):
                    found[key] = bytes(value)
                    if used_at < now - _TOUCH_AFTER:
                        stale.append(key)
        # A value that was read is worth more than the note that it was: a full disk must not make reading fail.
        with suppress(StoreUnavailable):
            self._touch(sorted(stale), now)
        return found

    def _touch(self, keys: Sequence[str], now: float) -> None:
        if keys:
            with self._database.write() as connection:
                for part in slices(keys):
                    connection.execute(update(self._table).where(self._table.c.key.in_(part)).values(used_at=now))

    def _put(self, entries: Mapping[str, bytes]) -> None:
        now = self._database.now()
        # In one order everywhere, so that two processes that store the same keys do not wait for each other.
        rows = [
            {"key": key, "value": value, "bytes": len(value), "used_at": now} for key, value in sorted(entries.items())
        ]
        if rows:
            with self._database.write() as connection:
                connection.execute(self._database.insert(self._table).on_conflict_do_nothing(), rows)


class StoredVectorCache(_StoredCache):
    """A `VectorCache` in the database."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, vector_cache)

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        return self._get(keys)

    def put_many(self, entries: Mapping[str, bytes]) -> None:
        self._put(entries)


class StoredReplyCache(_StoredCache):
    """A `ReplyCache` in the database."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, reply_cache)

    def get(self, key: str) -> str | None:
        value = self._get([key]).get(key)
        return None if value is None else value.decode("utf-8", "surrogatepass")

    def put(self, key: str, reply: str) -> None:
        self._put({key: reply.encode("utf-8", "surrogatepass")})
