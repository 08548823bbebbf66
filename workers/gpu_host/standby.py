"""A runner that waits: started before there is a request, so that its seconds of imports pass while nothing waits for them.

It serves one request and ends, as any runner does. It waits in the folder that the request will be laid out in, with the
environment and the log that a runner gets anyway; the request's paths come by its standard input, and where that is closed
it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import structlog

from workers.gpu_host.runner import Host, launched, scratch_folder

log = structlog.get_logger(__name__)

WAIT = "--standby"
LIBRARIES = ("torch", "triton")
CORES_TO_SPARE = 8  # from so many on, the next runner's imports beside a request disturb nothing that is timed

Version = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class WaitingRunner:
    """A runner that waits, and its folder."""

    host: Host
    version: Version
    scratch: Path
    child: subprocess.Popen[bytes]
    folder: contextlib.ExitStack  # removes it
    runner: contextlib.ExitStack  # ends it with all of its processes

    def tell(self, request: Path, result: Path) -> None:
        """Send the request; a runner that is gone is noticed by whoever waits for its end."""
        assert self.child.stdin is not None
        line = json.dumps({"request": str(request), "result": str(result)}) + "\n"
        with contextlib.suppress(BrokenPipeError), self.child.stdin as pipe:
            pipe.write(line.encode())

    def end(self) -> None:
        """End the runner and remove its folder."""
        with self.folder, self.runner:
            pass


def _started(host: Host) -> WaitingRunner:
    with contextlib.ExitStack() as folder, contextlib.ExitStack() as runner:
        before = version()  # before it imports anything
        scratch = folder.enter_context(scratch_folder())
        child = runner.enter_context(launched(host, scratch, [WAIT], subprocess.PIPE))
        return WaitingRunner(host, before, scratch, child, folder.pop_all(), runner.pop_all())


class Standby:
    """At most one runner that waits. It ends with this process: the kernel ends it with the thread that started it."""

    def __init__(self) -> None:
        self._waiting: WaitingRunner | None = None

    def prepare(self, host: Host) -> None:
        """Start a runner that waits, where none does; where none can be started, the next request starts its own."""
        if self._waiting is not None:
            return
        try:
            self._waiting = _started(host)
        except OSError as error:
            log.warning("standby_not_started", error=f"{type(error).__name__}: {error}")

    def take(self, host: Host) -> WaitingRunner | None:
        """The runner that waits; None where there is none, it has ended, or it is not what would be started now.

        To end it is the caller's.
        """
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return None
        if waiting.child.poll() is None and waiting.host == host and waiting.version == version():
            return waiting
        waiting.end()
        return None

    def close(self) -> None:
        """End the runner that waits."""
        if self._waiting is not None:
            self._waiting.end()
            self._waiting = None


def has_cores_to_spare() -> bool:
    """Whether the next runner may start while one is at work: its imports take one core for some seconds."""
    return len(os.sched_getaffinity(0)) >= CORES_TO_SPARE


def version() -> Version:
    """What changes where the runner or what it imports is installed anew: files with their times."""
    stamps: dict[str, int] = {}
    for name in ("gpu_runner", *LIBRARIES):
        spec = find_spec(name)
        for place in (spec.submodule_search_locations if spec else None) or ():
            # Of the runner every file, for it may be edited in place; of a library its folder, which an installer makes anew.
            for path in Path(place).rglob("*.py") if name == "gpu_runner" else (Path(place),):
                with contextlib.suppress(OSError):
                    stamps[str(path)] = path.stat().st_mtime_ns
    return tuple(sorted(stamps.items()))
