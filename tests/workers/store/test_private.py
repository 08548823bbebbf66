"""What an installation keeps is for its user alone, whatever the umask, and where it was open before too."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from workers.store.blobs import BlobStore
from workers.store.database import Database
from workers.store.private import private_folder


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): oct(stat.S_IMODE(path.stat().st_mode)) for path in (folder, *folder.rglob("*"))
    }


def use(folder: Path) -> dict[str, str]:
    database = Database(f"sqlite:///{folder / 'data' / 'kernelsmith.sqlite3'}")
    with database.write() as session:
        session.execute(text("SELECT 1"))
        digest = BlobStore(str(folder / "data" / "artifacts")).put(b"content")
        found = modes(folder / "data")
    database.dispose()
    assert f"artifacts/{digest[:2]}/{digest}" in found
    assert "kernelsmith.sqlite3-wal" in found
    return found


def test_database_and_artifacts_are_for_this_user_alone(tmp_path: Path) -> None:
    assert set(use(tmp_path).values()) == {"0o600", "0o700"}


def test_what_an_earlier_version_left_open_is_shut(tmp_path: Path) -> None:
    use(tmp_path)
    kept = tmp_path / "data" / "kernelsmith.sqlite3"
    for path, mode in ((kept, 0o664), (tmp_path / "data" / "artifacts", 0o755)):
        path.chmod(mode)
    found = use(tmp_path)
    assert (found["kernelsmith.sqlite3"], found["artifacts"]) == ("0o600", "0o700")


def test_a_folder_of_everybody_stays_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    private_folder(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777


def test_a_new_connection_ends_no_lock_that_this_process_has_on_the_database(tmp_path: Path) -> None:
    # POSIX ends all locks of a process on a file as soon as it closes any descriptor of it.
    database = Database(f"sqlite:///{tmp_path / 'kernelsmith.sqlite3'}")
    ask = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
    with database.write() as session:
        session.execute(text("SELECT 1"))
        database.engine.connect().close()
        with closing(database.engine.raw_connection()):
            other = [sys.executable, "-c", ask, str(tmp_path / "kernelsmith.sqlite3")]
            found = subprocess.run(other, capture_output=True, text=True, check=False)
    database.dispose()
    assert "database is locked" in found.stderr


def test_the_folder_of_artifacts_is_for_this_user_alone_before_there_is_one(tmp_path: Path) -> None:
    BlobStore(str(tmp_path / "artifacts")).rehearse()
    assert modes(tmp_path / "artifacts") == {".": "0o700"}
