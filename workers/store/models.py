"""The tables. Times are seconds since the epoch, UTC; JSON columns hold the JSON form of contracts."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

Json = JSON(none_as_null=True)
Serial = BigInteger().with_variant(Integer, "sqlite")


class Base(DeclarativeBase):
    """The declarative base; constraint names are fixed so that migrations can speak of them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class Delivery(Base):
    """A webhook delivery, kept before it is answered.

    ``tries`` counts claims. ``refusals`` and ``outages`` count how they ended: by a refusal of GitHub's or a fault of the bot's
    own, or by an outage or a rate limit. A claim whose process was killed is in neither.
    """

    __tablename__ = "deliveries"
    __table_args__ = (Index(None, "state", "id"),)

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    delivery_id: Mapped[str] = mapped_column(String(200), unique=True)
    event: Mapped[str] = mapped_column(String(200))
    payload: Mapped[bytes] = mapped_column(LargeBinary)
    state: Mapped[str] = mapped_column(String(20), default="pending")
    outcome: Mapped[str | None] = mapped_column(Text)
    error: Mapped[str | None] = mapped_column(Text)
    tries: Mapped[int] = mapped_column(default=0)
    refusals: Mapped[int] = mapped_column(default=0, server_default="0")
    outages: Mapped[int] = mapped_column(default=0, server_default="0")
    not_before: Mapped[float] = mapped_column(Float, default=0.0)
    lease_owner: Mapped[str | None] = mapped_column(String(200))
    lease_until: Mapped[float | None] = mapped_column(Float)
    received_at: Mapped[float] = mapped_column(Float)
    finished_at: Mapped[float | None] = mapped_column(Float)


class Job(Base):
    """A command that was accepted. ``generation`` counts how often it started over on a new snapshot."""

    __tablename__ = "jobs"
    __table_args__ = (Index(None, "repository", "number"), Index(None, "state"))

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    job_id: Mapped[str] = mapped_column(String(40), unique=True)
    key: Mapped[str] = mapped_column(String(500), unique=True)
    repository: Mapped[str] = mapped_column(String(300))
    number: Mapped[int]
    kernel: Mapped[str] = mapped_column(Text)
    request: Mapped[dict[str, Any]] = mapped_column(Json)
    state: Mapped[str] = mapped_column(String(20))
    generation: Mapped[int] = mapped_column(default=1)
    created_at: Mapped[float] = mapped_column(Float)
    updated_at: Mapped[float] = mapped_column(Float)
    branch: Mapped[str] = mapped_column(Text)
    head_sha: Mapped[str | None] = mapped_column(String(100))
    pull_number: Mapped[int | None]
    failure: Mapped[dict[str, Any] | None] = mapped_column(Json)
    pull_closed_at: Mapped[float | None] = mapped_column(Float)
    artifacts_removed_at: Mapped[float | None] = mapped_column(Float)


class StageAttempt(Base):
    """One attempt of a stage; ``awaiting`` is a GPU request.

    Since its last progress ``tries`` counts errors of its own, and ``losses`` the workers that were lost.
    """

    __tablename__ = "stage_attempts"
    __table_args__ = (UniqueConstraint("job_id", "stage", "attempt"), Index(None, "state"))

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.job_id"))
    generation: Mapped[int]
    stage: Mapped[str] = mapped_column(String(40))
    attempt: Mapped[int]
    state: Mapped[str] = mapped_column(String(20))
    note: Mapped[str] = mapped_column(Text, default="")
    notes: Mapped[int] = mapped_column(default=0)
    feedback: Mapped[list[Any]] = mapped_column(Json, default=list)
    output: Mapped[dict[str, Any] | None] = mapped_column(Json)
    failure: Mapped[dict[str, Any] | None] = mapped_column(Json)
    tries: Mapped[int] = mapped_column(default=0)
    losses: Mapped[int] = mapped_column(default=0, server_default="0")
    not_before: Mapped[float] = mapped_column(Float, default=0.0)
    awaiting: Mapped[str | None] = mapped_column(String(40))
    lease_token: Mapped[str | None] = mapped_column(String(40))
    lease_until: Mapped[float | None] = mapped_column(Float)
    notified_at: Mapped[float] = mapped_column(Float, default=0.0)
    started_at: Mapped[float | None] = mapped_column(Float)
    ended_at: Mapped[float | None] = mapped_column(Float)
    sha: Mapped[str | None] = mapped_column(String(100))
    decision: Mapped[str | None] = mapped_column(String(20))
    decided_by: Mapped[str | None] = mapped_column(String(200))


