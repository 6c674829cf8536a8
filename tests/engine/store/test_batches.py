"""Batches on record: which a provider may still hold, and what was stored of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text

from engine.store import Store
from engine.store.migrations import CHANGES, migrate
from engine.store.records import Batch, BatchCall
from tests.engine.store import examples


def sent(store: Store, experiment_id: str, batch_id: str, state: str = "in_progress") -> None:
    batch = Batch(batch_id=batch_id, experiment_id=experiment_id, model="m", state=state, provider_id="p", calls=1)
    store.begin_batch(batch, [BatchCall(key=f"key of {batch_id}", batch_id=batch_id, payer="cell", attempts=1)])


def left(store: Store) -> list[tuple[str, bool]]:
    return [(batch.batch_id, is_deleted) for batch, is_deleted in store.leftover_batches()]


def test_batches_of_runs_that_nobody_carries_out_are_left_until_they_are_stored(store: Store) -> None:
    for name in ("running", "stopped", "gone"):
        store.create_experiment(examples.experiment().model_copy(update={"experiment_id": name, "status": "running"}))
        sent(store, name, f"batch of {name}")
    sent(store, "gone", "read of gone", "read")
    store.finish_experiment("stopped", "cancelled")
    store.delete_experiment("gone")
    assert left(store) == [("batch of gone", True), ("batch of stopped", False)]
    assert [batch.batch_id for batch in store.batches("gone")] == ["batch of gone"]
    assert store.batch_calls("gone") == []

    store.fetch_batch("batch of stopped", {"key of batch of stopped": "{}", "of another": "{}"})
    store.drop_batch("batch of gone")
    assert left(store) == [("batch of stopped", False)], "the provider may still hold its files"
    store.clear_batch("batch of stopped")
    assert left(store) == []
    assert store.batches("stopped")[0].state == "kept"
    assert store.batch_reply("stopped", "key of batch of stopped") == "{}"
    assert [call.status for call in store.batch_calls("stopped")] == ["waiting"]


def test_what_was_read_is_not_written_over_by_what_comes_later(store: Store) -> None:
    store.create_experiment(examples.experiment().model_copy(update={"experiment_id": "e"}))
    store.finish_experiment("e", "cancelled")
    sent(store, "e", "b")
    (call,) = store.batch_calls("e")
    store.end_batch("b", [call.model_copy(update={"status": "ok", "reply": "the reply"})])
    store.fetch_batch("b", {call.key: "the row"})
    assert store.batches("e")[0].state == "answered"
    assert left(store) == [("b", False)], "the provider may still hold its files"
    store.clear_batch("b")
    assert store.batches("e")[0].state == "read"
    assert left(store) == []
    assert store.batch_reply("e", call.key) == "the reply"


@pytest.fixture
def earlier(tmp_path: Path) -> str:
    """A database as it was before batches outlived their experiments, with a batch."""
    url = f"sqlite:///{tmp_path / 'earlier.db'}"
    engine = create_engine(url)
    with engine.begin() as connection:
        before = [change for change in CHANGES if change.__name__ < "m0007"]
        migrate(connection, before)
        connection.execute(text("INSERT INTO batches VALUES ('b', 'e', 'm', 'p', 'in_progress', 3, 1.5)"))
    engine.dispose()
    return url


def test_batches_of_an_earlier_database_are_kept(earlier: str) -> None:
    store = Store(earlier)
    assert left(store) == [("b", True)]
    with store.read() as connection:
        assert inspect(connection).get_foreign_keys("batches") == []
    store.close()
