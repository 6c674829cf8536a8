"""One database, SQLite or PostgreSQL: connections, transactions, and its failures in words."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from sqlalchemy import (
    URL,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Table,
    cast,
    create_engine,
    event,
    exc,
    exists,
    func,
    make_url,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.pool import NullPool

from engine.errors import BadRequest, BadSetting, StoreUnavailable
from engine.ids import digest
from engine.providers.vectors import well_formed
from engine.store.migrations import migrate

BUSY_SECONDS = 30.0
"""How long a write waits for another process's write before it gives up."""

CONNECTIONS = 32
"""Most connections to PostgreSQL at once; more operations wait for one."""

SLICE = 500
"""Keys in one IN list: below the limit of host parameters of every SQLite build."""

T = TypeVar("T")


class _Turn:
    """A lock that is forgotten when nobody holds it or waits for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Database:
    """Connections to one database, migrated when it opens. Safe to use from several threads: every operation has its own connection.

    `clock` gives the time in seconds since 1970, for leases and for what was used last. `connections`: most of them to PostgreSQL at once,
    beside one for each thing that is held by `exclusive`.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Callable[[], float] = time.time,
        busy_seconds: float = BUSY_SECONDS,
        connections: int = CONNECTIONS,
    ) -> None:
        self._url = _parse(url)
        self._clock = clock
        self._sqlite = self._url.get_backend_name() == "sqlite"
        self._engine = (
            _sqlite_engine(self._url, busy_seconds) if self._sqlite else _postgres_engine(self._url, connections)
        )
        self._holders = self._engine if self._sqlite else _unpooled(self._url)
        # SQLite lets one connection write at a time and makes the others poll; waiting here is fair between threads.
        self._keys = threading.Lock()
        self._held: WeakValueDictionary[str, _Turn] = WeakValueDictionary()
        self._turn: AbstractContextManager[Any] = threading.Lock() if self._sqlite else nullcontext()
        self._closed = False
        event.listen(self._engine, "checkin", self._returned)
        try:
            with self.write() as connection:
                migrate(connection)
        except BaseException:
            self.close()
            raise

    @property
    def place(self) -> str:
        """Where the records are, without user and password."""
        if self._sqlite:
            return self._url.database or "memory"
        port = f":{self._url.port}" if self._url.port else ""
        return f"{self._url.host or 'localhost'}{port}/{self._url.database}"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the database. Raises StoreUnavailable."""
        with self._in_words(), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is durable when the block ends, and leaves nothing when it raises. Raises StoreUnavailable."""
        with self._in_words(), self._turn, self._engine.connect() as connection:
            connection = connection.execution_options(writes=True)
            with connection.begin():
                yield connection

    @contextmanager
    def exclusive(self, *what: str) -> Iterator[None]:
        """One holder at a time of what the strings name: among the threads of this process and, on PostgreSQL, all processes.

        The database drops it when the process ends, however it ends. Raises StoreUnavailable.
        """
        key = digest(*what)
        with self._keys:
            turn = self._held.setdefault(key, _Turn())
        with turn.lock:
            if self._sqlite:
                yield
                return
            number = int(key[:15], 16)
            # Without a transaction: a long one would keep PostgreSQL from cleaning its tables. Outside of the pool: whoever holds
            # something needs a connection to get on, and would wait for it for ever if all were held.
            with self._in_words(), self._holders.connect() as connection:
                connection = connection.execution_options(isolation_level="AUTOCOMMIT")
                connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": number})
                try:
                    yield
                finally:
                    connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": number})

    def now(self) -> float:
        """Seconds since 1970."""
        return self._clock()

    def insert(self, table: Table) -> sqlite.Insert | postgresql.Insert:
        """An INSERT that can say what to do ON CONFLICT."""
        return sqlite.insert(table) if self._sqlite else postgresql.insert(table)

    def json_has(self, field: Column[str], value: str) -> ColumnElement[bool]:
        """Whether a column that holds a JSON list of strings has one of them; by its index on PostgreSQL."""
        if self._sqlite:
            each = func.json_each(field).table_valued("value")
            return exists(select(each.c.value).where(each.c.value == value))
        return func.chunkscope_jsonb(field, type_=JSONB).contains([value])

    def holds_all(self, field: Column[str], words: Sequence[str]) -> ColumnElement[bool]:
        """Whether each of the words stands somewhere in a column, letter for letter. However many and long they are: as one parameter they
        need no pattern and no expression of their own."""
        if self._sqlite:
            each = func.json_each(json.dumps(list(words))).table_valued("value")
            missing = func.instr(field, each.c.value) == 0
        else:
            each = func.jsonb_array_elements_text(cast(list(words), JSONB)).table_valued("value")
            missing = func.strpos(field, each.c.value) == 0
        return ~exists(select(each.c.value).where(missing))

    def health(self) -> str:
        """One sentence about the database. Raises StoreUnavailable when it does not answer."""
        with self.read() as connection:
            connection.execute(text("SELECT count(*) FROM schema_changes"))
        return f"{'SQLite' if self._sqlite else 'PostgreSQL'} answers at {self.place}."

    def close(self) -> None:
        """Close all connections; one that is in use is closed when its transaction ends."""
        self._closed = True
        self._engine.dispose()

    def _returned(self, _dbapi: Any, record: Any) -> None:
        """`dispose` leaves connections in use to the garbage collector."""
        if self._closed:
            record.invalidate()

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except exc.TimeoutError as error:
            raise StoreUnavailable(
                "All connections to the database are in use. Nothing was changed. Try again in a moment."
            ) from error
        except UnicodeEncodeError:
            raise BadRequest(
                "An id or a tag holds a broken character (half a surrogate pair), which no database stores. Nothing was changed. Remove it and try again."
            ) from None
        except exc.DBAPIError as error:
            if "nul (0x00)" in str(error.orig).lower():
                raise BadRequest(
                    "An id holds the NUL character, which PostgreSQL does not store. Nothing was changed. Remove it and try again."
                ) from None
            words = _words(error, self.place)
            if words is None:
                raise
            raise StoreUnavailable(words) from error


