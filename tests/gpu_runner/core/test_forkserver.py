"""Children that are forked from a warm process: they are what fresh ones are, and nothing leads from them to that process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_runner.contracts import Isolation, Limits
from gpu_runner.errors import ChildDied, ChildError
from gpu_runner.forkserver import keeper
from gpu_runner.forkserver.client import Forked, ForkServer
from gpu_runner.forkserver.server import shared_memory
from gpu_runner.messages import CallMain, Echo, OpenDevice, Request
from gpu_runner.sandbox import tree
from gpu_runner.sandbox.levels import LEVELS
from gpu_runner.sandbox.watchdog import footprint
from gpu_runner.session import ChildSession
from tests import warm_runner
from tests.few import few

LIMITS = Limits(time_s=60, step_s=30, memory_bytes=8 * 2**30)
PROCESS_ONLY = (Isolation.process,)
ROOT = Path(__file__).parents[3]

FACTS = """
import faulthandler, os, resource, signal, sys, tempfile, threading

def kind(handle):
    name = os.readlink(f"/proc/self/fd/{handle}")
    return name.partition(":[")[0]

def main(state, tensors):
    handles = [h for h in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{h}")]
    return {
        "environment": dict(os.environ),
        "path": sys.path,
        "flags": str(sys.flags),
        "main": sys.modules["__main__"].__spec__.name,
        "arguments": len(sys.argv),
        "folder": os.getcwd(),
        "temporary": tempfile.gettempdir(),
        "package": [os.path.realpath(sys.modules[name].__path__[0]) for name in ("gpu_runner", "gpu_runner.sandbox")],
        "handles": sorted((int(h), kind(h)) for h in handles),
        "bytecode": (sys.dont_write_bytecode, sys.pycache_prefix),
        "faults": faulthandler.is_enabled(),
        "threads": (len(os.listdir("/proc/self/task")), threading.active_count()),
        "signals": {n: str(signal.getsignal(n)) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE)},
        "limits": [resource.getrlimit(n) for n in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)],
        "leads": os.getsid(0) == os.getpid(),
        "mask": os.umask(0),
        "streams": [(s.encoding, s.line_buffering, s.isatty()) for s in (sys.stdout, sys.stderr)],
        "shared": [line for line in open("/proc/self/maps") if line.split()[1] == "rw-s"],
    }, []
"""


@pytest.fixture
def own_keeper(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A keeper without a server, whose misfortunes are forgotten afterwards."""
    monkeypatch.setattr(keeper, "_servers", {})
    monkeypatch.setattr(keeper, "_given_up", [])
    yield
    keeper.close()


@pytest.fixture(scope="module")
def started() -> Iterator[dict[tuple[tuple[str, str], ...], ForkServer]]:
    """A server that was started by its command; those of other tests are forks."""
    with pytest.MonkeyPatch.context() as patch, warm_runner.cold_servers():
        patch.setattr(keeper, "_servers", {})
        server()
        servers = keeper._servers
    yield servers
    for one in servers.values():
        one.close()


