"""Starts the runner: a clean environment, a session of its own, and an end with whoever started it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from workers.mortal import mortal
from workers.settings import inherited

LONGEST_S = 3600.0
LOG = "log"
KEPT_VARIABLES = (
    *("PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES"),
    "KERNELSMITH_FORK_CHILDREN",
)


@dataclass(frozen=True)
class Host:
    """How this host runs the runner."""

    name: str
    command: tuple[str, ...]
    interpret: bool  # no GPU: Triton's interpreter runs the kernels
    longest_s: float = LONGEST_S  # the deadline of any request, whatever it asks for


def environment(host: Host, scratch: Path) -> dict[str, str]:
    """The runner's whole environment: no variable that could hold a secret is passed on."""
    room = find_spec("gpu_runner")
    places = [] if room is None else list(room.submodule_search_locations or [])
    roots = os.pathsep.join(str(Path(place).parent) for place in places)
    own = {"HOME": str(scratch), "TMPDIR": str(scratch), "LANG": "C.UTF-8", "PYTHONPATH": roots}
    return inherited(KEPT_VARIABLES) | own | ({"TRITON_INTERPRET": "1"} if host.interpret else {})


@contextmanager
def launched(
    host: Host, scratch: Path, arguments: Sequence[str], stdin: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    """A runner that writes its log into its folder; at the end it is killed with all of its processes."""
    with (scratch / LOG).open("wb") as output:
        child = subprocess.Popen(
            mortal([*host.command, *arguments]),
            cwd=scratch,
            env=environment(host, scratch),
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield child
    finally:
        # The whole group dies with it, also where the runner itself ended well.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        if child.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()
