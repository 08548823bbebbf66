"""Carries a benchmark request out: measures where there is a GPU, predicts the floor where there is none. Thin."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_runner.benchmark import gpus
from gpu_runner.benchmark.measure import Bench
from gpu_runner.benchmark.roofline import Traffic, floor_us, moved_bytes
from gpu_runner.benchmark.traffic import traffic_of
from gpu_runner.context import RunContext
from gpu_runner.contracts.benchmark import BenchmarkRequest, BenchmarkResult, Pass, Timing, WorkloadTiming
from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.contracts.problem import Problem, ProblemError, Workload, parse_problem
from gpu_runner.host import facts
from gpu_runner.session import has_gpu
from gpu_runner.verify.opening import opened, reference_session
from gpu_runner.verify.sizes import Case
from gpu_runner.verify.truth import BadProblem, Oracle

CONTENDERS = ("candidate", "eager", "torch_compile")
PREDICTED_NOTE = "No GPU is here: the values are proved in Triton's interpreter, and no time was taken."


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
            return Bench(request, problem, context).run(cases)
        return _predict(request, problem, cases, context)
    except BadProblem as bad:
        raise RunnerError(f"the problem cannot be measured: {bad.message}") from bad


def choose_cases(request: BenchmarkRequest, problem: Problem) -> list[tuple[Workload, Case]]:
    """Give each workload with its case; a workload's own dtype goes before the request's."""
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
    with opened(reference_session("reference", problem.source, context), context) as session:
        oracle = Oracle.open(problem, session, 0)
        rows = [
            row
            for workload, case in cases
            for row in _predicted_rows(workload, traffic_of(oracle, case), request.passes)
        ]
    gpu = gpus.DEFAULT
    notes = (PREDICTED_NOTE, f"The bandwidth of the {gpu.name} is from: {gpu.source}.")
    return BenchmarkResult(tuple(rows), True, gpu.name, gpu.copy_gbps, host=facts(), notes=notes)


def _predicted_rows(workload: Workload, traffic: Traffic | None, passes: Sequence[Pass]) -> list[WorkloadTiming]:
    gpu = gpus.DEFAULT
    rows = []
    for timed_pass in passes:
        if traffic is not None and traffic.gradients == 0 and timed_pass is not Pass.forward:
            continue
        moved = None if traffic is None else moved_bytes(traffic, timed_pass, gpu.l2_bytes)
        timings = tuple(Timing(contender, None) for contender in CONTENDERS)
        floor = floor_us(moved, gpu.copy_gbps)
        rows.append(WorkloadTiming(workload, timed_pass, timings, moved, None, floor))
    return rows