def _words(error: exc.DBAPIError, place: str) -> str | None:
    """What a reader can do about a failure of the database; None for a failure that is a bug of ours."""
    reason = str(error.orig).lower()
    state = getattr(error.orig, "sqlstate", None)
    if state == "42501":
        return f"The user of DATABASE_URL has too few rights in the database ({place}). Nothing was changed. Grant it CREATE and USAGE on the schema, then start again."
    if state == "53100" or "disk is full" in reason or "no space left" in reason:
        return f"The disk of the database ({place}) is full. Everything stored before is kept. Free some space, then try again."
    if "locked" in reason or "lock timeout" in reason:
        return f"Another process is writing to the database ({place}) and did not finish in time. Everything stored before is kept. Try again in a moment."
    if "readonly" in reason or "read-only" in reason:
        return f"The database ({place}) cannot be written. Everything stored before is kept. Give Chunkscope the right to write there, then try again."
    if "not a database" in reason or "malformed" in reason:
        return f"The database ({place}) is damaged or no Chunkscope database. Nothing was changed. Restore it from a copy, or choose another DATA_DIR."
    if isinstance(error, exc.OperationalError | exc.InterfaceError) or error.connection_invalidated:
        return f"The database ({place}) cannot be reached or used. Everything stored before is kept. Check DATA_DIR or DATABASE_URL and that the server runs, then try again."
    return None


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        if parsed.drivername in ("postgres", "postgresql"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        known = parsed.drivername in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg")
    except (exc.ArgumentError, ValueError):
        known = False
    if not known:
        # The address itself is not shown: it may hold a password.
        raise BadSetting(
            "DATABASE_URL is not an address Chunkscope understands. Use postgresql+psycopg://user:password@host/name, or leave it out for SQLite in DATA_DIR."
        )
    return parsed


# Parameters are hidden in both: the text of an error must not hold the text of a document.
def _use_wal(dbapi: Any, busy_seconds: float) -> None:
    """SQLite does not wait for its lock where the journal is changed, so processes that open a new file at once would be refused."""
    until = time.monotonic() + busy_seconds
    while True:
        try:
            dbapi.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
            time.sleep(0.01)


def _sqlite_engine(url: URL, busy_seconds: float) -> Engine:
    engine = create_engine(
        url,
        connect_args={"timeout": busy_seconds, "check_same_thread": False},
        pool_size=8,
        max_overflow=56,
        pool_timeout=BUSY_SECONDS,
        hide_parameters=True,
    )

    @event.listens_for(engine, "connect")
    def _connected(dbapi: Any, _record: object) -> None:
        # The driver must not begin transactions by itself: writes have to begin with IMMEDIATE, and DDL belongs inside.
        dbapi.isolation_level = None
        # FULL keeps the last transaction through a power loss; NORMAL would not, in WAL mode.
        _use_wal(dbapi, busy_seconds)
        for pragma in ("synchronous = FULL", "foreign_keys = ON"):
            dbapi.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _postgres_engine(url: URL, connections: int) -> Engine:
    kept = max(1, connections // 4)
    return create_engine(
        url,
        pool_size=kept,
        max_overflow=connections - kept,
        pool_timeout=BUSY_SECONDS,
        pool_pre_ping=True,
        pool_recycle=1800,
        hide_parameters=True,
    )


def _unpooled(url: URL) -> Engine:
    return create_engine(url, poolclass=NullPool, hide_parameters=True)


def slices(items: Sequence[T], size: int = SLICE) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def column(value: str) -> str:
    """Free text for a column of its own: PostgreSQL refuses the NUL character there, and no database stores half a surrogate pair.

    The record's JSON keeps NUL, escaped.
    """
    return well_formed(value).replace("\x00", "")


def seconds(moment: datetime) -> float:
    """Seconds since 1970 of a moment; one without a time zone is taken as UTC."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def moment(value: float) -> datetime:
    return datetime.fromtimestamp(value, UTC)


def pack(json: str) -> bytes:
    return zlib.compress(json.encode("utf-8"), 6)


def unpack(data: bytes) -> bytes:
    return zlib.decompress(data)


def distinct(items: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(items))
