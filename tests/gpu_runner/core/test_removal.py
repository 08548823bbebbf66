"""Folders that untrusted code wrote into are removed whatever is in them, and what cannot be removed crashes nothing."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from gpu_runner import doctor, removal
from gpu_runner.removal import PREFIXES, leftovers, locked, remove_or_report, remove_tree, sweep
from gpu_runner.scratch import Scratch
from tests.few import few
from workers.gpu_host import runner as supervisor

pytestmark = pytest.mark.every_turn

DEEP = 1_500  # more than Python's stack, and than the files that a process may have open by default


def nest(folder: Path, depth: int, name: str = "d") -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=handle)
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
    os.close(handle)


@pytest.mark.parametrize("depth", few([DEEP, 6_000], [DEEP]))
def test_folders_nested_deeper_than_any_path_are_removed(tmp_path: Path, depth: int) -> None:
    folder = tmp_path / "top"
    folder.mkdir()
    nest(folder, depth)
    assert remove_tree(folder) == ()
    assert not folder.exists()


def test_a_scratch_folder_with_nested_folders_goes_and_so_does_the_next(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        scratch = Scratch()
        nest(scratch.work, DEEP, "x" * 200)
        scratch.remove()
        assert not scratch.base.exists()
    assert not caplog.records


def test_the_supervisors_sweep_survives_nested_folders(tmp_path: Path) -> None:
    folder = tmp_path / f"{supervisor.PREFIX}old"
    folder.mkdir()
    nest(folder, DEEP)
    os.utime(folder, (0, 0))
    supervisor.sweep(tmp_path, 1.0)
    assert not folder.exists()


def test_every_kind_of_entry_is_removed_and_nothing_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    folder = tmp_path / "top"
    closed = folder / "closed" / "deeper"
    closed.mkdir(parents=True)
    (closed / "file").write_text("x")
    (folder / "link").symlink_to(outside)
    (folder / "dangling").symlink_to("nowhere")
    (folder / "hard").hardlink_to(outside / "kept")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(folder / "socket"))
    with (folder / "sparse").open("wb") as file:
        file.truncate(2**40)
    (folder / "line\nbreak").mkdir()
    os.mkdir(os.fsencode(folder) + b"/\xff\xfe")
    (folder / os.fsdecode(b"\xff\xfe") / "inner").write_text("x")
    if os.getuid() == 0:
        os.mknod(folder / "device", 0o600 | 0o020000, os.makedev(1, 3))
    (folder / "closed" / "deeper").chmod(0)
    (folder / "closed").chmod(0)
    folder.chmod(0)
    assert remove_tree(folder) == ()
    assert not os.path.lexists(folder)
    assert (outside / "kept").read_text() == "kept"


def test_a_plain_user_removes_folders_without_any_rights() -> None:
    if os.getuid() != 0:
        pytest.skip("the test of every kind of entry is that of a plain user already")
    code = (
        "import os, sys, tempfile\nfrom pathlib import Path\nfrom gpu_runner.removal import remove_tree\nos.setgid(65534)\n"
        "os.setuid(65534)\ntop = Path(tempfile.mkdtemp())\n(top / 'a' / 'b').mkdir(parents=True)\n"
        "(top / 'a' / 'b' / 'f').write_text('x')\n(top / 'a' / 'b').chmod(0)\n(top / 'a').chmod(0o500)\ntop.chmod(0)\n"
        "print(remove_tree(top), top.exists())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "() False\n", done.stderr


def test_a_folder_that_becomes_a_link_meanwhile_is_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    folder = tmp_path / "top"
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            try:
                (folder / "a").mkdir()
                (folder / "a").rmdir()
                (folder / "a").symlink_to(outside)
                (folder / "a").unlink()
            except OSError:
                continue

    thread = threading.Thread(target=swap)
    for _ in range(20):
        folder.mkdir(exist_ok=True)
        if not thread.is_alive():
            thread.start()
        remove_tree(folder)
    stop.set()
    thread.join()
    assert (outside / "kept").read_text() == "kept"


def test_many_small_files_are_removed_in_a_bounded_time(tmp_path: Path) -> None:
    folder = tmp_path / "top"
    folder.mkdir()
    handle = os.open(folder, os.O_RDONLY)
    for number in range(20_000):
        os.mknod(f"f{number}", dir_fd=handle)
    os.close(handle)
    begin = time.monotonic()
    assert remove_tree(folder) == ()
    assert time.monotonic() - begin < 10


def test_what_is_mounted_below_is_left_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "top"
    (folder / "sub").mkdir(parents=True)
    real = os.rename

    def busy(name: str, *rest: object, **more: object) -> None:
        if name == "sub":
            raise OSError(16, "Device or resource busy")
        real(name, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", busy)
    with caplog.at_level(logging.WARNING):
        remove_or_report(folder)
        remove_or_report(folder)
    assert (folder / "sub").exists()
    assert [record.getMessage().count("busy") for record in caplog.records] == [1]
    assert "findmnt" in caplog.text
    caplog.clear()


def test_the_sweep_removes_what_killed_runners_left_and_nothing_else(tmp_path: Path) -> None:
    for name in ("kernelsmith-child-old", "kernelsmith-child-used", "kernelsmith-other", "pymp-other"):
        (tmp_path / name / "scratch").mkdir(parents=True)
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / "kernelsmith-child-new").mkdir()
    (tmp_path / "kernelsmith-child-link").symlink_to(tmp_path / "pymp-other")
    with locked(tmp_path / "kernelsmith-child-used"):
        assert leftovers(tmp_path) == [tmp_path / "kernelsmith-child-old"]
        sweep(tmp_path)
    assert not (tmp_path / "kernelsmith-child-old").exists()
    assert len(list(tmp_path.iterdir())) == 5


def test_a_living_scratch_folder_is_no_leftover() -> None:
    scratch = Scratch()
    os.utime(scratch.base, (0, 0))
    assert scratch.base.name.startswith(PREFIXES[0])
    assert scratch.base not in leftovers()
    scratch.remove()


def test_a_folder_that_is_not_there_is_no_fault(tmp_path: Path) -> None:
    assert removal.remove_tree(tmp_path / "none") == ()


def test_doctor_shows_what_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"{PREFIXES[0]}old").mkdir()
    os.utime(tmp_path / f"{PREFIXES[0]}old", (0, 0))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(removal, "remove_tree", lambda _: ("old: Operation not permitted",))
    (problem,) = doctor._leftovers()
    assert problem.startswith("1 folders of ended children cannot be removed")
    assert "lsattr" in problem
