"""The contenders on the GPU, one workload after the other, each pass with its share of the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from gpu_runner.benchmark import notes
from gpu_runner.benchmark.checks import objection, same_bits
from gpu_runner.benchmark.conditions import Reading
from gpu_runner.benchmark.contender import Computed, Contender
from gpu_runner.benchmark.course import run_race
from gpu_runner.benchmark.lineup import CANDIDATE, CONTROL, ORIGINAL, question
from gpu_runner.benchmark.material import Material
from gpu_runner.benchmark.proving import Rows
from gpu_runner.benchmark.race import Race
from gpu_runner.benchmark.rates import Gauged
from gpu_runner.benchmark.referee import Referee
from gpu_runner.benchmark.remarks import Remarks
from gpu_runner.benchmark.roofline import floor
from gpu_runner.benchmark.room import make_room, prepare
from gpu_runner.benchmark.rows import Account, Finish, row
from gpu_runner.contracts.benchmark import BenchmarkRequest, Pass, WorkloadTiming
from gpu_runner.contracts.problem import Workload
from gpu_runner.verify.cases import Case
from gpu_runner.verify.truth import BadProblem

CHECKED = (
    ORIGINAL,
    CANDIDATE,
)  # the baselines are the reference itself; the original first, the candidate is held to it
LEAST_PASS_S = (
    2.5  # a first look at the evidence, also where the preparing of a large workload took its share of the time
)

Cases = Sequence[tuple[Workload, Case]]


@dataclass
class Contest:
    """``rows`` and ``remarks`` are what came of it."""

    request: BenchmarkRequest
    referee: Referee
    contenders: dict[str, Contender]
    gauged: Gauged
    read: Callable[[], Reading | None]
    progress: Callable[[str], None]
    pool: ThreadPoolExecutor
    remarks: Remarks
    rows: list[WorkloadTiming] = field(default_factory=list)

    def run(self, cases: Cases, deadline: float, material: Material | None) -> None:
        """Measure every workload and pass until the deadline, in terms of ``time.monotonic``; ``material`` is the first one's.

        Raises:
            BadProblem: the reference runs on no workload.
        """
        for place, (workload, _) in enumerate(cases):
            if place and time.monotonic() >= deadline:
                self.remarks.lack(f"The budget of {self.request.budget_s:.0f} s ended before {workload.label()}.")
                break
            begin = time.monotonic()
            share_s = (deadline - begin) / (len(cases) - place)
            self.progress(f"benchmark: {workload.label()}")
            here, preparing = material, self._prepare(material)
            # The reference works beside the preparing and is done before anything is timed.
            rows = {} if here is None else self.referee.prove(here)
            material = self.referee.material(cases[place + 1]) if place + 1 < len(cases) else None
            for done in preparing:
                done.result()
            if here is not None:
                make_room(here, self.contenders, self.remarks)
                self._workload(here, rows, begin + share_s)
        reason = self.referee.reason
        if not self.rows and reason is not None:
            raise BadProblem(f"the reference does not run: {reason}") from reason

    def _prepare(self, material: Material | None) -> list[Future[None]]:
        if material is None:
            return []
        return [self.pool.submit(prepare, contender, material) for contender in self.contenders.values()]

    def _workload(self, material: Material, rows: dict[Pass, Rows], end: float) -> None:
        passes = list(material.secrets)
        races: dict[Pass, Race] = {}
        for number, timed_pass in enumerate(passes):
            share_s = max(LEAST_PASS_S, (end - time.monotonic()) / (len(passes) - number))
            race = races[timed_pass] = Race(list(self.contenders), question(tuple(self.contenders)))
            run_race(race, self.contenders, timed_pass, share_s, self.read)
            if timed_pass in rows:
                self._check(material, rows[timed_pass], timed_pass)
        for timed_pass, race in races.items():
            for contender in self.contenders.values():
                contender.weigh(timed_pass)
            self.rows.append(row(self._finish(material, timed_pass, race)))
            self.remarks.say(notes.early(material.workload, timed_pass, race))
            self.remarks.say(notes.dropped(material.workload, timed_pass, race))
            waiting = [name for name, one in self.contenders.items() if timed_pass in one.waits]
            self.remarks.say(notes.waits(timed_pass, waiting))
            self.remarks.complete &= len(race.units) >= race.looks[0]

    def _check(self, material: Material, rows: Rows, timed_pass: Pass) -> None:
        """Hold the results of the timed runs against the truth: a wrong candidate has no time, a wrong original keeps its own."""
        asked = {
            name: self.pool.submit(self.contenders[name].computed, timed_pass, material.secrets[timed_pass])
            for name in CHECKED
            if name in self.contenders
        }
        found = {name: future.result() for name, future in asked.items()}
        if any(one is not None and objection(one, rows, timed_pass) is not None for one in found.values()):
            # Twice more in float64: only where somebody may be called wrong for the side of a bend that it took.
            rows = self.referee.bent(material, timed_pass, rows)
        original, candidate = found.get(ORIGINAL), found.get(CANDIDATE)
        said = None if original is None else objection(original, rows, timed_pass)
        if said is not None:
            self.remarks.say(notes.wrong(material.workload, timed_pass, ORIGINAL, said))
        if candidate is None or same_bits(candidate, original):
            return
        said = objection(candidate, rows, timed_pass)
        if said is not None and original is not None:
            said = objection(candidate, rows, timed_pass, [original, *self._again(material, timed_pass)])
        if self.request.standing and said is not None:
            self.remarks.say(notes.wrong(material.workload, timed_pass, CANDIDATE, said))
        else:
            self.contenders[CANDIDATE].error = said

    def _again(self, material: Material, timed_pass: Pass) -> list[Computed]:
        """Give what the original computes in its other process: where it scatters, one run says too little of its error."""
        control = self.contenders.get(CONTROL)
        found = None if control is None else control.computed(timed_pass, material.secrets[timed_pass])
        return [] if found is None else [found]

    def _finish(self, material: Material, timed_pass: Pass, race: Race) -> Finish:
        accounts = {
            name: Account(one.error, one.peaks.get(timed_pass), one.host_us.get(timed_pass))
            for name, one in self.contenders.items()
        }
        work = material.work(timed_pass, self.gauged.l2_bytes)
        return Finish(material.workload, timed_pass, race, accounts, work, floor(work, self.gauged.rates))
