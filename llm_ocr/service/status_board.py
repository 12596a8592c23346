"""The status of the service in numbers, for the status board and `GET /v1/status`.

Everything is counted from the tables that are there anyway, by few queries that use indexes: see
`benchmarks.status_board` for their cost. A tenant sees its own numbers, an administrator those of
all tenants and the workers.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, case, func, literal, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from llm_ocr.service.database import Database, now
from llm_ocr.service.pipelines import STEP_OPTIONS
from llm_ocr.service.schema import (
    FINISHED_STATES,
    DocumentState,
    deliveries,
    documents,
    events,
    reviews,
    steps,
    webhooks,
    workers,
)

HOUR, DAY = 3600.0, 86_400.0
# Durations of steps are those of so many documents: the last ones that finished within a day.
SAMPLE = 1000
# A worker sends a heartbeat every few seconds.
ALIVE_SECONDS = 60.0
# Every pipeline begins with this step: documents that haven't been started wait for it.
FIRST_STEP = "extract"
_SUCCEEDED = (DocumentState.SUCCEEDED, DocumentState.PARTIALLY_SUCCEEDED)
_WITH_ERROR = (DocumentState.FAILED, DocumentState.PARTIALLY_SUCCEEDED)
# Not simply the column: SQLite would prefer indexes that begin with it to those of times.
_TENANT = func.coalesce(documents.c.tenant, "")
_UNFINISHED = tuple(state for state in DocumentState if state not in FINISHED_STATES)


@dataclass
class FinishedCounts:
    """Documents that finished within a period. `succeeded` includes those of which some pages
    failed; `pages` are the pages of these, and those of a document that was split count once."""

    succeeded: int = 0
    failed: int = 0
    pages: int = 0


@dataclass
class TenantStatus:
    """The numbers of one tenant, or of all together. Times are null if there is no such document.

    `reviews_expiring` are open reviews of documents that will soon fail because nobody reviews
    them. `webhooks_retried` are those of `webhooks_pending` of which an attempt has failed;
    `webhooks_disabled` are receivers.
    """

    tenant: str | None
    documents: dict[DocumentState, int] = field(default_factory=dict)
    unfinished: int = 0
    oldest_queued_at: datetime | None = None
    oldest_unfinished_at: datetime | None = None
    last_hour: FinishedCounts = field(default_factory=FinishedCounts)
    last_day: FinishedCounts = field(default_factory=FinishedCounts)
    reviews_open: int = 0
    reviews_claimed: int = 0
    reviews_expiring: int = 0
    oldest_review_at: datetime | None = None
    webhooks_pending: int = 0
    webhooks_retried: int = 0
    webhooks_disabled: int = 0
    oldest_webhook_at: datetime | None = None


@dataclass
class FailureCount:
    """Documents of the last day with this error, including those of which only pages failed.
    `step` is null if it is not an error of a step."""

    step: str | None
    code: str
    documents: int


@dataclass
class StepStatus:
    """A step of pipelines. `waiting` documents are queued and continue with this step; the
    durations, in seconds, are those of `measured` documents."""

    name: str
    in_progress: int = 0
    waiting: int = 0
    measured: int = 0
    median_seconds: float | None = None
    p95_seconds: float | None = None
    failures: list[FailureCount] = field(default_factory=list)


@dataclass(frozen=True)
class WaitReason:
    """What queued documents wait for, besides a worker: an engine or the storage."""

    reason: str
    documents: int


@dataclass(frozen=True)
class WorkerStatus:
    """A worker. `is_alive`: it was seen within the last minute."""

    id: str
    host: str
    version: str
    tasks: int
    documents: int
    started_at: datetime
    last_seen_at: datetime
    is_draining: bool
    is_alive: bool


@dataclass(frozen=True)
class ServiceStatus:
    """The status at a point in time. `tenants` and `workers` are for administrators, and empty for
    others; `failures` are those that belong to no step. `problems` says in words what an operator
    should look at."""

    at: datetime
    total: TenantStatus
    steps: Sequence[StepStatus]
    failures: Sequence[FailureCount]
    waiting_for: Sequence[WaitReason]
    workers_alive: int
    tenants: Sequence[TenantStatus] = ()
    workers: Sequence[WorkerStatus] = ()
    problems: Sequence[str] = ()


def load_status(database: Database, tenant: str | None = None) -> ServiceStatus:
    """The status of a tenant's documents or, without one, of all tenants and of the workers."""
    with database.read() as connection:
        found: dict[str, TenantStatus] = {}

        def status_of(name: str) -> TenantStatus:
            return found.setdefault(name, TenantStatus(name))

        _count_documents(connection, tenant, status_of)
        waiting, current = _count_unfinished(connection, tenant, status_of)
        _count_finished(connection, tenant, status_of)
        _count_reviews(connection, tenant, status_of)
        _count_webhooks(connection, tenant, status_of)
        failures = _load_failures(connection, tenant)
        alive = _load_workers(connection)
        status = ServiceStatus(
            at=connection.execute(select(now())).scalar_one(),
            total=_total(list(found.values()), tenant),
            steps=_merge_steps(current, _load_durations(connection, tenant), failures),
            failures=[failure for failure in failures if failure.step is None],
            waiting_for=waiting,
            workers_alive=sum(worker.is_alive for worker in alive),
            tenants=[found[name] for name in sorted(found)] if tenant is None else (),
            workers=alive if tenant is None else (),
        )
    return replace(status, problems=_describe_problems(status))


