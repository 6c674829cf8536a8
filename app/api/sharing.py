"""Sharing what one owns with every other user."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from app.api import problems
from app.api.answers import Bench, answer
from app.api.schemas import Body

router = APIRouter(prefix="/sharing", tags=["sharing"])


class SharingBody(Body):
    kind: Literal["document", "question set", "experiment"]
    id: str = Field(pattern="^[0-9A-Za-z_-]{1,64}$")
    shared: bool = True
    """Whether every user may read it. Only its owner changes it either way."""


class Sharing(BaseModel):
    """Whether something of the user's own is shared."""

    kind: str
    id: str
    shared: bool


@router.post("", response_model=Sharing, responses=problems.responses(400, 401, 403, 404, 413, 422))
async def share(bench: Bench, body: SharingBody) -> Response:
    """Let every user read a document, question set or experiment of one's own, or no longer."""

    def shared() -> Sharing:
        bench.share(body.kind, body.id, body.shared)
        return Sharing(kind=body.kind, id=body.id, shared=bench.ownership(body.kind, body.id).shared)

    return await answer(shared)
