"""Measures on a GPU: starts the children, gauges the GPU, lets the contest run, and gives the result."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from secrets import randbits

from gpu_runner.benchmark.contender import Contender
from gpu_runner.benchmark.contest import Contest
from gpu_runner.benchmark.notes import Remarks
from gpu_runner.benchmark.nvml import Watcher
from gpu_runner.benchmark.race import RaceEntry, entries
from gpu_runner.benchmark.rates import measure_rates
from gpu_runner.benchmark.referee import Referee
from gpu_runner.benchmark.starting import GAUGE, REFERENCE, openings, roomy, start_all
from gpu_runner.context import RunContext
from gpu_runner.contracts.benchmark import BenchmarkRequest, BenchmarkResult
from gpu_runner.contracts.problem import Problem, Workload
from gpu_runner.numerics.measures import keep_pages, share_steps
from gpu_runner.session import ChildSession
from gpu_runner.verify.cases import Case
from gpu_runner.verify.truth import Oracle


def measure(
    request: BenchmarkRequest, problem: Problem, cases: Sequence[tuple[Workload, Case]], context: RunContext
) -> BenchmarkResult:
    """Measure every workload and pass within the budget, the start of the children included, and small differences once more.

    Raises:
        RunnerError: a child cannot be started, or the GPU not be gauged. BadProblem: the reference runs on no workload.
    """
    deadline = time.monotonic() + request.budget_s
    keep_pages()
    share_steps()
    lineup = entries(request)
    with ExitStack() as stack:
        watcher = stack.enter_context(closing(Watcher()))
        context.progress("benchmark: starting")
        roomier = roomy(context, len(lineup) + 2)
        sessions = start_all(openings(problem, lineup, roomier), roomier, stack)
        # The pool ends before the children do, so a thread that waits for one of them is never left behind.
        pool = stack.enter_context(ThreadPoolExecutor(len(lineup) + 1, "bench"))
        seed = randbits(56)

        def reopen() -> Oracle:
            again = start_all({REFERENCE: openings(problem, lineup, roomier)[REFERENCE]}, roomier, stack)
            return Oracle.open(problem, again[REFERENCE], seed)

        def fresh(names: Collection[str]) -> dict[str, Contender]:
            for one in contenders.values():
                one.session.close()
            chosen = tuple(entry for entry in lineup if entry.name in names)
            made = openings(problem, chosen, roomier)
            started = start_all({entry.name: made[entry.name] for entry in chosen}, roomier, stack)
            again, loading = _loading(chosen, started, referee.oracle, pool)
            for done in loading:
                done.result()
            return again

        gauging = pool.submit(measure_rates, sessions[GAUGE], request.dtype)
        remarks = Remarks()
        referee = Referee(Oracle.open(problem, sessions[REFERENCE], seed), reopen, request.passes, remarks)
        contenders, loading = _loading(lineup, sessions, referee.oracle, pool)
        # The reference runs on shapes alone here, while the contenders are imported and the GPU is gauged.
        first = referee.material(cases[0])
        for done in loading:
            done.result()
        gauged = gauging.result()
        sessions[GAUGE].close()
        contest = Contest(request, referee, contenders, gauged, watcher.read, context.progress, pool, remarks)
        contest.run(cases, deadline, first)
        contest.repeat(cases, fresh)
    return BenchmarkResult(
        tuple(contest.rows),
        False,
        gauged.gpu,
        gauged.rates.bandwidth_gbps,
        gauged.host,
        complete=remarks.complete,
        notes=(*gauged.notes, *remarks.notes),
        untimed=contest.untimed,
        matrix_tflops=gauged.rates.matrix_tflops,
        vector_tflops=gauged.rates.vector_tflops,
    )


def _loading(
    lineup: tuple[RaceEntry, ...], sessions: dict[str, ChildSession], oracle: Oracle, pool: ThreadPoolExecutor
) -> tuple[dict[str, Contender], list[Future[None]]]:
    symbol = "Model" if oracle.form.name == "kernelbench" else "reference"
    contenders = {entry.name: Contender(entry.name, sessions[entry.name]) for entry in lineup}
    loading = []
    for entry in lineup:
        module, name = (entry.source.module, entry.source.symbol) if entry.source else ("problem", symbol)
        one = contenders[entry.name]
        loading.append(pool.submit(one.load, module, name, oracle.form, compiled=entry.compiled))
    return contenders, loading
