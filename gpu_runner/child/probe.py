"""The role that tries to get out, and looks at the GPU: what `doctor` proves a host's isolation with."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_runner.child.handlers import ChildState, Handler

if TYPE_CHECKING:
    import torch

_PTRACE_SEIZE = 0x4206
_COPY_BYTES = 2**31
_COPIES = 20


def attempt(
    state: ChildState, meta: dict[str, Any], tensors: list[torch.Tensor]
) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """Try every way out of the table; gives for each whether it was open, and what the system said."""
    return {name: _tried(way, meta) for name, way in WAYS.items()}, []


def _tried(way: Callable[[dict[str, Any]], str], meta: dict[str, Any]) -> list[Any]:
    try:
        return [True, way(meta)]
    except (OSError, LookupError) as error:
        return [False, f"{type(error).__name__}: {error}"[:300]]


def _connect(meta: dict[str, Any]) -> str:
    with socket.create_connection(("127.0.0.1", meta["port"]), timeout=2):
        return "connected"


def _connect_abstract(meta: dict[str, Any]) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect("\0" + meta["socket"])
        return "connected"


def _own_environment(meta: dict[str, Any]) -> str:
    if meta["marker"] not in "".join(os.environ.values()):
        raise LookupError("the parent's variable is not there")
    return "the parent's variable is there"


def _other_environments(meta: dict[str, Any]) -> str:
    read = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            content = (entry / "environ").read_bytes()
        except OSError:
            continue
        read += 1
        if meta["marker"].encode() in content:
            return f"found in /proc/{entry.name}/environ"
    raise LookupError(f"not in the {read} environments that can be read")


def _read_secret(meta: dict[str, Any]) -> str:
    return f"{len(Path(meta['secret']).read_bytes())} bytes read"


def _write_outside(meta: dict[str, Any]) -> str:
    Path(meta["outside"]).write_text("written")
    # A file system of the child's own may take the file; then the parent does not see it, and looks.
    return "written"


def _change_setting(meta: dict[str, Any]) -> str:
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
    return "could be written"


def _signal(meta: dict[str, Any]) -> str:
    os.kill(meta["pid"], 0)
    if not Path(f"/proc/{meta['pid']}").exists():
        raise LookupError("another process")
    return "delivered"


def _trace(meta: dict[str, Any]) -> str:
    library = ctypes.CDLL(None, use_errno=True)
    if library.ptrace(_PTRACE_SEIZE, meta["pid"], None, None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return "attached"


WAYS: dict[str, Callable[[dict[str, Any]], str]] = {
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


def gpu(
    state: ChildState, meta: dict[str, Any], tensors: list[torch.Tensor]
) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """Look at the GPU; the bandwidth is that of a copy of 2 GiB on the device, read and written."""
    import torch

    if not state.gpu or not torch.cuda.is_available():
        return {}, []
    properties = torch.cuda.get_device_properties(0)
    facts = {
        "name": properties.name,
        "memory_bytes": properties.total_memory,
        "architecture": f"sm_{properties.major}{properties.minor}",
    }
    return facts if meta["quick"] else facts | {"bandwidth_gbps": _bandwidth_gbps()}, []


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


HANDLERS: dict[str, Handler] = {"attempt": attempt, "gpu": gpu}
