"""The web pages for reviewers, rendered here; `static/review.js` adds the keyboard.

People need the scope `review`. Each field is a form of its own: the response has its row, and those
whose state the edit has changed. Page images are the ones that workers stored: a gateway renders
none.
"""

import json
from collections.abc import Sequence
from dataclasses import astuple, replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Header, Path, Query, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from llm_ocr.service.access import Access, Scope
from llm_ocr.service.documents import document_folder
from llm_ocr.service.gateway.context import DocumentId, Gateway, GatewayDep
from llm_ocr.service.gateway.results import send_object
from llm_ocr.service.gateway.review_api import STORABLE, correction_entries, reviewer_of
from llm_ocr.service.gateway.review_view import class_choices, find_row, list_rows, view_document
from llm_ocr.service.gateway.web_pages import (
    PageRoute,
    render,
    require_form,
    require_page_scope,
    templates,
)
from llm_ocr.service.results import page_image_path
from llm_ocr.service.review.desk import OpenReview
from llm_ocr.service.review.edits import (
    EditAction,
    FieldEdit,
    InvalidEditError,
    ReviewField,
    label_of,
)
from llm_ocr.service.review.reviews import (
    CLAIM_SECONDS,
    Review,
    ReviewState,
    claim_next,
    claim_review,
    list_reviews,
    list_used_classes,
    load_review,
    release_review,
)
from llm_ocr.service.review.typed_values import format_value, parse_typed
from llm_ocr.service.sessions import Session

QUEUE_LENGTH = 100
# Longest text of a field that is typed.
MAX_TEXT = 20_000

router = APIRouter(prefix="/review", include_in_schema=False, route_class=PageRoute)


def require_review_form(
    session: Annotated[Session, Depends(require_form)],
    _: Annotated[Session, Depends(require_page_scope(Scope.REVIEW))],
) -> Session:
    """The session of a reviewer's form."""
    return session


PageSession = Annotated[Session, Depends(require_page_scope(Scope.REVIEW))]
FormSession = Annotated[Session, Depends(require_review_form)]
Version = Annotated[int, Form(ge=0)]
PageNumber = Annotated[int, Path(ge=1, le=1_000_000)]
# A page and a box on it: left, top, right and bottom.
PLACE = r"^(\d{1,7}( \d{1,6}(\.\d+)?){4})?$"
FormSeconds = Annotated[float, Form(ge=0, le=86_400)]


@router.get("")
def show_queue(
    gateway: GatewayDep,
    session: PageSession,
    state: ReviewState = ReviewState.OPEN,
    search: Annotated[str, Query(max_length=255, pattern=STORABLE)] = "",
    after: Annotated[int, Query(ge=0, le=2**63 - 1)] = 0,
    done: Annotated[str, Query(max_length=64, pattern=STORABLE)] = "",
) -> HTMLResponse:
    tenant = session.access.tenant
    found = list_reviews(
        gateway.database,
        tenant,
        state=state,
        search=search.strip() or None,
        after=after,
        limit=QUEUE_LENGTH + 1,
    )
    finished = load_review(gateway.database, tenant, done) if done else None
    return render(
        "queue.html",
        session=session,
        reviews=found[:QUEUE_LENGTH],
        has_more=len(found) > QUEUE_LENGTH,
        state=state,
        states=list(ReviewState),
        search=search,
        done=finished,
        reviewer=reviewer_of(session.access),
    )


@router.post("/next")
def open_next(gateway: GatewayDep, session: FormSession) -> Response:
    review = claim_next(gateway.database, reviewer_of(session.access))
    path = "" if review is None else f"/documents/{review.document_id}"
    return RedirectResponse(f"/review{path}", 303)


@router.get("/documents/{document_id}")
def show_document(
    gateway: GatewayDep, session: PageSession, document_id: DocumentId
) -> HTMLResponse:
    opened = gateway.reviews.open(session.access.tenant, document_id)
    used = list_used_classes(gateway.database, session.access.tenant)
    return render(
        "document.html",
        session=session,
        **view_document(opened, reviewer_of(session.access)),
        class_choices=class_choices(opened, used),
        history=correction_entries(opened.corrections),
        renew_seconds=CLAIM_SECONDS / 5,
    )


