"""Measures on a GPU: hands the turns to the contenders, checks what they computed, and reads the clock for the budget."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch

from gpu_runner.benchmark import estimate
from gpu_runner.benchmark.contender import Contender
from gpu_runner.benchmark.roofline import fault, floor_us, moved_bytes
from gpu_runner.benchmark.rounds import turns
from gpu_runner.benchmark.traffic import traffic_of
from gpu_runner.context import RunContext
from gpu_runner.contracts.benchmark import BenchmarkRequest, BenchmarkResult, Pass, Timing, Word, WorkloadTiming
from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.contracts.problem import Problem, Workload
from gpu_runner.host import facts as host_facts
from gpu_runner.session import Session
from gpu_runner.verify.compare import compare
from gpu_runner.verify.inputs import lay
from gpu_runner.verify.opening import candidate_session, opened, reference_session
from gpu_runner.verify.proof import Proof, make_call
from gpu_runner.verify.sizes import Case
from gpu_runner.verify.truth import Oracle

RING = 3  # as many sets of inputs as the role ``timing`` holds
SAMPLES = 10
WARM_UP = 2
LEAST_ROUNDS = 8
MOST_ROUNDS = 40


@dataclass(frozen=True)
class _Host:
    """What the bandwidth's measurement said of the GPU."""

    gpu: str
    bandwidth_gbps: float
    l2_bytes: int
    facts: tuple[tuple[str, str], ...]


@dataclass
class Bench:
    """One benchmark request on a GPU."""

    request: BenchmarkRequest
    problem: Problem
    context: RunContext

    def run(self, cases: Sequence[tuple[Workload, Case]]) -> BenchmarkResult:
        """Measure every workload and pass within the budget.

        Raises:
            RunnerError: a child of the runner's own fails. BadProblem: the reference does not run.
        """
        deadline = time.monotonic() + self.request.budget_s
        rows: list[WorkloadTiming] = []
        notes: list[str] = []
        done = 0
        with ExitStack() as stack:
            oracle, contenders = self._open(stack)
            host = _measure_host(contenders[1].session)
            for place, (workload, case) in enumerate(cases):
                if place and time.monotonic() >= deadline:
                    notes.append(f"The budget of {self.request.budget_s:.0f} s ended before {workload.label()}.")
                    break
                share = (deadline - time.monotonic()) / (len(cases) - place)
                found, whole = self._workload(oracle, contenders, host, workload, case, share)
                rows += found
                done += whole
        complete = done == len(cases)
        return BenchmarkResult(
            tuple(rows), False, host.gpu, host.bandwidth_gbps, host.facts, complete=complete, notes=tuple(notes)
        )

    def _open(self, stack: ExitStack) -> tuple[Oracle, list[Contender]]:
        source, problem = self.request.candidate, self.problem.source

        def enter(session: Session) -> Session:
            return stack.enter_context(opened(session, self.context))

        oracle = Oracle.open(self.problem, enter(reference_session("reference", problem, self.context)), _seed())
        contenders = [
            Contender("candidate", enter(candidate_session("timing", source, self.context))),
            Contender("eager", enter(reference_session("timing", problem, self.context))),
            Contender("torch_compile", enter(reference_session("timing", problem, self.context))),
        ]
        symbol = "Model" if oracle.form.name == "kernelbench" else "reference"
        contenders[0].load(source.module, source.symbol, oracle.form, compiled=False)
        contenders[1].load("problem", symbol, oracle.form, compiled=False)
        contenders[2].load("problem", symbol, oracle.form, compiled=True)
        return oracle, contenders

    def _workload(
        self,
        oracle: Oracle,
        contenders: list[Contender],
        host: _Host,
        workload: Workload,
        case: Case,
        share_s: float,
    ) -> tuple[list[WorkloadTiming], bool]:
        start = time.monotonic()
        self.context.progress(f"benchmark: {workload.label()}")
        place = secrets.randbelow(RING)
        base, proof = _rolled(oracle, replace(case, seed=_seed()), place)
        call = make_call(base)
        for contender in contenders:
            contender.error = None
            contender.prepare(call)
        passes = [item for item in self.request.passes if item is Pass.forward or base.has_backward]
        whole = True
        for number, timed_pass in enumerate(passes):
            left = max(0.0, start + share_s - time.monotonic())
            whole &= _take_turns(contenders, timed_pass, left / (len(passes) - number))
        for contender in contenders:
            _check(contender, proof, place)
            for timed_pass in passes:
                contender.weigh(timed_pass)
        traffic = traffic_of(oracle, case)
        rows = []
        for timed_pass in passes:
            moved = None if traffic is None else moved_bytes(traffic, timed_pass, host.l2_bytes)
            rows.append(_row(contenders, host, workload, timed_pass, moved))
        return rows, whole


