"""What happens around every request of the API: an id, a line in the log, a measured time; who may come in, and how often."""

from __future__ import annotations

import logging
import re
import time
from collections import defaultdict
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette._utils import get_route_path
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import logs
from app.api import problems
from app.api.metrics import latencies
from engine import UserError, ids, keys
from engine.errors import BadRequest
from engine.settings import Settings

logger = logging.getLogger("app.api")

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
UPLOADS = ("/documents", "/question-sets")
"""Where requests may be as large as an upload."""
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class Context:
    """Gives every request an id, logs how it ended and measures how long it took. A bug becomes a problem with that id."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        given = Headers(scope=scope).get("x-request-id")
        accepted = given is None or REQUEST_ID.fullmatch(given) is not None
        request_id = given if given is not None and accepted else ids.new_id()
        token = logs.request_id.set(request_id)
        scope.setdefault("state", {})["request_id"] = request_id
        # What is there now is the mount of the whole API.
        scope.pop("route", None)
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                headers["X-Content-Type-Options"] = "nosniff"
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        latencies.running += 1
        try:
            if not accepted:
                words = "X-Request-ID must be 1 to 64 letters, digits, dots, dashes or underscores. Leave it out, and one is made."
                await problems.of(BadRequest(words))(scope, receive, answer)
                return
            await self._app(scope, receive, answer)
        except Exception:
            logger.exception("a request failed")
            if status:
                raise
            await problems.bug()(scope, receive, answer)
        finally:
            latencies.running -= 1
            route = getattr(scope.get("route"), "path", "unknown")
            seconds = time.perf_counter() - began
            latencies.note(scope["method"], route, status, seconds)
            logger.info(
                "%s %s %d",
                scope["method"],
                route,
                status,
                extra={"seconds": round(seconds, 4), "key": scope["state"].get("owner") or None},
            )
            logs.request_id.reset(token)


class Guard:
    """Lets requests in: with a key where keys are set, else only from this machine's own programs.

    A web page on another origin is refused even on this machine, and so is a host name that is not this machine's: that is
    how a page in a browser reaches for what listens on loopback.
    """

    def __init__(self, app: ASGIApp, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._keys = settings.known_api_keys
        self._origins = origins(settings)
        self._limits = Limits(settings.api_requests_per_minute, settings.api_concurrency, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            owner = self.admit(Headers(scope=scope))
            if self._keys:
                self._limits.enter(owner)
        except UserError as error:
            await problems.of(error)(scope, receive, send)
            return
        scope.setdefault("state", {})["owner"] = owner
        try:
            await self._app(scope, receive, send)
        finally:
            if self._keys:
                self._limits.leave(owner)

    def admit(self, headers: Headers) -> str:
        """The name of the key, empty where there are none. Raises NoKey, NotAllowed."""
        if not self._keys:
            self._check_same_machine(headers)
            return ""
        kind, _, presented = headers.get("authorization", "").partition(" ")
        owner = keys.owner(self._keys, presented.strip()) if kind.lower() == "bearer" else None
        if owner is None:
            raise problems.NoKey(
                "This needs a key of the API. Send it as `Authorization: Bearer KEY`; `python -m engine api-key NAME` makes one."
            )
        return owner

    def _check_same_machine(self, headers: Headers) -> None:
        host = headers.get("host", "")
        if urlsplit(f"//{host}").hostname not in _LOOPBACK:
            raise problems.NotAllowed(
                "Without API_KEYS, the API answers only at localhost. Use http://127.0.0.1, or set API_KEYS."
            )
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins and urlsplit(origin).netloc != host:
            raise problems.NotAllowed(
                "A web page of another origin called the API. Name its origin in API_CORS_ORIGINS to allow it."
            )


class BodyLimit:
    """Refuses a request whose body is too large: at once when its header says so, else as soon as too much has come."""

    def __init__(self, app: ASGIApp, largest: int, largest_upload: int) -> None:
        self._app = app
        self._largest = largest
        self._largest_upload = largest_upload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        allowed = self._largest_upload if get_route_path(scope).startswith(UPLOADS) else self._largest
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared) > allowed:
            await problems.too_large()(scope, receive, send)
            return
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > allowed:
                # The framework passes this one on while it reads a body, and turns others into 400.
                raise HTTPException(413)
            return message

        await self._app(scope, counted, send)


def origins(settings: Settings) -> list[str]:
    """The web origins that may call the API."""
    written = (settings.api_cors_origins or "").split(",")
    return [each.strip().rstrip("/") for each in written if each.strip()]


class Limits:
    """Requests of each key: so many a minute, evenly refilled, and so many at once. Used from the event loop alone."""

    def __init__(self, per_minute: int, at_once: int, clock: Callable[[], float]) -> None:
        self._per_minute = per_minute
        self._at_once = at_once
        self._clock = clock
        self._running: dict[str, int] = defaultdict(int)
        self._left: dict[str, tuple[float, float]] = {}

    def enter(self, owner: str) -> None:
        """Count a request. Raises TooMany, which says when to come back."""
        if self._running[owner] >= self._at_once:
            raise problems.TooMany(
                f"{owner} already has {self._at_once} requests running. Wait until one ends, or send `Prefer: respond-async`.",
                1,
            )
        now = self._clock()
        left, since = self._left.get(owner, (float(self._per_minute), now))
        left = min(float(self._per_minute), left + (now - since) * self._per_minute / 60)
        if left < 1:
            self._left[owner] = (left, now)
            wait = max(1, round((1 - left) * 60 / self._per_minute + 0.5))
            raise problems.TooMany(
                f"{owner} has sent {self._per_minute} requests in the last minute. Come back in {wait} s.", wait
            )
        self._left[owner] = (left - 1, now)
        self._running[owner] += 1

    def leave(self, owner: str) -> None:
        self._running[owner] -= 1
