"""The contenders on the GPU, one workload after the other, each pass with its share of the time and of the memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from gpu_runner.benchmark import notes
from gpu_runner.benchmark.checks import Rows, result_error, same_bits
from gpu_runner.benchmark.conditions import GpuReading
from gpu_runner.benchmark.contender import FAILURES, Computed, Contender
from gpu_runner.benchmark.material import Material
from gpu_runner.benchmark.notes import Remarks
from gpu_runner.benchmark.race import (
    BASELINES,
    CANDIDATE,
    CONTROL,
    ORIGINAL,
    Race,
    looks_of,
    question,
)
from gpu_runner.benchmark.rates import Gauged
from gpu_runner.benchmark.referee import Referee
from gpu_runner.benchmark.repeat import needs_repeat, repeated
from gpu_runner.benchmark.roofline import floor
from gpu_runner.benchmark.rows import ContenderStatus, Finish, headed, row
from gpu_runner.contracts.benchmark import USUAL_PAIRS, BenchmarkRequest, Comparison, Pass, WorkloadTiming
from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.contracts.problem import Workload
from gpu_runner.spans import span
from gpu_runner.verify.cases import Case
from gpu_runner.verify.truth import BadProblem

NO_ROOM = "out of memory next to the other contenders"
# In the order in which they leave. Without a control the noise is taken from one process alone, which matters less than what a
# candidate is compared with; beside an original the baselines do.
LESSER, LESSER_BESIDE = (CONTROL, *BASELINES), (*BASELINES, CONTROL)


def prepare(contender: Contender, material: Material) -> None:
    """Have a contender lay out a workload."""
    contender.prepare(material.call, list(material.secrets), material.places)


def make_room(material: Material, contenders: Mapping[str, Contender], remarks: Remarks) -> None:
    """Prepare again what ran out of memory while the reference ran; what matters least is unloaded first (``LESSER``)."""
    short = [one for one in contenders.values() if one.short]
    for one in short:
        one.release()
    for one in short:
        _again(one, material)
        while one.short and (other := _lesser(one, contenders)) is not None:
            other.set_aside(NO_ROOM)
            _again(one, material)
        if one.short and one.name in LESSER:
            one.set_aside(NO_ROOM)
    remarks.add(notes.aside(material.workload, [one.name for one in contenders.values() if one.error == NO_ROOM]))


def _again(one: Contender, material: Material) -> None:
    prepare(one, material)
    if one.short:
        one.release()


def _lesser(one: Contender, contenders: Mapping[str, Contender]) -> Contender | None:
    """The least important contender on the GPU that matters less than this one."""
    order = LESSER_BESIDE if ORIGINAL in contenders else LESSER
    less = order[: order.index(one.name)] if one.name in order else order
    there = (contenders[name] for name in less if name in contenders)
    return next((other for other in there if other.error is None), None)


LEAST_UNITS = 4  # for an interval at all, where the time is long over
OVERTIME = 0.5  # of its share of the time, that a race may take to reach its first look


def run_race(
    race: Race,
    contenders: Mapping[str, Contender],
    timed_pass: Pass,
    share_s: float,
    read: Callable[[], GpuReading | None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Race until more rounds would decide nothing, or the time is over."""
    start = clock()
    for name in race.names:
        contenders[name].warm(timed_pass)
        if contenders[name].error is not None:
            race.drop(name)
    while not race.finished:
        if race.between and _over(race, clock() - start, share_s):
            return
        order = race.order()
        if not order:
            return
        for name in order:
            times = contenders[name].take_turn(timed_pass)
            if times is None:
                race.drop(name)
            else:
                race.add(name, times)
        with span("reading the GPU"):
            reading = read()
        race.close(reading)


def _over(race: Race, taken_s: float, share_s: float) -> bool:
    done = len(race.units)
    if done >= race.looks[0]:
        return taken_s >= share_s
    return done >= LEAST_UNITS and taken_s >= (1 + OVERTIME) * share_s


CHECKED = (
    ORIGINAL,
    CANDIDATE,
)  # the baselines are the reference itself; the original first, as the candidate is checked against it
LEAST_PASS_S = (
    2.5  # a first look at the evidence, also where the preparing of a large workload took its share of the time
)

REPEAT_SHARE = 0.5  # of the budget, shared by the races in fresh processes, each of which has ``LEAST_PASS_S`` at least

