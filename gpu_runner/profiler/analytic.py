"""The analytic part: the least time that bytes and operations take on a GPU, and which of the two it is. Pure."""

from __future__ import annotations

from gpu_runner.benchmark.material import work_of
from gpu_runner.benchmark.roofline import Rates, Traffic, Work, floor
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
    work = work_of(traffic, operations, timed_pass, gpu.l2_bytes)
    rates = Rates(gpu.bandwidth_gbps, gpu.matrix_tflops, gpu.vector_tflops)
    least = floor(work, rates)
    moved, flops = work.moved_bytes, work.flops
    return Roofline(
        workload,
        timed_pass,
        moved,
        flops,
        work.matrix_flops,
        flops / moved if flops is not None and moved else None,
        floor(Work(moved_bytes=moved), rates).us,
        floor(Work(matrix_flops=work.matrix_flops, vector_flops=work.vector_flops), rates).us,
        least.us,
        Bound.unknown if least.bound is None else Bound(least.bound),
    )
