"""Schemathesis sends what the API's own description allows, and what it does not, to every operation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.types import Receive, Scope, Send

from app.api import create_api
from engine import Workbench
from engine.settings import Settings

CASES_PER_OPERATION = int(os.environ.get("CHUNKSCOPE_TEST_CASES", "6"))
"""Of each kind: requests that follow the description, and requests that do not."""
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
METHODS = ("get", "post", "delete")


def _operations() -> Iterator[Any]:
    """(path, method, mode) of everything the API describes; what takes nothing cannot be called wrongly."""
    api = create_api(Settings.model_construct(), lambda: pytest.fail("describing the API opens nothing"))
    for path, methods in api.openapi()["paths"].items():
        for method in (each for each in METHODS if each in methods):
            yield pytest.param(path, method, GenerationMode.POSITIVE, id=f"{method} {path} as described")
            if {"parameters", "requestBody"} & methods[method].keys():
                yield pytest.param(path, method, GenerationMode.NEGATIVE, id=f"{method} {path} not as described")


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        for name in Settings.model_fields:
            patch.delenv(name.upper(), raising=False)
        patch.setitem(Settings.model_config, "env_file", None)
        with Workbench.open(Settings(data_dir=tmp_path_factory.mktemp("data"))) as workbench:
            workbench.add_document(b"# Fees\n\nThe annual fee is 300 euros.\n", "law.md")
            api = create_api(workbench.settings, lambda: workbench)

            async def at_localhost(scope: Scope, receive: Receive, send: Send) -> None:
                if scope["type"] == "http":
                    others = [(name, value) for name, value in scope["headers"] if name != b"host"]
                    scope = {**scope, "headers": [(b"host", b"localhost"), *others]}
                await api(scope, receive, send)

            yield schemathesis.openapi.from_asgi("/openapi.json", at_localhost)


@pytest.mark.parametrize(("path", "method", "mode"), list(_operations()))
def test_no_request_breaks_the_api(schema: Any, path: str, method: str, mode: GenerationMode) -> None:
    operation = schema[path][method]

    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    @hypothesis.settings(
        max_examples=CASES_PER_OPERATION,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    def send(case: Any) -> None:
        case.call_and_validate(checks=CHECKS)

    send()
