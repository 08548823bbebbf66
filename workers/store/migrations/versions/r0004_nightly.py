"""Numbers of a library's kernels over its commits, and the changes in them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables."""
    _commits()
    _series()
    _points()
    _changes()


def downgrade() -> None:
    """Drop them again."""
    for table in ("series_changes", "measured_points", "measured_series", "measured_commits"):
        op.drop_table(table)


def _commits() -> None:
    op.create_table(
        "measured_commits",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("repository", sa.String(length=300), nullable=False),
        sa.Column("revision", sa.String(length=100), nullable=False),
        sa.Column("snapshot", sa.String(length=64), nullable=False),
        sa.Column("measured_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_measured_commits")),
        sa.UniqueConstraint("repository", "revision", name=op.f("uq_measured_commits_repository_revision")),
    )


def _series() -> None:
    op.create_table(
        "measured_series",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("repository", sa.String(length=300), nullable=False),
        sa.Column("kernel", sa.Text(), nullable=False),
        sa.Column("provider", sa.String(length=100), nullable=False),
        sa.Column("timed_pass", sa.String(length=20), nullable=False),
        sa.Column("workload", sa.Text(), nullable=False),
        sa.Column("metric", sa.String(length=40), nullable=False),
        sa.Column("gpu", sa.String(length=200), nullable=False),
        *(sa.Column(name, sa.String(length=100), nullable=False) for name in ("gpu_uuid", "driver", "torch", "triton")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_measured_series")),
        sa.UniqueConstraint("key", name=op.f("uq_measured_series_key")),
    )
    op.create_index(op.f("ix_measured_series_repository_kernel"), "measured_series", ["repository", "kernel"])


def _points() -> None:
    op.create_table(
        "measured_points",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("series_id", SERIAL, nullable=False),
        sa.Column("revision", sa.String(length=100), nullable=False),
        sa.Column("measured_at", sa.Float(), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("low", sa.Float(), nullable=True),
        sa.Column("high", sa.Float(), nullable=True),
        sa.Column("samples", sa.Integer(), nullable=True),
        sa.Column("floor_share", sa.Float(), nullable=True),
        sa.Column("sm_clock_mhz", sa.Integer(), nullable=True),
        sa.Column("source", sa.String(length=20), nullable=False),
        sa.ForeignKeyConstraint(["series_id"], ["measured_series.id"], name=op.f("fk_measured_points_series_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_measured_points")),
        sa.UniqueConstraint("series_id", "revision", name=op.f("uq_measured_points_series_id_revision")),
    )
    op.create_index(op.f("ix_measured_points_series_id_measured_at"), "measured_points", ["series_id", "measured_at"])


def _changes() -> None:
    op.create_table(
        "series_changes",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("series_id", SERIAL, nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("good_revision", sa.String(length=100), nullable=False),
        sa.Column("bad_revision", sa.String(length=100), nullable=False),
        sa.Column("ratio", sa.Float(), nullable=False),
        sa.Column("ratio_low", sa.Float(), nullable=True),
        sa.Column("ratio_high", sa.Float(), nullable=True),
        sa.Column("recovered_revision", sa.String(length=100), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("opened_at", sa.Float(), nullable=False),
        sa.Column("changed_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["series_id"], ["measured_series.id"], name=op.f("fk_series_changes_series_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_series_changes")),
        sa.UniqueConstraint("series_id", "bad_revision", name=op.f("uq_series_changes_series_id_bad_revision")),
    )
