"""Initial tables"""

import sqlalchemy as sa
from alembic import op

from llm_ocr.service.schema import Json, Timestamp

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "alias_changes",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("alias", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("changed_at", Timestamp(), nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("alias_changes", schema=None) as batch_op:
        batch_op.create_index("alias_changes_latest", ["name", "alias", "id"], unique=False)

    op.create_table(
        "deliveries",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.Column("document_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", Timestamp(), nullable=False),
        sa.Column("fencing_token", sa.BigInteger(), nullable=False),
        sa.Column("lease_expires_at", Timestamp(), nullable=True),
        sa.Column("delivered_at", Timestamp(), nullable=True),
        sa.Column("status_code", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("event_id", "url"),
    )
    with op.batch_alter_table("deliveries", schema=None) as batch_op:
        batch_op.create_index("deliveries_list", ["tenant", "id"], unique=False)
        batch_op.create_index("deliveries_next", ["state", "next_at"], unique=False)

    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("document_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("data", Json(), nullable=False),
        sa.Column("created_at", Timestamp(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.create_index("events_document", ["document_id", "id"], unique=False)

    op.create_table(
        "idempotency_keys",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("created_at", Timestamp(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("headers", Json(), nullable=True),
        sa.Column("body", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "key"),
    )
    op.create_table(
        "ingestion",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("uri", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=True),
        sa.Column("type", sa.Text(), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=True),
        sa.Column("metadata", Json(), nullable=True),
        sa.Column("version", sa.Text(), nullable=True),
        sa.Column("document_id", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("finished_at", Timestamp(), nullable=True),
        sa.Column("fencing_token", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("available_at", Timestamp(), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("uri", "version"),
    )
    with op.batch_alter_table("ingestion", schema=None) as batch_op:
        batch_op.create_index("ingestion_open", ["finished_at", "available_at"], unique=False)

    op.create_table(
        "storage_sweep",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("storage_id", sa.Text(), nullable=False),
        sa.Column("cursor", sa.Text(), nullable=False),
        sa.Column("next_at", Timestamp(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "pages_per_day",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("day", sa.Text(), nullable=False),
        sa.Column("pages", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "day"),
    )
    op.create_table(
        "pipelines",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("created_at", Timestamp(), nullable=False),
        sa.PrimaryKeyConstraint("name", "revision"),
    )
    op.create_table(
        "tenants",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("created_at", Timestamp(), nullable=False),
        sa.Column("max_unfinished", sa.Integer(), nullable=True),
        sa.Column("max_processing", sa.Integer(), nullable=True),
        sa.Column("max_pages_per_day", sa.Integer(), nullable=True),
        sa.Column("max_bytes", sa.BigInteger(), nullable=True),
        sa.Column("retention_days", sa.Double(), nullable=True),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("webhook_secret", sa.Text(), nullable=True),
        sa.CheckConstraint("weight > 0", name="positive_weight"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("tasks", sa.Integer(), nullable=False),
        sa.Column("started_at", Timestamp(), nullable=False),
        sa.Column("last_seen_at", Timestamp(), nullable=False),
        sa.Column("is_draining", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scopes", Json(), nullable=False),
        sa.Column("created_at", Timestamp(), nullable=False),
        sa.Column("expires_at", Timestamp(), nullable=True),
        sa.Column("revoked_at", Timestamp(), nullable=True),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "documents",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=True),
        sa.Column("pipeline", sa.Text(), nullable=False),
        sa.Column("pipeline_revision", sa.Text(), nullable=False),
        sa.Column("metadata", Json(), nullable=False),
        sa.Column("webhook_url", sa.Text(), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", Timestamp(), nullable=False),
        sa.Column("queued_at", Timestamp(), nullable=True),
        sa.Column("started_at", Timestamp(), nullable=True),
        sa.Column("finished_at", Timestamp(), nullable=True),
        sa.Column("expires_at", Timestamp(), nullable=True),
        sa.Column("deleted_at", Timestamp(), nullable=True),
        sa.Column("step", sa.Text(), nullable=True),
        sa.Column("page_count", sa.Integer(), nullable=True),
        sa.Column("pages_done", sa.Integer(), nullable=False),
        sa.Column("generations", Json(), nullable=False),
        sa.Column("error", Json(), nullable=True),
        sa.Column("cost", Json(), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("approved_file", sa.Text(), nullable=True),
        sa.Column("available_at", Timestamp(), nullable=True),
        sa.Column("waiting_for", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("worker_deaths", sa.Integer(), nullable=False),
        sa.Column("worker_stalls", sa.Integer(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("fencing_token", sa.BigInteger(), nullable=False),
        sa.Column("lease_expires_at", Timestamp(), nullable=True),
        sa.Column("cancel_requested_at", Timestamp(), nullable=True),
        sa.CheckConstraint(
            "(state = 'processing') = (lease_expires_at IS NOT NULL)",
            name="leased_while_processing",
        ),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("documents", schema=None) as batch_op:
        batch_op.create_index("documents_list", ["tenant", "id"], unique=False)
        batch_op.create_index("documents_state", ["state", "lease_expires_at"], unique=False)
        batch_op.create_index(
            "documents_queue",
            ["tenant", "state", sa.literal_column("priority DESC"), "queued_at", "id"],
            unique=False,
        )

    op.create_table(
        "webhooks",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("created_at", Timestamp(), nullable=False),
        sa.Column("disabled_at", Timestamp(), nullable=True),
        sa.Column("disabled_reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "url"),
    )
    op.create_table(
        "lost_leases",
        sa.Column("document_id", sa.Text(), nullable=False),
        sa.Column("fencing_token", sa.BigInteger(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["document_id"], ["documents.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("document_id", "fencing_token"),
    )
    with op.batch_alter_table("lost_leases", schema=None) as batch_op:
        batch_op.create_index("lost_leases_worker", ["worker"], unique=False)

    op.create_table(
        "files",
        sa.Column("document_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=True),
        sa.Column("sha256", sa.Text(), nullable=True),
        sa.Column("content_type", sa.Text(), nullable=True),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=True),
        sa.Column("upload_expires_at", Timestamp(), nullable=True),
        sa.Column("uploaded_at", Timestamp(), nullable=True),
        sa.ForeignKeyConstraint(["document_id"], ["documents.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("document_id", "position"),
    )
    op.create_table(
        "steps",
        sa.Column("document_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("started_at", Timestamp(), nullable=True),
        sa.Column("finished_at", Timestamp(), nullable=True),
        sa.Column("items_done", sa.Integer(), nullable=False),
        sa.Column("items_failed", sa.Integer(), nullable=False),
        sa.Column("retries", sa.Integer(), nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("error", Json(), nullable=True),
        sa.ForeignKeyConstraint(["document_id"], ["documents.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("document_id", "position"),
    )
    op.create_table(
        "sessions",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("csrf_token", sa.Text(), nullable=False),
        sa.Column("expires_at", Timestamp(), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["api_keys.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("sha256"),
    )
    op.create_table(
        "reviews",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("document_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("reasons", Json(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", Timestamp(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("reviewer", sa.Text(), nullable=True),
        sa.Column("reviewer_name", sa.Text(), nullable=True),
        sa.Column("claim_expires_at", Timestamp(), nullable=True),
        sa.Column("decided_at", Timestamp(), nullable=True),
        sa.Column("decision_reason", sa.Text(), nullable=True),
        sa.Column("seconds", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["document_id"], ["documents.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("reviews", schema=None) as batch_op:
        batch_op.create_index("reviews_document", ["document_id", "id"], unique=False)
        batch_op.create_index("reviews_queue", ["tenant", "state", "id"], unique=False)

    op.create_table(
        "corrections",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("review_id", sa.BigInteger(), nullable=False),
        sa.Column("document_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("undoes", sa.BigInteger(), nullable=True),
        sa.Column("record", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("old", Json(), nullable=True),
        sa.Column("new", Json(), nullable=True),
        sa.Column("page", sa.Integer(), nullable=True),
        sa.Column("old_box", Json(), nullable=True),
        sa.Column("new_box", Json(), nullable=True),
        sa.Column("confidence", sa.Double(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("reviewer", sa.Text(), nullable=False),
        sa.Column("reviewer_name", sa.Text(), nullable=False),
        sa.Column("created_at", Timestamp(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("pipeline", sa.Text(), nullable=False),
        sa.Column("pipeline_revision", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["review_id"], ["reviews.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("corrections", schema=None) as batch_op:
        batch_op.create_index("corrections_review", ["review_id", "id"], unique=False)
        batch_op.create_index("corrections_tenant", ["tenant", "id"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("corrections", schema=None) as batch_op:
        batch_op.drop_index("corrections_review")
        batch_op.drop_index("corrections_tenant")

    op.drop_table("corrections")
    with op.batch_alter_table("reviews", schema=None) as batch_op:
        batch_op.drop_index("reviews_document")
        batch_op.drop_index("reviews_queue")

    op.drop_table("reviews")
    op.drop_table("sessions")
    op.drop_table("steps")
    op.drop_table("files")
    op.drop_table("webhooks")
    with op.batch_alter_table("documents", schema=None) as batch_op:
        batch_op.drop_index("documents_queue")
        batch_op.drop_index("documents_state")
        batch_op.drop_index("documents_list")

    op.drop_table("documents")
    op.drop_table("api_keys")
    op.drop_table("workers")
    op.drop_table("tenants")
    op.drop_table("pipelines")
    op.drop_table("pages_per_day")
    with op.batch_alter_table("ingestion", schema=None) as batch_op:
        batch_op.drop_index("ingestion_open")

    op.drop_table("ingestion")
    op.drop_table("idempotency_keys")
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.drop_index("events_document")

    op.drop_table("events")
    with op.batch_alter_table("deliveries", schema=None) as batch_op:
        batch_op.drop_index("deliveries_next")
        batch_op.drop_index("deliveries_list")

    op.drop_table("deliveries")
    with op.batch_alter_table("alias_changes", schema=None) as batch_op:
        batch_op.drop_index("alias_changes_latest")

    op.drop_table("alias_changes")
