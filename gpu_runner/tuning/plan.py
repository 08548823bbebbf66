"""What is searched and what is only checked: workloads that look settings up by one size share one search. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gpu_runner.benchmark.roofline import FAULT_SHARE, Floor
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.contracts.problem import Workload
from gpu_runner.verify.proof import Call

PASSES = (Pass.forward, Pass.backward)
NEAR = 1.03  # times the floor: what no setting could gain any more is not worth a search
CHECK_WEIGHT = 0.1  # of the time of a search


@dataclass(frozen=True)
class Job:
    """One workload, before anything ran; ``floors`` by pass."""

    workload: Workload
    call: Call
    backward: bool
    input_bytes: int
    floors: Mapping[Pass, Floor]


@dataclass(frozen=True)
class Step:
    """One pass of one workload. ``sizes`` are what its settings were looked up by; ``is_search`` False: a check of what won."""

    job: Job
    tuned_pass: Pass
    sizes: tuple[int, ...]
    defaults: tuple[tuple[str, int], ...]
    is_search: bool

    @property
    def key(self) -> tuple[Pass, int]:
        """Give by what the module's table is looked up."""
        return self.tuned_pass, max(self.sizes)

    @property
    def weight(self) -> float:
        """Give its part of the time."""
        return 1.0 if self.is_search else CHECK_WEIGHT

    @property
    def label(self) -> str:
        """Give pass and workload in words."""
        return f"{self.tuned_pass} at {self.job.workload.label()}"


def steps(
    surveyed: Sequence[tuple[Job, Mapping[str, object]]], wanted: Collection[Pass]
) -> tuple[list[Step], list[str]]:
    """Give the steps, the workload with the most bytes first, and notes on passes that looked nothing up.

    The facts are what a child said of each workload: under ``sizes`` and ``defaults``, by pass.
    """
    found: list[Step] = []
    notes: list[str] = []
    seen: set[tuple[Pass, int]] = set()
    for job, facts in sorted(surveyed, key=lambda pair: -pair[0].input_bytes):
        for tuned_pass in (item for item in PASSES if item in wanted and (item is Pass.forward or job.backward)):
            sizes = _numbers(_of(facts, "sizes", tuned_pass))
            if not sizes:
                label = job.workload.label()
                notes.append(f"The candidate looked no settings up in its {tuned_pass} pass at {label}.")
                continue
            key = (tuned_pass, max(sizes))
            defaults = _settings(_of(facts, "defaults", tuned_pass))
            found.append(Step(job, tuned_pass, sizes, defaults, key not in seen))
            seen.add(key)
    return found, notes


def share(rest: Sequence[Step], left_s: float) -> float:
    """Give the first step's share of the time that is left for all of them. Units: seconds."""
    return max(0.0, left_s) * rest[0].weight / sum(step.weight for step in rest)


def is_near(time_us: float, floor: Floor | None) -> bool:
    """Say whether a time is so close to its floor that nothing is to be gained; a time far below is no time to trust."""
    if floor is None or floor.us is None:
        return False
    return FAULT_SHARE * (floor.sure_us or floor.us) <= time_us <= NEAR * floor.us


def _of(facts: Mapping[str, object], name: str, tuned_pass: Pass) -> object:
    part = facts.get(name)
    return part.get(tuned_pass.value) if isinstance(part, dict) else None


def _numbers(values: object) -> tuple[int, ...]:
    if not isinstance(values, list):
        return ()
    return tuple(value for value in values if type(value) is int and 0 <= value < 2**62)


def _settings(values: object) -> tuple[tuple[str, int], ...]:
    if not isinstance(values, dict):
        return ()
    return tuple((str(name), value) for name, value in values.items() if type(value) is int)
