"""What a child takes of its host counts wherever it lies: shared memory, memory files, and room in its folder."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import pytest

from gpu_runner.contracts import Isolation, Limits
from gpu_runner.errors import ChildError, ChildFailed, ChildOutOfMemory
from gpu_runner.messages import CallMain, Echo
from gpu_runner.sandbox.cgroup import ControlGroup
from gpu_runner.sandbox.levels import LEVELS
from gpu_runner.sandbox.watchdog import MAX_DEPTH, footprint, room_of
from gpu_runner.session import ChildSession

pytestmark = pytest.mark.every_turn

MIB = 2**20
PROCESS_ONLY = (Isolation.process,)
BOTH = pytest.mark.parametrize("levels", [LEVELS, PROCESS_ONLY], ids=["all levels", "process"])


def run(source: str, limits: Limits, levels: tuple[Isolation, ...]) -> dict:
    with ChildSession("echo", limits, files={"thing.py": source}, levels=levels) as session:
        return session.call(CallMain("thing")).message


MEMORY = {
    "a shared mapping": "import mmap\nkept = mmap.mmap(-1, 300 * 2**20)\nkept.write(bytes(300 * 2**20))\n",
    "a memory file": "import os\nkept = os.memfd_create('x')\nfor _ in range(300):\n    os.write(kept, bytes(2**20))\n",
    "a mapped memory file that is closed": (
        "import mmap, os\nfile = os.memfd_create('x')\nos.truncate(file, 300 * 2**20)\n"
        "kept = mmap.mmap(file, 300 * 2**20)\nos.close(file)\nkept.write(bytes(300 * 2**20))\n"
    ),
    "memory files of children": (
        "import os, time\nfor _ in range(6):\n    if os.fork() == 0:\n        kept = os.memfd_create('x')\n"
        "        for _ in range(50):\n            os.write(kept, bytes(2**20))\n        time.sleep(60)\n"
    ),
}


@BOTH
@pytest.mark.parametrize("source", MEMORY.values(), ids=MEMORY)
def test_memory_that_is_shared_counts(source: str, levels: tuple[Isolation, ...]) -> None:
    # The limit on address space holds the private part, so that it is the counting that is seen here.
    limits = Limits(time_s=30, step_s=20, memory_bytes=6 * 2**30)
    with ChildSession(
        "echo", limits, files={"thing.py": source + "import time\ntime.sleep(60)\n"}, levels=levels
    ) as session:
        assert session._watchdog is not None
        session._watchdog._limits = Limits(memory_bytes=250 * MIB)
        begin = time.monotonic()
        with pytest.raises(ChildOutOfMemory, match="more than 250 MiB of memory"):
            session.call(CallMain("thing"))
    assert time.monotonic() - begin < 10


def test_shared_memory_counts_once_however_many_have_it() -> None:
    source = (
        "import mmap, os, time\nkept = mmap.mmap(-1, 100 * 2**20)\nkept.write(bytes(100 * 2**20))\n"
        "for _ in range(5):\n    if os.fork() == 0:\n        kept[::4096]\n        time.sleep(60)\n"
        "time.sleep(0.5)\n"
    )
    with ChildSession("echo", Limits(time_s=30, step_s=20), files={"thing.py": source}, fork=False) as session:
        session.call(CallMain("thing"))
        assert session._process is not None
        assert session._watchdog is not None
        taken = footprint(session._process.pid, session._watchdog._watchers)
    assert taken.processes >= 6
    assert 100 * MIB < taken.memory_bytes < 400 * MIB


FILL = "for n in range(64):\n    open(f'f{n}', 'wb').write(bytes(2**20))\nimport time\ntime.sleep(60)\n"
MANY = "for n in range(10**6):\n    open(f'f{n}', 'wb').close()\n"
DEEP = "import os\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\nimport time\ntime.sleep(60)\n"


@pytest.mark.parametrize("source", [FILL, MANY], ids=["bytes", "files"])
def test_a_folder_in_memory_takes_no_more_than_its_limit(source: str) -> None:
    limits = Limits(time_s=60, step_s=30, scratch_bytes=16 * MIB, scratch_files=2000)
    with ChildSession("echo", limits, files={"thing.py": source}) as session:
        if Isolation.namespaces not in session.isolation:
            pytest.skip("this host gives no namespaces")
        with pytest.raises(ChildError, match="No space left"):
            session.call(CallMain("thing"))
        assert session.call(Echo({"still": "there"})).message == {"still": "there"}


@pytest.mark.parametrize(
    ("source", "reason"), [(FILL, "16 MiB in its folder"), (MANY, "2000 files"), (DEEP, f"deeper than {MAX_DEPTH}")]
)
def test_a_folder_on_a_disk_takes_no_more_than_its_limit(source: str, reason: str) -> None:
    with pytest.raises(ChildOutOfMemory, match=reason):
        run(source, Limits(time_s=60, step_s=30, scratch_bytes=16 * MIB, scratch_files=2000), PROCESS_ONLY)


def test_the_folder_in_memory_counts_as_memory() -> None:
    with ChildSession("echo", Limits(time_s=60, step_s=30), files={"thing.py": FILL}) as session:
        if Isolation.namespaces not in session.isolation:
            pytest.skip("this host gives no namespaces")
        assert session._watchdog is not None
        own = footprint(session._process.pid, session._watchdog._watchers).memory_bytes  # type: ignore[union-attr]
        session._watchdog._limits = Limits(memory_bytes=own + 48 * MIB)
        with pytest.raises(ChildOutOfMemory, match="MiB of memory"):
            session.call(CallMain("thing"))


@BOTH
def test_nested_folders_of_a_child_leave_nothing_and_the_next_child_runs(levels: tuple[Isolation, ...]) -> None:
    limits = Limits(time_s=30, step_s=10)
    with ChildSession("echo", limits, files={"thing.py": DEEP.partition("import time")[0]}, levels=levels) as session:
        base = session.scratch.base
        with pytest.raises(ChildFailed):
            session.call(CallMain("thing"), timeout_s=5)
            session.call(CallMain("nothing"))
    assert not base.exists()
    assert run("def main(s, t):\n    return {'a': 1}, []\n", limits, levels) == {"a": 1}


@BOTH
def test_what_a_child_wrote_can_be_read_after_its_end(levels: tuple[Isolation, ...]) -> None:
    source = "import os\nos.symlink('/etc/passwd', 'link')\n"
    source += "open('out', 'w').write('written')\nos.mkdir('sub')\nopen('sub/x', 'w').write('deeper')\n"
    with ChildSession("echo", Limits(time_s=30, step_s=20), files={"thing.py": source}, levels=levels) as session:
        session.scratch.write({"later/given.txt": "given"})
        session.call(CallMain("thing"))
        session.settle()
        assert session.scratch.read("out", 100) == b"written"
        assert session.scratch.read("sub/x", 100) == b"deeper"
        assert session.scratch.read("later/given.txt", 100) == b"given"
        assert session.scratch.read("link", 10**6) is None
        assert session.scratch.read("out", 3) is None


def test_the_room_of_a_folder_is_counted_by_blocks_and_links_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(bytes(MIB))
    os.link(tmp_path / "a" / "file", tmp_path / "hard")
    (tmp_path / "link").symlink_to("/")
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    room = room_of(tmp_path, 1000)
    assert (room.files, room.too_deep) == (6, False)
    assert MIB <= room.bytes < 2 * MIB
    assert room_of(tmp_path, 3).files == 4
    assert room_of(tmp_path / "none", 10).files == 0


def _groups(folder: Path, procs: str = "") -> tuple[Path, Path]:
    """A delegated group in the form of files, as the kernel shows it, with this process in ``unit/supervisor``."""
    unit = folder / "unit"
    (unit / "supervisor").mkdir(parents=True)
    (unit / "cgroup.procs").write_text(procs)
    (unit / "cgroup.subtree_control").write_text("")
    own = folder / "own"
    own.write_text("1:name=systemd:/x\n0::/unit/supervisor\n")
    return folder, own


def test_a_control_group_is_made_beside_the_own_one_with_the_limits(tmp_path: Path) -> None:
    root, own = _groups(tmp_path)
    group = ControlGroup.create(Limits(memory_bytes=7 * MIB, processes=9), root, own)
    assert group is not None
    assert group._path.parent == tmp_path / "unit"
    assert (tmp_path / "unit" / "cgroup.subtree_control").read_text() == "+memory +pids"
    assert (group._path / "memory.max").read_text() == str(7 * MIB)
    assert (group._path / "pids.max").read_text() == "9"
    assert group.add(4711)
    assert (group._path / "cgroup.procs").read_text() == "4711"
    assert not group.ran_out_of_memory()
    (group._path / "memory.events").write_text("oom 3\noom_kill 0\n")
    assert not group.ran_out_of_memory()
    (group._path / "memory.events").write_text("oom 3\noom_kill 2\n")
    assert group.ran_out_of_memory()


@pytest.mark.parametrize("line", ["0::/\n", "0::/unit\n", "4:memory:/x\n", ""])
def test_no_control_group_is_made_where_none_was_delegated(tmp_path: Path, line: str) -> None:
    root, own = _groups(tmp_path)
    own.write_text(line)
    assert ControlGroup.create(Limits(), root, own) is None


def test_no_control_group_is_made_in_one_that_has_processes(tmp_path: Path) -> None:
    assert ControlGroup.create(Limits(), *_groups(tmp_path, "1\n")) is None


def test_a_shared_mapping_of_this_process_is_no_childs() -> None:
    kept = mmap.mmap(-1, 64 * MIB)
    kept.write(bytes(64 * MIB))
    assert footprint(2**22 - 1).memory_bytes == 0
    kept.close()
