"""Requests to language models, their answers, and who used what of which model."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables and columns."""
    _model_requests()
    _model_answers()
    _ledger()


def downgrade() -> None:
    """Drop them again."""
    op.drop_index(op.f("ix_ledger_person_at"), table_name="ledger")
    op.drop_index(op.f("ix_ledger_job_id"), table_name="ledger")
    op.drop_index(op.f("ix_ledger_installation_id_at"), table_name="ledger")
    op.drop_column("ledger", "model")
    op.drop_column("ledger", "provider")
    op.drop_column("ledger", "installation_id")
    op.drop_index(op.f("ix_model_requests_state"), table_name="model_requests")
    op.drop_index(op.f("ix_model_requests_attempt_id_key"), table_name="model_requests")
    op.drop_table("model_requests")
    op.drop_table("model_answers")


def _model_requests() -> None:
    op.create_table(
        "model_requests",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("request_id", sa.String(length=40), nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("lease_token", sa.String(length=40), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("purpose", sa.String(length=100), nullable=False),
        sa.Column("provider", sa.String(length=100), nullable=False),
        sa.Column("model", sa.String(length=200), nullable=False),
        sa.Column("repository", sa.String(length=300), nullable=False),
        sa.Column("person", sa.String(length=200), nullable=False),
        sa.Column("installation_id", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("outcome", sa.String(length=40), nullable=True),
        sa.Column("most_input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("most_output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("most_micro_dollars", sa.BigInteger(), nullable=True),
        sa.Column("asked_at", sa.Float(), nullable=False),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("duration_s", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["attempt_id"], ["stage_attempts.id"], name=op.f("fk_model_requests_attempt_id")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name=op.f("fk_model_requests_job_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_requests")),
        sa.UniqueConstraint("request_id", name=op.f("uq_model_requests_request_id")),
    )
    op.create_index(op.f("ix_model_requests_attempt_id_key"), "model_requests", ["attempt_id", "key"], unique=False)
    op.create_index(op.f("ix_model_requests_state"), "model_requests", ["state"], unique=False)


def _model_answers() -> None:
    op.create_table(
        "model_answers",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("question", sa.String(length=64), nullable=False),
        sa.Column("record", sa.String(length=64), nullable=False),
        sa.Column("answered", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["stage_attempts.id"], name=op.f("fk_model_answers_attempt_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_answers")),
        sa.UniqueConstraint("attempt_id", "key", name=op.f("uq_model_answers_attempt_id_key")),
    )


def _ledger() -> None:
    op.add_column("ledger", sa.Column("installation_id", sa.BigInteger(), nullable=True))
    op.add_column("ledger", sa.Column("provider", sa.String(length=100), nullable=True))
    op.add_column("ledger", sa.Column("model", sa.String(length=200), nullable=True))
    op.create_index(op.f("ix_ledger_installation_id_at"), "ledger", ["installation_id", "at"], unique=False)
    op.create_index(op.f("ix_ledger_job_id"), "ledger", ["job_id"], unique=False)
    op.create_index(op.f("ix_ledger_person_at"), "ledger", ["person", "at"], unique=False)
