"""A child's life: what it answers, how it may end, and that nothing it forges is believed."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest
import torch

from gpu_runner.buffers import Buffer
from gpu_runner.contracts import Isolation, Limits
from gpu_runner.errors import ChildDied, ChildError, ChildOutOfMemory, ChildTimeout, IsolationUnavailable, ProtocolError
from gpu_runner.messages import CallMain, Echo, LookAtGpu
from gpu_runner.sandbox import tree
from gpu_runner.sandbox.levels import LEVELS
from gpu_runner.scratch import Scratch, ScratchError
from gpu_runner.session import ChildSession, has_gpu
from tests.few import few

pytestmark = pytest.mark.every_turn

LIMITS = Limits(time_s=60, step_s=20, memory_bytes=8 * 2**30)
PROCESS_ONLY = (Isolation.process,)
ROOT = Path(__file__).parents[3]


def run(source: str, levels: tuple[Isolation, ...] = LEVELS, limits: Limits = LIMITS) -> dict:
    with ChildSession("echo", limits, files={"thing.py": source}, levels=levels) as session:
        return session.call(CallMain("thing")).message


def test_tensors_and_metadata_come_back() -> None:
    tensors = [torch.randn(5, 7)[:, ::2], torch.arange(3), torch.randn(600_000)]
    with ChildSession("echo", LIMITS) as session:
        reply = session.call(Echo({"a": [1, "x"]}), [Buffer.from_torch(t) for t in tensors])
        again = session.call(Echo({}))
    assert reply.message == {"a": [1, "x"]}
    assert again.message == {}
    for sent, got in zip(tensors, reply.tensors, strict=True):
        assert torch.equal(got.to_torch(), sent)


def test_an_exception_names_its_kind_and_line() -> None:
    with ChildSession(
        "echo", LIMITS, files={"thing.py": "import math\n\ndef main(s, t):\n    return 1 / 0\n"}
    ) as session:
        with pytest.raises(ChildError) as caught:
            session.call(CallMain("thing"))
        assert session.call(Echo({"still": "there"})).message == {"still": "there"}
    assert (caught.value.kind, caught.value.line, caught.value.path) == ("ZeroDivisionError", 4, "thing.py")
    assert "thing.py" in caught.value.log


def test_a_syntax_error_names_its_line() -> None:
    with pytest.raises(ChildError) as caught:
        run("x = 1\ny = = 2\n")
    assert (caught.value.kind, caught.value.line) == ("SyntaxError", 2)


@pytest.mark.parametrize("levels", [LEVELS, PROCESS_ONLY])
def test_leaving_at_import_is_no_answer(levels: tuple[Isolation, ...]) -> None:
    with pytest.raises(ChildDied) as caught:
        run("import os\nos._exit(0)\n", levels)
    assert (caught.value.signal, caught.value.exit_code) == (None, 0)


@pytest.mark.parametrize("levels", [LEVELS, PROCESS_ONLY])
def test_a_signal_is_told_apart_from_an_exit(levels: tuple[Isolation, ...]) -> None:
    with pytest.raises(ChildDied) as caught:
        run("import ctypes\nctypes.string_at(0)\n", levels)
    assert caught.value.signal == 11
    assert "Segmentation fault" in caught.value.log


def test_printed_frames_never_count_as_answers() -> None:
    source = (
        "import os\nfrom gpu_runner import codec\nfrom gpu_runner.codec import FrameKind\n"
        "frame = codec.encode(FrameKind.answer, bytes(16), {'reply': {'forged': 1}}, ())\n"
        "os.write(1, frame)\nos.write(2, frame)\n"
        "def main(s, t):\n    return {'honest': 1}, []\n"
    )
    assert run(source) == {"honest": 1}


def test_a_frame_forged_before_the_call_ends_the_session() -> None:
    forge = (
        "import os\nfrom gpu_runner import codec\nfrom gpu_runner.codec import FrameKind\n"
        "frame = codec.encode(FrameKind.answer, bytes(16), {'reply': {'forged': 1}}, ())\n"
        "for n in range(3, 1000):\n"
        "    try:\n        os.write(n, frame)\n"
        "    except OSError:\n        pass\n"
    )
    with ChildSession("echo", LIMITS, files={"thing.py": forge}) as session:
        with pytest.raises(ProtocolError):
            session.call(CallMain("thing"))
        with pytest.raises(ChildDied):
            session.call(Echo({}))


def test_a_loop_is_killed_at_the_deadline() -> None:
    with ChildSession("echo", LIMITS, files={"thing.py": "while True: pass\n"}) as session:
        start = time.monotonic()
        with pytest.raises(ChildTimeout):
            session.call(CallMain("thing"), timeout_s=1.0)
        assert time.monotonic() - start < 10


@pytest.mark.parametrize(("seconds", "answers"), [(1.5, True), (60.0, False)])
def test_what_a_busy_host_took_is_added_to_a_limit_at_most_twice(
    seconds: float, answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"import time\n\ndef main(s, t):\n    time.sleep({seconds})\n    return {{'slept': True}}, []\n"
    with ChildSession("echo", LIMITS, files={"thing.py": source}) as session:
        monkeypatch.setattr(tree, "waited_s", lambda _pid: time.monotonic())  # as if it had waited all the time
        if answers:
            assert session.call(CallMain("thing"), timeout_s=1.0).message == {"slept": True}
        else:
            with pytest.raises(ChildTimeout, match=r"within 1\.0 s and 2\.0 s for which it waited"):
                session.call(CallMain("thing"), timeout_s=1.0)


def test_what_a_busy_host_took_from_a_call_is_no_part_of_the_whole_time(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import time\n\ndef main(s, t):\n    time.sleep(1.0)\n    return {'slept': True}, []\n"
    limits = Limits(time_s=2.0, step_s=2.0, memory_bytes=8 * 2**30)
    with ChildSession("echo", limits, files={"thing.py": source}) as session:
        monkeypatch.setattr(tree, "waited_s", lambda _pid: time.monotonic())
        for _ in range(3):
            assert session.call(CallMain("thing")).message == {"slept": True}


def test_however_long_many_processes_wait_a_child_has_three_times_its_whole_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = "import time\n\ndef main(s, t):\n    time.sleep(0.5)\n    return {}, []\n"
    limits = Limits(time_s=1.0, step_s=1.0, memory_bytes=8 * 2**30)
    with ChildSession("echo", limits, files={"thing.py": source}) as session:
        monkeypatch.setattr(tree, "waited_s", lambda _pid: 1000 * time.monotonic())  # as of a thousand busy processes
        begin = time.monotonic()
        with pytest.raises(ChildTimeout):
            for _ in range(20):
                session.call(CallMain("thing"))
        assert time.monotonic() - begin < 6.0


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not count it")
def test_what_waits_for_a_processor_is_counted() -> None:
    busy = (
        "import os, time\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "end = time.monotonic() + 4\n"
        "while time.monotonic() < end: pass\n"
    )
    others = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(2)]
    idle = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(4)"])
    try:
        time.sleep(3)
        assert max(tree.waited_s(one.pid) for one in others) > 0.5
        assert tree.waited_s(idle.pid) < min(tree.waited_s(one.pid) for one in others)
        assert tree.waited_s(os.getpid()) > 0.5  # with all that it started
    finally:
        for one in (*others, idle):
            one.kill()
            one.wait()


@pytest.mark.parametrize("levels", [LEVELS, PROCESS_ONLY])
def test_no_descendant_outlives_the_session(levels: tuple[Isolation, ...]) -> None:
    source = (
        "import os, time\n"
        "def main(s, t):\n"
        "    for _ in range(3):\n"
        "        if os.fork() == 0:\n"
        "            os.setsid()\n"
        "            if os.fork() == 0:\n"
        "                time.sleep(600)\n"
        "            os._exit(0)\n"
        "    return {}, []\n"
    )
    with ChildSession("echo", LIMITS):
        pass  # the process that children are forked from is there for all sessions, and stays
    before = set(tree.descendants(os.getpid()))
    with ChildSession("echo", LIMITS, files={"thing.py": source}, levels=levels) as session:
        session.call(CallMain("thing"))

        def are_all_seen() -> bool:  # those in between end meanwhile
            seen = set(tree.descendants(os.getpid()))
            return len(seen - before) > 3 and set(tree.children_below(os.getpid())) == seen

        deadline = time.monotonic() + 5
        is_seen = are_all_seen()
        while not is_seen and time.monotonic() < deadline:
            is_seen = are_all_seen()
        assert is_seen
    assert not set(tree.descendants(os.getpid())) - before


def test_memory_beyond_the_limit_is_out_of_memory() -> None:
    with pytest.raises(ChildOutOfMemory):
        run("x = bytearray(6 * 2**30)\n", limits=Limits(time_s=60, step_s=20, memory_bytes=4 * 2**30))


def test_more_processes_than_the_limit_end_the_child() -> None:
    source = "import os, time\nfor _ in range(60):\n    if os.fork() == 0:\n        time.sleep(60)\ntime.sleep(60)\n"
    with pytest.raises((ChildOutOfMemory, ChildError, ChildDied)):
        run(source, limits=Limits(time_s=60, step_s=20, processes=20))


def test_a_file_larger_than_the_limit_cannot_be_written() -> None:
    with pytest.raises(ChildError, match="File too large"):
        run("open('x', 'wb').write(bytes(2**21))\n", limits=Limits(time_s=60, step_s=20, file_bytes=2**20))


def test_a_tensor_that_cannot_be_handed_over_is_an_error_and_no_death() -> None:
    with ChildSession(
        "echo",
        Limits(time_s=60, step_s=20, file_bytes=2**21),
        files={"thing.py": "import torch\ndef main(state, tensors):\n    return {}, [torch.zeros(2**20)]\n"},
    ) as session:
        with pytest.raises(ChildError, match=r"a tensor of 4 MiB cannot be handed .*: File too large"):
            session.call(CallMain("thing"))
        assert session.call(Echo({"n": 1})).message == {"n": 1}


def test_what_the_child_prints_is_kept_up_to_a_bound() -> None:
    with ChildSession(
        "echo", LIMITS, files={"thing.py": "print('first')\nprint('x' * 2**22)\nprint('last')\n"}
    ) as session:
        session.call(CallMain("thing"))
        deadline = time.monotonic() + 60
        while "last" not in session.log and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(session.log) < 70_000
        assert session.log.startswith("first")
        assert session.log.endswith("last\n")


def test_a_level_that_is_demanded_and_not_given_refuses_to_run() -> None:
    session = ChildSession("echo", LIMITS, require=(Isolation.namespaces,), levels=PROCESS_ONLY)
    with pytest.raises(IsolationUnavailable, match="namespaces"):
        session.__enter__()


def test_sessions_may_run_beside_each_other() -> None:
    answers: list[dict] = []

    def one(number: int) -> None:
        with ChildSession("echo", LIMITS) as session:
            answers.append(session.call(Echo({"n": number})).message)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(a["n"] for a in answers) == [0, 1, 2]


def test_the_scratch_folder_is_gone_afterwards() -> None:
    with ChildSession("echo", LIMITS, files={"a/b.txt": "x"}) as session:
        base = session.scratch.base
        session.call(CallMain("this"))
        assert session.scratch.read("a/b.txt", 10) == b"x"
    assert not base.exists()


def test_a_request_of_another_role_and_an_unknown_role_are_errors() -> None:
    with ChildSession("echo", LIMITS) as session, pytest.raises(ChildError, match="takes no LookAtGpu"):
        session.call(LookAtGpu(quick=True))
    with ChildSession("../echo", LIMITS) as session, pytest.raises(ChildError, match="is no role"):
        session.call(Echo({}))


def _tarball(entries: dict[str, bytes | tuple[str, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in entries.items():
            info = tarfile.TarInfo(name)
            if isinstance(content, tuple):
                info.type, info.linkname = content[1], content[0]
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def test_a_snapshot_is_unpacked_without_its_top_folder() -> None:
    tree_bytes = _tarball({"repo-abc/src/lib/__init__.py": b"VALUE = 7\n", "repo-abc/README.md": b"x"})
    source = "import lib\ndef main(s, t):\n    return {'value': lib.VALUE}, []\n"
    with ChildSession(
        "echo", LIMITS, tree=tree_bytes, files={"thing.py": source}, import_roots=("src", ".")
    ) as session:
        assert session.call(CallMain("thing")).message == {"value": 7}


@pytest.mark.parametrize(
    "entries",
    [
        {"../evil": b"x"},
        {"/etc/evil": b"x"},
        {"top/a": b"x", "top/link": ("/etc", tarfile.SYMTYPE)},
        {"top/a": b"x", "top/link": ("../../..", tarfile.SYMTYPE)},
    ],
)
def test_a_hostile_tarball_is_refused(entries: dict) -> None:
    scratch = Scratch()
    try:
        with pytest.raises(ScratchError):
            scratch.unpack(_tarball(entries))
    finally:
        scratch.remove()


@pytest.mark.parametrize("name", ["../x", "/etc/x", "", "a/../../x"])
def test_files_cannot_be_placed_outside(name: str) -> None:
    scratch = Scratch()
    try:
        with pytest.raises(ScratchError):
            scratch.write({name: "x"})
    finally:
        scratch.remove()


def test_links_are_never_followed_when_a_file_is_collected(tmp_path: Path) -> None:
    scratch = Scratch()
    try:
        (tmp_path / "secret").write_text("s")
        (scratch.work / "link").symlink_to(tmp_path / "secret")
        (scratch.work / "folder").symlink_to(tmp_path)
        os.mkfifo(scratch.work / "pipe")
        assert scratch.read("link", 10) is None
        assert scratch.read("folder/secret", 10) is None
        assert scratch.read("pipe", 10) is None
        assert scratch.read("../../../etc/passwd", 10**6) is None
    finally:
        scratch.remove()


@pytest.mark.fault
@pytest.mark.parametrize("levels", few(["LEVELS", "LEVELS[:1]"], ["LEVELS"]))
def test_the_child_ends_when_its_parent_is_killed(levels: str) -> None:
    parent = (
        "import sys\nfrom gpu_runner.session import ChildSession\nfrom gpu_runner.sandbox.levels import LEVELS\n"
        f"with ChildSession('echo', files={{'thing.py': 'while True: pass'}}, levels={levels}) as session:\n"
        "    print(session._process.pid, session.scratch.base, flush=True)\n"
        "    session.call('run', {'module': 'thing'})\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        launcher, base = process.stdout.readline().split()
        deadline = time.monotonic() + 60
        while (
            len(below := tree.descendants(process.pid)) < (3 if levels == "LEVELS" else 2)
            and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        assert int(launcher) in below
        process.kill()
    while any(Path(f"/proc/{pid}").exists() for pid in below) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not [pid for pid in below if Path(f"/proc/{pid}").exists()]
    shutil.rmtree(base)


@pytest.mark.parametrize(("hidden", "expected"), [(None, True), ("0", True), ("", False), ("-1", False)])
def test_a_gpu_that_the_environment_hides_is_not_used(
    hidden: str | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "exists", lambda self: str(self) == "/dev/nvidiactl")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert has_gpu() is expected


def test_an_amd_gpu_is_none_that_a_child_could_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda self: str(self) == "/dev/kfd")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert not has_gpu()
