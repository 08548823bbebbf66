"""Reads what Nsight Compute prints with ``--csv --page raw``: one row a launch, one column a counter, a row of units. Pure.

The text is a child's and may be anything; what cannot be read is left out.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpu_runner.contracts.benchmark import Pass
from gpu_runner.contracts.problem import Workload
from gpu_runner.contracts.profiling import KernelCounters, Stall
from gpu_runner.profiler import metrics

MARKER = "spin_kernel"  # the kernel that is launched between two passes
MOST_LAUNCHES = 200
# Source: cuda-tile 1.7, compilation/_name_mangling.py; nvidia-cutlass-dsl 4.8, by what it compiles.
CUTILE_NAME = re.compile(r"(\w+)_Kt\d+_\w+$")
CUTEDSL_NAME = re.compile(r"kernel_cutlass_(\w+?)_tensorptr\w+$")
MOST_STALLS = 4
_MOST_NAME_CHARS = 200
_LEAST_STALL_SHARE = 0.02
# What a unit is in nanoseconds, bytes or percent; others are plain numbers.
_UNITS = {
    "ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9,
    "byte": 1.0, "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9, "tbyte": 1e12,
}  # fmt: skip


@dataclass(frozen=True)
class ProfiledLaunch:
    """One profiled launch: its counters in nanoseconds, bytes, percent or plain numbers."""

    kernel: str
    values: dict[str, float]


def read(text: str) -> list[ProfiledLaunch]:
    """The launches in their order; none where the text holds no table."""
    header, *rows = _table(text) or [[]]
    units = [""] * len(header)
    launches: list[ProfiledLaunch] = []
    for row in rows:
        if not row[header.index("Kernel Name")]:
            units = row
        elif len(launches) < MOST_LAUNCHES:
            launches.append(_launch(header, units, row))
    return launches


def as_csv(text: str, workload: Workload) -> str:
    """The table as CSV behind a column with the workload; a cell that a spreadsheet would take for a formula is quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    header, *rows = _table(text) or [[]]
    writer.writerows(
        [["Workload", *header], *([workload.label(), *map(_cell, row)] for row in rows[: MOST_LAUNCHES + 1])]
    )
    return out.getvalue()


def _cell(text: str) -> str:
    plain = " ".join(text.split())[:_MOST_NAME_CHARS]
    return f"'{plain}" if plain[:1] in ("=", "+", "-", "@") and _number(plain) is None else plain


def _table(text: str) -> list[list[str]]:
    """The header, and below it the rows that have its length: units and launches."""
    rows = _rows(text.splitlines())
    header = next((row for row in rows if "Kernel Name" in row), None)
    return [] if header is None else [header, *(row for row in rows if len(row) == len(header))]


def sections(launches: Sequence[ProfiledLaunch]) -> list[list[ProfiledLaunch]]:
    """Split launches at the markers, which are left out."""
    parts: list[list[ProfiledLaunch]] = [[]]
    for launch in launches:
        if MARKER in launch.kernel:
            parts.append([])
        else:
            parts[-1].append(launch)
    return parts


def source_name(compiled: str) -> str:
    """The function of which a kernel was compiled: cuTile and CuTe DSL append its parameters' types to the name."""
    mangled = CUTEDSL_NAME.match(compiled) or CUTILE_NAME.match(compiled)
    return mangled[1] if mangled else compiled


def counters(launch: ProfiledLaunch, timed_pass: Pass, workload: Workload, own: Iterable[str]) -> KernelCounters:
    """A launch as a contract; ``own`` are the names of the candidate's kernels."""
    values = launch.values
    kernel = source_name(launch.kernel)
    duration_ns = values.get(metrics.DURATION)
    spilled = [values[name] for name in metrics.SPILLED if name in values]
    return KernelCounters(
        kernel,
        timed_pass,
        workload,
        kernel in set(own),
        None if duration_ns is None else duration_ns / 1e3,
        _share(values.get(metrics.DRAM_SHARE)),
        _share(values.get(metrics.L2_SHARE)),
        _share(values.get(metrics.SM_SHARE)),
        _share(values.get(metrics.TENSOR_SHARE)),
        _whole(values.get(metrics.DRAM_BYTES)),
        _share(values.get(metrics.L2_HITS)),
        _share(values.get(metrics.OCCUPANCY)),
        _whole(values.get(metrics.REGISTERS)),
        _whole(sum(spilled)) if spilled else None,
        _whole(values.get(metrics.GRID)),
        _whole(values.get(metrics.BLOCK)),
        stalls(values),
    )


def stalls(values: dict[str, float]) -> tuple[Stall, ...]:
    """Stall reasons, the largest first, as shares of all sampled warp states, including those of warps that could issue."""
    seen = {reason: values.get(metrics.stall_metric(reason), 0.0) for reason in metrics.STALLS}
    total = sum(seen.values())
    if total <= 0:
        return ()
    waits = [Stall(reason, value / total) for reason, value in seen.items() if reason not in metrics.BUSY]
    large = [stall for stall in waits if stall.share >= _LEAST_STALL_SHARE]
    return tuple(sorted(large, key=lambda stall: (-stall.share, stall.reason))[:MOST_STALLS])


def _rows(lines: Sequence[str]) -> Iterator[list[str]]:
    # Lines of the profiler itself start with ==; the program's own output may stand between the rows.
    table = [line for line in lines if line.startswith('"')]
    try:
        yield from csv.reader(table)
    except csv.Error:
        return


def _launch(header: list[str], units: list[str], row: list[str]) -> ProfiledLaunch:
    values: dict[str, float] = {}
    for name, unit, text in zip(header, units, row, strict=True):
        number = _number(text)
        if number is not None and "__" in name:
            values[name] = number * _UNITS.get(unit.strip().lower(), 1.0)
    return ProfiledLaunch(row[header.index("Kernel Name")][:_MOST_NAME_CHARS], values)


def _number(text: str) -> float | None:
    plain = text.strip().replace(",", "")
    if not re.fullmatch(r"-?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?", plain):
        return None
    number = float(plain)
    return number if math.isfinite(number) else None


def _share(percent: float | None) -> float | None:
    return None if percent is None else min(max(percent / 100.0, 0.0), 1.0)


def _whole(number: float | None) -> int | None:
    return None if number is None else round(number)
