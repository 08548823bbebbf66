"""What requests to language models may take and took. Each function is part of one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, exists, func, select, text, update
from sqlalchemy.orm import Session

from workers.contracts import ModelAmount, ModelRequests, ModelUse
from workers.models.ledger import Amount, Budget, BudgetScope, BudgetUnit, Room, day_start
from workers.models.protocol import Usage
from workers.models.recording import Tried
from workers.store.codec import read_request, storable
from workers.store.leases import is_since, swapped
from workers.store.models import Job, LedgerEntry, ModelRequest, StageAttempt

ASKED, ENDED = "asked", "ended"
LOST = "lost"
TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_written_tokens")
COST = BudgetUnit.micro_dollars.value
RESERVATION_LOCK = 0x6D6F6E65  # an arbitrary number that all processes agree on


@dataclass(frozen=True)
class SpendRequest:
    """One attempt of a request that is about to be made, and the most that it can take."""

    key: str
    purpose: str
    provider: str
    model: str
    most: Amount


@dataclass(frozen=True)
class _Owner:
    """Whose use a job's requests count as."""

    job_id: str
    person: str
    repository: str
    installation_id: int | None


@dataclass(frozen=True)
class Spent:
    """How an attempt of a request ended: ``answered`` or its trouble, and what it took."""

    request_id: str
    outcome: str
    usage: Usage
    micro_dollars: int | None
    duration_s: float


def rooms(session: Session, job: Job, budgets: Iterable[Budget], now: float) -> tuple[Room, ...]:
    """The state of a job's budgets, locked until the end of the transaction against other reservations."""
    if session.get_bind().dialect.name == "postgresql":
        # Two that look at the same sum at once would both find room. SQLite's writers wait for each other anyway.
        session.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": RESERVATION_LOCK})
    give_up_lost(session, now)
    origin = read_request(job.request).origin
    owner = _Owner(job.job_id, origin.author, job.repository, origin.installation_id)
    return tuple(_room(session, budget, owner, now) for budget in budgets)


def promise(session: Session, job: Job, row: StageAttempt, wanted: SpendRequest, now: float) -> str:
    """Promise the most that a request can take out of every budget, and give the request's id."""
    origin = read_request(job.request).origin
    request = ModelRequest(
        request_id=uuid.uuid4().hex,
        job_id=job.job_id,
        attempt_id=row.id,
        lease_token=row.lease_token or "",
        key=wanted.key,
        purpose=storable(wanted.purpose, 100),
        provider=storable(wanted.provider, 100),
        model=storable(wanted.model, 200),
        repository=job.repository,
        person=origin.author,
        installation_id=origin.installation_id,
        state=ASKED,
        most_input_tokens=wanted.most.input_tokens,
        most_output_tokens=wanted.most.output_tokens,
        most_micro_dollars=wanted.most.micro_dollars,
        asked_at=now,
    )
    session.add(request)
    session.flush()
    return request.request_id


def _room(session: Session, budget: Budget, owner: _Owner, now: float) -> Room:
    units = TOKENS if budget.unit is BudgetUnit.tokens else (COST,)
    gone = select(func.sum(LedgerEntry.amount)).where(
        LedgerEntry.unit.in_(units), _counts(LedgerEntry, budget.scope, owner)
    )
    if budget.scope is not BudgetScope.job:
        gone = gone.where(is_since(LedgerEntry.at, day_start(now), now))
    most = (
        ModelRequest.most_input_tokens + ModelRequest.most_output_tokens
        if budget.unit is BudgetUnit.tokens
        else ModelRequest.most_micro_dollars
    )
    promised = select(func.sum(most)).where(ModelRequest.state == ASKED, _counts(ModelRequest, budget.scope, owner))
    whose = owner.person if budget.scope is BudgetScope.person else owner.repository
    return Room(budget, int(session.scalar(gone) or 0), int(session.scalar(promised) or 0), whose)


def settle(session: Session, spent: Spent, now: float) -> bool:
    """Write down what a request took in place of what was promised to it; False where it has ended already."""
    request = session.scalar(select(ModelRequest).where(ModelRequest.request_id == spent.request_id))
    if request is None or not _end(session, request, spent.outcome, now, spent.duration_s):
        return False
    _charge(session, request, spent.usage, spent.micro_dollars, now)
    return True


