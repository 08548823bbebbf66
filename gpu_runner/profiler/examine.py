"""Carries a profile request out: the least time that bytes and operations take for every workload and pass, then counters
where there are some.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from gpu_runner import outline, peaks
from gpu_runner.benchmark.bench import choose_cases
from gpu_runner.benchmark.material import traffic_of, work_of
from gpu_runner.benchmark.rates import measure_rates
from gpu_runner.benchmark.roofline import PassWork, Rates, Traffic, floor
from gpu_runner.context import RunContext
from gpu_runner.contracts.benchmark import BenchmarkRequest, Pass
from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.contracts.problem import Problem, ProblemError, Workload, parse_problem
from gpu_runner.contracts.profiling import Bound, GpuPeaks, ProfileRequest, ProfileResult, Roofline
from gpu_runner.errors import ChildFailed
from gpu_runner.host import facts as host_facts
from gpu_runner.messages import Operations
from gpu_runner.outline import WorkloadOutline, outline_of
from gpu_runner.profiler import rules
from gpu_runner.profiler.counting import CounterRun, ProfiledCounters
from gpu_runner.session import ChildSession, has_gpu
from gpu_runner.verify.cases import Case
from gpu_runner.verify.opening import opened, reference_session
from gpu_runner.verify.truth import BadProblem, Oracle


def roofline(
    workload: Workload, timed_pass: Pass, traffic: Traffic | None, operations: Operations | None, gpu: GpuPeaks
) -> Roofline:
    """The roofline of one pass; what is not known of it stays None.

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
        floor(PassWork(moved_bytes=moved), rates).us,
        floor(PassWork(matrix_flops=work.matrix_flops, vector_flops=work.vector_flops), rates).us,
        least.us,
        Bound.unknown if least.bound is None else Bound(least.bound),
    )


NOT_ASKED = "Counters were not asked for."
NO_GPU = "No GPU is available, and counters need one. The analysis uses bytes and operations."


@dataclass(frozen=True)
class _Analysed:
    workload: Workload
    case: Case
    outline: WorkloadOutline | None
    rooflines: tuple[Roofline, ...]


def profile(request: ProfileRequest, context: RunContext) -> ProfileResult:
    """Profile.

    Raises:
        RunnerError: the problem or the GPU's name cannot be used, or the host is at fault.
    """
    deadline = time.monotonic() + request.budget_s
    try:
        problem = parse_problem(request.problem_source)
    except ProblemError as error:
        raise RunnerError(f"the problem cannot be used: {error.message}") from error
    with ExitStack() as stack:
        gpu = _gpu(request, context)
        session = stack.enter_context(opened(reference_session(outline.ROLE, problem.source, context), context))
        try:
            oracle = Oracle.open(problem, session, secrets.randbits(56))
            analysed = _analyse(request, problem, oracle, gpu, context)
            counted = _count(request, oracle, analysed, context, deadline)
        except BadProblem as bad:
            raise RunnerError(f"the problem cannot be profiled: {bad.message}") from bad
    lines = tuple(line for item in analysed for line in item.rooflines)
    findings, bounds = rules.examine(lines, counted.kernels, gpu)
    return ProfileResult(
        lines,
        gpu,
        counted.kernels,
        findings,
        bounds,
        counted.error,
        host_facts(),
        complete=counted.complete,
        counters_csv=counted.csv,
    )


def _gpu(request: ProfileRequest, context: RunContext) -> GpuPeaks:
    """The GPU's peaks, measured where there is one, else those of the GPU that the request names.

    Raises:
        RunnerError: no GPU of that name is known, or the bandwidth could not be measured.
    """
    if not has_gpu():
        named = peaks.DEFAULT if request.gpu is None else peaks.find(request.gpu)
        if named is None:
            raise RunnerError(f"no GPU {request.gpu!r} is known; name one of: {', '.join(peaks.GPUS)}")
        return peaks.predicted(named, request.dtype)
    with opened(ChildSession("gauge", context.limits, context.require), context) as session:
        gauged = measure_rates(session, request.dtype)
    rates = gauged.rates
    if rates.bandwidth_gbps is None:
        raise RunnerError("; ".join(gauged.notes) or "the bandwidth of the GPU could not be measured")
    return peaks.measured(
        gauged.gpu, request.dtype, rates.bandwidth_gbps, gauged.l2_bytes, rates.matrix_tflops, rates.vector_tflops
    )


def _analyse(
    request: ProfileRequest, problem: Problem, oracle: Oracle, gpu: GpuPeaks, context: RunContext
) -> list[_Analysed]:
    asked = BenchmarkRequest(problem.source, request.candidate, request.dtype, workloads=request.workloads)
    analysed = []
    for workload, case in choose_cases(asked, problem):
        context.progress(f"profile: {workload.label()}")
        drawn = outline_of(oracle, case)
        traffic = traffic_of(oracle, case)
        operations = {} if drawn is None else drawn.operations
        has_backward = traffic.gradients > 0 if traffic else Pass.backward in operations
        passes = [item for item in request.passes if item is Pass.forward or has_backward]
        lines = tuple(roofline(workload, item, traffic, operations.get(item), gpu) for item in passes)
        analysed.append(_Analysed(workload, case, drawn, lines))
    return analysed


def _count(
    request: ProfileRequest, oracle: Oracle, analysed: Sequence[_Analysed], context: RunContext, deadline: float
) -> ProfiledCounters:
    if not request.counters:
        return ProfiledCounters(error=NOT_ASKED)
    if not has_gpu():
        return ProfiledCounters(error=NO_GPU)
    counting = CounterRun(request.candidate, context, deadline)
    for place, item in enumerate(analysed):
        if counting.refused or time.monotonic() >= deadline:
            break
        try:
            proof = outline.unproved(oracle, _seeded(item.case), item.outline)
        except ChildFailed as failure:
            return counting.ended(f"the inputs of {item.workload.label()} could not be made: {failure}")
        share_s = (deadline - time.monotonic()) / (len(analysed) - place)
        counting.add(proof, item.workload, share_s)
    return counting.counted(len(analysed))


def _seeded(case: Case) -> Case:
    return replace(case, seed=secrets.randbits(56))
