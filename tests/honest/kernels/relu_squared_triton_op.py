"""Squared ReLU as a ``torch.library.triton_op`` with a registered gradient, so that ``torch.compile`` sees into it."""

import torch
import triton
import triton.language as tl
from torch.library import triton_op, wrap_triton


@triton.jit
def relu_squared_kernel(x_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    r = tl.where(x <= 0, 0.0, x)
    tl.store(out_ptr + offsets, r * r, mask=mask)


@triton.jit
def relu_squared_backward_kernel(dy_ptr, x_ptr, dx_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    dy = tl.load(dy_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(dx_ptr + offsets, tl.where(x <= 0, 0.0, 2.0 * x * dy), mask=mask)


@triton_op("honest_style::relu_squared", mutates_args={})
def relu_squared(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    n_elements = out.numel()

    def grid(meta):
        return (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)

    wrap_triton(relu_squared_kernel)[grid](x, out, n_elements, BLOCK_SIZE=1024)
    return out


@triton_op("honest_style::relu_squared_backward", mutates_args={})
def relu_squared_backward(dy: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    dy = dy.contiguous()
    x = x.contiguous()
    dx = torch.empty_like(x)
    n_elements = dx.numel()
    grid = (triton.cdiv(n_elements, 1024),)
    wrap_triton(relu_squared_backward_kernel)[grid](dy, x, dx, n_elements, BLOCK_SIZE=1024)
    return dx


def setup_context(ctx, inputs, output):
    (x,) = inputs
    ctx.save_for_backward(x)


def backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return relu_squared_backward(grad, x)


relu_squared.register_autograd(backward, setup_context=setup_context)


def candidate(x: torch.Tensor) -> torch.Tensor:
    return relu_squared(x)
