"""Question sets: create, list, validate."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, File, Query, Request, UploadFile
from starlette.responses import Response

from app.api import problems
from app.api.answers import Bench, Id, Page, Pages, address, answer
from app.api.schemas import QuestionSetBody, Validation
from engine.records import QuestionSet
from engine.store import QuestionSetInfo
from engine.workbench import Workbench

router = APIRouter(prefix="/question-sets", tags=["question sets"])


@router.post(
    "",
    status_code=201,
    response_model=QuestionSet,
    responses=problems.responses(400, 401, 404, 413, 422),
)
async def create(request: Request, bench: Bench, body: QuestionSetBody) -> Response:
    """Store questions and find their evidence in the documents. The same content has the same id."""
    data = json.dumps({"name": body.name, "questions": body.questions}).encode()
    return await answer(
        lambda: bench.add_question_set(data, f"{body.name}.json", body.document_ids),
        201,
        location=lambda found: address(request, f"/question-sets/{found.question_set_id}"),
    )


@router.post(
    "/file",
    status_code=201,
    response_model=QuestionSet,
    responses=problems.responses(400, 401, 413, 422),
)
async def upload(
    request: Request,
    bench: Bench,
    file: Annotated[UploadFile, File(description="JSON, JSON Lines or CSV.")],
    document_ids: Annotated[
        list[str] | None, Query(max_length=1000, description="Where the evidence is looked for; all when left out.")
    ] = None,
) -> Response:
    """The same from a file."""
    data, name = await file.read(), file.filename or "questions.json"
    return await answer(
        lambda: bench.add_question_set(data, name, document_ids),
        201,
        location=lambda found: address(request, f"/question-sets/{found.question_set_id}"),
    )


@router.get("", response_model=Page[QuestionSetInfo], responses=problems.responses(401, 422))
async def list_question_sets(bench: Bench, page: Pages) -> Response:
    """All question sets, newest first."""
    return await answer(lambda: page.of(bench.question_sets()))


@router.get("/{question_set_id}", response_model=QuestionSet, responses=problems.responses(401, 404, 422))
async def get_question_set(bench: Bench, question_set_id: Id) -> Response:
    """A question set with its questions and where their evidence stands."""
    return await answer(lambda: bench.question_set(question_set_id))


@router.post("/{question_set_id}/validate", response_model=Validation, responses=problems.responses(401, 404, 422))
async def validate(bench: Bench, question_set_id: Id) -> Response:
    """Look the evidence up again in the documents there are now, and say what would make the numbers wrong."""
    return await answer(lambda: _validation(bench, question_set_id))


def _validation(workbench: Workbench, question_set_id: str) -> Validation:
    question_set = workbench.resolve_question_set(question_set_id)
    findings = list(workbench.check_question_set(question_set_id))
    usable = not any(found.severity == "error" for found in findings)
    return Validation(question_set=question_set, usable=usable, findings=findings)
