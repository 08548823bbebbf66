"""What time undoes: leases of lost workers are taken back, deliveries that nobody can send again are removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import CursorResult, delete, update
from sqlalchemy.orm import Session

from workers.store.models import Delivery, OutboxUpdate
from workers.store.swap import swapped


@dataclass(frozen=True)
class Freed:
    """How many leases were taken back."""

    deliveries: int
    updates: int


def free_expired(session: Session, now: float) -> Freed:
    """Take back the leases on deliveries and updates that have run out.

    Leases on stages and GPU requests stay: whoever claims those next must see that a worker was lost.
    """
    counts = []
    for table in (Delivery, OutboxUpdate):
        freed = swapped(
            session,
            update(table)
            .where(table.state == "pending", table.lease_until <= now)
            .values(lease_owner=None, lease_until=None),
        )
        counts.append(freed)
    return Freed(*counts)


def forget_deliveries(session: Session, before: float) -> int:
    """Remove the deliveries that were handled before a time, and give how many there were."""
    done = session.execute(delete(Delivery).where(Delivery.state == "done", Delivery.finished_at < before))
    return cast("CursorResult[Any]", done).rowcount