def _seed() -> int:
    return secrets.randbits(56)


def _measure_host(session: Session) -> _Host:
    facts: dict[str, Any] = session.call("bandwidth", {}).meta
    try:
        # Versions and driver as this host knows them; what CUDA the child saw stands beside.
        named = (*(fact for fact in host_facts() if fact[0] not in ("gpu", "machine")), ("cuda", str(facts["cuda"])))
        return _Host(str(facts["gpu"]), float(facts["gbps"]), int(facts["l2_bytes"]), named)
    except (KeyError, TypeError, ValueError) as error:
        raise RunnerError("the bandwidth could not be measured") from error


def _rolled(oracle: Oracle, case: Case, place: int) -> tuple[Proof, Proof]:
    """Give the workload as it is sent, and the truth of the set of inputs that will be checked, which nobody else knows."""
    asked = oracle.asked(case)
    inputs = {name: torch.roll(tensor, place, 0) if tensor.dim() else tensor for name, tensor in asked.inputs.items()}
    laid = {name: lay(tensor, "dense") for name, tensor in inputs.items()}
    proof = oracle.with_truth(replace(asked, inputs=inputs, laid=laid), None)
    return replace(asked, outputs=proof.outputs, upstream=proof.upstream, gradients=proof.gradients), proof


def _take_turns(contenders: list[Contender], timed_pass: Pass, share_s: float) -> bool:
    """Let the contenders take turns until the time is over; says whether the least number of rounds was reached."""
    end = time.monotonic() + share_s
    able = [contender for contender in contenders if contender.error is None]
    rounds = 0
    by_name = {contender.name: contender for contender in able}
    for order in turns([contender.name for contender in able]):
        if rounds >= MOST_ROUNDS or (rounds >= LEAST_ROUNDS and time.monotonic() >= end):
            break
        if not order:
            return False
        for name in order:
            if by_name[name].error is None:
                by_name[name].take_turn(timed_pass, SAMPLES, WARM_UP)
        rounds += 1
    return rounds >= LEAST_ROUNDS


def _check(contender: Contender, proof: Proof, place: int) -> None:
    """Hold what was computed in the timed runs against the truth; a contender that was wrong has no time."""
    found = contender.computed(place)
    if found is None:
        return
    outputs, there, tensors = found
    expected = list(proof.outputs)
    if outputs != len(expected) or len(tensors) != outputs + sum(there):
        contender.error = "the timed runs gave another number of outputs than the reference"
        return
    wanted = [proof.gradients.get(name) for name in proof.wanted] if there else []
    expected += [item for item, has in zip(wanted, there, strict=False) if has and item is not None]
    if contender.name != "candidate":
        return  # a baseline is the reference itself, in its own way of rounding
    for item, tensor in zip(expected, tensors, strict=False):
        if tuple(tensor.shape) != item.shape or not compare(tensor, item.truth).passed:
            contender.error = f"{item.label} of a timed run is wrong"
            return


def _row(
    contenders: list[Contender], host: _Host, workload: Workload, timed_pass: Pass, moved: int | None
) -> WorkloadTiming:
    timings = tuple(_timing(contender, timed_pass) for contender in contenders)
    floor = floor_us(moved, host.bandwidth_gbps)
    row = WorkloadTiming(workload, timed_pass, timings, moved, None, floor)
    row = replace(row, fault=fault(timings[0].median_us, floor))
    baselines = [item for item in timings[1:] if item.median_us is not None]
    if timings[0].median_us is None or not baselines:
        return row
    best = min(baselines, key=lambda item: item.median_us or 0.0)
    blocks = {
        contender.name: contender.blocks[timed_pass] for contender in contenders if timed_pass in contender.blocks
    }
    found = estimate.ratio(blocks[best.contender], blocks["candidate"])
    if found is None:
        return replace(row, against=best.contender)
    said = Word.undecided if row.fault else estimate.word(found, estimate.control(blocks[best.contender]))
    return replace(
        row,
        speedup=found.median,
        speedup_low=found.low,
        speedup_high=found.high,
        against=best.contender,
        word=said,
    )


def _timing(contender: Contender, timed_pass: Pass) -> Timing:
    blocks = contender.blocks.get(timed_pass, [])
    if contender.error is not None or not blocks:
        return Timing(contender.name, None, error=contender.error or "it took no turn")
    samples = [sample for block in blocks for sample in block]
    return Timing(
        contender.name,
        estimate.quantile(samples, 0.5),
        estimate.quantile(samples, 0.2),
        estimate.quantile(samples, 0.8),
        len(blocks),
        contender.peaks.get(timed_pass),
    )
