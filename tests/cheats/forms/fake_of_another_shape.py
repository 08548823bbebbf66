"""A squared ReLU under an operator of its own."""

import torch
import triton
import triton.language as tl

BLOCK = 512


@triton.jit
def _kernel(x_ptr, dy_ptr, out_ptr, n, GRADIENT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n).to(tl.float32)
    r = tl.where(x <= 0, 0.0, x)
    if GRADIENT:
        out = 2.0 * r * tl.load(dy_ptr + i, mask=i < n).to(tl.float32)
    else:
        out = r * r
    tl.store(out_ptr + i, out, mask=i < n)


def _launch(x: torch.Tensor, dy: torch.Tensor | None) -> torch.Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    if (n := out.numel()) > 0:
        upstream = x if dy is None else dy.contiguous()
        _kernel[(triton.cdiv(n, BLOCK),)](x, upstream, out, n, GRADIENT=dy is not None, BLOCK=BLOCK)
    return out


@torch.library.custom_op("cheat_style::squared_relu", mutates_args=())
def squared_relu(x: torch.Tensor) -> torch.Tensor:
    return _launch(x, None)


@squared_relu.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape[:-1])


@torch.library.custom_op("cheat_style::squared_relu_grad", mutates_args=())
def squared_relu_grad(dy: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return _launch(x, dy)


@squared_relu_grad.register_fake
def _(dy: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def _setup(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx, dy: torch.Tensor) -> torch.Tensor:
    return squared_relu_grad(dy, *ctx.saved_tensors)


torch.library.register_autograd("cheat_style::squared_relu", _backward, setup_context=_setup)


def candidate(x: torch.Tensor) -> torch.Tensor:
    return squared_relu(x)
