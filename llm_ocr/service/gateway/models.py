"""Pydantic models of the API's requests and responses."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from fastapi import UploadFile
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    field_validator,
)

from llm_ocr.service.documents import StoredDocument, StoredFile
from llm_ocr.service.gateway.streams import page_progress
from llm_ocr.service.schema import DocumentState
from llm_ocr.service.uploads import UploadTarget
from llm_ocr.sources.web import redact_url

# The maximum number of files in a multipart body.
MAX_FILES = 1000
# Of a document's metadata as JSON.
MAX_METADATA_BYTES = 16_384
_VISIBLE = r"^[^\x00-\x1f\x7f]+$"
Line = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=_VISIBLE)]
Url = Annotated[str, StringConstraints(max_length=2000, pattern=r"^https?://[!-~]+$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Priority = Annotated[
    int, Field(ge=-100, le=100, description="Higher priorities first, among your documents.")
]

_TIME = "2026-11-23T09:30:00Z"
_MANIFEST: dict[str, Any] = {
    "files": [{"name": "invoice-4711.pdf", "size": 48213}],
    "type": "invoice",
    "metadata": {"order": "4711"},
}
# For the API's description.
DOCUMENT_EXAMPLE: dict[str, Any] = {
    "id": "doc_01k9x2m4n6p8q0r2s4t6v8w0x2",
    "name": "invoice-4711.pdf",
    "state": "processing",
    "type": "invoice",
    "pipeline": "invoice",
    "pipeline_revision": "3f2a9c1d0e8b7a65",
    "priority": 0,
    "metadata": {"order": "4711"},
    "parent": None,
    "page_range": None,
    "progress": {"step": "extract", "pages_done": 1, "pages": 3},
    "attempts": 1,
    "waiting_for": None,
    "timings": {
        "created_at": _TIME,
        "queued_at": _TIME,
        "started_at": _TIME,
        "finished_at": None,
        "expires_at": None,
    },
    "cost": None,
    "error": None,
    "files": [
        {
            "position": 0,
            "name": "invoice-4711.pdf",
            "size": 48213,
            "content_type": "application/pdf",
            "uploaded_at": _TIME,
        }
    ],
    "steps": [],
    "children": [],
}


def _check_metadata(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        size = len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())
    except (ValueError, UnicodeEncodeError):
        raise ValueError("it contains values that JSON can't represent") from None
    if size > MAX_METADATA_BYTES:
        raise ValueError(
            f"it has {size:,} bytes as JSON; at most {MAX_METADATA_BYTES:,} are accepted"
        )
    return value


class RequestBody(BaseModel):
    """Base of request bodies: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class FileToUpload(RequestBody):
    """A file to upload after the document is created; `size` in bytes."""

    name: Line = Field(examples=["invoice-4711.pdf"])
    size: int = Field(ge=1, examples=[48213])
    sha256: Sha256 | None = Field(None, description="Checked when the upload is completed.")
    content_type: Line | None = Field(
        None,
        description="For your information only: the type is detected from the content.",
        examples=["application/pdf"],
    )


class FileToFetch(RequestBody):
    """A file that the gateway fetches from a host that the operator has allowed."""

    url: Url = Field(examples=["https://files.example.com/invoice-4711.pdf"])
    name: Line | None = None


class _DocumentRequest(RequestBody):
    """How a document is processed."""

    type: Line | None = Field(None, description="Selects the pipeline.", examples=["invoice"])
    pipeline: Line | None = Field(
        None, description="Overrides the pipeline of the type.", examples=["invoice"]
    )
    priority: Priority = 0
    webhook: Url | None = Field(
        None,
        description="Called when the document is finished.",
        examples=["https://example.com/hooks/documents"],
    )


class Manifest(_DocumentRequest):
    """A new document: one PDF or TIFF, one image, or several images that are its pages."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_MANIFEST]})

    files: (
        Annotated[list[FileToUpload], Field(min_length=1, max_length=MAX_FILES)]
        | Annotated[list[FileToFetch], Field(min_length=1, max_length=MAX_FILES)]
    )
    name: Line | None = Field(None, description="Default: the first file's name.")
    metadata: dict[str, JsonValue] = Field(
        default_factory=dict, description="Kept with the document.", examples=[{"order": "4711"}]
    )

    _check = field_validator("metadata")(_check_metadata)


def _parse_json(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError("it is not valid JSON") from None


class UploadForm(_DocumentRequest):
    """A small document with its files. `metadata` is a JSON object."""

    files: list[UploadFile] = Field(min_length=1, max_length=MAX_FILES)
    metadata: Annotated[str, Field(examples=['{"order": "4711"}'])] = "{}"

    @property
    def parsed_metadata(self) -> dict[str, JsonValue]:
        return _FormMetadata.model_validate({"metadata": self.metadata}).metadata


class _FormMetadata(RequestBody):
    metadata: Annotated[dict[str, JsonValue], BeforeValidator(_parse_json)]

    _check = field_validator("metadata")(_check_metadata)


class RetryRequest(RequestBody):
    """Which part of a document to process again."""

    from_step: Line | None = Field(
        None,
        description="Run this step and those that depend on it again; default: only failed items.",
        examples=["parse"],
    )


class UploadEntry(BaseModel):
    """The request that uploads a file: exactly these headers, and the file as the body."""

    method: str = Field(examples=["PUT"])
    url: str
    headers: dict[str, str]
    expires_at: datetime


class FileEntry(BaseModel):
    """A file of a document. `upload` is null if the file can't be uploaded any more."""

    position: int
    name: str
    size: int | None = None
    sha256: str | None = None
    content_type: str | None = None
    url: str | None = None
    uploaded_at: datetime | None = None
    upload: UploadEntry | None = None


