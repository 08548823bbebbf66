"""Counting goes through the sandbox as it is; a profiler that a candidate's tree brings stands for the real one."""

from __future__ import annotations

import io
import sys
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_runner.context import RunContext
from gpu_runner.contracts import CandidateSource, Limits, Pass, SourceFile, Workload, parse_problem
from gpu_runner.messages import CallForm
from gpu_runner.outline import OutputForm, WorkloadOutline, unproved
from gpu_runner.profiler import command
from gpu_runner.profiler.counting import CounterRun, defined_kernels
from gpu_runner.verify.cases import Case
from gpu_runner.verify.proof import Proof
from gpu_runner.verify.truth import Oracle
from tests.gpu_runner.profiler.sheets import MEMORY_BOUND, NORM, NOTHING, SPILLING, sheet
from tests.problems import problem_source

WORKLOAD = Workload((("T", 8),))
SCRIPT = """#!{python}
import subprocess, sys
given = sys.argv[1:]
done = subprocess.run(given[given.index({python!r}):])
open(given[given.index("--log-file") + 1], "w").write({table!r})
sys.exit(done.returncode)
"""
CANDIDATE = CandidateSource(
    (SourceFile("candidate.py", "def candidate(x):\n    return x.softmax(-1)\n"),), tree="tree.tar"
)


@pytest.fixture
def proof() -> Proof:
    problem = parse_problem(problem_source("softmax"))
    oracle = Oracle(problem, None, CallForm("reference", problem.parameters), {})  # type: ignore[arg-type]  # it is not asked
    sizes = tuple((name, 8) for name, _ in problem.workloads[0].sizes)
    outline = WorkloadOutline({}, (OutputForm(tuple(size for _, size in sizes), "float32", True),))
    return unproved(oracle, Case("workload", sizes, "float32", 1), outline)


def counting(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> CounterRun:
    with tarfile.open(folder / "tree.tar", "w") as archive:
        entry = tarfile.TarInfo("ncu")
        entry.mode, entry.size = 0o755, len(script.encode())
        archive.addfile(entry, io.BytesIO(script.encode()))
    # Seen from the folder in which the profiler is started.
    monkeypatch.setattr(command, "find_profiler", lambda: Path("../../work/ncu"))
    context = RunContext(folder, Limits(time_s=60, step_s=40))
    return CounterRun(CANDIDATE, context, time.monotonic() + 60)


def test_kernels_of_the_tile_languages_are_known_by_their_decorators() -> None:
    text = """
@ct.kernel(num_worker_warps=8)
def _tile_kernel(x_array):
    pass


@cute.kernel
def _thread_kernel(x):
    pass


@ct.function
def _device(x):
    pass


@triton.jit
def _triton_kernel(x_ptr):
    pass
"""
    candidate = CandidateSource((SourceFile("candidate.py", text),))
    assert defined_kernels(candidate) == ("_tile_kernel", "_thread_kernel")


def test_launches_come_back_by_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proof: Proof) -> None:
    table = sheet(MEMORY_BOUND, NOTHING, SPILLING)
    found = counting(tmp_path, monkeypatch, SCRIPT.format(python=sys.executable, table=table))
    found.add(proof, WORKLOAD, 30.0)
    done = found.counted(1)
    assert (done.error, done.complete) == (None, True)
    assert [(item.kernel, item.timed_pass) for item in done.kernels] == [
        (NORM, Pass.forward),
        ("_rms_norm_backward_kernel", Pass.backward),
    ]
    assert [line.count(NORM) for line in done.csv.splitlines()] == [0, 0, 1, 0, 0], "header, units and three launches"


def test_a_refusal_ends_the_counting_and_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proof: Proof
) -> None:
    found = counting(tmp_path, monkeypatch, "#!/bin/sh\necho '==ERROR== ERR_NVGPUCTRPERM'\nexit 1\n")
    found.add(proof, WORKLOAD, 30.0)
    done = found.counted(3)
    assert found.refused
    assert done.kernels == ()
    assert done.error is not None
    assert "NVreg_RestrictProfilingToAdminUsers=0" in done.error


def test_a_profiler_that_cannot_be_started_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proof: Proof
) -> None:
    found = counting(tmp_path, monkeypatch, "")
    monkeypatch.setattr(command, "find_profiler", lambda: Path("/nowhere/ncu"))
    found.add(proof, WORKLOAD, 30.0)
    done = found.counted(1)
    assert done.error is not None
    assert "could not be run in the sandbox: FileNotFoundError" in done.error


def test_no_profiler_is_told_with_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proof: Proof
) -> None:
    found = counting(tmp_path, monkeypatch, "")
    monkeypatch.setattr(command, "find_profiler", lambda: None)
    found.add(proof, WORKLOAD, 30.0)
    assert found.refused
    assert found.counted(1).error == command.NOT_FOUND


def test_a_budget_that_ends_is_told() -> None:
    found = CounterRun(replace(CANDIDATE, tree=None), RunContext(Path()), 0.0)
    done = found.counted(2)
    assert (done.error, done.complete) == ("The budget ended after 0 of 2 workloads.", False)
