"""The role that starts the profiler, with a profiler that is a script: it runs what it is given and prints a table."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
import torch

from gpu_runner.buffers import Buffer
from gpu_runner.child.handlers import ChildState
from gpu_runner.child.profiling import count
from gpu_runner.contracts import Pass, Workload, parse_problem
from gpu_runner.messages import CallForm, ProfileCall
from gpu_runner.outline import OutputForm, WorkloadOutline, unproved
from gpu_runner.profiler import metrics, sheet
from gpu_runner.verify.cases import Case
from gpu_runner.verify.proof import make_call
from gpu_runner.verify.truth import Oracle
from tests.gpu_runner.profiler.sheets import MEMORY_BOUND, NOTHING, SPILLING
from tests.gpu_runner.profiler.sheets import sheet as printed
from tests.problems import problem_source

CANDIDATE = """
import torch
import triton
import triton.language as tl


@triton.jit
def _copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        _copy_kernel[(1,)](x, y, x.numel(), BLOCK=1024)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad


def candidate(x):
    return Copy.apply(x)
"""
FAKE = """#!{python}
import subprocess
import sys

given = sys.argv[1:]
log = given[given.index("--log-file") + 1]
names = given[given.index("--metrics") + 1].split(",")
missing = {missing!r}
if any(name.startswith(missing) for name in names if missing):
    open(log, "w").write("==ERROR== Failed to find metric regex:^" + missing + "(\\\\..*)?$\\n")
    sys.exit(1)
{body}
"""
RUNS = """
done = subprocess.run(given[given.index({python!r}):])
open(log, "w").write({table!r})
sys.exit(done.returncode)
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChildState:
    work = tmp_path / "work"
    work.mkdir()
    (work / "candidate.py").write_text(CANDIDATE)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    return ChildState(scratch=tmp_path, work=work, gpu=False)


def profiler(state: ChildState, body: str, missing: str = "") -> str:
    path = state.scratch / "ncu"
    path.write_text(FAKE.format(python=sys.executable, body=body, missing=missing))
    path.chmod(0o755)
    return str(path)


def asked(program: str, limit_s: float = 60.0, module: str = "candidate") -> tuple[ProfileCall, list[torch.Tensor]]:
    problem = parse_problem(problem_source("softmax"))
    form = CallForm("reference", problem.parameters)
    oracle = Oracle(problem, None, form, {})  # type: ignore[arg-type]  # nothing is asked of the reference
    sizes = tuple((name, 8) for name, _ in problem.workloads[0].sizes)
    shape = tuple(size for _, size in sizes)
    proof = unproved(
        oracle, Case("workload", sizes, "float32", 1), WorkloadOutline({}, (OutputForm(shape, "float32", True),))
    )
    call = make_call(proof)
    asked = ProfileCall(call.call, program, tuple(metrics.METRICS), limit_s, module, "candidate", (".",))
    return asked, [Buffer.to_torch(buffer) for buffer in call.tensors]


def test_the_candidate_runs_below_the_profiler_and_the_table_comes_back(state: ChildState) -> None:
    table = printed(MEMORY_BOUND, NOTHING, SPILLING)
    body = RUNS.format(python=sys.executable, table=table)
    facts, _ = count(state, *asked(profiler(state, body)))
    assert facts.exit_code == 0, facts.output
    assert facts.launched == ("_copy_kernel",)
    parts = sheet.sections(sheet.read(facts.log))
    workload = Workload(())
    own = sheet.counters(parts[0][0], Pass.forward, workload, facts.launched)
    assert [len(part) for part in parts] == [1, 1]
    assert not own.own
    assert list((state.scratch / "tmp").iterdir()) == []


def test_counters_that_are_not_there_are_left_out_one_after_the_other(state: ChildState) -> None:
    body = RUNS.format(python=sys.executable, table=printed(MEMORY_BOUND))
    facts, _ = count(state, *asked(profiler(state, body, missing="sm__pipe_tensor_cycles_active")))
    assert facts.exit_code == 0
    assert sheet.read(facts.log)


def test_a_profiler_that_hangs_is_ended_with_all_that_it_started(state: ChildState) -> None:
    mark = state.scratch / "pid"
    body = f"child = subprocess.Popen(['sleep', '60'])\nopen({str(mark)!r}, 'w').write(str(child.pid))\nchild.wait()"
    begin = time.monotonic()
    facts, _ = count(state, *asked(profiler(state, body), limit_s=3.0))
    assert facts.exit_code is None
    assert time.monotonic() - begin < 20
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and _is_alive(int(mark.read_text())):
        time.sleep(0.05)
    assert not _is_alive(int(mark.read_text()))


def test_a_candidate_that_fails_is_told_by_its_last_line(state: ChildState) -> None:
    body = RUNS.format(python=sys.executable, table="==ERROR== The application returned an error code (1).")
    facts, _ = count(state, *asked(profiler(state, body), module="elsewhere"))
    assert facts.exit_code == 1
    assert "No module named 'elsewhere'" in facts.output


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
