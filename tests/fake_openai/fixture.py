"""Fixtures: `fake_openai` is a running server; clients are closed and the server is stopped after the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fake_openai.server import FakeOpenAI


@pytest.fixture
def fake_openai() -> Iterator[FakeOpenAI]:
    from engine.providers.openai import close_connections

    with FakeOpenAI() as server:
        yield server
        close_connections()
