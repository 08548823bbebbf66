"""The interpreter computes bfloat16 as a GPU does, once it was taught."""

from __future__ import annotations

import torch

from gpu_runner.child.interpreter import narrow, widen


def test_narrowing_rounds_to_the_nearest_even_as_torch_does() -> None:
    values = torch.cat(
        [torch.randn(4096) * 100, torch.tensor([0.0, -0.0, float("inf"), float("-inf"), 1 + 2**-8, 1 + 3 * 2**-8])]
    )
    expected = values.bfloat16()
    got = narrow(values.numpy())
    assert torch.equal(torch.from_numpy(got.view("int16")), expected.view(torch.int16))
    assert torch.equal(torch.from_numpy(widen(got)), expected.float())


def test_nan_stays_nan() -> None:
    assert bool(torch.from_numpy(widen(narrow(torch.tensor([float("nan")]).numpy()))).isnan().all())
