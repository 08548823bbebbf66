"""What the pages ask for: a kernel's trend from the index alone, and the GPU hosts of the last days."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

BY_TIME, WITH_VALUE = "ix_measured_points_series_id_measured_at", "ix_measured_points_series_id_measured_at_value"
STARTED = "ix_gpu_requests_started_at"


def upgrade() -> None:
    """Make the indexes; the one with the value takes the place of the one without."""
    op.create_index(op.f(WITH_VALUE), "measured_points", ["series_id", "measured_at", "value"])
    op.drop_index(op.f(BY_TIME), "measured_points")
    op.create_index(op.f(STARTED), "gpu_requests", ["started_at"])


def downgrade() -> None:
    """Put back what was there."""
    op.drop_index(op.f(STARTED), "gpu_requests")
    op.create_index(op.f(BY_TIME), "measured_points", ["series_id", "measured_at"])
    op.drop_index(op.f(WITH_VALUE), "measured_points")
