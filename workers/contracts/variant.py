"""What models and strategies try: attempts, variants with their notes, what was measured of them, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpu_runner.contracts import Bound, CaseOutcome, Pass, Status, WorkloadTiming


@dataclass(frozen=True)
class Attempt:
    """One proposal of a model for a kernel. ``evidence`` may quote it and is untrusted."""

    number: int  # from 1, in the order in which they were asked for
    task: str  # generate, revise, repair, modify or optimize
    round: int  # 0: asked for at once; from 1: after what failed before
    variation: int
    question: str  # the key of its question; the record is the artifact ``models/STAGE-ATTEMPT/KEY.json``
    # A verdict's status, a fault of the answer, a trouble of the model, style, layout, duplicate, or not judged, needed or faster.
    outcome: str
    evidence: str = ""  # the first thing that was wrong, in a sentence
    tokens: int | None = None  # read and written; None where nobody counted
    chosen: bool = False
    median_us: float | None = None  # of the full pass, over all sizes; None where it was not measured


class Outcome(StrEnum):
    """What became of a variant."""

    kept = "kept"  # better than its parent, and within the guardrails
    proposed = (
        "proposed"  # proved, and its strategy predicts a gain; without a GPU neither time nor guardrails were measured
    )
    no_gain = "no_gain"
    guardrail = "guardrail"
    incorrect = "incorrect"
    does_not_apply = "does_not_apply"  # the strategy finds nothing to change here
    duplicate = "duplicate"  # the same code as an earlier variant
    failed = "failed"  # it could not be measured
    unusable = "unusable"  # no answer of a model could be used


class StopReason(StrEnum):
    """Why the search ended."""

    variants_used = "variants_used"
    no_progress = "no_progress"  # two in a row under 1% better
    target_met = "target_met"
    floor_reached = "floor_reached"
    strategies_used = "strategies_used"  # every strategy whose trigger holds was tried
    no_answer = "no_answer"  # no model answered any more, and nothing else was left
    cancelled = "cancelled"


class Guardrail(StrEnum):
    """A rule that rejects a variant."""

    other_metric = "other_metric"  # more than 5% worse on a metric that is not the goal
    cross_regression = "cross_regression"  # more than 10% worse on the other pass


@dataclass(frozen=True)
class Breach:
    """A guardrail that a variant broke, where, and by how much; ``ratio`` is variant over original, 1.0 for the same."""

    guardrail: Guardrail
    metric: str  # time or memory
    timed_pass: Pass
    workload: str
    ratio: float
    allowed: float


@dataclass(frozen=True)
class Notes:
    """The lab notebook of a variant. The first three are written before it runs, ``learnings`` after."""

    hypothesis: str
    change: str
    expected: str
    learnings: str = ""


@dataclass(frozen=True)
class Variant:
    """One variant. ``rows`` compare it (as the candidate) with v0 (as the original)."""

    name: str  # v1, v2, ...
    parent: str  # v0, v1, ...
    strategy: str  # its id in the catalog
    title: str
    notes: Notes
    outcome: Outcome
    source: str | None = None  # digest of the whole file, in the artifact store
    status: Status | None = None  # of the verdict
    reason: str | None = None  # of an outcome that is not accepted, one sentence
    rows: tuple[WorkloadTiming, ...] = ()
    score: float | None = None  # how many times as fast (or as small) as v0, by the goal; the geometric mean over sizes
    breaches: tuple[Breach, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    attempts: tuple[Attempt, ...] = ()  # of a model, where one wrote it; its notes are untrusted text then

    @property
    def accepted(self) -> bool:
        """Whether others may build on it and it may be applied."""
        return self.outcome in (Outcome.kept, Outcome.proposed)


@dataclass(frozen=True)
class KernelReading:
    """What the source of one Triton kernel contains."""

    name: str
    line: int
    block_sizes: tuple[str, ...]  # names of its constexpr block sizes
    launch: tuple[tuple[str, str], ...]  # keyword settings of its launch, such as num_warps, as source
    grid: str | None
    loads: int
    stores: int
    casts: int
    loops: int
    atomics: int


@dataclass(frozen=True)
class SourceReading:
    """Facts of a kernel's file, read without running it."""

    path: str
    tier: int  # 1 element-wise, 2 reduction, 3 fused
    kernels: tuple[KernelReading, ...]
    saved_tensors: tuple[str, ...]
    in_place: bool
    autotuned: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedStrategy:
    """A strategy whose trigger applies, with the evidence and the expected gain."""

    strategy: str
    title: str
    trigger: str  # the evidence, one sentence
    gain_low: float  # factor on the time of the pass, 1.0 for nothing
    gain_high: float
    bound: Bound = Bound.unknown
    repeats: bool = False  # whether each time is another change, as a model's is

    @property
    def gain(self) -> str | None:
        """The expected gain as text; None where none is known."""
        known = (self.gain_low, self.gain_high) != (1.0, 1.0)
        return f"{self.gain_low:.2f} to {self.gain_high:.2f} times as fast" if known else None


@dataclass(frozen=True)
class ModelReading:
    """A model's diagnosis of what bounds a kernel; untrusted text, next to the diagnosis of the runner's rules."""

    bottleneck: str
    evidence: tuple[str, ...]
    steps: tuple[str, ...]  # what to try, in order


@dataclass(frozen=True)
class ChangedFile:
    """A file that a change touches, with how many lines come and go."""

    path: str
    added: int
    removed: int


@dataclass(frozen=True)
class AddedTest:
    """A test that a change adds. ``before`` is its result without the change, None where it cannot be run there."""

    node: str
    before: CaseOutcome | None
    after: CaseOutcome
