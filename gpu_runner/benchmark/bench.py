"""Carries a benchmark request out: measures where there is a GPU, predicts the floor where there is none. Thin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_runner import outline, peaks
from gpu_runner.benchmark.material import traffic_of, work_of
from gpu_runner.benchmark.measure import measure
from gpu_runner.benchmark.race import CONTROL, entries
from gpu_runner.benchmark.roofline import Rates, Traffic, floor
from gpu_runner.context import RunContext
from gpu_runner.contracts.benchmark import BenchmarkRequest, BenchmarkResult, Pass, Timing, WorkloadTiming
from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.contracts.problem import Problem, ProblemError, Workload, parse_problem
from gpu_runner.contracts.profiling import GpuPeaks
from gpu_runner.host import facts
from gpu_runner.messages import Operations
from gpu_runner.session import has_gpu
from gpu_runner.verify.cases import Case
from gpu_runner.verify.opening import opened, reference_session
from gpu_runner.verify.truth import BadProblem, Oracle

PREDICTED_NOTE = "No GPU is available: nothing was timed or run."


def benchmark(request: BenchmarkRequest, context: RunContext) -> BenchmarkResult:
    """Measure, or without a GPU predict the floor.

    Raises:
        RunnerError: the problem cannot be used, or the host is at fault.
    """
    try:
        problem = parse_problem(request.problem_source)
    except ProblemError as error:
        raise RunnerError(f"the problem cannot be used: {error.message}") from error
    cases = choose_cases(request, problem)
    try:
        if has_gpu():
            return measure(request, problem, cases, context)
        return _predict(request, problem, cases, context)
    except BadProblem as bad:
        raise RunnerError(f"the problem cannot be measured: {bad.message}") from bad


def choose_cases(request: BenchmarkRequest, problem: Problem) -> list[tuple[Workload, Case]]:
    """Each workload with its case; a workload's own dtype takes precedence over the request's."""
    if problem.form == "kernelbench":
        return [(Workload((), request.dtype), Case("workload", (), request.dtype, 0, measured=True))]
    workloads = request.workloads or problem.workloads
    return [
        (
            workload,
            Case("workload", workload.sizes, workload.dtype or request.dtype, 0, workload.scalars, measured=True),
        )
        for workload in workloads
    ]


def _predict(
    request: BenchmarkRequest, problem: Problem, cases: Sequence[tuple[Workload, Case]], context: RunContext
) -> BenchmarkResult:
    gpu = peaks.predicted(peaks.DEFAULT, request.dtype)
    names = tuple(entry.name for entry in entries(request) if entry.name != CONTROL)
    rows: list[WorkloadTiming] = []
    with opened(reference_session(outline.ROLE, problem.source, context), context) as session:
        oracle = Oracle.open(problem, session, 0)
        for workload, case in cases:
            traffic, outlined = traffic_of(oracle, case), outline.outline_of(oracle, case)
            operations = {} if outlined is None else outlined.operations
            rows += _predicted_rows(workload, names, request.passes, traffic, operations, gpu)
    notes = (PREDICTED_NOTE, f"Peak rates of the {gpu.name}: {gpu.source}.")
    return BenchmarkResult(
        tuple(rows),
        True,
        gpu.name,
        gpu.bandwidth_gbps,
        host=facts(),
        notes=notes,
        matrix_tflops=gpu.matrix_tflops,
        vector_tflops=gpu.vector_tflops,
    )


def _predicted_rows(
    workload: Workload,
    names: Sequence[str],
    passes: Sequence[Pass],
    traffic: Traffic | None,
    operations: Mapping[Pass, Operations],
    gpu: GpuPeaks,
) -> list[WorkloadTiming]:
    rates = Rates(gpu.bandwidth_gbps, gpu.matrix_tflops, gpu.vector_tflops)
    rows = []
    for timed_pass in passes:
        if traffic is not None and traffic.gradients == 0 and timed_pass is not Pass.forward:
            continue
        work = work_of(traffic, operations.get(timed_pass), timed_pass, gpu.l2_bytes)
        least = floor(work, rates)
        timings = tuple(Timing(name, None) for name in names)
        rows.append(
            WorkloadTiming(workload, timed_pass, timings, work.moved_bytes, work.flops, least.us, bound=least.bound)
        )
    return rows
