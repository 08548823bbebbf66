"""Products along dimensions with gradients of closed form: autograd's own look at which elements are zero. Run in the child."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


class _Product(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed here
    @staticmethod
    def forward(ctx: Any, x: Tensor, dims: Sequence[int]) -> Tensor:
        ctx.save_for_backward(x)
        ctx.dims = dims
        return _product(x, dims)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (own,) = ctx.saved_tensors
        x, zero = own.float(), own == 0
        others = _product(torch.where(zero, torch.ones_like(x), x), ctx.dims)
        zeros = zero.to(x.dtype).sum(ctx.dims, keepdim=True)
        # Without zeros the others' product over an element is what is left of the whole; at the only zero it is all of it.
        left = torch.where(zero, torch.where(zeros == 1, others, 0.0), torch.where(zeros == 0, others / x, 0.0))
        return (grad.float() * left).to(own.dtype), None


def _product(x: Tensor, dims: Sequence[int]) -> Tensor:
    for dim in dims:
        x = torch.ops.aten.prod.dim_int(x, dim, True)
    return x


class _RunningProduct(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed here
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        ctx.save_for_backward(x)
        ctx.dim = dim
        return torch.ops.aten.cumprod.default(x, dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (own,) = ctx.saved_tensors
        x, zero, dim = own.float(), own == 0, ctx.dim
        zeros = torch.cumsum(zero.to(x.dtype), dim)
        first = zero & (zeros == 1)
        # Before the first zero an element divides what follows it; the first zero itself is left out of the products.
        before = _still_to_come(grad.float() * torch.ops.aten.cumprod.default(x, dim), dim) / x
        at = torch.ops.aten.cumprod.default(torch.where(first, torch.ones_like(x), x), dim)
        at = _still_to_come(grad.float() * at, dim)
        return torch.where(zeros == 0, before, torch.where(first, at, 0.0)).to(own.dtype), None


def _still_to_come(x: Tensor, dim: int) -> Tensor:
    return torch.cumsum(x.flip(dim), dim).flip(dim)


def _prod(x: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    x = x if dtype is None else x.to(dtype)
    if not x.is_floating_point() or x.dim() == 0:
        return NotImplemented
    if dim is None:
        return _Product.apply(x.reshape(-1), [0]).reshape(())
    result = _Product.apply(x, [dim % x.dim()])
    return result if keepdim else result.squeeze(dim)


def _cumprod(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    x = x if dtype is None else x.to(dtype)
    return _RunningProduct.apply(x, dim % x.dim()) if x.is_floating_point() and x.dim() else NotImplemented


OWN_GRADIENTS: dict[Any, Callable[..., Any]] = {
    torch.prod: _prod,
    Tensor.prod: _prod,
    torch.cumprod: _cumprod,
    Tensor.cumprod: _cumprod,
}
