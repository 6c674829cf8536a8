"""How a route answers: work in threads, records as JSON with an ETag where they cannot change, lists in pages, and 202 for who will not wait."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, Generic, ParamSpec, TypeVar

import anyio
from anyio import to_thread
from fastapi import Depends, Header, Path, Query, Request
from pydantic import BaseModel, Field, TypeAdapter
from starlette.responses import Response

from engine.errors import NotAllowed
from engine.workbench import Workbench

P = ParamSpec("P")
T = TypeVar("T")

QUICK = 8
"""Threads for reading and cutting, which are work of this machine."""
PATIENT = 64
"""Threads for what mostly waits: answers of models, uploads being read, indexing."""

_quick = anyio.CapacityLimiter(QUICK)
_patient = anyio.CapacityLimiter(PATIENT)

Id = Annotated[str, Path(pattern="^[0-9A-Za-z_-]{1,64}$", description="The id of a record.")]


async def _workbench(request: Request) -> Workbench:
    """Where a trusted proxy names the user, on their behalf. Raises NotAllowed for a request that names none then."""
    workbench: Workbench = request.app.state.workbench()
    header = workbench.settings.api_user_header
    if header is None:
        return workbench
    user = request.headers.get(header, "").strip(" \t")
    if not user or len(request.headers.getlist(header)) > 1:
        raise NotAllowed(
            f"The request names no user in {header} (API_USER_HEADER). Nothing was done. Send it through the proxy that signs people in."
        )
    with suppress(UnicodeDecodeError):
        # The framework reads headers as Latin-1; proxies write names in UTF-8, as pages know them.
        user = user.encode("latin-1").decode("utf-8")
    return workbench.acting_as(user)


Bench = Annotated[Workbench, Depends(_workbench)]


async def _respond_async(
    prefer: Annotated[
        str | None,
        Header(description="`respond-async` answers 202 at once, with a job to poll.", examples=["respond-async"]),
    ] = None,
) -> bool:
    return prefer is not None and "respond-async" in {part.strip().lower() for part in prefer.split(",")}


RespondAsync = Annotated[bool, Depends(_respond_async)]


class Paging(BaseModel):
    limit: int = Field(50, ge=1, le=500)
    """Most entries of the answer."""
    offset: int = Field(0, ge=0, le=10_000_000)
    """Entries to pass over."""

    def of(self, items: Sequence[T]) -> dict[str, Any]:
        """One page of `items`, as `Page` describes it."""
        end = self.offset + self.limit
        return {
            "items": list(items[self.offset : end]),
            "total": len(items),
            "offset": self.offset,
            "next_offset": end if end < len(items) else None,
        }


Pages = Annotated[Paging, Query()]


class Page(BaseModel, Generic[T]):
    """Part of a list."""

    items: list[T]
    total: int
    """Entries of the whole list."""
    offset: int
    next_offset: int | None
    """Where the next page begins; null on the last one."""


async def quick(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of `work`, done in a thread of its own. It goes on when the client has gone."""
    return await to_thread.run_sync(functools.partial(work, *args, **kwargs), limiter=_quick)


async def patient(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The same for work that waits for others."""
    return await to_thread.run_sync(functools.partial(work, *args, **kwargs), limiter=_patient)


_json = TypeAdapter(Any)


def dumped(value: Any) -> bytes:
    """A record, or a structure of records, as JSON."""
    return value.model_dump_json().encode() if isinstance(value, BaseModel) else _json.dump_json(value)


async def answer(
    make: Callable[[], Any],
    status: int = 200,
    *,
    unchanging_for: Request | None = None,
    location: Callable[[Any], str] | None = None,
) -> Response:
    """The JSON of what `make` returns; both happen in a thread.

    `unchanging_for`: the request, where the record cannot change; the answer then has an ETag, and 304 says that the client has it.
    `location`: from the record to its address.
    """

    def work() -> tuple[Any, bytes]:
        value = make()
        return value, dumped(value)

    value, body = await quick(work)
    headers = {}
    if location is not None:
        headers["Location"] = location(value)
    if unchanging_for is not None:
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers |= {"ETag": etag, "Cache-Control": "private, no-cache"}
        known = {each.strip().removeprefix("W/") for each in unchanging_for.headers.get("if-none-match", "").split(",")}
        if known & {etag, "*"}:
            return Response(status_code=304, headers=headers)
    return Response(body, status, headers, media_type="application/json")


def address(request: Request, path: str) -> str:
    """The address of something in this API, as the client reaches it: `/api/v1` and `path`."""
    return f"{request.scope.get('root_path', '')}{path}"
