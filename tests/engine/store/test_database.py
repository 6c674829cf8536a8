from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.exc import IntegrityError

from engine.errors import BadSetting, StoreUnavailable
from engine.store import Store
from engine.store.migrations import CHANGES, migrate
from engine.store.schema import metadata
from tests.engine.store import examples


def test_the_migrated_database_has_the_tables_that_queries_expect(store: Store) -> None:
    with store.read() as connection:
        found = inspect(connection)
        assert set(found.get_table_names()) == set(metadata.tables)
        for name, table in metadata.tables.items():
            columns = {column["name"]: column["nullable"] for column in found.get_columns(name)}
            if connection.dialect.name == "sqlite":  # which does not count a primary key as NOT NULL by itself
                columns = {column: columns[column] and not table.c[column].primary_key for column in columns}
            assert columns == {column.name: bool(column.nullable) for column in table.c}, name
            assert found.get_pk_constraint(name)["constrained_columns"] == [key.name for key in table.primary_key], name
            # Those of expressions are PostgreSQL's alone, and tested by what they speed up.
            indexes = {i["name"]: i["column_names"] for i in found.get_indexes(name) if None not in i["column_names"]}
            assert indexes == {str(index.name): [c.name for c in index.columns] for index in table.indexes}, name


def test_changes_are_applied_once_and_recorded_by_name(url: str, store: Store) -> None:
    store.add_document(examples.document())
    store.close()
    again = Store(url)
    with again.write() as connection:
        assert migrate(connection) == []
        names = list(connection.execute(text("SELECT name FROM schema_changes")).scalars())
    assert names == [change.__name__ for change in CHANGES]
    assert [name.split("_")[0] for name in names] == [
        "m0001",
        "m0002",
        "m0003",
        "m0004",
        "m0005",
        "m0006",
        "m0007",
        "m0008",
    ]
    assert len(again.documents()) == 1
    again.close()


def test_a_change_that_fails_leaves_the_database_as_it_was(store: Store) -> None:
    def m0002_add(connection: object) -> None:
        connection.execute(text("CREATE TABLE half_done (n INTEGER)"))  # type: ignore[attr-defined]
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError), store.write() as connection:
        migrate(connection, (*CHANGES, m0002_add))
    with store.read() as connection:
        assert "half_done" not in inspect(connection).get_table_names()
        assert connection.execute(text("SELECT count(*) FROM schema_changes")).scalar() == len(CHANGES)


def test_a_database_of_a_newer_version_is_refused_in_words(url: str, store: Store) -> None:
    with store.write() as connection:
        connection.execute(text("INSERT INTO schema_changes VALUES ('m9999_later', 0)"))
    store.close()
    with pytest.raises(StoreUnavailable, match=r"newer version .*m9999_later.* Nothing was changed"):
        Store(url)


def test_processes_that_start_at_once_migrate_once(url: str) -> None:
    opened: list[Store] = []
    failures: list[BaseException] = []
    gate = threading.Barrier(4)

    def start() -> None:
        gate.wait()
        try:
            opened.append(Store(url))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [len(store.documents()) for store in opened] == [0, 0, 0, 0]
    for store in opened:
        store.close()


OPEN = """
import sys
from engine.store import Store
print("ready", flush=True)
sys.stdin.readline()
store = Store(sys.argv[1])
print(len(store.documents()), flush=True)
store.close()
"""


def test_processes_that_start_at_once_migrate_once_and_all_open(url: str) -> None:
    command = [sys.executable, "-c", OPEN, url]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [process.communicate()[0] for process in started] == ["0\n"] * 3
    finally:
        for process in started:
            process.kill()
            process.wait()
    store = Store(url)
    with store.read() as connection:
        names = list(connection.execute(text("SELECT name FROM schema_changes")).scalars())
    assert sorted(names) == [change.__name__ for change in CHANGES]
    store.close()


def test_no_more_connections_than_allowed_are_opened_and_the_rest_waits(url: str) -> None:
    store = Store(url, connections=2)
    if not url.startswith("postgresql"):
        store.close()
        return
    seen: list[int] = []
    name = text("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'connections of one test'")

    def look(_: int) -> None:
        with store.read() as connection:
            connection.execute(text("SET LOCAL application_name = 'connections of one test'"))
            seen.append(int(connection.execute(name).scalar_one()))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(look, range(40)))
    assert len(seen) == 40
    assert max(seen) <= 2
    store.close()


def test_a_connection_in_use_when_the_store_closes_is_closed_after_it(url: str) -> None:
    store = Store(url)
    with store.read() as connection:
        used = connection.connection.dbapi_connection
        store.close()
        assert connection.execute(text("SELECT 1")).scalar_one() == 1
    assert used is not None
    with pytest.raises(Exception, match="closed"):
        used.cursor().execute("SELECT 1")


