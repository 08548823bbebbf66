"""Benchmark data of a Liger library after the script of a kernel that stands there ran again. Pure.

The script ran a candidate's code, so what it wrote is untrusted: only rows of that kernel, with providers that its script or the
data itself name, all of one GPU, are taken; every other row stays as it is, byte for byte.
"""

from __future__ import annotations

import ast
import csv
import io
from collections.abc import Iterator

from gpu_runner.contracts.syntax import UNPARSABLE
from workers.layouts.liger.data import rows_of

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
MODES = ("forward", "backward", "full", "no-grad-forward")
Key = tuple[str, ...]


def renewed(original: str, written: str, kernel: str, script: str) -> str | None:
    """Give the data with the kernel's rows replaced, and new ones at the end; None where there is nothing new."""
    there = list(_records(original))
    if not there:
        return None
    header = there[0][0]
    kernels = _named_kernels(script) or {kernel}
    providers = _constants(script) | {provider for name, provider in _pairs(there, header) if name in kernels}
    old = {tuple(cells) for cells, _ in there}
    rows = [r for name in sorted(kernels) for r in rows_of(written, name, header, providers, MODES)]
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
    """Give each record with its own bytes, quoted line breaks and all."""
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
    """Give what a script calls its kernels in the data, as an argument or as an entry of its configuration."""
    found: list[ast.expr] = []
    for node in _nodes(script):
        if isinstance(node, ast.keyword) and node.arg == "kernel_name":
            found.append(node.value)
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            found += [value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "kernel_name"]
    return {one.value for one in found if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def _constants(script: str) -> set[str]:
    nodes = _nodes(script)
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def _nodes(script: str) -> list[ast.AST]:
    try:
        return list(ast.walk(ast.parse(script)))
    except UNPARSABLE:
        return []
