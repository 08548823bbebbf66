"""The process that children are forked from: imports what they need, then forks one for each message of the parent.

    python -P -s -m gpu_runner.forkserver.server FD [FOLDER]

``FD`` is a socket of whole messages. The parent sends ``{"do": "fork", ...}`` with three descriptors or ``{"do": "reap", ...}``,
and each is answered. ``FOLDER`` is where bytecode of the packages is kept that have none beside them. One thread, no device, no
operator of torch, and nothing that is not named here.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import runpy
import select
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_runner.importing import uncollected

# Names of packages that every child trusts. None is ever taken from a request: what a repository's files import must not decide
# what the child that computes the truth has loaded.
# Nearly every library loads torch's compiler, and torch loads it by itself at the first checkpoint and at the first of its
# decompositions: 1.1 s of CPU time in each child (2026-11-25, torch 2.13).
PACKAGES = ("torch", "torch._dynamo", "triton", "triton.language", "numpy")
# triton's launcher imports it in C++ as it is called first: 35 ms of CPU time in each child (2026-11-28, triton 3.7).
LAUNCHED = "triton.experimental.gluon"
# It imports nearly all that the other roles do. None of its modules changes torch or triton, or draws anything, as it is imported.
ROLE = "gpu_runner.child.candidate"
# What triton reads as it is imported. A child that has it otherwise imports triton anew, of which nothing that the server
# imports holds a part: 0.1 s of CPU time in place of 2.0 s for a fresh interpreter (2026-11-29, torch 2.13, triton 3.7).
OF_TRITON = "TRITON_INTERPRET"
_COMPILED = "triton._C"  # reads nothing at import
MOST_BYTES = 1 << 17  # of one message
_CONSTANT_SEED = 67280421310721  # with which some versions of torch begin (c10::default_rng_seed_val); others draw one
_NVML = "libnvidia-ml.so.1"
_MOST_NVML_USERS = 1000


@dataclass(frozen=True)
class Birth:
    """What a child starts with: its environment, its current folder, and the numbers of its descriptors."""

    environment: dict[str, str]
    folder: str
    channel: int
    status: int
    output: int


def main(arguments: list[str]) -> None:
    """Serve until the parent closes its end; returns in a child alone, when its role is done."""
    control = socket.socket(fileno=int(arguments[0]))
    if arguments[1:]:
        sys.pycache_prefix, sys.dont_write_bytecode = arguments[1], False
    _send(control, _prepared(control))
    birth = _serve(control)
    _become(birth)


def _prepared(control: socket.socket) -> dict[str, Any]:
    """Import the packages; gives the answer to the parent, who waits for it before the first request."""
    seconds: dict[str, float] = {}
    for name in PACKAGES:
        if _is_closed(control):
            os._exit(0)
        begin = time.monotonic()
        if importlib.util.find_spec(name.partition(".")[0]) is None:
            continue
        try:
            with uncollected():
                importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - whatever a package raises, children are started without this server
            return {"refused": f"{name}: {type(error).__name__}: {error}"[:500]}
        seconds[name] = round(time.monotonic() - begin, 3)
    if "triton" in sys.modules:
        with contextlib.suppress(ModuleNotFoundError), uncollected():  # a release may have it elsewhere
            importlib.import_module(LAUNCHED)
    sys.pycache_prefix, sys.dont_write_bytecode = None, True  # for children, who could not read it
    if "torch" in sys.modules:
        _import_role()
    _close_nvml()
    shared = shared_memory(Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace"))
    if shared:
        return {"refused": f"children would share memory: {shared[0][:200]}"}
    gc.collect()
    gc.freeze()  # so that a child's collector leaves these objects, and the pages they are on, as they are
    return {"seconds": seconds}


def _import_role() -> None:
    """Import the role of most children, by real paths: a child can read them, and the server's own folder is removed.

    Measured: 2026-11-28, on a CPU, a child imports 95 modules in 0.11 s of CPU time otherwise, and compiles them first in 0.35 s
    where there is no bytecode of them.
    """
    for module in [module for name, module in sys.modules.items() if name.partition(".")[0] == "gpu_runner"]:
        if hasattr(module, "__path__"):
            module.__path__[:] = map(os.path.realpath, module.__path__)
    importlib.import_module(ROLE)


def shared_memory(maps: str) -> list[str]:
    """Lines of ``/proc/PID/maps`` with memory that forks would write to together."""
    lines = [line for line in maps.splitlines() if len(line.split()) > 1]
    return [line for line in lines if "w" in line.split()[1] and line.split()[1].endswith("s")]


def _close_nvml() -> None:
    """Have NVML close the device files that it opened when a package asked whether there is a GPU, so that no child gets them.

    Whoever asks again opens it again: its users are counted.
    """
    if "libnvidia-ml" not in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace"):
        return
    with contextlib.suppress(OSError, AttributeError):
        shutdown = ctypes.CDLL(_NVML).nvmlShutdown
        for _ in range(_MOST_NVML_USERS):
            if shutdown() != 0:
                return


def _is_closed(control: socket.socket) -> bool:
    poller = select.poll()
    poller.register(control, 0)  # a hang-up is reported unasked
    return bool(poller.poll(0))


def _serve(control: socket.socket) -> Birth:
    """Answer the parent; returns in a child alone, without the socket."""
    while True:
        message, handles, _, _ = socket.recv_fds(control, MOST_BYTES, 3)
        if not message:
            os._exit(0)
        order = json.loads(message)
        if order["do"] == "reap":
            # Not before the parent says so: until then nobody else can get this process id.
            _, status = os.waitpid(order["pid"], 0)
            _send(control, {"code": os.waitstatus_to_exitcode(status)})
            continue
        try:
            pid = os.fork()
        except OSError as error:
            _send(control, {"refused": str(error)})
        else:
            if pid == 0:
                control.detach()
                return Birth(order["environment"], order["folder"], *handles)
            _introduce(control, pid)
        for handle in handles:
            os.close(handle)


def _introduce(control: socket.socket, pid: int) -> None:
    handle = os.pidfd_open(pid)
    try:
        _send(control, {"pid": pid}, handle)
    finally:
        os.close(handle)


def _send(control: socket.socket, answer: dict[str, Any], *handles: int) -> None:
    try:
        socket.send_fds(control, [json.dumps(answer).encode()], handles)
    except OSError:
        os._exit(0)  # the parent is gone


def _become(birth: Birth) -> None:
    """Go on as ``python -P -s -m gpu_runner.child`` would that was started with this birth."""
    os.setsid()
    for stream in (1, 2):
        os.dup2(birth.output, stream)
    _close_all_but({0, 1, 2, birth.channel, birth.status})
    _forget(birth)
    if os.environ.get(OF_TRITON) != birth.environment.get(OF_TRITON):
        _forget_triton()
    os.environ.clear()
    os.environ.update(birth.environment)
    os.chdir(birth.folder)
    _draw_anew()
    sys.argv[1:] = [str(birth.channel), str(birth.status)]
    runpy.run_module("gpu_runner.child", run_name="__main__", alter_sys=True)


def _close_all_but(kept: set[int]) -> None:
    for handle in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - numbers, not paths
        if handle not in kept:
            with contextlib.suppress(OSError):  # the one of the listing itself is closed by now
                os.close(handle)


def _forget(birth: Birth) -> None:
    """Forget what the server had of its own: its folder, and where temporary files go."""
    ours, theirs = (_libraries(environment) for environment in (dict(os.environ), birth.environment))
    sys.path[:] = theirs + [path for path in sys.path if path not in ours]
    for path in ours:
        sys.path_importer_cache.pop(path, None)
    sys.modules.pop("__mp_main__", None)  # the server, as multiprocessing knows it
    importlib.invalidate_caches()
    if "tempfile" in sys.modules:
        sys.modules["tempfile"].tempdir = None  # type: ignore[attr-defined]


def _forget_triton() -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] == "triton" and not name.startswith(_COMPILED):
            del sys.modules[name]


def _libraries(environment: dict[str, str]) -> list[str]:
    return [path for path in environment.get("PYTHONPATH", "").split(":") if path]


def _draw_anew() -> None:
    """Draw what a fresh process draws at import, so that no two children have it in common."""
    if "random" in sys.modules:
        sys.modules["random"].seed()
    if "torch" in sys.modules:
        generator = sys.modules["torch"].default_generator
        if generator.initial_seed() != _CONSTANT_SEED:
            generator.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    if "multiprocessing.process" in sys.modules:
        sys.modules["multiprocessing.process"].current_process().authkey = os.urandom(32)


if __name__ == "__main__":
    main(sys.argv[1:])
