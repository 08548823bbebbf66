"""Carries a tuning request out: starts every child at once, gauges the GPU, searches for each size by which settings are looked
up, and holds a final everywhere.
"""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from gpu_runner import outline
from gpu_runner.benchmark.bench import choose_cases
from gpu_runner.benchmark.material import traffic_of, work_of
from gpu_runner.benchmark.rates import Gauged, measure_rates
from gpu_runner.benchmark.roofline import Rates, floor
from gpu_runner.benchmark.starting import GAUGE, REFERENCE, Opening, roomy, start_all
from gpu_runner.context import RunContext
from gpu_runner.contracts.benchmark import BenchmarkRequest, Pass
from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.contracts.problem import Problem, ProblemError, Workload, parse_problem
from gpu_runner.contracts.tuning import Choice, TuneRequest, TuneResult
from gpu_runner.errors import ChildError, ChildFailed, ProtocolError
from gpu_runner.messages import PreparedTuning
from gpu_runner.scratch import ScratchError
from gpu_runner.seeded import seeded
from gpu_runner.session import ChildSession, has_gpu
from gpu_runner.tuning.bench import PassMeter, TuningBench, Worn
from gpu_runner.tuning.plan import PASSES, TuningJob, TuningStep, is_near, share, steps
from gpu_runner.tuning.search import SettingSearch, TuningOutcome, decide
from gpu_runner.tuning.settings import DEFAULT, Settings, TunedSize, space_of, table, text
from gpu_runner.verify.cases import Case
from gpu_runner.verify.opening import candidate_session, reference_session
from gpu_runner.verify.truth import BadProblem, Oracle

CANDIDATE = "candidate"
CHILDREN = 3  # at once
NO_GPU = "No GPU is available: settings are chosen by measurement only, so none were tried and the candidate's own rule applies."


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
            bench = TuningBench(request, oracle.form, roomier)
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
        made[GAUGE] = lambda: ChildSession("gauge", context.limits, context.require)
    return made


def _gauged(sessions: dict[str, ChildSession], request: TuneRequest) -> Gauged | None:
    """Measure the bandwidth alone; None where it cannot be, and then everything is searched."""
    if GAUGE not in sessions:
        return None
    try:
        return measure_rates(sessions[GAUGE], request.dtype, ("gbps",))
    except RunnerError:
        return None
    finally:
        sessions[GAUGE].close()


def _jobs(oracle: Oracle, cases: Sequence[tuple[Workload, Case]], gauged: Gauged | None) -> list[TuningJob]:
    jobs = []
    for workload, plain in cases:
        case = replace(plain, seed=secrets.randbits(56))
        outlined = outline.outline_of(oracle, case)
        try:
            given = seeded(oracle, case, outlined)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise BadProblem("the reference's process answered in place of the runner's own code") from error
        floors = {}
        if gauged is not None:
            traffic = traffic_of(oracle, case)
            rates = Rates(gauged.rates.bandwidth_gbps)
            floors = {item: floor(work_of(traffic, None, item, gauged.l2_bytes), rates) for item in PASSES}
        jobs.append(TuningJob(workload, given.call, given.backward, given.input_bytes, floors))
    return jobs


SEARCH_SHARE = 0.7  # of the time of one workload and pass; the rest is the final's
MOST_FAILED = 64
FIRST_BLOCKS = 3  # of the default, before it is decided whether to search


