"""Ports a library's operators to Ascend anew, and shows each next to the library's own port.

    python -m tests.ports LIBRARY [NAME ...] --out FOLDER [--jobs 2]

LIBRARY is an unpacked liger-kernel. Of each NAME the library's own file for Ascend and its exports are taken out of a copy,
`kernelsmith port NAME --to ascend --auto` is run there, which ends where its definition of done does not hold, and what it wrote
is held against what was taken out. FOLDER/table.md has the tables; exit 1 where one was not done. With KERNELSMITH_ASCEND_PYTHON,
the Python of an environment with Triton-Ascend, every kernel of both is lowered to the linalg dialect.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

OPS = Path("src/liger_kernel/ops/backends/_ascend/ops")
EXPORTS = OPS / "__init__.py"
THEIRS = (
    "tvd",  # the longest first, so that two at a time end together
    "kl_div",
    "rms_norm",
    "fused_add_rms_norm",
    "swiglu",
    "geglu",
    "layer_norm",
    "softmax",
    "dyt",
    "poly_norm",
    "sparsemax",
)
NEW = ("modulated_rms_norm", "fused_linear_kl_div", "relu_squared")
HEAD = (
    "| operator | done | symbols of the library's own port | parameters | values that it does not take | parity "
    "| memory multiplier, ours and theirs | registration written | seconds |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | ---: |"
)
TILES = (
    "| operator, size | whose | kernels: tile, programs | lowered | bits alive at most | with double buffering | errors in the "
    "interpreter |\n| --- | --- | --- | --- | ---: | ---: | --- |"
)
UB_BITS = "1572864"
REFERENCES = Path("workers/layouts/liger/references")
PROBLEMS = Path(__file__).parent / "problems"  # of operators that the layout knows none of
LONGEST_S = 1800


@dataclass
class OwnPort:
    """The library's own port, as it was taken out: what it exports, the parameters of each Function, its multipliers."""

    exported: tuple[str, ...] = ()
    parameters: dict[str, str] = field(default_factory=dict)
    multipliers: tuple[float, ...] = ()
    launches: list[dict[str, Any]] = field(default_factory=list)
    lowered: list[dict[str, Any]] = field(default_factory=list)
    parity: str = ""
    workload: str = ""


def launched(checkout: Path, name: str) -> dict[str, Any]:
    """How the library's own port launches its kernels, what Triton-Ascend makes of them, and its errors; nothing of one that
    cannot be called here."""
    file = REFERENCES / f"{name}.py"
    if not (checkout / OPS / f"{name}.py").is_file() or not file.is_file():
        return {}
    environment = {
        **os.environ,
        "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{Path.cwd()}",
        "ASCEND_UB_CAPACITY_BITS": UB_BITS,
        "TRITON_INTERPRET": "1",
    }
    command = [sys.executable, "-m", "tests.ports.own", name, str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    if done.returncode != 0:
        sys.stderr.write(f"{name}: the library's own port cannot be called here: {done.stderr.strip()[-300:]}\n")
        return {}
    answer: dict[str, Any] = json.loads(done.stdout)
    python = os.environ.get("KERNELSMITH_ASCEND_PYTHON")
    if python is not None:
        script = str(Path(__file__).with_name("own.py"))
        lowering = subprocess.run(
            [python, script, str(checkout / OPS / f"{name}.py")],
            input=json.dumps(answer["launches"]),
            env={"PATH": "/usr/bin:/bin", "TRITON_CACHE_DIR": "/nonexistent"},
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=True,
        )
        answer["lowered"] = json.loads(lowering.stdout)
    return answer


def taken_out(checkout: Path, name: str) -> OwnPort:
    """Take a port out of a checkout with its exports."""
    path, exports = checkout / OPS / f"{name}.py", checkout / EXPORTS
    if not path.is_file():
        return OwnPort()
    tree = ast.parse(path.read_text())
    path.unlink()
    lines = exports.read_text().splitlines(keepends=True)
    own = [line for line in lines if f".ops.{name} import " in line]
    names = tuple(line.rpartition(" import ")[2].strip() for line in own)
    left = [line for line in lines if line not in own and line.strip().strip('",') not in names]
    exports.write_text("".join(left))
    numbers = [
        keyword.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "memory_multiplier" and isinstance(keyword.value, ast.Constant)
    ]
    return OwnPort(names, parameters_of(tree), tuple(sorted({float(number) for number in numbers})))


def parameters_of(tree: ast.Module) -> dict[str, str]:
    """The parameters and defaults of the forward of each autograd Function, without their types."""
    found = {}
    for node in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name == "forward":
                for parameter in (one for one in ast.walk(method.args) if isinstance(one, ast.arg)):
                    parameter.annotation = None
                found[node.name] = ast.unparse(method.args).partition(", ")[2]
    return found


def ported(library: Path, out: Path, name: str) -> tuple[str, list[str], bool]:
    """The row of an operator, those of its tiles, and whether it is as it should be."""
    started = time.monotonic()
    checkout = out / name / "checkout"
    shutil.copytree(library, checkout, ignore=shutil.ignore_patterns(".git"))
    launches = launched(checkout, name)
    own = taken_out(checkout, name)
    own = replace(own, **launches)
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "start")):
        git = ("git", "-C", str(checkout), "-c", "user.name=ports", "-c", "user.email=ports@example.com")
        subprocess.run([*git, *command], check=True, timeout=LONGEST_S)
    command = [
        sys.executable,
        "-m",
        "service.cli",
        "port",
        name,
        "--repo",
        str(checkout),
        "--out",
        str(out / name),
        "--auto",
        "--json",
    ]
    problem = PROBLEMS / f"{name}.py"
    command += ["--problem", str(problem)] if problem.is_file() else []
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    (out / name / "printed.log").write_text(done.stdout + done.stderr)
    shutil.rmtree(checkout)
    summary = out / name / "port.json"
    if done.returncode != 0 or not summary.is_file():
        return f"| {name} | **no**: {_reason(done)} | | | | | | | {time.monotonic() - started:.0f} |", [], False
    told = json.loads(summary.read_text())
    row = _row(name, own, told, out / name / f"{name}.py")
    return f"{row} {time.monotonic() - started:.0f} |", _tiles(name, own, told), True


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    try:
        return str(json.loads(done.stdout)["failure"]["message"])
    except (ValueError, KeyError, TypeError):
        return " ".join((done.stderr or done.stdout).split())[:300].replace("|", "\\|")


