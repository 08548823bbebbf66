"""Removes what nothing needs any more: artifacts past retention, and folders that killed processes left."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import structlog

from workers.gpu_host.scratch import remove_leftovers
from workers.runtime import Runtime
from workers.store import retention

DAY_S = 86_400.0
# Of what no row names: its row may be written only after its bytes, and a put takes bytes that are half as old as there.
YOUNG_S = DAY_S

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Collected:
    """What was removed, or in a dry run would be."""

    jobs: tuple[str, ...]  # that gave up their artifacts now
    artifacts: int
    artifact_bytes: int
    folders: tuple[Path, ...]
    folder_bytes: int
    kept_bytes: int  # of the artifacts that are left


def collect(runtime: Runtime, *, dry_run: bool = False) -> Collected:
    """Make one pass. May run anywhere, at any time, side by side with itself; a pass that is cut off is made up by the next."""
    now = runtime.clock()
    jobs = _forget_jobs(runtime, now, dry_run=dry_run)
    with runtime.database.read() as session:
        needed = retention.needed(session, jobs)
        # Without any job this is a fresh database, or the wrong one beside somebody's artifacts.
        blind = not retention.knows_jobs(session)
    count = freed = kept = 0
    for digest, size, modified_at, path in runtime.blobs.entries():
        if blind or digest in needed or time.time() - modified_at < YOUNG_S:
            kept += size
        else:
            count, freed = count + 1, freed + size
            if not dry_run:
                runtime.blobs.remove(path, modified_at)
    folders, folder_bytes = remove_leftovers(dry_run=dry_run)
    made = Collected(jobs, count, freed, folders, folder_bytes, kept)
    if not dry_run:
        log.info("collected", jobs=jobs, artifacts=count, artifact_bytes=freed, folders=len(folders),
                 folder_bytes=folder_bytes, kept_bytes=kept)  # fmt: skip
    return made


def _forget_jobs(runtime: Runtime, now: float, *, dry_run: bool) -> tuple[str, ...]:
    before = now - runtime.settings.keep_artifacts_days * DAY_S
    with runtime.database.read() as session:
        found = retention.expired(session, before)
    if dry_run:
        return found
    forgotten = []
    for job_id in found:
        with runtime.database.write() as session:
            if retention.forget(session, job_id, before, now):
                forgotten.append(job_id)
    return tuple(forgotten)
