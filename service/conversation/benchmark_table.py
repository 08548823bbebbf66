"""Timings as one table, and what they come to in a sentence. Pure."""

from __future__ import annotations

from gpu_runner.contracts import BenchmarkResult, Timing, Word, WorkloadTiming
from service.conversation.markdown import bullets, folded, paragraphs, table
from service.conversation.quantities import (
    DASH,
    counted,
    duration_us,
    geometric_mean,
    percent,
    ratio,
    size_bytes,
    usable,
)
from service.escape import code, inline

CANDIDATE = "candidate"
CONTENDERS = {CANDIDATE: "kernel", "eager": "eager", "torch_compile": "torch.compile"}
MAX_ROWS = 24
MAX_CONTENDERS = 6


def speed_sentence(result: BenchmarkResult) -> str:
    """Give what the measurements come to, in one sentence that claims no more than they show."""
    if result.predicted:
        return f"Speed is only predicted, from the roofline of {_gpu(result)}: nothing was timed."
    rows = [row for row in result.rows if usable(_median(row, CANDIDATE))]
    if not rows:
        return "Nothing could be timed."
    words = [f"{word.value} on {n}" for word in Word if (n := sum(row.word is word for row in rows))]
    mean = geometric_mean(row.speedup for row in rows if row.speedup is not None)
    middle = f", geometric mean {ratio(mean)}" if mean is not None else ""
    ended = "" if result.complete else " The time for measuring ended before all of it was done."
    total = counted(len(rows), "measurement")
    return f"Of {total} on {_gpu(result)}, against the best baseline: {', '.join(words)}{middle}.{ended}"


def benchmark_table(result: BenchmarkResult) -> str:
    """Give the table of every workload and pass; what is beyond the first rows is folded."""
    shown = _rows_table(result, result.rows[:MAX_ROWS])
    rest = _rows_table(result, result.rows[MAX_ROWS:])
    faults = [f"{code(_label(row))}, {row.timed_pass.value}: {inline(row.fault)}" for row in result.rows if row.fault]
    notes = [inline(note) for note in result.notes]
    return paragraphs(shown, _caption(result), folded("More measurements", rest), bullets([*faults, *notes]))


def memory_table(result: BenchmarkResult) -> str:
    """Give peak memory by workload, pass and contender; nothing where none was measured."""
    names = _contenders(result)
    rows = []
    for row in result.rows:
        peaks = [size_bytes(timing.peak_bytes if timing else None) for timing in (_timing(row, n) for n in names)]
        rows.append([code(_label(row)), row.timed_pass.value, *peaks])
    if all(cell == DASH for row in rows for cell in row[2:]):
        return ""
    return table(("workload", "pass", *map(_title, names)), rows, numeric=range(2, 2 + len(names)))


def _rows_table(result: BenchmarkResult, rows: tuple[WorkloadTiming, ...]) -> str:
    names = _contenders(result)
    header = ["workload", "pass", *map(_title, names), "speedup (95% interval)", "floor", "of the floor", "so it is"]
    if result.predicted:
        header = ["workload", "pass", *(f"{_title(name)}, predicted" for name in names), "least time", "bytes to move"]
    body = [_row(row, names, predicted=result.predicted) for row in rows]
    used = [i for i in range(len(header)) if i < 2 or any(cells[i] not in (DASH, "") for cells in body)]
    numeric = [position for position, i in enumerate(used) if 2 <= i < len(header) - 1 or (i >= 2 and result.predicted)]
    return table([header[i] for i in used], [[cells[i] for i in used] for cells in body], numeric)


def _row(row: WorkloadTiming, names: list[str], *, predicted: bool) -> list[str]:
    cells = [code(_label(row)), row.timed_pass.value, *(_time(_timing(row, name)) for name in names)]
    if predicted:
        return [*cells, duration_us(row.floor_us), size_bytes(row.moved_bytes)]
    median = _median(row, CANDIDATE)
    share = row.floor_us / median if usable(row.floor_us) and usable(median) and median > 0 else None
    word = f"{row.word.value} than {_title(row.against)}" if row.against and row.word in _COMPARED else row.word.value
    return [*cells, _speedup(row), duration_us(row.floor_us), percent(share), word]


_COMPARED = (Word.faster, Word.slower)


def _speedup(row: WorkloadTiming) -> str:
    if not usable(row.speedup):
        return DASH
    if not (usable(row.speedup_low) and usable(row.speedup_high)):
        return ratio(row.speedup)
    return f"{ratio(row.speedup)} ({row.speedup_low:.2f} to {row.speedup_high:.2f})"


def _time(timing: Timing | None) -> str:
    if timing is None:
        return DASH
    return f"failed: {inline(timing.error, 60)}" if timing.error else duration_us(timing.median_us)


def _caption(result: BenchmarkResult) -> str:
    if not result.rows:
        return ""
    if result.predicted:
        return (
            f"<sub>Predicted for {_gpu(result)}: the bytes that must move, over the bandwidth that a copy is expected to reach. "
            "A kernel on a GPU takes longer than this.</sub>"
        )
    return "<sub>Medians. The floor is the least time that the hardware allows.</sub>"


def _contenders(result: BenchmarkResult) -> list[str]:
    found = dict.fromkeys(timing.contender for row in result.rows for timing in row.timings)
    known = [name for name in CONTENDERS if name in found]
    return [*known, *(name for name in found if name not in CONTENDERS)][:MAX_CONTENDERS]


def _title(name: str | None) -> str:
    return CONTENDERS.get(name or "", inline(name or "", 40))


def _timing(row: WorkloadTiming, contender: str) -> Timing | None:
    return next((timing for timing in row.timings if timing.contender == contender), None)


def _median(row: WorkloadTiming, contender: str) -> float | None:
    timing = _timing(row, contender)
    return timing.median_us if timing else None


def _label(row: WorkloadTiming) -> str:
    return row.workload.label()


def _gpu(result: BenchmarkResult) -> str:
    return inline(result.gpu, 80) if result.gpu else "an unnamed GPU"