@dataclass
class Tuner:
    """One request, step after step; what won before is tried early where it comes next."""

    request: TuneRequest
    bench: TuningBench
    deadline: float  # in terms of ``time.monotonic``
    results: list[TunedSize] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    complete: bool = True
    _winners: dict[tuple[Pass, int], Settings] = field(default_factory=dict)

    def run(self, jobs: list[TuningJob]) -> TuneResult:
        """Tune every workload and pass.

        Raises:
            ChildFailed, ProtocolError: the candidate runs on no workload with its default settings.
        """
        try:
            planned, notes = steps(self._survey(jobs), {knob.tuned_pass for knob in self.request.knobs})
            self.notes += notes
            self._steps(planned)
        except Worn as worn:
            self._cut_short(f"The search ended early: {worn}.")
        order = {job.workload: place for place, job in enumerate(jobs)}
        return TuneResult(
            tuple(sorted(self.choices, key=lambda item: (order[item.workload], PASSES.index(item.tuned_pass)))),
            self.bench.architecture,
            table(self.results),
            self.bench.gpu,
            tuple(self.failed.items())[:MOST_FAILED],
            self.complete,
            tuple(dict.fromkeys(self.notes)),
        )

    def _survey(self, jobs: list[TuningJob]) -> list[tuple[TuningJob, PreparedTuning]]:
        """Run every workload once, the largest last, as its search comes first; one that does not run is left out."""
        surveyed: list[tuple[TuningJob, PreparedTuning]] = []
        for place, job in enumerate(sorted(jobs, key=lambda item: item.input_bytes)):
            if place and time.monotonic() >= self.deadline:
                self._over(job.workload)
                break
            try:
                surveyed.append((job, self.bench.prepare(job)))
            except ChildError as error:
                if len(jobs) == 1:
                    raise
                flat = " ".join(str(error).split())[:300]
                self._cut_short(f"{job.workload.label()} was left out: the candidate does not run on it: {flat}")
        return surveyed

    def _steps(self, planned: list[TuningStep]) -> None:
        for number, step in enumerate(planned):
            if number and time.monotonic() >= self.deadline:
                self._over(step.job.workload)
                return
            if self.bench.laid is not step.job:
                self.bench.prepare(step.job)
            now = time.monotonic()
            share_s = share(planned[number:], self.deadline - now)
            if step.is_search:
                self._search(step, now, share_s)
            else:
                self._check(step, now + share_s)

    def _search(self, step: TuningStep, now: float, share_s: float) -> None:
        near = self._near(step)
        if near is not None:
            self._note_near(step, near)
            return
        space = space_of(self.request.knobs, step.tuned_pass, dict(step.defaults))
        hints = [
            item.settings for item in reversed(self.results) if item.tuned_pass is step.tuned_pass and item.settings
        ]
        meter = PassMeter(self.bench, step.tuned_pass, now + SEARCH_SHARE * share_s)
        search = SettingSearch(space, meter, list(dict.fromkeys(hints))[:3])
        best = search.run()
        outcome = decide(best, PassMeter(self.bench, step.tuned_pass, now + share_s))
        self.complete &= search.complete and outcome.whole
        for trial in search.trials.values():
            if trial.failure is not None:
                self._fail(step, trial.settings, trial.failure)
        costs = tuple((trial.settings, trial.cost) for trial in search.trials.values() if trial.blocks)
        self._keep(step, outcome, costs, search.tried)

    def _check(self, step: TuningStep, end: float) -> None:
        """Time what won for the same size on a larger workload against the default on this one."""
        winner = self._winners.get(step.key, DEFAULT)
        failure = None if winner == DEFAULT else self.bench.attempt(step.tuned_pass, winner)
        if failure is not None:
            self._fail(step, winner, failure)
            self._keep(step, TuningOutcome(DEFAULT, None), (), 1)
            return
        outcome = decide(winner, PassMeter(self.bench, step.tuned_pass, end))
        self.complete &= outcome.whole
        costs: tuple[tuple[Settings, float], ...] = ()
        if outcome.ratio is not None and outcome.default_us is not None:
            costs = ((DEFAULT, outcome.default_us), (winner, outcome.default_us / outcome.ratio.median))
        self._keep(step, outcome, costs, 1)

    def _near(self, step: TuningStep) -> float | None:
        """The default's time where it is at the floor; None where a search may gain something."""
        floor = step.job.floors.get(step.tuned_pass)
        if floor is None or self.bench.attempt(step.tuned_pass, DEFAULT) is not None:
            return None
        blocks = [self.bench.block(step.tuned_pass, DEFAULT) for _ in range(FIRST_BLOCKS)]
        times = [statistics.median(block) for block in blocks if block]
        median_us = statistics.median(times) if times else None
        return median_us if median_us is not None and is_near(median_us, floor) else None

    def _note_near(self, step: TuningStep, time_us: float) -> None:
        floor_us = step.job.floors[step.tuned_pass].us or time_us
        note = f"the default takes {time_us:.1f} us, {floor_us / time_us:.0%} of the limit of this GPU's memory"
        self.notes.append(f"{step.label}: {note}, so no other settings were searched.")
        self._keep(step, TuningOutcome(DEFAULT, None), ((DEFAULT, time_us),), 1)

    def _keep(
        self, step: TuningStep, outcome: TuningOutcome, costs: tuple[tuple[Settings, float], ...], tried: int
    ) -> None:
        if step.is_search:
            self._winners[step.key] = outcome.settings
        self.bench.choose(step.tuned_pass, outcome.settings)
        self.results.append(TunedSize(step.tuned_pass, step.job.workload, step.sizes, outcome.settings, costs))
        self.choices.append(_choice(step, outcome, tried))
        self.bench.context.progress(f"tune: {step.label}: {text(outcome.settings)}, {tried} tried")

    def _fail(self, step: TuningStep, settings: Settings, failure: str) -> None:
        where = f"{step.tuned_pass}: {text(settings)} ({step.job.workload.label()})"
        self.failed.setdefault(where, failure)

    def _over(self, workload: Workload) -> None:
        self._cut_short(f"The budget of {self.request.budget_s:.0f} s ended before {workload.label()}.")

    def _cut_short(self, note: str) -> None:
        self.complete = False
        self.notes.append(note)


def _choice(step: TuningStep, outcome: TuningOutcome, tried: int) -> Choice:
    ratio = outcome.ratio if outcome.settings != DEFAULT else None
    return Choice(
        step.tuned_pass,
        step.job.workload,
        max(step.sizes),
        outcome.settings,
        ratio.median if ratio else None,
        ratio.low if ratio else None,
        ratio.high if ratio else None,
        tried,
    )
