"""Errors of the API: application/problem+json (RFC 9457) with the words of the UserError and the request id."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from app import logs
from engine import UserError

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"


_HTTP_WORDS = {
    404: "There is nothing at this address. GET /api/v1/openapi.json lists what there is.",
    405: "This address does not take that method.",
    413: "The request is larger than this server takes. Nothing was stored. Send less, or raise MAX_UPLOAD_MB.",
}


class Problem(BaseModel):
    """Why a request was not carried out."""

    type: str = Field(examples=["urn:chunkscope:not-found"])
    """Names the kind of problem."""
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["There is no document 5d41. It may have been deleted."])
    """What happened, what was kept, what to do."""
    request_id: str = Field(examples=["7f9c24e8"])
    """Logs name it, and so do the records this request made."""
    errors: list[dict[str, str]] | None = None
    """Where in the request it was, when the request itself has the wrong form."""


class TooMany(UserError):
    """A limit of a key is reached."""

    status = 429

    def __init__(self, message: str, seconds: int) -> None:
        super().__init__(message)
        self.seconds = seconds


class NoKey(UserError):
    status = 401


class NotAllowed(UserError):
    status = 403


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems an operation may answer with, for OpenAPI."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


def response(
    status: int,
    kind: str,
    detail: str,
    headers: Mapping[str, str] | None = None,
    errors: list[dict[str, str]] | None = None,
) -> JSONResponse:
    problem = Problem(
        type=f"urn:chunkscope:{kind}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        request_id=logs.request_id.get() or "",
        errors=errors,
    )
    return JSONResponse(problem.model_dump(exclude_none=True), status, headers, media_type=MEDIA_TYPE)


def of(error: UserError) -> JSONResponse:
    """The problem a UserError is."""
    headers = {}
    if isinstance(error, TooMany):
        headers["Retry-After"] = str(error.seconds)
    if isinstance(error, NoKey):
        headers["WWW-Authenticate"] = "Bearer"
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(error).__name__).lower()
    return response(error.status, kind, error.message, headers)


def too_large() -> JSONResponse:
    return response(413, "content-too-large", _HTTP_WORDS[413])


def bug() -> JSONResponse:
    """The problem of an error nobody expected; its details are in the log."""
    return response(500, "bug", f"This is a bug in Chunkscope. Details are in the log under {logs.request_id.get()}.")


def install(app: FastAPI) -> None:
    """Make every error of the app a problem."""

    @app.exception_handler(UserError)
    async def user_error(_: Request, error: UserError) -> JSONResponse:
        return of(error)

    @app.exception_handler(RequestValidationError)
    async def wrong_form(_: Request, error: RequestValidationError) -> JSONResponse:
        # Only places and rules: what was sent may be a document's text or a question.
        errors = [
            {"place": ".".join(str(part) for part in each["loc"]), "problem": str(each["msg"])}
            for each in error.errors()
        ]
        first = errors[0] if errors else {"place": "request", "problem": "has the wrong form"}
        detail = f"{first['place']}: {first['problem']}. Nothing was done. Correct it and send it again."
        return response(422, "wrong-form", detail, errors=errors)

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> JSONResponse:
        kind = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
        return response(error.status_code, kind, _HTTP_WORDS.get(error.status_code, str(error.detail)), error.headers)
