"""Routes for reviews: list them, claim a document, correct its fields, approve or reject it."""

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Response
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    model_validator,
)

from llm_ocr.service.access import Access
from llm_ocr.service.gateway.context import (
    DocumentId,
    GatewayDep,
    ReviewAccess,
    check_query_parameters,
)
from llm_ocr.service.gateway.models import Line, RequestBody
from llm_ocr.service.gateway.problems import Problem, problem_responses
from llm_ocr.service.review.desk import OpenReview, ReviewPage
from llm_ocr.service.review.edits import (
    Correction,
    EditAction,
    FieldEdit,
    FieldStatus,
    ReviewField,
    live_ids,
)
from llm_ocr.service.review.reviews import (
    Review,
    Reviewer,
    ReviewState,
    claim_next,
    claim_review,
    list_reviews,
    load_corrections,
    load_review,
    release_review,
)

MAX_ID = 2**63 - 1
_ETAG = re.compile(r'(?:W/)?"(\d{1,9})"')
FieldPath = Annotated[str, StringConstraints(min_length=1, max_length=500)]
# PostgreSQL stores no NUL, and UTF-8 has no lone surrogates.
STORABLE = r"^[^\x00]*$"
Reason = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=2000, pattern=STORABLE),
]
Seconds = Annotated[
    float | None, Field(ge=0, le=86_400, description="How long the reviewer took, in seconds.")
]


class ReviewEntry(BaseModel):
    """A review in the queue. `version` is its ETag; `claimed_by` is null without a valid claim."""

    document_id: str
    document_name: str
    document_type: str | None
    pipeline: str
    pipeline_revision: str
    page_count: int | None
    state: ReviewState
    version: int
    reasons: list[dict[str, Any]]
    created_at: datetime
    claimed_by: str | None
    claim_expires_at: datetime | None
    reviewer: str | None = Field(description="Who decided it.")
    decided_at: datetime | None
    decision_reason: str | None


class ReviewList(BaseModel):
    """A page of the queue, oldest first; `next_cursor` is null on the last page."""

    reviews: list[ReviewEntry]
    next_cursor: int | None


class FieldEntry(BaseModel):
    """A field: its value now and the machine's, where it is on the page, and what rules say.
    `box` is in pixels of the page's image; `is_estimated`: it shows about where the value is."""

    record: int
    path: str
    label: str
    kind: str
    choices: list[str]
    value: JsonValue
    machine_value: JsonValue
    confidence: float | None
    is_verified: bool | None
    page: int | None
    box: list[float] | None
    is_estimated: bool
    quote: str | None
    status: FieldStatus
    messages: list[str]


class RuleEntry(BaseModel):
    """A rule that the record breaks, or a value that was rejected; `path` is empty for a rule of
    the whole record."""

    path: str
    reason: str


class ClassEntry(BaseModel):
    """The class of a page, or of the document (`page` is null), now and from the machine.
    `is_certain` is false for a guess, with the reason; `is_reviewed`: a reviewer has set it."""

    page: int | None
    value: str | None
    machine_value: str | None
    is_certain: bool
    is_reviewed: bool
    reason: str | None


class RecordEntry(BaseModel):
    """A record as it would be approved now. `page` is null for a record of several pages, `class`
    for one whose schema doesn't depend on the class of its pages."""

    model_config = ConfigDict(serialize_by_alias=True)

    page: int | None
    pages: list[int]
    class_name: str | None = Field(serialization_alias="class")
    content: dict[str, JsonValue]
    fields: list[FieldEntry]
    errors: list[RuleEntry]


class ReviewDetails(ReviewEntry):
    """A review with its records, pages and classes."""

    document_class: ClassEntry
    page_classes: list[ClassEntry]
    records: list[RecordEntry]
    pages: list[ReviewPage]
    schema_problem: str | None


class CorrectionEntry(BaseModel):
    """An edit of a field, or of a class, which has no path. `is_undone`: a later undo has taken it
    back."""

    id: int
    action: EditAction
    record: int
    path: str
    old: JsonValue
    new: JsonValue
    page: int | None
    old_box: list[float] | None
    new_box: list[float] | None
    confidence: float | None
    reason: str | None
    reviewer_name: str
    created_at: datetime
    seconds: float | None
    model: str | None
    pipeline_revision: str
    is_undone: bool


class CorrectionList(BaseModel):
    corrections: list[CorrectionEntry]


def _check_storable(value: JsonValue) -> JsonValue:
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, UnicodeEncodeError):
        raise ValueError("it contains what JSON can't represent") from None
    return value