@pytest.fixture
def by_command(started: dict[tuple[tuple[str, str], ...], ForkServer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "_servers", started)


def facts(levels: tuple[Isolation, ...], fork: bool) -> dict:
    with ChildSession("echo", LIMITS, files={"thing.py": FACTS}, levels=levels, fork=fork) as session:
        assert is_forked(session) is fork
        found = session.call(CallMain("thing")).message
        return {name: _without(value, str(session.scratch.base)) for name, value in found.items()}


def _without(value: object, folder: str) -> str:
    return repr(value).replace(folder, "")


def is_forked(session: ChildSession) -> bool:
    return isinstance(session._process, Forked)


def server() -> ForkServer:
    found = keeper._server(gpu=False)
    assert found is not None
    return found


@pytest.mark.parametrize("levels", [LEVELS, PROCESS_ONLY])
def test_a_forked_child_finds_what_a_fresh_one_finds(by_command: None, levels: tuple[Isolation, ...]) -> None:
    assert facts(levels, fork=True) == facts(levels, fork=False)


def test_a_forked_child_holds_its_channel_and_its_output_and_nothing_else(by_command: None) -> None:
    held = facts(LEVELS, fork=True)["handles"]
    assert held == "[[0, '/dev/null'], [1, 'pipe'], [2, 'pipe'], [900, 'socket']]"


def test_no_two_children_draw_the_same(by_command: None) -> None:
    source = (
        "import multiprocessing, random, numpy, torch\n"
        "def main(s, t):\n"
        "    key = multiprocessing.current_process().authkey.hex()\n"
        "    return {'drawn': [random.random(), float(numpy.random.rand()), key], 'seed': torch.initial_seed()}, []\n"
    )
    drawn, seeds = [], []
    for fork in (True, True, False, False):
        with ChildSession("echo", LIMITS, files={"thing.py": source}, fork=fork) as session:
            found = session.call(CallMain("thing")).message
            drawn += found["drawn"]
            seeds.append(found["seed"])
    assert len(set(drawn)) == len(drawn)
    # Versions of torch begin with a constant, or with a number that they draw.
    assert len(set(seeds)) in (1, len(seeds))


def test_what_a_child_changes_the_next_one_does_not_find() -> None:
    change = (
        "import torch, os\ntorch.zeros = None\nos.environ['LEFT'] = 'x'\ntorch.set_num_threads(1)\nopen('left', 'w')\n"
    )
    look = (
        "import torch, os\n"
        "def main(s, t):\n"
        "    return {'found': [torch.zeros is None, 'LEFT' in os.environ, os.path.exists('left')]}, []\n"
    )
    with ChildSession("echo", LIMITS, files={"thing.py": change}) as session:
        session.call(CallMain("thing"))
        with ChildSession("echo", LIMITS, files={"thing.py": look}) as beside:
            assert beside.call(CallMain("thing")).message == {"found": [False, False, False]}
    with ChildSession("echo", LIMITS, files={"thing.py": look}) as after:
        assert is_forked(after)
        assert after.call(CallMain("thing")).message == {"found": [False, False, False]}


def test_a_child_that_ends_all_it_can_reach_does_not_reach_the_server() -> None:
    source = (
        "import os\n"
        "for pid in [os.getppid(), 1, *map(int, filter(str.isdigit, os.listdir('/proc'))), -1]:\n"
        "    if pid != os.getpid():\n"
        "        try:\n            os.kill(pid, 9)\n"
        "        except OSError:\n            pass\n"
        "def main(s, t):\n    return {'there': os.path.exists('/proc/SERVER')}, []\n"
    )
    pid = server().pid
    # In its own namespaces alone may a child send signals to all that there is.
    files = {"thing.py": source.replace("SERVER", str(pid))}
    with ChildSession("echo", LIMITS, (Isolation.namespaces,), files=files) as session:
        assert is_forked(session)
        try:
            there = session.call(CallMain("thing")).message["there"]
        except ChildDied:
            there = False
    assert not there
    with ChildSession("echo", LIMITS) as session:
        assert is_forked(session)
        assert server().pid == pid


@pytest.mark.long  # in `make test` it would be slower and no less right without
def test_children_find_the_compiler_loaded(own_keeper: None) -> None:
    source = "import sys\ndef main(s, t):\n    return {n: n in sys.modules for n in ('torch', 'torch._dynamo')}, []\n"
    for gpu in (True, False):
        with ChildSession("echo", LIMITS, gpu=gpu, files={"thing.py": source}) as session:
            assert is_forked(session)
            assert session.call(CallMain("thing")).message == {"torch": True, "torch._dynamo": True}


@pytest.mark.fault
@pytest.mark.parametrize("levels", few([(LEVELS,), (PROCESS_ONLY,)], [(LEVELS,)]))
def test_a_session_outlives_the_server_and_the_next_one_is_fresh(
    own_keeper: None, levels: tuple[Isolation, ...]
) -> None:
    with ChildSession("echo", LIMITS, levels=levels) as session:
        assert is_forked(session)
        os.kill(server().pid, signal.SIGKILL)
        assert session.call(Echo({"a": 1})).message == {"a": 1}
        with ChildSession("echo", LIMITS, levels=levels) as next_one:
            assert not is_forked(next_one)
            assert next_one.call(Echo({"b": 1})).message == {"b": 1}
        launcher = session._process.pid
        below = tree.descendants(launcher)
        assert below
    assert not any(Path(f"/proc/{pid}/exe").exists() for pid in below)
    assert "fork server" in (keeper.why_not() or "")


@pytest.mark.fault
def test_the_server_ends_with_a_parent_that_is_killed() -> None:
    parent = (
        "import time\nfrom gpu_runner.forkserver import keeper\nkeeper.warm_up(False)\n"
        "print(keeper._server(False).pid, keeper._server(False)._folder.base, flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        pid, base = process.stdout.readline().split()
        process.kill()
    deadline = time.monotonic() + 60  # it looks between two imports
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()
    subprocess.run(["rm", "-r", base], check=True)


def test_a_forked_child_that_fails_to_start_is_started_afresh_and_no_other_is_forked(
    own_keeper: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = keeper.fork

    def without_its_folder(gpu: bool, variables: dict, folder: Path, handles: tuple[int, ...]) -> Forked | None:
        return real(gpu, variables, folder / "nowhere", handles)

    monkeypatch.setattr(keeper, "fork", without_its_folder)
    with ChildSession("echo", LIMITS) as session:
        assert not is_forked(session)
        assert session.call(Echo({"a": 1})).message == {"a": 1}
    assert "a forked child failed" in (keeper.why_not() or "")


def test_a_level_that_a_forked_child_alone_is_refused_is_not_held_against_the_host(
    own_keeper: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ChildSession._spawn

    def refused_where_forked(self: ChildSession, levels: tuple[Isolation, ...], fork: bool) -> Isolation | None:
        return real(self, levels, fork) or (Isolation.landlock if self.forked else None)

    monkeypatch.setattr(ChildSession, "_spawn", refused_where_forked)
    with ChildSession("echo", LIMITS, levels=PROCESS_ONLY) as session:
        assert session.isolation == PROCESS_ONLY
        assert not is_forked(session)
    assert "level landlock" in (keeper.why_not() or "")


def failing(monkeypatch: pytest.MonkeyPatch, fresh_too: bool) -> None:
    real = ChildSession._call

    def call(self: ChildSession, request: Request[Any], *rest: object) -> object:
        if isinstance(request, OpenDevice) and (fresh_too or self.forked):
            raise ChildError("RuntimeError", "Cannot re-initialize CUDA in forked subprocess")
        return real(self, request, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(ChildSession, "_call", call)


def test_a_device_that_opens_in_a_fresh_child_alone_ends_the_forking(
    own_keeper: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, fresh_too=False)
    with ChildSession("reference", LIMITS) as session:
        assert session.call(OpenDevice()).message is None
        assert not is_forked(session)
    assert "Cannot re-initialize CUDA" in (keeper.why_not() or "")


@pytest.mark.long  # in `make test` one opens in a fresh child alone, above
def test_a_device_that_opens_in_no_child_is_no_fault_of_the_fork(
    own_keeper: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, fresh_too=True)
    with ChildSession("reference", LIMITS) as session, pytest.raises(ChildError):
        session.call(OpenDevice())
    assert keeper.why_not() is None


def test_a_device_that_is_lost_later_is_not_found_again_in_a_fresh_child(monkeypatch: pytest.MonkeyPatch) -> None:
    with ChildSession("reference", LIMITS) as session:
        session.call(OpenDevice())
        failing(monkeypatch, fresh_too=False)
        with pytest.raises(ChildError):
            session.call(OpenDevice())
        assert is_forked(session)
    assert keeper.why_not() is None


def test_an_abandoned_child_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with ChildSession("reference", LIMITS) as session:
        session.abandon()
        with pytest.raises(ChildDied):
            session.call(OpenDevice())
    assert keeper.why_not() is None


def test_the_process_id_is_kept_until_its_end_was_seen() -> None:
    with ChildSession("echo", LIMITS) as session:
        process = session._process
        assert isinstance(process, Forked)
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        tree.kill_descendants(process.pid)
        process.send_signal(signal.SIGKILL)
        time.sleep(0.2)
        assert Path(f"/proc/{process.pid}").exists()
        assert process.wait(5.0) in (-signal.SIGKILL, 128 - signal.SIGKILL, 247)
        assert not Path(f"/proc/{process.pid}").exists()
        process.send_signal(signal.SIGKILL)


@pytest.mark.long  # in `make test` tests/gpu_runner/core/test_limits weighs children
def test_a_forked_child_weighs_what_a_fresh_one_does() -> None:
    source = "import torch, torch._dynamo, triton.language\n"
    weights = {}
    for fork in (True, False):
        with ChildSession("echo", LIMITS, files={"thing.py": source}, fork=fork) as session:
            session.call(CallMain("thing"))
            assert session._process is not None
            assert session._watchdog is not None
            weights[fork] = footprint(session._process.pid, session._watchdog._watchers)
    assert weights[True].processes == weights[False].processes
    assert 0.6 < weights[True].memory_bytes / weights[False].memory_bytes < 1.4


def test_a_switch_has_every_child_be_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELSMITH_FORK_CHILDREN", "false")
    with ChildSession("echo", LIMITS) as session:
        assert not is_forked(session)
    assert keeper.why_not() == "it is switched off"


def test_a_child_with_variables_of_its_own_is_fresh() -> None:
    with ChildSession("echo", LIMITS, variables={"TRITON_PRINT_AUTOTUNING": "1"}) as session:
        assert not is_forked(session)


@pytest.mark.parametrize(("interpret", "kind"), [("0", "JITFunction"), ("1", "InterpretedFunction")])
def test_a_child_that_wants_another_triton_is_forked_and_imports_it_anew(interpret: str, kind: str) -> None:
    source = "import triton.language as tl\ndef main(s, t):\n    return {'kind': type(tl.sum).__name__}, []\n"
    variables = {"TRITON_INTERPRET": interpret}
    with ChildSession("echo", LIMITS, variables=variables, files={"thing.py": source}) as session:
        assert is_forked(session)
        assert session.call(CallMain("thing")).message == {"kind": kind}


def test_what_the_server_imports_holds_no_part_of_triton() -> None:
    code = (
        "import sys\nfrom gpu_runner.forkserver.server import PACKAGES, ROLE\nimport importlib\n"
        "for name in (*PACKAGES, ROLE): importlib.import_module(name)\n"
        "print([(name, held) for name, module in sorted(sys.modules.items()) for held, value in vars(module).items()\n"
        "       if name.partition('.')[0] in ('gpu_runner', 'torch') and type(value) is not type(sys)\n"
        "       and str(getattr(value, '__module__', '')).partition('.')[0] == 'triton'])"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_memory_that_is_written_in_common_is_found() -> None:
    common = "7f00-7f10 rw-s 00000000 00:05 7 /dev/nvidiactl"
    apart = "7f10-7f20 rw-p 00000000 00:00 0\n7f20-7f30 r--s 00000000 fe:00 9 /usr/lib/gconv.cache\n7f30-7f40 r-xp 0 fe:00 9 /lib/x"
    assert shared_memory(f"{apart}\n{common}\n") == [common]
    assert shared_memory(apart) == []


def test_what_is_loaded_of_the_runner_is_a_candidates_role_whose_import_changes_and_draws_nothing(
    by_command: None,
) -> None:
    source = """
import os, random, sys, torch, torch._dynamo, triton.language
from triton.runtime import interpreter

def names():
    return sorted(name for name in sys.modules if name.partition(".")[0] == "gpu_runner")

def state():
    modules = {n: m for n, m in sys.modules.items() if n.partition(".")[0] in ("torch", "triton", "numpy", "builtins")}
    held = {(n, key): value for n, module in modules.items() for key, value in vars(module).items()}
    classes = {(*at, key): v for at, c in held.items() if isinstance(c, type) for key, v in vars(c).items()}
    return {at: id(value) for at, value in (held | classes).items()}

def main(s, t):
    there, before, drawn = names(), state(), []
    draw, seeds = os.urandom, (random.getstate(), torch.get_rng_state().tolist())
    os.urandom = random._urandom = lambda count: drawn.append(count) or draw(count)
    import gpu_runner.child.candidate
    after = state()
    changed = [".".join(at) for at, value in before.items() if after.get(at) != value and at[:2] != ("os", "urandom")]
    drawn += [] if seeds == (random.getstate(), torch.get_rng_state().tolist()) else ["a seed"]
    return {"there": there, "then": names(), "changed": changed, "drawn": drawn}, []
"""
    loaded = {}
    for fork in (True, False):
        with ChildSession("echo", LIMITS, files={"thing.py": source}, fork=fork) as session:
            loaded[fork] = session.call(CallMain("thing")).message
    own = {"gpu_runner.forkserver", "gpu_runner.importing"}  # of what the child is forked from
    assert [name for name in loaded[True]["there"] if name not in own] == loaded[False]["then"]
    assert len(loaded[False]["there"]) < len(loaded[False]["then"])
    assert (loaded[False]["changed"], loaded[False]["drawn"]) == ([], [])
