"""Compare-and-set: the one way in which the store takes, keeps and gives up leases."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import CursorResult, Update
from sqlalchemy.orm import Session


def swapped(session: Session, statement: Update) -> int:
    """Execute an update whose WHERE names the state it expects, and give how many rows were in that state.

    Rows that the session holds already are not brought up to date.
    """
    done = session.execute(statement.execution_options(synchronize_session=False))
    return cast("CursorResult[Any]", done).rowcount
