"""Timings as tables, what they come to in a sentence, and how far they can be trusted. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpu_runner.contracts import BenchmarkResult, Comparison, Conditions, Pass, Timing, Word, WorkloadTiming
from service.escape import code, inline
from service.report.layout import (
    DASH,
    bullets,
    counted,
    duration_us,
    folded,
    geometric_mean,
    paragraphs,
    percent,
    ratio,
    size_bytes,
    table,
    usable,
)

CANDIDATE = "candidate"
ORIGINAL = "original"
CONTROL = "control"
Z_95 = 1.959964  # of a 95% interval of the normal distribution


@dataclass(frozen=True)
class PassResult:
    """One pass over all its sizes. ``speedup`` is the geometric mean, None where nothing was compared."""

    timed_pass: Pass
    rows: tuple[WorkloadTiming, ...]
    speedup: float | None
    low: float | None  # 95% interval of the mean, from those of the rows
    high: float | None
    words: tuple[tuple[Word, int], ...]  # how many rows each, those that occur

    def count(self, word: Word) -> int:
        """How many rows got a word."""
        return dict(self.words).get(word, 0)


def by_pass(rows: Sequence[WorkloadTiming], baseline: str = ORIGINAL) -> tuple[PassResult, ...]:
    """Every pass that was timed, in the order of the passes."""
    groups = [(timed_pass, tuple(row for row in rows if row.timed_pass is timed_pass)) for timed_pass in Pass]
    return tuple(_pass_result(timed_pass, members, baseline) for timed_pass, members in groups if members)


def mean_speedup(rows: Iterable[WorkloadTiming], baseline: str = ORIGINAL) -> float | None:
    """How many times as fast the candidate is, the geometric mean over rows; None where nothing was compared."""
    return geometric_mean(value for row in rows if (value := speedup(row, baseline)) is not None)


def overall_speedup(rows: Sequence[WorkloadTiming], baseline: str = ORIGINAL) -> float | None:
    """The one number for a kernel: of forward and backward together where that was timed, else of all that was."""
    together = [row for row in rows if row.timed_pass is Pass.full]
    return mean_speedup(together or rows, baseline)


def speedup(row: WorkloadTiming, baseline: str = ORIGINAL) -> float | None:
    """How many times as fast the candidate is on a row."""
    comparison = compared(row, baseline)
    if comparison is not None:
        return comparison.speedup
    old, new = median_us(row, baseline), median_us(row, CANDIDATE)
    return old / new if usable(old) and usable(new) and new > 0 else None


def compared(row: WorkloadTiming, baseline: str = ORIGINAL) -> Comparison | None:
    """The comparison of the candidate with a baseline."""
    return next((c for c in row.comparisons if (c.contender, c.baseline) == (CANDIDATE, baseline)), None)


def timing(row: WorkloadTiming, contender: str) -> Timing | None:
    """What was measured of a contender."""
    return next((timing for timing in row.timings if timing.contender == contender), None)


def median_us(row: WorkloadTiming, contender: str) -> float | None:
    """A contender's time."""
    timed = timing(row, contender)
    return timed.median_us if timed is not None else None


def memory_ratio(rows: Iterable[WorkloadTiming]) -> float | None:
    """The candidate's peak memory over the original's, the geometric mean over rows; None where it was not measured."""
    return geometric_mean(known for row in rows if (known := row.memory_ratio) is not None)


def overall_memory(rows: Sequence[WorkloadTiming]) -> float | None:
    """The one ratio of peak memory for a kernel: of forward and backward together where that was measured, else of all.

    A pass on its own may hold next to nothing, and a mean over such a ratio and that of both passes is of no use to anyone.
    """
    together = [row for row in rows if row.timed_pass is Pass.full]
    return memory_ratio(together or rows)


def change(value: float | None) -> str:
    """A ratio as what changed, such as "+12%"."""
    if not usable(value):
        return DASH
    return "same" if abs(value - 1) < 0.005 else f"{value - 1:+.0%}"


def with_interval(value: float | None, low: float | None, high: float | None) -> str:
    """A speedup with its interval where there is one."""
    if not usable(value):
        return DASH
    return f"{ratio(value)} ({low:.2f} to {high:.2f})" if usable(low) and usable(high) else ratio(value)


def word_of(result: PassResult) -> str:
    """A pass over its sizes in a word, with the sizes that it is true of where it is not of all."""
    total = sum(count for _, count in result.words)
    lines = [
        word.value if count == total else f"{word.value} on {count} of {total}"
        for word, count in result.words
        if word in (Word.slower, Word.faster)
    ]
    if lines:
        return ", ".join(lines)
    return (Word.undecided if result.count(Word.undecided) else Word.same).value if total else DASH


def _pass_result(timed_pass: Pass, rows: tuple[WorkloadTiming, ...], baseline: str) -> PassResult:
    comparisons = [comparison for row in rows if (comparison := compared(row, baseline)) is not None]
    counts = Counter(comparison.word for comparison in comparisons)
    low, high = _interval(comparisons)
    words = tuple((word, counts[word]) for word in Word if counts[word])
    return PassResult(timed_pass, rows, mean_speedup(rows, baseline), low, high, words)


