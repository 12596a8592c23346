"""The tables of the service's database, and the states of a document."""

import json
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)


class DocumentState(StrEnum):
    """The state of a document. `FINISHED_STATES` are final; `needs_review` waits for a person;
    `split` waits for the documents that were made of its pages."""

    AWAITING_UPLOAD = "awaiting_upload"
    QUEUED = "queued"
    PROCESSING = "processing"
    NEEDS_REVIEW = "needs_review"
    SPLIT = "split"
    SUCCEEDED = "succeeded"
    PARTIALLY_SUCCEEDED = "partially_succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINISHED_STATES = frozenset(
    {
        DocumentState.SUCCEEDED,
        DocumentState.PARTIALLY_SUCCEEDED,
        DocumentState.FAILED,
        DocumentState.CANCELLED,
    }
)


class Timestamp(TypeDecorator[datetime]):
    """A timezone-aware time: `timestamptz` on PostgreSQL, UTC text on SQLite in the format of
    `database.now()`, so that both compare."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:  # noqa: ANN401
        kind = Text() if dialect.name == "sqlite" else DateTime(timezone=True)
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:  # noqa: ANN401
        if value is None or dialect.name != "sqlite":
            return value
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ANN401
        if isinstance(value, str):
            return datetime.fromisoformat(value).replace(tzinfo=UTC)
        found: datetime | None = value if value is None else value.astimezone(UTC)
        return found


class Json(TypeDecorator[Any]):
    """A value stored as JSON text, the same on both databases."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ANN401
        return None if value is None else json.dumps(value, ensure_ascii=False)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ANN401
        return None if value is None else json.loads(value)


# SQLite assigns row numbers only in a column of type INTEGER.
_Serial = BigInteger().with_variant(Integer, "sqlite")

metadata = MetaData()

tenants = Table(
    "tenants",
    metadata,
    Column("id", Text, primary_key=True),
    Column("created_at", Timestamp, nullable=False),
    # Limits; null means no limit.
    Column("max_unfinished", Integer),
    Column("max_processing", Integer),
    Column("max_pages_per_day", Integer),
    Column("max_bytes", BigInteger),
    Column("retention_days", Double),
    # Days until a document that nobody reviews fails.
    Column("review_days", Double),
    # Share of the workers: a tenant with weight 2 gets twice as many tasks as one with weight 1.
    Column("weight", Double, nullable=False, default=1.0),
    # Signs webhooks to the URLs that documents name; created when it is first needed.
    Column("webhook_secret", Text),
    CheckConstraint("weight > 0", name="positive_weight"),
)

