"""The review queue in the database: list, claim by lease, record corrections, decide.

A reviewer claims a document for `CLAIM_SECONDS`; whatever the reviewer does renews this lease. A
claim that has expired doesn't end the work: it only lets another person claim the document. Each
change increments the version of the review, and every write names the version that it is based on:
what two people do can't mix.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, and_, func, or_, select, update

from llm_ocr.messages import CodedError
from llm_ocr.service.children import record_change
from llm_ocr.service.database import Database, now
from llm_ocr.service.documents import REJECTED, UnknownDocumentError, WrongStateError
from llm_ocr.service.events import REVIEW_EXPIRING, record_event
from llm_ocr.service.review.edits import Correction, EditAction
from llm_ocr.service.schema import DocumentState, corrections, documents, reviews, tenants

# A warning is recorded when this share of the tenant's `review_days` is over: with 30 days, 6 days
# before the end.
WARNING_SHARE = 0.8
# Seconds without activity after which another person may claim a document.
CLAIM_SECONDS = 300.0
DAY_SECONDS = 86_400.0
# Corrections that are searched for classes to suggest, so that a page loads fast in an old queue.
MAX_SEARCHED = 2000


class UnknownReviewError(CodedError):
    """The document has never needed a review."""


class ClaimError(CodedError):
    """The reviewer hasn't claimed the document, or another person has."""


class ReviewChangedError(CodedError):
    """The review has changed since the version that the request is based on."""


class ReviewState(StrEnum):
    """The state of a review; `withdrawn`: the document was cancelled, is processed again, or
    nobody reviewed it in time."""

    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True)
class Reviewer:
    """A person, or a program, that reviews: a tenant's key, or a user of it."""

    tenant: str
    id: str
    name: str


@dataclass(frozen=True)
class Review:
    """The review of a document's result. `reviewer` is who has claimed or decided it."""

    id: int
    document_id: str
    document_name: str
    document_type: str | None
    pipeline: str
    pipeline_revision: str
    result: str
    reasons: Sequence[Mapping[str, Any]]
    state: ReviewState
    created_at: datetime
    version: int
    reviewer: str | None
    reviewer_name: str | None
    claim_expires_at: datetime | None
    is_claimed: bool
    decided_at: datetime | None
    decision_reason: str | None
    seconds: float | None
    page_count: int | None

    def is_claimed_by(self, reviewer: Reviewer) -> bool:
        return self.is_claimed and self.reviewer == reviewer.id


def list_reviews(
    database: Database,
    tenant: str,
    *,
    state: ReviewState = ReviewState.OPEN,
    type_: str | None = None,
    search: str | None = None,
    after: int = 0,
    limit: int = 50,
) -> list[Review]:
    """Up to `limit` reviews, oldest first. For the next page, `after` is the last id. `search` is
    the id of a document, or a part of its name."""
    query = _select_reviews(tenant).where(reviews.c.state == state, reviews.c.id > after)
    if type_ is not None:
        query = query.where(documents.c.type == type_)
    if search is not None:
        is_named = func.lower(documents.c.name).contains(search.lower(), autoescape=True)
        query = query.where(or_(documents.c.id == search, is_named))
    with database.read() as connection:
        return [
            _review(row) for row in connection.execute(query.order_by(reviews.c.id).limit(limit))
        ]


def load_review(database: Database, tenant: str, document_id: str) -> Review:
    """The latest review of a document. Raises UnknownReviewError."""
    with database.read() as connection:
        return _load(connection, tenant, document_id)


def load_corrections(database: Database, review: Review) -> list[Correction]:
    """The corrections of a review, in order."""
    query = select(corrections).where(corrections.c.review_id == review.id)
    with database.read() as connection:
        rows = connection.execute(query.order_by(corrections.c.id))
        return [Correction(**row._mapping) for row in rows]