def _describe_problems(status: ServiceStatus) -> list[str]:
    total, found = status.total, []
    unfinished = sum(
        total.documents[state] for state in (DocumentState.QUEUED, DocumentState.PROCESSING)
    )
    if unfinished and not status.workers_alive:
        found.append(f"No worker was seen in the last minute, and documents wait: {unfinished:,}.")
    found += [
        f"Documents that wait for {reason.reason}: {reason.documents:,}."
        for reason in status.waiting_for
    ]
    if total.reviews_expiring:
        found.append(f"Open reviews that expire soon: {total.reviews_expiring:,}.")
    if total.webhooks_retried:
        found.append(f"Webhooks that are sent again after an error: {total.webhooks_retried:,}.")
    if total.webhooks_disabled:
        found.append(f"Receivers of webhooks that are disabled: {total.webhooks_disabled:,}.")
    return found


class _json_text(FunctionElement[str]):
    """A member of a column with JSON, as text."""

    inherit_cache = True

    def __init__(self, column: Any, name: str) -> None:  # noqa: ANN401
        super().__init__(column, literal(f"$.{name}"), literal(name))


@compiles(_json_text, "postgresql")
def _json_text_postgresql(element: _json_text, compiler: Any, **options: Any) -> str:  # noqa: ANN401
    column, _, name = (compiler.process(clause, **options) for clause in element.clauses)
    return f"(({column})::json ->> {name}::text)"


@compiles(_json_text, "sqlite")
def _json_text_sqlite(element: _json_text, compiler: Any, **options: Any) -> str:  # noqa: ANN401
    column, path, _ = (compiler.process(clause, **options) for clause in element.clauses)
    return f"json_extract({column}, {path})"


def _of(tenant: str | None, query: Any, column: Any) -> Any:  # noqa: ANN401
    """The query, limited to a tenant if there is one."""
    return query if tenant is None else query.where(column == tenant)


def _count_documents(connection: Connection, tenant: str | None, status_of: Any) -> None:  # noqa: ANN401
    query = select(documents.c.tenant, documents.c.state, func.count()).where(
        documents.c.deleted_at.is_(None)
    )
    query = _of(tenant, query, documents.c.tenant)
    for name, state, count in connection.execute(
        query.group_by(documents.c.tenant, documents.c.state)
    ):
        status_of(name).documents[DocumentState(state)] = count


