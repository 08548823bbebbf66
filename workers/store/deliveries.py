"""Webhook deliveries: kept once, handled in order of arrival under a lease."""

from __future__ import annotations

import functools
import os
import sqlite3
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from typing import Any, cast

from sqlalchemy import ColumnElement, Table, and_, bindparam, delete, func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import ReturningInsert

from workers.store.codec import storable
from workers.store.leases import NOW, Moment, is_over, swapped
from workers.store.models import Delivery

REHEARSAL_BYTES = 64 << 10  # more than a comment takes


@dataclass(frozen=True)
class NewDelivery:
    """A delivery that has arrived; with an ``outcome`` it asks for nothing, and is kept as handled."""

    delivery_id: str
    event: str
    payload: bytes
    outcome: str | None = None


@dataclass(frozen=True)
class ClaimedDelivery:
    """A delivery that this worker handles.

    ``tries`` includes this one, and distinguishes its claim from every other of the delivery, also by the same worker. It is no
    measure of how often the delivery failed, since claims end with killed processes too: that is ``refusals`` and ``outages``.
    """

    delivery_id: str
    event: str
    payload: bytes
    tries: int
    received_at: float
    refusals: int = 0
    outages: int = 0


def keep(session: Session, arrived: Iterable[NewDelivery], now: float) -> tuple[bool, ...]:
    """Keep deliveries, which are read once the transaction has begun, and tell of each whether it is new."""
    connection = session.connection()
    rows = [_row(delivery, now) for delivery in arrived]
    return _are_new(rows, connection.scalars(_insert(connection.dialect.name), rows)) if rows else ()


def keep_in_sqlite(connection: sqlite3.Connection, arrived: Iterable[NewDelivery], now: float) -> tuple[bool, ...]:
    """The same within a transaction of SQLite's own driver."""
    rows = [_row(delivery, now) for delivery in arrived]
    return _are_new(rows, [name for row in rows for (name,) in connection.execute(_insert_in_sqlite(), row)])


def _are_new(rows: list[dict[str, Any]], inserted: Iterable[str]) -> tuple[bool, ...]:
    new, kept = set(inserted), []
    for row in rows:
        kept.append(row["delivery_id"] in new)
        new.discard(row["delivery_id"])  # one that came twice in this moment is new once
    return tuple(kept)


def _row(delivery: NewDelivery, now: float) -> dict[str, Any]:
    is_done = delivery.outcome is not None
    return {
        "delivery_id": delivery.delivery_id,
        "event": delivery.event,
        "payload": delivery.payload,
        "received_at": now,
        "state": "done" if is_done else "pending",
        "outcome": delivery.outcome,
        "finished_at": now if is_done else None,
        **NEVER_TRIED,
    }


NEVER_TRIED = {"tries": 0, "refusals": 0, "outages": 0, "not_before": 0.0}


@functools.cache
def _insert(dialect: str) -> ReturningInsert[Any]:
    # On the table and not the mapped class, and built once: a webhook waits for it.
    table = cast("Table", Delivery.__table__)
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    return insert(table).on_conflict_do_nothing(index_elements=["delivery_id"]).returning(table.c.delivery_id)


@functools.cache
def _insert_in_sqlite() -> str:
    columns = list(_row(NewDelivery("", "", b""), 0.0))
    return str(_insert("sqlite").compile(dialect=sqlite.dialect(paramstyle="named"), column_keys=columns))


def last_of(session: Session, prefix: str) -> tuple[str, bytes] | None:
    """The id and payload of the delivery whose id is ``prefix`` and the latest time in 14 digits; None where there is none."""
    named = Delivery.delivery_id.between(prefix + "0" * 14, prefix + "9" * 14)
    exactly = func.substr(Delivery.delivery_id, 1, len(prefix)) == prefix  # collations pass over hyphens
    found = select(Delivery.delivery_id, Delivery.payload).where(named, exactly)
    row = session.execute(found.order_by(Delivery.delivery_id.desc()).limit(1)).first()
    return None if row is None else (row[0], row[1])


