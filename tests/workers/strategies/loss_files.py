"""A library's loss in small, which looks up a class a row: it waits for the GPU, and refuses classes that are not there."""

from __future__ import annotations

from dataclasses import replace

from tests.workers.compiler.captured import captured
from tests.workers.strategies.situations import situation
from workers.authors.compiler import CompilerAuthor
from workers.strategies.protocol import Situation

LOSS = '''from typing import Optional

import torch
import triton
import triton.language as tl


@triton.jit
def _loss_kernel(X_ptr, X_stride, Y_ptr, loss_ptr, n_cols, n_kept, ignore_index, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    X_ptr += row * X_stride
    y = tl.load(Y_ptr + row)
    if y == ignore_index:
        tl.store(X_ptr + cols, 0.0, mask=mask)
        return
    x = tl.load(X_ptr + cols, mask=mask, other=-float("inf")).to(tl.float32)
    x_y = tl.load(X_ptr + y).to(tl.float32)
    m = tl.max(x)
    d = tl.sum(tl.exp(x - m))
    tl.store(loss_ptr + row, (m + tl.log(d) - x_y) / n_kept)
    gradient = tl.exp(x - m) / d - tl.where(cols == y, 1.0, 0.0)
    tl.store(X_ptr + cols, gradient / n_kept, mask=mask)


def loss_forward(x, target, ignore_index):
    n_rows, n_cols = x.shape
    kept = target != ignore_index
    n_kept = kept.sum().item()
    assert (target * kept).max() < n_cols, f"Target {target.max()} is out of bounds"
    assert (target * kept).min() >= 0, f"Target {target.min()} is out of bounds"
    loss = torch.zeros(n_rows, dtype=torch.float32, device=x.device)
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    _loss_kernel[(n_rows,)](x, x.stride(0), target, loss, n_cols, n_kept, ignore_index, BLOCK_SIZE=BLOCK_SIZE)
    return torch.sum(loss).to(x.dtype), x


class LossFunction(torch.autograd.Function):
    """Cross-entropy, the mean over the rows that are kept."""

    @staticmethod
    def forward(ctx, x, target, weight: Optional[torch.FloatTensor] = None, ignore_index: int = -100):
        assert weight is None
        loss, gradient = loss_forward(x, target, ignore_index)
        ctx.save_for_backward(gradient.detach())
        return loss

    @staticmethod
    def backward(ctx, dy):
        (gradient,) = ctx.saved_tensors
        return gradient * dy, None, None, None
'''
# The same with a number that the loss depends on.
SCALED_LOSS = (
    LOSS.replace("ignore_index: int = -100):", "ignore_index: int = -100, scale: float = 1.0):")
    .replace("(x, target, ignore_index)\n        ctx", "(x * scale, target, ignore_index)\n        ctx")
    .replace("gradient * dy, None, None, None", "gradient * dy, None, None, None, None")
)


def loss_situation(name: str = "cross_entropy", source: str | None = None, **changed: object) -> Situation:
    """A situation in which the file computes a captured problem of logits, classes and at most one number."""
    problem, graph = captured(name)
    logits, classes, *number = problem.parameters
    call = f"LossFunction.apply({', '.join([logits, classes, 'None', '-100', *number])})"
    given = {"problem": replace(problem, call=call), "graph": graph, "overwrites": (logits,), **changed}
    text = source or (SCALED_LOSS if number else LOSS)
    return situation(text, CompilerAuthor(), **given)  # type: ignore[arg-type]