def _count_unfinished(
    connection: Connection,
    tenant: str | None,
    status_of: Any,  # noqa: ANN401
) -> tuple[list[WaitReason], dict[str, StepStatus]]:
    """What queued documents wait for, and the number of documents at each step."""
    keys = (documents.c.tenant, documents.c.state, documents.c.step, documents.c.waiting_for)
    query = select(
        *keys,
        func.count().label("number"),
        func.min(documents.c.queued_at).label("queued_at"),
        func.min(documents.c.created_at).label("created_at"),
    ).where(documents.c.state.in_(_UNFINISHED), documents.c.deleted_at.is_(None))
    found: dict[str, StepStatus] = {}
    reasons: dict[str, int] = defaultdict(int)
    for row in connection.execute(_of(tenant, query, documents.c.tenant).group_by(*keys)):
        status = status_of(row.tenant)
        status.unfinished += row.number
        status.oldest_unfinished_at = _earlier(status.oldest_unfinished_at, row.created_at)
        if row.state == DocumentState.QUEUED:
            status.oldest_queued_at = _earlier(status.oldest_queued_at, row.queued_at)
            if row.waiting_for is not None:
                reasons[row.waiting_for] += row.number
        if row.state in (DocumentState.QUEUED, DocumentState.PROCESSING):
            name = row.step or FIRST_STEP
            step = found.setdefault(name, StepStatus(name))
            if row.state == DocumentState.QUEUED:
                step.waiting += row.number
            else:
                step.in_progress += row.number
    waiting = [WaitReason(reason, reasons[reason]) for reason in sorted(reasons)]
    return waiting, found


def _count_finished(connection: Connection, tenant: str | None, status_of: Any) -> None:  # noqa: ANN401
    is_recent = documents.c.finished_at > now(-HOUR)
    page_count = case((documents.c.parent.is_(None), documents.c.page_count), else_=0)
    keys = _TENANT, func.coalesce(documents.c.state, "")
    query = select(
        *keys,
        func.count(),
        func.sum(page_count),
        func.sum(case((is_recent, 1), else_=0)),
        func.sum(case((is_recent, page_count), else_=0)),
    ).where(documents.c.finished_at > now(-DAY))
    query = _of(tenant, query, _TENANT)
    for name, state, *numbers in connection.execute(query.group_by(*keys)):
        day, day_pages, hour, hour_pages = (int(number or 0) for number in numbers)
        status = status_of(name)
        for period, count, pages in (
            (status.last_day, day, day_pages),
            (status.last_hour, hour, hour_pages),
        ):
            if state in _SUCCEEDED:
                period.succeeded += count
                period.pages += pages
            elif state == DocumentState.FAILED:
                period.failed += count


def _count_reviews(connection: Connection, tenant: str | None, status_of: Any) -> None:  # noqa: ANN401
    query = select(
        reviews.c.tenant,
        func.count().label("number"),
        func.sum(case((reviews.c.claim_expires_at > now(), 1), else_=0)).label("claimed"),
        func.count(reviews.c.warned_at).label("expiring"),
        func.min(reviews.c.created_at).label("created_at"),
    ).where(reviews.c.state == "open")
    for row in connection.execute(_of(tenant, query, reviews.c.tenant).group_by(reviews.c.tenant)):
        status = status_of(row.tenant)
        status.reviews_open, status.reviews_claimed = row.number, int(row.claimed)
        status.reviews_expiring = row.expiring
        status.oldest_review_at = row.created_at


def _count_webhooks(connection: Connection, tenant: str | None, status_of: Any) -> None:  # noqa: ANN401
    pending = select(
        deliveries.c.tenant,
        func.count().label("number"),
        func.sum(case((deliveries.c.attempts > 0, 1), else_=0)).label("retried"),
        func.min(deliveries.c.event_id).label("event_id"),
    ).where(deliveries.c.state == "pending")
    oldest = _of(tenant, pending, deliveries.c.tenant).group_by(deliveries.c.tenant).subquery()
    query = select(oldest, events.c.created_at).outerjoin(events, events.c.id == oldest.c.event_id)
    for row in connection.execute(query):
        status = status_of(row.tenant)
        status.webhooks_pending, status.webhooks_retried = row.number, int(row.retried)
        status.oldest_webhook_at = row.created_at
    disabled = select(webhooks.c.tenant, func.count()).where(webhooks.c.disabled_at.is_not(None))
    for name, count in connection.execute(
        _of(tenant, disabled, webhooks.c.tenant).group_by(webhooks.c.tenant)
    ):
        status_of(name).webhooks_disabled = count


