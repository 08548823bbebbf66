"""Advance a job: take its attempt's lease, run the stage, settle how it ended. Doing it twice does nothing the second time."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import secrets
import uuid

import structlog
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from gpu_runner.contracts import to_json
from workers.contracts import (
    NOTIFIED_LOSSES,
    CheckpointUpdate,
    Failure,
    FailureCode,
    JobState,
    StageName,
    StageState,
    Update,
    UserFacingError,
)
from workers.engine.context import AttemptContext
from workers.engine.lease import LeaseLost, Suspended, heartbeat
from workers.engine.protocol import StageResult
from workers.pipelines import PIPELINES
from workers.pipelines.transitions import MAX_LOSSES, Move, after_stage, retry_delay_s
from workers.runtime import Runtime
from workers.store import attempts, jobs, updates
from workers.store.attempts import Lease
from workers.store.codec import storable
from workers.store.views import view

LOSSES_FIX = "find what killed them (dmesg: memory); if it was this work, `/kernel cancel` ends its job"
OUTAGE_PAUSE_S = 30.0
# Of the disk that holds the artifacts: full by itself, by a quota or a limit, read-only, or broken.
OUTAGES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})

log = structlog.get_logger(__name__)


def advance(runtime: Runtime, job_id: str) -> bool:
    """Run the job's stage until it pauses or ends; False where it could not be run."""
    token = uuid.uuid4().hex
    try:
        return _advance(runtime, job_id, token)
    except (KeyboardInterrupt, SystemExit):
        # The process is told to end; nobody needs to wait for its lease to run out.
        leave(runtime, token)
        raise


def _advance(runtime: Runtime, job_id: str, token: str) -> bool:
    claimed = _claim(runtime, job_id, token)
    if claimed is None:
        return False
    lease, stage, context, losses = claimed
    runtime.at_boundary("stage_claimed")
    with structlog.contextvars.bound_contextvars(job=job_id, stage=stage.value, attempt=context.attempt):
        if losses >= MAX_LOSSES:
            give_up(runtime, lease)
        else:
            if losses >= NOTIFIED_LOSSES:
                log.error("workers_lost", times=losses, fix=LOSSES_FIX)
            _run(runtime, lease, stage, context)
    runtime.at_boundary("stage_settled")
    _tell(runtime, job_id)
    return True


def _claim(runtime: Runtime, job_id: str, token: str) -> tuple[Lease, StageName, AttemptContext, int] | None:
    now = runtime.clock()
    with runtime.database.write() as session:
        job = jobs.locked(session, job_id)
        row = None if job is None else attempts.claim(session, job, token, now, runtime.settings.lease_s)
        if job is None or row is None:
            return None
        lease = Lease(job_id, row.id, token)
        context = AttemptContext(runtime, lease, view(session, job, now), row, attempts.memos(session, row.id))
        return lease, StageName(row.stage), context, row.losses


def _run(runtime: Runtime, lease: Lease, stage: StageName, context: AttemptContext) -> None:
    def renew() -> bool:
        with runtime.database.write() as session:
            return attempts.renew(session, lease, runtime.clock(), runtime.settings.lease_s)

    with heartbeat(renew, runtime.settings.lease_s, f"{lease.job_id}/{stage.value}") as context.lost:
        try:
            result = runtime.stages()[stage].run(context)
            runtime.at_boundary("stage_ran")
            kept = finish(runtime, lease, context, result)
        except UserFacingError as error:
            log.info("stage_failed", code=error.failure.code.value, message=error.failure.message)
            kept = fail(runtime, lease, context, error.failure)
        except Suspended as pause:
            log.info("stage_waits", gpu_request=pause.request_id)
            return
        except LeaseLost:
            kept = False
        except Exception as error:  # noqa: BLE001 - the boundary of a task: whatever broke is counted and tried again
            kept = give_back(runtime, lease, error)
    if not kept:
        log.warning("stage_run_discarded", reason="the lease was lost or the job was cancelled")


def _tell(runtime: Runtime, job_id: str) -> None:
    with runtime.database.read() as session:
        state = attempts.job_state(session, job_id)
    if state == JobState.queued:
        runtime.notifier.advance(job_id)


# How a run ends: finished, failed in words for people, or broken; each one transaction under the lease.


