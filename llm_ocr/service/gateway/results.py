"""Routes for a document's events, and for its result, pages and figures."""

import json
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent

from llm_ocr.service.documents import StoredDocument, document_folder, load_document
from llm_ocr.service.gateway.context import (
    DocumentId,
    Gateway,
    GatewayDep,
    ReadAccess,
    check_query_parameters,
)
from llm_ocr.service.gateway.models import child_entries
from llm_ocr.service.gateway.problems import Problem, problem_responses
from llm_ocr.service.gateway.streams import PageProgress
from llm_ocr.service.results import (
    DOCUMENT_JSON,
    DOCUMENT_MARKDOWN,
    FIGURES_FOLDER,
    PAGES_PARQUET,
    page_image_path,
)
from llm_ocr.service.schema import FINISHED_STATES, DocumentState

CHUNK_BYTES = 1 << 18
# States in which a document has a result.
_HAS_RESULT = (
    DocumentState.SUCCEEDED,
    DocumentState.PARTIALLY_SUCCEEDED,
    # The result of the machine, marked as not reviewed yet.
    DocumentState.NEEDS_REVIEW,
)
_IMAGES = {".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png", ".webp": "image/webp"}
_BINARY = {"schema": {"type": "string", "format": "binary"}}
MAX_ID = 2**63 - 1


class ResultFormat(StrEnum):
    """The format of a result."""

    JSON = "json"
    MARKDOWN = "markdown"
    PARQUET = "parquet"


_FILES: Mapping[ResultFormat, tuple[str, str]] = {
    ResultFormat.JSON: (DOCUMENT_JSON, "application/json"),
    ResultFormat.MARKDOWN: (DOCUMENT_MARKDOWN, "text/markdown; charset=utf-8"),
    ResultFormat.PARQUET: (PAGES_PARQUET, "application/vnd.apache.parquet"),
}

router = APIRouter(
    prefix="/v1/documents/{document_id}",
    tags=["results"],
    dependencies=[Depends(check_query_parameters)],
    responses=problem_responses(401, 403, 404, 410, 422, 503),
)


def load_with_result(
    document_id: DocumentId, gateway: GatewayDep, access: ReadAccess
) -> StoredDocument:
    """Load a document that has a result. Raises Problem if it has none, with the reason."""
    document = load_document(gateway.database, access.tenant, document_id)
    if document.state in _HAS_RESULT and document.row["result"] is not None:
        return document
    error = document.row["error"]
    if document.state is DocumentState.FAILED and error is not None:
        raise Problem(
            409,
            str(error.get("code", "failed")),
            str(error.get("message", "the document has failed")),
            step=error.get("step"),
            page=error.get("page"),
            retryable=bool(error.get("retryable", False)),
        )
    if document.state in FINISHED_STATES:
        raise Problem(409, "no_result", f"{document_id} has no result: it is {document.state}")
    raise Problem(
        409,
        "not_finished",
        f"{document_id} has no result yet: it is {document.state}",
        retryable=True,
        headers={"Retry-After": "2"},
    )


DocumentWithResult = Annotated[StoredDocument, Depends(load_with_result)]


def load_existing(
    document_id: DocumentId, gateway: GatewayDep, access: ReadAccess
) -> StoredDocument:
    """Load a document before its stream begins: later, a 404 couldn't be sent any more."""
    return load_document(gateway.database, access.tenant, document_id)


@router.get("/events", response_class=EventSourceResponse)
async def stream_events(
    gateway: GatewayDep,
    access: ReadAccess,
    document: Annotated[StoredDocument, Depends(load_existing)],
    last_event_id: Annotated[
        int, Header(ge=0, le=MAX_ID, description="Id of the last event that you have received.")
    ] = 0,
) -> AsyncIterable[ServerSentEvent]:
    """Stream a document's server-sent events: `document.STATE` with an id at each change of state,
    and `progress` in between. The stream ends when the document is finished."""
    async for change in gateway.changes.follow(access.tenant, document.id, last_event_id):
        if isinstance(change, PageProgress):
            yield ServerSentEvent(data=vars(change), event="progress")
        else:
            yield ServerSentEvent(data=change.data, event=change.type, id=str(change.id))


