"""The temporary folder of one run of the suite, and what is left when it ends: no folder, and no process."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

END_S = 10.0  # for what ends with its parent
_ended: list[Path] = []


def make() -> Path:
    """Make the folder that ``tempfile`` uses from here on, also in processes that are started. All may write there."""
    folder = Path(tempfile.mkdtemp(prefix="ks-"))
    folder.chmod(0o1777)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    atexit.register(_remove)  # after what others have registered by then
    return folder


def processes(folder: Path) -> dict[int, str]:
    """Processes that were given the folder for their temporary files, but for this one."""
    found: dict[int, str] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            variables = (path / "environ").read_bytes().split(b"\0")
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            continue
        of_run = any(line.startswith(b"TMPDIR=" + bytes(folder)) for line in variables)
        if of_run and command and int(path.name) != os.getpid():
            found[int(path.name)] = command
    return found


def end(folder: Path) -> None:
    """Have the folder removed when this process ends."""
    _ended.append(folder)


def kill_left(folder: Path) -> list[str]:
    """Kill what still runs; gives what that was."""
    deadline = time.monotonic() + END_S
    while (left := processes(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return [f"{pid}: {command[:200]}" for pid, command in left.items()]


def _remove() -> None:
    for folder in _ended:
        shutil.rmtree(folder, ignore_errors=True)
