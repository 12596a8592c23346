"""Routes of docling-serve's API, as far as its clients use it.

A task is a document: it has the document's id, and can be listed, cancelled and deleted like any
other. Options of docling-serve that this service doesn't support are refused, not ignored.
"""

import asyncio
import base64
import binascii
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Query, Response, UploadFile
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, field_validator, model_validator

from llm_ocr.export.docling_document import docling_document, docling_markdown, docling_text
from llm_ocr.service.access import Access
from llm_ocr.service.documents import (
    NewDocument,
    NewFile,
    StoredDocument,
    create_document,
    document_folder,
    load_document,
)
from llm_ocr.service.fetching import check_urls
from llm_ocr.service.gateway.context import (
    DocumentId,
    Gateway,
    GatewayDep,
    ReadAccess,
    WriteAccess,
    check_query_parameters,
)
from llm_ocr.service.gateway.documents import create_from_upload, inspect_file
from llm_ocr.service.gateway.models import Line, RequestBody, Url
from llm_ocr.service.gateway.problems import Problem, problem_responses
from llm_ocr.service.pipelines import save_pipeline
from llm_ocr.service.results import DOCUMENT_JSON
from llm_ocr.service.schema import DocumentState

# Seconds that a synchronous request waits for its result, and that a poll may wait.
SYNC_SECONDS = 600.0
MAX_POLL_SECONDS = 60.0
# Key in the document's metadata for the options of the result.
OPTIONS = "docling"
_STATUS: Mapping[DocumentState, str] = {
    DocumentState.AWAITING_UPLOAD: "pending",
    DocumentState.QUEUED: "pending",
    DocumentState.PROCESSING: "started",
    DocumentState.NEEDS_REVIEW: "success",
    DocumentState.SPLIT: "started",
    DocumentState.SUCCEEDED: "success",
    DocumentState.PARTIALLY_SUCCEEDED: "success",
    DocumentState.FAILED: "failure",
    DocumentState.CANCELLED: "failure",
}
Text = Annotated[str, Field(max_length=200)]
_NO_EFFECT = "Accepted for compatibility; has no effect."


class _Options(RequestBody):
    """Options of a conversion. Those that have no effect are sent by known clients in each request;
    the pipeline decides instead."""

    to_formats: list[Literal["md", "json", "text"]] = Field(["md"], min_length=1)
    image_export_mode: Literal["placeholder", "embedded", "referenced"] = "embedded"
    abort_on_error: bool = Field(False, description="Treat a failed page as a failed document.")
    return_as_file: bool = Field(False, description="The same as the target `zip`.")
    from_formats: list[Text] | None = Field(None, description=_NO_EFFECT)
    pipeline: Text | None = Field(None, description=_NO_EFFECT)
    do_ocr: bool = True
    force_ocr: bool = Field(False, description=_NO_EFFECT)
    ocr_engine: Text | None = Field(None, description=_NO_EFFECT)
    ocr_preset: Text | None = Field(None, description=_NO_EFFECT)
    ocr_lang: list[Text] | None = Field(None, description=_NO_EFFECT)
    pdf_backend: Text | None = Field(None, description=_NO_EFFECT)
    table_mode: Text | None = Field(None, description=_NO_EFFECT)
    table_cell_matching: bool = Field(True, description=_NO_EFFECT)
    do_table_structure: bool = Field(True, description=_NO_EFFECT)
    do_formula_enrichment: bool = Field(False, description=_NO_EFFECT)
    include_images: bool = Field(True, description=_NO_EFFECT)
    images_scale: float | None = Field(None, description=_NO_EFFECT)
    document_timeout: float | None = Field(None, description=_NO_EFFECT)
    do_code_enrichment: bool = False
    do_picture_classification: bool = False
    do_picture_description: bool = False
    do_chart_extraction: bool = False
    page_range: list[int] | None = None

    @model_validator(mode="before")
    @classmethod
    def _drop_absent(cls, values: Any) -> Any:  # noqa: ANN401
        """Some clients send all options, with null for those that are not set."""
        if not isinstance(values, Mapping):
            return values
        return {name: value for name, value in values.items() if value is not None}

    @field_validator(
        "do_code_enrichment",
        "do_picture_classification",
        "do_picture_description",
        "do_chart_extraction",
    )
    @classmethod
    def _refuse(cls, value: bool) -> bool:
        if value:
            raise ValueError("this option is not supported; leave it out")
        return value

    @field_validator("do_ocr")
    @classmethod
    def _require(cls, value: bool) -> bool:
        if not value:
            raise ValueError("OCR can't be switched off; leave it out")
        return value

    @field_validator("page_range")
    @classmethod
    def _check_pages(cls, value: list[int] | None) -> list[int] | None:
        # Docling's own default is from 1 to 2**63 - 1.
        if value is not None and (len(value) != 2 or value[0] != 1 or value[1] < 2**31):
            raise ValueError("all pages are converted; leave it out")
        return value


