"""A door: what `msprof` counts of the kernels of a program on an Ascend NPU. Pure but for ``count``, which starts it.

Source: MindStudio's reference of profile data, `op_summary`: one row a task, and columns that follow from ``--aic-metrics``. Cores
whose cube and vector units are apart have columns that begin with ``aic_`` and ``aiv_``, others the same without.
"""

from __future__ import annotations

import csv
import io
import math
import shlex
import shutil
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.contracts import Failure, FailureCode, UserFacingError

METRICS = (
    "PipeUtilization",
    "Memory",
)  # a run of the program each: the counters of one do not fit beside those of the other
SUMMARY = "op_summary_*.csv"
NAME, DURATION = "Op Name", "Task Duration(us)"
PROGRAMS = ("Block Num", "Block Dim")  # by the release of CANN
SIDES = ("aiv_", "aic_", "")
MOST_CHARS = 300


@dataclass(frozen=True)
class NpuKernel:
    """A kernel's launches. Shares are of a core's cycles, 0 to 1, of the busier side where both took part; None: not counted."""

    kernel: str
    launches: int
    duration_us: float  # the median
    vector_share: float | None
    cube_share: float | None
    scalar_share: float | None
    load_share: float | None  # moving from global memory
    store_share: float | None
    read_gbps: float | None  # of all cores, both sides added up
    write_gbps: float | None
    programs: int | None

    @property
    def bound(self) -> str:
        """What the cores' cycles go into, as ``memory_bound`` of `op_summary` has it; empty where it was not counted."""
        moving = max(self.load_share or 0.0, self.store_share or 0.0)
        computing = max(self.vector_share or 0.0, self.cube_share or 0.0)
        scalar = self.scalar_share or 0.0
        if not max(moving, computing, scalar):
            return ""
        return "memory" if moving >= max(computing, scalar) else "compute" if computing >= scalar else "scalar unit"


def count(folder: Path, command: Sequence[str]) -> None:
    """Run a program under `msprof`, once for each of ``METRICS``; it writes below the folder.

    Raises:
        UserFacingError: there is no `msprof`, or it fails; with its last words.
    """
    tool = shutil.which("msprof")
    if tool is None:
        fix = "`source /usr/local/Ascend/ascend-toolkit/set_env.sh`; `kernelsmith doctor --target ascend` names what else lacks."
        raise UserFacingError(Failure(FailureCode.environment, "`msprof` is not on PATH", fix))
    for metrics in METRICS:
        options = [f"--output={folder}", f"--aic-metrics={metrics}", f"--application={shlex.join(command)}"]
        done = subprocess.run([tool, *options], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            message = f"`msprof` ended with exit code {done.returncode}"
            log = (done.stderr.strip() or done.stdout.strip())[-2000:]
            fix = "Run the command without it: what fails there fails here."
            raise UserFacingError(Failure(FailureCode.environment, message, fix, log=log))


def counted(folder: Path) -> tuple[NpuKernel, ...]:
    """The kernels of all summaries below a folder, those that took most time first.

    Raises:
        UserFacingError: there is none, or it has not the columns.
    """
    texts = {str(path.relative_to(folder)): path.read_text("utf-8-sig") for path in sorted(folder.rglob(SUMMARY))}
    if not texts:
        fix = "`msprof` writes it into `PROF_*/mindstudio_profiler_output`, of raw data with `--export=on --output=PROF_FOLDER`."
        raise UserFacingError(Failure(FailureCode.missing, f"no `{SUMMARY}` lies below `{folder}`", fix))
    rows = [row for name, text in texts.items() for row in read(name, text)]
    kernels = dict.fromkeys(row[NAME] for row in rows)
    found = (_kernel(name, [row for row in rows if row[NAME] == name]) for name in kernels)
    return tuple(sorted(found, key=lambda kernel: -kernel.duration_us * kernel.launches))


def read(name: str, text: str) -> list[Mapping[str, str]]:
    """The rows of a summary that have a time.

    Raises:
        UserFacingError: it has not the columns that say which kernel, and how long it took.
    """
    table = csv.DictReader(io.StringIO(text))
    columns = [column.strip() for column in table.fieldnames or ()]
    lacking = [column for column in (NAME, DURATION) if column not in columns]
    if lacking:
        message = f"`{name}` has no column {' and no column '.join(f'`{column}`' for column in lacking)}"
        fix = (
            f"Its columns are: {', '.join(columns) or 'none'}"[:MOST_CHARS]
            + ". It is of another release, or no op_summary."
        )
        raise UserFacingError(Failure(FailureCode.refused, message, fix))
    table.fieldnames = columns
    return [row for row in table if _number(row, DURATION) is not None]


def _kernel(name: str, rows: Sequence[Mapping[str, str]]) -> NpuKernel:
    timed = [row for row in rows if _share(row, "vec", "mac", "scalar") is not None] or rows
    programs = _median(_first(row, PROGRAMS) for row in timed)
    shares = {unit: _median(_share(row, unit) for row in rows) for unit in ("vec", "mac", "scalar", "mte2", "mte3")}
    rates = {way: _median(_bandwidth(row, way) for row in rows) for way in ("read", "write")}
    return NpuKernel(
        name,
        len(timed),
        statistics.median(float(row[DURATION]) for row in timed),
        shares["vec"],
        shares["mac"],
        shares["scalar"],
        shares["mte2"],
        shares["mte3"],
        rates["read"],
        rates["write"],
        None if programs is None else int(programs),
    )


def _share(row: Mapping[str, str], *units: str) -> float | None:
    values = (_number(row, f"{side}{unit}_ratio") for unit in units for side in SIDES)
    return max((value for value in values if value is not None), default=None)


def _bandwidth(row: Mapping[str, str], way: str) -> float | None:
    values = [_number(row, f"{side}main_mem_{way}_bw(GB/s)") for side in SIDES]
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _first(row: Mapping[str, str], columns: Iterable[str]) -> float | None:
    return next((number for column in columns if (number := _number(row, column)) is not None), None)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _number(row: Mapping[str, str], column: str) -> float | None:
    """What a cell holds; None where it is `N/A`, empty or not there."""
    try:
        number = float((row.get(column) or "").strip())
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
