"""What a supervisor asks: /live, /ready and /metrics, beside the API and the dashboard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from app.api import metrics, problems
from app.api.middleware import Guard
from engine import UserError
from engine.settings import Settings
from engine.workbench import Workbench


def routes(settings: Settings, workbench: Callable[[], Workbench]) -> list[Route]:
    async def live(_: Request) -> Response:
        """200 while the process answers at all."""
        return JSONResponse({"live": True})

    async def ready(_: Request) -> Response:
        """200 when index and database answer, 503 with the reason when one does not."""
        try:
            health = await asyncio.to_thread(workbench().health)
        except UserError as error:
            return JSONResponse({"ready": False, "reason": error.message}, status_code=503)
        return JSONResponse({"ready": True, **health})

    async def numbers(_: Request) -> Response:
        """Jobs, model calls, tokens, dollars and latencies, for Prometheus. Needs a key where the API does."""
        try:
            page = await asyncio.to_thread(lambda: metrics.page(workbench()))
        except UserError as error:
            return problems.of(error)
        return PlainTextResponse(page, headers={"Content-Type": metrics.MEDIA_TYPE})

    return [
        Route("/live", live),
        Route("/ready", ready),
        Route("/metrics", numbers, middleware=[Middleware(Guard, settings=settings)]),
    ]
