"""Routes for documents: create, upload, complete, list, get, cancel, retry and delete them."""

import asyncio
import hashlib
import os
import re
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import APIRouter, Depends, Form, Header, Query, Request, Response
from fastapi import UploadFile as FormFile
from pydantic import ValidationError
from sqlalchemy import Connection

from llm_ocr.service import documents as repository
from llm_ocr.service.access import Access, Scope
from llm_ocr.service.documents import (
    NewDocument,
    NewFile,
    QuotaError,
    StoredDocument,
    StoredFile,
    document_folder,
    insert_document,
    list_documents,
    load_document,
    mark_queued,
    mark_queued_again,
    new_document_id,
)
from llm_ocr.service.fetching import check_urls
from llm_ocr.service.gateway.context import (
    DocumentId,
    Gateway,
    GatewayDep,
    ReadAccess,
    WriteAccess,
    check_query_parameters,
    webhook_policy,
)
from llm_ocr.service.gateway.idempotency import ClaimedKey, StoredResponse, claim_key, hash_request
from llm_ocr.service.gateway.models import (
    DocumentDetails,
    DocumentList,
    FileToFetch,
    FileToUpload,
    Line,
    Manifest,
    RetryRequest,
    UploadForm,
    document_details,
    document_summary,
)
from llm_ocr.service.gateway.problems import Problem, problem_responses
from llm_ocr.service.pipelines import Pipeline, load_pipeline, save_pipeline
from llm_ocr.service.schema import FINISHED_STATES, DocumentState
from llm_ocr.service.settings import ServiceSettings
from llm_ocr.service.uploads import CheckedFiles, check_size
from llm_ocr.service.webhooks import check_webhook_url

# Maximum of `Prefer: wait` in seconds: many proxies time out after that.
MAX_WAIT_SECONDS = 60
_ID = "^doc_[0-9a-hjkmnp-tv-z]{26}$"
_PREFER = re.compile(r"(?:.*[,;]\s*)?wait=(\d{1,6})\b.*")

IdempotencyKey = Annotated[
    str | None,
    Header(
        description="Up to 255 characters. A request that is repeated with the same key takes "
        "effect once, and gets the same response.",
        examples=["8e03978e-40d5-43dd-bc93-6894a57f9324"],
    ),
]

_Accepted = TypeVar("_Accepted")

router = APIRouter(
    prefix="/v1",
    tags=["documents"],
    dependencies=[Depends(check_query_parameters)],
    responses=problem_responses(401, 403, 422, 503),
)


