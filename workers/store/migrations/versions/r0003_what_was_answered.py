"""Answers are counted apart from claims; what a pull request and retention say of a job's artifacts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

COUNTS = (
    ("deliveries", "refusals"),
    ("deliveries", "outages"),
    ("updates", "refusals"),
    ("updates", "outages"),
    ("stage_attempts", "losses"),
    ("gpu_requests", "losses"),
    ("gpu_requests", "runner_kills"),
)


def upgrade() -> None:
    """Add the columns."""
    for table, column in COUNTS:
        op.add_column(table, sa.Column(column, sa.Integer(), nullable=False, server_default="0"))
    op.add_column("gpu_requests", sa.Column("not_before", sa.Float(), nullable=False, server_default="0"))
    op.add_column("jobs", sa.Column("pull_closed_at", sa.Float(), nullable=True))
    op.add_column("jobs", sa.Column("artifacts_removed_at", sa.Float(), nullable=True))


def downgrade() -> None:
    """Drop them again."""
    op.drop_column("jobs", "artifacts_removed_at")
    op.drop_column("jobs", "pull_closed_at")
    op.drop_column("gpu_requests", "not_before")
    for table, column in reversed(COUNTS):
        op.drop_column(table, column)
