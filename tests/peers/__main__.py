"""The compiler's kernels beside Liger-Kernel, ``torch.compile`` and eager PyTorch, and how far each is from the floor.

    python -m tests.peers prepare DIR --library PATH [--only NAME ...] [--sizes N]   # compile, write the requests; needs no GPU
    python -m tests.peers measure DIR --out RESULTS [--minutes M]                    # on a GPU host; torch and Triton alone
    python -m tests.peers table RESULTS                                              # the tables of what was measured

The problems are those built in for Liger-Kernel, at their first N sizes, in bfloat16. Each is one benchmark of the runner, in which
all contenders take turns, with Liger's kernel as the original.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpu_runner.__main__ import carried_out
from gpu_runner.actions import prepare
from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    BenchmarkResult,
    CandidateSource,
    GpuRequest,
    GpuResult,
    Limits,
    Pass,
    SourceFile,
    WorkloadTiming,
    from_json,
    to_json,
)
from gpu_runner.forkserver import keeper
from gpu_runner.session import has_gpu

PROBLEMS = Path(__file__).resolve().parents[2] / "workers" / "layouts" / "liger" / "references"
TREE = "library.tar.gz"
MEMORY_BYTES = 64 * 2**30  # five contenders of the largest losses
BUDGET_S = 60.0
PEERS = ("original", "torch_compile", "eager")
TITLES = {"candidate": "compiler", "original": "Liger", "torch_compile": "torch.compile", "eager": "eager"}


def main(arguments: list[str] | None = None) -> int:
    """Run one of the three steps."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers", description=__doc__)
    steps = parser.add_subparsers(dest="step", required=True)
    preparing = steps.add_parser("prepare")
    preparing.add_argument("folder", type=Path)
    preparing.add_argument("--library", type=Path, required=True, help="the unpacked source of liger-kernel")
    preparing.add_argument("--only", nargs="*", default=None)
    preparing.add_argument("--sizes", type=int, default=1)
    measuring = steps.add_parser("measure")
    measuring.add_argument("folder", type=Path)
    measuring.add_argument("--out", type=Path, required=True)
    measuring.add_argument("--minutes", type=float, default=60.0)
    printing = steps.add_parser("table")
    printing.add_argument("results", type=Path)
    options = parser.parse_args(arguments)
    if options.step == "prepare":
        return _prepare(options.folder, options.library, options.only, options.sizes)
    if options.step == "measure":
        return _measure(options.folder, options.out, time.monotonic() + 60 * options.minutes)
    return _print(options.results)


def _prepare(folder: Path, library: Path, only: list[str] | None, sizes: int) -> int:
    from workers import byhand
    from workers.layouts.calls import kernel_form
    from workers.stages.problem import parse

    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / TREE, "w:gz") as tree:
        tree.add(library / "src", "library/src")  # what a forge packs has a folder of its own around it
    for path in sorted(PROBLEMS.glob("*.py")):
        name, source = path.stem, path.read_text(encoding="utf-8")
        if only is not None and name not in only:
            continue
        compiled = byhand.compile_problem(source, name)
        if compiled.source is None:
            sys.stdout.write(f"{name}: {compiled.refusal}\n")
            continue
        problem = parse(source)
        request = BenchmarkRequest(
            source,
            CandidateSource((SourceFile("candidate.py", compiled.source),)),
            workloads=problem.workloads[:sizes],
            budget_s=BUDGET_S * sizes,
            original=kernel_form(problem, f"liger_kernel.ops.{name}", ("src",), (), TREE),
        )
        limits = Limits(time_s=600.0 * sizes, memory_bytes=MEMORY_BYTES)
        whole = GpuRequest(name, Action.benchmark, to_json(request), limits)
        (folder / f"{name}.json").write_text(json.dumps(to_json(whole)))
        sys.stdout.write(f"{name}: ready\n")
    return 0


