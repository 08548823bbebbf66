"""Facts of this host, reported with every result. Never fails: what is missing is left out."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import subprocess

from gpu_runner.settings import passed_variables, visible


def facts() -> tuple[tuple[str, str], ...]:
    """Versions of Python, torch, triton and cuTile, and the GPU with its driver, without loading any of them."""
    versions = [("python", platform.python_version()), ("machine", platform.machine())]
    for package in ("torch", "triton", "cuda-tile", "nvidia-cutlass-dsl"):
        try:
            versions.append((package, importlib.metadata.version(package)))
        except importlib.metadata.PackageNotFoundError:
            continue
    gpu = query_gpu("name", "driver_version", "uuid")
    if gpu:
        versions += [("gpu", gpu[0]), ("driver", gpu[1]), ("gpu_uuid", gpu[2])]
    return tuple(versions)


def query_gpu(*fields: str) -> list[str] | None:
    """Ask ``nvidia-smi`` for fields of the GPU that CUDA takes first; None where there is none."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    chosen = f"--id={visible(passed_variables().get('CUDA_VISIBLE_DEVICES'))}"
    command = [tool, chosen, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.strip().splitlines()
    values = [part.strip() for part in lines[0].split(",")] if lines else []
    return values if len(values) == len(fields) else None
