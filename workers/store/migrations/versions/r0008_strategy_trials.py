"""What variants of strategies gained in jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "strategy_trials",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("job_id", sa.String(40), nullable=False),
        sa.Column("variant", sa.String(20), nullable=False),
        sa.Column("trial", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_strategy_trials")),
        sa.UniqueConstraint("job_id", "variant", name=op.f("uq_strategy_trials_job_id_variant")),
    )


def downgrade() -> None:
    """Drop it again."""
    op.drop_table("strategy_trials")