def _measure(folder: Path, out: Path, until: float) -> int:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s")
    if not has_gpu():
        sys.stderr.write("there is no GPU here; `prepare` and `table` need none\n")
        return 3
    out.mkdir(parents=True, exist_ok=True)
    keeper.warm_up(True)
    for path in sorted(folder.glob("*.json")):
        if (out / path.name).exists():
            continue
        if time.monotonic() > until:
            sys.stdout.write(f"{path.stem}: no time was left\n")
            continue
        request = from_json(GpuRequest, json.loads(path.read_text()))
        result = carried_out(request, prepare(request.action, request.payload), folder.resolve())
        (out / path.name).write_text(json.dumps(to_json(result)))
        sys.stdout.write(f"{path.stem}: {result.error or f'{result.duration_s:.0f} s'}\n")
        sys.stdout.flush()
    return _print(out)


def _print(results: Path) -> int:
    rows: list[tuple[str, WorkloadTiming]] = []
    host: dict[str, str] = {}
    for path in sorted(results.glob("*.json")):
        result = from_json(GpuResult, json.loads(path.read_text()))
        if result.payload is None:
            sys.stdout.write(f"{path.stem}: {result.error}\n")
            continue
        benchmark = from_json(BenchmarkResult, result.payload)
        host |= dict(result.host)
        rows += [(path.stem, row) for row in benchmark.rows]
        for note in benchmark.notes:
            sys.stdout.write(f"{path.stem}: {note}\n")
    sys.stdout.write(", ".join(f"{name} {value}" for name, value in host.items()) + "\n\n")
    sys.stdout.write("\n".join(_table(rows)) + "\n")
    return 0


def _table(rows: list[tuple[str, WorkloadTiming]]) -> Iterator[str]:
    """A row for each kernel, size and pass: microseconds of each contender, and its share of the floor."""
    names = ("candidate", *PEERS)
    titles = " | ".join(TITLES[name] for name in names)
    yield f"| kernel | size | pass | floor, us | {titles} | to the best peer | peak memory to Liger's |"
    yield f"| --- | --- | --- | ---: | {' | '.join('---:' for _ in names)} | ---: | ---: |"
    shares: dict[tuple[Pass, str], list[float]] = {}
    for name, row in rows:
        share = _shares(row)
        best = max((share[peer] for peer in PEERS if peer in share), default=None)
        for contender, value in share.items():
            shares.setdefault((row.timed_pass, contender), []).append(value)
        if best is not None and "candidate" in share:
            shares.setdefault((row.timed_pass, "best peer"), []).append(best)
        cells = [_cell(row, contender, share) for contender in names]
        ratio = f"{share['candidate'] / best:.2f}" if best and "candidate" in share else ""
        memory = "" if row.memory_ratio is None else f"{row.memory_ratio:.2f}"
        floor = "" if row.floor_us is None else f"{row.floor_us:.1f}"
        yield f"| {name} | {_size(row)} | {row.timed_pass.value} | {floor} | {' | '.join(cells)} | {ratio} | {memory} |"
    yield ""
    yield f"| of the floor, geometric mean | {titles} | best peer of each |"
    yield f"| --- | {' | '.join('---:' for _ in (*names, ''))} |"
    for timed in Pass:
        cells = [_mean(shares.get((timed, contender), [])) for contender in (*names, "best peer")]
        yield f"| {timed.value} | {' | '.join(cells)} |"


def _shares(row: WorkloadTiming) -> dict[str, float]:
    floor_us = row.floor_us
    if floor_us is None:
        return {}
    return {timing.contender: floor_us / timing.median_us for timing in row.timings if timing.median_us}


def _cell(row: WorkloadTiming, contender: str, share: dict[str, float]) -> str:
    timing = next((timing for timing in row.timings if timing.contender == contender), None)
    if timing is None or timing.median_us is None:
        return "" if timing is None or timing.error is None else "failed"
    return f"{timing.median_us:.1f}" + (f" ({share[contender]:.2f})" if contender in share else "")


def _size(row: WorkloadTiming) -> str:
    return " x ".join(str(size) for _, size in row.workload.sizes)


def _mean(values: Iterable[float]) -> str:
    known = list(values)
    return f"{statistics.geometric_mean(known):.2f} ({len(known)})" if known else ""


if __name__ == "__main__":
    sys.exit(main())
