"""Jobs that run beside the webhooks: each accepted, carried through its stages and published, without a model or a GPU."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from tests.workers.engine.fakes import fake_stages, request
from workers import embedded, inbox, outbox, runtime
from workers.contracts import Effect


def run(folder: Path, every_s: float) -> None:
    """Carry one job after the other to its first checkpoint, and cancel it there."""
    embedded.configure(folder)
    runtime.current().stages = fake_stages
    count, worker = 0, f"jobs-{os.getpid()}"
    while True:
        start_s = time.monotonic()
        job_id = inbox.submit(request(f"comment/{count}")).job_id
        embedded.drive(only=job_id)
        while (claimed := outbox.claim(worker, 60.0, job_id)) is not None:
            outbox.complete(claimed.update_id, worker, Effect(sha=f"{count:040x}", pull_number=1))
        inbox.cancel(job_id, "mona")
        count += 1
        time.sleep(max(0.0, every_s - (time.monotonic() - start_s)))


if __name__ == "__main__":
    run(Path(sys.argv[1]), float(sys.argv[2]))
