"""A door: what the service asks of the production. Each call is one transaction and may be made twice."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import InstrumentedAttribute

from workers.broker import ping as ping_broker
from workers.contracts import (
    ActiveJob,
    Decision,
    DecisionOutcome,
    DecisionResult,
    Estimate,
    Failure,
    JobOptions,
    JobRequest,
    JobState,
    JobView,
    LineComment,
    ModelUse,
    Operation,
    ProblemText,
    StageName,
    Submission,
    UserFacingError,
)
from workers.runtime import current
from workers.store import deliveries, gpu_work, history, jobs, retention, reviews, spending, updates
from workers.store.codec import read_request, storable
from workers.store.database import SQLiteWriter
from workers.store.deliveries import ClaimedDelivery, NewDelivery
from workers.store.leases import is_since
from workers.store.models import Delivery, GpuWork, Job, LedgerEntry, OutboxUpdate
from workers.store.trouble import StoreTrouble, trouble_of
from workers.store.views import view

__all__ = [
    "ClaimedDelivery",
    "DeliveryLog",
    "NewDelivery",
    "StoreTrouble",
    "broker_ready",
    "cancel",
    "claim_delivery",
    "counts",
    "decide",
    "estimate",
    "find_jobs",
    "finish_delivery",
    "get_job",
    "give_up_delivery",
    "gpu_hosts_ready",
    "gpu_seconds_since",
    "has_models",
    "has_untold",
    "known_repositories",
    "last_delivery",
    "look_over",
    "look_over_fuse",
    "look_over_modify",
    "look_over_optimize",
    "look_over_port",
    "model_use",
    "needs_model",
    "now",
    "operation",
    "pull_closed",
    "recent_jobs",
    "record_deliveries",
    "rehearse_delivery",
    "release_delivery",
    "retry",
    "submit",
    "submitted_since",
    "touched_kernel",
    "triage",
    "trouble_of",
]

ACTIVE = (JobState.queued, JobState.running, JobState.waiting)


def now() -> float:
    """The time by which jobs and deliveries are dated, in seconds since the epoch."""
    return current().clock()


def submit(request: JobRequest) -> Submission:
    """Accept a command: its job, its first attempt and its first status update are durable when this returns."""
    runtime = current()
    try:
        with runtime.database.write() as session:
            result = jobs.submit(session, request, runtime.clock())
    except IntegrityError:
        # The same command was accepted by another process in this moment, so now it is found.
        with runtime.database.write() as session:
            result = jobs.submit(session, request, runtime.clock())
    if result.created:
        runtime.notifier.advance(result.job_id)
    return result


def look_over(kernel: str, problem: ProblemText, snapshot: str, options: JobOptions) -> str | Failure:
    """Check a create command against its repository, running nothing; the kernel's name, or why it cannot be carried out."""
    from workers.stages import bench
    from workers.tree import read_tarball

    try:
        tree = read_tarball(current().blobs.get(snapshot))
        return bench.look_over_create(kernel, problem, tree, options, models=has_models())
    except UserFacingError as error:
        return error.failure


def estimate(request: JobRequest) -> Estimate:
    """The most that a job would take, and what is missing."""
    from workers.stages.estimate import estimate as estimated
    from workers.tree import read_tarball

    runtime = current()
    tree = read_tarball(runtime.blobs.get(request.head_snapshot or request.snapshot))
    with runtime.database.read() as session:
        hosts = gpu_work.hosts_of(session, request.options.gpu, runtime.clock())
    return estimated(request, tree, hosts, runtime.settings, models=has_models())


def has_models() -> bool:
    """Whether jobs may ask a language model: one is configured here, or with the processes that run stages."""
    runtime = current()
    return runtime.settings.model_elsewhere or bool(runtime.models().providers)


def needs_model(problem: ProblemText) -> bool:
    """Whether only a model can make a problem of this; what lies in a repository is not looked into."""
    from workers.stages.problem import is_installed, is_wish

    return is_installed(problem) or is_wish(problem)


def look_over_optimize(kernel: str, problem: ProblemText, snapshot: str, options: JobOptions) -> str | Failure:
    """Check an optimize command against its repository, running nothing; the kernel's name there, or all that is missing."""
    from workers.stages import bench
    from workers.tree import read_tarball

    try:
        return bench.look_over_optimize(kernel, problem, read_tarball(current().blobs.get(snapshot)), options)
    except UserFacingError as error:
        return error.failure


