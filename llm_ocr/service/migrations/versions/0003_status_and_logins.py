"""The status board's indexes, logins by OpenID Connect, and reviews that expire"""

import sqlalchemy as sa
from alembic import op

from llm_ocr.service.schema import Json, Timestamp

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "documents_finished",
        "documents",
        ["finished_at", "tenant", "state", "parent", "page_count"],
    )
    op.create_index("documents_counts", "documents", ["tenant", "state", "deleted_at"])
    op.add_column("tenants", sa.Column("review_days", sa.Double(), nullable=True))
    op.add_column("reviews", sa.Column("warned_at", Timestamp(), nullable=True))
    # Everybody has to log in again.
    op.drop_table("sessions")
    op.create_table(
        "sessions",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=True),
        sa.Column("issuer", sa.Text(), nullable=True),
        sa.Column("tenant", sa.Text(), nullable=True),
        sa.Column("person", sa.Text(), nullable=True),
        sa.Column("person_name", sa.Text(), nullable=True),
        sa.Column("scopes", Json(), nullable=True),
        sa.Column("csrf_token", sa.Text(), nullable=False),
        sa.Column("expires_at", Timestamp(), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["api_keys.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sa.PrimaryKeyConstraint("sha256"),
    )


def downgrade() -> None:
    op.drop_table("sessions")
    op.create_table(
        "sessions",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("csrf_token", sa.Text(), nullable=False),
        sa.Column("expires_at", Timestamp(), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["api_keys.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("sha256"),
    )
    op.drop_column("reviews", "warned_at")
    op.drop_column("tenants", "review_days")
    op.drop_index("documents_counts", "documents")
    op.drop_index("documents_finished", "documents")