def give_up_lost(session: Session, now: float) -> int:
    """End the requests whose worker was lost, and return their number.

    Nobody knows what those used, and the provider may have charged for all of it: the most is recorded.
    """
    holds = exists().where(
        StageAttempt.id == ModelRequest.attempt_id, StageAttempt.lease_token == ModelRequest.lease_token
    )
    # In one order, so that two that do this at once do not each wait for the other.
    query = select(ModelRequest).where(ModelRequest.state == ASKED, ~holds).order_by(ModelRequest.id)
    lost = session.scalars(query).all()
    ended = 0
    for request in lost:
        if _end(session, request, LOST, now, None):
            most = Usage(input_tokens=request.most_input_tokens, output_tokens=request.most_output_tokens)
            _charge(session, request, most, request.most_micro_dollars, now)
            ended += 1
    return ended


def tried(session: Session, attempt_id: int, key: str) -> tuple[Tried, ...]:
    """The attempts of a key's requests that have ended, oldest first, each with what it took."""
    rows = session.scalars(
        select(ModelRequest)
        .where(ModelRequest.attempt_id == attempt_id, ModelRequest.key == key, ModelRequest.state == ENDED)
        .order_by(ModelRequest.id)
    )
    return tuple(_tried(session, row) for row in rows)


def use(session: Session) -> ModelUse:
    """What models were asked and took since the ledger began."""
    by = (ModelRequest.provider, ModelRequest.purpose, ModelRequest.outcome)
    requests = session.execute(
        select(*by, func.count(), func.sum(func.coalesce(ModelRequest.duration_s, 0.0)))
        .where(ModelRequest.state == ENDED)
        .group_by(*by)
        .order_by(*by)
    )
    of = (LedgerEntry.provider, LedgerEntry.model, LedgerEntry.unit)
    amounts = session.execute(
        select(*of, func.sum(LedgerEntry.amount)).where(LedgerEntry.provider.is_not(None)).group_by(*of).order_by(*of)
    )
    return ModelUse(
        tuple(
            ModelRequests(provider, purpose, outcome or LOST, count, seconds)
            for provider, purpose, outcome, count, seconds in requests
        ),
        tuple(ModelAmount(provider or "", model or "", unit, int(amount)) for provider, model, unit, amount in amounts),
    )


def _tried(session: Session, request: ModelRequest) -> Tried:
    keys = [_key(request, unit) for unit in (*TOKENS, COST)]
    entries = session.execute(select(LedgerEntry.unit, LedgerEntry.amount).where(LedgerEntry.key.in_(keys)))
    took = {unit: int(amount) for unit, amount in entries}
    usage = Usage(**{unit: took.get(unit, 0) for unit in TOKENS})
    return Tried(request.provider, request.model, request.outcome or LOST, usage, took.get(COST), request.duration_s)


def _end(session: Session, request: ModelRequest, outcome: str, now: float, duration_s: float | None) -> bool:
    ended = swapped(
        session,
        update(ModelRequest)
        .where(ModelRequest.id == request.id, ModelRequest.state == ASKED)
        .values(state=ENDED, outcome=outcome, ended_at=now, duration_s=duration_s),
    )
    return ended == 1


def _charge(session: Session, request: ModelRequest, usage: Usage, micro_dollars: int | None, now: float) -> None:
    amounts = {unit: getattr(usage, unit) for unit in TOKENS} | {COST: micro_dollars}
    for unit, amount in amounts.items():
        # Nothing costs nothing; a cost that nobody knows is not written down as one.
        if amount:
            session.add(
                LedgerEntry(
                    key=_key(request, unit),
                    job_id=request.job_id,
                    repository=request.repository,
                    person=request.person,
                    installation_id=request.installation_id,
                    provider=request.provider,
                    model=request.model,
                    unit=unit,
                    amount=amount,
                    at=now,
                )
            )


def _key(request: ModelRequest, unit: str) -> str:
    return f"model/{request.request_id}/{unit}"


def _counts(table: type[LedgerEntry | ModelRequest], scope: BudgetScope, owner: _Owner) -> ColumnElement[bool]:
    match scope:
        case BudgetScope.job:
            return table.job_id == owner.job_id
        case BudgetScope.person:
            return table.person == owner.person
        case BudgetScope.repository:
            return table.repository == owner.repository
        case BudgetScope.installation:
            return table.installation_id.is_not_distinct_from(owner.installation_id)
