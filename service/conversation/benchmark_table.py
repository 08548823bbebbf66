"""Timings as one table, and what they come to in a sentence. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_runner.contracts import BenchmarkResult, Timing, Word, WorkloadTiming
from service.conversation.comparisons import (
    CANDIDATE,
    CONTROL,
    ORIGINAL,
    compared,
    median_us,
    speedup,
    timing,
    with_interval,
)
from service.conversation.conditions import conditions_section, noise_sentence
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

CONTENDERS = {CANDIDATE: "kernel", ORIGINAL: "before", "eager": "eager", "torch_compile": "torch.compile"}
MAX_ROWS = 24
MAX_CONTENDERS = 6


def speed_sentence(result: BenchmarkResult) -> str:
    """Give what the measurements come to, in one sentence that claims no more than they show."""
    if result.predicted:
        return f"Speed is only predicted, from the roofline of {_gpu(result)}: nothing was timed."
    rows = [row for row in result.rows if usable(median_us(row, CANDIDATE))]
    if not rows:
        return "Nothing could be timed."
    words = [f"{word.value} on {n}" for word in Word if (n := sum(row.word is word for row in rows))]
    mean = geometric_mean(row.speedup for row in rows if row.speedup is not None)
    middle = f", geometric mean {ratio(mean)}" if mean is not None else ""
    ended = "" if result.complete else " The time for measuring ended before all of it was done."
    total = counted(len(rows), "measurement")
    return f"Of {total} on {_gpu(result)}, against the best baseline: {', '.join(words)}{middle}.{ended}"


def benchmark_table(result: BenchmarkResult, titles: Mapping[str, str] = CONTENDERS, *, conditions: bool = True) -> str:
    """Give the table of every workload and pass; what is beyond the first rows is folded. ``titles`` name the contenders."""
    titles = {**CONTENDERS, **titles}
    shown = _rows_table(result, result.rows[:MAX_ROWS], titles)
    rest = _rows_table(result, result.rows[MAX_ROWS:], titles)
    faults = [f"{code(_label(row))}, {row.timed_pass.value}: {inline(row.fault)}" for row in result.rows if row.fault]
    notes = [inline(note) for note in result.notes]
    return paragraphs(
        shown,
        _caption(result),
        folded("More measurements", rest),
        conditions_section(result.rows) if conditions else "",
        bullets([*faults, *notes]),
    )


def memory_table(result: BenchmarkResult, titles: Mapping[str, str] = CONTENDERS) -> str:
    """Give peak memory by workload, pass and contender; nothing where none was measured."""
    names, titles = _contenders(result), {**CONTENDERS, **titles}
    rows = []
    for row in result.rows:
        peaks = [size_bytes(found.peak_bytes if found else None) for found in (timing(row, name) for name in names)]
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
    header += [f"{best} (95% interval)", "floor", "of the floor", "so it is"]
    if result.predicted:
        header = ["workload", "pass", *(f"{name}, predicted" for name in shown), "least time", "bytes to move"]
    body = [_row(row, names, titles, predicted=result.predicted) for row in rows]
    used = [i for i in range(len(header)) if i < 2 or any(cells[i] not in (DASH, "") for cells in body)]
    numeric = [position for position, i in enumerate(used) if 2 <= i < len(header) - 1 or (i >= 2 and result.predicted)]
    return table([header[i] for i in used], [[cells[i] for i in used] for cells in body], numeric)


def _row(row: WorkloadTiming, names: list[str], titles: Mapping[str, str], *, predicted: bool) -> list[str]:
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
    found = compared(row)
    if found is None:
        return with_interval(speedup(row), None, None)
    return f"{with_interval(found.speedup, found.speedup_low, found.speedup_high)} {found.word.value}"


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
    told = "Medians. The floor is the least time that the hardware allows."
    if any(found and usable(found.host_us) for row in result.rows for found in row.timings):
        told += " Host is what the host needs to queue the pass."
    noise = noise_sentence(result.rows)
    return f"<sub>{told}{f' {noise}' if noise else ''}</sub>"


def _contenders(result: BenchmarkResult) -> list[str]:
    found = dict.fromkeys(timing.contender for row in result.rows for timing in row.timings)
    known = [name for name in CONTENDERS if name in found]
    return [*known, *(name for name in found if name not in CONTENDERS and name != CONTROL)][:MAX_CONTENDERS]


def _title(name: str, titles: Mapping[str, str]) -> str:
    return titles.get(name, inline(name, 40))


def _label(row: WorkloadTiming) -> str:
    return row.workload.label()


def _gpu(result: BenchmarkResult) -> str:
    return inline(result.gpu, 80) if result.gpu else "an unnamed GPU"
