"""Moves everything Chunkscope remembers from one pair of stores to another, and shows that it arrived.

What is there already is left as it is, so a move that was cut off is repeated and goes on. A target that holds anything which the source
does not hold is refused before the first write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from sqlalchemy import Table, delete, func, select, tuple_

from engine import ids
from engine.errors import BadRequest, TransferRefused
from engine.index import ChunkIndex, IndexPoint, open_index
from engine.providers.base import Vectors
from engine.settings import Settings, load_settings
from engine.store.database import Database, slices
from engine.store.folder import DataFolder
from engine.store.repository import Store, open_store
from engine.store.schema import metadata, schema_changes

PAGE = 500
"""Rows and points that are in memory at a time."""

SAME = 1e-5
"""Difference of two components below which two vectors count as the same: an index may scale a vector to unit length once more."""

TABLES: tuple[Table, ...] = tuple(table for table in metadata.tables.values() if table is not schema_changes)
"""What is moved, in the order of the schema: a table stands after those it refers to."""


class Moved(NamedTuple):
    """One table, collection or folder after the move, the same in source and target."""

    kind: str
    name: str
    size: int
    """Rows, points or files."""
    digest: str
    """Of all rows, or of the ids of all points and originals; the order does not matter."""


class Place:
    """One pair of stores with its data folder. Closing it closes all."""

    def __init__(self, folder: DataFolder, store: Store, index: ChunkIndex) -> None:
        self.folder = folder
        self.store = store
        self.index = index


class Places(ExitStack):
    """The embedded stores in a folder and the servers of the settings, opened for a move. Nothing else may use the folder meanwhile.

    Raises BadRequest without both servers, DataFolderLocked, StoreUnavailable, IndexUnavailable.
    """

    def __init__(self, settings: Settings, folder: Path) -> None:
        super().__init__()
        if settings.database_url is None or settings.qdrant_url is None:
            raise BadRequest(
                "A move needs to know the servers. Nothing was changed. Set DATABASE_URL and QDRANT_URL, then try again."
            )
        # Not a copy of the settings: what they have worked out already, such as the address of the database, would go with it.
        same_settings = {name: getattr(settings, name) for name in type(settings).model_fields}
        local = load_settings(**(same_settings | {"database_url": None, "qdrant_url": None, "data_dir": folder}))
        try:
            of_servers = self._folder(settings.data_dir)
            same = folder.absolute() == settings.data_dir.absolute()
            self.embedded = self._open(local, of_servers if same else self._folder(folder))
            self.servers = self._open(settings, of_servers)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def _folder(self, path: Path) -> DataFolder:
        return self.enter_context(DataFolder(path))

    def _open(self, settings: Settings, folder: DataFolder) -> Place:
        store = open_store(settings)
        self.callback(store.close)
        index = open_index(settings)
        self.callback(index.close)
        index.health()
        return Place(folder, store, index)


def move(
    source: Place, target: Place, note: Callable[[str], None] = lambda _: None, *, replace: bool = False
) -> list[Moved]:
    """Copy tables, collections and originals, then compare source and target. The source stays as it is.

    `replace`: empty the target first. Raises TransferRefused when the source is empty or lacks originals of its documents, when the target
    holds something else, or when it is not the same in the end; the UserErrors of the stores.
    """
    _refuse_empty(source)
    _refuse_lost_originals(source, target.folder)
    if replace:
        empty(target)
    for table in TABLES:
        _refuse_other_rows(source.store, target.store, table)
    names = _refuse_other_collections(source.index, target.index)
    for table in TABLES:
        _copy_rows(source.store, target.store, table)
        note(f"{table.name} copied")
    for info in source.index.collections():
        target.index.ensure(info.name, info.model, info.dimension)
        for points, vectors in _pages(source.index, info.name):
            target.index.upsert(info.name, points, vectors)
        note(f"{info.name} copied")
    originals = _copy_originals(source, target.folder)
    moved = [_same_rows(source.store, target.store, table) for table in TABLES]
    return [*moved, *(_same_points(source.index, target.index, name) for name in names), originals]


def empty(place: Place) -> None:
    """Remove all rows and all collections of a place, for a move that is to replace what is there. Originals stay."""
    for info in place.index.collections():
        place.index.drop(info.name)
    with place.store.write() as connection:
        for table in reversed(TABLES):
            connection.execute(delete(table))


def _refuse_empty(source: Place) -> None:
    """A source that holds nothing is a mistyped name more often than a wish."""
    with source.store.read() as connection:
        holds_rows = any(connection.execute(select(table).limit(1)).first() is not None for table in TABLES)
    if not holds_rows and not source.index.collections():
        raise TransferRefused(
            "The source holds nothing, so there is nothing to move. Nothing was changed. Check DATA_DIR or --folder, DATABASE_URL and QDRANT_URL."
        )


def _refuse_lost_originals(source: Place, target: DataFolder) -> None:
    """Originals lie in a data folder, also where rows and vectors are on servers: the wrong folder has none of them."""
    lost = source.store.originals() - _names(source.folder) - _names(target)
    if lost:
        raise TransferRefused(
            f"{len(lost)} originals of the documents are not in the data folder {source.folder.path}. Nothing was changed. "
            "Set DATA_DIR to the data folder the documents were uploaded to, or delete the documents without an original."
        )


# Tables


def _rows(database: Database, table: Table) -> Iterator[list[tuple[Any, ...]]]:
    """All rows, page by page in the order of the primary key."""
    keys = tuple(table.primary_key.columns)
    wanted = select(table).order_by(*keys).limit(PAGE)
    places = [list(table.columns).index(key) for key in keys]
    after: tuple[Any, ...] | None = None
    while True:
        page = wanted if after is None else wanted.where(tuple_(*keys) > tuple_(*after))
        with database.read() as connection:
            rows = [tuple(row) for row in connection.execute(page)]
        if not rows:
            return
        yield rows
        after = tuple(rows[-1][place] for place in places)


def _copy_rows(source: Database, target: Database, table: Table) -> None:
    names = [column.name for column in table.columns]
    for rows in _rows(source, table):
        with target.write() as connection:
            values = [dict(zip(names, row, strict=True)) for row in rows]
            connection.execute(target.insert(table).on_conflict_do_nothing(), values)


def _refuse_other_rows(source: Database, target: Database, table: Table) -> None:
    keys = tuple(table.primary_key.columns)
    places = [list(table.columns).index(key) for key in keys]
    for rows in _rows(target, table):
        known: set[str] = set()
        for part in slices(rows, 100):
            wanted = select(table).where(tuple_(*keys).in_([tuple(row[place] for place in places) for row in part]))
            with source.read() as connection:
                known.update(_digest(row) for row in connection.execute(wanted))
        if any(_digest(row) not in known for row in rows):
            raise TransferRefused(f"The target has rows in {table.name} that the source does not have. {_REFUSED}")


def _same_rows(source: Database, target: Database, table: Table) -> Moved:
    found = []
    for database in (source, target):
        total = _Total()
        for rows in _rows(database, table):
            for row in rows:
                total.add(_digest(row))
        with database.read() as connection:
            count = int(connection.execute(select(func.count()).select_from(table)).scalar_one())
        found.append(Moved("table", table.name, count, total.hex()))
    return _equal(*found)


def _digest(row: Sequence[Any]) -> str:
    return ids.digest(*(value if isinstance(value, bytes) else f"{type(value).__name__} {value}" for value in row))


# Collections


def _pages(index: ChunkIndex, collection: str) -> Iterator[tuple[list[IndexPoint], Vectors]]:
    start: str | None = None
    while True:
        page = index.read(collection, start, PAGE)
        if page.points:
            yield page.points, page.vectors
        start = page.following
        if start is None:
            return


def _points(index: ChunkIndex, collection: str) -> Iterator[tuple[IndexPoint, Vectors]]:
    for points, vectors in _pages(index, collection):
        yield from zip(points, vectors, strict=True)


def _refuse_other_collections(source: ChunkIndex, target: ChunkIndex) -> list[str]:
    """Names of the collections of the source."""
    here = {info.name: (info.model, info.dimension) for info in source.collections()}
    for info in target.collections():
        if here.get(info.name) != (info.model, info.dimension) or not _holds(source, target, info.name):
            raise TransferRefused(f"The target has vectors in {info.name} that the source does not have. {_REFUSED}")
    return sorted(here)


def _holds(source: ChunkIndex, target: ChunkIndex, collection: str) -> bool:
    """Whether the source has every point of the target. Both are read in the order of their ids, so one page of each is in memory."""
    known = _points(source, collection)
    point, vector = next(known, (None, None))
    for wanted, its in _points(target, collection):
        while point is not None and point.chunk_id < wanted.chunk_id:
            point, vector = next(known, (None, None))
        if point != wanted or vector is None or not np.allclose(vector, its, rtol=0, atol=SAME):
            return False
    return True


def _same_points(source: ChunkIndex, target: ChunkIndex, collection: str) -> Moved:
    found = []
    for index in (source, target):
        total = _Total()
        for point, _ in _points(index, collection):
            total.add(ids.digest(*point))
        found.append(Moved("collection", collection, index.count(collection), total.hex()))
    moved = _equal(*found)
    if not _holds(source, target, collection):
        raise _not_the_same(collection)
    return moved


# Originals


def _names(folder: DataFolder) -> set[str]:
    return {file.name for file in folder.originals.iterdir() if not file.name.startswith(".")}


def _copy_originals(source: Place, target: DataFolder) -> Moved:
    """Originals are named by their hash, which is checked where they are written. Those that no document was made from stay behind."""
    wanted = source.store.originals()
    total = _Total()
    for name in sorted(wanted & _names(source.folder)):
        if source.folder is not target and target.add_original(source.folder.original(name)) != name:
            raise _not_the_same(f"the original {name}")
    if not wanted <= _names(target):
        raise _not_the_same("the folder of originals")
    for name in wanted:
        total.add(ids.digest(name))
    return Moved("folder", "originals", len(wanted), total.hex())


class _Total:
    """A digest of many digests that does not depend on their order: their sum."""

    def __init__(self) -> None:
        self._sum = 0

    def add(self, digest: str) -> None:
        self._sum = (self._sum + int(digest, 16)) % 2**128

    def hex(self) -> str:
        return f"{self._sum:032x}"


def _equal(source: Moved, target: Moved) -> Moved:
    if source != target:
        raise _not_the_same(f"{source.name} ({source.size} in the source, {target.size} in the target)")
    return source


_REFUSED = "Nothing was changed. Choose an empty target, or let the move replace what is there (--replace)."


def _not_the_same(what: str) -> TransferRefused:
    return TransferRefused(
        f"After the move, {what} is not the same in source and target. The source is as it was: go on with it, and make sure that "
        "nothing else uses either while you move again."
    )
