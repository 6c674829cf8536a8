"""The connection to OpenAI or a server that speaks its protocol: one client per address and key, with limits, retries and causes.

The models on it are `openai_embedder.py` and `openai_chat.py`. The only file that imports the `openai` package.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import json
import logging
import os
import random
import re
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

import httpx2
import openai
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic import SecretStr

from engine.errors import CallCause, ModelCallFailed
from engine.providers import loop, totals
from engine.providers.limits import MinuteLimits

T = TypeVar("T")

OPENAI_URL = "https://api.openai.com/v1"
KEPT = "Everything that was answered before is kept."

_TIMEOUT_TRIES = 2
"""A call that timed out may have been billed, so it is tried only once more."""
_LONGEST_PAUSE = 120.0
"""Seconds a server may ask us to wait before we give up instead."""
_LONGEST_BACKOFF = 30.0
_MOST_TOKENS = 1_000_000_000
"""Tokens of one call above which a server's number is not believed."""

_NAMED = {
    "no credit": "insufficient_quota",
    "content": "content_filter|content_policy",
    "schema": "response_format|json_schema|json_object|structured output",
    "stream_options": "stream_options",
    "max_completion_tokens": "max_completion_tokens",
    # In quotes, a word is the name of a parameter and not of something in a text that the server repeats.
    "temperature": """["'`]temperature["'`]""",
    "seed": """["'`]seed["'`]""",
    "batch": "batch",
}
"""What a server's error can be about, by what its body then holds."""

for _name in ("openai", "httpx2", "httpcore2", "httpx", "httpcore"):
    # At their lower levels these log requests in full: texts, and addresses that may hold a password.
    logging.getLogger(_name).setLevel(logging.WARNING)


@dataclass(frozen=True)
class Endpoint:
    """A server and how to treat it. Two models on equal endpoints share one client and its limits."""

    base_url: str = field(repr=False)
    """Never shown as it is: it may hold a password. `address` is for people."""
    api_key: SecretStr | None
    key_setting: str = field(default="OPENAI_API_KEY", compare=False)
    """The setting a reader changes when the key is wrong."""
    timeout: float = 60.0
    """Seconds for one try; for a streamed answer, seconds without a new piece."""
    retries: int = 5
    concurrency: int = 16
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    first_pause: float = 0.5
    """Seconds before the first retry; doubled for each further one."""

    @property
    def address(self) -> str:
        parts = urlsplit(self.base_url)
        host = parts.netloc.rsplit("@", 1)[-1]
        return f"{parts.scheme}://{host}{parts.path.rstrip('/')}"

    @property
    def is_openai(self) -> bool:
        return urlsplit(self.base_url).hostname == urlsplit(OPENAI_URL).hostname


class CallFailed(ModelCallFailed):
    """A call that did not succeed, after how many tries. `named`: what the server's answer speaks of, as keys of `_NAMED`."""

    def __init__(
        self, message: str, cause: CallCause, attempts: int, status_code: int | None, named: frozenset[str]
    ) -> None:
        super().__init__(message, cause)
        self.attempts = attempts
        self.status_code = status_code
        self.named = named


class Called(NamedTuple, Generic[T]):
    value: T
    attempts: int


class _Fault(NamedTuple):
    """What one try came to."""

    cause: CallCause
    words: str
    remedy: str
    passing: bool = False
    """Whether the next try may succeed."""
    pause: float | None = None
    """Seconds the server asked us to wait."""
    status_code: int | None = None
    named: frozenset[str] = frozenset()


