from __future__ import annotations

import contextlib
import hashlib
import resource
from collections.abc import Iterator

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


def test_a_disk_that_becomes_full_keeps_no_half_of_it(local: World) -> None:
    artifacts.put(b"fits")
    folder = local.runtime.settings.data_dir / "artifacts"
    before = sorted(folder.rglob("*"))
    with file_size(4096):
        for _ in range(3):
            with pytest.raises(OSError, match="too large"):
                artifacts.put(b"x" * 100_000)
            with pytest.raises(OSError, match="too large"):
                local.runtime.blobs.rehearse()
    assert [path for path in sorted(folder.rglob("*")) if path.is_file()] == [path for path in before if path.is_file()]


def test_what_goes_while_it_is_listed_is_left_out(local: World) -> None:
    kept = {artifacts.put(b"first"), artifacts.put(b"second"), artifacts.put(b"third")}
    listed = local.runtime.blobs.entries()
    first, _, _, _ = next(listed)
    folder = local.runtime.settings.data_dir / "artifacts"
    (gone, *_) = kept - {first}
    (folder / gone[:2] / gone).unlink()
    assert {first, *(digest for digest, *_ in listed)} == kept - {gone}


@contextlib.contextmanager
def file_size(most_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_other_file_systems_are_reached_by_url(local: World) -> None:
    local.runtime.blobs.__init__("memory://kernelsmith")  # type: ignore[misc]
    digest = artifacts.put(b"far away")
    assert artifacts.get(digest) == b"far away"
