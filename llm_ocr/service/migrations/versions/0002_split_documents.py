"""Documents that were split from others"""

import sqlalchemy as sa
from alembic import op

from llm_ocr.service.schema import Json

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Column by column: a batch could make SQLite copy the table, and drop the original with all
    # rows that refer to it.
    op.add_column("documents", sa.Column("parent", sa.Text(), nullable=True))
    op.add_column("documents", sa.Column("first_page", sa.Integer(), nullable=True))
    op.add_column("documents", sa.Column("last_page", sa.Integer(), nullable=True))
    op.add_column("documents", sa.Column("inherited", Json(), nullable=True))
    op.create_index("documents_parent", "documents", ["parent", "first_page"])


def downgrade() -> None:
    op.drop_index("documents_parent", "documents")
    for column in ("inherited", "last_page", "first_page", "parent"):
        op.drop_column("documents", column)
