"""Every test of the store runs on SQLite, and on PostgreSQL when CHUNKSCOPE_TEST_POSTGRES_URL names a server: there in a schema of its own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from engine.store import Store


class Clock:
    """The time a test says it is, in seconds since 1970."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'chunkscope.db'}"
        return
    server = os.environ.get("CHUNKSCOPE_TEST_POSTGRES_URL")
    if not server:
        pytest.skip("CHUNKSCOPE_TEST_POSTGRES_URL names no PostgreSQL database")
    address = make_url(server).set(drivername="postgresql+psycopg")
    schema = f"test_{uuid.uuid4().hex}"
    admin = create_engine(address, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE SCHEMA {schema}"))
        yield address.update_query_dict({"options": f"-csearch_path={schema}"}).render_as_string(hide_password=False)
        connection.execute(text(f"DROP SCHEMA {schema} CASCADE"))
    admin.dispose()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[Store]:
    store = Store(url, clock=clock)
    yield store
    store.close()