def _interval(comparisons: Sequence[Comparison]) -> tuple[float | None, float | None]:
    """The interval of the geometric mean, taking the rows as measured independently of each other."""
    if not comparisons or any(min(c.speedup, c.speedup_low, c.speedup_high) <= 0 for c in comparisons):
        return None, None
    centre = sum(math.log(c.speedup) for c in comparisons) / len(comparisons)
    errors = [(math.log(c.speedup_high) - math.log(c.speedup_low)) / (2 * Z_95) for c in comparisons]
    half = Z_95 * math.sqrt(sum(error**2 for error in errors)) / len(errors)
    return math.exp(centre - half), math.exp(centre + half)


MAX_CONDITIONS = 60
HEADER = (
    "workload",
    "pass",
    "baseline against itself",
    "SM clock",
    "memory clock",
    "temperature",
    "throttled",
    "dropped",
)


def noise_sentence(rows: tuple[WorkloadTiming, ...]) -> str:
    """What noise looked like in this very run; nothing where no control was measured."""
    controls = [abs(math.log(row.control.speedup)) for row in rows if row.control and row.control.speedup > 0]
    if not controls:
        return ""
    middle, worst = sorted(controls)[len(controls) // 2], max(controls)
    dropped = sum(row.conditions.dropped_blocks for row in rows if row.conditions)
    left_out = f" {dropped} disturbed rounds were left out." if dropped else ""
    return (
        f"Noise: a baseline measured against itself in the same run differed by {math.expm1(middle):.1%} (median) and "
        f"{math.expm1(worst):.1%} (most). A kernel is called faster or slower only beyond 1% and beyond this noise.{left_out}"
    )


def conditions_section(rows: tuple[WorkloadTiming, ...]) -> str:
    """Control and conditions of every row, folded; nothing where neither was measured."""
    known = [row for row in rows if row.control or row.conditions]
    shown = [_condition_row(row) for row in known[:MAX_CONDITIONS]]
    used = [i for i in range(len(HEADER)) if i < 2 or any(cells[i] != DASH for cells in shown)]
    body = table([HEADER[i] for i in used], [[cells[i] for i in used] for cells in shown])
    more = f"{len(known) - MAX_CONDITIONS} more are left out." if len(known) > MAX_CONDITIONS else ""
    return folded("Noise and conditions", paragraphs(body, more))


def _condition_row(row: WorkloadTiming) -> list[str]:
    return [code(row.workload.label()), row.timed_pass.value, _control(row.control), *_conditions(row.conditions)]


def _control(control: Comparison | None) -> str:
    return DASH if control is None else with_interval(control.speedup, control.speedup_low, control.speedup_high)


def _conditions(conditions: Conditions | None) -> list[str]:
    if conditions is None:
        return [DASH] * 5
    low, high = conditions.sm_clock_mhz_low, conditions.sm_clock_mhz_high
    clock = DASH if low is None or high is None else f"{low} MHz" if low == high else f"{low} to {high} MHz"
    memory = f"{conditions.memory_clock_mhz} MHz" if conditions.memory_clock_mhz is not None else DASH
    temperature = f"{conditions.temperature_c} °C" if conditions.temperature_c is not None else DASH
    reasons = ", ".join(inline(reason, 40) for reason in conditions.throttle_reasons) or DASH
    return [clock, memory, temperature, reasons, str(conditions.dropped_blocks) if conditions.dropped_blocks else DASH]


CONTENDERS = {CANDIDATE: "kernel", ORIGINAL: "before", "eager": "eager", "torch_compile": "torch.compile"}
MAX_ROWS = 24
MAX_CONTENDERS = 6


def speed_sentence(result: BenchmarkResult) -> str:
    """What the measurements come to, in one sentence that claims no more than they show."""
    if result.predicted:
        return f"Speed is only predicted, from the roofline of {_gpu(result)}: nothing was timed."
    rows = [row for row in result.rows if usable(median_us(row, CANDIDATE))]
    if not rows:
        return "Nothing could be timed."
    words = [f"{word.value} on {n}" for word in Word if (n := sum(row.word is word for row in rows))]
    mean = geometric_mean(row.speedup for row in rows if row.speedup is not None)
    middle = f", geometric mean {ratio(mean)}" if mean is not None else ""
    ended = "" if result.complete else " The time budget ended before everything was measured."
    total = counted(len(rows), "measurement")
    return f"Of {total} on {_gpu(result)}, against the best baseline: {', '.join(words)}{middle}.{ended}"


def benchmark_table(result: BenchmarkResult, titles: Mapping[str, str] = CONTENDERS, *, conditions: bool = True) -> str:
    """The table of every workload and pass; what is beyond the first rows is folded. ``titles`` name the contenders."""
    titles = {**CONTENDERS, **titles}
    shown = _rows_table(result, result.rows[:MAX_ROWS], titles)
    rest = _rows_table(result, result.rows[MAX_ROWS:], titles)
    faults = [f"{code(_label(row))}, {row.timed_pass.value}: {inline(row.fault)}" for row in result.rows if row.fault]
    notes = [inline(note) for note in result.notes]
    untimed = ", ".join(code(workload.label()) for workload in result.untimed)
    notes += [f"The budget ended before {untimed}."] if untimed else []
    return paragraphs(
        shown,
        _caption(result),
        folded("More measurements", rest),
        conditions_section(result.rows) if conditions else "",
        bullets([*faults, *notes]),
    )


def memory_table(result: BenchmarkResult, titles: Mapping[str, str] = CONTENDERS) -> str:
    """Peak memory by workload, pass and contender; nothing where none was measured."""
    names, titles = _contenders(result), {**CONTENDERS, **titles}
    rows = []
    for row in result.rows:
        peaks = [size_bytes(timed.peak_bytes if timed else None) for timed in (timing(row, name) for name in names)]
        rows.append([code(_label(row)), row.timed_pass.value, *peaks])
    if all(cell == DASH for row in rows for cell in row[2:]):
        return ""
    return table(
        ("workload", "pass", *(_title(name, titles) for name in names)), rows, numeric=range(2, 2 + len(names))
    )


def _rows_table(result: BenchmarkResult, rows: tuple[WorkloadTiming, ...], titles: Mapping[str, str]) -> str:
    names = _contenders(result)
    shown = [_title(name, titles) for name in names]
    header = ["workload", "pass", *shown, "host", f"against {_title(ORIGINAL, titles)} (95% interval)"]
    best = "against the best baseline" if ORIGINAL in names else "speedup"
    header += [f"{best} (95% interval)", "floor", "of the floor", "verdict"]
    if result.predicted:
        header = ["workload", "pass", *(f"{name}, predicted" for name in shown), "least time", "bytes to move"]
    body = [_workload_row(row, names, titles, predicted=result.predicted) for row in rows]
    used = [i for i in range(len(header)) if i < 2 or any(cells[i] not in (DASH, "") for cells in body)]
    numeric = [position for position, i in enumerate(used) if 2 <= i < len(header) - 1 or (i >= 2 and result.predicted)]
    return table([header[i] for i in used], [[cells[i] for i in used] for cells in body], numeric)


def _workload_row(row: WorkloadTiming, names: list[str], titles: Mapping[str, str], *, predicted: bool) -> list[str]:
    cells = [code(_label(row)), row.timed_pass.value, *(_time(timing(row, name)) for name in names)]
    if predicted:
        return [*cells, duration_us(row.floor_us), size_bytes(row.moved_bytes)]
    median, candidate = median_us(row, CANDIDATE), timing(row, CANDIDATE)
    share = row.floor_us / median if usable(row.floor_us) and usable(median) and median > 0 else None
    word = (
        f"{row.word.value} than {_title(row.against, titles)}"
        if row.against and row.word in _COMPARED
        else row.word.value
    )
    best = with_interval(row.speedup, row.speedup_low, row.speedup_high)
    host = duration_us(candidate.host_us if candidate else None)
    return [*cells, host, _against_before(row), best, duration_us(row.floor_us), percent(share), word]


_COMPARED = (Word.faster, Word.slower)


def _against_before(row: WorkloadTiming) -> str:
    comparison = compared(row)
    if comparison is None:
        return with_interval(speedup(row), None, None)
    return (
        f"{with_interval(comparison.speedup, comparison.speedup_low, comparison.speedup_high)} {comparison.word.value}"
    )


def _time(timing: Timing | None) -> str:
    if timing is None:
        return DASH
    return f"failed: {inline(timing.error, 60)}" if timing.error else duration_us(timing.median_us)


def _caption(result: BenchmarkResult) -> str:
    if not result.rows:
        return ""
    if result.predicted:
        return (
            f"<sub>Predicted for {_gpu(result)}: bytes that must move / bandwidth that a copy is expected to reach. This is a "
            "lower bound for a kernel on a GPU.</sub>"
        )
    text = "Medians. The floor is the least time that the hardware allows."
    if any(timed and usable(timed.host_us) for row in result.rows for timed in row.timings):
        text += " Host is the host's time to queue the pass."
    noise = noise_sentence(result.rows)
    return f"<sub>{text}{f' {noise}' if noise else ''}</sub>"


def _contenders(result: BenchmarkResult) -> list[str]:
    names = dict.fromkeys(timing.contender for row in result.rows for timing in row.timings)
    known = [name for name in CONTENDERS if name in names]
    return [*known, *(name for name in names if name not in CONTENDERS and name != CONTROL)][:MAX_CONTENDERS]


def _title(name: str, titles: Mapping[str, str]) -> str:
    return titles.get(name, inline(name, 40))


def _label(row: WorkloadTiming) -> str:
    return row.workload.label()


def _gpu(result: BenchmarkResult) -> str:
    return inline(result.gpu, 80) if result.gpu else "an unnamed GPU"
