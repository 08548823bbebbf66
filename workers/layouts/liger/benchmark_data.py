"""Benchmark data of a Liger library: rows that a script wrote, rows written anew, and plots of them. Pure."""

from __future__ import annotations

import ast
import csv
import io
import math
import re
from collections.abc import Collection, Iterator

from gpu_runner.contracts import SourceFile
from gpu_runner.contracts.reading import UNPARSABLE
from workers.layouts.liger import paths
from workers.layouts.liger.benchmark_script import PROVIDERS
from workers.layouts.protocol import SuiteRun

MAX_ROWS = 1000
MAX_CELL = 400
MODES = ("forward", "backward", "full")
METRICS = {"speed": "ms", "memory": "MB"}
PLAIN_CELL = re.compile(r"[A-Za-z0-9{\"][^\r\n\x00-\x1f]*|")


def appended(original: str, updated: str, kernel: str) -> str | None:
    """The data with the kernel's new rows at its end, in its own line ending and column order; None where there are none."""
    newline = "\r\n" if "\r\n" in original else "\n"
    header = next(csv.reader(io.StringIO(original, newline="")), [])
    known = {tuple(row) for row in csv.reader(io.StringIO(original, newline=""))}
    rows = [row for row in rows_of(updated, kernel, header, PROVIDERS, MODES) if tuple(row) not in known]
    if not rows:
        return None
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=newline).writerows(rows)
    gap = "" if original.endswith("\n") else newline
    return original + gap + text.getvalue()


def rows_of(
    updated: str, kernel: str, header: list[str], providers: Collection[str], modes: Collection[str]
) -> list[list[str]]:
    """A kernel's rows in the column order of ``header``, those alone that the library's own writer can have produced."""
    if not header:
        return []
    try:
        reader = csv.DictReader(io.StringIO(updated, newline=""), strict=True)
        rows = [row for row in reader if row.get("kernel_name") == kernel and _is_sound(row, header)]
        rows = [
            row for row in rows if row.get("kernel_provider") in providers and row.get("kernel_operation_mode") in modes
        ]
    except csv.Error:
        return []
    return [[row[column] for column in header] for row in rows[:MAX_ROWS]]


def _is_sound(row: dict[str, str], header: list[str]) -> bool:
    cells = [row.get(column) for column in header]
    if any(not isinstance(c, str) or len(c) > MAX_CELL or not PLAIN_CELL.fullmatch(c) for c in cells):
        return False
    return METRICS.get(row.get("metric_name", "")) == row.get("metric_unit") and all(
        _is_measure(row.get(f"y_value_{quantile}", "")) for quantile in (50, 20, 80)
    )


def _is_measure(text: str) -> bool:
    try:
        value = float(text)
    except ValueError:
        return False
    return math.isfinite(value) and value >= 0


# Source: create_unique_key in benchmark/scripts/utils.py of Liger-Kernel 0.8.
KEY = (
    "kernel_name",
    "kernel_provider",
    "kernel_operation_mode",
    "metric_name",
    "x_name",
    "x_value",
    "extra_benchmark_config_str",
    "gpu_name",
)
RENEWED_MODES = ("forward", "backward", "full", "no-grad-forward")
Key = tuple[str, ...]


def renewed(original: str, updated: str, kernel: str, script: str) -> str | None:
    """The data with the kernel's rows replaced and new ones at the end; None where there are no new ones."""
    there = list(_records(original))
    if not there:
        return None
    header = there[0][0]
    kernels = _named_kernels(script) or {kernel}
    providers = _constants(script) | {provider for name, provider in _pairs(there, header) if name in kernels}
    old = {tuple(cells) for cells, _ in there}
    rows = [r for name in sorted(kernels) for r in rows_of(updated, name, header, providers, RENEWED_MODES)]
    rows = [row for row in rows if tuple(row) not in old]
    if not rows or "gpu_name" not in header or len({row[header.index("gpu_name")] for row in rows}) != 1:
        return None
    newline = "\r\n" if "\r\n" in original else "\n"
    fresh = {_key(row, header): _line(row, newline) for row in rows}
    parts = [fresh.pop(_key(cells, header), text) for cells, text in there]
    if fresh and not parts[-1].endswith("\n"):
        parts[-1] += newline
    return "".join([*parts, *fresh.values()])


