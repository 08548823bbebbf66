"""The real library that the demo works on: its source distribution, fetched by pip and checked by its digest."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
from pathlib import Path

from workers.environment import PIP, plain_environment

PROJECT = "liger-kernel"
VERSION = "0.8.5"
ARCHIVE = "liger_kernel-0.8.5.tar.gz"
SHA256 = "4e8f8f611a8ad735c37c989410d09820bb08881f131851a3967c34baa7889d66"


class LibraryError(Exception):
    """The library's source cannot be had; the text says what to do."""


def fetch(folder: Path) -> Path:
    """Give the library's source archive, downloading it once into ``folder``.

    Raises:
        LibraryError: pip could not fetch it, or it is not the file that is expected.
    """
    archive = folder / ARCHIVE
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        command += ["--dest", str(folder), f"{PROJECT}=={VERSION}"]
        variables = plain_environment(PIP)
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
        if done.returncode != 0 or not archive.exists():
            last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            raise LibraryError(f"pip could not fetch {PROJECT} {VERSION}: {last}. Put {ARCHIVE} into {folder} by hand.")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != SHA256:
        raise LibraryError(f"{archive} is not the file that was expected (sha256 {digest}): delete it and try again.")
    return archive


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack the archive into ``folder`` and give the library's own folder in it."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / ARCHIVE.removesuffix(".tar.gz")
