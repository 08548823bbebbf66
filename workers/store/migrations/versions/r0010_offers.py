"""How often GPU hosts were told of a request since it waits."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("gpu_requests", sa.Column("offers", sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Drop it again."""
    op.drop_column("gpu_requests", "offers")
