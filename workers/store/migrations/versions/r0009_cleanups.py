"""The time up to which the age of artifacts is counted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "cleanups",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("counted_to", sa.Float(), nullable=False),
        sa.Column("moved_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cleanups")),
    )


def downgrade() -> None:
    """Drop it again."""
    op.drop_table("cleanups")