def finish(runtime: Runtime, lease: Lease, context: AttemptContext, result: StageResult) -> bool:
    """Keep a stage's output and updates and move the job on; False where the lease was lost."""
    now = runtime.clock()
    request = context.request
    with runtime.database.write() as session:
        claimed = attempts.leased(session, lease)
        if claimed is None:
            return False
        job, row = claimed
        move = after_stage(
            PIPELINES[request.verb], StageName(row.stage), checkpoint=result.checkpoint, auto=request.options.auto
        )
        waits = move.move is Move.wait
        asked = tuple(_asking(item, waits) for item in (*context.emitted, *result.updates))
        updates.append_stage_updates(session, job, row, asked, now)
        row.output = to_json(result.output)
        row.state = StageState.waiting if waits else StageState.done
        row.ended_at, row.awaiting = now, None
        # What was begun meanwhile and is not needed any more, such as the proof of a candidate that came after the one taken.
        jobs.stop_gpu_work(session, job, now)
        attempts.release(row)
        kind = "checkpoint" if waits else "stage_finished"
        jobs.record(session, job, kind, f"{row.stage}, attempt {row.attempt}", now)
        jobs.make_move(session, job, move, now)
        updates.append_status(session, job, now)
    return True


def fail(runtime: Runtime, lease: Lease, context: AttemptContext, failure: Failure) -> bool:
    """End the stage and its job with a failure; False where the lease was lost."""
    now = runtime.clock()
    with runtime.database.write() as session:
        claimed = attempts.leased(session, lease)
        if claimed is None:
            return False
        job, row = claimed
        updates.append_stage_updates(session, job, row, context.emitted, now)
        row.failure = to_json(failure)
        jobs.stop_work(session, job, StageState.failed, now)
        jobs.fail(session, job, failure, now)
    return True


def give_back(runtime: Runtime, lease: Lease, error: Exception) -> bool:
    """Count an error and have the stage tried again later, or fail the job once its tries are used up.

    A full disk and a database that gives no answer are no errors of the stage's: it waits for them, however long they take.
    """
    now = runtime.clock()
    if _is_outage(error):
        return _postpone(runtime, lease, error, now)
    reference = secrets.token_hex(4)
    with runtime.database.write() as session:
        claimed = attempts.leased(session, lease)
        if claimed is None:
            return False
        job, row = claimed
        row.tries += 1
        delay_s = retry_delay_s(row.tries)
        words = storable(f"{type(error).__name__}: {error}", 500)
        log.error("stage_broke", job=job.job_id, stage=row.stage, attempt=row.attempt, tries=row.tries, reference=reference,
                  exc_info=error)  # fmt: skip
        if delay_s is None:
            failure = internal_failure(row.stage, row.tries, reference)
            row.failure = to_json(failure)
            jobs.stop_work(session, job, StageState.failed, now)
            jobs.fail(session, job, failure, now)
        else:
            attempts.release(row)
            row.not_before = now + delay_s
            row.notified_at = now
            jobs.record(session, job, "stage_retried", f"{row.stage}: {words} (reference {reference})", now)
    return True


def _postpone(runtime: Runtime, lease: Lease, error: Exception, now: float) -> bool:
    with runtime.database.write() as session:
        claimed = attempts.leased(session, lease)
        if claimed is None:
            return False
        _, row = claimed
        attempts.release(row)
        row.not_before, row.notified_at = now + OUTAGE_PAUSE_S, now
    fix = "free space, or start the database; work resumes by itself"
    log.error(
        "stage_postponed", stage=row.stage, error=f"{type(error).__name__}: {error}", pause_s=OUTAGE_PAUSE_S, fix=fix
    )
    return True


def _is_outage(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno in OUTAGES
    return isinstance(error, OperationalError | InterfaceError | PoolTimeoutError)


def give_up(runtime: Runtime, lease: Lease) -> bool:
    """Fail the job of a stage over which more workers were lost than chance explains; False where the lease was lost."""
    now = runtime.clock()
    with runtime.database.write() as session:
        claimed = attempts.leased(session, lease)
        if claimed is None:
            return False
        job, row = claimed
        failure = Failure(
            FailureCode.environment,
            f"the host that worked on the {row.stage} stage was lost {row.losses} times",
            "An operator finds what kills it: mostly memory (`dmesg` there). Then `/kernel retry` goes on from here.",
        )
        row.failure = to_json(failure)
        jobs.stop_work(session, job, StageState.failed, now)
        jobs.fail(session, job, failure, now)
        log.error("stage_given_up", stage=row.stage, losses=row.losses, reason="its workers were lost too often")
    return True


def leave(runtime: Runtime, token: str) -> None:
    """Release a lease in the middle of a run, which is nobody's fault."""
    # Without a database it runs out by itself, and the process ends all the same.
    with contextlib.suppress(SQLAlchemyError), runtime.database.write() as session:
        attempts.leave(session, token)


def internal_failure(stage: str, tries: int, reference: str) -> Failure:
    """The failure for an error of our own; the details are in the log under the reference, not on GitHub."""
    return Failure(
        FailureCode.internal,
        f"the {stage} stage broke {tries} times on an error of our own (reference `{reference}`)",
        f"An operator finds the cause in the worker's log under `{reference}`; after that, retry the job.",
    )


def _asking(item: Update, waits: bool) -> Update:
    if isinstance(item, CheckpointUpdate) and item.decides != waits:
        return dataclasses.replace(item, decides=waits)
    return item