def list_used_classes(database: Database, tenant: str) -> list[str]:
    """The classes among the latest `MAX_SEARCHED` corrections of a tenant, without order."""
    latest = (
        select(corrections.c.action, corrections.c.new)
        .where(corrections.c.tenant == tenant)
        .order_by(corrections.c.id.desc())
        .limit(MAX_SEARCHED)
        .subquery()
    )
    query = select(latest.c.new).where(latest.c.action == EditAction.RECLASSIFY).distinct()
    with database.read() as connection:
        return [str(name) for name in connection.execute(query).scalars()]


def claim_review(database: Database, reviewer: Reviewer, document_id: str) -> Review:
    """Claim a document, or renew the claim. Raises ClaimError if another person has claimed it."""
    with database.begin() as connection:
        review = _load(connection, reviewer.tenant, document_id, for_update=True)
        _require_open(review)
        _claim(connection, review, reviewer)
        return _load(connection, reviewer.tenant, document_id)


def claim_next(
    database: Database, reviewer: Reviewer, *, after: int = 0, type_: str | None = None
) -> Review | None:
    """Claim the oldest document that nobody has claimed, of those whose review is later than
    `after`; None if there is none."""
    is_free = or_(
        reviews.c.claim_expires_at.is_(None),
        reviews.c.claim_expires_at < now(),
        reviews.c.reviewer == reviewer.id,
    )
    query = (
        select(reviews.c.document_id)
        .join_from(reviews, documents, documents.c.id == reviews.c.document_id)
        .where(
            reviews.c.tenant == reviewer.tenant,
            reviews.c.state == ReviewState.OPEN,
            reviews.c.id > after,
            documents.c.deleted_at.is_(None),
            is_free,
        )
        .order_by(reviews.c.id)
        .limit(1)
        .with_for_update(skip_locked=True, of=reviews)
    )
    if type_ is not None:
        query = query.where(documents.c.type == type_)
    with database.begin() as connection:
        document_id = connection.execute(query).scalar_one_or_none()
        if document_id is None:
            return None
        _claim(connection, _load(connection, reviewer.tenant, document_id), reviewer)
        return _load(connection, reviewer.tenant, document_id)


def release_review(database: Database, reviewer: Reviewer, document_id: str) -> Review:
    """Give a claimed document back to the queue. Its corrections stay. Without a claim of this
    reviewer, nothing changes."""
    with database.begin() as connection:
        review = _load(connection, reviewer.tenant, document_id, for_update=True)
        if review.state is ReviewState.OPEN and review.reviewer == reviewer.id:
            _change(connection, review, reviewer=None, reviewer_name=None, claim_expires_at=None)
        return _load(connection, reviewer.tenant, document_id)


def add_correction(
    database: Database,
    reviewer: Reviewer,
    review: Review,
    version: int,
    values: Mapping[str, Any],
) -> None:
    """Append a correction, with these columns, to a review that has this version, and renew the
    claim. Raises ClaimError and ReviewChangedError."""
    with database.begin() as connection:
        current = _load_claimed(connection, reviewer, review.document_id, version)
        connection.execute(
            corrections.insert().values(
                review_id=current.id,
                document_id=current.document_id,
                tenant=reviewer.tenant,
                reviewer=reviewer.id,
                reviewer_name=reviewer.name,
                created_at=now(),
                pipeline=current.pipeline,
                pipeline_revision=current.pipeline_revision,
                **values,
            )
        )
        _change(connection, current, claim_expires_at=now(CLAIM_SECONDS))


