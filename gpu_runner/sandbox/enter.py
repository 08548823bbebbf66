"""The child's side of the sandbox: two small trusted processes around the one in which untrusted code will run.

The launcher leaves the parent's namespaces and watches that the parent lives; the first process of the new namespaces
(where there are some) reaps; the worker lays limits and Landlock on itself and returns from ``enter``.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
from collections.abc import Callable
from typing import NoReturn

from gpu_runner.contracts.envelope import Isolation
from gpu_runner.sandbox import kernel, landlock, namespaces, tree
from gpu_runner.sandbox.plan import SandboxPlan

SETUP_FAILED = 97  # exit code of a child that could not lock itself in


def enter(plan: SandboxPlan, status_handle: int) -> tuple[Isolation, ...]:
    """Lock this process in; returns in the worker alone, with the levels in force.

    The worker's end is written to ``status_handle`` as ``e CODE`` or ``s SIGNAL``, a failure to lock in as ``f LEVEL TEXT``,
    and a GPU that cannot be used at a level as ``g LEVEL TEXT``.
    """
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    apart = Isolation.namespaces in plan.levels
    if apart:
        _attempt(Isolation.namespaces, status_handle, namespaces.leave)
        namespaces.raise_loopback()
    _fork_or_watch(status_handle, watch_parent=True)
    if apart:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        _attempt(Isolation.namespaces, status_handle, lambda: namespaces.build_root(plan))
        _fork_or_watch(status_handle, watch_parent=False)
    os.setsid()
    _limit(plan)
    os.chdir(os.path.join(plan.scratch, "work"))  # noqa: PTH118 - no pathlib object is needed here
    if Isolation.landlock in plan.levels:
        _attempt(Isolation.landlock, status_handle, lambda: _restrict(plan, apart))
    kernel.forswear_privileges()
    if plan.prove_gpu:
        _prove_gpu(plan, status_handle)
    os.close(status_handle)
    return tuple(Isolation(level) for level in plan.levels)


def _attempt(level: Isolation, status_handle: int, step: Callable[[], None]) -> None:
    try:
        step()
    except OSError as error:  # that of copying files, shutil.Error, is one as well
        os.write(status_handle, f"f {level} {str(error)[:300]}\n".encode())
        os._exit(SETUP_FAILED)


def _restrict(plan: SandboxPlan, apart: bool) -> None:
    readable = [p for p in plan.readable if os.path.exists(p)]  # noqa: PTH110 - links that lead nowhere now
    writable = [plan.scratch, *(["/dev/shm"] if apart else [])]  # noqa: S108 - the child's own mount
    landlock.restrict(readable, writable, plan.devices, _thread_names(plan, apart), network=apart)


def _thread_names(plan: SandboxPlan, apart: bool) -> tuple[str, ...]:
    """The files that CUDA writes thread names to: ``cuInit`` fails with error 304 where it cannot write ``/proc/self/task/*/comm``.

    As root and without a /proc of its own a child could change the kernel's settings there; then only its own entry is opened.
    Processes that it starts have another, and cannot use CUDA.
    """
    if not plan.gpu:
        return ()
    return ("/proc",) if apart or os.getuid() != 0 else ("/proc/self",)


def _prove_gpu(plan: SandboxPlan, status_handle: int) -> None:
    """Start the driver in a process of its own; where that fails, the strictest level that could be why is given up."""
    child = os.fork()
    if child == 0:
        os._exit(0 if _driver_starts() else 1)
    failed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    suspects = [level for level in (Isolation.landlock, Isolation.namespaces) if level in plan.levels]
    if failed and suspects:
        os.write(status_handle, f"g {suspects[0]} the driver of the GPU does not start at this level\n".encode())
        os._exit(SETUP_FAILED)


def _driver_starts() -> bool:
    try:
        return bool(ctypes.CDLL("libcuda.so.1").cuInit(0) == 0)
    except OSError:
        return True  # another maker's driver, or none: then this level is not what keeps from it


def _limit(plan: SandboxPlan) -> None:
    limits = plan.limits
    cores = os.cpu_count() or 1
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NPROC: plan.processes,
        resource.RLIMIT_CPU: int(limits.time_s * cores) + 1,
        resource.RLIMIT_NOFILE: 4096,
    }
    if not plan.gpu:
        # CUDA reserves address space far beyond what it uses, so only a host process can be bounded in this way.
        wanted[resource.RLIMIT_AS] = limits.memory_bytes
    for kind, value in wanted.items():
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _fork_or_watch(status_handle: int, watch_parent: bool) -> None:
    """Fork; the child returns, this process waits for it, reports how it ended, and never returns."""
    child = os.fork()
    if child:
        _watch(child, status_handle, watch_parent)


def _watch(child: int, status_handle: int, watch_parent: bool) -> NoReturn:
    os.closerange(0, status_handle)
    os.closerange(status_handle + 1, 4096)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    poller = select.poll()
    poller.register(woken, select.POLLIN)
    if watch_parent:
        poller.register(status_handle, select.POLLERR)  # the parent had the other end, and is gone
    while (status := _ended(child)) is None:
        events = poller.poll()
        if any(ready == status_handle for ready, _ in events):
            os.kill(child, signal.SIGKILL)
            poller.unregister(status_handle)
        if any(ready == woken for ready, _ in events):
            os.read(woken, 4096)
    if watch_parent:
        tree.kill_descendants(os.getpid())
    _tell(status_handle, status)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _ended(child: int) -> int | None:
    """Reap whatever ended; gives the child's status once it is among them."""
    exit_status: int | None = None
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return exit_status
            exit_status = status if pid == child else exit_status
    except ChildProcessError:
        return exit_status


def _tell(status_handle: int, status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    try:
        os.write(status_handle, (f"s {-code}" if code < 0 else f"e {code}").encode() + b"\n")
    except OSError:
        return  # no one is left to report to
