from __future__ import annotations

import hashlib

import pytest

from tests.workers.store.worlds import World
from workers import artifacts
from workers.artifacts import BlobError


def test_bytes_come_back_by_their_digest(local: World) -> None:
    digest = artifacts.put(b"a plot", "image/png")
    assert digest == hashlib.sha256(b"a plot").hexdigest()
    assert artifacts.get(digest) == b"a plot"
    assert artifacts.put(b"a plot", "image/png") == digest


def test_damaged_bytes_are_refused(local: World) -> None:
    digest = artifacts.put(b"a plot")
    stored = local.runtime.settings.data_dir / "artifacts" / digest[:2] / digest
    stored.write_bytes(b"another")
    with pytest.raises(BlobError, match="damaged"):
        artifacts.get(digest)


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 64 + "\n"])
def test_what_is_no_digest_is_refused(local: World, name: str) -> None:
    with pytest.raises(BlobError, match="no SHA-256"):
        artifacts.get(name)


def test_missing_bytes_are_named(local: World) -> None:
    with pytest.raises(BlobError, match="not in the store"):
        artifacts.get("0" * 64)


def test_no_half_written_file_is_left(local: World) -> None:
    artifacts.put(b"x" * 1000)
    assert not list((local.runtime.settings.data_dir / "artifacts").rglob("*.part"))


def test_other_file_systems_are_reached_by_url(local: World) -> None:
    local.runtime.blobs.__init__("memory://kernelsmith")  # type: ignore[misc]
    digest = artifacts.put(b"far away")
    assert artifacts.get(digest) == b"far away"
