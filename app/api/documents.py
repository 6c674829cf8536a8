"""Documents: upload, list, tree, chunks, indexing, deletion."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, File, Query, Request, UploadFile
from starlette.responses import Response

from app.api import jobs, problems
from app.api.answers import Bench, Id, Page, Pages, Paging, RespondAsync, answer, dumped, patient
from app.api.schemas import ChunkPage, DeletionView, EnrichBody, ProcessBody, Processed, UploadResult, specs_of
from engine.errors import BadDocument, UserError
from engine.models import ChunkSet, DocumentInfo, Node, StrategySpec
from engine.providers.estimate import CallsEstimate
from engine.workbench import Workbench


class _Costs(UserError):
    status = 409


router = APIRouter(prefix="/documents", tags=["documents"])


@router.post(
    "",
    status_code=201,
    response_model=UploadResult,
    responses={
        200: {"model": UploadResult, "description": "Everything was there already."},
        **problems.responses(400, 401, 413, 422),
    },
)
async def upload(
    bench: Bench,
    file: Annotated[UploadFile, File(description="A document, or a zip archive of documents.")],
) -> Response:
    """Read a file and store it. Bytes that are known already are stored once; the answer then says `existed` and is 200."""
    data = await file.read()
    result = await patient(_added, bench, data, file.filename or "upload")
    existed = all(each["existed"] for each in result["added"])
    return Response(dumped(result), 200 if existed else 201, media_type="application/json")


@router.get("", response_model=Page[DocumentInfo], responses=problems.responses(401, 422))
async def list_documents(bench: Bench, page: Pages) -> Response:
    """All documents, newest first."""
    return await answer(lambda: page.of(bench.documents()))


@router.get("/{document_id}", response_model=DocumentInfo, responses=problems.responses(401, 404, 422))
async def get_document(request: Request, bench: Bench, document_id: Id) -> Response:
    """One document, without its text and tree."""
    return await answer(lambda: bench.document(document_id).info, unchanging_for=request)


@router.get("/{document_id}/tree", response_model=Node, responses=problems.responses(401, 404, 422))
async def get_tree(request: Request, bench: Bench, document_id: Id) -> Response:
    """Document > sections > articles > paragraphs. Spans are `[start, end)` in code points of the canonical text."""
    return await answer(lambda: bench.document(document_id).tree, unchanging_for=request)


@router.get(
    "/{document_id}/text",
    response_class=Response,
    responses={
        200: {"content": {"text/markdown": {"schema": {"type": "string"}}}},
        **problems.responses(401, 404, 422),
    },
)
async def get_text(bench: Bench, document_id: Id) -> Response:
    """The canonical text that every span refers to."""
    document = await patient(bench.document, document_id)
    return Response(document.text.encode("utf-8", "replace"), media_type="text/markdown; charset=utf-8")


@router.get(
    "/{document_id}/chunks", response_model=ChunkPage, responses=problems.responses(400, 401, 404, 409, 422, 502)
)
async def get_chunks(
    request: Request,
    bench: Bench,
    document_id: Id,
    page: Pages,
    spec: Annotated[
        str,
        Query(max_length=1000, description="As in `recursive:size=256,overlap=32`.", examples=["recursive"]),
    ] = "recursive",
) -> Response:
    """The chunks under a spec. Nothing is indexed, and no model server is called: what would need one is refused until it was processed."""
    return await answer(lambda: _chunks(bench, document_id, bench.written_spec(spec), page), unchanging_for=request)


@router.post(
    "/{document_id}/process",
    response_model=list[Processed],
    responses={202: {"model": jobs.JobView}, **problems.responses(400, 401, 404, 409, 422, 502)},
)
async def process(
    request: Request, bench: Bench, document_id: Id, body: ProcessBody, respond_async: RespondAsync
) -> Response:
    """Cut, embed and index a document under specs. What is done already costs nothing."""
    specs = specs_of(bench, body.specs)
    await patient(bench.document, document_id)

    def work() -> list[Processed]:
        return _processed(bench, document_id, specs)

    if respond_async:
        return jobs.begin(request, "process", work)
    return Response(dumped(await patient(work)), media_type="application/json")


@router.post(
    "/{document_id}/enrich",
    response_model=ChunkPage | CallsEstimate | None,
    responses={202: {"model": jobs.JobView}, **problems.responses(400, 401, 404, 409, 422, 429, 502)},
)
async def enrich(
    request: Request,
    bench: Bench,
    document_id: Id,
    body: EnrichBody,
    respond_async: RespondAsync,
    dry_run: Annotated[
        bool,
        Query(
            description="Only estimate calls, tokens and cost; null without a chat model, or before there are chunks that a model has to make. Calls no model."
        ),
    ] = False,
) -> Response:
    """Let the chat model write a summary and keywords for every chunk under a spec; answers with all chunks. What is embedded stays."""
    (spec,) = specs_of(bench, [body.spec])
    if dry_run:
        return Response(dumped(await patient(bench.enrich_estimate, document_id, spec)), media_type="application/json")
    await patient(bench.document, document_id)

    def work() -> dict[str, Any]:
        return _page(bench.enrich(document_id, spec))

    if respond_async:
        return jobs.begin(request, "enrich", work)
    return Response(dumped(await patient(work)), media_type="application/json")


@router.delete("/{document_id}", response_model=DeletionView, responses=problems.responses(401, 404, 422))
async def delete_document(bench: Bench, document_id: Id) -> Response:
    """Remove a document with its chunks and its original. Experiments that used it stay readable."""
    return await answer(lambda: asdict(bench.delete_document(document_id)))


def _added(workbench: Workbench, data: bytes, name: str) -> dict[str, Any]:
    files = list(workbench.add_files(data, name))
    added = [{"document": each.added.document, "existed": each.added.existed} for each in files if each.added]
    failed = [{"path": each.path, "error": each.error} for each in files if each.error is not None]
    if not added:
        first = failed[0]["error"] if failed else f"{name} holds no documents. Nothing was stored."
        raise BadDocument(str(first))
    return {"added": added, "failed": failed}


def _processed(workbench: Workbench, document_id: str, specs: list[StrategySpec]) -> list[Processed]:
    return [
        Processed(spec=done.chunk_set.spec, chunks=len(done.chunk_set.chunks), reused=done.reused, seconds=done.seconds)
        for done in workbench.index([document_id], specs)
    ]


def _chunks(workbench: Workbench, document_id: str, spec: StrategySpec, page: Pages) -> dict[str, Any]:
    chunk_set = workbench.known_chunks(document_id, spec)
    if chunk_set is None:
        if workbench.cutting_may_cost(spec):
            raise _Costs(
                f"{spec.label} calls a model server, which may cost money, so it is not cut here. POST it to /documents/{document_id}/process first."
            )
        chunk_set = workbench.chunk(document_id, spec)
    return _page(chunk_set, page)


def _page(chunk_set: ChunkSet, page: Paging | None = None) -> dict[str, Any]:
    """The chunks of one page, or all of them."""
    page = page or Paging.model_construct(limit=len(chunk_set.chunks), offset=0)
    return {
        "document_id": chunk_set.document_id,
        "spec": chunk_set.spec,
        "uncovered": chunk_set.uncovered,
        **page.of(chunk_set.chunks),
    }
