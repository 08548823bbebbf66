"""How far this machine's times can be trusted: kernels raced against themselves, and against themselves with a planted slowdown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from gpu_runner.contracts import (
    BenchmarkRequest,
    BenchmarkResult,
    CandidateSource,
    Pass,
    SourceFile,
    Word,
    Workload,
    WorkloadTiming,
)
from workers.stages.problem import parse

SECONDS_A_ROW = 8.0
CONTROL_ALONE = ("original",)
FALSE_WORDS = (Word.faster, Word.slower)

PLANTED = '''"""The kernel of plain.py, and a wait of so many cycles on the device before it."""

import plain
import torch


def candidate(*args, **kwargs):
    torch.cuda._sleep({cycles})
    return plain.candidate(*args, **kwargs)
'''


@dataclass(frozen=True)
class Trials:
    """How often kernels race against themselves, and how often against a planted slowdown of that share of their time."""

    comparisons: int = 200
    planted: int = 40
    slowdown: float = 0.03


@dataclass(frozen=True)
class CalibrationTools:
    """What a calibration works with: ``write`` gives a kernel's source or raises LookupError with the refusal."""

    write: Callable[[str, str], str]  # problem's source, name
    race: Callable[[BenchmarkRequest], BenchmarkResult]
    say: Callable[[str], None]


@dataclass
class Calibration:
    """What came of it. ``words`` counts the comparisons of kernels with themselves, ``planted`` those with a slowdown."""

    words: dict[Word, int] = field(default_factory=dict)
    planted: dict[Word, int] = field(default_factory=dict)
    ratios: list[float] = field(default_factory=list)  # of kernels with themselves
    slowdowns: list[float] = field(default_factory=list)  # as measured, 0.03 for 3%
    rows: list[tuple[str, str, str, float | None, str]] = field(
        default_factory=list
    )  # problem, workload, pass, us, word
    gpu: str | None = None
    host: tuple[tuple[str, str], ...] = ()
    left_out: list[tuple[str, str]] = field(default_factory=list)  # problem, why

    @property
    def false_words(self) -> int:
        """How often a kernel was called faster or slower than itself."""
        return sum(self.words.get(word, 0) for word in FALSE_WORDS)

    @property
    def detected(self) -> int:
        """How often the planted slowdown was called slower."""
        return self.planted.get(Word.slower, 0)


def calibrate(problems: Sequence[tuple[str, str]], trials: Trials, tools: CalibrationTools) -> Calibration:
    """Race each problem's compiled kernel; problems are names and sources.

    Raises:
        UserFacingError: the environment is at fault.
    """
    result = Calibration()
    each = math.ceil(trials.comparisons / len(problems) / len(Pass))
    for place, (name, source) in enumerate(problems):
        tools.say(f"{place + 1} of {len(problems)}: {name}")
        try:
            source_text = tools.write(source, name)
        except LookupError as refusal:
            result.left_out.append((name, str(refusal)))
            continue
        racer = _Racer(name, source, source_text, _largest(parse(source).workloads), tools)
        control = racer.against_itself(each)
        result.gpu, result.host = control.gpu, control.host
        if control.predicted:
            return result  # no other kernel can be timed here either
        _count(result.words, name, control.rows, result)
        result.ratios += [row.speedup for row in control.rows if row.speedup is not None]
        left = trials.planted - sum(result.planted.values())
        planted = racer.planted(math.ceil(left / (len(problems) - place)), trials.slowdown, control.rows)
        _count(result.planted, f"{name}, planted", planted, result)
        result.slowdowns += [1 / row.speedup - 1 for row in planted if row.speedup]
    return result


@dataclass(frozen=True)
class _Racer:
    """One problem's kernel."""

    name: str
    problem: str
    source: str
    workload: Workload
    tools: CalibrationTools

    def against_itself(self, times: int) -> BenchmarkResult:
        candidate = CandidateSource((SourceFile("candidate.py", self.source),))
        return self.tools.race(self._request(candidate, candidate, times, tuple(Pass)))

    def planted(self, times: int, slowdown: float, rows: Sequence[WorkloadTiming]) -> tuple[WorkloadTiming, ...]:
        cycles = _cycles(rows, slowdown)
        if cycles is None or times <= 0:
            return ()
        # A wait is a launch more, which takes its time too: one race shows how much, and the wait is shortened by it.
        seen = [1 / row.speedup - 1 for row in self._slowed(cycles, 1) if row.speedup]
        if seen:
            cycles = max(1, round(cycles * (2 - seen[0] / slowdown)))
        return self._slowed(cycles, times)

    def _slowed(self, cycles: int, times: int) -> tuple[WorkloadTiming, ...]:
        plain = SourceFile("plain.py", self.source)
        slower = CandidateSource((plain, SourceFile("candidate.py", PLANTED.format(cycles=cycles))))
        original = CandidateSource((plain,), module="plain")
        return self.tools.race(self._request(slower, original, times, (Pass.forward,))).rows

    def _request(
        self, candidate: CandidateSource, original: CandidateSource, times: int, passes: tuple[Pass, ...]
    ) -> BenchmarkRequest:
        return BenchmarkRequest(
            self.problem,
            candidate,
            passes=passes,
            workloads=(self.workload,) * times,
            budget_s=SECONDS_A_ROW * times * len(passes),
            original=original,
            contenders=CONTROL_ALONE,
        )


def _largest(workloads: Sequence[Workload]) -> Workload:
    """The largest of the sizes, at which a wait of a small share of the time is longer than the launch that it needs."""
    return max(workloads, key=lambda w: math.prod(size for _, size in w.sizes))


def _cycles(rows: Iterable[WorkloadTiming], slowdown: float) -> int | None:
    """The device cycles of that share of the forward pass, at the clock that was read; None where it was not."""
    forward = [row for row in rows if row.timed_pass is Pass.forward and row.conditions is not None]
    times = [t.median_us for row in forward for t in row.timings if t.contender == "original" and t.median_us]
    clocks = [
        row.conditions.sm_clock_mhz_high for row in forward if row.conditions and row.conditions.sm_clock_mhz_high
    ]
    if not times or not clocks:
        return None
    return max(1, round(slowdown * statistics.median(times) * statistics.median(clocks)))


def _count(words: dict[Word, int], name: str, rows: Iterable[WorkloadTiming], result: Calibration) -> None:
    for row in rows:
        words[row.word] = words.get(row.word, 0) + 1
        time_us = next((t.median_us for t in row.timings if t.contender == "candidate"), None)
        result.rows.append((name, row.workload.label(), row.timed_pass.value, time_us, row.word.value))