class StageMemo(Base):
    """A value that a stage computed once in an attempt."""

    __tablename__ = "stage_results"
    __table_args__ = (UniqueConstraint("attempt_id", "key"),)

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    attempt_id: Mapped[int] = mapped_column(ForeignKey("stage_attempts.id"))
    key: Mapped[str] = mapped_column(String(300))
    value: Mapped[Any] = mapped_column(JSON)


class GpuWork(Base):
    """A GPU request and, in the end, its result.

    ``tries`` counts claims but for those that were given back, ``losses`` the hosts that were lost, ``runner_kills`` the hosts
    that said that their runner was killed. ``trouble`` names the last host that declined it, and why. ``offers`` counts how often
    hosts were told of it since it waits.
    """

    __tablename__ = "gpu_requests"
    __table_args__ = (
        UniqueConstraint("attempt_id", "key"),
        Index(None, "state", "architecture"),
        Index(None, "started_at"),
    )

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    request_id: Mapped[str] = mapped_column(String(40), unique=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.job_id"), index=True)
    attempt_id: Mapped[int] = mapped_column(ForeignKey("stage_attempts.id"))
    key: Mapped[str] = mapped_column(String(300))
    architecture: Mapped[str] = mapped_column(String(40))
    request: Mapped[dict[str, Any]] = mapped_column(Json)
    files: Mapped[dict[str, Any]] = mapped_column(Json)
    state: Mapped[str] = mapped_column(String(20))
    result: Mapped[dict[str, Any] | None] = mapped_column(Json)
    tries: Mapped[int] = mapped_column(default=0)
    losses: Mapped[int] = mapped_column(default=0, server_default="0")
    runner_kills: Mapped[int] = mapped_column(default=0, server_default="0")
    not_before: Mapped[float] = mapped_column(Float, default=0.0, server_default="0")
    lease_token: Mapped[str | None] = mapped_column(String(40))
    lease_until: Mapped[float | None] = mapped_column(Float)
    host: Mapped[str | None] = mapped_column(String(200))
    trouble: Mapped[str | None] = mapped_column(Text)
    notified_at: Mapped[float] = mapped_column(Float, default=0.0)
    offers: Mapped[int] = mapped_column(default=0, server_default="0")
    created_at: Mapped[float] = mapped_column(Float)
    started_at: Mapped[float | None] = mapped_column(Float)
    ended_at: Mapped[float | None] = mapped_column(Float)


class OutboxUpdate(Base):
    """An update to publish, written in the transaction that caused it; counted as deliveries are."""

    __tablename__ = "updates"
    __table_args__ = (
        UniqueConstraint("job_id", "sequence"),
        UniqueConstraint("job_id", "dedupe_key"),
        Index(None, "state", "id"),
    )

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    update_id: Mapped[str] = mapped_column(String(40), unique=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.job_id"))
    generation: Mapped[int]
    sequence: Mapped[int]
    dedupe_key: Mapped[str | None] = mapped_column(String(200))
    stage: Mapped[str | None] = mapped_column(String(40))
    attempt: Mapped[int | None]
    kind: Mapped[str] = mapped_column(String(40))
    body: Mapped[dict[str, Any]] = mapped_column(Json)
    state: Mapped[str] = mapped_column(String(20), default="pending")
    effect: Mapped[dict[str, Any] | None] = mapped_column(Json)
    error: Mapped[str | None] = mapped_column(Text)
    tries: Mapped[int] = mapped_column(default=0)
    refusals: Mapped[int] = mapped_column(default=0, server_default="0")
    outages: Mapped[int] = mapped_column(default=0, server_default="0")
    not_before: Mapped[float] = mapped_column(Float, default=0.0)
    lease_owner: Mapped[str | None] = mapped_column(String(200))
    lease_until: Mapped[float | None] = mapped_column(Float)
    created_at: Mapped[float] = mapped_column(Float)
    published_at: Mapped[float | None] = mapped_column(Float)


class ReviewDecision(Base):
    """A decision that was made, by the key of the review or comment that made it."""

    __tablename__ = "decisions"

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    key: Mapped[str] = mapped_column(String(500), unique=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.job_id"))
    stage: Mapped[str] = mapped_column(String(40))
    attempt: Mapped[int]
    sha: Mapped[str] = mapped_column(String(100))
    decision: Mapped[str] = mapped_column(String(20))
    decided_by: Mapped[str] = mapped_column(String(200))
    at: Mapped[float] = mapped_column(Float)


class Event(Base):
    """Something that happened to a job."""

    __tablename__ = "events"

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.job_id"), index=True)
    at: Mapped[float] = mapped_column(Float)
    kind: Mapped[str] = mapped_column(String(40))
    text: Mapped[str] = mapped_column(Text)


class Artifact(Base):
    """A named file of a job; the bytes are in the artifact store."""

    __tablename__ = "artifacts"
    __table_args__ = (UniqueConstraint("job_id", "name"),)

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.job_id"))
    name: Mapped[str] = mapped_column(String(300))
    digest: Mapped[str] = mapped_column(String(64))
    media_type: Mapped[str] = mapped_column(String(200))
    size_bytes: Mapped[int] = mapped_column(BigInteger)


class LedgerEntry(Base):
    """What a job used, once for each ``key``; ``provider`` and ``model`` where a language model used it.

    Units: ``gpu_seconds``; ``input_tokens``, ``output_tokens``, ``cache_read_tokens``, ``cache_written_tokens``;
    ``micro_dollars``, a whole number, which is missing where a model has no price.
    """

    __tablename__ = "ledger"
    __table_args__ = (
        Index(None, "repository", "person", "at"),
        Index(None, "person", "at"),
        Index(None, "installation_id", "at"),
    )

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    key: Mapped[str] = mapped_column(String(200), unique=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.job_id"), index=True)
    repository: Mapped[str] = mapped_column(String(300))
    person: Mapped[str] = mapped_column(String(200))
    unit: Mapped[str] = mapped_column(String(40))
    amount: Mapped[float] = mapped_column(Float)
    at: Mapped[float] = mapped_column(Float)
    installation_id: Mapped[int | None] = mapped_column(BigInteger)
    provider: Mapped[str | None] = mapped_column(String(100))
    model: Mapped[str | None] = mapped_column(String(200))


class ModelRequest(Base):
    """One attempt of a request to a language model: what it may take at most until it ends, then how it ended.

    While it is ``asked`` its most counts as used. What it took in the end is in the ledger under ``model/`` and its id.
    """

    __tablename__ = "model_requests"
    __table_args__ = (Index(None, "attempt_id", "key"), Index(None, "state"))

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    request_id: Mapped[str] = mapped_column(String(40), unique=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.job_id"))
    attempt_id: Mapped[int] = mapped_column(ForeignKey("stage_attempts.id"))
    lease_token: Mapped[str] = mapped_column(String(40))
    key: Mapped[str] = mapped_column(String(200))
    purpose: Mapped[str] = mapped_column(String(100))
    provider: Mapped[str] = mapped_column(String(100))
    model: Mapped[str] = mapped_column(String(200))
    repository: Mapped[str] = mapped_column(String(300))
    person: Mapped[str] = mapped_column(String(200))
    installation_id: Mapped[int | None] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(String(20))  # asked, ended
    outcome: Mapped[str | None] = mapped_column(String(40))  # answered, a trouble, or lost with its worker
    most_input_tokens: Mapped[int] = mapped_column(BigInteger)
    most_output_tokens: Mapped[int] = mapped_column(BigInteger)
    most_micro_dollars: Mapped[int | None] = mapped_column(BigInteger)
    asked_at: Mapped[float] = mapped_column(Float)
    ended_at: Mapped[float | None] = mapped_column(Float)
    duration_s: Mapped[float | None] = mapped_column(Float)


class ModelAnswer(Base):
    """What a question came to under a key of an attempt; the record of it is an artifact."""

    __tablename__ = "model_answers"
    __table_args__ = (UniqueConstraint("attempt_id", "key"),)

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    attempt_id: Mapped[int] = mapped_column(ForeignKey("stage_attempts.id"))
    key: Mapped[str] = mapped_column(String(200))
    question: Mapped[str] = mapped_column(String(64))  # its digest
    record: Mapped[str] = mapped_column(String(64))  # the artifact's digest
    answered: Mapped[bool]


class MeasuredCommit(Base):
    """A commit that a night measured, with the repository as it was then: what a later night is compared with."""

    __tablename__ = "measured_commits"
    __table_args__ = (UniqueConstraint("repository", "revision"),)

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    repository: Mapped[str] = mapped_column(String(300))
    revision: Mapped[str] = mapped_column(String(100))
    snapshot: Mapped[str] = mapped_column(String(64))  # the artifact's digest
    measured_at: Mapped[float] = mapped_column(Float)


class MeasuredSeries(Base):
    """What is measured again at every commit; ``key`` is the digest of all that follows. Empty text: not recorded."""

    __tablename__ = "measured_series"
    __table_args__ = (Index(None, "repository", "kernel"),)

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    key: Mapped[str] = mapped_column(String(64), unique=True)
    repository: Mapped[str] = mapped_column(String(300))
    kernel: Mapped[str] = mapped_column(Text)
    provider: Mapped[str] = mapped_column(String(100))
    timed_pass: Mapped[str] = mapped_column(String(20))
    workload: Mapped[str] = mapped_column(Text)
    metric: Mapped[str] = mapped_column(String(40))
    gpu: Mapped[str] = mapped_column(String(200))
    gpu_uuid: Mapped[str] = mapped_column(String(100))
    driver: Mapped[str] = mapped_column(String(100))
    torch: Mapped[str] = mapped_column(String(100))
    triton: Mapped[str] = mapped_column(String(100))


class MeasuredPoint(Base):
    """A series' number at a revision: one, whoever measured it."""

    __tablename__ = "measured_points"
    __table_args__ = (UniqueConstraint("series_id", "revision"), Index(None, "series_id", "measured_at", "value"))

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    series_id: Mapped[int] = mapped_column(ForeignKey("measured_series.id"))
    revision: Mapped[str] = mapped_column(String(100))
    measured_at: Mapped[float] = mapped_column(Float)
    value: Mapped[float] = mapped_column(Float)
    low: Mapped[float | None] = mapped_column(Float)
    high: Mapped[float | None] = mapped_column(Float)
    samples: Mapped[int | None]
    floor_share: Mapped[float | None] = mapped_column(Float)
    sm_clock_mhz: Mapped[int | None]
    source: Mapped[str] = mapped_column(String(20))


class SeriesChange(Base):
    """A change in a series, at the first revision that shows it, and what became of it. ``ratio`` is new time over old."""

    __tablename__ = "series_changes"
    __table_args__ = (UniqueConstraint("series_id", "bad_revision"),)

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    series_id: Mapped[int] = mapped_column(ForeignKey("measured_series.id"))
    state: Mapped[str] = mapped_column(String(20))
    good_revision: Mapped[str] = mapped_column(String(100))
    bad_revision: Mapped[str] = mapped_column(String(100))
    ratio: Mapped[float] = mapped_column(Float)
    ratio_low: Mapped[float | None] = mapped_column(Float)
    ratio_high: Mapped[float | None] = mapped_column(Float)
    recovered_revision: Mapped[str | None] = mapped_column(String(100))  # at which it was gone
    reason: Mapped[str] = mapped_column(Text, default="")  # of a triage, in a person's words
    opened_at: Mapped[float] = mapped_column(Float)
    changed_at: Mapped[float] = mapped_column(Float)


class Cleanup(Base):
    """The one row by which artifacts, handled deliveries and points of nights age: up to when, and when that was moved on last."""

    __tablename__ = "cleanups"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    counted_to: Mapped[float] = mapped_column(Float)
    moved_at: Mapped[float] = mapped_column(Float)


class StrategyTrial(Base):
    """What one variant of a job came to, kept when the job's own records are gone."""

    __tablename__ = "strategy_trials"
    __table_args__ = (UniqueConstraint("job_id", "variant"),)

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    job_id: Mapped[str] = mapped_column(String(40))
    variant: Mapped[str] = mapped_column(String(20))
    trial: Mapped[dict[str, Any]] = mapped_column(Json)
