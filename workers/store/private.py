"""Files for this user alone, whatever umask it has: they hold what people wrote, and the source of private repositories."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

FOLDER, FILE = 0o700, 0o600


def private_folder(path: Path) -> None:
    """Make a folder, or restrict an existing one to this user."""
    path.mkdir(mode=FOLDER, parents=True, exist_ok=True)
    _shut(path)


def private_file(path: Path) -> None:
    """Make an empty file, or restrict an existing one to this user.

    An existing one is not opened: closing it would end the locks that SQLite has on it anywhere in this process.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE))
    _shut(path)


def _shut(path: Path) -> None:
    # Another user's is that user's to shut, and a folder such as /tmp is everybody's.
    with contextlib.suppress(PermissionError):
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077 and not mode & stat.S_ISVTX:
            path.chmod(mode & ~0o077)
