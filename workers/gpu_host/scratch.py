"""The folder of one GPU request, removed afterwards; what a killed supervisor left is removed by the next one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpu_runner import removal
from gpu_runner.removal import remove_or_report

PREFIX = "kernelsmith-gpu-"
LOCK = "supervisor.lock"
YOUNG_S = 60.0  # a folder that is not locked yet may have been made in this moment


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A fresh folder that holds a lock for as long as this process lives."""
    sweep(Path(tempfile.gettempdir()), YOUNG_S)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        with (folder / LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder
    finally:
        remove_or_report(folder)


def sweep(parent: Path, older_than_s: float) -> None:
    """Remove this user's folders that no living supervisor holds."""
    for folder in leftovers(parent, older_than_s):
        remove_or_report(folder)


def leftovers(parent: Path, older_than_s: float) -> list[Path]:
    """This user's folders that no living supervisor holds."""
    found = []
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            facts = folder.lstat()
            if facts.st_uid == os.getuid() and time.time() - facts.st_mtime > older_than_s and not _is_held(folder):
                found.append(folder)
    return found


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
