"""cuTile or CuTe DSL next to Triton, eager and torch.compile on a GPU host: candidates of the compiler author, judged and timed.

    python -m tests.tiles prepare FOLDER [--to cutile|cutedsl]    writes a request for each operator and dtype; needs no GPU
    python -m tests.tiles run FOLDER [--most-s 140] [--only NAME|WHAT|NAME-WHAT ...]    needs torch, triton and that language

``run`` prints a row of a table as it has one, and the verdict of each candidate; results stay in FOLDER. What is asked (WHAT): a
quick verdict (``verify``), times (a dtype), settings (``tune``), times of the tuned candidate and of itself before (``tuned``), a
full verdict (``whole``).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OPERATORS = ("swiglu", "rms_norm", "layer_norm", "softmax", "geglu_tanh", "relu_squared", "reglu", "dyt")
DTYPES = ("float32", "bfloat16")
BUDGET_S, TUNED_S = 4.0, 30.0
TUNED_IN = "bfloat16"
HEADER = "operator | dtype | pass | size | candidate us | Triton us | eager us | torch.compile us | floor us"


def prepare(folder: Path, target: str) -> None:
    """Write the requests: the target's kernels are the candidate, Triton's the original."""
    from gpu_runner.contracts import Action, GpuRequest, TuneRequest, Workload, to_json
    from gpu_runner.contracts.benchmark import BenchmarkRequest, Pass
    from gpu_runner.contracts.verify import CandidateSource, SourceFile, VerifyRequest
    from tests.workers.compiler.captured import captured
    from tests.workers.compiler.test_cutile import emitted

    folder.mkdir(parents=True, exist_ok=True)
    for name in OPERATORS:
        problem = captured(name)[0]
        candidates = {
            to: CandidateSource((SourceFile("candidate.py", emitted(name, to).source),)) for to in (target, "gpu")
        }
        largest = max(problem.workloads, key=lambda workload: _elements(dict(workload.sizes)))
        opened = emitted(name, target, tunable=True)
        tuning = TuneRequest(
            problem.source,
            CandidateSource((SourceFile("candidate.py", opened.source),)),
            opened.knobs,
            TUNED_IN,
            (Workload(largest.sizes, None, largest.scalars),),
            TUNED_S,
        )
        _write(folder / f"{name}-tune.json", GpuRequest(f"{name}-tune", Action.tune, to_json(tuning)))
        for what in ("verify", "whole"):
            verdict = VerifyRequest(problem.source, candidates[target], dtypes=DTYPES, quick=what == "verify")
            _write(folder / f"{name}-{what}.json", GpuRequest(f"{name}-{what}", Action.verify, to_json(verdict)))
        for dtype in DTYPES:
            timing = BenchmarkRequest(
                problem.source,
                candidates[target],
                dtype,
                (Pass.forward, Pass.backward),
                (Workload(largest.sizes, None, largest.scalars),),
                BUDGET_S,
                candidates["gpu"],
            )
            _write(folder / f"{name}-{dtype}.json", GpuRequest(f"{name}-{dtype}", Action.benchmark, to_json(timing)))


def _elements(sizes: dict[str, int]) -> int:
    product = 1
    for size in sizes.values():
        product *= size
    return product


def _write(path: Path, request: Any) -> None:
    from gpu_runner.contracts import to_json

    path.write_text(json.dumps(to_json(request)))


def run(folder: Path, most_s: float, only: list[str]) -> None:
    """Carry requests out until the time is up: quick verdicts at once, then times and settings one by one, then full verdicts at
    once.
    """
    begin = time.monotonic()

    def carry_out(one: tuple[str, str]) -> None:
        if only and not {one[0], one[1], "-".join(one)} & set(only):
            return
        if time.monotonic() - begin > most_s:
            print(f"left for another run: {'-'.join(one)}", flush=True)
        else:
            _carry_out(folder, *one)

    with ThreadPoolExecutor(len(OPERATORS)) as pool:
        list(pool.map(carry_out, [(name, "verify") for name in OPERATORS]))
        print(HEADER, flush=True)
        for one in [(name, what) for what in (*DTYPES, "tune", "tuned") for name in OPERATORS]:
            carry_out(one)
        list(pool.map(carry_out, [(name, "whole") for name in OPERATORS]))


def _carry_out(folder: Path, name: str, what: str) -> None:
    out = folder / f"{name}-{what}"
    begin = time.monotonic()
    command = [
        sys.executable,
        "-m",
        "gpu_runner",
        "--request",
        str(folder / f"{name}-{what}.json"),
        "--result",
        str(out),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if not (out / "result.json").exists():
        print(f"{name} {what}: no result\n{done.stderr[-1500:]}", flush=True)
        return
    result = json.loads((out / "result.json").read_text())
    took = f"{time.monotonic() - begin:.0f} s"
    if result["error"]:
        print(f"{name} {what}: {result['error']} ({took})\n{done.stderr[-800:]}", flush=True)
    elif what in ("verify", "whole"):
        _print_verdict(name, result["payload"], took)
    elif what == "tune":
        _print_settings(name, result["payload"], took)
        _write_tuned(folder, name, result["payload"])
    else:
        _print_rows(name, what, result["payload"], took)


def _print_verdict(name: str, verdict: dict[str, Any], took: str) -> None:
    checks = len(verdict["checks"])
    print(f"{name}: {verdict['status']}, {checks} checks, kernels {', '.join(verdict['kernels'])} ({took})", flush=True)
    for evidence in verdict["evidence"][:2]:
        print(f"  {evidence['check']}: {evidence['message']} {evidence['workload'] or ''}", flush=True)
        print(f"  {(evidence['log'] or '')[-700:]}", flush=True)


def _print_settings(name: str, tuned: dict[str, Any], took: str) -> None:
    for choice in tuned["choices"]:
        settings = ", ".join(f"{setting}={value}" for setting, value in choice["settings"]) or "as they were"
        low, high = choice["speedup_low"], choice["speedup_high"]
        gain = f"{choice['speedup']:.2f} ({low:.2f} to {high:.2f})" if choice["speedup"] and low and high else ""
        print(f"{name} {choice['tuned_pass']}: {settings} {gain}, {choice['tried']} tried ({took})", flush=True)
    print("  " + " ".join(tuned["notes"]), flush=True)


def _write_tuned(folder: Path, name: str, tuned: dict[str, Any]) -> None:
    """The request that times a candidate with its table against itself without one."""
    from workers.tuned_table import with_tuned

    timing = json.loads((folder / f"{name}-{TUNED_IN}.json").read_text())
    opened = json.loads((folder / f"{name}-tune.json").read_text())["payload"]["candidate"]
    passes = tuple(
        (timed, tuple((size, tuple(map(tuple, row))) for size, row in rows)) for timed, rows in tuned["table"]
    )
    text = with_tuned(opened["files"][0]["text"], ((str(tuned["architecture"]), passes),))
    payload = timing["payload"]
    payload["original"], payload["candidate"] = payload["candidate"], opened
    opened["files"][0]["text"] = text
    payload["contenders"] = ["original"]
    (folder / f"{name}-tuned.json").write_text(json.dumps(timing))
    (folder / f"{name}-tuned.py").write_text(text)


def _print_rows(name: str, dtype: str, result: dict[str, Any], took: str) -> None:
    for row in result["rows"]:
        sizes = " ".join(f"{dim}={size}" for dim, size in row["workload"]["sizes"])
        times = {timing["contender"]: timing for timing in row["timings"]}
        cells = [_cell(times.get(each)) for each in ("candidate", "original", "eager", "torch_compile")]
        floor = f"{row['floor_us']:.1f}" if row["floor_us"] else "-"
        print(" | ".join([name, dtype, row["timed_pass"], sizes, *cells, floor]), flush=True)
        if row["fault"]:
            print(f"  {row['fault']}", flush=True)
    print(f"  {name} {dtype} took {took}; {' '.join(result['notes'])}", flush=True)


def _cell(timing: dict[str, Any] | None) -> str:
    if timing is None:
        return "-"
    if timing["median_us"] is None:
        return str(timing["error"])[:60] if timing["error"] else "-"
    return f"{timing['median_us']:.1f}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="cuTile or CuTe DSL next to Triton, eager and torch.compile.")
    parser.add_argument("what", choices=("prepare", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--to", choices=("cutile", "cutedsl"), default="cutile")
    parser.add_argument("--most-s", type=float, default=140.0)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    if options.what == "prepare":
        prepare(options.folder, options.to)
    else:
        run(options.folder.resolve(), options.most_s, options.only)


if __name__ == "__main__":
    main()