class EditRequest(RequestBody):
    """An edit: `correct` a field to `value`, `confirm` it, or say that it is `absent`. A path that
    ends with the next free index of a list adds an item. `reclassify` has no path: `value` is the
    class, of `page` or, without one, of the document; the same class confirms it."""

    action: EditAction = EditAction.CORRECT
    path: FieldPath | None = Field(None, examples=["lines.0.amount"])
    record: Annotated[int, Field(ge=0, description="Position in the result's `records`.")] = 0
    value: Annotated[JsonValue, Field(examples=["119.00"]), AfterValidator(_check_storable)] = None
    page: int | None = Field(None, ge=1, le=1_000_000)
    box: Annotated[list[float], Field(min_length=4, max_length=4)] | None = None
    reason: Reason | None = None
    seconds: Seconds = None

    @model_validator(mode="after")
    def _check_path(self) -> "EditRequest":
        if (self.path is None) != (self.action is EditAction.RECLASSIFY):
            problem = "has no path" if self.path else "needs the path of a field"
            raise ValueError(f"the action {self.action} {problem}")
        return self


class ApproveRequest(RequestBody):
    """How long the review took."""

    seconds: Seconds = None


class RejectRequest(ApproveRequest):
    """Why the document is rejected."""

    reason: Reason = Field(examples=["it is a reminder, not an invoice"])


class NextRequest(RequestBody):
    """Which document to claim."""

    type: Line | None = None
    after: Annotated[int, Field(ge=0, le=MAX_ID, description="A cursor of the queue.")] = 0


router = APIRouter(
    prefix="/v1/review",
    tags=["review"],
    dependencies=[Depends(check_query_parameters)],
    responses=problem_responses(401, 403, 422, 503),
)
_ONE = problem_responses(404, 409, 410)
_CHANGE = problem_responses(404, 409, 410, 412, 413, 428)


def require_version(
    if_match: Annotated[
        str | None, Header(description="ETag of the review that the change is based on.")
    ] = None,
) -> int:
    """The version in `If-Match`, which every change needs."""
    if if_match is None:
        detail = "send the ETag of the review that this is based on as If-Match"
        raise Problem(428, "if_match_missing", detail)
    matched = _ETAG.fullmatch(if_match.strip())
    if matched is None:
        raise Problem(422, "invalid_request", 'If-Match must be the ETag of a review, such as "7"')
    return int(matched[1])


Version = Annotated[int, Depends(require_version)]


