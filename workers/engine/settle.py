"""How a run of a stage ends: finished, failed in words for people, or broken; each one transaction under the lease."""

from __future__ import annotations

import dataclasses
import errno
import secrets

import structlog
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from gpu_runner.contracts import to_json
from workers.contracts import CheckpointUpdate, Failure, FailureCode, StageName, StageState, Update
from workers.engine.context import RunContext
from workers.engine.protocol import StageResult
from workers.pipelines import PIPELINES
from workers.pipelines.transitions import Move, after_stage, retry_delay_s
from workers.runtime import Runtime
from workers.store import attempts, jobs, updates
from workers.store.attempts import Lease
from workers.store.codec import storable

OUTAGE_PAUSE_S = 30.0
# Of the disk that holds the artifacts: full by itself, by a quota or a limit, read-only, or broken.
OUTAGES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})

log = structlog.get_logger(__name__)


def finish(runtime: Runtime, lease: Lease, context: RunContext, result: StageResult) -> bool:
    """Keep a stage's output and updates and move the job on; False where the lease was lost."""
    now = runtime.clock()
    request = context.request
    with runtime.database.write() as session:
        found = attempts.held(session, lease)
        if found is None:
            return False
        job, row = found
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


def fail(runtime: Runtime, lease: Lease, context: RunContext, failure: Failure) -> bool:
    """End the stage and its job with a failure; False where the lease was lost."""
    now = runtime.clock()
    with runtime.database.write() as session:
        found = attempts.held(session, lease)
        if found is None:
            return False
        job, row = found
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
        found = attempts.held(session, lease)
        if found is None:
            return False
        job, row = found
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
        found = attempts.held(session, lease)
        if found is None:
            return False
        _, row = found
        attempts.release(row)
        row.not_before, row.notified_at = now + OUTAGE_PAUSE_S, now
    cure = "free space, or start the database; it goes on by itself"
    log.error(
        "stage_postponed", stage=row.stage, error=f"{type(error).__name__}: {error}", pause_s=OUTAGE_PAUSE_S, cure=cure
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
        found = attempts.held(session, lease)
        if found is None:
            return False
        job, row = found
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


def leave(runtime: Runtime, lease: Lease) -> None:
    """Give the lease back in the middle of a run, which is nobody's fault."""
    with runtime.database.write() as session:
        found = attempts.held(session, lease)
        if found is not None:
            attempts.release(found[1])


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
