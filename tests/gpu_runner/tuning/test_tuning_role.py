"""The child in which settings are tried: kernels may overwrite what they were given, and may sum in another order."""

from __future__ import annotations

import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from gpu_runner.child import tuning
from gpu_runner.child.handlers import ChildState
from gpu_runner.contracts import Pass
from gpu_runner.messages import CallForm, DrawnCall, DrawnTensor, LoadTuned, PrepareTuning, TimeSettings, TrySettings

FORM = CallForm("reference", ("x",))
X = DrawnTensor((64, 32), "float32", "x", grad=True)
CALL = DrawnCall(FORM, {}, 7, (X,), (DrawnTensor((64, 32), "float32"),))


class Into(torch.autograd.Function):  # type: ignore[misc]  # torch is untyped to the checker
    """Writes its gradient into its input in the forward pass, and into the upstream gradient in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.kept = x.detach()
        value = x * x
        x.detach().mul_(2)
        return value

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad.mul_(ctx.kept)


@pytest.fixture
def state() -> Iterator[ChildState]:
    module = types.ModuleType("overwriting")
    module.candidate = Into.apply  # type: ignore[attr-defined]
    module.TUNED = {}  # type: ignore[attr-defined]
    sys.modules["overwriting"] = module
    made = ChildState(Path(tempfile.gettempdir()), Path(tempfile.gettempdir()), gpu=False)
    tuning.load(made, LoadTuned("overwriting", "candidate", FORM, "overwriting"), [])
    tuning.prepare(made, PrepareTuning(CALL, "cpu", backward=True), [])
    yield made
    del sys.modules["overwriting"]


@pytest.mark.parametrize("timed_pass", [Pass.forward, Pass.backward])
def test_settings_are_good_after_runs_that_overwrote_inputs_and_upstream(state: ChildState, timed_pass: Pass) -> None:
    for _ in range(3):
        assert tuning.attempt(state, TrySettings(timed_pass, "cpu", {}), [])[0] is None
        times, _ = tuning.block(state, TimeSettings(timed_pass, "cpu", {}, samples=3, warm_up=1), [])
        assert len(times.device_us) == 3


def test_a_value_that_is_wrong_is_told_whatever_was_overwritten(
    state: ChildState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(state.values, "candidate", lambda x: Into.apply(x) * 1.01)
    wrong, _ = tuning.attempt(state, TrySettings(Pass.forward, "cpu", {}), [])
    assert wrong == "value 0 differs from the default's"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_another_order_of_summation_is_no_difference_and_a_wrong_row_is(dtype: torch.dtype) -> None:
    terms = torch.randn(4096, 256, generator=torch.Generator().manual_seed(3))
    one = terms.sum(0).to(dtype)
    other = terms.flip(0).view(64, 64, 256).sum(1).sum(0).to(dtype)
    assert tuning._is_close(one, other)
    row = one.clone()
    row[17] *= 1.3
    row[17] += 0.3 * float(one.float().square().mean().sqrt())
    assert not tuning._is_close(one, row)
    assert not tuning._is_close(one, one * 1.05)
    holed = one.clone()
    holed[3] = torch.nan
    assert not tuning._is_close(one, holed)
    assert tuning._is_close(torch.zeros(0), torch.zeros(0))
    assert not tuning._is_close(torch.tensor([1, 2]), torch.tensor([1, 3]))