def decide(
    database: Database,
    reviewer: Reviewer,
    review: Review,
    version: int,
    state: ReviewState,
    *,
    reason: str | None = None,
    seconds: float | None = None,
    approved_file: str | None = None,
) -> None:
    """Approve or reject a document, which is then finished; the event is in the same transaction.
    `approved_file` is the approved result, and must be readable by now."""
    with database.begin() as connection:
        current = _load_claimed(connection, reviewer, review.document_id, version)
        _change(
            connection,
            current,
            state=state,
            decided_at=now(),
            decision_reason=reason,
            seconds=seconds,
            claim_expires_at=None,
        )
        values: dict[str, Any] = {"finished_at": now(), "approved_file": approved_file}
        if state is ReviewState.APPROVED:
            is_partial = documents.c.error.is_not(None)
            row = connection.execute(
                select(is_partial).where(documents.c.id == review.document_id)
            ).scalar_one()
            values["state"] = DocumentState.PARTIALLY_SUCCEEDED if row else DocumentState.SUCCEEDED
        else:
            error = {"code": REJECTED, "message": f"rejected by a reviewer: {reason}"}
            values |= {"state": DocumentState.FAILED, "error": {**error, "retryable": False}}
        days = select(tenants.c.retention_days).where(tenants.c.id == reviewer.tenant)
        retention = connection.execute(days).scalar_one_or_none()
        values["expires_at"] = None if retention is None else now(retention * DAY_SECONDS)
        connection.execute(
            update(documents).where(documents.c.id == review.document_id).values(**values)
        )
        record_change(connection, review.document_id)


def expire_reviews(database: Database, limit: int) -> int:
    """Fail documents that nobody has reviewed within their tenant's `review_days`, and record an
    event for those for which this is near. Documents that somebody has claimed are left alone.
    Returns the number of documents, at most `limit` of a tenant and kind."""
    with database.read() as connection:
        limited = connection.execute(
            select(tenants.c.id, tenants.c.review_days, tenants.c.retention_days).where(
                tenants.c.review_days.is_not(None)
            )
        ).all()
    count = 0
    for tenant in limited:
        age = tenant.review_days * DAY_SECONDS
        is_new = reviews.c.warned_at.is_(None)
        for seconds, conditions in ((age, ()), (age * WARNING_SHARE, (is_new,))):
            query = _select_unclaimed(tenant.id, seconds, *conditions)
            with database.read() as connection:
                found = connection.execute(query.limit(limit)).all()
            for row in found:
                # One transaction for each: what finishes a child locks its parent too.
                with database.begin() as connection:
                    locked = query.where(reviews.c.id == row.id).with_for_update(of=reviews)
                    if connection.execute(locked).first() is None:
                        continue
                    if not conditions:
                        _withdraw(connection, row, tenant.review_days, tenant.retention_days)
                        continue
                    change = update(reviews).where(reviews.c.id == row.id).values(warned_at=now())
                    connection.execute(change)
                    record_event(connection, row.document_id, REVIEW_EXPIRING)
            count += len(found)
    return count


def _select_unclaimed(tenant: str, age: float, *conditions: Any) -> Any:  # noqa: ANN401
    """Open reviews that nobody has claimed and that are older than `age` in seconds."""
    return (
        select(reviews.c.id, reviews.c.document_id)
        .join_from(reviews, documents, documents.c.id == reviews.c.document_id)
        .where(
            reviews.c.tenant == tenant,
            reviews.c.state == ReviewState.OPEN,
            reviews.c.created_at < now(-age),
            or_(reviews.c.claim_expires_at.is_(None), reviews.c.claim_expires_at < now()),
            documents.c.deleted_at.is_(None),
            *conditions,
        )
        .order_by(reviews.c.id)
    )


def _withdraw(
    connection: Connection, review: Row[Any], days: float, retention_days: float | None
) -> None:
    """Fail the document of a review that is too old."""
    error = {
        "code": "review_expired",
        "message": f"nobody reviewed it within {days:g} days; retry it for another review",
        "retryable": True,
    }
    is_document = documents.c.id == review.document_id
    connection.execute(
        update(documents)
        .where(is_document)
        .values(
            state=DocumentState.FAILED,
            error=error,
            finished_at=now(),
            expires_at=None if retention_days is None else now(retention_days * DAY_SECONDS),
        )
    )
    connection.execute(
        update(reviews)
        .where(reviews.c.id == review.id)
        .values(state=ReviewState.WITHDRAWN, version=reviews.c.version + 1)
    )
    record_change(connection, review.document_id)


