"""A child's scratch folder: made, filled and emptied by the parent, which trusts nothing that it finds there."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from gpu_runner.removal import PREFIXES, lock, remove_or_report

MAX_TREE_FILES = 50_000
MAX_TREE_BYTES = 2**30
MAX_TREE_DEPTH = 64
_FOLDERS = ("home", "tmp", "cache", "cache/triton", "cache/inductor", "lib", "work")
_PACKAGE = Path(__file__).resolve().parent


class ScratchError(ValueError):
    """Files that cannot be put into, or taken from, a scratch folder."""


class Scratch:
    """A folder for one child. ``work`` is the child's current folder, with the files given to it."""

    def __init__(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix=PREFIXES[0])).resolve()
        self._lock = lock(self.base)  # the next runner removes what a killed one left
        self.path = self.base / "scratch"
        self.work = self.path / "work"
        for folder in _FOLDERS:
            (self.path / folder).mkdir(parents=True)
        self._mounted: int | None = None
        # The child imports this package from here: its own folder may contain more, and stays closed to the child.
        (self.path / "lib" / "gpu_runner").symlink_to(_PACKAGE)

    def mounted(self, handle: int) -> None:
        """Use the folder of this descriptor from now on: a file system of the child's own with the same layout."""
        self.unmounted()
        self._mounted = handle

    def unmounted(self) -> None:
        """Use the folder on the disk again."""
        if self._mounted is not None:
            os.close(self._mounted)
            self._mounted = None

    def write(self, files: Mapping[str, bytes | str]) -> None:
        """Write files into ``work``, replacing those there.

        Raises:
            ScratchError: a path leads outside, or to what is no plain file.
        """
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            target = self._inside(name)
            try:
                if self._mounted is not None:
                    self._write_mounted(name, data)
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                if target.is_symlink():
                    target.unlink()
                target.write_bytes(data)
            except OSError as error:
                raise ScratchError(f"{name}: {error.strerror}") from error

    def unpack(self, tree: bytes | Path) -> None:
        """Unpack a tarball into ``work``; where all lies in one top folder, as in a snapshot from GitHub, without that folder.

        Raises:
            ScratchError: it is no tarball, too large, or has entries that lead outside.
        """
        handle: Any = io.BytesIO(tree) if isinstance(tree, bytes) else tree.open("rb")
        try:
            with handle, tarfile.open(fileobj=handle) as archive:
                members = _members(archive)
                top = _top_folder(members)
                for member in members:
                    if top:
                        member.name = str(PurePosixPath(*PurePosixPath(member.name).parts[1:]))
                    archive.extract(member, self.work, filter="data")
        except (tarfile.TarError, EOFError, OSError) as error:
            raise ScratchError(f"the tree cannot be unpacked: {error}") from error

    def read(self, name: str, max_bytes: int) -> bytes | None:
        """A file of ``work``; None where there is none, or it is a link, no plain file, or larger than ``max_bytes``."""
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts:
            return None
        try:
            handle = self._work()
        except OSError:
            return None
        try:
            for part in parts[:-1]:
                handle = _stepped(handle, part, os.O_DIRECTORY)
            handle = _stepped(handle, parts[-1], os.O_NONBLOCK)
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
                return None
            with os.fdopen(os.dup(handle), "rb") as file:
                content = file.read(max_bytes + 1)
            return content if len(content) <= max_bytes else None
        except OSError:
            return None
        finally:
            os.close(handle)

    def remove(self) -> None:
        """Remove the folder with all that the child left in it; never raises."""
        self.unmounted()
        remove_or_report(self.base)
        os.close(self._lock)

    def _work(self) -> int:
        if self._mounted is None:
            return os.open(self.work, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(self.work.name, flags, dir_fd=self._mounted)

    def _write_mounted(self, name: str, data: bytes) -> None:
        *folders, last = PurePosixPath(name).parts
        handle = self._work()
        try:
            for folder in folders:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(folder, 0o755, dir_fd=handle)
                handle = _stepped(handle, folder, os.O_DIRECTORY)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(last, dir_fd=handle)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(last, flags, 0o644, dir_fd=handle), "wb") as file:
                file.write(data)
        finally:
            os.close(handle)

    def _inside(self, name: str) -> Path:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
            raise ScratchError(f"{name!r} leads outside of the folder")
        parent = (self.work / path.parent).resolve()
        if not parent.is_relative_to(self.work):
            raise ScratchError(f"{name!r} leads outside of the folder")
        return parent / path.name


def _members(archive: tarfile.TarFile) -> list[tarfile.TarInfo]:
    members: list[tarfile.TarInfo] = []
    total = 0
    for member in archive:
        if not (member.isfile() or member.isdir() or member.issym()):
            continue
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts:
            raise ScratchError(f"the tree's entry {member.name[:80]!r} leads outside")
        if len(path.parts) > MAX_TREE_DEPTH:
            raise ScratchError(f"the tree has folders nested deeper than {MAX_TREE_DEPTH}")
        total += member.size
        if len(members) >= MAX_TREE_FILES or total > MAX_TREE_BYTES:
            raise ScratchError("the tree is larger than its limits")
        if path.parts:
            members.append(member)
    return members


def _top_folder(members: list[tarfile.TarInfo]) -> str | None:
    tops = {PurePosixPath(m.name).parts[0] for m in members}
    flat = any(not m.isdir() and len(PurePosixPath(m.name).parts) == 1 for m in members)
    return tops.pop() if len(tops) == 1 and not flat else None


def _stepped(folder: int, name: str, flags: int) -> int:
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=folder)
    os.close(folder)
    return handle
