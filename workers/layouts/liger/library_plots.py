"""The library's own plots of the rows that its benchmark script wrote: what its visualizer is run with. Pure.

Source: benchmark/benchmarks_visualizer.py and benchmark/README.md of Liger-Kernel 0.8.
"""

from __future__ import annotations

import csv
import io

from gpu_runner.contracts import SourceFile
from workers.layouts.liger import paths
from workers.layouts.protocol import SuiteRun

SWEEP_OPTION = "--sweep-mode"  # older visualizers have none
MODEL_CONFIG, TOKEN_LENGTH = "model_config", "token_length"
GROUPED_BY = ("kernel_name", "metric_name", "kernel_operation_mode", "x_name")


def plot_runs(original: str, written: str, *, tells_sweeps: bool) -> tuple[SuiteRun, ...]:
    """One run for each kernel, metric and sweep; its data file holds those rows alone, so that no older ones are drawn."""
    rows = list(csv.reader(io.StringIO(written, newline="")))
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
    told, suffix = ((SWEEP_OPTION, sweep), f"_{sweep}") if tells_sweeps else ((), "")
    modes = dict.fromkeys(_named(row, header)[2] for row in rows)
    return SuiteRun(
        "benchmark",
        (paths.VISUALIZER, "--kernel-name", kernel, "--metric-name", metric, *told, "--overwrite"),
        paths.IMPORT_ROOTS,
        support=(SourceFile(paths.DATA, text.getvalue()),),
        pictures=tuple(f"{paths.VISUALIZATIONS}/{kernel}_{metric}_{mode}{suffix}.png" for mode in modes),
    )


def _named(row: list[str], header: list[str]) -> list[str]:
    return [row[header.index(name)] for name in GROUPED_BY]
