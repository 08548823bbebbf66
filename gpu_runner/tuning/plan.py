"""What is searched and what is only checked: workloads that look settings up by one size share one search. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gpu_runner.benchmark.roofline import FAULT_SHARE, TimeFloor
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.contracts.problem import Workload
from gpu_runner.messages import PreparedTuning, WorkloadCall
from gpu_runner.verify.proof import ChildCall

PASSES = (Pass.forward, Pass.backward)
NEAR = 1.03  # times the floor: what no setting could gain any more is not worth a search
CHECK_WEIGHT = 0.1  # of the time of a search


@dataclass(frozen=True)
class TuningJob:
    """One workload, before anything ran; ``floors`` by pass."""

    workload: Workload
    call: ChildCall[WorkloadCall]
    backward: bool
    input_bytes: int
    floors: Mapping[Pass, TimeFloor]


@dataclass(frozen=True)
class TuningStep:
    """One pass of one workload. ``sizes`` are what its settings were looked up by; ``is_search`` False: a check of what won."""

    job: TuningJob
    tuned_pass: Pass
    sizes: tuple[int, ...]
    defaults: tuple[tuple[str, int], ...]
    is_search: bool

    @property
    def key(self) -> tuple[Pass, int]:
        """The key of the module's table."""
        return self.tuned_pass, max(self.sizes)

    @property
    def weight(self) -> float:
        """Its share of the time."""
        return 1.0 if self.is_search else CHECK_WEIGHT

    @property
    def label(self) -> str:
        return f"{self.tuned_pass} at {self.job.workload.label()}"


def steps(
    surveyed: Sequence[tuple[TuningJob, PreparedTuning]], wanted: Collection[Pass]
) -> tuple[list[TuningStep], list[str]]:
    """The steps, the workload with the most bytes first, and notes on passes that looked nothing up."""
    planned: list[TuningStep] = []
    notes: list[str] = []
    seen: set[tuple[Pass, int]] = set()
    for job, prepared in sorted(surveyed, key=lambda pair: -pair[0].input_bytes):
        for tuned_pass in (item for item in PASSES if item in wanted and (item is Pass.forward or job.backward)):
            sizes = tuple(size for size in prepared.sizes.get(tuned_pass, ()) if 0 <= size < 2**62)
            if not sizes:
                label = job.workload.label()
                notes.append(f"The candidate read no settings in its {tuned_pass} pass at {label}.")
                continue
            key = (tuned_pass, max(sizes))
            defaults = tuple(prepared.defaults.get(tuned_pass, {}).items())
            planned.append(TuningStep(job, tuned_pass, sizes, defaults, key not in seen))
            seen.add(key)
    return planned, notes


def share(rest: Sequence[TuningStep], left_s: float) -> float:
    """The first step's share of the time left for all of them. Units: seconds."""
    return max(0.0, left_s) * rest[0].weight / sum(step.weight for step in rest)


def is_near(time_us: float, floor: TimeFloor | None) -> bool:
    """Whether a time is so close to its floor that nothing can be gained; a time far below it is not to be trusted."""
    if floor is None or floor.us is None:
        return False
    return FAULT_SHARE * (floor.sure_us or floor.us) <= time_us <= NEAR * floor.us