class Connection:
    """One client. All coroutines run on the background loop (`loop.py`)."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.client = AsyncOpenAI(
            base_url=endpoint.base_url,
            # The SDK insists on a key; servers of one's own often have none.
            api_key=endpoint.api_key.get_secret_value() if endpoint.api_key else "none",
            timeout=endpoint.timeout,
            max_retries=0,
            # Texts of documents go to the address that was set and to no other.
            http_client=DefaultAsyncHttpxClient(follow_redirects=False),
        )
        self.window = loop.Window(endpoint.concurrency)
        """Calls in flight and replies not yet stored."""
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._limits = MinuteLimits(endpoint.requests_per_minute, endpoint.tokens_per_minute)

    async def call(
        self,
        model: str,
        send: Callable[[], Awaitable[T]],
        tokens: int,
        stop: loop.Stop,
        tries: int | None = None,
        begun: Callable[[], bool] = lambda: False,
        watch: bool = True,
    ) -> Called[T]:
        """The result of `send`, tried again after passing faults. Raises CallFailed with the cause.

        `tokens`: expected tokens of the call, for the limit per minute. `tries`: at most so many (default: the endpoint's).
        `begun()`: true once a part of the answer was passed on, after which no try is repeated.
        `watch`: whether the time limit covers the whole try; a streamed answer watches its own pieces.
        """
        most = tries or self.endpoint.retries + 1
        attempts, timeouts = 0, 0
        while True:
            outcome = await self._try(send, tokens, stop, watch)
            if not isinstance(outcome, _Fault):
                totals.called(model, answered=True)
                return Called(outcome, attempts + 1)
            fault = outcome
            if fault.cause == "cancelled":
                raise self._failure(model, fault, attempts)
            totals.called(model, answered=False)
            attempts += 1
            timeouts += fault.cause == "timeout"
            pause = fault.pause or min(_LONGEST_BACKOFF, self.endpoint.first_pause * 2 ** (attempts - 1))
            if not fault.passing or attempts >= most or timeouts >= _TIMEOUT_TRIES or pause > _LONGEST_PAUSE or begun():
                raise self._failure(model, fault, attempts)
            if fault.pause is not None:
                self._limits.hold(fault.pause)
            # Jitter keeps calls that failed together from coming back together.
            await stop.sleep(pause + random.uniform(0, 0.1) * pause)

    async def _try(self, send: Callable[[], Awaitable[T]], tokens: int, stop: loop.Stop, watch: bool) -> T | _Fault:
        async with self._slots:
            while not stop.is_set() and (seconds := self._limits.book(tokens)) > 0:
                await stop.sleep(seconds)
            if stop.is_set():
                return _Fault("cancelled", "was cancelled", "Start it again when you want it.")
            try:
                async with asyncio.timeout(self.endpoint.timeout if watch else None):
                    return await send()
            except Exception as error:
                fault = self._fault(error)
                if fault is None:
                    raise
                return fault

    def _failure(self, model: str, fault: _Fault, attempts: int) -> CallFailed:
        tried = f" after {attempts} tries" if attempts > 1 else ""
        message = f"{model} at {self.endpoint.address} {fault.words}{tried}. {KEPT} {fault.remedy}"
        return CallFailed(message, fault.cause, attempts, fault.status_code, fault.named)

    def _fault(self, error: Exception) -> _Fault | None:
        """What went wrong, in our words: a server's own may repeat texts or the key. None: not a fault of the call but a bug."""
        if isinstance(error, BadAnswer):
            return _Fault(error.cause, str(error), error.remedy)
        if isinstance(error, (TimeoutError, openai.APITimeoutError, httpx2.TimeoutException)):
            return _Fault(
                "timeout",
                f"did not answer within {self.endpoint.timeout:g} s",
                "Raise REQUEST_TIMEOUT, or check the server.",
                passing=True,
            )
        if isinstance(error, openai.APIStatusError):
            return self._status_fault(error)
        if _is_tls(error):
            return _Fault(
                "unavailable",
                "could not be reached safely (its certificate is not trusted, or it speaks no TLS)",
                "Check its certificate; the address of a server without TLS begins with http://.",
            )
        if isinstance(error, (openai.APIConnectionError, httpx2.HTTPError, OSError)):
            return _Fault(
                "unavailable",
                "could not be reached or broke the connection",
                "Check that the server runs and that its address is right.",
                passing=True,
            )
        if isinstance(error, (openai.APIResponseValidationError, json.JSONDecodeError, UnicodeDecodeError)):
            return _Fault("invalid_output", *_NOT_JSON)
        if isinstance(error, openai.APIError):
            return _Fault("unavailable", f"broke off its answer{_code(error)}", "Try again.", passing=True)
        return None

    def _status_fault(self, error: openai.APIStatusError) -> _Fault:
        status = error.status_code
        code = _code(error)
        # The body itself is not kept: it may repeat the key or the text.
        said_body = json.dumps(error.body, default=str).lower()
        named = frozenset(name for name, pattern in _NAMED.items() if re.search(pattern, said_body))
        said = f"(HTTP {status}{code})"
        if status in (401, 403):
            verb = "rejected the key" if self.endpoint.api_key else "wants a key and none is set"
            return _Fault("auth", f"{verb} {said}", f"Check {self.endpoint.key_setting}.", status_code=status)
        if status == 429 and "no credit" in named:
            return _Fault(
                "rate_limited",
                f"says the account has no credit left {said}",
                "Add credit at the provider, or use another key.",
                status_code=status,
            )
        if status == 429:
            return _Fault(
                "rate_limited",
                f"was asked too often {said}",
                "Lower REQUESTS_PER_MINUTE, TOKENS_PER_MINUTE or CONCURRENCY, or try again later.",
                passing=True,
                pause=_retry_after(error.response),
                status_code=status,
            )
        if status in (408, 409) or status >= 500:
            return _Fault(
                "timeout" if status == 408 else "unavailable",
                f"had a fault of its own {said}",
                "Try again later.",
                passing=True,
                pause=_retry_after(error.response),
                status_code=status,
                named=named,
            )
        if 300 <= status < 400:
            return _Fault(
                "unavailable",
                f"sends its callers to another address {said}, which was not followed",
                "Set the address it moved to.",
                status_code=status,
            )
        if status == 404:
            return _Fault(
                "unavailable",
                f"was not found there {said}",
                "Check the model's name and the server's address (it usually ends in /v1).",
                status_code=status,
                named=named,
            )
        if "content" in named:
            return _Fault("refused", f"refused the content {said}", "Ask differently.", status_code=status, named=named)
        return _Fault(
            "unavailable",
            f"did not accept the request {said}",
            "Check that the model's name fits the task and that the text is not too long for it.",
            status_code=status,
            named=named,
        )


_NOT_JSON = (
    "answered with something that is not a valid reply",
    "Check that the address is that of an OpenAI-compatible server.",
)


class BadAnswer(Exception):
    """Raised by a `send` that got an answer it cannot use. The words continue "MODEL at ADDRESS ..."."""

    def __init__(
        self, words: str = _NOT_JSON[0], remedy: str = _NOT_JSON[1], cause: CallCause = "invalid_output"
    ) -> None:
        super().__init__(words)
        self.remedy = remedy
        self.cause: CallCause = cause


def _is_tls(error: BaseException | None) -> bool:
    """Whether a failed handshake is behind an error."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


def token_count(said: Any) -> int | None:
    """A number of tokens a server gives; None where it gives none, or one that cannot be."""
    is_number = isinstance(said, int) and not isinstance(said, bool)
    return said if is_number and 0 <= said <= _MOST_TOKENS else None


def _code(error: openai.APIError) -> str:
    """The server's error code where it is a plain identifier, which holds neither key nor text."""
    code = error.code or error.type
    return f", {code}" if code and re.fullmatch(r"[a-z][a-z_]{2,40}", code) else ""


def _retry_after(response: httpx2.Response) -> float | None:
    """Seconds the server asks to wait, from `retry-after-ms` or `Retry-After` (seconds or a date)."""
    with contextlib.suppress(KeyError, ValueError):
        return max(0.0, float(response.headers["retry-after-ms"]) / 1000)
    value = response.headers.get("retry-after")
    if value is None:
        return None
    with contextlib.suppress(ValueError):
        return max(0.0, float(value))
    with contextlib.suppress(ValueError, TypeError):
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    return None


_lock = threading.Lock()
_connections: dict[Endpoint, Connection] = {}


def connect(endpoint: Endpoint) -> Connection:
    """The connection to an endpoint, made once. Makes no call."""
    with _lock:
        if endpoint not in _connections:
            _connections[endpoint] = Connection(endpoint)
        return _connections[endpoint]


def _forget_connections() -> None:
    # The sockets and the loop of a forked process belong to its parent.
    global _lock
    _lock = threading.Lock()
    _connections.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_connections)


def close_connections() -> None:
    """Closes every client. A model used afterwards needs a new connection."""
    with _lock:
        closing = list(_connections.values())
        _connections.clear()
    for connection in closing:
        loop.run(connection.client.close())