class ConvertForm(_Options):
    """A file to convert. (docling-serve also accepts several, and returns a zip.)"""

    files: list[UploadFile] = Field(min_length=1, max_length=1)
    target_type: Literal["inbody", "zip"] = "inbody"


class FileSource(RequestBody):
    """A file within the request."""

    kind: Literal["file"]
    base64_string: str
    filename: Line


class HttpSource(RequestBody):
    """A file that the gateway fetches from a host that the operator has allowed."""

    kind: Literal["http"]
    url: Url
    headers: dict[str, str] = Field(default_factory=dict, max_length=0)


class ConvertTarget(RequestBody):
    """The form of the result."""

    kind: Literal["inbody", "zip"] = "inbody"


class ConvertRequest(RequestBody):
    """A source to convert."""

    options: _Options = Field(default_factory=lambda: _Options.model_validate({}))
    sources: list[Annotated[FileSource | HttpSource, Field(discriminator="kind")]] = Field(
        min_length=1, max_length=1
    )
    target: ConvertTarget = ConvertTarget()


class TaskStatus(BaseModel):
    """The status of a document as a task of docling-serve."""

    task_id: str
    task_type: Literal["convert"] = "convert"
    task_status: Literal["pending", "started", "success", "failure"]
    task_position: int | None = None
    task_meta: dict[str, int] | None = None
    error_message: str | None = None


class ExportedDocument(BaseModel):
    """The result in the requested formats."""

    filename: str
    md_content: str | None = None
    json_content: dict[str, Any] | None = None
    html_content: None = None
    text_content: str | None = None
    doctags_content: None = None


class ConvertResult(BaseModel):
    """The result of a document that succeeded or partially succeeded; `processing_time` in
    seconds."""

    document: ExportedDocument
    status: Literal["success", "partial_success"]
    errors: list[dict[str, Any]]
    processing_time: float
    timings: dict[str, Any]


_RESULT: dict[int | str, dict[str, Any]] = {
    200: {
        "model": ConvertResult,
        "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
        "description": "The result, or a zip of its files.",
    }
}
router = APIRouter(
    prefix="/v1",
    tags=["docling"],
    dependencies=[Depends(check_query_parameters)],
    responses=problem_responses(401, 403, 422, 503),
)
_Sent = Annotated[ConvertForm, Form(media_type="multipart/form-data")]


@router.post("/convert/file", responses={**_RESULT, **problem_responses(409, 411, 413, 429, 504)})
async def convert_file(gateway: GatewayDep, access: WriteAccess, form: _Sent) -> Response:
    """Convert a file and wait for its result. For large documents, use
    `/v1/convert/file/async`."""
    return await _wait_for_result(gateway, access, await _submit_file(gateway, access, form))


@router.post(
    "/convert/file/async",
    response_model=TaskStatus,
    responses=problem_responses(409, 411, 413, 429),
)
async def convert_file_async(gateway: GatewayDep, access: WriteAccess, form: _Sent) -> TaskStatus:
    """Queue a file for conversion."""
    return await _task_status(gateway, access, await _submit_file(gateway, access, form))


@router.post("/convert/source", responses={**_RESULT, **problem_responses(409, 411, 413, 429, 504)})
async def convert_source(
    gateway: GatewayDep, access: WriteAccess, body: ConvertRequest
) -> Response:
    """Convert a file within the request or at a URL, and wait for its result."""
    return await _wait_for_result(gateway, access, await _submit_source(gateway, access, body))


@router.post(
    "/convert/source/async",
    response_model=TaskStatus,
    responses=problem_responses(409, 411, 413, 429),
)
async def convert_source_async(
    gateway: GatewayDep, access: WriteAccess, body: ConvertRequest
) -> TaskStatus:
    """Queue a file within the request or at a URL for conversion."""
    return await _task_status(gateway, access, await _submit_source(gateway, access, body))


