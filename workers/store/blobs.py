"""Bytes by their SHA-256, behind fsspec: a folder by default, S3 and the like by URL."""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from workers.errors import WorkersError
from workers.store.private import private_file, private_folder

DIGEST = re.compile(r"[0-9a-f]{64}")
REHEARSAL_BYTES = 1 << 20


FRESH_S = 43_200.0


class BlobError(WorkersError):
    """Content is missing, or does not match its digest."""


class BlobStore:
    """Content-addressed bytes under an fsspec URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._opened: tuple[Any, str] | None = None

    def put(self, content: bytes) -> str:
        """Store bytes and return their digest; idempotent."""
        digest = hashlib.sha256(content).hexdigest()
        files, root = self._open()
        folder = f"{root}/{digest[:2]}"
        path = f"{folder}/{digest}"
        if local := isinstance(files, LocalFileSystem):
            private_folder(Path(root))
        # One that retention may take next is written anew, so that it is as young as what is about to name it.
        if files.exists(path) and time.time() - _modified_at(files, path) < FRESH_S:
            return digest
        if local:
            private_folder(Path(folder))
        else:
            files.makedirs(folder, exist_ok=True)
        # A reader must never see half a file, so the bytes are written beside and moved into place.
        part = f"{path}.{secrets.token_hex(8)}.part"
        if local:
            private_file(Path(part))
        try:
            with files.open(part, "wb") as handle:
                handle.write(content)
            files.mv(part, path)
        except BaseException:
            # On a full disk each try would take what little room comes back.
            _remove(files, part)
            raise
        return digest

    def rehearse(self) -> None:
        """Write what nobody reads, and remove it again."""
        files, root = self._open()
        path = f"{root}/rehearsal-{secrets.token_hex(8)}"
        if isinstance(files, LocalFileSystem):
            private_folder(Path(root))
        else:
            files.makedirs(root, exist_ok=True)
        try:
            with files.open(path, "wb") as handle:
                handle.write(bytes(REHEARSAL_BYTES))
        finally:
            _remove(files, path)

    def get(self, digest: str) -> bytes:
        """The bytes of a digest.

        Raises:
            BlobError: it is no digest, or its bytes are missing or damaged.
        """
        if not DIGEST.fullmatch(digest):
            raise BlobError(f"{digest[:80]!r} is no SHA-256 digest")
        files, root = self._open()
        try:
            with files.open(f"{root}/{digest[:2]}/{digest}", "rb") as handle:
                content = bytes(handle.read())
        except FileNotFoundError as error:
            raise BlobError(f"artifact {digest} is not in the store at {self.url}") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise BlobError(f"artifact {digest} is damaged in the store at {self.url}")
        return content

    def entries(self) -> Iterator[tuple[str, int, float, str]]:
        """What is stored: its digest, or the name of a half-written file; its size, its time, and its path."""
        files, root = self._open()
        if not files.exists(root):
            return
        for path, facts in files.find(root, detail=True).items():
            try:
                modified_at = _modified_at(files, path)
            except FileNotFoundError:
                continue  # another process has moved or removed it since
            yield path.rpartition("/")[2], int(facts["size"]), modified_at, path

    def remove(self, path: str, modified_at: float) -> None:
        """Remove an entry, unless it was written again meanwhile."""
        files, _ = self._open()
        try:
            if _modified_at(files, path) <= modified_at:
                files.rm_file(path)
        except FileNotFoundError:
            return  # another process was faster

    def _open(self) -> tuple[Any, str]:
        # Opened late, and again after a fork: some of fsspec's file systems hold threads.
        if self._opened is None:
            files, root = fsspec.core.url_to_fs(self.url)
            self._opened = (files, str(root).rstrip("/"))
        return self._opened


def _remove(files: Any, path: str) -> None:
    with contextlib.suppress(OSError):
        files.rm_file(path)


def _modified_at(files: Any, path: str) -> float:
    return float(files.modified(path).timestamp())
