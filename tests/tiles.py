"""cuTile or CuTe DSL next to Triton, eager and torch.compile on a GPU host: candidates of the compiler author, judged and timed.

    python -m tests.tiles prepare FOLDER [--to cutile|cutedsl] [--library CHECKOUT]    writes the requests; needs no GPU
    python -m tests.tiles run FOLDER [--most-s 140] [--only NAME|WHAT|NAME-WHAT ...]    needs torch, triton and that language

``run`` prints a row of a table as it has one, and the verdict of each candidate; results stay in FOLDER. What is asked (WHAT): a
quick verdict (``verify``), times next to Triton (a dtype) and next to the kernel that a checkout of Liger-Kernel has in the same
language (``own_`` and a dtype), a profile (``profile``), settings (``tune``), times of the tuned candidate and of itself before
(``tuned``), a full verdict (``whole``). In rows of ``own_`` the library's own stands in Triton's place.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_runner.contracts import Problem
    from workers.authors.protocol import Limit

ROOT = Path(__file__).parents[1]
OPERATORS = ("swiglu", "rms_norm", "layer_norm", "softmax", "geglu_tanh", "relu_squared", "reglu", "dyt")
LOOK_UPS, PRODUCTS = ("cross_entropy", "rope_one"), ("matmul", "linear_residual", "matmul_softmax")  # in cuTile alone
LARGER = {"matmul": {"M": 4096, "K": 4096, "N": 4096}}  # than the problem's own workload
DTYPES = ("float32", "bfloat16")
BUDGET_S, TUNED_S = 4.0, 30.0
TUNED_IN = "bfloat16"
SHARES = ("dram_share", "l2_share", "sm_share", "tensor_share", "occupancy")
LIBRARY = "library.tar.gz"
# The library's own kernels, by language and operator: the module below `liger_kernel.ops`, and the problem's CALL.
RMS_NORM = 'LigerRMSNormFunction.apply(x, weight, eps, 0.0, "llama", False, None)'
CROSS_ENTROPY = 'LigerCrossEntropyFunction.apply(x, target, None, -100, 0.0, 0.0, "mean", None, False, False, False)[0]'
OWN = {
    "cutile": {
        "swiglu": ("cutile.ops.swiglu", "LigerSiLUMulFunction.apply(gate, up)"),
        "rms_norm": ("cutile.ops.rms_norm", RMS_NORM),
        "layer_norm": ("cutile.ops.layer_norm", "LigerLayerNormFunction.apply(x, weight, bias, eps)"),
        "softmax": ("cutile.ops.softmax", "LigerSoftmaxFunction.apply(x)"),
        "geglu_tanh": ("cutile.ops.geglu", "LigerGELUMulFunction.apply(a, b)"),
        "dyt": ("cutile.ops.dyt", "LigerDyTFunction.apply(x, alpha, gamma, beta)"),
        "cross_entropy": ("cutile.ops.cross_entropy", CROSS_ENTROPY),
    },
    "cutedsl": {
        "swiglu": ("cutedsl.ops.swiglu", "LigerSiLUMulCuteDSLFunction.apply(gate, up)"),
        "rms_norm": ("cutedsl.ops.rms_norm", RMS_NORM),
        "layer_norm": (
            "backends._cutedsl.layer_norm",
            "_LigerLayerNormCuTeDSLFunction.apply(x, weight, bias, eps)",
        ),
        "softmax": ("backends._cutedsl.softmax", "_LigerSoftmaxCuTeDSLFunction.apply(x)"),
        "geglu_tanh": ("backends._cutedsl.geglu", "_LigerGeGLUCuTeDSLFunction.apply(a, b)"),
    },
}
HEADER = "operator | dtype | pass | size | candidate us | Triton us | eager us | torch.compile us | floor us"


def prepare(folder: Path, target: str, library: Path | None) -> None:
    """Write the requests: the target's kernels are the candidate, the original is Triton's or the library's own."""
    from gpu_runner.contracts import Action, GpuRequest, ProfileRequest, TuneRequest, Workload, to_json
    from gpu_runner.contracts.benchmark import BenchmarkRequest, Pass
    from gpu_runner.contracts.verify import CandidateSource, SourceFile, VerifyRequest
    from tests.workers.compiler.captured import captured
    from tests.workers.compiler.test_cutile import emitted
    from workers.layouts.calls import kernel_form

    folder.mkdir(parents=True, exist_ok=True)
    if library is not None:
        with tarfile.open(folder / LIBRARY, "w:gz") as tree:
            tree.add(library / "src", "library/src")
    for name in operators(target):
        problem = _within(captured(name)[0], emitted(name, target).limits)
        candidates = {
            to: CandidateSource((SourceFile("candidate.py", emitted(name, to).source),)) for to in (target, "gpu")
        }
        largest = max(problem.workloads, key=lambda workload: _elements(dict(workload.sizes)))
        sizes = tuple(LARGER[name].items()) if name in LARGER else largest.sizes
        timed = (Workload(sizes, None, largest.scalars),)
        opened = emitted(name, target, tunable=True)
        tuned = CandidateSource((SourceFile("candidate.py", opened.source),))
        asked: dict[str, tuple[Action, Any]] = {
            "tune": (Action.tune, TuneRequest(problem.source, tuned, opened.knobs, TUNED_IN, timed, TUNED_S)),
            "profile": (Action.profile, ProfileRequest(problem.source, candidates[target], TUNED_IN, timed)),
        }
        for what in ("verify", "whole"):
            verdict = VerifyRequest(problem.source, candidates[target], dtypes=DTYPES, quick=what == "verify")
            asked[what] = (Action.verify, verdict)
        for dtype in DTYPES:
            against: dict[str, tuple[CandidateSource, tuple[str, ...]]] = {dtype: (candidates["gpu"], ())}
            if library is not None and name in OWN[target]:
                module, call = OWN[target][name]
                own = kernel_form(replace(problem, call=call), f"liger_kernel.ops.{module}", ("src",), (), LIBRARY)
                against[f"own_{dtype}"] = (own, ("original",))
            for what, (original, contenders) in against.items():
                passes = (Pass.forward, Pass.backward)
                timing = BenchmarkRequest(
                    problem.source, candidates[target], dtype, passes, timed, BUDGET_S, original, contenders
                )
                asked[what] = (Action.benchmark, timing)
        for what, (action, request) in asked.items():
            made = GpuRequest(f"{name}-{what}", action, to_json(request))
            (folder / f"{name}-{what}.json").write_text(json.dumps(to_json(made)))


