"""Stands in for ``python -m gpu_runner`` where a demo plays nights: answers with times that an H200 had, and runs nothing.

``nights.json`` holds medians of liger-kernel 0.8.5 at 16384 x 8192 in bfloat16, each pass as [floor, time] in microseconds; those
of rms_norm and layer_norm are the "before" of docs/measurements/2026-11-22-optimize-eleven-h200.md. Two things are put in by a
rule: noise of a night, 0.3%, and what a copy of the input costs.
A kernel whose file holds ``EXTRA_COPY`` takes that much longer in its forward pass: a copy reads and writes as many bytes as
the forward pass of a norm or a softmax does at least, so that it takes that pass's floor.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    BenchmarkResult,
    CandidateSource,
    Comparison,
    GpuRequest,
    GpuResult,
    HostReport,
    Pass,
    Status,
    TestsResult,
    Timing,
    Verdict,
    Word,
    Workload,
    WorkloadTiming,
    from_json,
    to_json,
)

EXTRA_COPY = ".clone()"
NIGHT_NOISE, RUN_NOISE = 0.003, 0.001  # standard deviations, as shares: of two nights, of two contenders of one run
RECORDED = Path(__file__).with_name("nights.json")
MODULE = re.compile(r"from liger_kernel\.ops\.(\w+) import")


@dataclass(frozen=True)
class Machine:
    """What differs from night to night: ``slowed`` is by how much somebody else's work slows the GPU down."""

    night: int
    driver: str
    slowed: float = 1.0


def command(machine: Path) -> tuple[str, ...]:
    """The command line that takes the place of the runner's; ``machine`` is a file that holds tonight's ``Machine``."""
    return (sys.executable, "-m", "deploy.demo.recorded_gpu", "--machine", str(machine))


def main() -> int:
    """Answer one request."""
    parser = argparse.ArgumentParser(prog="python -m deploy.demo.recorded_gpu")
    for name in ("--machine", "--request", "--result"):
        parser.add_argument(name, type=Path, required=True)
    options = parser.parse_args()
    request = from_json(GpuRequest, json.loads(options.request.read_text()))
    machine = Machine(**json.loads(options.machine.read_text()))
    recorded = json.loads(RECORDED.read_text())
    payload = to_json(_answer(request, machine, recorded, options.request.parent))
    facts = (("gpu", str(recorded["gpu"])), *_facts(machine, recorded))
    result = GpuResult(request.request_id, request.action, payload, host=facts, duration_s=20.0)
    (options.result / "result.json").write_text(json.dumps(to_json(result)))
    return 0


def _answer(request: GpuRequest, machine: Machine, recorded: dict[str, Any], folder: Path) -> object:
    if request.action is Action.doctor:
        return _host(machine, recorded)
    if request.action is Action.tests:  # whether the imports that the library's tests need are there
        return TestsResult(True, 0, (), "exit code 0", "")
    if request.action is Action.verify:
        return Verdict(Status.passed)
    if request.action is Action.benchmark:
        return _times(from_json(BenchmarkRequest, request.payload), machine, recorded, folder)
    raise ValueError(f"nothing is recorded of {request.action.value}")


def _host(machine: Machine, recorded: dict[str, Any]) -> HostReport:
    return HostReport(
        "3.12.3",
        recorded["torch"],
        recorded["triton"],
        recorded["gpu"],
        recorded["architecture"],
        machine.driver,
        None,
        recorded["bandwidth_gbps"],
        (),
        (),
        (),
        (),
    )


def _times(request: BenchmarkRequest, machine: Machine, recorded: dict[str, Any], folder: Path) -> BenchmarkResult:
    kernel = _kernel(request.candidate)
    found = recorded["kernels"][kernel]
    workload = Workload(tuple((name, size) for name, size in found["sizes"]))
    rows = []
    for timed_pass in Pass:
        floor_us, us = found["us"][timed_pass.value]
        chance = random.Random(f"{machine.night} {kernel} {timed_pass.value}")  # noqa: S311 - noise, not a secret
        night = machine.slowed * (1 + chance.gauss(0, NIGHT_NOISE))
        copy_us = found["us"]["forward"][0] if timed_pass is not Pass.backward else 0.0
        timings = [
            _timing(name, (us + copy_us * _copies(form, kernel, folder)) * night * (1 + chance.gauss(0, RUN_NOISE)))
            for name, form in (("candidate", request.candidate), ("original", request.original))
            if form is not None
        ]
        rows.append(
            WorkloadTiming(workload, timed_pass, tuple(timings), None, None, floor_us, comparisons=_compared(timings))
        )
    host = _facts(machine, recorded)
    return BenchmarkResult(tuple(rows), False, recorded["gpu"], recorded["bandwidth_gbps"], host=host)


def _facts(machine: Machine, recorded: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    versions = {"torch": str(recorded["torch"]), "triton": str(recorded["triton"])}
    return (("gpu_uuid", "GPU-recorded"), ("driver", machine.driver), *versions.items())


def _kernel(form: CandidateSource) -> str:
    found = MODULE.search("\n".join(file.text for file in form.files))
    if found is None:
        raise ValueError("no kernel of liger-kernel is timed here")
    return found[1]


def _copies(form: CandidateSource, kernel: str, folder: Path) -> int:
    with tarfile.open(folder / str(form.tree)) as tar:
        name = next(name for name in tar.getnames() if name.endswith(f"/src/liger_kernel/ops/{kernel}.py"))
        file = tar.extractfile(name)
        return (file.read().decode() if file else "").count(EXTRA_COPY)


def _timing(contender: str, us: float) -> Timing:
    return Timing(contender, us, us * 0.997, us * 1.004, 12)


def _compared(timings: list[Timing]) -> tuple[Comparison, ...]:
    if len(timings) < 2:
        return ()
    new, old = (timing.median_us or 0.0 for timing in timings)
    speedup = old / new
    low, high = speedup * (1 - 2 * RUN_NOISE), speedup * (1 + 2 * RUN_NOISE)
    word = Word.faster if low > 1.01 else Word.slower if high < 0.99 else Word.same
    return (Comparison("candidate", "original", speedup, low, high, word, 12),)


if __name__ == "__main__":
    sys.exit(main())
