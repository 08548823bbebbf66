"""The CSV in which liger-kernel keeps its benchmark's numbers, read as series. Pure."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from workers.nightly.series import KERNEL, Metric, Point, PointSource, SeriesKey, Testbed

REQUIRED = (
    "kernel_name",
    "kernel_provider",
    "kernel_operation_mode",
    "metric_name",
    "metric_unit",
    "x_name",
    "x_value",
    "y_value_50",
    "gpu_name",
    "timestamp",
    "liger_version",
)
OPTIONAL = ("y_value_20", "y_value_80", "extra_benchmark_config_str")
UNITS = {
    "speed": (Metric.time_us, {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}),
    # As torch's own statistics have it, in steps of 1024 under either name.
    "memory": (
        Metric.peak_bytes,
        {"B": 1.0} | {f"{step}{b}": 2.0 ** (10 * n) for n, step in enumerate("KMG", 1) for b in ("B", "iB")},
    ),
}
SEPARATORS = ",;\t"
# What a database takes: no NUL, and no more than a column has room for.
LONGEST = {"kernel_provider": 100, "kernel_operation_mode": 20, "gpu_name": 200, "liger_version": 90}
LONGEST_TEXT = 2000
OWN_PROVIDER = "liger"
MOST_PROBLEMS = 20


class NoLibraryCsvError(ValueError):
    """A text is not in the form of the library's CSV; the message says what is missing."""


@dataclass(frozen=True)
class LibraryRows:
    """What a CSV holds. ``problems`` name the lines that cannot be used, the first of them; ``dropped`` counts them all."""

    numbers: tuple[tuple[SeriesKey, Point], ...]
    dropped: int
    problems: tuple[str, ...]


def read_library_csv(text: str, repository: str) -> LibraryRows:
    """Read every line; of lines that speak of the same series and release, the one measured last counts.

    Cells are separated by what separates those of the first line: commas, semicolons or tabs.

    Raises:
        NoLibraryCsvError: the first line does not name the columns.
    """
    text = text.removeprefix("\ufeff")
    separator = max(SEPARATORS, key=text.partition("\n")[0].count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
    missing = [name for name in REQUIRED if name not in (reader.fieldnames or ())]
    if missing:
        raise NoLibraryCsvError(f"the first line names no column {', '.join(map(repr, missing))}")
    latest: dict[tuple[SeriesKey, str], Point] = {}
    problems: list[str] = []
    dropped = 0
    try:
        for row in reader:
            if row["kernel_name"] == "kernel_name":  # of another such file behind this one
                continue
            try:
                key, point = _number(row, repository)
            except ValueError as error:
                dropped += 1
                problems += [f"line {reader.line_num}: {error}"] if len(problems) < MOST_PROBLEMS else []
                continue
            known = latest.get((key, point.revision))
            if known is None or known.measured_at <= point.measured_at:
                latest[key, point.revision] = point
    except csv.Error as error:
        raise NoLibraryCsvError(f"line {reader.line_num} cannot be read: {error}") from error
    return LibraryRows(tuple((key, point) for (key, _), point in latest.items()), dropped, tuple(problems))


def _number(row: Mapping[str, str | None], repository: str) -> tuple[SeriesKey, Point]:
    cells = {name: (row.get(name) or "").strip() for name in (*REQUIRED, *OPTIONAL)}
    empty = [name for name in ("kernel_name", "gpu_name", "liger_version", "x_name") if not cells[name]]
    if empty:
        raise ValueError(f"{empty[0]} is empty")
    unfit = [name for name, cell in cells.items() if "\x00" in cell or len(cell) > LONGEST.get(name, LONGEST_TEXT)]
    if unfit:
        raise ValueError(f"{unfit[0]} is too long, or holds a NUL")
    metric, units = UNITS.get(cells["metric_name"], (None, {}))
    scale = units.get(cells["metric_unit"])
    if metric is None or scale is None:
        raise ValueError(f"{cells['metric_name']!r} in {cells['metric_unit']!r} is no known metric")
    provider = cells["kernel_provider"]
    key = SeriesKey(
        repository,
        cells["kernel_name"],
        KERNEL if provider == OWN_PROVIDER else provider,
        cells["kernel_operation_mode"],
        _workload(cells),
        metric,
        Testbed(cells["gpu_name"]),
    )
    point = Point(
        revision=f"v{cells['liger_version'].removeprefix('v')}",
        measured_at=_time(cells["timestamp"]),
        value=_quantity(cells, "y_value_50", scale),
        low=_quantity(cells, "y_value_20", scale) if cells["y_value_20"] else None,
        high=_quantity(cells, "y_value_80", scale) if cells["y_value_80"] else None,
        source=PointSource.library,
    )
    if (point.low or point.value) > point.value or (point.high or point.value) < point.value:
        raise ValueError("y_value_50 lies outside of y_value_20 to y_value_80")
    return key, point


def _workload(cells: Mapping[str, str]) -> str:
    """The size in one line: the axis of the plot, then what is the same for the whole plot, in the order of names."""
    text = cells["extra_benchmark_config_str"]
    try:
        config = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:  # or nested too deep to be read
        raise ValueError(f"extra_benchmark_config_str is no JSON: {text[:40]!r}") from error
    if not isinstance(config, dict):
        raise ValueError(f"extra_benchmark_config_str is no object: {text[:40]!r}")
    rest = [f"{name}={_plain(config[name])}" for name in sorted(config)]
    return " ".join([f"{cells['x_name']}={cells['x_value']}", *rest])


def _plain(value: object) -> str:
    return value.removeprefix("torch.") if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _quantity(cells: Mapping[str, str], name: str, scale: float) -> float:
    text = cells[name]
    try:
        value = float(text) * scale
    except ValueError:
        raise ValueError(f"{name} is no number: {text[:40]!r}") from None
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"{name} is no time or size: {text[:40]!r}")
    return value


def _time(text: str) -> float:
    try:
        read = datetime.fromisoformat(text)
        # In UTC its year may be one that no calendar has.
        return (read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"timestamp is no time: {text[:40]!r}") from None
