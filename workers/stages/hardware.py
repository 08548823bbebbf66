"""What a kernel is written for, as lines for a model: the GPU with its limits, and the versions of Triton and torch. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_runner.peaks import DEFAULT, Gpu, find

REGISTERS = 65_536  # of 32 bits, of a multiprocessor; 255 for a thread at most
# Shared memory of a block in KiB, and threads of a multiprocessor.
# Source: NVIDIA, CUDA C++ Programming Guide, Compute Capabilities, "Technical Specifications per Compute Capability".
LIMITS = {
    "sm_80": (163, 2048),
    "sm_86": (99, 1536),
    "sm_89": (99, 1536),
    "sm_90": (227, 2048),
    "sm_100": (227, 2048),
    "sm_120": (99, 1536),
}


def hardware(host: Iterable[tuple[str, str]], wanted: str | None = None) -> str:
    """Give the lines for the facts of a GPU host; where it has no GPU, for the architecture that is ``wanted``, or a usual GPU."""
    facts = dict(host)
    name = facts.get("gpu")
    gpu = find(name) if name else find(wanted or "") or DEFAULT
    lines = [
        f"GPU: {name or f'none on this host; candidates run in the interpreter. Write for {gpu.name if gpu else wanted}'}"
    ]
    lines += _limits(gpu) if gpu else []
    versions = [f"{package} {facts[package].partition('+')[0]}" for package in ("triton", "torch") if package in facts]
    return "\n".join([*lines, f"versions: {', '.join(versions)}"] if versions else lines)


def _limits(gpu: Gpu) -> list[str]:
    shared_kib, threads = LIMITS[gpu.architecture]
    return [
        f"{gpu.architecture}, {gpu.multiprocessors} multiprocessors; each has {REGISTERS} 32-bit registers (at "
        f"most 255 for a thread) "
        f"and {threads} threads; a block has at most {shared_kib} KiB of shared memory",
        f"memory {gpu.bandwidth_gbps:.0f} GB/s, L2 cache {gpu.l2_bytes >> 20} MiB",
        f"{gpu.bf16_tflops:.0f} TFLOP/s in tl.dot of bfloat16 or float16, {gpu.fp32_tflops:.0f} TFLOP/s in "
        f"float32 elsewhere: memory "
        f"bounds whatever computes less than {gpu.fp32_tflops * 1e3 / gpu.bandwidth_gbps:.0f} float32 operations, or "
        f"{gpu.bf16_tflops * 1e3 / gpu.bandwidth_gbps:.0f} in tl.dot, for each byte",
    ]
