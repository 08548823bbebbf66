"""Carries a tuning request out: every workload and pass gets its share of the budget, for a search and for a final. Thin."""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from gpu_runner import outline
from gpu_runner.benchmark.bench import choose_cases
from gpu_runner.context import RunContext
from gpu_runner.contracts.benchmark import BenchmarkRequest, Pass
from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.contracts.problem import ProblemError, Workload, parse_problem
from gpu_runner.contracts.tuning import Choice, TuneRequest, TuneResult
from gpu_runner.errors import ChildFailed, ProtocolError
from gpu_runner.scratch import ScratchError
from gpu_runner.session import has_gpu
from gpu_runner.tuning.bench import Bench, PassMeter, Worn
from gpu_runner.tuning.final import Outcome, decide
from gpu_runner.tuning.search import Search
from gpu_runner.tuning.settings import DEFAULT, space_of, text
from gpu_runner.tuning.table import Found, table
from gpu_runner.verify.opening import opened, reference_session
from gpu_runner.verify.proof import make_call
from gpu_runner.verify.sizes import Case
from gpu_runner.verify.truth import BadProblem, Oracle

SEARCH_SHARE = 0.7  # of the time of one workload and pass; the rest is the final's
PASSES = (Pass.forward, Pass.backward)
MOST_FAILED = 64
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
        session = stack.enter_context(opened(reference_session(outline.ROLE, problem.source, context), context))
        try:
            oracle = Oracle.open(problem, session, secrets.randbits(56))
            bench = Bench(request, oracle.form, context)
            stack.callback(bench.close)
            bench.open()
            return Tuner(request, context, oracle, bench, deadline).run(choose_cases(asked, problem))
        except BadProblem as bad:
            raise RunnerError(f"the problem cannot be tuned on: {bad.message}") from bad
        except (ChildFailed, ProtocolError, ScratchError) as failure:
            raise RunnerError(f"the candidate cannot be tuned: {' '.join(str(failure).split())[:500]}") from failure


@dataclass
class Tuner:
    """One request, workload after workload; what won before is tried early where it comes next."""

    request: TuneRequest
    context: RunContext
    oracle: Oracle
    bench: Bench
    deadline: float
    found: list[Found] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    complete: bool = True

    def run(self, cases: list[tuple[Workload, Case]]) -> TuneResult:
        """Tune every workload and pass."""
        try:
            for place, (workload, case) in enumerate(cases):
                if place and time.monotonic() >= self.deadline:
                    self._cut_short(f"The budget of {self.request.budget_s:.0f} s ended before {workload.label()}.")
                    break
                self._workload(workload, case, len(cases) - place)
        except Worn as worn:
            self._cut_short(f"The search ended early: {worn}.")
        return TuneResult(
            tuple(self.choices),
            self.bench.architecture,
            table(self.found),
            self.bench.gpu,
            tuple(self.failed.items())[:MOST_FAILED],
            self.complete,
            tuple(dict.fromkeys(self.notes)),
        )

    def _workload(self, workload: Workload, case: Case, workloads_left: int) -> None:
        seeded = replace(case, seed=secrets.randbits(56))
        proof = outline.unproved(self.oracle, seeded, outline.outline_of(self.oracle, seeded))
        facts = self.bench.prepare(make_call(proof))
        wanted = {knob.tuned_pass for knob in self.request.knobs}
        passes = [item for item in PASSES if item in wanted and (item is Pass.forward or proof.has_backward)]
        share_s = (self.deadline - time.monotonic()) / workloads_left
        end = time.monotonic() + share_s
        for number, tuned_pass in enumerate(passes):
            now = time.monotonic()
            self._pass(tuned_pass, workload, facts, now, max(0.0, end - now) / (len(passes) - number))

    def _pass(self, tuned_pass: Pass, workload: Workload, facts: dict[str, object], now: float, share_s: float) -> None:
        where = f"{tuned_pass} at {workload.label()}"
        sizes = _numbers(_of(facts, "sizes", tuned_pass))
        if not sizes:
            self.notes.append(f"The candidate looked no settings up in its {tuned_pass} pass at {workload.label()}.")
            return
        defaults = _of(facts, "defaults", tuned_pass)
        known = (
            {str(name): value for name, value in defaults.items() if type(value) is int}
            if isinstance(defaults, dict)
            else {}
        )
        space = space_of(self.request.knobs, tuned_pass, known)
        hints = [item.settings for item in reversed(self.found) if item.tuned_pass is tuned_pass and item.settings]
        search = Search(
            space, PassMeter(self.bench, tuned_pass, now + SEARCH_SHARE * share_s), list(dict.fromkeys(hints))[:3]
        )
        best = search.run()
        outcome = decide(best, PassMeter(self.bench, tuned_pass, now + share_s))
        self.complete &= search.complete and outcome.whole
        for trial in search.trials.values():
            if trial.failure is not None:
                self.failed.setdefault(f"{tuned_pass}: {text(trial.settings)} ({workload.label()})", trial.failure)
        self.bench.choose(tuned_pass, outcome.settings)
        costs = tuple((trial.settings, trial.cost) for trial in search.trials.values() if trial.blocks)
        self.found.append(Found(tuned_pass, workload, sizes, outcome.settings, costs))
        self.choices.append(_choice(tuned_pass, workload, sizes, outcome, search.tried))
        self.context.progress(f"tune: {where}: {text(outcome.settings)}, {search.tried} tried")

    def _cut_short(self, note: str) -> None:
        self.complete = False
        self.notes.append(note)


def _choice(tuned_pass: Pass, workload: Workload, sizes: tuple[int, ...], outcome: Outcome, tried: int) -> Choice:
    ratio = outcome.ratio if outcome.settings != DEFAULT else None
    return Choice(
        tuned_pass,
        workload,
        max(sizes),
        outcome.settings,
        ratio.median if ratio else None,
        ratio.low if ratio else None,
        ratio.high if ratio else None,
        tried,
    )


def _of(facts: dict[str, object], name: str, tuned_pass: Pass) -> object:
    part = facts.get(name)
    return part.get(tuned_pass.value) if isinstance(part, dict) else None


def _numbers(values: object) -> tuple[int, ...]:
    if not isinstance(values, list):
        return ()
    return tuple(value for value in values if type(value) is int and 0 <= value < 2**62)
