"""The REST API: requests in, methods of the Workbench called, records out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from app.api import benchmarks, documents, experiments, jobs, problems, queries, question_sets, sharing, strategies
from app.api.middleware import BodyLimit, Context, Guard, origins
from engine.bench.plan import VERSION
from engine.settings import Settings
from engine.workbench import Workbench

PREFIX = "/api/v1"
JSON_BYTES = 4 * 1024 * 1024
"""Largest request that is no upload."""
FORM_BYTES = 64 * 1024
"""What a form adds around the file in it."""

_DESCRIPTION = """Documents, strategies, queries and benchmarks of Chunkscope.

Answers come when the work is done; `Prefer: respond-async` answers 202 at once, with a job to poll. Errors are
application/problem+json. `X-Request-ID` is taken over where it is given, returned, logged and stored with the records."""


def create_api(settings: Settings, workbench: Callable[[], Workbench]) -> FastAPI:
    """The API as an app of its own, to be mounted under `PREFIX`. `workbench` is called for every request."""
    app = FastAPI(
        title="Chunkscope",
        version=VERSION,
        description=_DESCRIPTION,
        # Their pages load scripts from the internet.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.workbench = workbench
    app.state.background = jobs.Background()
    problems.install(app)
    for router in (
        documents.router,
        strategies.router,
        queries.router,
        question_sets.router,
        benchmarks.router,
        experiments.router,
        jobs.router,
        sharing.router,
    ):
        app.include_router(router)
    largest_upload = settings.max_upload_mb * 1024 * 1024 + FORM_BYTES
    app.add_middleware(BodyLimit, largest=JSON_BYTES, largest_upload=largest_upload)
    app.add_middleware(Guard, settings=settings)
    if allowed := origins(settings):
        app.add_middleware(
            CORSMiddleware,
            allow_origins=allowed,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "If-None-Match", "Prefer", "X-Request-ID"],
            expose_headers=["ETag", "Location", "Retry-After", "X-Request-ID"],
        )
    app.add_middleware(Context)
    app.openapi = lambda: _openapi(app, bool(settings.known_api_keys))  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI, keys: bool) -> dict[str, Any]:
    """The schema, with the problem record and, where keys are set, how to send one."""
    if app.openapi_schema is None:
        schema = FastAPI.openapi(app)
        components = schema.setdefault("components", {})
        components.setdefault("schemas", {})["Problem"] = problems.Problem.model_json_schema()
        if keys:
            components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            schema["security"] = [{"key": []}]
    return app.openapi_schema or {}
