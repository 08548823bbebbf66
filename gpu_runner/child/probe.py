"""The role that tries to get out, and looks at the GPU: what `doctor` proves a host's isolation with."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_runner.child.handlers import Answer, ChildState, Handler
from gpu_runner.messages import GpuFacts, LookAtGpu, Request, TryWaysOut, WayTried

if TYPE_CHECKING:
    import torch

_PTRACE_SEIZE = 0x4206
_COPY_BYTES = 2**31
_COPIES = 20


def attempt(state: ChildState, goal: TryWaysOut, tensors: list[torch.Tensor]) -> Answer[dict[str, WayTried]]:
    """Try every way out of the table."""
    return {name: _tried(way, goal) for name, way in WAYS.items()}, []


def _tried(way: Callable[[TryWaysOut], str], goal: TryWaysOut) -> WayTried:
    try:
        return WayTried(True, way(goal))
    except (OSError, LookupError) as error:
        return WayTried(False, f"{type(error).__name__}: {error}")


def _connect(goal: TryWaysOut) -> str:
    with socket.create_connection(("127.0.0.1", goal.port), timeout=2):
        return "connected"


def _connect_abstract(goal: TryWaysOut) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect("\0" + goal.socket)
        return "connected"


def _own_environment(goal: TryWaysOut) -> str:
    if goal.marker not in "".join(os.environ.values()):
        raise LookupError("the parent's variable is not there")
    return "the parent's variable is there"


def _other_environments(goal: TryWaysOut) -> str:
    read = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            content = (entry / "environ").read_bytes()
        except OSError:
            continue
        read += 1
        if goal.marker.encode() in content:
            return f"found in /proc/{entry.name}/environ"
    raise LookupError(f"not in the {read} environments that can be read")


def _read_secret(goal: TryWaysOut) -> str:
    return f"{len(Path(goal.secret).read_bytes())} bytes read"


def _write_outside(goal: TryWaysOut) -> str:
    Path(goal.outside).write_text("written")
    # A file system of the child's own may take the file; then the parent does not see it, and looks.
    return "written"


def _change_setting(goal: TryWaysOut) -> str:
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
    return "could be written"


def _signal(goal: TryWaysOut) -> str:
    os.kill(goal.pid, 0)
    if not Path(f"/proc/{goal.pid}").exists():
        raise LookupError("another process")
    return "delivered"


def _trace(goal: TryWaysOut) -> str:
    library = ctypes.CDLL(None, use_errno=True)
    if library.ptrace(_PTRACE_SEIZE, goal.pid, None, None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return "attached"


WAYS: dict[str, Callable[[TryWaysOut], str]] = {
    "connect to 127.0.0.1": _connect,
    "connect to an abstract socket": _connect_abstract,
    "read the parent's variables in its own environment": _own_environment,
    "read the parent's environment": _other_environments,
    "read a file in the parent's temporary folder": _read_secret,
    "write outside the scratch folder": _write_outside,
    "change a setting of the kernel": _change_setting,
    "signal the parent": _signal,
    "trace the parent": _trace,
}


def gpu(state: ChildState, request: LookAtGpu, tensors: list[torch.Tensor]) -> Answer[GpuFacts | None]:
    """Look at the GPU; the bandwidth is that of a copy of 2 GiB on the device, read and written."""
    import torch

    if not state.gpu or not torch.cuda.is_available():
        return None, []
    properties = torch.cuda.get_device_properties(0)
    architecture = f"sm_{properties.major}{properties.minor}"
    bandwidth_gbps = None if request.quick else _bandwidth_gbps()
    return GpuFacts(properties.name, properties.total_memory, architecture, bandwidth_gbps), []


def _bandwidth_gbps() -> float:
    import torch

    free_bytes = torch.cuda.mem_get_info()[0]
    source = torch.empty(min(_COPY_BYTES, free_bytes // 4), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    times_ms = []
    for _ in range(_COPIES):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        target.copy_(source)
        end.record()
        end.synchronize()
        times_ms.append(start.elapsed_time(end))
    return float(2 * source.numel() / sorted(times_ms)[_COPIES // 2] / 1e6)


HANDLERS: dict[type[Request[Any]], Handler] = {TryWaysOut: attempt, LookAtGpu: gpu}