@router.get(
    "/result",
    response_class=Response,
    responses={
        200: {
            "description": "The result in the requested format.",
            "content": {
                "application/json": {"schema": {"type": "object"}},
                "text/markdown": {"schema": {"type": "string"}},
                "application/vnd.apache.parquet": _BINARY,
            },
        },
        **problem_responses(409),
    },
)
async def get_result(
    gateway: GatewayDep,
    document: DocumentWithResult,
    format: ResultFormat = ResultFormat.JSON,
    reviewed: Annotated[
        bool, Query(description="false: the result of the machine, without corrections.")
    ] = True,
) -> Response:
    """Get the result: JSON with records, pages and blocks, Markdown, or a Parquet file of pages."""
    name, content_type = _FILES[format]
    if format is ResultFormat.JSON and reviewed:
        name = document.row["approved_file"] or name
    if format is ResultFormat.JSON and document.children:
        content = await gateway.read(_load_parent, gateway, document)
        return Response(json.dumps(content, ensure_ascii=False), media_type=content_type)
    return await send_object(gateway, _path(document, name), content_type)


@router.get(
    "/pages/{number}",
    response_class=Response,
    responses={
        200: {
            "description": "The page with its Markdown and blocks.",
            "content": {"application/json": {"schema": {"type": "object"}}},
        },
        **problem_responses(409),
    },
)
async def get_page(
    gateway: GatewayDep,
    document: DocumentWithResult,
    number: Annotated[int, Path(ge=1, le=1_000_000)],
) -> Response:
    """Get one page of the result; pages count from 1."""
    page = await gateway.read(_load_page, gateway, document, number)
    return Response(json.dumps(page, ensure_ascii=False), media_type="application/json")


@router.get(
    "/pages/{number}/image",
    response_class=Response,
    responses={
        200: {"description": "The image of the page.", "content": {"image/jpeg": _BINARY}},
        **problem_responses(409),
    },
)
async def get_page_image(
    gateway: GatewayDep,
    document: DocumentWithResult,
    number: Annotated[int, Path(ge=1, le=1_000_000)],
) -> Response:
    """Get the image of a page. Boxes are in pixels of this image."""
    path = _path(document, page_image_path(number))
    return await send_object(gateway, path, "image/jpeg")


@router.get(
    "/figures/{name}",
    response_class=Response,
    responses={
        200: {"description": "The figure.", "content": {"image/*": _BINARY}},
        **problem_responses(409),
    },
)
async def get_figure(gateway: GatewayDep, document: DocumentWithResult, name: str) -> Response:
    """Get a figure by its name in the Markdown."""
    content_type = _IMAGES.get(PurePosixPath(name).suffix.lower())
    if content_type is None or "\\" in name or "\0" in name or PurePosixPath(name).name != name:
        raise _not_found("figure", name)
    return await send_object(gateway, _path(document, f"{FIGURES_FOLDER}/{name}"), content_type)


async def send_object(gateway: Gateway, path: str, content_type: str) -> Response:
    """Stream an object of the storage in chunks. Raises Problem if it doesn't exist."""
    try:
        stored = await gateway.read(gateway.store.stat, path)
        source = await gateway.read(gateway.store.open, path)
    except FileNotFoundError:
        raise _not_found("object", PurePosixPath(path).name) from None

    async def read() -> AsyncIterator[bytes]:
        with source:
            while chunk := await gateway.read(source.read, CHUNK_BYTES):
                yield chunk

    headers = {"Content-Length": str(stored.size), "Cache-Control": "private, no-cache"}
    return StreamingResponse(read(), media_type=content_type, headers=headers)


def _load_page(gateway: Gateway, document: StoredDocument, number: int) -> Any:  # noqa: ANN401
    content = json.loads(gateway.store.get(_path(document, DOCUMENT_JSON)))
    for page in content["pages"]:
        if page["number"] == number:
            return page
    raise _not_found("page", str(number))


def _load_parent(gateway: Gateway, document: StoredDocument) -> Any:  # noqa: ANN401
    """The result of a document that was split, which was written before its children were
    finished."""
    content = json.loads(gateway.store.get(_path(document, DOCUMENT_JSON)))
    children = [child.model_dump(mode="json") for child in child_entries(document)]
    return {**content, "state": document.state, "children": children}


def _path(document: StoredDocument, name: str) -> str:
    return f"{document_folder(document.tenant, document.id)}/{document.row['result']}/{name}"


def _not_found(kind: str, name: str) -> Problem:
    return Problem(404, f"unknown_{kind}", f"this document has no {kind} {name[:100]}")