def _load_failures(connection: Connection, tenant: str | None) -> list[FailureCount]:
    """The failures of the last day, the most frequent first."""
    query = select(
        _json_text(documents.c.error, "step").label("error_step"),
        _json_text(documents.c.error, "code").label("error_code"),
        func.count().label("number"),
    ).where(documents.c.finished_at > now(-DAY), documents.c.state.in_(_WITH_ERROR))
    rows = connection.execute(
        _of(tenant, query, documents.c.tenant).group_by("error_step", "error_code")
    )
    found = [FailureCount(row.error_step, row.error_code or "unknown", row.number) for row in rows]
    return sorted(found, key=lambda failure: (-failure.documents, failure.code))


def _load_durations(connection: Connection, tenant: str | None) -> dict[str, list[float]]:
    """How long each step took, in seconds, for the last documents that finished."""
    last = select(documents.c.id).where(documents.c.finished_at > now(-DAY))
    last = _of(tenant, last, _TENANT).order_by(documents.c.finished_at.desc())
    sample = last.limit(SAMPLE).subquery()
    query = (
        select(steps.c.name, steps.c.started_at, steps.c.finished_at)
        .join(sample, sample.c.id == steps.c.document_id)
        .where(steps.c.state == "succeeded", steps.c.finished_at.is_not(None))
    )
    found: dict[str, list[float]] = defaultdict(list)
    for row in connection.execute(query):
        if row.started_at is not None:
            found[row.name].append((row.finished_at - row.started_at).total_seconds())
    return found


def _load_workers(connection: Connection) -> list[WorkerStatus]:
    """The workers of the last hour; older ones are deleted by the others."""
    held = dict[str, int](
        (row.worker, row.number)
        for row in connection.execute(
            select(documents.c.worker, func.count().label("number"))
            .where(documents.c.state == DocumentState.PROCESSING)
            .group_by(documents.c.worker)
        )
    )
    is_alive = workers.c.last_seen_at > now(-ALIVE_SECONDS)
    query = select(workers, is_alive.label("is_alive"))
    found = []
    for row in connection.execute(query.order_by(workers.c.host, workers.c.started_at)):
        values = row._asdict() | {"is_alive": bool(row.is_alive)}
        found.append(WorkerStatus(**values, documents=held.get(row.id, 0)))
    return found


def _merge_steps(
    current: Mapping[str, StepStatus],
    durations: Mapping[str, Sequence[float]],
    failures: Sequence[FailureCount],
) -> list[StepStatus]:
    """The steps in the order of pipelines."""
    found = dict(current)
    for failure in failures:
        if failure.step is not None:
            step = found.setdefault(failure.step, StepStatus(failure.step))
            step.failures.append(failure)
    for name, seconds in durations.items():
        step = found.setdefault(name, StepStatus(name))
        ordered = sorted(seconds)
        step.measured = len(ordered)
        step.median_seconds = round(statistics.median(ordered), 3)
        step.p95_seconds = round(ordered[math.ceil(0.95 * len(ordered)) - 1], 3)
    order = list(STEP_OPTIONS)
    return sorted(
        found.values(),
        key=lambda step: (order.index(step.name) if step.name in order else len(order), step.name),
    )


def _total(found: Sequence[TenantStatus], tenant: str | None) -> TenantStatus:
    """The sums of all tenants."""
    total = TenantStatus(tenant)
    for status in found:
        for state, count in status.documents.items():
            total.documents[state] = total.documents.get(state, 0) + count
        for name in _numbers():
            setattr(total, name, getattr(total, name) + getattr(status, name))
        for name in ("last_hour", "last_day"):
            sums, period = getattr(total, name), getattr(status, name)
            for one in fields(FinishedCounts):
                setattr(sums, one.name, getattr(sums, one.name) + getattr(period, one.name))
        for name in _times():
            setattr(total, name, _earlier(getattr(total, name), getattr(status, name)))
    total.documents = {state: total.documents.get(state, 0) for state in DocumentState}
    return total


def _numbers() -> Iterator[str]:
    return (one.name for one in fields(TenantStatus) if one.name.startswith(("unf", "rev", "web")))


def _times() -> Iterator[str]:
    return (one.name for one in fields(TenantStatus) if one.name.startswith("oldest_"))


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((time for time in (one, other) if time is not None), default=None)
