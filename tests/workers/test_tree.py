"""Snapshots are read once as long as they are small, and the same whoever asks."""

from __future__ import annotations

import io
import tarfile

import pytest

from workers import tree
from workers.tree import KEPT, read_tarball


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "_kept", {})


def tarball(text: bytes) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        info = tarfile.TarInfo("library-1/kernels.py")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
    return content.getvalue()


def test_a_snapshot_is_read_once() -> None:
    content = tarball(b"x = 1\n")
    first = read_tarball(content)
    assert first.files == {"kernels.py": b"x = 1\n"}
    assert read_tarball(bytes(bytearray(content))) is first
    assert read_tarball(tarball(b"x = 2\n")).files == {"kernels.py": b"x = 2\n"}


def test_those_that_were_asked_for_last_are_kept() -> None:
    contents = [tarball(f"x = {number}\n".encode()) for number in range(KEPT + 1)]
    trees = [read_tarball(content) for content in contents[:KEPT]]
    assert read_tarball(contents[0]) is trees[0]
    read_tarball(contents[KEPT])
    assert read_tarball(contents[0]) is trees[0]
    assert read_tarball(contents[1]) is not trees[1]


def test_a_large_one_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MOST_KEPT_BYTES", 5)
    content = tarball(b"x = 1\n")
    assert read_tarball(content) is not read_tarball(content)
    assert not tree._kept