def rehearse(session: Session, now: float) -> None:
    """Keep a delivery and remove it again, within the caller's transaction, which nobody else sees anything of."""
    # Random: PostgreSQL compresses what it can, and so few bytes fit on a disk that has no room for a comment.
    rehearsed = NewDelivery(f"rehearsal-{uuid.uuid4().hex}", "rehearsal", os.urandom(REHEARSAL_BYTES))
    keep(session, (rehearsed,), now)
    session.execute(delete(Delivery).where(Delivery.delivery_id == rehearsed.delivery_id))


def claimable(now: Moment) -> ColumnElement[bool]:
    """The condition under which a delivery can be handled now."""
    return and_(
        Delivery.state == "pending",
        is_over(Delivery.not_before, now),
        or_(Delivery.lease_until.is_(None), is_over(Delivery.lease_until, now)),
    )


def any_claimable(session: Session, now: float, under_way: Collection[str]) -> bool:
    """Whether a delivery can be handled now that is none of ``under_way``."""
    return session.scalar(_OLDEST, {"now": now, "under_way": list(under_way)}) is not None


_OLDEST = (
    select(Delivery.id)
    .where(claimable(NOW), Delivery.delivery_id.not_in(bindparam("under_way", expanding=True)))
    .order_by(Delivery.id)
    .limit(1)
)
# In one statement, so that threads which are woken together take one each and not all of them the same.
_TAKE = (
    update(Delivery)
    .where(Delivery.id == _OLDEST.with_for_update(skip_locked=True).correlate(None).scalar_subquery())
    .values(lease_owner=bindparam("worker"), lease_until=bindparam("until"), tries=Delivery.tries + 1)
    .returning(*(getattr(Delivery, field.name) for field in fields(ClaimedDelivery)))
    .execution_options(synchronize_session=False)
)


def claim(
    session: Session, worker: str, now: float, lease_s: float, under_way: Collection[str]
) -> ClaimedDelivery | None:
    """Take the lease on the oldest delivery that can be handled now; None where there is none, or others have just taken all."""
    parameters = {"now": now, "under_way": list(under_way), "worker": worker, "until": now + lease_s}
    row = session.execute(_TAKE, parameters).one_or_none()
    return None if row is None else ClaimedDelivery(*row)


def finish(session: Session, delivery_id: str, outcome: str, now: float) -> bool:
    """Mark a delivery as handled; False where it was already.

    Whoever has it by now: what was handled is handled. Else one that takes longer than a lease would be handled for ever.
    """
    return _done(session, _pending(delivery_id), outcome, now)


def give_up(session: Session, delivery_id: str, tries: int, outcome: str, now: float) -> bool:
    """Mark a delivery as one that nobody will handle; False where another claim than the one of that number has it."""
    return _done(session, _claimed(delivery_id, tries), outcome, now)


def release(
    session: Session, delivery_id: str, tries: int, error: str, retry_at: float, *, refused: bool | None
) -> bool:
    """Release a delivery, not to be handled before ``retry_at``, and count why: it was ``refused``, or met an outage.

    With None neither is counted. False where another claim than the one of that number has it.
    """
    counted = {
        "refusals": Delivery.refusals + int(refused is True),
        "outages": Delivery.outages + int(refused is False),
    }
    done = swapped(
        session,
        update(Delivery)
        .where(_claimed(delivery_id, tries))
        .values(error=storable(error, 2000), not_before=retry_at, lease_owner=None, lease_until=None, **counted),
    )
    return done == 1


def _done(session: Session, condition: ColumnElement[bool], outcome: str, now: float) -> bool:
    values = {"state": "done", "outcome": storable(outcome, 1000), "finished_at": now}
    statement = update(Delivery).where(condition).values(**values, lease_owner=None, lease_until=None)
    return swapped(session, statement) == 1


def _pending(delivery_id: str) -> ColumnElement[bool]:
    return and_(Delivery.delivery_id == delivery_id, Delivery.state == "pending")


def _claimed(delivery_id: str, tries: int) -> ColumnElement[bool]:
    # The owner's name is no proof of a claim: a worker whose lease ran out may have taken the delivery again.
    return and_(_pending(delivery_id), Delivery.tries == tries)