def touched_kernel(before: str, after: str, layout: str | None) -> str | Failure:
    """The one kernel in which two snapshots differ, or why there is none."""
    from workers.stages import bench
    from workers.tree import read_tarball

    blobs = current().blobs
    try:
        return bench.touched_kernel(read_tarball(blobs.get(before)), read_tarball(blobs.get(after)), layout)
    except UserFacingError as error:
        return error.failure


def look_over_modify(kernel: str, words: str, problem: ProblemText, snapshot: str, layout: str | None) -> str | Failure:
    """Check a modify command against its repository, running nothing; the kernel's name there, or all that is missing."""
    from workers.stages import bench
    from workers.tree import read_tarball

    try:
        return bench.look_over_modify(kernel, words, problem, read_tarball(current().blobs.get(snapshot)), layout)
    except UserFacingError as error:
        return error.failure


def look_over_port(kernel: str, problem: ProblemText, snapshot: str, options: JobOptions) -> str | Failure:
    """Check a port command against its repository, running nothing; the kernel's name there, or why it cannot be ported."""
    from workers.stages.port import port_subject
    from workers.tree import read_tarball

    try:
        return port_subject(kernel, problem, read_tarball(current().blobs.get(snapshot)), options).kernel.name
    except UserFacingError as error:
        return error.failure


def look_over_fuse(kernel: str, problem: ProblemText, snapshot: str, layout: str | None) -> str | Failure:
    """Check a fuse command against its repository, running nothing; the model's name there, or why it cannot be fused."""
    from workers.stages.fuse import fuse_subject
    from workers.tree import read_tarball

    try:
        return fuse_subject(kernel, problem, read_tarball(current().blobs.get(snapshot)), layout).name
    except UserFacingError as error:
        return error.failure


def decide(
    job_id: str,
    stage: StageName | None,
    sha: str,
    decision: Decision,
    feedback: str,
    lines: tuple[LineComment, ...],
    by: str,
    key: str,
) -> DecisionResult:
    """Decide at a checkpoint, for the commit that it names (at least 7 characters of it); ``stage`` None: whichever waits."""
    runtime = current()
    with runtime.database.write() as session:
        job = jobs.locked(session, job_id)
        if job is None:
            return DecisionResult(DecisionOutcome.nothing_waits)
        review = reviews.DecidedReview(key, stage, sha, decision, by, feedback, lines)
        result = reviews.decide(session, job, review, runtime.clock())
    if result.outcome is DecisionOutcome.accepted:
        runtime.notifier.advance(job_id)
    return result


def cancel(job_id: str, by: str, why: str = "") -> bool:
    """Cancel a job, ``why`` where nobody asked for it; False where there is none or it has ended."""
    runtime = current()
    with runtime.database.write() as session:
        job = jobs.locked(session, job_id)
        return job is not None and reviews.cancel(session, job, by, runtime.clock(), why)


def retry(job_id: str, by: str, snapshot: str | None = None, base_sha: str | None = None) -> bool:
    """Have a job that failed or was cancelled go on from that stage; with a new snapshot and its commit it starts over.

    Raises:
        ValueError: one of ``snapshot`` and ``base_sha`` without the other.
    """
    if (snapshot is None) != (base_sha is None):
        raise ValueError("a snapshot and its commit are given together")
    fresh = None if snapshot is None or base_sha is None else (snapshot, base_sha)
    runtime = current()
    with runtime.database.write() as session:
        job = jobs.locked(session, job_id)
        done = job is not None and reviews.retry(session, job, by, fresh, runtime.clock())
    if done:
        runtime.notifier.advance(job_id)
    return done


def pull_closed(repository: str, number: int, *, closed: bool) -> None:
    """Note that a pull request was closed or merged, or opened again: what its jobs keep is kept while it is open."""
    runtime = current()
    with runtime.database.write() as session:
        retention.pull_closed(session, repository, number, runtime.clock() if closed else None)


def get_job(job_id: str) -> JobView | None:
    """A job, None where there is none."""
    with current().database.read() as session:
        job = session.scalar(select(Job).where(Job.job_id == job_id))
        return None if job is None else view(session, job, current().clock())