def _records(text: str) -> Iterator[tuple[list[str], str]]:
    """Each record with its own bytes, quoted line breaks and all."""
    lines = io.StringIO(text, newline="").readlines()
    reader, start = csv.reader(lines), 0
    for cells in reader:
        yield cells, "".join(lines[start : reader.line_num])
        start = reader.line_num


def _pairs(records: list[tuple[list[str], str]], header: list[str]) -> set[tuple[str, str]]:
    if not {"kernel_name", "kernel_provider"} <= set(header):
        return set()
    name, provider = header.index("kernel_name"), header.index("kernel_provider")
    return {(cells[name], cells[provider]) for cells, _ in records[1:] if len(cells) == len(header)}


def _key(cells: list[str], header: list[str]) -> Key:
    row = dict(zip(header, cells, strict=False))
    return tuple(row.get(name, "") for name in KEY)


def _line(row: list[str], newline: str) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=newline).writerow(row)
    return text.getvalue()


def _named_kernels(script: str) -> set[str]:
    """What a script calls its kernels in the data, as an argument or as an entry of its configuration."""
    names: list[ast.expr] = []
    for node in _nodes(script):
        if isinstance(node, ast.keyword) and node.arg == "kernel_name":
            names.append(node.value)
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            names += [value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "kernel_name"]
    return {one.value for one in names if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def _constants(script: str) -> set[str]:
    nodes = _nodes(script)
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def _nodes(script: str) -> list[ast.AST]:
    try:
        return list(ast.walk(ast.parse(script)))
    except UNPARSABLE:
        return []


SWEEP_OPTION = "--sweep-mode"  # older visualizers have none
MODEL_CONFIG, TOKEN_LENGTH = "model_config", "token_length"
GROUPED_BY = ("kernel_name", "metric_name", "kernel_operation_mode", "x_name")


def plot_runs(original: str, updated: str, *, tells_sweeps: bool) -> tuple[SuiteRun, ...]:
    """One run for each kernel, metric and sweep; its data file holds those rows alone, so that no older ones are drawn."""
    rows = list(csv.reader(io.StringIO(updated, newline="")))
    if not rows or not set(GROUPED_BY) <= set(rows[0]):
        return ()
    header, there = rows[0], {tuple(row) for row in csv.reader(io.StringIO(original, newline=""))}
    groups: dict[tuple[str, str, str], list[list[str]]] = {}
    for row in rows[1:]:
        if tuple(row) in there or len(row) != len(header):
            continue
        kernel, metric, _, x_name = _named(row, header)
        sweep = MODEL_CONFIG if x_name == MODEL_CONFIG else TOKEN_LENGTH
        groups.setdefault((kernel, metric, sweep), []).append(row)
    return tuple(_run(*key, header, group, tells_sweeps) for key, group in groups.items())


def _run(
    kernel: str, metric: str, sweep: str, header: list[str], rows: list[list[str]], tells_sweeps: bool
) -> SuiteRun:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([header, *rows])
    options, suffix = ((SWEEP_OPTION, sweep), f"_{sweep}") if tells_sweeps else ((), "")
    modes = dict.fromkeys(_named(row, header)[2] for row in rows)
    return SuiteRun(
        "benchmark",
        (paths.VISUALIZER, "--kernel-name", kernel, "--metric-name", metric, *options, "--overwrite"),
        paths.IMPORT_ROOTS,
        support=(SourceFile(paths.DATA, text.getvalue()),),
        pictures=tuple(f"{paths.VISUALIZATIONS}/{kernel}_{metric}_{mode}{suffix}.png" for mode in modes),
    )


def _named(row: list[str], header: list[str]) -> list[str]:
    return [row[header.index(name)] for name in GROUPED_BY]
