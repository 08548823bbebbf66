"""How Nsight Compute is called, and what its refusals mean. Pure but for the look for the program.

Source: Nsight Compute documentation, command line options; developer.nvidia.com/ERR_NVGPUCTRPERM for the permission.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from gpu_runner.profiler.sheet import MOST_LAUNCHES
from gpu_runner.sandbox.plan import readable_paths

_PLACES = ("usr/local/cuda*/bin/ncu", "opt/nvidia/nsight-compute/*/ncu", "usr/local/cuda*/nsight-compute-*/ncu")
_MOST_CHARS = 300
NOT_FOUND = (
    "Nsight Compute (ncu) was not found on PATH, in /usr/local/cuda*/bin or in /opt/nvidia/nsight-compute, or lies in a folder"
    " that the sandbox does not show (it shows /usr and /opt/nvidia)."
    " Install the package nsight-compute or cuda-nsight-compute on the GPU host."
)
_FIXES = (
    (
        r"ERR_NVGPUCTRPERM|permission to access NVIDIA GPU Performance Counters",
        "The driver restricts performance counters to administrators, and the sandbox is not one. On the GPU host set the module"
        " option NVreg_RestrictProfilingToAdminUsers=0 (options nvidia, in /etc/modprobe.d) and load the driver again"
        " (ERR_NVGPUCTRPERM).",
    ),
    (
        r"ERR_NVCMPT|driver resource was unavailable|ProfilerResource",
        "Another profiler or a monitoring service such as DCGM holds the GPU's counters. Pause it (dcgmi profmon --pause).",
    ),
    (
        r"not supported on this (device|GPU)|(GPU|device) (is )?not supported|No supported GPUs",
        "This version of Nsight Compute does not know the GPU. Install a newer one.",
    ),
    (
        r"OS call failed or operation not supported",
        "The process that Nsight Compute starts may not use CUDA here: the runner is root and has no user namespaces. Allow"
        " those, or run it as another user.",
    ),
)
_NO_KERNELS = "Nsight Compute saw no kernel: the GPU's driver or the profiler's own connection may be out of reach in the sandbox."


def find_profiler(root: Path = Path("/"), readable: Sequence[str] | None = None) -> Path | None:
    """The newest ``ncu``; None where there is none that a child may read and start."""
    on_path = shutil.which("ncu")
    candidates = [Path(on_path)] if on_path else []
    for pattern in _PLACES:
        there = [path for path in root.glob(pattern) if path.is_file()]
        candidates += sorted(there, key=_version, reverse=True)
    open_to_children = readable_paths() if readable is None else readable
    for path in candidates:
        if any(path.resolve().is_relative_to(folder) for folder in open_to_children):
            return path
    return None


def command(profiler: str, log: str, names: Sequence[str], target: Sequence[str]) -> list[str]:
    """The command line that profiles ``target``, which marks what to profile itself, and writes the table to the file ``log``.

    Clocks are left as they are, because they belong to everyone on the host; caches are emptied before each replay.
    """
    options = {
        "--config-file": "off",  # a file in the current folder could otherwise set options
        "--log-file": log,
        "--page": "raw",
        "--print-units": "base",
        "--target-processes": "all",
        "--profile-from-start": "off",
        "--replay-mode": "kernel",
        "--cache-control": "all",
        "--clock-control": "none",
        "--launch-count": str(MOST_LAUNCHES),
        "--metrics": ",".join(names),
    }
    flat = [part for pair in options.items() for part in pair]
    return [profiler, "--csv", *flat, *target]


def unknown_metric(log: str) -> str | None:
    """The counter that this profiler or GPU lacks, where that ended it."""
    match = re.search(r"Failed to find metric\s+(?:regex:)?\^?([A-Za-z0-9_]+)", log)
    return match.group(1) if match else None


def without(names: Sequence[str], unknown: str) -> list[str]:
    return [name for name in names if name.partition(".")[0] != unknown]


def refusal(log: str, output: str, exit_code: int | None, limit_s: float) -> str:
    """Why there are no counters, with the fix; ``exit_code`` None after a timeout."""
    text = f"{log}\n{output}"
    for pattern, fix in _FIXES:
        if re.search(pattern, text, re.IGNORECASE):
            return fix
    if exit_code is None:
        return f"Nsight Compute did not end within {limit_s:.0f} s; give the profile a larger budget."
    if exit_code == 0 and "No kernels were profiled" in text:
        return _NO_KERNELS
    errors = [line for line in text.splitlines() if line.startswith("==ERROR==")][:2]
    last = [line for line in output.splitlines() if line.strip() and not line.startswith("==")][-1:]
    output_lines = " ".join(" ".join([*errors, *last]).split())[:_MOST_CHARS]
    return f"Nsight Compute ended with exit code {exit_code} and no table" + (
        f": {output_lines}" if output_lines else "."
    )


def _version(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(path.parent))]