def find_jobs(
    repository: str, number: int | None = None, active: bool | None = None, pull_number: int | None = None
) -> tuple[JobView, ...]:
    """A repository's jobs, oldest first; ``active`` True leaves out those that have ended, False the others."""
    with current().database.read() as session:
        rows = jobs.find(session, repository, number, active, pull_number)
        return tuple(view(session, job, current().clock()) for job in rows)


def recent_jobs(limit: int = 100) -> tuple[JobView, ...]:
    """The jobs of all repositories that changed last, newest first."""
    with current().database.read() as session:
        jobs = session.scalars(select(Job).order_by(Job.updated_at.desc(), Job.id.desc()).limit(limit))
        return tuple(view(session, job, current().clock()) for job in jobs)


def operation(most_jobs: int = 50) -> Operation:
    """What an operator looks at first: GPU hosts, queues, and the jobs that have not ended, newest first."""
    runtime = current()
    now = runtime.clock()
    active = Job.state.in_([state.value for state in ACTIVE])
    with runtime.database.read() as session:
        rows = session.scalars(
            select(Job).where(active).order_by(Job.updated_at.desc(), Job.id.desc()).limit(most_jobs)
        )
        jobs = tuple(
            ActiveJob(
                job.job_id,
                read_request(job.request).verb.value,
                job.kernel,
                job.repository,
                job.state,
                job.created_at,
                job.updated_at,
            )
            for job in rows
        )
        count = session.scalar(select(func.count()).select_from(Job).where(active)) or 0
        return Operation(gpu_work.hosts(session, now), gpu_work.queues(session, now), jobs, count)


def known_repositories() -> tuple[tuple[str, int | None], ...]:
    """The repositories on GitHub that have had jobs, with the App's installation of the newest one."""
    newest = select(func.max(Job.id)).where(Job.number > 0).group_by(Job.repository)
    with current().database.read() as session:
        jobs = session.scalars(select(Job).where(Job.id.in_(newest)).order_by(Job.id))
        return tuple((job.repository, read_request(job.request).origin.installation_id) for job in jobs)


def has_untold(repository: str) -> bool:
    """Whether the issue of a kernel was not told what a night has found."""
    with current().database.read() as session:
        return bool(updates.untold(session, repository))


def submitted_since(repository: str, since: float) -> tuple[tuple[str, float], ...]:
    """Who started a repository's jobs since a time, and when, oldest first; times are seconds since the epoch."""
    runtime = current()
    recent = is_since(Job.created_at, since, runtime.clock())
    query = select(Job).where(Job.repository == repository, recent).order_by(Job.id)
    with runtime.database.read() as session:
        return tuple((read_request(job.request).origin.author, job.created_at) for job in session.scalars(query))


def gpu_seconds_since(repository: str, since: float, author: str | None = None) -> float:
    """The seconds that a repository's jobs, all or one person's, kept a GPU busy since a time; the interpreter is no GPU."""
    runtime = current()
    now = runtime.clock()
    query = (
        select(Job.request, func.sum(gpu_work.taken_s(now, runtime.settings.gpu_time_limit_s)))
        .select_from(GpuWork)
        .join(Job, Job.job_id == GpuWork.job_id)
        .outerjoin(LedgerEntry, gpu_work.charged())
        .where(Job.repository == repository, GpuWork.architecture != "interpreter")
        .where(is_since(GpuWork.started_at, since, now))
        .group_by(Job.id)
    )
    with runtime.database.read() as session:
        # Who asked for a job stands in its request alone; a day's jobs of one repository are few.
        rows = session.execute(query).all()
    wanted = None if author is None else author.lower()
    return sum(
        float(busy_s or 0.0) for form, busy_s in rows if wanted in (None, read_request(form).origin.author.lower())
    )


def model_use() -> ModelUse:
    """Requests to language models and their usage so far, for the metrics."""
    with current().database.read() as session:
        return spending.use(session)


def record_deliveries(arrived: Iterable[NewDelivery]) -> tuple[bool, ...]:
    """Keep deliveries, all of them durable when this returns, and tell of each whether it is new.

    They are read once the transaction has begun: who waits for another process to end its own can add to them meanwhile.
    """
    runtime = current()
    with runtime.database.write() as session:
        return deliveries.keep(session, arrived, runtime.clock())


