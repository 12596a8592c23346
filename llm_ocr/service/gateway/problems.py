"""Errors of the API as problem documents: `application/problem+json`, RFC 9457."""

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from llm_ocr.service.access import AccessError
from llm_ocr.service.database import DatabaseError
from llm_ocr.service.documents import (
    DeletedDocumentError,
    QuotaError,
    UnknownDocumentError,
    WrongStateError,
)
from llm_ocr.service.fetching import UrlRefusedError
from llm_ocr.service.pipelines import UnknownPipelineError
from llm_ocr.service.review.edits import InvalidEditError
from llm_ocr.service.review.reviews import ClaimError, ReviewChangedError, UnknownReviewError
from llm_ocr.service.uploads import UploadError, UploadProblem
from llm_ocr.service.webhooks import (
    TooManyWebhooksError,
    UnknownWebhookError,
    WebhookSecretError,
    WebhookUrlError,
)
from llm_ocr.storage.store import StorageError

MEDIA_TYPE = "application/problem+json"
# Retry-After in seconds while the database or the storage is unavailable.
RETRY_AFTER_SECONDS = 5
_UPLOAD_STATUS: Mapping[str, int] = {
    UploadProblem.NOT_UPLOADED: 409,
    UploadProblem.INVALID_TOKEN: 403,
    UploadProblem.EXPIRED_TOKEN: 403,
}
# Problems that uploading the file again may solve.
_RETRYABLE_UPLOADS = frozenset(
    {
        UploadProblem.NOT_UPLOADED,
        UploadProblem.WRONG_SIZE,
        UploadProblem.WRONG_CHECKSUM,
        UploadProblem.EXPIRED_TOKEN,
    }
)

log = logging.getLogger(__name__)


class FieldProblem(BaseModel):
    """What is wrong with one value of a request."""

    location: str = Field(examples=["body.files.0.size"])
    message: str


class ProblemDetails(BaseModel):
    """A problem document (RFC 9457). `code` is the category; `step` and `page` say where in a
    document it occurred; `retryable` says whether the same request may succeed later."""

    type: str = Field(examples=["urn:llm-ocr:problem:wrong_state"])
    title: str = Field(examples=["Wrong state"])
    status: int = Field(examples=[409])
    detail: str
    code: str = Field(examples=["wrong_state"])
    step: str | None = None
    page: int | None = None
    retryable: bool = False
    errors: list[FieldProblem] | None = None


class Problem(Exception):
    """An error with the problem document that is sent as its response."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        step: str | None = None,
        page: int | None = None,
        retryable: bool = False,
        errors: Sequence[FieldProblem] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.headers = dict(headers or {})
        self.details = ProblemDetails(
            type=f"urn:llm-ocr:problem:{code}",
            title=code.replace("_", " ").capitalize(),
            status=status,
            detail=detail,
            code=code,
            step=step,
            page=page,
            retryable=retryable,
            errors=None if errors is None else list(errors),
        )

    def respond(self) -> JSONResponse:
        return JSONResponse(
            self.details.model_dump(exclude_none=True),
            self.details.status,
            self.headers,
            MEDIA_TYPE,
        )


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` argument of a route that returns problems with these statuses."""
    schema = {"$ref": "#/components/schemas/ProblemDetails"}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in statuses
    }


def to_problem(error: Exception) -> Problem:
    """The problem document for an error; unexpected errors are logged, and become a 500."""
    match error:
        case Problem():
            return error
        case DeletedDocumentError():
            return Problem(410, "deleted", str(error))
        case UnknownDocumentError():
            return Problem(404, "unknown_document", str(error))
        case WrongStateError():
            return Problem(409, "wrong_state", str(error))
        case QuotaError():
            retry = {"Retry-After": str(error.retry_seconds)}
            return Problem(429, "quota_exceeded", str(error), retryable=True, headers=retry)
        case UnknownWebhookError():
            return Problem(404, "unknown_webhook", str(error))
        case WebhookUrlError() | WebhookSecretError():
            return Problem(422, "invalid_webhook", str(error))
        case TooManyWebhooksError():
            return Problem(409, "too_many_webhooks", str(error))
        case UnknownPipelineError():
            return Problem(422, "unknown_pipeline", str(error))
        case UrlRefusedError():
            return Problem(422, "url_refused", str(error))
        case UploadError():
            code = str(error.code)
            status = _UPLOAD_STATUS.get(code, 422)
            is_retryable = error.code in _RETRYABLE_UPLOADS
            return Problem(status, code, str(error), retryable=is_retryable)
        case UnknownReviewError():
            return Problem(404, "no_review", str(error))
        case ClaimError():
            return Problem(409, "not_claimed", str(error))
        case ReviewChangedError():
            return Problem(412, "review_changed", str(error))
        case InvalidEditError():
            return Problem(422, "invalid_edit", str(error))
        case AccessError():
            challenge = {"WWW-Authenticate": "Bearer"}
            return Problem(401, "unauthorized", str(error), headers=challenge)
        case DatabaseError() | StorageError():
            # The message contains addresses, which clients needn't know.
            log.error("%s", error)
            what = "database" if isinstance(error, DatabaseError) else "storage"
            retry = {"Retry-After": str(RETRY_AFTER_SECONDS)}
            detail = f"the service's {what} is unavailable at present; try again later"
            return Problem(503, f"{what}_unavailable", detail, retryable=True, headers=retry)
        case ClientDisconnect():
            return Problem(400, "client_disconnected", "the client closed the connection")
        case RequestValidationError():
            return _validation_problem(error)
        case HTTPException():
            return _http_problem(error)
    log.error("a request failed", exc_info=error)
    detail = "the gateway failed; the gateway's log has the reason"
    return Problem(500, "internal_error", detail, retryable=True)


def add_problem_handlers(app: FastAPI) -> None:
    """Make an app respond to all expected errors with problem documents."""

    async def respond(request: Request, error: Exception) -> JSONResponse:
        return to_problem(error).respond()

    expected: tuple[type[Exception], ...] = (
        *(Problem, UnknownDocumentError, WrongStateError, QuotaError, UnknownPipelineError),
        *(UploadError, UrlRefusedError, AccessError, DatabaseError, StorageError),
        *(UnknownWebhookError, WebhookUrlError, WebhookSecretError, TooManyWebhooksError),
        *(UnknownReviewError, ClaimError, ReviewChangedError, InvalidEditError),
        *(ClientDisconnect, RequestValidationError, HTTPException),
    )
    for error_type in expected:
        app.add_exception_handler(error_type, respond)


def _validation_problem(error: RequestValidationError) -> Problem:
    errors = [
        FieldProblem(location=".".join(map(str, problem["loc"])), message=problem["msg"])
        for problem in error.errors()
    ]
    detail = "; ".join(f"{problem.location}: {problem.message}" for problem in errors[:5])
    return Problem(422, "invalid_request", detail, errors=errors)


def _http_problem(error: HTTPException) -> Problem:
    if error.status_code == HTTPStatus.BAD_REQUEST:
        # A body that is neither JSON nor a form is treated like one with invalid values.
        return Problem(422, "invalid_request", str(error.detail))
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "bad_request")
    details = {404: "there is no such path", 405: "the method is not allowed for this path"}
    detail = details.get(error.status_code, str(error.detail))
    return Problem(error.status_code, code, detail, headers=error.headers)
