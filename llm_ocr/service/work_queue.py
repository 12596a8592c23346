"""The queue of documents: workers claim them, hold them by lease, and return or finish them.

A worker claims a document for `lease_seconds` and renews this lease while it works. Each claim
increments the document's fencing token, and every later write checks that token: a worker that was
frozen and has lost its lease can't change the document any more. All times are the database's.

A lease that expired counts as the death of its worker until that worker sends a heartbeat again:
then it was only slow, and its deaths are taken back, one for each lease that it lost. Finished
documents don't change any more.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, case, exists, func, null, or_, select, update

from llm_ocr.service.children import NewChild, insert_children, record_change
from llm_ocr.service.database import Database, now
from llm_ocr.service.schema import (
    FINISHED_STATES,
    DocumentState,
    documents,
    lost_leases,
    reviews,
    steps,
    tenants,
    workers,
)

# A lease expires this long after it was last renewed; workers renew it three times as often.
LEASE_SECONDS = 15.0
# A document whose workers died this often has failed: it is probably what kills them.
MAX_WORKER_DEATHS = 3
# A document may so often lose a worker that turns out to be alive; after that, such losses count as
# deaths. Otherwise a document that makes every worker stall would never end.
MAX_WORKER_STALLS = 10
# The last death is final, since a failed document stays failed. It is therefore assumed only after
# the worker has been silent for this many leases more.
LAST_DEATH_LEASES = 2


@dataclass(frozen=True)
class ClaimedDocument:
    """A document that this worker owns as long as its row has this `fencing_token`."""

    id: str
    fencing_token: int
    tenant: str
    name: str
    type: str | None
    pipeline: str
    pipeline_revision: str
    attempts: int
    generations: Mapping[str, int]
    metadata: Mapping[str, Any]
    # The span that created it, and from when to when it waited for this claim, by the database's
    # clock.
    traceparent: str | None = None
    available_at: datetime | None = None
    claimed_at: datetime | None = None


@dataclass(frozen=True)
class StepProgress:
    """The progress of a step. `seconds` is the sum of the durations of its requests to a model;
    `started_ago` and `finished_ago` are in seconds before now."""

    name: str
    state: str
    items_done: int = 0
    items_failed: int = 0
    retries: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    model: str | None = None
    error: Mapping[str, Any] | None = None
    started_ago: float = 0.0
    finished_ago: float = 0.0


@dataclass(frozen=True)
class DocumentCompletion:
    """How the processing of a document ended: its final state, and `result`, the folder of its
    result within the document's folder; None if there is none."""

    state: DocumentState
    result: str | None = None
    error: Mapping[str, Any] | None = None
    cost: Mapping[str, Any] | None = None
    # Why it needs review, if it does: see `review_policy`.
    reasons: Sequence[Mapping[str, Any]] = ()
    # The documents that its pages become, if it is split.
    children: Sequence[NewChild] = ()