@router.post(
    "/documents",
    status_code=202,
    response_model=DocumentDetails,
    responses=problem_responses(409, 413, 429),
)
def create_document(
    request: Request,
    gateway: GatewayDep,
    access: WriteAccess,
    manifest: Manifest,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Create a document. Then upload each file as its `upload` says, and `:complete` the document.
    Files given by URL are fetched by the service, which then queues the document itself."""
    pipeline = _choose_pipeline(gateway, manifest.type, manifest.pipeline)
    _check_webhook(gateway, manifest.webhook)
    urls = [file.url for file in manifest.files if isinstance(file, FileToFetch)]
    check_urls(urls, gateway.settings)
    entries: Sequence[FileToUpload | FileToFetch] = manifest.files
    files = [_new_file(entry, position, gateway.settings) for position, entry in enumerate(entries)]
    new = NewDocument(
        manifest.name or files[0].name,
        files,
        pipeline.name,
        pipeline.revision,
        manifest.type,
        manifest.priority,
        manifest.metadata,
        manifest.webhook,
    )
    request_hash = hash_request("POST", "/v1/documents", manifest.model_dump(mode="json"))
    claimed = claim_key(gateway.database, access.tenant, idempotency_key, request_hash)
    if isinstance(claimed, StoredResponse):
        return _replay(claimed)
    try:
        save_pipeline(gateway.database, pipeline)
        with gateway.database.begin() as connection:
            document = insert_document(connection, access.tenant, new_document_id(), new)
            return _accepted_response(connection, request, gateway, claimed, document)
    except BaseException:
        claimed.release(gateway.database)
        raise


@router.post(
    "/documents:upload",
    status_code=202,
    response_model=DocumentDetails,
    responses={
        200: {"model": DocumentDetails, "description": "The document finished within `wait`."},
        **problem_responses(409, 411, 413, 429),
    },
)
async def upload_document(
    request: Request,
    gateway: GatewayDep,
    access: WriteAccess,
    form: Annotated[UploadForm, Form(media_type="multipart/form-data")],
    idempotency_key: IdempotencyKey = None,
    prefer: Annotated[
        str | None, Header(description="`wait=30`: wait up to 30 s for the result (at most 60 s).")
    ] = None,
) -> Response:
    """Create and queue a document of up to 32 MB in one request."""
    pipeline = _choose_pipeline(gateway, form.type, form.pipeline)
    _check_webhook(gateway, form.webhook)
    try:
        metadata = form.parsed_metadata
    except ValidationError as error:
        detail = error.errors()[0]["msg"]
        raise Problem(422, "invalid_request", f"body.metadata: {detail}") from error
    files = [await asyncio.to_thread(inspect_file, file) for file in form.files]
    payload = form.model_dump(mode="json", exclude={"files"})
    request_hash = hash_request(
        "POST", "/v1/documents:upload", [payload, [vars(file) for file in files]]
    )
    claimed = await asyncio.to_thread(
        claim_key, gateway.database, access.tenant, idempotency_key, request_hash
    )
    if isinstance(claimed, StoredResponse):
        response = _replay(claimed)
    else:
        new = NewDocument(
            files[0].name,
            files,
            pipeline.name,
            pipeline.revision,
            form.type,
            form.priority,
            metadata,
            form.webhook,
        )
        try:
            response = await create_from_upload(
                gateway,
                access,
                new,
                form.files,
                lambda connection, document: _accepted_response(
                    connection, request, gateway, claimed, document
                ),
            )
        except BaseException:
            await asyncio.to_thread(claimed.release, gateway.database)
            raise
    seconds = _parse_prefer(prefer)
    if seconds is None:
        return response
    document_id = response.headers["Location"].rpartition("/")[2]
    await gateway.changes.wait_until_finished(access.tenant, document_id, seconds)
    document = await asyncio.to_thread(load_document, gateway.database, access.tenant, document_id)
    headers = {"Location": response.headers["Location"], "Preference-Applied": f"wait={seconds}"}
    status = 200 if document.state in FINISHED_STATES else 202
    return _json_response(document_details(document, {}), status, headers)


@router.post(
    "/documents/{document_id}:complete",
    response_model=DocumentDetails,
    responses=problem_responses(404, 409, 410, 413, 429),
)
async def complete_document(
    gateway: GatewayDep, access: WriteAccess, document_id: DocumentId
) -> DocumentDetails:
    """Check the uploaded files and queue the document. Repeated requests have no effect."""
    document = await gateway.uploads.complete(access.tenant, document_id)
    return document_details(document, {})


@router.get("/documents", response_model=DocumentList)
def get_documents(
    gateway: GatewayDep,
    access: ReadAccess,
    state: DocumentState | None = None,
    type: Annotated[Line | None, Query()] = None,
    parent: Annotated[
        str | None,
        Query(pattern=_ID, description="Only documents that were split from this one."),
    ] = None,
    cursor: Annotated[
        str | None,
        Query(
            pattern=_ID,
            description="The `next_cursor` of the previous page.",
        ),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> DocumentList:
    """List documents, newest first."""
    found = list_documents(
        gateway.database,
        access.tenant,
        state=state,
        type_=type,
        parent=parent,
        before=cursor,
        limit=limit + 1,
    )
    shown = found[:limit]
    return DocumentList(
        documents=[document_summary(document) for document in shown],
        next_cursor=shown[-1].id if len(found) > limit else None,
    )


@router.get(
    "/documents/{document_id}",
    response_model=DocumentDetails,
    responses=problem_responses(404, 410),
)
def get_document(
    request: Request, gateway: GatewayDep, access: ReadAccess, document_id: DocumentId
) -> DocumentDetails:
    """Get a document: its state, progress, steps, files, cost and error."""
    document = load_document(gateway.database, access.tenant, document_id)
    # A read-only key gets no upload URLs.
    may_upload = access.allows(Scope.WRITE)
    base_url = gateway.base_url(request)
    targets = gateway.uploads.upload_targets(document, base_url) if may_upload else {}
    return document_details(document, targets)


@router.delete(
    "/documents/{document_id}", status_code=204, responses=problem_responses(404, 409, 410)
)
def delete_document(gateway: GatewayDep, access: WriteAccess, document_id: DocumentId) -> None:
    """Delete a document with its files and its result. Cancel it first if it is being processed."""
    repository.delete_document(gateway.database, access.tenant, document_id)


@router.post(
    "/documents/{document_id}:cancel",
    response_model=DocumentDetails,
    responses=problem_responses(404, 409, 410),
)
def cancel_document(
    gateway: GatewayDep, access: WriteAccess, document_id: DocumentId
) -> DocumentDetails:
    """Cancel a document: at once, or between two pages if a worker is processing it."""
    return document_details(
        repository.cancel_document(gateway.database, access.tenant, document_id), {}
    )


@router.post(
    "/documents/{document_id}:retry",
    status_code=202,
    response_model=DocumentDetails,
    responses=problem_responses(404, 409, 410, 413),
)
def retry_document(
    request: Request,
    gateway: GatewayDep,
    access: WriteAccess,
    document_id: DocumentId,
    body: RetryRequest | None = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Queue a finished document again: its failed items, or everything from a step on."""
    from_step = body.from_step if body is not None else None
    request_hash = hash_request("POST", f"/v1/documents/{document_id}:retry", from_step)
    document = load_document(gateway.database, access.tenant, document_id)
    if from_step is not None:
        row = document.row
        pipeline = load_pipeline(gateway.database, row["pipeline"], row["pipeline_revision"])
        names = pipeline.steps_of(is_child=row["parent"] is not None)
        if from_step not in names:
            detail = (
                f"the document {document_id} has no step {from_step!r} in the pipeline "
                f"{row['pipeline']}; use one of {', '.join(names)}"
            )
            if from_step in pipeline.step_names and row["parent"] is not None:
                detail += f", or retry {row['parent']}, from which it was split"
            raise Problem(422, "unknown_step", detail, step=from_step)
    claimed = claim_key(gateway.database, access.tenant, idempotency_key, request_hash)
    if isinstance(claimed, StoredResponse):
        return _replay(claimed)
    try:
        with gateway.database.begin() as connection:
            document = mark_queued_again(connection, access.tenant, document_id, from_step)
            return _accepted_response(connection, request, gateway, claimed, document)
    except BaseException:
        claimed.release(gateway.database)
        raise


async def create_from_upload(
    gateway: Gateway,
    access: Access,
    new: NewDocument,
    uploads: Sequence[FormFile],
    accept: Callable[[Connection, StoredDocument], _Accepted],
) -> _Accepted:
    """Store and check the files of a new document, then create and queue it. `accept` is called in
    the same transaction; returns its result."""
    document_id = new_document_id()
    folder = document_folder(access.tenant, document_id)
    paths = [f"{folder}/files/{position}" for position in range(len(uploads))]
    stored = [
        StoredFile(position, *(file.name, path, file.size, file.sha256), None, None, None)
        for position, (file, path) in enumerate(zip(new.files, paths, strict=True))
    ]

    def insert(checked: CheckedFiles) -> _Accepted:
        save_pipeline(gateway.database, _choose_pipeline(gateway, new.type, new.pipeline))
        with gateway.database.begin() as connection:
            insert_document(connection, access.tenant, document_id, new)
            document = mark_queued(
                connection, access.tenant, document_id, checked.columns, checked.page_count
            )
            return accept(connection, document)

    try:
        for uploaded, path in zip(uploads, paths, strict=True):
            await asyncio.to_thread(gateway.uploads.put, path, uploaded.file)
        checked = await gateway.uploads.check(stored)
    except BaseException:
        await asyncio.to_thread(gateway.store.delete, paths)
        raise
    try:
        return await asyncio.to_thread(insert, checked)
    except (Problem, QuotaError):
        await asyncio.to_thread(gateway.store.delete, paths)
        raise
    # After other errors, or if this request was cancelled, the document may exist: the connection
    # may have been lost after the commit. Then its files are needed.


def inspect_file(file: FormFile) -> NewFile:
    """The name, size and SHA-256 of an uploaded file, whose content is on disk if it is large."""
    digest = hashlib.file_digest(file.file, "sha256")  # type: ignore[arg-type]
    size = file.file.seek(0, os.SEEK_END)
    file.file.seek(0)
    name = re.sub(r"[\x00-\x1f\x7f]", "", file.filename or "")[:255] or "document"
    return NewFile(name, size, digest.hexdigest(), None)


def _new_file(
    file: FileToUpload | FileToFetch, position: int, settings: ServiceSettings
) -> NewFile:
    """A file of a manifest. Raises UploadError."""
    if isinstance(file, FileToFetch):
        return NewFile(file.name or f"file-{position + 1}", url=file.url)
    check_size(file.name, file.size, settings)
    return NewFile(file.name, file.size, file.sha256, file.content_type)


def _choose_pipeline(gateway: Gateway, type_: str | None, name: str | None) -> Pipeline:
    if name is not None:
        return gateway.pipelines.by_name(name)
    return gateway.pipelines.for_type(type_)


def _check_webhook(gateway: Gateway, url: str | None) -> None:
    if url is not None:
        check_webhook_url(url, webhook_policy(gateway.settings))


def _accepted_response(
    connection: Connection,
    request: Request,
    gateway: Gateway,
    claimed: ClaimedKey,
    document: StoredDocument,
) -> Response:
    """The 202 response with the document, saved for repetitions of the request."""
    base_url = gateway.base_url(request)
    details = document_details(document, gateway.uploads.upload_targets(document, base_url))
    headers = {"Location": f"{base_url}/v1/documents/{document.id}"}
    claimed.save_response(connection, StoredResponse(202, headers, details.model_dump_json()))
    return _json_response(details, 202, headers)


def _json_response(details: DocumentDetails, status: int, headers: dict[str, str]) -> Response:
    return Response(details.model_dump_json(), status, headers, "application/json")


def _replay(stored: StoredResponse) -> Response:
    headers = {**stored.headers, "Idempotency-Replayed": "true"}
    return Response(stored.body, stored.status, headers, "application/json")


def _parse_prefer(value: str | None) -> int | None:
    """The seconds of `Prefer: wait=30` (RFC 7240), at most `MAX_WAIT_SECONDS`; None without it."""
    matched = _PREFER.fullmatch(value or "")
    return None if matched is None else min(int(matched[1]), MAX_WAIT_SECONDS)