def _row(name: str, own: OwnPort, summary: dict[str, Any], source: Path) -> str:
    exported = {entry["name"] for entry in summary["api"] if entry["exported"]}
    missing = [symbol for symbol in own.exported if symbol not in exported]
    symbols = "" if not own.exported else f"{len(own.exported) - len(missing)} of {len(own.exported)}"
    symbols += f", without {', '.join(f'`{symbol}`' for symbol in missing)}" if missing else ""
    ours = parameters_of(ast.parse(source.read_text()))
    other = [symbol for symbol, text in own.parameters.items() if ours.get(symbol, text) != text]
    parameters = (
        "" if not own.parameters else "the same" if not other else f"other ones: {', '.join(f'`{s}`' for s in other)}"
    )
    verdicts = [entry["verdict"]["status"] for entry in summary["parities"]]
    parity = f"{verdicts.count('passed')} of {len(verdicts)} calls passed"
    counted = sorted({entry["multiplier"] for entry in summary["tilings"]})
    multipliers = " and ".join(", ".join(f"{n:g}" for n in numbers) or "none" for numbers in (counted, own.multipliers))
    narrowed = "; ".join(f"`{text}` alone" if " = " in text else text for text in summary["narrowed"]) or "none"
    files = summary["files"]
    registered = "yes" if any(path.endswith(f"_ascend/{name}.py") for path in files) else ""
    cells = (name, "yes", symbols, parameters, narrowed, parity, multipliers, registered)
    return f"| {' | '.join(cells)} |"


def _tiles(name: str, own: OwnPort, summary: dict[str, Any]) -> list[str]:
    """A row of the port's tiles at its last size, and one of the library's own."""
    workload = own.workload or summary["tilings"][-1]["workload"]
    last = summary["tilings"][-1]["workload"]
    at = [entry for entry in summary["tilings"] if entry["workload"] == workload]
    at = at or [entry for entry in summary["tilings"] if entry["workload"] == last]
    tiles = list(dict.fromkeys(f"{entry['rows']} x {entry['columns']}, {entry['programs']}" for entry in at))
    verdicts = {entry["verdict"]["status"] for entry in summary["parities"]}
    rows = [_tile_row(f"{name}, {workload}", "ours", tiles, summary["lowered"], ", ".join(verdicts))]
    if own.launches:
        theirs = [f"{_tile(launch['constants'])}, {math.prod(launch['grid'])}" for launch in own.launches]
        rows.append(_tile_row("", "the library's", theirs, own.lowered, own.parity))
    return rows


def _tile(constants: dict[str, Any]) -> str:
    blocks = {n: v for n, v in constants.items() if n.startswith(("BLOCK", "ROWS_PER")) and type(v) is int}
    return " ".join(f"{name}={size}" for name, size in blocks.items())


def _tile_row(what: str, whose: str, tiles: list[str], lowered: list[dict[str, Any]], parity: str) -> str:
    words = [entry for entry in lowered if "error" in entry]
    taken = f"{len(lowered) - len(words)} of {len(lowered)}" if lowered else "not asked"
    bits = [max((entry.get(key, 0) for entry in lowered), default=0) for key in ("bits", "buffered_bits")]
    return f"| {what} | {whose} | {'; '.join(tiles)} | {taken} | {bits[0]:,} | {bits[1]:,} | {parity} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Port them; writes and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.ports")
    parser.add_argument("library", type=Path)
    parser.add_argument("names", nargs="*", default=[*THEIRS, *NEW])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(lambda name: ported(options.library, options.out.resolve(), name), options.names))
    table = (
        "\n".join([HEAD, *(row for row, _, _ in rows), "", TILES, *(row for _, tiles, _ in rows for row in tiles)])
        + "\n"
    )
    (options.out / "table.md").write_text(table)
    sys.stdout.write(table)
    return 0 if all(right for _, _, right in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