class StepEntry(BaseModel):
    """The progress of a step. `seconds` is the sum of the durations of its requests to a model."""

    name: str
    state: str
    started_at: datetime | None
    finished_at: datetime | None
    items_done: int
    items_failed: int
    requests: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    model: str | None
    error: dict[str, Any] | None


class ProgressEntry(BaseModel):
    """The progress of a document: its current step, and its pages. `pages` is null until they are
    counted."""

    step: str | None
    pages_done: int
    pages: int | None


class Timings(BaseModel):
    """The times of a document's changes of state."""

    created_at: datetime
    queued_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None


class PageRange(BaseModel):
    """The numbers of the first and last page in the scan."""

    first: int
    last: int


class ChildEntry(BaseModel):
    """A document that was split from another one; its `type` is the class of its pages."""

    id: str
    name: str
    type: str | None
    state: DocumentState
    page_range: PageRange


class DocumentSummary(BaseModel):
    """A document in a list."""

    id: str = Field(examples=["doc_01k9x2m4n6p8q0r2s4t6v8w0x2"])
    name: str
    state: DocumentState
    type: str | None
    pipeline: str
    pipeline_revision: str
    priority: int
    metadata: dict[str, Any]
    parent: str | None = Field(description="The document that this one was split from.")
    page_range: PageRange | None = Field(description="Its pages in `parent`.")
    progress: ProgressEntry
    attempts: int
    waiting_for: str | None = Field(description="What the document waits for, in plain English.")
    timings: Timings
    cost: dict[str, Any] | None
    error: dict[str, Any] | None


class DocumentDetails(DocumentSummary):
    """A document, with its files and steps. The files of a document with a `parent` are that
    one's."""

    files: list[FileEntry]
    steps: list[StepEntry]
    children: list[ChildEntry] = Field(
        description="The documents that its pages became, if the pipeline splits scans."
    )


class DocumentList(BaseModel):
    """A page of documents, newest first; `next_cursor` is null on the last page."""

    documents: list[DocumentSummary]
    next_cursor: str | None


class PipelineEntry(BaseModel):
    """A pipeline, with the types of documents that it is for."""

    name: str
    revision: str
    description: str
    types: list[str]
    steps: list[str]


class PipelineList(BaseModel):
    pipelines: list[PipelineEntry]


class ModelUse(BaseModel):
    """A step of a pipeline."""

    pipeline: str
    step: str


class ModelEntry(BaseModel):
    """A model and the steps that use it; `name` is null for the model of the workers' settings."""

    name: str | None
    used_by: list[ModelUse]


class PipelineModels(BaseModel):
    models: list[ModelEntry]


def document_summary(document: StoredDocument) -> DocumentSummary:
    """The summary of a document, as in a list."""
    return DocumentSummary(**_summary_fields(document))


def document_details(
    document: StoredDocument, targets: Mapping[int, UploadTarget]
) -> DocumentDetails:
    """The details of a document; `targets` are the uploads of its files, by position."""
    return DocumentDetails(
        **_summary_fields(document),
        files=[_file_entry(file, targets.get(file.position)) for file in document.files],
        steps=[StepEntry.model_validate(dict(step)) for step in document.steps],
        children=child_entries(document),
    )


def child_entries(document: StoredDocument) -> list[ChildEntry]:
    """The documents that were split from a document, in the order of pages."""
    return [
        ChildEntry(
            **{name: child[name] for name in ("id", "name", "type", "state")},
            page_range=PageRange(first=child["first_page"], last=child["last_page"]),
        )
        for child in document.children
    ]


def _summary_fields(document: StoredDocument) -> dict[str, Any]:
    row = document.row
    progress = page_progress(document)
    pages = None
    if row["parent"] is not None:
        pages = PageRange(first=row["first_page"], last=row["last_page"])
    return {
        "page_range": pages,
        "progress": ProgressEntry(**vars(progress)),
        "timings": Timings(**{name: row[name] for name in Timings.model_fields}),
        **{
            name: row[name]
            for name in DocumentSummary.model_fields
            if name not in ("page_range", "progress", "timings")
        },
    }


def _file_entry(file: StoredFile, target: UploadTarget | None) -> FileEntry:
    return FileEntry(
        position=file.position,
        name=file.name,
        size=file.size,
        sha256=file.sha256,
        content_type=file.content_type,
        url=None if file.url is None else redact_url(file.url),
        uploaded_at=file.uploaded_at,
        upload=None if target is None else UploadEntry(**vars(target)),
    )