def test_a_transaction_that_raises_leaves_nothing(store: Store) -> None:
    two = text("INSERT INTO schema_changes VALUES ('x', 0), ('x', 1)")
    one = text("INSERT INTO schema_changes VALUES ('y', 0)")

    def write() -> None:
        with store.write() as connection:
            connection.execute(one)
            connection.execute(two)

    with pytest.raises(IntegrityError):
        write()
    with store.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM schema_changes")).scalar() == len(CHANGES)


def test_threads_write_at_once_and_nothing_is_lost(store: Store) -> None:
    failures: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            for number in range(10):
                store.vector_cache.put_many({f"{worker}-{number}": b"1234", "shared": b"same"})
                store.vector_cache.get_many([f"{worker}-{number}", "shared"])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert store.vector_cache.size().entries == 81


def test_health_names_the_database_and_no_password(store: Store) -> None:
    assert "answers at" in store.health()
    assert store.place in store.health()


def test_a_full_disk_is_said_in_words_and_everything_before_is_kept(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'c.db'}")
    store.add_document(examples.document())
    with store.read() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        # One pooled connection serves a single thread, so the limit holds for the next write.
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreUnavailable, match=r"disk .* is full.*kept"):
        store.add_document(examples.document("large.txt", "x" * 100_000))
    assert [info.name for info in store.documents()] == ["law.docx"]
    store.close()


def test_a_database_that_another_process_holds_is_said_in_words(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'c.db'}"
    holder, waiter = Store(url), Store(url, busy_seconds=0.05)
    with (
        holder.write(),
        pytest.raises(StoreUnavailable, match="Another process is writing"),
    ):
        waiter.add_document(examples.document())
    assert waiter.add_document(examples.document())
    holder.close()
    waiter.close()


def test_a_file_that_is_no_database_is_said_in_words(tmp_path: Path) -> None:
    file = tmp_path / "c.db"
    file.write_bytes(b"this is no database, whatever its name says" * 100)
    with pytest.raises(StoreUnavailable, match="damaged or no Chunkscope database"):
        Store(f"sqlite:///{file}")
    assert file.read_bytes().startswith(b"this is no database")


def test_a_folder_that_is_not_there_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached or used"):
        Store(f"sqlite:///{tmp_path / 'absent' / 'c.db'}")


def test_a_server_that_does_not_answer_is_said_without_the_password() -> None:
    # Port 1 is reserved, and nothing listens there.
    with pytest.raises(StoreUnavailable) as caught:
        Store("postgresql://anna:sesame@127.0.0.1:1/records")
    assert "127.0.0.1:1/records" in caught.value.message
    assert "cannot be reached" in caught.value.message
    assert "sesame" not in caught.value.message


@pytest.mark.parametrize(
    "url", ["", "no address", "mysql://anna:sesame@host/name", "postgresql://anna:sesame@host:port/x"]
)
def test_an_address_that_is_none_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(BadSetting, match="DATABASE_URL") as caught:
        Store(url)
    assert "sesame" not in str(caught.value)


def test_what_is_held_is_held_by_one_at_a_time_in_all_processes(url: str) -> None:
    """Two stores are what two processes have: nothing in memory is shared between them."""
    stores = [Store(url), Store(url)] if url.startswith("postgresql") else [Store(url)]
    inside: list[str] = []
    most: list[int] = []

    def work(place: int) -> None:
        with stores[place % len(stores)].exclusive("index", "one thing"):
            inside.append("in")
            stores[0].vector_cache.put_many({f"{place}": b"1234"})
            most.append(len(inside))
            inside.pop()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(24)))
    assert most == [1] * 24
    with stores[0].exclusive("index", "one thing"), stores[-1].exclusive("index", "another"):
        assert inside == []
    with pytest.raises(ValueError, match="inside"), stores[0].exclusive("index", "one thing"):
        raise ValueError("inside")
    with stores[-1].exclusive("index", "one thing"):
        assert inside == []
    for store in stores:
        store.close()


@pytest.mark.timeout(60)
def test_more_threads_may_hold_something_than_there_are_connections(url: str) -> None:
    store = Store(url, connections=2)
    all_hold = threading.Barrier(6)

    def work(place: int) -> None:
        with store.exclusive("index", f"{place}"):
            all_hold.wait(30)
            store.vector_cache.put_many({f"{place}": b"1234"})

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    assert store.vector_cache.get_many([str(place) for place in range(6)]).keys() == {str(n) for n in range(6)}
    store.close()
