"""The tuner as a whole, with a candidate whose settings cost what it sleeps; the clock is the host's."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from gpu_runner import tuning
from gpu_runner.context import RunContext
from gpu_runner.contracts import (
    CandidateSource,
    Knob,
    Limits,
    Pass,
    RunnerError,
    SourceFile,
    TuneRequest,
    TuneResult,
    Workload,
)
from gpu_runner.session import has_gpu
from gpu_runner.tuning.tuner import tuned

PROBLEM = '''"""Doubling."""
import torch

INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 4, "H": 96}]


def reference(x: torch.Tensor) -> torch.Tensor:
    return x * 2
'''
CANDIDATE = """
import os
import time

import torch

TUNED = {"cpu": {"forward": ((7, {"num_warps": 1}),)}}
PACE_S = {1: 0.004, 2: 0.002, 4: 0.001, 8: 0.003, 16: 0.001}


def _tuned(device, timed_pass, size, **settings):
    for size_up_to, measured in TUNED.get(device.type, {}).get(timed_pass, ()):
        if size <= size_up_to:
            settings.update({name: measured[name] for name in settings if name in measured})
            break
    return settings


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        warps = _tuned(x.device, "forward", x.shape[-1], num_warps=2)["num_warps"]
        if warps == 32:
            os._exit(3)
        time.sleep(PACE_S[warps])
        return x * 2 if warps < 16 else x * 2.1

    @staticmethod
    def backward(ctx, grad):
        warps = _tuned(grad.device, "backward", grad.shape[-1], num_warps=4)["num_warps"]
        if warps > 4:
            raise RuntimeError("out of resource: shared memory")
        time.sleep(PACE_S[warps])
        return grad.mul_(2)


def candidate(x):
    return Double.apply(x)
"""
WARPS = (1, 2, 4, 8, 16, 32)
KNOBS = (Knob(Pass.forward, "num_warps", WARPS), Knob(Pass.backward, "num_warps", WARPS))
WORKLOADS = (Workload((("T", 4), ("H", 96))), Workload((("T", 8), ("H", 96))), Workload((("T", 4), ("H", 1024))))


def context() -> RunContext:
    return RunContext(Path(tempfile.gettempdir()), Limits(time_s=120, step_s=30))


def request(candidate: str = CANDIDATE, **changes: object) -> TuneRequest:
    source = CandidateSource((SourceFile("candidate.py", candidate),))
    fields = {"dtype": "float32", "workloads": WORKLOADS, "budget_s": 20.0} | changes
    return TuneRequest(PROBLEM, source, KNOBS, **fields)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def result() -> TuneResult:
    return tuned(request(), context())


def test_the_fastest_settings_that_give_the_right_values_win(result: TuneResult) -> None:
    forward = [choice for choice in result.choices if choice.tuned_pass is Pass.forward]
    assert [choice.settings for choice in forward] == [(("num_warps", 4),)] * 3
    assert all(choice.speedup is not None and 1.2 < choice.speedup < 2.5 for choice in forward)


def test_the_default_stays_where_nothing_is_faster(result: TuneResult) -> None:
    backward = [choice for choice in result.choices if choice.tuned_pass is Pass.backward]
    assert [(choice.settings, choice.speedup) for choice in backward] == [((), None)] * 3


def test_the_size_is_what_the_candidate_looked_up_by(result: TuneResult) -> None:
    assert [choice.size for choice in result.choices] == [96, 96, 96, 96, 1024, 1024]


def test_the_table_covers_what_was_measured(result: TuneResult) -> None:
    four = (("num_warps", 4),)
    assert result.table == ((Pass.forward, ((48, ()), (96, four), (512, ()), (1024, four))),)
    assert result.architecture == "cpu"


def test_what_does_not_run_is_told_with_its_reason(result: TuneResult) -> None:
    told = dict(result.failed)
    assert "shared memory" in told["backward: num_warps=8 (T=8 H=96)"]


def test_wrong_values_and_a_process_that_ends_cost_one_try_each() -> None:
    fast_but_wrong = CANDIDATE.replace("8: 0.003", "8: 0.0005").replace("warps < 16", "warps < 8")
    knobs = (Knob(Pass.forward, "num_warps", (2, 8, 32)),)
    changes = {"workloads": WORKLOADS[:1], "budget_s": 15.0}
    source = CandidateSource((SourceFile("candidate.py", fast_but_wrong.replace("num_warps=2)", "num_warps=8)")),))
    slow = TuneRequest(PROBLEM, source, knobs, dtype="float32", **changes)  # type: ignore[arg-type]
    found = tuned(slow, context())
    told = dict(found.failed)
    assert "differs from the default's" in told["forward: num_warps=2 (T=4 H=96)"]
    assert "ended before it answered" in told["forward: num_warps=32 (T=4 H=96)"]
    assert found.table == ()


def test_a_candidate_that_looks_nothing_up_is_told() -> None:
    blind = CANDIDATE.replace("TUNED.get(device.type, {}).get(timed_pass, ())", "()")
    found = tuned(request(blind, workloads=WORKLOADS[:1], budget_s=5.0), context())
    assert found.choices == ()
    assert any("read no settings in its forward pass" in note for note in found.notes)


def test_a_candidate_without_a_table_cannot_be_tuned() -> None:
    with pytest.raises(RunnerError, match="no dict TUNED"):
        tuned(request("def candidate(x):\n    return x * 2\n"), context())


@pytest.mark.skipif(has_gpu(), reason="on a GPU settings are tried")
def test_without_a_gpu_nothing_is_tuned_and_the_result_says_so() -> None:
    found = tuning.run(request(), context())
    assert (found.choices, found.architecture, found.table) == ((), None, ())
    assert "No GPU is available" in found.notes[0]
