"""A read-only view of a repository snapshot with changes laid over it. Nothing of it is ever executed here."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from workers.contracts import Failure, FailureCode, FileChange, UserFacingError

MAX_FILES = 50_000
MAX_BYTES = 1 << 30
KEPT, MOST_KEPT_BYTES = 2, 1 << 26  # trees that were read last, of so many bytes at most: Liger-Kernel's has 41 MiB

_guard = threading.Lock()
_kept: dict[bytes, Tree] = {}  # by the digest of the tarball, the one asked for last at the end


@dataclass(frozen=True)
class Tree:
    """Files by path with forward slashes, relative to the repository's root."""

    files: dict[str, bytes] = field(repr=False)

    def read(self, path: str) -> str | None:
        """A file's text, line endings unchanged; None where there is none or it is no UTF-8 text."""
        content = self.files.get(path)
        try:
            return None if content is None else content.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def paths(self, prefix: str = "", suffix: str = "") -> tuple[str, ...]:
        """The paths that start with ``prefix`` and end with ``suffix``, sorted."""
        return tuple(sorted(p for p in self.files if p.startswith(prefix) and p.endswith(suffix)))

    def exists(self, path: str) -> bool:
        """Whether a file, or a folder with files in it, is there."""
        return path in self.files or any(p.startswith(path.rstrip("/") + "/") for p in self.files)

    def overlaid(self, changes: tuple[FileChange, ...]) -> Tree:
        """The tree with changes made."""
        files = dict(self.files)
        for change in changes:
            if change.text is None:
                files.pop(change.path, None)
            else:
                files[change.path] = change.text.encode()
        return Tree(files)


def read_tarball(content: bytes) -> Tree:
    """Read a gzipped or plain tarball whose entries lie in one top folder, as GitHub gives them; links are left out.

    A small one is read once: a stage asks for its snapshot each time that it goes on, and a night for each kernel.

    Raises:
        UserFacingError: it is no tarball, or larger than the limits.
    """
    digest = hashlib.sha256(content).digest()
    with _guard:
        tree = _kept.pop(digest, None)
    if tree is None:
        tree = _read(content)
    if sum(map(len, tree.files.values())) <= MOST_KEPT_BYTES:
        with _guard:
            _kept[digest] = tree
            for oldest in [*_kept][:-KEPT]:
                del _kept[oldest]
    return tree


def _read(content: bytes) -> Tree:
    files: dict[str, bytes] = {}
    total = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                if not member.isfile() or path.is_absolute() or ".." in path.parts or len(path.parts) < 2:
                    continue
                total += member.size
                if len(files) >= MAX_FILES or total > MAX_BYTES:
                    raise UserFacingError(_too_large())
                handle = archive.extractfile(member)
                if handle is not None:
                    files[str(PurePosixPath(*path.parts[1:]))] = handle.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        failure = Failure(FailureCode.environment, "the snapshot of the repository could not be read", "Retry the job.")
        raise UserFacingError(failure) from error
    return Tree(files)


def _too_large() -> Failure:
    return Failure(
        FailureCode.environment,
        f"the repository has more than {MAX_FILES} files or {MAX_BYTES >> 30} GiB",
        "Point the bot at a smaller repository.",
    )
