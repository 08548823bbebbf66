"""Bytes of gradients: what no kernel has to write is in no floor."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from gpu_runner.child.reference import _written

Tensors = dict[str, torch.Tensor]
ELEMENTS = 6 * 8


def _residual_norm(t: Tensors) -> list[torch.Tensor]:
    total = t["x"] + t["r"]
    return [total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True)) * t["w"], total]


@pytest.mark.parametrize(
    ("reference", "elements"),
    [
        pytest.param(lambda t: [t["x"] * t["r"]], 2 * ELEMENTS, id="a gradient of each"),
        pytest.param(_residual_norm, ELEMENTS + 8, id="one gradient for both terms of a residual sum"),
        pytest.param(lambda t: [t["x"] + t["r"]], 0, id="the upstream gradient, handed on"),
        pytest.param(lambda t: [t["x"] * t["w"]], ELEMENTS + 8, id="an input that is not used has none"),
        pytest.param(lambda t: [t["x"].sum()], ELEMENTS, id="a number for all elements has to be written to each"),
    ],
)
def test_a_gradient_that_two_inputs_share_is_written_once(
    reference: Callable[[Tensors], list[torch.Tensor]], elements: int
) -> None:
    shapes = {"x": (6, 8), "r": (6, 8), "w": (8,)}
    with torch.device("meta"):
        leaves = {name: torch.empty(shape, requires_grad=True) for name, shape in shapes.items()}
        outputs = reference(leaves)
    assert _written(list(leaves.values()), outputs) == 4 * elements
