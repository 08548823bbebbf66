"""Advance a job: take its attempt's lease, run the stage, settle how it ended. Doing it twice does nothing the second time."""

from __future__ import annotations

import structlog

from workers.contracts import TOLD_LOSSES, JobState, StageName, UserFacingError
from workers.engine import settle
from workers.engine.context import RunContext
from workers.engine.heartbeat import heartbeat
from workers.engine.interruptions import LeaseLost, Suspended
from workers.pipelines.transitions import MAX_LOSSES
from workers.runtime import Runtime
from workers.store import attempts, jobs
from workers.store.attempts import Lease
from workers.store.codec import read_feedback
from workers.store.views import view

LOSSES_CURE = "find what killed them (dmesg: memory); if it was this work, `/kernel cancel` ends its job"
log = structlog.get_logger(__name__)


def advance(runtime: Runtime, job_id: str) -> bool:
    """Run the job's stage until it pauses or ends; False where there was nothing to do."""
    claimed = _claim(runtime, job_id)
    if claimed is None:
        return False
    lease, stage, context, losses = claimed
    runtime.at_boundary("stage_claimed")
    with structlog.contextvars.bound_contextvars(job=job_id, stage=stage.value, attempt=context.attempt):
        if losses >= MAX_LOSSES:
            settle.give_up(runtime, lease)
        else:
            if losses >= TOLD_LOSSES:
                log.error("workers_lost", times=losses, cure=LOSSES_CURE)
            _run(runtime, lease, stage, context)
    runtime.at_boundary("stage_settled")
    _tell(runtime, job_id)
    return True


def _claim(runtime: Runtime, job_id: str) -> tuple[Lease, StageName, RunContext, int] | None:
    now = runtime.clock()
    with runtime.database.write() as session:
        job = jobs.locked(session, job_id)
        row = None if job is None else attempts.claim(session, job, now, runtime.settings.lease_s)
        if job is None or row is None:
            return None
        lease = Lease(job_id, row.id, row.lease_token or "")
        context = RunContext(runtime, lease, view(session, job, now), row.attempt, read_feedback(row.feedback))
        return lease, StageName(row.stage), context, row.losses


def _run(runtime: Runtime, lease: Lease, stage: StageName, context: RunContext) -> None:
    def renew() -> bool:
        with runtime.database.write() as session:
            return attempts.renew(session, lease, runtime.clock(), runtime.settings.lease_s)

    with heartbeat(renew, runtime.settings.lease_s, f"{lease.job_id}/{stage.value}") as context.lost:
        try:
            result = runtime.stages()[stage].run(context)
            runtime.at_boundary("stage_ran")
            kept = settle.finish(runtime, lease, context, result)
        except UserFacingError as error:
            log.info("stage_failed", code=error.failure.code.value, message=error.failure.message)
            kept = settle.fail(runtime, lease, context, error.failure)
        except Suspended as pause:
            log.info("stage_waits", gpu_request=pause.request_id)
            return
        except LeaseLost:
            kept = False
        except (KeyboardInterrupt, SystemExit):
            # The process is told to end; nobody needs to wait for its lease to run out.
            settle.leave(runtime, lease)
            raise
        except Exception as error:  # noqa: BLE001 - the boundary of a task: whatever broke is counted and tried again
            kept = settle.give_back(runtime, lease, error)
    if not kept:
        log.warning("stage_run_discarded", reason="the lease was lost or the job was cancelled")


def _tell(runtime: Runtime, job_id: str) -> None:
    with runtime.database.read() as session:
        state = attempts.job_state(session, job_id)
    if state == JobState.queued:
        runtime.notifier.advance(job_id)