api_keys = Table(
    "api_keys",
    metadata,
    # The 8 characters after `lo_`, which are no secret.
    Column("id", Text, primary_key=True),
    Column("tenant", Text, ForeignKey("tenants.id"), nullable=False),
    Column("sha256", Text, nullable=False),
    Column("name", Text, nullable=False, default=""),
    Column("scopes", Json, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("expires_at", Timestamp),
    Column("revoked_at", Timestamp),
)

# People who use the web pages. The cookie has the token.
sessions = Table(
    "sessions",
    metadata,
    Column("sha256", Text, primary_key=True),
    # The API key with which somebody has logged in, which stays in charge,
    Column("key_id", Text, ForeignKey("api_keys.id", ondelete="CASCADE")),
    # or the OpenID Connect provider, and what its ID token gave access to.
    Column("issuer", Text),
    Column("tenant", Text, ForeignKey("tenants.id")),
    Column("person", Text),
    Column("person_name", Text),
    Column("scopes", Json),
    Column("csrf_token", Text, nullable=False),
    Column("expires_at", Timestamp, nullable=False),
)

documents = Table(
    "documents",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, ForeignKey("tenants.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("type", Text),
    Column("pipeline", Text, nullable=False),
    Column("pipeline_revision", Text, nullable=False),
    Column("metadata", Json, nullable=False),
    Column("webhook_url", Text),
    # The span that created it (W3C Trace Context), if that was traced; see `llm_ocr.tracing`.
    Column("traceparent", Text),
    Column("priority", Integer, nullable=False, default=0),
    Column("state", Text, nullable=False),
    # Of a document that was split from another one (see `service.children`): that document, the
    # first and last of its pages, and what it takes from that document.
    Column("parent", Text),
    Column("first_page", Integer),
    Column("last_page", Integer),
    Column("inherited", Json),
    # Times
    Column("created_at", Timestamp, nullable=False),
    Column("queued_at", Timestamp),
    Column("started_at", Timestamp),
    Column("finished_at", Timestamp),
    Column("expires_at", Timestamp),
    # If set, the API doesn't show the document any more, and `retention` deletes its content.
    Column("deleted_at", Timestamp),
    # Progress
    Column("step", Text),
    Column("page_count", Integer),
    Column("pages_done", Integer, nullable=False, default=0),
    # How often a retry invalidated a step's checkpoints: {step: number}, part of their keys.
    Column("generations", Json, nullable=False),
    # Outcome
    Column("error", Json),
    Column("cost", Json),
    Column("result", Text),
    # The file in the result's folder that a reviewer approved; null: the machine's.
    Column("approved_file", Text),
    # Queue
    Column("available_at", Timestamp),
    Column("waiting_for", Text),
    Column("attempts", Integer, nullable=False, default=0),
    # Leases that expired: of workers that died, as far as is known, and of those that were slow.
    Column("worker_deaths", Integer, nullable=False, default=0),
    Column("worker_stalls", Integer, nullable=False, default=0),
    Column("worker", Text),
    # Grows with each claim: a worker with an older token doesn't own the document any more.
    Column("fencing_token", BigInteger, nullable=False, default=0),
    Column("lease_expires_at", Timestamp),
    Column("cancel_requested_at", Timestamp),
    CheckConstraint(
        "(state = 'processing') = (lease_expires_at IS NOT NULL)", name="leased_while_processing"
    ),
)
Index(
    "documents_queue",
    documents.c.tenant,
    documents.c.state,
    documents.c.priority.desc(),
    documents.c.queued_at,
    documents.c.id,
)
Index("documents_state", documents.c.state, documents.c.lease_expires_at)
Index("documents_list", documents.c.tenant, documents.c.id)
Index("documents_parent", documents.c.parent, documents.c.first_page)
# With all that the status board counts.
Index(
    "documents_finished",
    documents.c.finished_at,
    documents.c.tenant,
    documents.c.state,
    documents.c.parent,
    documents.c.page_count,
)
Index("documents_counts", documents.c.tenant, documents.c.state, documents.c.deleted_at)

# Leases that expired, and count as deaths of their workers until these send a heartbeat again.
lost_leases = Table(
    "lost_leases",
    metadata,
    Column("document_id", Text, ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
    Column("fencing_token", BigInteger, primary_key=True),
    Column("worker", Text, nullable=False),
)
Index("lost_leases_worker", lost_leases.c.worker)

files = Table(
    "files",
    metadata,
    Column("document_id", Text, ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("size", BigInteger),
    Column("sha256", Text),
    Column("content_type", Text),
    # Path in the storage.
    Column("path", Text, nullable=False),
    Column("url", Text),
    Column("upload_expires_at", Timestamp),
    Column("uploaded_at", Timestamp),
)

steps = Table(
    "steps",
    metadata,
    Column("document_id", Text, ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("started_at", Timestamp),
    Column("finished_at", Timestamp),
    Column("items_done", Integer, nullable=False, default=0),
    Column("items_failed", Integer, nullable=False, default=0),
    # How often the step was retried because of transient errors.
    Column("retries", Integer, nullable=False, default=0),
    Column("requests", Integer, nullable=False, default=0),
    Column("prompt_tokens", BigInteger, nullable=False, default=0),
    Column("completion_tokens", BigInteger, nullable=False, default=0),
    Column("seconds", Double, nullable=False, default=0.0),
    Column("model", Text),
    Column("error", Json),
)

pipelines = Table(
    "pipelines",
    metadata,
    Column("name", Text, primary_key=True),
    Column("revision", Text, primary_key=True),
    Column("content", Text, nullable=False),
    Column("created_at", Timestamp, nullable=False),
)

# What people decide about results; a document that is processed again gets another review.
reviews = Table(
    "reviews",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("document_id", Text, ForeignKey("documents.id", ondelete="CASCADE"), nullable=False),
    Column("tenant", Text, nullable=False),
    # Folder of the result that is reviewed.
    Column("result", Text, nullable=False),
    Column("reasons", Json, nullable=False),
    # open, approved, rejected or withdrawn
    Column("state", Text, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    # Grows with each change; the ETag of the API.
    Column("version", Integer, nullable=False, default=1),
    # Lease of the person who works on it.
    Column("reviewer", Text),
    Column("reviewer_name", Text),
    Column("claim_expires_at", Timestamp),
    # When the event was recorded that it will soon be too old.
    Column("warned_at", Timestamp),
    # Outcome
    Column("decided_at", Timestamp),
    Column("decision_reason", Text),
    Column("seconds", Double),
)
Index("reviews_queue", reviews.c.tenant, reviews.c.state, reviews.c.id)
Index("reviews_document", reviews.c.document_id, reviews.c.id)

# What reviewers did to fields, in order; rows are never changed.
corrections = Table(
    "corrections",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("review_id", BigInteger, ForeignKey("reviews.id", ondelete="CASCADE"), nullable=False),
    Column("document_id", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    # correct, confirm, absent, reclassify or undo
    Column("action", Text, nullable=False),
    # The correction that an undo takes back.
    Column("undoes", BigInteger),
    # Position of the record in the result, and the field's path within it; a class has no path.
    Column("record", Integer, nullable=False),
    Column("path", Text, nullable=False),
    Column("old", Json),
    Column("new", Json),
    Column("page", Integer),
    Column("old_box", Json),
    Column("new_box", Json),
    # Confidence of the machine's value.
    Column("confidence", Double),
    Column("reason", Text),
    Column("reviewer", Text, nullable=False),
    Column("reviewer_name", Text, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("seconds", Double),
    Column("model", Text),
    Column("pipeline", Text, nullable=False),
    Column("pipeline_revision", Text, nullable=False),
)
Index("corrections_review", corrections.c.review_id, corrections.c.id)
Index("corrections_tenant", corrections.c.tenant, corrections.c.id)

# Written in the same transaction as the change of state that they describe.
events = Table(
    "events",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("document_id", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("data", Json, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    # Ids are never reused, even after the last event is deleted: streams resume from ids.
    sqlite_autoincrement=True,
)
Index("events_document", events.c.document_id, events.c.id)

webhooks = Table(
    "webhooks",
    metadata,
    Column("tenant", Text, ForeignKey("tenants.id"), primary_key=True),
    Column("url", Text, primary_key=True),
    Column("secret", Text, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("disabled_at", Timestamp),
    Column("disabled_reason", Text),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("event_id", BigInteger, nullable=False),
    Column("document_id", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("url", Text, nullable=False),
    # pending, delivered or failed
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False, default=0),
    Column("next_at", Timestamp, nullable=False),
    # Lease of the gateway that is sending it; the token grows with each claim.
    Column("fencing_token", BigInteger, nullable=False, default=0),
    Column("lease_expires_at", Timestamp),
    Column("delivered_at", Timestamp),
    Column("status_code", Integer),
    Column("error", Text),
    UniqueConstraint("event_id", "url"),
)
Index("deliveries_next", deliveries.c.state, deliveries.c.next_at)
Index("deliveries_list", deliveries.c.tenant, deliveries.c.id)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    # Null until the first request has its response.
    Column("status", Integer),
    Column("headers", Json),
    Column("body", Text),
)

# Upstream systems insert `uri` and, if they like, the columns up to `metadata`.
ingestion = Table(
    "ingestion",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("uri", Text, nullable=False),
    Column("tenant", Text),
    Column("type", Text),
    Column("priority", Integer),
    Column("metadata", Json),
    # Version of the object at the URI; set by a gateway that watches its folder.
    Column("version", Text),
    Column("document_id", Text),
    Column("error", Text),
    Column("finished_at", Timestamp),
    # Grows each time a gateway claims the row; the lease lasts until `available_at`.
    Column("fencing_token", BigInteger, nullable=False, server_default="0"),
    Column("available_at", Timestamp),
    # Claims since a gateway last recorded an outcome.
    Column("attempts", Integer, nullable=False, server_default="0"),
    UniqueConstraint("uri", "version"),
)
Index("ingestion_open", ingestion.c.finished_at, ingestion.c.available_at)

# One row: where the sweep for orphaned objects continues (see `service.orphans`), and an id that
# is also in the storage of this database.
storage_sweep = Table(
    "storage_sweep",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("storage_id", Text, nullable=False),
    Column("cursor", Text, nullable=False),
    Column("next_at", Timestamp, nullable=False),
)

pages_per_day = Table(
    "pages_per_day",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("day", Text, primary_key=True),
    Column("pages", Integer, nullable=False, default=0),
)

workers = Table(
    "workers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("host", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("tasks", Integer, nullable=False),
    Column("started_at", Timestamp, nullable=False),
    Column("last_seen_at", Timestamp, nullable=False),
    Column("is_draining", Boolean, nullable=False, default=False),
)

# What `NAME@ALIAS` means is the version of the latest change; rows are never changed.
alias_changes = Table(
    "alias_changes",
    metadata,
    Column("id", _Serial, primary_key=True),
    Column("name", Text, nullable=False),
    Column("alias", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("changed_at", Timestamp, nullable=False),
    Column("changed_by", Text, nullable=False),
    Column("reason", Text, nullable=False),
)
Index("alias_changes_latest", alias_changes.c.name, alias_changes.c.alias, alias_changes.c.id)
