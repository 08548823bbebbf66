"""A GPU host in a thread, for a process that has no other: it works on a job's requests while the job's stage goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager

from workers.gpu_host.standby import Standby
from workers.gpu_host.supervise import serve
from workers.runtime import Runtime
from workers.store import gpu_work

POLL_S = 0.1


class HostBeside:
    """At most one request at a time. Its thread stays: a runner that waits ends with the thread that started it."""

    def __init__(self, standby: Standby) -> None:
        self._standby = standby
        self._pool = ThreadPoolExecutor(1, "gpu host")

    @contextmanager
    def working(self, runtime: Runtime, job_id: str) -> Iterator[None]:
        """Answer a job's requests during the block. At its end the one at work is answered first, so that none runs beside another.

        Where the block ends with an exception, as by Ctrl-C, that one is given back at once, to be served another time.
        """
        end, unwanted = threading.Event(), threading.Event()
        work = self._pool.submit(self._work, runtime, job_id, end, unwanted)
        try:
            yield
            end.set()
            work.result()
        except BaseException:
            unwanted.set()
            end.set()
            wait((work,))
            raise

    def _work(self, runtime: Runtime, job_id: str, end: threading.Event, unwanted: threading.Event) -> None:
        while not end.is_set():
            with runtime.database.read() as session:
                request_id = gpu_work.next_gpu_request(session, runtime.clock(), only=job_id)
            if request_id is None or not serve(runtime, request_id, self._standby, unwanted):
                end.wait(POLL_S)