class WorkQueue:
    """The queue of documents, as the worker named `worker` uses it.

    All methods block and raise DatabaseError.
    """

    def __init__(
        self, database: Database, worker: str, *, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        self._database, self._worker = database, worker
        self.lease_seconds = lease_seconds

    def claim(self, limit: int) -> list[ClaimedDocument]:
        """Claim up to `limit` documents: each from the tenant with the fewest documents in progress
        relative to its weight; of that tenant the highest priority first, then the oldest."""
        with self._database.read() as connection:
            # All workers poll an empty queue often: a write transaction would be too expensive.
            if not _load_tenants_with_work(connection):
                return []
        with self._database.begin() as connection:
            found: list[ClaimedDocument] = []
            _lock_limited_tenants(connection)
            waiting = _load_tenants_with_work(connection)
            while waiting and len(found) < limit:
                tenant = min(
                    waiting, key=lambda load: (load.processing / load.weight, random.random())
                )
                claimed = None if tenant.is_full else self._claim_next(connection, tenant.id)
                if claimed is None:
                    waiting.remove(tenant)
                else:
                    found.append(claimed)
                    tenant.processing += 1
            return found

    def renew_leases(self, tokens: Mapping[str, int]) -> dict[str, bool]:
        """Renew the leases of documents, given the fencing token of each document id. Returns, for
        each lease that isn't lost, whether the document is to be cancelled."""
        if not tokens:
            return {}
        owned = self._owns_any(tokens)
        # In the order in which others lock several documents: see `children`.
        query = select(documents.c.id).where(owned).order_by(documents.c.id)
        with self._database.begin() as connection:
            connection.execute(query.with_for_update()).all()
            renewed = connection.execute(
                update(documents)
                .where(owned)
                .values(lease_expires_at=now(self.lease_seconds))
                .returning(documents.c.id, documents.c.cancel_requested_at)
            )
            return {row.id: row.cancel_requested_at is not None for row in renewed}

    def save_progress(
        self,
        document: ClaimedDocument,
        step: str | None,
        progress: Sequence[StepProgress],
        *,
        page_count: int | None = None,
        pages_done: int = 0,
    ) -> bool:
        """Save the progress of a document. False, and nothing is changed, if the lease is lost."""
        with self._database.begin() as connection:
            values: dict[str, Any] = {"step": step, "pages_done": pages_done}
            if page_count is not None:
                values["page_count"] = page_count
            if not self._change(connection, document, values):
                return False
            _save_steps(connection, document.id, progress)
            return True

    def finish(
        self,
        document: ClaimedDocument,
        completion: DocumentCompletion,
        progress: Sequence[StepProgress] = (),
        *,
        page_count: int | None = None,
        retention_seconds: float | None = None,
    ) -> bool:
        """Finish a document, whose result must be readable by now, add it to the review queue, or
        split it. False, and nothing is changed, if the lease is lost."""
        is_reviewed = completion.state is DocumentState.NEEDS_REVIEW
        is_finished = completion.state in FINISHED_STATES
        values: dict[str, Any] = {
            "state": completion.state,
            "result": completion.result,
            "error": completion.error,
            "cost": completion.cost,
            "finished_at": now() if is_finished else None,
            "step": None,
            "waiting_for": None,
            # The retention period of a document begins when it is finished.
            "expires_at": (
                now(retention_seconds) if is_finished and retention_seconds is not None else None
            ),
        }
        if page_count is not None:
            values["page_count"] = page_count
            if completion.result is not None:
                values["pages_done"] = page_count
        with self._database.begin() as connection:
            if not self._change(connection, document, values, release=True):
                return False
            _save_steps(connection, document.id, progress)
            if is_reviewed:
                connection.execute(
                    reviews.insert().values(
                        document_id=document.id,
                        tenant=document.tenant,
                        result=completion.result,
                        reasons=[dict(reason) for reason in completion.reasons],
                        state="open",
                        created_at=now(),
                        version=1,
                    )
                )
            if completion.state is DocumentState.SPLIT:
                _split(connection, document.id, completion.children)
            record_change(connection, document.id)
            return True

    def requeue(
        self,
        document: ClaimedDocument,
        *,
        after_seconds: float = 0.0,
        waiting_for: str | None = None,
        is_attempt: bool = False,
    ) -> bool:
        """Return a document to the queue for `after_seconds` at least: because this worker stops,
        because something it needs is unavailable (`waiting_for` names it), or to retry what failed
        (`is_attempt`). If cancellation was requested, cancel it instead. False, and nothing is
        changed, if the lease is lost."""
        values: dict[str, Any] = {
            **_requeued_or_cancelled(),
            "available_at": now(after_seconds),
            "waiting_for": waiting_for,
            "attempts": documents.c.attempts + (0 if is_attempt else -1),
        }
        with self._database.begin() as connection:
            if not self._change(connection, document, values, release=True):
                return False
            record_change(connection, document.id)
            return True

    def register(self, host: str, version: str, tasks: int) -> None:
        """Add this worker to the table `workers`, for monitoring."""
        with self._database.begin() as connection:
            row = {"id": self._worker, "host": host, "version": version, "tasks": tasks}
            connection.execute(
                workers.insert().values(
                    **row, started_at=now(), last_seen_at=now(), is_draining=False
                )
            )

    def heartbeat(self, *, is_draining: bool = False) -> None:
        """Record that this worker is alive, and take back what was counted as its deaths. Delete
        workers without a heartbeat for an hour."""
        with self._database.begin() as connection:
            connection.execute(
                update(workers)
                .where(workers.c.id == self._worker)
                .values(last_seen_at=now(), is_draining=is_draining)
            )
            connection.execute(workers.delete().where(workers.c.last_seen_at < now(-3600)))
        self._take_back_deaths()

    def unregister(self) -> None:
        """Remove this worker from the table `workers`: it stops, which is no death either."""
        self._take_back_deaths()
        with self._database.begin() as connection:
            connection.execute(workers.delete().where(workers.c.id == self._worker))

    def _take_back_deaths(self) -> None:
        with self._database.read() as connection:
            is_mine = lost_leases.c.worker == self._worker
            lost = connection.execute(select(lost_leases).where(is_mine)).all()
        for row in lost:
            # One transaction for each document: several locks could deadlock with another worker's.
            with self._database.begin() as connection:
                is_document = documents.c.id == row.document_id
                connection.execute(select(documents.c.id).where(is_document).with_for_update())
                is_row = and_(
                    lost_leases.c.document_id == row.document_id,
                    lost_leases.c.fencing_token == row.fencing_token,
                )
                if connection.execute(lost_leases.delete().where(is_row)).rowcount == 0:
                    continue
                connection.execute(
                    update(documents)
                    .where(
                        is_document,
                        documents.c.state.not_in(FINISHED_STATES),
                        documents.c.worker_stalls < MAX_WORKER_STALLS,
                    )
                    .values(
                        worker_deaths=documents.c.worker_deaths - 1,
                        worker_stalls=documents.c.worker_stalls + 1,
                    )
                )

    def _claim_next(self, connection: Connection, tenant: str) -> ClaimedDocument | None:
        first = (
            select(documents.c.id)
            .where(documents.c.tenant == tenant, *_is_ready(), self._limits_last_chances())
            .order_by(documents.c.priority.desc(), documents.c.queued_at, documents.c.id)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        row = connection.execute(
            update(documents)
            .where(documents.c.id == first.scalar_subquery())
            .values(
                state=DocumentState.PROCESSING,
                worker=self._worker,
                fencing_token=documents.c.fencing_token + 1,
                lease_expires_at=now(self.lease_seconds),
                started_at=func.coalesce(documents.c.started_at, now()),
                attempts=documents.c.attempts + 1,
                waiting_for=None,
            )
            .returning(documents)
        ).one_or_none()
        if row is None:
            return None
        record_change(connection, row.id)
        return ClaimedDocument(
            row.id,
            row.fencing_token,
            row.tenant,
            row.name,
            row.type,
            row.pipeline,
            row.pipeline_revision,
            row.attempts,
            row.generations,
            row.metadata,
            row.traceparent,
            row.available_at,
            row.lease_expires_at - timedelta(seconds=self.lease_seconds),
        )

    def _limits_last_chances(self) -> Any:  # noqa: ANN401
        """A condition: this worker has at most one document on its last chance, that is, one that
        fails if its worker dies once more. One such document that kills the worker must not take
        another one with it."""
        other = documents.alias("other")
        is_last_chance = other.c.worker_deaths >= MAX_WORKER_DEATHS - 1
        has_last_chance = exists().where(
            other.c.state == DocumentState.PROCESSING,
            other.c.worker == self._worker,
            is_last_chance,
        )
        return or_(documents.c.worker_deaths < MAX_WORKER_DEATHS - 1, ~has_last_chance)

    def _change(
        self,
        connection: Connection,
        document: ClaimedDocument,
        values: Mapping[str, Any],
        *,
        release: bool = False,
    ) -> bool:
        """Update a document if this worker still owns it; return whether it does."""
        released = {"worker": None, "lease_expires_at": None} if release else {}
        changed = connection.execute(
            update(documents)
            .where(self._owns(document.id, document.fencing_token))
            .values(**values, **released)
        )
        return changed.rowcount == 1

    def _owns(self, document_id: str, fencing_token: int) -> Any:  # noqa: ANN401
        return and_(
            documents.c.id == document_id,
            documents.c.fencing_token == fencing_token,
            documents.c.worker == self._worker,
            documents.c.state == DocumentState.PROCESSING,
        )

    def _owns_any(self, tokens: Mapping[str, int]) -> Any:  # noqa: ANN401
        return or_(*(self._owns(document_id, token) for document_id, token in tokens.items()))


def recover_expired_leases(
    database: Database, *, caller: str | None = None, lease_seconds: float = LEASE_SECONDS
) -> int:
    """Return documents with an expired lease to the queue, and fail those whose workers died too
    often. Returns their number.

    Any worker or gateway may call it at any time. A worker passes its name as `caller`: it is
    alive, so its own leases don't count as deaths.
    """
    if database.seconds_since_failure < LEASE_SECONDS:
        # While the database was unavailable no worker could renew its leases: they haven't died.
        return 0
    with database.begin() as connection:
        expired = connection.execute(
            select(documents)
            .where(
                documents.c.state == DocumentState.PROCESSING,
                documents.c.lease_expires_at < now(),
                or_(
                    documents.c.worker_deaths < MAX_WORKER_DEATHS - 1,
                    documents.c.worker == caller,
                    documents.c.lease_expires_at < now(-LAST_DEATH_LEASES * lease_seconds),
                ),
            )
            # In a fixed order of parents, which are locked below.
            .order_by(documents.c.parent, documents.c.id)
            .with_for_update(skip_locked=True)
        ).all()
        for row in expired:
            is_stall = row.worker == caller and row.worker_stalls < MAX_WORKER_STALLS
            deaths, stalls = row.worker_deaths + (not is_stall), row.worker_stalls + is_stall
            values: dict[str, Any] = {
                "worker_deaths": deaths,
                "worker_stalls": stalls,
                "worker": None,
                "lease_expires_at": None,
            }
            if deaths >= MAX_WORKER_DEATHS:
                error = {
                    "code": "worker_died",
                    "message": _describe_losses(deaths, stalls),
                    "step": row.step,
                    "retryable": False,
                }
                values |= {
                    "state": DocumentState.FAILED,
                    "error": error,
                    "finished_at": now(),
                    "step": None,
                }
            else:
                values |= {**_requeued_or_cancelled(), "available_at": now()}
                if not is_stall:
                    token = {"document_id": row.id, "fencing_token": row.fencing_token}
                    connection.execute(lost_leases.insert().values(**token, worker=row.worker))
            connection.execute(update(documents).where(documents.c.id == row.id).values(values))
            record_change(connection, row.id)
        return len(expired)


def _split(connection: Connection, document_id: str, children: Sequence[NewChild]) -> None:
    """Create the children of a document, unless it was cancelled in the meantime."""
    where = documents.c.id == document_id
    query = select(documents.c.cancel_requested_at).where(where)
    if connection.execute(query).scalar_one() is None:
        insert_children(connection, document_id, children)
        return
    values = {"state": DocumentState.CANCELLED, "result": None, "finished_at": now()}
    connection.execute(update(documents).where(where).values(**values))


def _describe_losses(deaths: int, stalls: int) -> str:
    during = "while they processed this document"
    if stalls < MAX_WORKER_STALLS:
        return f"{deaths} workers died {during}"
    return f"{deaths + stalls} workers stopped responding {during}"


def _requeued_or_cancelled() -> dict[str, Any]:
    """Column values for a document that its worker gives up: queued, or cancelled if that was
    requested."""
    is_cancelled = documents.c.cancel_requested_at.is_not(None)
    return {
        "state": case((is_cancelled, DocumentState.CANCELLED), else_=DocumentState.QUEUED),
        "finished_at": case((is_cancelled, now()), else_=None),
    }


@dataclass
class _TenantLoad:
    id: str
    processing: int
    weight: float
    max_processing: int | None

    @property
    def is_full(self) -> bool:
        return self.max_processing is not None and self.processing >= self.max_processing


def _lock_limited_tenants(connection: Connection) -> None:
    """Lock the tenants with a limit on documents in progress, so that workers claim one after
    another: concurrent ones would both count before either has claimed."""
    # In a fixed order, so that workers can't deadlock.
    query = select(tenants.c.id).where(tenants.c.max_processing.is_not(None)).order_by(tenants.c.id)
    connection.execute(query.with_for_update(key_share=True)).all()


def _is_ready() -> Sequence[Any]:
    return (
        documents.c.state == DocumentState.QUEUED,
        documents.c.available_at <= now(),
    )


def _load_tenants_with_work(connection: Connection) -> list[_TenantLoad]:
    processing = _count_processing(tenants.c.id)
    has_work = exists().where(documents.c.tenant == tenants.c.id, *_is_ready())
    rows = connection.execute(
        select(
            tenants.c.id, processing.label("processing"), tenants.c.weight, tenants.c.max_processing
        ).where(has_work)
    )
    return [_TenantLoad(*row) for row in rows]


def _count_processing(tenant: Any) -> Any:  # noqa: ANN401
    """The number of a tenant's documents in progress, as a scalar subquery."""
    return (
        select(func.count())
        .select_from(documents)
        .where(documents.c.tenant == tenant, documents.c.state == DocumentState.PROCESSING)
        .scalar_subquery()
    )


def _save_steps(connection: Connection, document_id: str, progress: Sequence[StepProgress]) -> None:
    for position, step in enumerate(progress):
        is_over = step.state in ("succeeded", "failed")
        started_at, finished_at = now(-step.started_ago), now(-step.finished_ago)
        values = {
            "state": step.state,
            "items_done": step.items_done,
            "items_failed": step.items_failed,
            "retries": step.retries,
            "requests": step.requests,
            "prompt_tokens": step.prompt_tokens,
            "completion_tokens": step.completion_tokens,
            "seconds": step.seconds,
            "model": step.model,
            "error": step.error,
        }
        where = and_(steps.c.document_id == document_id, steps.c.position == position)
        changed = connection.execute(
            update(steps)
            .where(where)
            .values(
                **values,
                started_at=func.coalesce(steps.c.started_at, started_at)
                if step.state != "pending"
                else steps.c.started_at,
                finished_at=func.coalesce(steps.c.finished_at, finished_at) if is_over else null(),
            )
        )
        if changed.rowcount == 0:
            connection.execute(
                steps.insert().values(
                    document_id=document_id,
                    position=position,
                    name=step.name,
                    started_at=None if step.state == "pending" else started_at,
                    finished_at=finished_at if is_over else None,
                    **values,
                )
            )
