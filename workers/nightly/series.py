"""Series and points: one number of one kernel on one testbed, commit after commit. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from gpu_runner.contracts import BenchmarkResult, Timing, WorkloadTiming

UNKNOWN = ""  # what a record does not say; the same text everywhere, so that equal series have equal keys
KERNEL = "kernel"  # the provider that is the library's own kernel
CANDIDATE, ORIGINAL = "candidate", "original"


class Metric(StrEnum):
    """What a series counts; less is better in each."""

    time_us = "time_us"
    peak_bytes = "peak_bytes"
    wrong_values = "wrong_values"  # 1 where the verdict was that values are wrong, else 0


class PointSource(StrEnum):
    """Where a point comes from."""

    night = "night"
    job = "job"  # the base of an earlier bench
    library = "library"  # the library's own CSV


@dataclass(frozen=True)
class Testbed:
    """Where a number was measured. Another value in any field is another series, so that a new driver is never a regression."""

    __test__ = False

    gpu: str
    gpu_uuid: str = UNKNOWN
    driver: str = UNKNOWN
    torch: str = UNKNOWN
    triton: str = UNKNOWN

    def changes(self, before: Testbed) -> tuple[str, ...]:
        """What differs, such as ``driver 580.1 -> 580.2``."""
        mine, theirs = asdict(self), asdict(before)
        return tuple(
            f"{name} {theirs[name] or '?'} -> {mine[name] or '?'}" for name in mine if mine[name] != theirs[name]
        )


@dataclass(frozen=True)
class SeriesKey:
    """What a series is of. ``provider`` is the library's kernel, or a peer by name, such as ``torch``."""

    repository: str
    kernel: str
    provider: str
    timed_pass: str  # forward, backward, full
    workload: str
    metric: Metric
    testbed: Testbed

    def digest(self) -> str:
        """The key in 64 digits, by which a series is found again."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def on(self, testbed: Testbed) -> SeriesKey:
        """The same series on another testbed."""
        return replace(self, testbed=testbed)


@dataclass(frozen=True)
class Point:
    """A number at a revision: a commit, or the release where a library's CSV names no commit. None: not recorded."""

    revision: str
    measured_at: float
    value: float
    low: float | None = None  # 20th percentile
    high: float | None = None  # 80th percentile
    samples: int | None = None
    floor_share: float | None = None
    sm_clock_mhz: int | None = None  # the lowest while it was measured
    source: PointSource = PointSource.night


Numbers = Iterator[tuple[SeriesKey, Point]]


def host_testbed(gpu: str, host: Mapping[str, str]) -> Testbed:
    """The testbed that a result names by its host's facts."""
    facts = {name: host.get(name, UNKNOWN) for name in ("gpu_uuid", "driver", "torch", "triton")}
    return Testbed(gpu, **facts)


def points_of(
    result: BenchmarkResult,
    repository: str,
    kernel: str,
    revision: str,
    measured_at: float,
    contender: str = CANDIDATE,
    source: PointSource = PointSource.night,
) -> Numbers:
    """The numbers of one contender of a benchmark; none where times were predicted: nothing was measured then."""
    if result.predicted or result.gpu is None:
        return
    testbed = host_testbed(result.gpu, dict(result.host))
    for row in result.rows:
        timing = next((timing for timing in row.timings if timing.contender == contender), None)
        if timing is None or timing.error is not None or row.fault is not None:
            continue
        key = SeriesKey(repository, kernel, KERNEL, row.timed_pass.value, row.workload.label(), Metric.time_us, testbed)
        if timing.median_us is not None:
            yield key, _time(row, timing, timing.median_us, revision, measured_at, source)
        if timing.peak_bytes is not None:
            peak = Point(revision, measured_at, float(timing.peak_bytes), source=source)
            yield replace(key, metric=Metric.peak_bytes), peak


def _time(
    row: WorkloadTiming, timing: Timing, median_us: float, revision: str, measured_at: float, source: PointSource
) -> Point:
    clock = None if row.conditions is None else row.conditions.sm_clock_mhz_low
    share = None if row.floor_us is None else row.floor_us / median_us
    return Point(revision, measured_at, median_us, timing.low_us, timing.high_us, timing.blocks, share, clock, source)
