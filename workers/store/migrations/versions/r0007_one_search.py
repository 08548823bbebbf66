"""What stored summaries of optimize jobs said of the search, of which there is one kind."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop the field ``search`` from each, since a field that is not known is not read."""
    connection = op.get_bind()
    for name, column in (("stage_attempts", "output"), ("updates", "body")):
        table = sa.table(name, sa.column("id", sa.Integer), sa.column(column, sa.JSON(none_as_null=True)))
        holds = sa.cast(table.c[column], sa.Text).contains("OptimizeSummary")
        for key in list(connection.scalars(sa.select(table.c.id).where(holds))):
            value = connection.scalar(sa.select(table.c[column]).where(table.c.id == key))
            connection.execute(sa.update(table).where(table.c.id == key).values({column: _without_search(value)}))


def downgrade() -> None:
    """Nothing: no table changed."""


def _without_search(form: Any) -> Any:
    if isinstance(form, list):
        return [_without_search(item) for item in form]
    if not isinstance(form, dict):
        return form
    drop = form.get("$") == "OptimizeSummary"
    return {key: _without_search(item) for key, item in form.items() if not (drop and key == "search")}
