"""Question sets: create, draft, list, validate, choose among copies of a quote."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, File, Query, Request, UploadFile
from starlette.responses import Response

from app.api import jobs, problems
from app.api.answers import Bench, Id, Page, Pages, RespondAsync, address, answer, dumped, patient
from app.api.schemas import CopyBody, DraftBody, QuestionSetBody, Validation
from engine.providers.estimate import CallsEstimate
from engine.records import QuestionSet
from engine.store import QuestionSetInfo
from engine.workbench import Workbench

router = APIRouter(prefix="/question-sets", tags=["question sets"])

Documents = Annotated[
    list[str] | None, Query(max_length=1000, description="Where the evidence is looked for; all when left out.")
]


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
    document_ids: Documents = None,
) -> Response:
    """The same from a file."""
    data, name = await file.read(), file.filename or "questions.json"
    return await answer(
        lambda: bench.add_question_set(data, name, document_ids),
        201,
        location=lambda found: address(request, f"/question-sets/{found.question_set_id}"),
    )


@router.post(
    "/draft",
    status_code=201,
    response_model=QuestionSet,
    responses={
        200: {
            "model": CallsEstimate | None,
            "description": "What drafting with the model would call and cost; null without a chat model.",
        },
        202: {"model": jobs.JobView},
        **problems.responses(400, 401, 404, 409, 422, 429, 502),
    },
)
async def draft(
    request: Request,
    bench: Bench,
    body: DraftBody,
    respond_async: RespondAsync,
    dry_run: Annotated[
        bool, Query(description="Only estimate what the model would be called for and cost. Calls no model.")
    ] = False,
) -> Response:
    """Draft questions from documents, by rules or with the chat model, and store them as a set to be reviewed."""
    chosen = body.document_ids or [each.document_id for each in await patient(bench.documents)]
    if dry_run:
        cost = await patient(bench.draft_estimate, chosen, body.count, body.seed)
        return Response(dumped(cost), media_type="application/json")

    def work() -> QuestionSet:
        if body.with_model:
            return bench.draft_with_model(chosen, body.count, body.seed).question_set
        return bench.draft_question_set(chosen, body.count, body.seed)

    if respond_async:
        return jobs.begin(request, "draft", work)
    drafted = await patient(work)
    headers = {"Location": address(request, f"/question-sets/{drafted.question_set_id}")}
    return Response(dumped(drafted), 201, headers, media_type="application/json")


@router.get("", response_model=Page[QuestionSetInfo], responses=problems.responses(401, 422))
async def list_question_sets(bench: Bench, page: Pages) -> Response:
    """All question sets, newest first."""
    return await answer(lambda: page.of(bench.question_sets()))


@router.get("/{question_set_id}", response_model=QuestionSet, responses=problems.responses(401, 404, 422))
async def get_question_set(bench: Bench, question_set_id: Id) -> Response:
    """A question set with its questions and where their evidence stands."""
    return await answer(lambda: bench.question_set(question_set_id))


@router.post("/{question_set_id}/validate", response_model=Validation, responses=problems.responses(400, 401, 404, 422))
async def validate(bench: Bench, question_set_id: Id, document_ids: Documents = None) -> Response:
    """Look the evidence up again in the documents there are now, and say what would make the numbers wrong."""
    return await answer(lambda: _validation(bench, question_set_id, document_ids))


@router.post(
    "/{question_set_id}/copy", response_model=QuestionSet, responses=problems.responses(400, 401, 403, 404, 422)
)
async def choose_copy(bench: Bench, question_set_id: Id, body: CopyBody) -> Response:
    """Say which place of a quote that stands in several is the evidence. The set keeps its id."""
    return await answer(lambda: bench.choose_copy(question_set_id, body.question_id, body.evidence, body.place))


def _validation(workbench: Workbench, question_set_id: str, document_ids: list[str] | None) -> Validation:
    question_set = workbench.resolve_question_set(question_set_id, document_ids)
    findings = list(workbench.check_question_set(question_set.question_set_id))
    usable = not any(found.severity == "error" for found in findings)
    return Validation(question_set=question_set, usable=usable, findings=findings)
