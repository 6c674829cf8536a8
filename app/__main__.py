"""`python -m app`: one process that serves the dashboard, the REST API and `/ready`."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import streamlit as st
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from app import runtime
from engine import UserError
from engine.settings import load_settings

SCRIPT = Path(__file__).with_name("streamlit_app.py")


@asynccontextmanager
async def _lifespan(_: st.App) -> AsyncIterator[None]:
    await asyncio.to_thread(runtime.workbench)
    yield
    await asyncio.to_thread(runtime.close)


async def ready(_: Request) -> JSONResponse:
    """200 when index and database answer, 503 with the reason when one does not."""
    try:
        health = await asyncio.to_thread(runtime.workbench().health)
    except UserError as error:
        return JSONResponse({"ready": False, "reason": error.message}, status_code=503)
    return JSONResponse({"ready": True, **health})


def build() -> st.App:
    return st.App(SCRIPT, lifespan=_lifespan, routes=[Route("/ready", ready)])


def main() -> int:
    try:
        settings = load_settings()
        logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
        runtime.workbench()
    except UserError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    build().run(
        config={
            "server.address": settings.host,
            "server.port": settings.port,
            "server.maxUploadSize": settings.max_upload_mb,
        }
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