@router.get(
    "/status/poll/{document_id}", response_model=TaskStatus, responses=problem_responses(404, 410)
)
async def poll_task(
    gateway: GatewayDep,
    access: ReadAccess,
    document_id: DocumentId,
    wait: Annotated[
        float, Query(ge=0, description="Seconds to wait until it is finished (at most 60).")
    ] = 0.0,
) -> TaskStatus:
    """Get the status of a task."""
    if wait > 0:
        seconds = min(wait, MAX_POLL_SECONDS)
        await gateway.changes.wait_until_finished(access.tenant, document_id, seconds)
    return await _task_status(gateway, access, document_id)


@router.get("/result/{document_id}", responses={**_RESULT, **problem_responses(404, 409, 410)})
async def get_task_result(
    gateway: GatewayDep, access: ReadAccess, document_id: DocumentId
) -> Response:
    """Get the result of a finished task."""
    document = await asyncio.to_thread(load_document, gateway.database, access.tenant, document_id)
    if _STATUS[document.state] in ("pending", "started"):
        problem = f"{document_id} has no result yet: it is {document.state}"
        raise Problem(404, "not_finished", problem, retryable=True)
    return await asyncio.to_thread(_result_response, gateway, document)


async def _submit_file(gateway: Gateway, access: Access, form: ConvertForm) -> str:
    is_zip = form.return_as_file or form.target_type == "zip"
    return await _submit(gateway, access, form.files[0], _choose_options(form, is_zip=is_zip))


async def _submit_source(gateway: Gateway, access: Access, body: ConvertRequest) -> str:
    is_zip = body.options.return_as_file or body.target.kind == "zip"
    chosen = _choose_options(body.options, is_zip=is_zip)
    (source,) = body.sources
    if isinstance(source, HttpSource):
        check_urls([source.url], gateway.settings)
        name = PurePosixPath(source.url.partition("?")[0]).name[:255] or "document"
        new = _new_document(gateway, [NewFile(name, url=source.url)], chosen)
        made = await asyncio.to_thread(create_document, gateway.database, access.tenant, new)
        return made.id
    try:
        content = base64.b64decode(source.base64_string, validate=True)
    except (binascii.Error, ValueError):
        raise Problem(
            422, "invalid_request", "body.sources.0.base64_string: this is not valid base64"
        ) from None
    file = UploadFile(io.BytesIO(content), filename=source.filename)
    return await _submit(gateway, access, file, chosen)


async def _submit(
    gateway: Gateway, access: Access, file: UploadFile, chosen: dict[str, Any]
) -> str:
    """Queue a file; returns the id of its document."""
    inspected = await asyncio.to_thread(inspect_file, file)
    new = _new_document(gateway, [inspected], chosen)
    return await create_from_upload(gateway, access, new, [file], lambda _, document: document.id)


def _new_document(gateway: Gateway, files: list[NewFile], chosen: dict[str, Any]) -> NewDocument:
    pipeline = gateway.pipelines.for_type(None)
    save_pipeline(gateway.database, pipeline)
    metadata = {OPTIONS: chosen}
    return NewDocument(files[0].name, files, pipeline.name, pipeline.revision, metadata=metadata)


def _choose_options(options: _Options, *, is_zip: bool) -> dict[str, Any]:
    """The options that matter for the result, to be saved with the document."""
    if options.image_export_mode == "referenced" and not is_zip:
        problem = "image_export_mode: `referenced` needs a zip; set `return_as_file`"
        raise Problem(422, "invalid_request", problem)
    return {
        "to_formats": list(dict.fromkeys(options.to_formats)),
        "image_export_mode": options.image_export_mode,
        "abort_on_error": options.abort_on_error,
        "is_zip": is_zip,
    }


async def _wait_for_result(gateway: Gateway, access: Access, document_id: str) -> Response:
    await gateway.changes.wait_until_finished(access.tenant, document_id, SYNC_SECONDS)
    document = await asyncio.to_thread(load_document, gateway.database, access.tenant, document_id)
    if _STATUS[document.state] in ("pending", "started"):
        raise Problem(
            504,
            "not_finished",
            f"{document_id} is not finished within {SYNC_SECONDS:g} s; its result will be at "
            f"/v1/result/{document_id}",
            retryable=True,
        )
    return await asyncio.to_thread(_result_response, gateway, document)


