"""What a night found."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from workers.contracts.job import Failure, Image


@dataclass(frozen=True)
class NightChange:
    """A change in one series, and what the comparison made of it. ``ratio`` is new over old, compared where it could be."""

    kernel: str
    timed_pass: str
    workload: str
    metric: str
    state: str  # quiet, confirmed, undecided, recovered or improved
    evidence: str  # band, change_point, values, recovery or faster
    good: str
    bad: str
    ratio: float
    ratio_low: float | None = None
    ratio_high: float | None = None


@dataclass(frozen=True)
class RegressionUpdate:
    """News of one kernel on one GPU model, for their issue: a confirmed change, or a recovery.

    ``stands``: a confirmed change is left; where none is, the issue is closed. ``gone``: the kernel is no longer there.
    ``standing``: the metrics of what is left; empty where an older version asked.
    """

    kernel: str
    gpu: str
    revision: str
    changes: tuple[NightChange, ...]
    stands: bool
    wrong: str | None = None  # what the verdict says where values are wrong
    images: tuple[Image, ...] = ()
    gone: bool = False
    standing: tuple[str, ...] = ()

    def key(self) -> str:
        """The issue's key."""
        return regression_key(self.kernel, self.gpu)


@dataclass(frozen=True)
class Suspect:
    """A commit, or several in a row, oldest first, of which one made a kernel worse. ``merge`` brought them, where one did."""

    commits: tuple[str, ...]
    unjudged: tuple[str, ...] = ()  # of those between: they do not build, or no word was due
    merge: str | None = None


@dataclass(frozen=True)
class BisectSummary:
    """Which commits of a range made a kernel worse. ``whole`` compares its ends: without ``slower`` nothing was searched."""

    kernel: str
    whole: str  # slower, same, undecided or broken
    suspects: tuple[Suspect, ...]
    steps: int  # comparisons, each an interleaved run of two commits
    good: str
    bad: str
    gpu: str
    ratio: float | None = None  # new over old over the whole range, of what grew most
    titles: tuple[tuple[str, str], ...] = ()  # of the suspects: commit, and its message's first line
    provenance: tuple[tuple[str, str], ...] = ()
    pulls: tuple[tuple[str, int], ...] = ()  # commit, and the pull request that brought it; known once it is published
    images: tuple[Image, ...] = ()
    by_values: bool = False  # what was searched is wrong values: ``steps`` are verdicts


@dataclass(frozen=True)
class DigestUpdate:
    """What became faster or smaller in a week that began at ``since`` (Unix time), for the issue that tells it every week."""

    gpu: str
    revision: str
    since: float
    improved: tuple[NightChange, ...]


def regression_key(kernel: str, gpu: str) -> str:
    """A kernel and a GPU model as one word for a marker, whatever letters they have."""
    return hashlib.sha256(f"{kernel}/{gpu}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class NightKernel:
    """One kernel of a night. ``points`` counts the numbers that were kept of it."""

    kernel: str
    path: str
    points: int = 0
    skipped: Failure | None = None  # why it was not measured
    wrong: str | None = None  # what the verdict says where values are wrong
    by_script: bool = (
        False  # timed by the library's own benchmark script, since its problem is not known: values are unproved
    )
    unproved: str | None = None  # why the verdict neither proved its values nor found them wrong


@dataclass(frozen=True)
class NightlySummary:
    """The result of a night."""

    kernels: tuple[NightKernel, ...]
    changes: tuple[NightChange, ...]
    revision: str
    gpu: str
    known: tuple[str, ...]  # kernels that were measured at this commit on this testbed before
    left: tuple[str, ...]  # kernels for which the budget had no room, those next in turn first
    budget_s: float
    spent_s: float
    new_testbed: tuple[
        str, ...
    ] = ()  # what differs from the testbed of the night before, such as "driver 580.1 -> 580.2"
    improved: tuple[NightChange, ...] = ()  # in the week before, where this is the first night of a week
    provenance: tuple[tuple[str, str], ...] = ()
    standing: tuple[
        str, ...
    ] = ()  # kernels with a confirmed change that has not recovered and that nobody has accepted
    came: tuple[str, ...] = ()  # kernels that were not there at the commit that was measured last
    gone: tuple[str, ...] = ()  # kernels that were there then
