"""The runner that a host starts: for which architecture, with which environment and limits, in a folder of its own."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from gpu_runner import removal
from gpu_runner.removal import remove_or_report
from workers.environment import plain_environment
from workers.mortal import mortal
from workers.settings import inherited

INTERPRETER = "interpreter"


def detect() -> str:
    """The architecture of the first GPU, such as ``sm_90``, or ``interpreter`` where there is none."""
    answer = _asked("compute_cap")
    return INTERPRETER if answer is None else parse_capability(answer)


def detect_uuid() -> str | None:
    """The UUID of the GPU that CUDA takes first; None where there is none."""
    first = inherited(("CUDA_VISIBLE_DEVICES",)).get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    answer = _asked("uuid", f"--id={first or 0}")
    return (answer or "").split("\n", 1)[0].strip() or None


def _asked(field: str, *arguments: str) -> str | None:
    """What ``nvidia-smi`` says of a field, a line for each GPU; None where there is no GPU."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    try:
        asked = subprocess.run(
            [tool, *arguments, f"--query-gpu={field}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env=plain_environment(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout if asked.returncode == 0 else None


def parse_capability(output: str) -> str:
    """The architecture from what nvidia-smi printed, such as ``9.0``."""
    match = re.match(r"\s*(\d+)\.(\d+)\s*$", output.split("\n", 1)[0])
    return f"sm_{match[1]}{match[2]}" if match else INTERPRETER


LONGEST_S = 3600.0
LOG = "log"
KEPT_VARIABLES = (
    *("PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES"),
    *("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"),
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
    # For bytecode of packages that were installed without (``gpu_runner.importing``), which takes longer to make than all else.
    with contextlib.suppress(RuntimeError):  # there is no home
        own["XDG_CACHE_HOME"] = inherited(("XDG_CACHE_HOME",)).get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
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


ROOM_BYTES = 1 << 30  # that must be free in the temporary directory before a request begins
LEAST_BYTES = 128 << 20  # with less a runner is ended, before a full disk can be taken for a fault of what it judges


def has_room(least_bytes: int) -> bool:
    """Whether so much is free in the temporary directory, where runners work."""
    return shutil.disk_usage(tempfile.gettempdir()).free >= least_bytes


PREFIX = "kernelsmith-gpu-"
LOCK = "supervisor.lock"
YOUNG_S = 60.0  # a folder that is not locked yet may have been made in this moment


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder with a lock that is kept as long as this process lives."""
    sweep(Path(tempfile.gettempdir()), YOUNG_S)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        with (folder / LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder
    finally:
        remove_or_report(folder)


def sweep(parent: Path, older_than_s: float) -> None:
    """Remove this user's folders without a living supervisor."""
    for folder in leftovers(parent, older_than_s):
        remove_or_report(folder)


def leftovers(parent: Path, older_than_s: float) -> list[Path]:
    """This user's folders without a living supervisor."""
    folders = []
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            facts = folder.lstat()
            if facts.st_uid == os.getuid() and time.time() - facts.st_mtime > older_than_s and not _is_held(folder):
                folders.append(folder)
    return folders


def remove_leftovers(*, dry_run: bool) -> tuple[tuple[Path, ...], int]:
    """Remove the folders in the temporary directory that killed supervisors and runners left; give them and their bytes."""
    parent = Path(tempfile.gettempdir())
    folders = tuple(sorted({*leftovers(parent, YOUNG_S), *removal.leftovers(parent)}))
    size = sum(_bytes_in(folder) for folder in folders)
    for folder in () if dry_run else folders:
        remove_or_report(folder)
    return folders, size


def _bytes_in(folder: Path) -> int:
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(where, name)).st_blocks * 512  # noqa: PTH118 - names may be of any kind
    return total


def _is_held(folder: Path) -> bool:
    try:
        with (folder / LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
