"""The contenders on the GPU, one workload after the other, each pass with its share of the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from gpu_runner.benchmark import notes
from gpu_runner.benchmark.checks import objection, same_bits
from gpu_runner.benchmark.conditions import Reading
from gpu_runner.benchmark.contender import FAILURES, Contender
from gpu_runner.benchmark.course import run_race
from gpu_runner.benchmark.lineup import CANDIDATE, ORIGINAL, question
from gpu_runner.benchmark.material import Material, make_material, prove
from gpu_runner.benchmark.race import Race
from gpu_runner.benchmark.rates import Gauged
from gpu_runner.benchmark.roofline import floor
from gpu_runner.benchmark.rows import Account, Finish, row
from gpu_runner.contracts.benchmark import BenchmarkRequest, Pass, WorkloadTiming
from gpu_runner.contracts.problem import Workload
from gpu_runner.verify.proof import Proof
from gpu_runner.verify.sizes import Case
from gpu_runner.verify.truth import BadProblem, Oracle

CHECKED = (
    ORIGINAL,
    CANDIDATE,
)  # the baselines are the reference itself; the original first, the candidate is held to it
# A child whose reference answers in place of the runner's own code gives values of any form.
UNUSABLE = (*FAILURES, BadProblem, KeyError, IndexError, TypeError, ValueError)
LEAST_PASS_S = (
    2.5  # a first look at the evidence, also where the preparing of a large workload took its share of the time
)

Cases = Sequence[tuple[Workload, Case]]


@dataclass
class Contest:
    """``rows`` and ``said`` are what came of it; ``complete`` says whether all of it was measured."""

    request: BenchmarkRequest
    oracle: Oracle
    contenders: dict[str, Contender]
    gauged: Gauged
    read: Callable[[], Reading | None]
    progress: Callable[[str], None]
    pool: ThreadPoolExecutor
    rows: list[WorkloadTiming] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    complete: bool = True
    _reason: BaseException | None = None

    def run(self, cases: Cases, deadline: float) -> None:
        """Measure every workload and pass until the deadline, in terms of ``time.monotonic``.

        Raises:
            BadProblem: the reference runs on no workload.
        """
        material = self._made(cases[0])
        for place, (workload, _) in enumerate(cases):
            if place and time.monotonic() >= deadline:
                self._lack(f"The budget of {self.request.budget_s:.0f} s ended before {workload.label()}.")
                break
            begin = time.monotonic()
            share_s = (deadline - begin) / (len(cases) - place)
            self.progress(f"benchmark: {workload.label()}")
            here, preparing = material, self._prepare(material)
            # The reference works beside the preparing and is done before anything is timed.
            proof = None if here is None else self._proved(here)
            material = self._made(cases[place + 1]) if place + 1 < len(cases) else None
            for done in preparing:
                done.result()
            if here is not None:
                self._workload(here, proof, begin + share_s)
        if not self.rows and self._reason is not None:
            raise BadProblem(f"the reference does not run: {self._reason}") from self._reason

    def _made(self, case: tuple[Workload, Case]) -> Material | None:
        try:
            return make_material(self.oracle, *case)
        except UNUSABLE as error:
            self._reason = error
            self._lack(f"{case[0].label()} was left out: the reference does not run on it: {error}")
            return None

    def _proved(self, material: Material) -> Proof | None:
        try:
            return prove(self.oracle, material)
        except UNUSABLE as error:
            self._lack(f"{material.workload.label()}: the results of the timed runs were not checked: {error}")
            return None

    def _lack(self, note: str) -> None:
        self._say(" ".join(note.split())[:400])
        self.complete = False

    def _say(self, note: str | None) -> None:
        if note is not None and note not in self.said:
            self.said.append(note)

    def _passes(self, material: Material) -> list[Pass]:
        return [item for item in self.request.passes if item is Pass.forward or material.asked.has_backward]

    def _prepare(self, material: Material | None) -> list[Future[None]]:
        if material is None:
            return []
        passes = self._passes(material)
        return [
            self.pool.submit(contender.prepare, material.call, passes, material.places)
            for contender in self.contenders.values()
        ]

    def _workload(self, material: Material, proof: Proof | None, end: float) -> None:
        passes = self._passes(material)
        races: dict[Pass, Race] = {}
        for number, timed_pass in enumerate(passes):
            share_s = max(LEAST_PASS_S, (end - time.monotonic()) / (len(passes) - number))
            race = races[timed_pass] = Race(list(self.contenders), question(tuple(self.contenders)))
            run_race(race, self.contenders, timed_pass, share_s, self.read)
            if proof is not None:
                self._check(material, proof, timed_pass)
        for timed_pass, race in races.items():
            for contender in self.contenders.values():
                contender.weigh(timed_pass)
            self.rows.append(row(self._finish(material, timed_pass, race)))
            self._say(notes.early(material.workload, timed_pass, race))
            self._say(notes.dropped(material.workload, timed_pass, race))
            self.complete &= len(race.units) >= race.looks[0]

    def _check(self, material: Material, proof: Proof, timed_pass: Pass) -> None:
        """Hold the results of the timed runs against the truth: a wrong candidate has no time, a wrong original keeps its own."""
        asked = {
            name: self.pool.submit(self.contenders[name].computed, timed_pass, material.place)
            for name in CHECKED
            if name in self.contenders
        }
        found = {name: future.result() for name, future in asked.items()}
        original, candidate = found.get(ORIGINAL), found.get(CANDIDATE)
        said = None if original is None else objection(original, proof, timed_pass)
        if said is not None:
            self._say(notes.wrong(material.workload, timed_pass, ORIGINAL, said))
        if candidate is None or same_bits(candidate, original):
            return
        self.contenders[CANDIDATE].error = objection(candidate, proof, timed_pass, original)

    def _finish(self, material: Material, timed_pass: Pass, race: Race) -> Finish:
        accounts = {
            name: Account(one.error, one.peaks.get(timed_pass), one.host_us.get(timed_pass))
            for name, one in self.contenders.items()
        }
        work = material.work(timed_pass, self.gauged.l2_bytes)
        return Finish(material.workload, timed_pass, race, accounts, work, floor(work, self.gauged.rates))
