"""Counts with Nsight Compute, workload by workload; whatever goes wrong is a sentence, never an error of the action."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from gpu_runner.context import RunContext
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.contracts.problem import Workload
from gpu_runner.contracts.profiling import KernelCounters
from gpu_runner.contracts.reading import parse, walk
from gpu_runner.contracts.verify import CandidateSource
from gpu_runner.messages import ProfileCall, ProfilerOutput
from gpu_runner.profiler import command, metrics, sheet
from gpu_runner.verify.opening import candidate_session, opened
from gpu_runner.verify.proof import Proof, make_call

LEAST_S = 20.0  # to start the profiler, torch and the compiler once
MOST_S = 300.0
_GRACE_S = 20.0
MARKED = re.compile(r"(ct|cute)\.kernel\b")


@dataclass(frozen=True)
class ProfiledCounters:
    """All launches of all workloads; with an ``error`` some or all are missing."""

    kernels: tuple[KernelCounters, ...] = ()
    error: str | None = None
    complete: bool = True
    csv: str = ""  # the profiler's own tables, one below the other


def defined_kernels(candidate: CandidateSource) -> tuple[str, ...]:
    """The kernels in cuTile and CuTe DSL that the files of a candidate define; Triton's are noted as they are launched."""
    functions = [
        node
        for file in candidate.screened_files
        for node in walk(parse(file.text))
        if isinstance(node, ast.FunctionDef)
    ]
    return tuple(node.name for node in functions if any(MARKED.match(ast.unparse(d)) for d in node.decorator_list))


@dataclass
class CounterRun:
    """One profiling of a candidate. ``refused``: no further workload is worth trying."""

    candidate: CandidateSource
    context: RunContext
    deadline: float
    kernels: list[KernelCounters] = field(default_factory=list)
    csv: str = ""
    error: str | None = None
    refused: bool = False
    done: int = 0

    def add(self, proof: Proof, workload: Workload, share_s: float) -> None:
        """Profile one workload, each in a child of its own: what one breaks, the next does not meet."""
        profiler = command.find_profiler()
        if profiler is None:
            self.error, self.refused = command.NOT_FOUND, True
            return
        self.context.progress(f"profile: counters at {workload.label()}")
        limit_s = min(max(share_s, LEAST_S), MOST_S)
        try:
            output = self._output(str(profiler), proof, limit_s)
        except (RunnerError, ValueError, OSError) as failure:  # of the child, of its files, of its start
            self.error = f"Nsight Compute could not be run in the sandbox: {' '.join(str(failure).split())[:300]}"
            self.refused = not self.kernels
            return
        self._take(output, workload, limit_s)

    def ended(self, error: str) -> ProfiledCounters:
        """The counters so far, with the error that ended the profiling."""
        return ProfiledCounters(tuple(self.kernels), error, complete=False, csv=self.csv)

    def counted(self, wanted: int) -> ProfiledCounters:
        """All counters, with a note where the budget ran out."""
        if self.error is None and self.done < wanted:
            self.error = f"The budget ended after {self.done} of {wanted} workloads."
        complete = self.done == wanted or self.refused
        return ProfiledCounters(tuple(self.kernels), self.error, complete, self.csv)

    def _output(self, profiler: str, proof: Proof, limit_s: float) -> ProfilerOutput:
        call, code = make_call(proof), self.candidate
        asked = ProfileCall(
            call.call, profiler, tuple(metrics.METRICS), limit_s, code.module, code.symbol, code.import_roots
        )
        with opened(candidate_session("profiling", code, self.context), self.context) as session:
            return session.call(asked, call.tensors, timeout_s=limit_s + _GRACE_S).message

    def _take(self, given: ProfilerOutput, workload: Workload, limit_s: float) -> None:
        launches = sheet.read(given.log)
        if not launches:
            self.error = command.refusal(given.log, given.output, given.exit_code, limit_s)
            self.refused = not self.kernels
            return
        self.csv += sheet.as_csv(given.log, workload)
        own = [*given.launched, *defined_kernels(self.candidate)]
        for timed_pass, part in zip((Pass.forward, Pass.backward), sheet.sections(launches), strict=False):
            self.kernels += [sheet.counters(launch, timed_pass, workload, own) for launch in part]
        self.done += 1
        if len(launches) >= sheet.MOST_LAUNCHES:
            self.error = f"Only the first {sheet.MOST_LAUNCHES} launches of {workload.label()} were profiled."
