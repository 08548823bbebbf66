"""Makes ready for tuning: starts every child at once, gauges the GPU, and says what each workload is tuned on."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from gpu_runner import outline
from gpu_runner.benchmark.bench import choose_cases
from gpu_runner.benchmark.material import work_of
from gpu_runner.benchmark.rates import Gauged, measure_rates
from gpu_runner.benchmark.roofline import Rates, floor
from gpu_runner.benchmark.starting import GAUGE, REFERENCE, Opening, roomy, start_all
from gpu_runner.benchmark.traffic import traffic_of
from gpu_runner.context import RunContext
from gpu_runner.contracts.benchmark import BenchmarkRequest
from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.contracts.problem import Problem, ProblemError, Workload, parse_problem
from gpu_runner.contracts.tuning import TuneRequest, TuneResult
from gpu_runner.errors import ChildFailed, ProtocolError
from gpu_runner.scratch import ScratchError
from gpu_runner.seeded import seeded
from gpu_runner.session import Session, has_gpu
from gpu_runner.tuning.bench import Bench
from gpu_runner.tuning.plan import PASSES, Job
from gpu_runner.tuning.tuner import Tuner
from gpu_runner.verify.cases import Case
from gpu_runner.verify.opening import candidate_session, reference_session
from gpu_runner.verify.truth import BadProblem, Oracle

CANDIDATE = "candidate"
CHILDREN = 3  # at once
NO_GPU = "No GPU is here: settings are found by measuring alone, so none were tried and the candidate's own rule holds."


def tune(request: TuneRequest, context: RunContext) -> TuneResult:
    """Tune; without a GPU nothing is tried.

    Raises:
        RunnerError: the problem or the candidate cannot be used, or the host is at fault.
    """
    if not has_gpu():
        return TuneResult((), None, notes=(NO_GPU,))
    return tuned(request, context)


def tuned(request: TuneRequest, context: RunContext) -> TuneResult:
    """Tune on the device that a child computes on.

    Raises:
        RunnerError: the problem or the candidate cannot be used, or the host is at fault.
    """
    deadline = time.monotonic() + request.budget_s
    try:
        problem = parse_problem(request.problem_source)
    except ProblemError as error:
        raise RunnerError(f"the problem cannot be used: {error.message}") from error
    asked = BenchmarkRequest(problem.source, request.candidate, request.dtype, workloads=request.workloads)
    with ExitStack() as stack:
        roomier = roomy(context, CHILDREN)
        try:
            sessions = start_all(_openings(problem, request, roomier), roomier, stack)
            gauged = _gauged(sessions, request)
            oracle = Oracle.open(problem, sessions[REFERENCE], secrets.randbits(56))
            bench = Bench(request, oracle.form, roomier)
            stack.callback(bench.close)
            bench.open(sessions[CANDIDATE])
            jobs = _jobs(oracle, choose_cases(asked, problem), gauged)
            sessions[REFERENCE].close()
            return Tuner(request, bench, deadline).run(jobs)
        except BadProblem as bad:
            raise RunnerError(f"the problem cannot be tuned on: {bad.message}") from bad
        except (ChildFailed, ProtocolError, ScratchError) as failure:
            raise RunnerError(f"the candidate cannot be tuned: {' '.join(str(failure).split())[:500]}") from failure


def _openings(problem: Problem, request: TuneRequest, context: RunContext) -> dict[str, Opening]:
    made: dict[str, Opening] = {
        REFERENCE: lambda: reference_session(outline.ROLE, problem.source, context),
        CANDIDATE: lambda: candidate_session("tuning", request.candidate, context),
    }
    if has_gpu():
        made[GAUGE] = lambda: Session("gauge", context.limits, context.require)
    return made


def _gauged(sessions: dict[str, Session], request: TuneRequest) -> Gauged | None:
    """Measure the bandwidth alone; None where it cannot be, and then everything is searched."""
    if GAUGE not in sessions:
        return None
    try:
        return measure_rates(sessions[GAUGE], request.dtype, ("gbps",))
    except RunnerError:
        return None
    finally:
        sessions[GAUGE].close()


def _jobs(oracle: Oracle, cases: Sequence[tuple[Workload, Case]], gauged: Gauged | None) -> list[Job]:
    jobs = []
    for workload, plain in cases:
        case = replace(plain, seed=secrets.randbits(56))
        found = outline.outline_of(oracle, case)
        try:
            given = seeded(oracle, case, found)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise BadProblem("the reference's process answered in place of the runner's own code") from error
        floors = {}
        if gauged is not None:
            traffic = traffic_of(oracle, case)
            rates = Rates(gauged.rates.bandwidth_gbps)
            floors = {item: floor(work_of(traffic, None, item, gauged.l2_bytes), rates) for item in PASSES}
        jobs.append(Job(workload, given.call, given.backward, given.input_bytes, floors))
    return jobs
