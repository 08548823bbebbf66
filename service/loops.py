"""The background threads: each does one piece of work after the other, is woken when there is more, and stops cleanly."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence

import structlog

from service.metrics import LOOP_FAULTS
from workers.inbox import trouble_of

FAULT_PAUSE_S = 5.0
LONGEST_PAUSE_S = 60.0

log = structlog.get_logger(__name__)


class Wake:
    """A bell that all loops of one kind hear."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._rung = 0

    def ring(self) -> None:
        """Say that there is work."""
        with self._condition:
            self._rung += 1
            self._condition.notify_all()

    def heard(self) -> int:
        """How often it rang, for ``wait``."""
        with self._condition:
            return self._rung

    def wait(self, heard: int, timeout_s: float) -> None:
        """Wait until it rang more often than ``heard``, or the time is over."""
        with self._condition:
            self._condition.wait_for(lambda: self._rung != heard, timeout_s)


class Loop:
    """One thread that calls ``step`` until there is nothing left, and then waits for the bell."""

    def __init__(
        self, name: str, step: Callable[[], bool], wake: Wake, poll_s: float, first_poll_s: float | None = None
    ) -> None:
        self.name = name
        self._step = step
        self._wake = wake
        self._pauses_s = itertools.chain([first_poll_s or poll_s], itertools.repeat(poll_s))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end after what it is doing."""
        self._stopping.set()
        self._wake.ring()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end; tell whether it came."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        faults = 0
        while not self._stopping.is_set():
            heard = self._wake.heard()
            try:
                busy = self._step()
                faults = 0
            # The boundary of the thread: steps catch what they know, so this is a fault of ours or of the database; it is
            # counted, told, and the step is tried again, or the service would go on looking well without this thread.
            except Exception as error:
                LOOP_FAULTS.labels(loop=self.name).inc()
                trouble = trouble_of(error)
                if trouble is None:
                    log.exception("loop_fault", loop=self.name)
                else:
                    log.error("store_unusable", loop=self.name, error=trouble.detail, fix=trouble.fix)
                faults += 1
                busy = False
            if busy:
                continue
            if faults:
                self._stopping.wait(min(FAULT_PAUSE_S * 2 ** min(faults - 1, 5), LONGEST_PAUSE_S))
            else:
                # A little at random, so that several loops do not ask the database in step.
                self._wake.wait(heard, next(self._pauses_s) * random.uniform(0.8, 1.2))  # noqa: S311 - no secret


class Loops:
    """All background threads of the service."""

    def __init__(self, loops: Sequence[Loop]) -> None:
        self._loops = tuple(loops)

    def start(self) -> None:
        """Start every thread."""
        for loop in self._loops:
            loop.start()

    def stop(self, timeout_s: float) -> tuple[str, ...]:
        """Stop every thread after what it is doing; give the names of those that did not end in time."""
        for loop in self._loops:
            loop.stop()
        end_s = time.monotonic() + timeout_s
        return tuple(loop.name for loop in self._loops if not loop.join(max(0.0, end_s - time.monotonic())))

    def dead(self) -> tuple[str, ...]:
        """The names of threads that should run and do not."""
        return tuple(loop.name for loop in self._loops if not loop.is_alive)
