"""The analytic part: the least time that bytes and operations take on a GPU, and which of the two it is. Pure."""

from __future__ import annotations

from gpu_runner.benchmark.roofline import Traffic, moved_bytes
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.contracts.problem import Workload
from gpu_runner.contracts.profiling import Bound, GpuPeaks, Roofline
from gpu_runner.outline import Operations


def roofline(
    workload: Workload, timed_pass: Pass, traffic: Traffic | None, operations: Operations | None, gpu: GpuPeaks
) -> Roofline:
    """Give the roofline of one pass; what is not known of it stays None.

    Source: Williams, Waterman and Patterson, Roofline: an insightful visual performance model (2009).
    """
    moved = None if traffic is None else moved_bytes(traffic, timed_pass, gpu.l2_bytes)
    memory_us = None if moved is None else moved / gpu.bandwidth_gbps / 1e3
    compute_us = None if operations is None else _compute_us(operations, gpu)
    known = [time for time in (memory_us, compute_us) if time is not None]
    return Roofline(
        workload,
        timed_pass,
        moved,
        None if operations is None else operations.total,
        None if operations is None else operations.matrix,
        operations.total / moved if operations is not None and moved else None,
        memory_us,
        compute_us,
        max(known, default=None),
        _bound(memory_us, compute_us),
    )


def _compute_us(operations: Operations, gpu: GpuPeaks) -> float | None:
    """Give the time of the slower of the two kinds of units: they work side by side."""
    kinds = ((operations.matrix, gpu.matrix_tflops), (operations.vector, gpu.vector_tflops))
    if any(count and not rate for count, rate in kinds):
        return None
    return max(count / rate / 1e6 if rate else 0.0 for count, rate in kinds)


def _bound(memory_us: float | None, compute_us: float | None) -> Bound:
    if memory_us is None or compute_us is None:
        return Bound.unknown
    return Bound.memory if memory_us >= compute_us else Bound.compute