@router.get("/documents/{document_id}/pages/{number}")
async def show_image(
    gateway: GatewayDep,
    session: PageSession,
    document_id: DocumentId,
    number: PageNumber,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    tenant = session.access.tenant
    review = await gateway.read(load_review, gateway.database, tenant, document_id)
    headers = _cache_headers(review)
    if if_none_match == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    folder = f"{document_folder(tenant, document_id)}/{review.result}"
    path = f"{folder}/{page_image_path(number)}"
    response = await send_object(gateway, path, "image/jpeg")
    response.headers.update(headers)
    return response


@router.get("/documents/{document_id}/pages/{number}/words")
def list_words(
    gateway: GatewayDep,
    session: PageSession,
    document_id: DocumentId,
    number: PageNumber,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """The words of a page, each with left, top, right and bottom in pixels of its image."""
    tenant = session.access.tenant
    review = load_review(gateway.database, tenant, document_id)
    headers = _cache_headers(review)
    if if_none_match == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    words = [
        [word.text, *(round(edge, 1) for edge in astuple(word.box))]
        for word in gateway.reviews.words(tenant, review, number)
    ]
    content = json.dumps(words, ensure_ascii=False)
    return Response(content, media_type="application/json", headers=headers)


@router.post("/documents/{document_id}/claim")
def claim_document(gateway: GatewayDep, session: FormSession, document_id: DocumentId) -> Response:
    claim_review(gateway.database, reviewer_of(session.access), document_id)
    return RedirectResponse(f"/review/documents/{document_id}", 303)


@router.post("/documents/{document_id}/renew", status_code=204)
def renew_claim(gateway: GatewayDep, session: FormSession, document_id: DocumentId) -> None:
    """The reviewer is still there, and looks at the page."""
    claim_review(gateway.database, reviewer_of(session.access), document_id)


@router.post("/documents/{document_id}/release")
def release_document(
    gateway: GatewayDep, session: FormSession, document_id: DocumentId
) -> Response:
    release_review(gateway.database, reviewer_of(session.access), document_id)
    return RedirectResponse("/review", 303)


@router.post("/documents/{document_id}/edit")
def edit_field(
    gateway: GatewayDep,
    session: FormSession,
    document_id: DocumentId,
    version: Version,
    record: Annotated[int, Form(ge=0)],
    path: Annotated[str, Form(min_length=1, max_length=500)],
    action: Annotated[EditAction, Form()],
    value: Annotated[str, Form(max_length=MAX_TEXT)] = "",
    place: Annotated[str, Form(pattern=PLACE)] = "",
    seconds: FormSeconds = 0.0,
) -> Response:
    """Edit a field; the response has its row, and all else that this changes. `place` is the page
    and the box that the reviewer has pointed at."""
    before = gateway.reviews.open(session.access.tenant, document_id)
    field = before.field(record, path)
    try:
        number, *box = map(float, place.split()) if place else (None,)
        page = None if number is None else int(number)
        edit = FieldEdit(action, path, record, page=page, box=box or None, seconds=seconds)
        after = _apply(gateway, session.access, before, field, edit, value, version)
    except InvalidEditError as error:
        if field is None:
            raise
        row = find_row(before, record, path)
        view = view_document(before, reviewer_of(session.access))
        return render("row.html", 422, **view, row=row, text=value, problem=str(error), oob=False)
    return _changes(before, after, session.access, (record, path))


@router.post("/documents/{document_id}/reclassify")
def reclassify(
    gateway: GatewayDep,
    session: FormSession,
    document_id: DocumentId,
    version: Version,
    value: Annotated[str, Form(min_length=1, max_length=100, pattern=STORABLE)],
    page: Annotated[int | None, Form(ge=1)] = None,
    seconds: FormSeconds = 0.0,
) -> Response:
    """Change or confirm the class of a page, or of the document."""
    edit = FieldEdit(EditAction.RECLASSIFY, value=value.strip(), page=page, seconds=seconds)
    gateway.reviews.edit(reviewer_of(session.access), document_id, version, edit)
    return _reload()


@router.post("/documents/{document_id}/undo")
def undo_edit(
    gateway: GatewayDep, session: FormSession, document_id: DocumentId, version: Version
) -> Response:
    before = gateway.reviews.open(session.access.tenant, document_id)
    after = gateway.reviews.undo(reviewer_of(session.access), document_id, version)
    return _changes(before, after, session.access, None)


@router.post("/documents/{document_id}/approve")
def approve_document(
    gateway: GatewayDep,
    session: FormSession,
    document_id: DocumentId,
    version: Version,
    seconds: FormSeconds = 0.0,
) -> Response:
    gateway.reviews.approve(reviewer_of(session.access), document_id, version, seconds)
    return RedirectResponse(f"/review?done={document_id}", 303)


@router.post("/documents/{document_id}/reject")
def reject_document(
    gateway: GatewayDep,
    session: FormSession,
    document_id: DocumentId,
    version: Version,
    reason: Annotated[str, Form(min_length=1, max_length=2000, pattern=STORABLE)],
    seconds: FormSeconds = 0.0,
) -> Response:
    reviewer = reviewer_of(session.access)
    gateway.reviews.reject(reviewer, document_id, version, reason, seconds)
    return RedirectResponse(f"/review?done={document_id}", 303)


def _apply(
    gateway: Gateway,
    access: Access,
    before: OpenReview,
    field: ReviewField | None,
    edit: FieldEdit,
    text: str,
    version: int,
) -> OpenReview:
    """Make an edit, with the text as a value of the field's type. A field that is emptied is
    absent, one whose text stays is confirmed."""
    reviewer, document_id = reviewer_of(access), before.review.document_id
    if edit.action is not EditAction.CORRECT:
        return gateway.reviews.edit(reviewer, document_id, version, edit)
    shown = format_value(field.value) if field is not None else ""
    values: Sequence[Any] = [{}]
    if field is not None and text.strip() == shown.strip() and edit.box is None:
        edit, values = replace(edit, action=EditAction.CONFIRM), [None]
    elif field is not None and not text.strip():
        edit, values = replace(edit, action=EditAction.ABSENT), [None]
    elif field is not None:
        values = parse_typed(text, field.kind)
    for k, value in enumerate(values):
        try:
            return gateway.reviews.edit(reviewer, document_id, version, replace(edit, value=value))
        except InvalidEditError:
            if k + 1 == len(values):
                raise
    raise AssertionError


def _changes(
    before: OpenReview, after: OpenReview, access: Access, edited: tuple[int, str] | None
) -> Response:
    """The row of the edited field, and with `hx-swap-oob` whatever else has changed."""
    old = {row.id: row for row in list_rows(before)}
    new = {row.id: row for row in list_rows(after)}
    is_same = list(old) == list(new) and all(
        old[key].field.path == new[key].field.path for key in new
    )
    view = view_document(after, reviewer_of(access))
    if not is_same or before.classes != after.classes:
        # Fields were added or are gone, and the rows have other places; or a class has changed.
        return _reload()
    changed = [row for key, row in new.items() if row != old[key]]
    main = [row for row in new.values() if (row.field.record, row.field.path) == edited]
    others = [row for row in changed if row not in main]
    return render("changes.html", **view, main=main, others=others, text=None, problem=None)


def _reload() -> Response:
    return Response(status_code=200, headers={"HX-Refresh": "true"})


def _cache_headers(review: Review) -> dict[str, str]:
    # Nothing in a result's folder ever changes.
    return {"ETag": f'"{review.result}"', "Cache-Control": "private, no-cache"}


def _summary(review: Review) -> str:
    """The first reasons, in words."""
    messages = [str(reason["message"]) for reason in review.reasons]
    more = f" and {len(messages) - 3} more" if len(messages) > 3 else ""
    return "; ".join(messages[:3]) + more


templates.filters["text"] = format_value
templates.filters["label"] = label_of
templates.filters["summary"] = _summary
