"""Leases on rows: taken, kept and given up by compare-and-set; those of lost workers are taken back when their time is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import BindParameter, ColumnElement, CursorResult, Float, Update, and_, bindparam, delete, or_, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from workers.store.models import Delivery, OutboxUpdate


def swapped(session: Session, statement: Update, parameters: Mapping[str, Any] | None = None) -> int:
    """Execute an update whose WHERE names the expected state, and return the number of rows that were in it.

    Rows loaded in the session are not refreshed.
    """
    done = session.execute(statement, parameters, execution_options={"synchronize_session": False})
    return cast("CursorResult[Any]", done).rowcount


# Beyond the longest pause and the longest lease, which are an hour, and what clocks of several hosts may differ by. Times that
# lie further ahead were written by a clock that has been put back since.
LONGEST_WAIT_S = 3900.0


@dataclass(frozen=True)
class Freed:
    """How many leases were taken back."""

    deliveries: int
    updates: int


# Statements that are executed again and again are built once, with this in place of the time: to build one takes three times as
# long as to execute it.
NOW = bindparam("now", type_=Float())

Moment = float | BindParameter[float]


def is_over(
    until: InstrumentedAttribute[float] | InstrumentedAttribute[float | None], now: Moment
) -> ColumnElement[bool]:
    """The condition under which a time until which something waits, or is leased, has passed, or is none to wait for."""
    return or_(until <= now, until > now + LONGEST_WAIT_S)


def is_since(
    at: InstrumentedAttribute[float] | InstrumentedAttribute[float | None], since: float, now: float
) -> ColumnElement[bool]:
    """The condition under which something happened since a time; what a clock dated that has been put back since did not."""
    return and_(at >= since, at <= now + LONGEST_WAIT_S)


def has_run_out(lease_until: float | None, now: float) -> bool:
    """As ``is_over``, for a loaded row; a row without a lease has None."""
    return lease_until is not None and (lease_until <= now or lease_until > now + LONGEST_WAIT_S)


def free_expired(session: Session, now: float) -> Freed:
    """Release expired leases on deliveries and updates.

    Leases on stages and GPU requests stay: whoever claims those next must see that a worker was lost.
    """
    counts = []
    for table in (Delivery, OutboxUpdate):
        freed = swapped(
            session,
            update(table)
            .where(table.state == "pending", is_over(table.lease_until, now))
            .values(lease_owner=None, lease_until=None),
        )
        counts.append(freed)
    return Freed(*counts)


def forget_deliveries(session: Session, before: float) -> int:
    """Remove the deliveries that were handled before a time, and give how many there were."""
    done = session.execute(delete(Delivery).where(Delivery.state == "done", Delivery.finished_at < before))
    return cast("CursorResult[Any]", done).rowcount
