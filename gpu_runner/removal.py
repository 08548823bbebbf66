"""Removal of folders that untrusted code wrote into: any depth, any names, no rights, and links in place of folders.

A folder's subfolders are moved up to the top before they are entered, so that no path gets long, nothing recurses and a few
descriptors are open at a time. Links are never followed, and what is mounted below is neither entered nor emptied.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_REASONS = 5
MOST_LOOKS = 100  # at one folder: whoever still writes into it does not keep its removal going
YOUNG_S = 60.0  # a folder that is not locked yet may have been made at this moment
PREFIXES = (
    "kernelsmith-child-",
    "kernelsmith-bait-",
)  # of the folders that this package makes in the temporary directory
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_log = logging.getLogger(__name__)
_reported: set[str] = set()


class _Removal:
    """One removal: ``top`` is open and has room for the folders that are moved up, under names of their own."""

    def __init__(self, top: int) -> None:
        self.top = top
        self.reasons: list[str] = []
        self._device = os.fstat(top).st_dev
        self._token = secrets.token_hex(8)
        self._moved = 0
        self._waiting: list[str] = []

    def run(self) -> None:
        self._empty(self.top)
        while self._waiting:
            self._remove_moved(self._waiting.pop())

    def _remove_moved(self, name: str) -> None:
        try:
            folder = _opened(name, self.top)
        except OSError as error:
            self._unlink(name, self.top, error)
            return
        try:
            if os.fstat(folder).st_dev != self._device:
                self._failed(f"{name}: it is a mount point")
                return
            self._empty(folder)
        finally:
            os.close(folder)
        try:
            os.rmdir(name, dir_fd=self.top)
        except OSError as error:
            self._failed(f"{name}: {error.strerror}")

    def _empty(self, folder: int) -> None:
        """Unlink what a folder holds and move its subfolders up, until a look at it finds nothing more."""
        kept: set[str] = set()
        for _ in range(MOST_LOOKS):
            seen = 0
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name in kept or (folder == self.top and entry.name.startswith(self._token)):
                        continue
                    seen += 1
                    if not (self._move(entry.name, folder) if _is_folder(entry) else self._unlink(entry.name, folder)):
                        kept.add(entry.name)
            if not seen:
                return

    def _move(self, name: str, folder: int) -> bool:
        self._moved += 1
        target = f"{self._token}-{self._moved}"
        for attempt in (1, 2):
            try:
                os.rename(name, target, src_dir_fd=folder, dst_dir_fd=self.top)
            except PermissionError as error:
                if attempt == 2 or not _grant_rights(name, folder):
                    return self._failed(f"{name}: {error.strerror}")
            except FileNotFoundError:
                return True
            except OSError as error:  # a mount point, for one
                return self._failed(f"{name}: {error.strerror}")
            else:
                break
        self._waiting.append(target)
        return True

    def _unlink(self, name: str, folder: int, reason: OSError | None = None) -> bool:
        try:
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return True
        except OSError as error:
            return self._failed(f"{name}: {(reason or error).strerror}")
        return True

    def _failed(self, reason: str) -> bool:
        if len(self.reasons) < MOST_REASONS:
            self.reasons.append(reason.encode("utf-8", "backslashreplace").decode()[:200])
        return False


def remove_tree(path: Path) -> tuple[str, ...]:
    """Remove a folder with all that is in it; gives the first reasons why something was left, none where all is gone.

    ``path`` itself must be a folder of this user, in a folder that nobody else writes to. Never raises ``OSError``.
    """
    try:
        top = _opened(str(path), None)
    except FileNotFoundError:
        return ()
    except OSError as error:
        return (f"{path}: {error.strerror}",)
    try:
        removal = _Removal(top)
        removal.run()
        if not removal.reasons:
            path.rmdir()
        return tuple(removal.reasons)
    except OSError as error:
        return (f"{path}: {error.strerror}",)
    finally:
        os.close(top)


def remove_or_report(path: Path) -> None:
    """Remove a folder; what cannot be removed is logged, once for each folder, with what an operator may do."""
    reasons = remove_tree(path)
    if reasons and str(path) not in _reported:
        _reported.add(str(path))
        hint = "remove it as root (lsattr shows immutable files, findmnt shows what is mounted there)"
        _log.warning("%s cannot be removed: %s; %s", path, "; ".join(reasons), hint)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Mark a folder as in use by this process, however that ends."""
    handle = lock(folder)
    try:
        yield
    finally:
        os.close(handle)


def lock(folder: Path) -> int:
    """Open a folder and mark it as in use until the descriptor is closed, or this process ends."""
    handle = os.open(folder, _OPEN_FOLDER)
    fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def sweep(parent: Path | None = None, older_than_s: float = YOUNG_S) -> None:
    """Remove the folders that killed runners of this user left in the temporary directory."""
    for folder in leftovers(parent, older_than_s):
        remove_or_report(folder)


def leftovers(parent: Path | None = None, older_than_s: float = YOUNG_S) -> list[Path]:
    """Folders of this package and this user that no living process uses."""
    parent = parent or Path(tempfile.gettempdir())
    folders = []
    for prefix in PREFIXES:
        for folder in parent.glob(f"{prefix}*"):
            try:
                facts = folder.lstat()
                mine = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid()
                if mine and time.time() - facts.st_mtime > older_than_s and not _is_locked(folder):
                    folders.append(folder)
            except OSError:
                continue  # it went away meanwhile
    return sorted(folders)


def _is_locked(folder: Path) -> bool:
    handle = _opened(str(folder), None)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _opened(name: str, folder: int | None) -> int:
    """Open a folder that is no link, with every right that its owner can have.

    Raises:
        OSError: it is none, or another user's.
    """
    try:
        handle = os.open(name, _OPEN_FOLDER, dir_fd=folder)
    except PermissionError:
        if not _grant_rights(name, folder):
            raise
        handle = os.open(name, _OPEN_FOLDER, dir_fd=folder)
    try:
        if os.fstat(handle).st_mode & 0o700 != 0o700:
            os.fchmod(handle, 0o700)
    except OSError:
        os.close(handle)
        raise
    return handle


def _grant_rights(name: str, folder: int | None) -> bool:
    """Give a folder's owner every right on it; by its descriptor, as a link could be there by the next moment."""
    try:
        handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return False
    try:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)  # noqa: PTH101 - fchmod refuses such a descriptor
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