async def _task_status(gateway: Gateway, access: Access, document_id: str) -> TaskStatus:
    document = await asyncio.to_thread(load_document, gateway.database, access.tenant, document_id)
    status: Any = _STATUS[document.state]
    if _is_aborted(document):
        status = "failure"
    error = document.row["error"]
    is_over = status in ("success", "failure")
    counts = {
        "num_docs": 1,
        "num_processed": int(is_over),
        "num_succeeded": int(status == "success"),
        "num_failed": int(status == "failure"),
    }
    message = str(document.state) if error is None else str(error.get("message"))
    return TaskStatus(
        task_id=document_id,
        task_status=status,
        task_meta=counts,
        error_message=message if status == "failure" else None,
    )


def _is_aborted(document: StoredDocument) -> bool:
    chosen = document.row["metadata"].get(OPTIONS) or {}
    is_partial = document.state is DocumentState.PARTIALLY_SUCCEEDED
    return is_partial and bool(chosen.get("abort_on_error"))


def _result_response(gateway: Gateway, document: StoredDocument) -> Response:
    """The result in the requested form. Raises Problem for a document without a result: a response
    with status 200 always contains one."""
    row = document.row
    error = row["error"] or {}
    if row["result"] is None or _STATUS[document.state] == "failure" or _is_aborted(document):
        retryable = bool(error.get("retryable", False))
        raise Problem(
            503 if retryable else 422,
            str(error.get("code", document.state)),
            str(error.get("message", f"{document.id} has no result: it is {document.state}")),
            step=error.get("step"),
            page=error.get("page"),
            retryable=retryable,
        )
    chosen = {
        "to_formats": ["md"],
        "image_export_mode": "embedded",
        "is_zip": False,
        **(row["metadata"].get(OPTIONS) or {}),
    }
    folder = f"{document_folder(document.tenant, document.id)}/{row['result']}"
    content = json.loads(gateway.store.get(f"{folder}/{DOCUMENT_JSON}"))

    def address(file: str) -> str | None:
        if chosen["image_export_mode"] == "placeholder":
            return None
        if chosen["image_export_mode"] == "referenced":
            return f"artifacts/{quote(PurePosixPath(file).name)}"
        data = base64.b64encode(gateway.store.get(f"{folder}/{file}")).decode()
        return f"data:image/jpeg;base64,{data}"

    formats = chosen["to_formats"]
    exported = ExportedDocument(
        filename=row["name"],
        md_content=docling_markdown(content, address) if "md" in formats else None,
        text_content=docling_text(content) if "text" in formats else None,
        json_content=docling_document(content, address) if "json" in formats else None,
    )
    if chosen["is_zip"]:
        figures = {}
        if chosen["image_export_mode"] == "referenced":
            figures = {
                figure["file"]: f"{folder}/{figure['file']}" for figure in content["figures"]
            }
        return _zip(gateway, exported, figures)
    is_partial = document.state is DocumentState.PARTIALLY_SUCCEEDED
    failed = [page for page in content["pages"] if page["error"] is not None]
    result = ConvertResult(
        document=exported,
        status="partial_success" if is_partial else "success",
        errors=[
            {
                "component_type": "model",
                "module_name": str(page["error_code"]),
                "error_message": f"page {page['number']}: {page['error']}",
            }
            for page in failed
        ],
        processing_time=(row["finished_at"] - row["started_at"]).total_seconds(),
        timings={},
    )
    return JSONResponse(result.model_dump(mode="json"))


def _zip(gateway: Gateway, exported: ExportedDocument, figures: Mapping[str, str]) -> Response:
    """A zip of the files of a result, named after the document."""
    stem = PurePosixPath(exported.filename).stem or "document"
    contents = {"md": exported.md_content, "txt": exported.text_content}
    if exported.json_content is not None:
        contents["json"] = json.dumps(exported.json_content, ensure_ascii=False)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for suffix, text in contents.items():
            if text is not None:
                archive.writestr(f"{stem}.{suffix}", text)
        for name, path in figures.items():
            archive.writestr(f"artifacts/{PurePosixPath(name).name}", gateway.store.get(path))
    headers = {"Content-Disposition": 'attachment; filename="converted_docs.zip"'}
    return Response(buffer.getvalue(), 200, headers, "application/zip")