@router.get("", response_model=ReviewList)
def get_reviews(
    gateway: GatewayDep,
    access: ReviewAccess,
    state: ReviewState = ReviewState.OPEN,
    type: Annotated[Line | None, Query()] = None,
    search: Annotated[
        Line | None, Query(description="Id of a document, or part of its name.")
    ] = None,
    cursor: Annotated[int, Query(ge=0, le=MAX_ID)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> ReviewList:
    """List reviews, oldest first."""
    found = list_reviews(
        gateway.database,
        access.tenant,
        state=state,
        type_=type,
        search=search,
        after=cursor,
        limit=limit + 1,
    )
    shown = found[:limit]
    return ReviewList(
        reviews=[ReviewEntry(**_entry(review)) for review in shown],
        next_cursor=shown[-1].id if len(found) > limit else None,
    )


@router.post(":next", response_model=ReviewDetails, responses={204: {"description": "None left."}})
def claim_next_review(
    gateway: GatewayDep, access: ReviewAccess, body: NextRequest | None = None
) -> Response:
    """Claim the oldest document that nobody else has claimed. 204 if there is none."""
    wanted = body or NextRequest()
    review = claim_next(
        gateway.database, reviewer_of(access), after=wanted.after, type_=wanted.type
    )
    if review is None:
        return Response(status_code=204)
    return _details(gateway.reviews.open(access.tenant, review.document_id))


@router.get("/{document_id}", response_model=ReviewDetails, responses=_ONE)
def get_review(gateway: GatewayDep, access: ReviewAccess, document_id: DocumentId) -> Response:
    """Get a review with its records, whether it is claimed or not. The ETag is for `If-Match`."""
    return _details(gateway.reviews.open(access.tenant, document_id))


@router.get("/{document_id}/corrections", response_model=CorrectionList, responses=_ONE)
def get_corrections(
    gateway: GatewayDep, access: ReviewAccess, document_id: DocumentId
) -> CorrectionList:
    """List everything that was done to fields, in order, also what was undone."""
    review = load_review(gateway.database, access.tenant, document_id)
    return CorrectionList(
        corrections=correction_entries(load_corrections(gateway.database, review))
    )


@router.post("/{document_id}:claim", response_model=ReviewDetails, responses=_ONE)
def claim_document(gateway: GatewayDep, access: ReviewAccess, document_id: DocumentId) -> Response:
    """Claim a document for 5 minutes, or renew the claim. Every edit renews it too."""
    claim_review(gateway.database, reviewer_of(access), document_id)
    return _details(gateway.reviews.open(access.tenant, document_id))


@router.post("/{document_id}:release", response_model=ReviewEntry, responses=_ONE)
def release_document(
    gateway: GatewayDep, access: ReviewAccess, document_id: DocumentId
) -> ReviewEntry:
    """Give a claimed document back to the queue; its corrections stay."""
    return ReviewEntry(**_entry(release_review(gateway.database, reviewer_of(access), document_id)))


@router.post("/{document_id}/corrections", response_model=ReviewDetails, responses=_CHANGE)
def add_edit(
    gateway: GatewayDep,
    access: ReviewAccess,
    document_id: DocumentId,
    version: Version,
    body: EditRequest,
) -> Response:
    """Correct, confirm or clear a field, or reclassify a page or the document. The response has
    the rules as they are now."""
    if body.action is EditAction.UNDO:
        raise Problem(422, "invalid_request", "body.action: use :undo to take back an edit")
    edit = FieldEdit(**{**body.model_dump(), "path": body.path or ""})
    opened = gateway.reviews.edit(reviewer_of(access), document_id, version, edit)
    return _details(opened)


@router.post("/{document_id}:undo", response_model=ReviewDetails, responses=_CHANGE)
def undo_edit(
    gateway: GatewayDep, access: ReviewAccess, document_id: DocumentId, version: Version
) -> Response:
    """Take back the last edit that isn't undone."""
    return _details(gateway.reviews.undo(reviewer_of(access), document_id, version))


@router.post("/{document_id}:approve", response_model=ReviewEntry, responses=_CHANGE)
def approve_document(
    gateway: GatewayDep,
    access: ReviewAccess,
    document_id: DocumentId,
    version: Version,
    body: ApproveRequest | None = None,
) -> ReviewEntry:
    """Approve the record as it is now. The document is then finished."""
    seconds = None if body is None else body.seconds
    review = gateway.reviews.approve(reviewer_of(access), document_id, version, seconds)
    return ReviewEntry(**_entry(review))


@router.post("/{document_id}:reject", response_model=ReviewEntry, responses=_CHANGE)
def reject_document(
    gateway: GatewayDep,
    access: ReviewAccess,
    document_id: DocumentId,
    version: Version,
    body: RejectRequest,
) -> ReviewEntry:
    """Reject the document, which has then failed with this reason."""
    reviewer = reviewer_of(access)
    review = gateway.reviews.reject(reviewer, document_id, version, body.reason, body.seconds)
    return ReviewEntry(**_entry(review))


def reviewer_of(access: Access) -> Reviewer:
    """The reviewer who uses this key."""
    return Reviewer(access.tenant, access.key_id, access.key_name)


def correction_entries(found: Sequence[Correction]) -> list[CorrectionEntry]:
    """The edits of a review, in order, without the undos themselves."""
    live = live_ids(found)
    return [
        CorrectionEntry(
            **{
                name: getattr(correction, name)
                for name in CorrectionEntry.model_fields
                if name != "is_undone"
            },
            is_undone=correction.id not in live,
        )
        for correction in found
        if correction.action != EditAction.UNDO
    ]


def _details(opened: OpenReview) -> Response:
    details = ReviewDetails(
        **_entry(opened.review),
        records=[
            RecordEntry(
                page=record.page,
                pages=list(record.pages),
                class_name=record.class_name,
                content=dict(record.content),
                fields=[_field(field) for field in record.fields],
                errors=[RuleEntry(path=error.path, reason=error.reason) for error in record.errors],
            )
            for record in opened.records
        ],
        pages=list(opened.pages),
        document_class=ClassEntry(**vars(opened.classes.document)),
        page_classes=[ClassEntry(**vars(page)) for page in opened.classes.pages],
        schema_problem=opened.schema_problem,
    )
    headers = {"ETag": f'"{opened.review.version}"'}
    return Response(details.model_dump_json(), media_type="application/json", headers=headers)


def _field(field: ReviewField) -> FieldEntry:
    values = {name: getattr(field, name) for name in FieldEntry.model_fields}
    values["box"] = None if field.box is None else list(field.box)
    return FieldEntry(**values)


def _entry(review: Review) -> dict[str, Any]:
    is_decided = review.state is not ReviewState.OPEN
    own = {"claimed_by", "claim_expires_at", "reviewer"}
    return {
        **{name: getattr(review, name) for name in ReviewEntry.model_fields if name not in own},
        "reasons": [dict(reason) for reason in review.reasons],
        "claimed_by": review.reviewer_name if review.is_claimed else None,
        "claim_expires_at": review.claim_expires_at if review.is_claimed else None,
        "reviewer": review.reviewer_name if is_decided else None,
    }