def last_correction(found: Sequence[Correction]) -> Correction | None:
    """The correction that an undo takes back: the last one that isn't undone."""
    undone = {correction.undoes for correction in found}
    live = (
        correction
        for correction in reversed(found)
        if correction.action != EditAction.UNDO and correction.id not in undone
    )
    return next(live, None)


def _claim(connection: Connection, review: Review, reviewer: Reviewer) -> None:
    if review.is_claimed and review.reviewer != reviewer.id:
        raise ClaimError(f"{review.reviewer_name} is reviewing {review.document_id}")
    values = {"reviewer": reviewer.id, "reviewer_name": reviewer.name}
    if review.reviewer == reviewer.id:
        # Renewed: what this person sees is still current.
        connection.execute(
            update(reviews)
            .where(reviews.c.id == review.id)
            .values(claim_expires_at=now(CLAIM_SECONDS))
        )
        return
    _change(connection, review, **values, claim_expires_at=now(CLAIM_SECONDS))


def _load_claimed(
    connection: Connection, reviewer: Reviewer, document_id: str, version: int
) -> Review:
    """The open review, locked, which the reviewer must have claimed at this version."""
    review = _load(connection, reviewer.tenant, document_id, for_update=True)
    _require_open(review)
    if review.reviewer != reviewer.id:
        if review.is_claimed:
            raise ClaimError(f"{review.reviewer_name} is reviewing {document_id}")
        raise ClaimError(f"{document_id} isn't claimed: claim it first")
    if review.version != version:
        raise ReviewChangedError(
            f"the review of {document_id} has changed: it has version {review.version}, not "
            f"{version}; load it again"
        )
    return review


def _require_open(review: Review) -> None:
    if review.state is not ReviewState.OPEN:
        raise WrongStateError(f"{review.document_id} needs no review: it is {review.state}")


def _change(connection: Connection, review: Review, **values: Any) -> None:  # noqa: ANN401
    connection.execute(
        update(reviews)
        .where(reviews.c.id == review.id)
        .values(**values, version=review.version + 1)
    )


def _load(
    connection: Connection, tenant: str, document_id: str, *, for_update: bool = False
) -> Review:
    query = _select_reviews(tenant).where(reviews.c.document_id == document_id)
    query = query.order_by(reviews.c.id.desc()).limit(1)
    if for_update:
        query = query.with_for_update(of=reviews)
    row = connection.execute(query).one_or_none()
    if row is not None:
        return _review(row)
    is_document = and_(
        documents.c.id == document_id,
        documents.c.tenant == tenant,
        documents.c.deleted_at.is_(None),
    )
    if connection.execute(select(documents.c.id).where(is_document)).first() is None:
        raise UnknownDocumentError(f"there is no document {document_id}")
    raise UnknownReviewError(f"{document_id} has never needed a review")


def _select_reviews(tenant: str) -> Any:  # noqa: ANN401
    is_claimed = and_(
        reviews.c.state == ReviewState.OPEN,
        reviews.c.claim_expires_at.is_not(None),
        reviews.c.claim_expires_at >= now(),
    )
    return (
        select(
            reviews,
            documents.c.name.label("document_name"),
            documents.c.type.label("document_type"),
            documents.c.pipeline,
            documents.c.pipeline_revision,
            documents.c.page_count,
            is_claimed.label("is_claimed"),
        )
        .join_from(reviews, documents, documents.c.id == reviews.c.document_id)
        .where(reviews.c.tenant == tenant, documents.c.deleted_at.is_(None))
    )


def _review(row: Row[Any]) -> Review:
    values = {name: getattr(row, name) for name in Review.__dataclass_fields__}
    values |= {"state": ReviewState(row.state), "is_claimed": bool(row.is_claimed)}
    return Review(**values)