Cases = Sequence[tuple[Workload, Case]]
Fresh = Callable[[Collection[str]], dict[str, Contender]]  # ends all contenders' processes and starts these anew


@dataclass
class Contest:
    """``rows``, ``remarks`` and ``untimed`` are what came of it."""

    request: BenchmarkRequest
    referee: Referee
    contenders: dict[str, Contender]
    gauged: Gauged
    read: Callable[[], GpuReading | None]
    progress: Callable[[str], None]
    pool: ThreadPoolExecutor
    remarks: Remarks
    rows: list[WorkloadTiming] = field(default_factory=list)
    untimed: tuple[Workload, ...] = ()
    _waiting: set[tuple[Workload, Pass]] = field(default_factory=set)

    def run(self, cases: Cases, deadline: float, material: Material | None) -> None:
        """Measure every workload and pass until the deadline, in terms of ``time.monotonic``; ``material`` is the first one's.

        Raises:
            BadProblem: the reference runs on no workload.
        """
        for place, (workload, _) in enumerate(cases):
            if place and time.monotonic() >= deadline:
                self.remarks.complete = False
                self.untimed = tuple(one for one, _ in cases[place:])
                break
            begin = time.monotonic()
            left = [sum(self._units(label).values()) for label in (one.label() for one, _ in cases[place:])]
            share_s = (deadline - begin) * left[0] / sum(left)
            self.progress(f"benchmark: {workload.label()}")
            here, preparing = material, self._prepare(material)
            # The reference runs while contenders are prepared, and is done before anything is timed.
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

    def repeat(self, cases: Cases, fresh: Fresh) -> None:
        """Race again in fresh processes where a small difference has a word; it keeps the word where they say the same."""
        doubts = {at: found for at, row in enumerate(self.rows) if (found := self._doubts(row))}
        if not doubts:
            return
        self.progress("benchmark: repeating small differences in fresh processes")
        share_s = max(LEAST_PASS_S, REPEAT_SHARE * self.request.budget_s / len(doubts))
        try:
            self.contenders = fresh(
                {CANDIDATE, ORIGINAL, CONTROL, *(name for found in doubts.values() for name in found)}
            )
        except (RunnerError, *FAILURES) as error:
            self.remarks.lack(
                f"small differences were not measured again, since no fresh processes could be started: {error}"
            )
            self.contenders = {}
        for workload, case in cases:
            places = {self.rows[at].timed_pass: at for at in doubts if self.rows[at].workload == workload}
            seconds = self._raced_again((workload, case), places, share_s) if places and self.contenders else {}
            for timed_pass, at in places.items():
                self._merge(at, doubts[at], seconds.get(timed_pass, {}))

    def _doubts(self, row: WorkloadTiming) -> set[str]:
        """The baselines that have to be raced again."""
        waits = (row.workload, row.timed_pass) in self._waiting
        return {one.baseline for one in row.comparisons if needs_repeat(one, waits=waits)}

    def _raced_again(
        self, case: tuple[Workload, Case], passes: Collection[Pass], share_s: float
    ) -> dict[Pass, dict[str, Comparison]]:
        """The comparisons by pass and baseline, of those that still run."""
        material = self.referee.material(case)
        if material is None:
            return {}
        material = replace(material, secrets={one: material.secrets[one] for one in passes if one in material.secrets})
        for done in self._prepare(material):
            done.result()
        make_room(material, self.contenders, self.remarks)
        found = {}
        units, names = self._units(material.workload.label()), tuple(self.contenders)
        for timed_pass in material.secrets:
            race = Race(names, question(names), looks_of(units[timed_pass]))
            run_race(race, self.contenders, timed_pass, share_s, self.read)
            right = {name for name, one in self.contenders.items() if one.error is None}
            found[timed_pass] = {
                one.baseline: one for one in race.comparisons() if {one.contender, one.baseline} <= right
            }
        return found

    def _merge(self, at: int, doubts: set[str], seconds: Mapping[str, Comparison]) -> None:
        row = self.rows[at]
        for first in (one for one in row.comparisons if one.baseline in doubts):
            self.remarks.add(notes.not_repeated(row.workload, row.timed_pass, first, seconds.get(first.baseline)))
        merged = tuple(
            repeated(one, seconds.get(one.baseline)) if one.baseline in doubts else one for one in row.comparisons
        )
        self.rows[at] = headed(replace(row, comparisons=merged))

    def _prepare(self, material: Material | None) -> list[Future[None]]:
        if material is None:
            return []
        return [self.pool.submit(prepare, contender, material) for contender in self.contenders.values()]

    def _workload(self, material: Material, rows: dict[Pass, Rows], end: float) -> None:
        passes = list(material.secrets)
        units = self._units(material.workload.label())
        races: dict[Pass, Race] = {}
        for number, timed_pass in enumerate(passes):
            part = units[timed_pass] / sum(units[one] for one in passes[number:])
            share_s = max(LEAST_PASS_S, (end - time.monotonic()) * part)
            names = tuple(self.contenders)
            race = races[timed_pass] = Race(names, question(names), looks_of(units[timed_pass]))
            run_race(race, self.contenders, timed_pass, share_s, self.read)
            if timed_pass in rows:
                self._check(material, rows[timed_pass], timed_pass)
        for timed_pass, race in races.items():
            for contender in self.contenders.values():
                contender.weigh(timed_pass)
            self.rows.append(row(self._finish(material, timed_pass, race)))
            self.remarks.add(notes.early(material.workload, timed_pass, race))
            self.remarks.add(notes.dropped(material.workload, timed_pass, race))
            waiting = [name for name, one in self.contenders.items() if timed_pass in one.waits]
            self.remarks.add(notes.waits(timed_pass, waiting))
            if waiting:
                self._waiting.add((material.workload, timed_pass))
            self.remarks.complete &= len(race.units) >= race.looks[0]

    def _units(self, workload: str) -> dict[Pass, int]:
        """How long the races of a workload may be, which is also how the time is shared."""
        known = {one.timed_pass: one.pairs for one in self.request.lengths if one.workload == workload}
        return {one: looks_of(known.get(one, USUAL_PAIRS))[-1] for one in self.request.passes}

    def _check(self, material: Material, rows: Rows, timed_pass: Pass) -> None:
        """Compare the results of the timed runs with the truth: a wrong candidate loses its times, a wrong original keeps them."""
        asked = {
            name: self.pool.submit(self.contenders[name].computed, timed_pass, material.secrets[timed_pass])
            for name in CHECKED
            if name in self.contenders
        }
        computed = {name: one for name, future in asked.items() if (one := future.result()) is not None}
        original, candidate = computed.get(ORIGINAL), computed.get(CANDIDATE)
        if candidate is not None and same_bits(candidate, original):
            candidate = None  # one check serves both
        checked = [one for one in (original, candidate) if one is not None]
        with span("comparing"):
            faults = [result_error(one, rows, timed_pass) for one in checked]
            if any(faults):
                # Five runs more: only where somebody may be called wrong for a rounding, or for the side of a bend that it took.
                rows = self.referee.bent(material, timed_pass, rows)
                faults = [
                    fault and result_error(one, rows, timed_pass) for fault, one in zip(faults, checked, strict=True)
                ]
        if original is not None and faults[0] is not None:
            self.remarks.add(notes.wrong(material.workload, timed_pass, ORIGINAL, faults[0]))
        if candidate is None:
            return
        fault = faults[-1]
        if fault is not None and original is not None:
            fault = result_error(candidate, rows, timed_pass, [original, *self._again(material, timed_pass)])
        if self.request.standing and fault is not None:
            self.remarks.add(notes.wrong(material.workload, timed_pass, CANDIDATE, fault))
        else:
            self.contenders[CANDIDATE].error = fault
            self.contenders[CANDIDATE].wrong = fault is not None

    def _again(self, material: Material, timed_pass: Pass) -> list[Computed]:
        """The original's results in its other process: where it scatters, one run shows too little of its error."""
        control = self.contenders.get(CONTROL)
        computed = None if control is None else control.computed(timed_pass, material.secrets[timed_pass])
        return [] if computed is None else [computed]

    def _finish(self, material: Material, timed_pass: Pass, race: Race) -> Finish:
        accounts = {
            name: ContenderStatus(one.error, one.peaks.get(timed_pass), one.host_us.get(timed_pass), one.wrong)
            for name, one in self.contenders.items()
        }
        work = material.work(timed_pass, self.gauged.l2_bytes)
        return Finish(material.workload, timed_pass, race, accounts, work, floor(work, self.gauged.rates))
