"""Why a GPU host declined a request."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("gpu_requests", sa.Column("trouble", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop it again."""
    op.drop_column("gpu_requests", "trouble")
