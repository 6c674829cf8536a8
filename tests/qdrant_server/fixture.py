"""Fixture: `qdrant_server` is a running vector server of the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.qdrant_server.server import QdrantServer


@pytest.fixture
def qdrant_server() -> Iterator[QdrantServer]:
    with QdrantServer() as server:
        yield server
