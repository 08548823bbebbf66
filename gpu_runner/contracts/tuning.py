"""The contract of tuning: measured settings of a candidate's kernels."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts.benchmark import Pass
from gpu_runner.contracts.problem import Workload
from gpu_runner.contracts.verify import CandidateSource

TABLE = "TUNED"


@dataclass(frozen=True)
class Knob:
    """One setting of a pass of the candidate, such as ``num_warps``, and the values to try.

    The candidate's module has a dict ``TUNED`` at its top level: ``{architecture: {pass: ((size up to, {setting: value}), ...)}}``
    with architecture such as ``sm_90``. At each launch it looks there first, for the first entry whose bound is not below the
    row's length (or the number of elements of a flat kernel), and takes what it does not find from its own rule.
    """

    tuned_pass: Pass  # forward or backward
    setting: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class TuneRequest:
    """Find settings for workloads within ``budget_s``: pruned search, early stopping, an interleaved final against the default.

    ``module`` defines ``TUNED``; None: the candidate's own module.
    """

    problem_source: str
    candidate: CandidateSource
    knobs: tuple[Knob, ...]
    dtype: str = "bfloat16"
    workloads: tuple[Workload, ...] = ()  # empty: the problem's
    budget_s: float = 60.0
    module: str | None = None


@dataclass(frozen=True)
class Choice:
    """The settings that won for one pass on one workload; empty where the default won.

    ``size`` is what the candidate looks up by (see ``Knob``), as the candidate itself reported it; ``speedup`` is over the default
    settings, from the final's paired blocks.
    """

    tuned_pass: Pass
    workload: Workload
    size: int
    settings: tuple[tuple[str, int], ...]
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    tried: int


@dataclass(frozen=True)
class TuneResult:
    """``table`` is what ``TUNED`` shall hold for this architecture: pass, then (size up to, settings), sizes rising."""

    choices: tuple[Choice, ...]
    architecture: str | None  # None: no GPU, nothing was tuned
    table: tuple[tuple[Pass, tuple[tuple[int, tuple[tuple[str, int], ...]], ...]], ...] = ()
    gpu: str | None = None
    failed: tuple[tuple[str, str], ...] = ()  # settings that do not run, and why
    complete: bool = True  # False: the budget ended before the search did
    notes: tuple[str, ...] = ()
