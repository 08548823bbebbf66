"""Timed runs of a gated cell in bfloat16: what eager mode rounds before a gate is multiplied by its slope, so that where weights are
large one run of eager mode says little of the error of another.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from gpu_runner.benchmark import checks
from gpu_runner.benchmark.checks import Rows, result_error
from gpu_runner.benchmark.contender import Computed
from gpu_runner.benchmark.material import Material, Secret
from gpu_runner.child.calls import Arguments
from gpu_runner.contracts import Pass, Workload
from gpu_runner.verify.measures import rms
from gpu_runner.verify.proof import ChildCall
from tests.gpu_runner.benchmark.child import Child, answer, entry

ROWS, WIDTH = 48, 128
HALF = torch.bfloat16
LARGE, AS_LAYERS_BEGIN = 0.5, WIDTH**-0.5
OBJECTED = (0,)


def cell(x: torch.Tensor, h: torch.Tensor, wx: torch.Tensor, wh: torch.Tensor) -> torch.Tensor:
    return gated(F.linear(x, wx), F.linear(h, wh), h)


def gated(of_x: torch.Tensor, of_h: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    x_reset, x_update, x_new = of_x.chunk(3, 1)
    h_reset, h_update, h_new = of_h.chunk(3, 1)
    reset, update = torch.sigmoid(x_reset + h_reset), torch.sigmoid(x_update + h_update)
    return update * h + (1 - update) * torch.tanh(x_new + reset * h_new)


class Fused(torch.autograd.Function):
    """What a kernel computes of the gates: all of it in float32, rounded as it is stored."""

    @staticmethod
    def forward(ctx: Any, *given: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*given)
        return gated(*(value.float() for value in given)).to(HALF)

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor) -> tuple[torch.Tensor, ...]:  # type: ignore[override]
        leaves = [value.float().requires_grad_() for value in ctx.saved_tensors]
        with torch.enable_grad():
            found = gated(*leaves)
        return tuple(grad.to(HALF) for grad in torch.autograd.grad(found, leaves, upstream[0].float()))


def fused(given: Arguments, forgets: str | None = None) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    x, h, wx, wh = given.leaves.values()
    apply: Any = Fused.apply
    output = apply(F.linear(x, wx), F.linear(h, wh), torch.zeros_like(h) if forgets == "state" else h)
    grads = torch.autograd.grad(output, list(given.leaves.values()), given.upstream[0])
    return [output.detach()], list(grads)


def meta(scale: float, seed: int) -> dict[str, Any]:
    half = {"dtype": "bfloat16"}
    inputs = [entry(name, [ROWS, WIDTH], **half) for name in ("x", "h")]
    inputs += [entry(name, [3 * WIDTH, WIDTH], scale=scale, **half) for name in ("wx", "wh")]
    form = {"form": "reference", "order": ["x", "h", "wx", "wh"], "keywords": [], "parameters": [], "scalars": {}}
    return form | {"seed": seed, "inputs": inputs, "upstream": [{"shape": [ROWS, WIDTH], **half}], "backward": True}


@functools.cache
def rows_of(scale: float, seed: int) -> tuple[Rows, Rows]:
    """The truth of a timed run, and the same with what other roundings make of it."""
    secret = Secret(0, seed)
    call = ChildCall(meta(scale, seed), [])
    material = Material(Workload((("T", ROWS),)), call, True, 3, dict.fromkeys(Pass, secret), None, {})
    child: Any = Child(cell)
    rows = checks.prove(child, material, Pass.full)
    return rows, checks.bent(child, material, Pass.full, rows)


def run(scale: float, seed: int, forgets: str | None = None) -> Computed:
    return answer(meta(scale, seed), Secret(0, seed), Pass.full, lambda given: fused(given, forgets))


def losses(scale: float, seed: int) -> list[tuple[float, float]]:
    """What eager mode and the kernel lose of the output and of each gradient, as shares."""
    rows, _ = rows_of(scale, seed)
    known = [item for item in (*rows.outputs, *rows.gradients) if item is not None]
    return [
        (rms(item.truth.own.double() - item.truth.exact) / rms(item.truth.exact), rms(value.double() - item.truth.exact) / rms(item.truth.exact))
        for item, value in zip(known, run(scale, seed).tensors, strict=True)
    ]