def last_delivery(prefix: str) -> tuple[str, bytes] | None:
    """The id and payload of the delivery whose id is ``prefix`` and the latest time in 14 digits; None where there is none."""
    with current().database.read() as session:
        return deliveries.last_of(session, prefix)


class DeliveryLog:
    """Keeps deliveries as ``record_deliveries`` does, for one thread that does nothing else: on SQLite in half of the time."""

    def __init__(self) -> None:
        self._writer: SQLiteWriter | None = None

    def record(self, arrived: Iterable[NewDelivery]) -> tuple[bool, ...]:
        """Keep deliveries, all of them durable when this returns, and tell of each whether it is new."""
        runtime = current()
        if not runtime.database.is_sqlite:
            return record_deliveries(arrived)
        self._writer = self._writer or SQLiteWriter(runtime.database)
        with self._writer.write() as connection:
            return deliveries.keep_in_sqlite(connection, arrived, runtime.clock())

    def close(self) -> None:
        """Close the connection, where one is open."""
        if self._writer is not None:
            self._writer.close()


def claim_delivery(worker: str, lease_s: float, under_way: Collection[str] = ()) -> ClaimedDelivery | None:
    """Take the oldest delivery that can be handled now, None where there is none.

    ``under_way`` are deliveries that are not taken although their lease may be over.
    """
    runtime = current()
    with runtime.database.read() as session:
        if not deliveries.any_claimable(session, runtime.clock(), under_way):
            return None
    with runtime.database.write() as session:
        return deliveries.claim(session, worker, runtime.clock(), lease_s, under_way)


def finish_delivery(delivery_id: str, outcome: str) -> bool:
    """Mark a delivery as handled; False where it was already."""
    runtime = current()
    with runtime.database.write() as session:
        return deliveries.finish(session, delivery_id, outcome, runtime.clock())


def give_up_delivery(delivery_id: str, tries: int, outcome: str) -> bool:
    """Mark a delivery as one that nobody will handle; False where its claim of that number was lost, or it is handled."""
    runtime = current()
    with runtime.database.write() as session:
        return deliveries.give_up(session, delivery_id, tries, outcome, runtime.clock())


def release_delivery(delivery_id: str, tries: int, error: str, retry_at: float, *, refused: bool | None) -> bool:
    """Release a delivery, to be handled again at ``retry_at`` (seconds since the epoch); it was ``refused``, or met an outage.

    With None neither is counted.

    False, and nothing changes, where the claim of that number was lost: another worker has taken it since, or it is handled.
    """
    with current().database.write() as session:
        return deliveries.release(session, delivery_id, tries, error, retry_at, refused=refused)


def triage(repository: str, key: str, reason: str) -> int:
    """Accept the regressions that an issue is about, by its key, as the new base; give how many numbers that concerns."""
    runtime = current()
    with runtime.database.write() as session:
        return history.triage(session, repository, key, storable(reason), runtime.clock())


def rehearse_delivery() -> str:
    """Have the database write what it writes of a delivery, and give its kind."""
    runtime = current()
    with runtime.database.write() as session:
        deliveries.rehearse(session, runtime.clock())
    return runtime.database.engine.dialect.name


def broker_ready() -> tuple[bool, str]:
    """Whether Redis answers, and its answer.

    Raises:
        TimeoutError: it is slow.
    """
    return ping_broker(current().settings)


def gpu_hosts_ready() -> tuple[bool, str]:
    """Whether there are GPU hosts for what is asked of them, and what there is to do."""
    runtime = current()
    with runtime.database.read() as session:
        return gpu_work.summary(session, runtime.clock())


def counts() -> dict[str, dict[str, int]]:
    """How many rows are in each state, by table, for the metrics."""
    states: dict[str, InstrumentedAttribute[str]] = {
        "deliveries": Delivery.state,
        "jobs": Job.state,
        "updates": OutboxUpdate.state,
    }
    with current().database.read() as session:
        numbers = {
            name: {row[0]: row[1] for row in session.execute(select(state, func.count()).group_by(state))}
            for name, state in states.items()
        }
        return numbers | {"gpu_requests": gpu_work.counts(session, current().clock())}
