"""`python -m app`: one process that serves the dashboard and the REST API; with `--api-only`, the API alone."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount

from app import logs, runtime, warm
from app.api import PREFIX, create_api, health, jobs
from engine import UserError
from engine.errors import BadSetting
from engine.settings import Settings, load_settings

SCRIPT = Path(__file__).with_name("streamlit_app.py")
LONGEST_GOODBYE = 10
"""Seconds that requests may go on after the process was asked to stop. A benchmark is kept and resumes with the next start."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until stopped. Returns 1 for what a reader can fix."""
    parser = argparse.ArgumentParser(
        prog="python -m app", description="Serve the dashboard and the REST API on HOST and PORT."
    )
    parser.add_argument("--api-only", action="store_true", help="serve the REST API without the dashboard")
    options = parser.parse_args(arguments)
    try:
        settings = load_settings()
        logs.configure(settings.log_level)
        check_address(settings)
        if not options.api_only:
            check_sign_in(settings)
        runtime.workbench(settings)
    except UserError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    try:
        serve_api(settings) if options.api_only else serve_all(settings)
    finally:
        runtime.close()
    return 0


def check_address(settings: Settings) -> None:
    """Raises BadSetting when other machines would reach an API without keys."""
    if not settings.is_local and not settings.known_api_keys:
        raise BadSetting(
            f"HOST is {settings.host}, which other machines can reach, and API_KEYS is not set. Nothing was started. "
            "Run `python -m engine api-key NAME` and put the line it prints into .env, or set HOST=127.0.0.1. "
            "The keys protect the REST API; put a proxy with sign-in in front of the dashboard, or leave it out with --api-only."
        )


def check_sign_in(settings: Settings) -> None:
    """Raises BadSetting when sign-in is configured in a way that lets nobody in, or that leaves the API beside it open."""
    from app import sign_in

    if sign_in.providers() and not settings.known_api_keys and settings.api_user_header is None:
        raise BadSetting(
            "Sign-in is configured, but the REST API would answer without it: neither API_KEYS nor API_USER_HEADER is set. Nothing was started. "
            "Run `python -m engine api-key NAME` and put the line it prints into .env."
        )


def routes(settings: Settings) -> list[BaseRoute]:
    """What is served beside the dashboard."""
    return [*health.routes(settings, runtime.workbench), Mount(PREFIX, create_api(settings, runtime.workbench))]


def build_api(settings: Settings) -> Starlette:
    """The API with its health pages, without the dashboard."""
    return Starlette(routes=routes(settings), lifespan=_lifespan(settings))


def build(settings: Settings) -> Any:
    """Dashboard and API as one ASGI app."""
    import streamlit as st

    from app import reconnect

    return st.App(SCRIPT, lifespan=_lifespan(settings, with_pages=True), routes=[*routes(settings), reconnect.route()])


def serve_api(settings: Settings) -> None:
    uvicorn.run(
        build_api(settings),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=LONGEST_GOODBYE,
    )


def serve_all(settings: Settings) -> None:
    from streamlit import config

    options = {
        "server.address": settings.host,
        "server.port": settings.port,
        "server.maxUploadSize": settings.max_upload_mb,
    }
    app = build(settings)
    # What was read before differs from these, which would be reported as a change that needs a restart.
    for name, value in options.items():
        config.set_option(name, value)
    app.run(config=options)


def _lifespan(settings: Settings, with_pages: bool = False) -> Any:
    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        # The server has set up logging of its own by now.
        logs.configure(settings.log_level)
        await asyncio.to_thread(runtime.workbench, settings)
        _hear_stop()
        if with_pages:
            warm.start()
        yield
        await asyncio.to_thread(runtime.close)

    return lifespan


def _hear_stop() -> None:
    """Tell requests that wait when the process is asked to stop; the server's own handlers, which are set by now, follow."""
    jobs.stopping.clear()
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        then = signal.getsignal(number)

        def heard(received: int, frame: FrameType | None, then: Any = then) -> None:
            jobs.stopping.set()
            if callable(then):
                then(received, frame)

        signal.signal(number, heard)


if __name__ == "__main__":
    sys.exit(main())
