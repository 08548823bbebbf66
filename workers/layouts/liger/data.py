"""Rows for a Liger library's benchmark data, taken from what a benchmark script wrote. Pure.

The script runs a candidate's code, so what it wrote is untrusted: only rows of the kernel itself, in a form that the library's
own writer can have produced, are taken.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Collection

from workers.layouts.liger.script_parts import PROVIDERS

MAX_ROWS = 1000
MAX_CELL = 400
MODES = ("forward", "backward", "full")
METRICS = {"speed": "ms", "memory": "MB"}
PLAIN_CELL = re.compile(r"[A-Za-z0-9{\"][^\r\n\x00-\x1f]*|")


def appended(original: str, written: str, kernel: str) -> str | None:
    """Give the data with the kernel's new rows at its end, in its own line ending and column order; None where there are none."""
    newline = "\r\n" if "\r\n" in original else "\n"
    header = next(csv.reader(io.StringIO(original, newline="")), [])
    known = {tuple(row) for row in csv.reader(io.StringIO(original, newline=""))}
    rows = [row for row in rows_of(written, kernel, header, PROVIDERS, MODES) if tuple(row) not in known]
    if not rows:
        return None
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=newline).writerows(rows)
    gap = "" if original.endswith("\n") else newline
    return original + gap + text.getvalue()


def rows_of(
    written: str, kernel: str, header: list[str], providers: Collection[str], modes: Collection[str]
) -> list[list[str]]:
    """Give a kernel's rows in the column order of ``header``, those alone that the library's own writer can have produced."""
    if not header:
        return []
    try:
        reader = csv.DictReader(io.StringIO(written, newline=""), strict=True)
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