def _within(problem: Problem, limits: tuple[Limit, ...]) -> Problem:
    """The problem without the workloads that a candidate does not take."""
    kept = [w for w in problem.workloads if all(dict(w.sizes).get(each.size, 0) <= each.most for each in limits)]
    listed = [{**dict(workload.sizes), **dict(workload.scalars)} for workload in kept]
    source = re.sub(r"^WORKLOADS = .*?\]$", f"WORKLOADS = {listed}", problem.source, flags=re.DOTALL | re.MULTILINE)
    return problem if len(kept) == len(problem.workloads) else replace(problem, source=source, workloads=tuple(kept))


def operators(target: str) -> tuple[str, ...]:
    """The operators that a language has."""
    return (*OPERATORS, *LOOK_UPS, *PRODUCTS) if target == "cutile" else OPERATORS


def _elements(sizes: dict[str, int]) -> int:
    product = 1
    for size in sizes.values():
        product *= size
    return product


def run(folder: Path, most_s: float, only: list[str]) -> None:
    """Carry requests out until the time is up: quick verdicts at once, then times and settings one by one, then full verdicts at
    once.
    """
    begin = time.monotonic()
    asked = {path.stem for path in folder.glob("*.json")}
    names = [name for name in operators("cutile") if f"{name}-verify" in asked]

    def carry_out(one: tuple[str, str]) -> None:
        if "-".join(one) not in asked and one[1] != "tuned":
            return
        if only and not {one[0], one[1], "-".join(one)} & set(only):
            return
        if time.monotonic() - begin > most_s:
            print(f"left for another run: {'-'.join(one)}", flush=True)
        else:
            _carry_out(folder, *one)

    timed = (*DTYPES, *(f"own_{dtype}" for dtype in DTYPES), "profile", "tune", "tuned")
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(carry_out, [(name, "verify") for name in names]))
        print(HEADER, flush=True)
        for one in [(name, what) for what in timed for name in names]:
            carry_out(one)
        list(pool.map(carry_out, [(name, "whole") for name in names]))


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
    elif what == "profile":
        _print_profile(name, result["payload"], took)
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


def _print_profile(name: str, profile: dict[str, Any], took: str) -> None:
    print(f"{name}: {profile['counters_error'] or 'counters'} ({took})", flush=True)
    for one in profile["counters"]:
        cells = [f"{one[share]:.0%}" if one[share] is not None else "-" for share in SHARES]
        took_us = f"{one['duration_us']:.1f}" if one["duration_us"] is not None else "-"
        stalls = ", ".join(f"{stall['reason']} {stall['share']:.0%}" for stall in one["stalls"][:2])
        shape = [str(one[what]) for what in ("registers", "threads", "grid")]
        print(" | ".join([name, one["timed_pass"], one["kernel"], took_us, *cells, *shape, stalls]), flush=True)


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
    parser.add_argument("--library", type=Path, help="a checkout of Liger-Kernel, for its own kernels")
    parser.add_argument("--most-s", type=float, default=140.0)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    if options.what == "prepare":
        prepare(options.folder, options.to, options.library)
    else:
        run(options.folder.resolve(), options.most_s, options.only)


if __name__ == "__main__":
    main()
