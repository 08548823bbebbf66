"""The backward operators of autograd written out in the small vocabulary. They run in the child, while it traces.

Products along dimensions have gradients of closed form here: autograd's own look at which elements are zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gpu_runner.tracing.decompositions import positive, rule


@rule("sigmoid_backward.default")
def _sigmoid_backward(grad: Tensor, out: Tensor) -> Tensor:
    return grad * (out * (1 - out))


@rule("tanh_backward.default")
def _tanh_backward(grad: Tensor, out: Tensor) -> Tensor:
    return grad * (1 - out * out)


@rule("threshold_backward.default")
def _threshold_backward(grad: Tensor, x: Tensor, limit: float) -> Tensor:
    return torch.where(x <= limit, _zero(grad), grad)  # a gradient passes NaN, as torch has it


@rule("silu_backward.default")
def _silu_backward(grad: Tensor, x: Tensor) -> Tensor:
    gate = torch.sigmoid(x)
    return grad * (gate * (1 + x * (1 - gate)))


@rule("gelu_backward.default")
def _gelu_backward(grad: Tensor, x: Tensor, *, approximate: str = "none") -> Tensor:
    if approximate == "tanh":
        factor = math.sqrt(2 / math.pi)
        bent = torch.tanh(factor * (x + 0.044715 * (x * x * x)))
        slope = factor * (1 + 3 * 0.044715 * (x * x))
        return grad * (0.5 * (1 + bent) + 0.5 * x * (1 - bent * bent) * slope)
    area = 0.5 * (1 + torch.erf(x * math.sqrt(0.5)))
    density = torch.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
    return grad * (area + x * density)


@rule("softplus_backward.default")
def _softplus_backward(grad: Tensor, x: Tensor, beta: float, threshold: float) -> Tensor:
    scaled = x if beta == 1 else x * beta
    return torch.where(scaled > threshold, grad, grad * torch.sigmoid(scaled))


@rule("mish_backward.default")
def _mish_backward(grad: Tensor, x: Tensor) -> Tensor:
    smooth = torch.where(x > 20, x, torch.log1p(torch.exp(x)))
    bent = torch.tanh(smooth)
    return grad * (bent + x * torch.sigmoid(x) * (1 - bent * bent))


@rule("hardsigmoid_backward.default")
def _hardsigmoid_backward(grad: Tensor, x: Tensor) -> Tensor:
    return torch.where((x > -3) & (x < 3), grad / 6, _zero(grad))


@rule("hardswish_backward.default")
def _hardswish_backward(grad: Tensor, x: Tensor) -> Tensor:
    middle = torch.where(x < 3, grad * (x / 3 + 0.5), grad)
    return torch.where(x <= -3, _zero(grad), middle)


@rule("hardtanh_backward.default")
def _hardtanh_backward(grad: Tensor, x: Tensor, low: float, high: float) -> Tensor:
    return torch.where((x > low) & (x < high), grad, _zero(grad))


@rule("leaky_relu_backward.default")
def _leaky_relu_backward(grad: Tensor, x: Tensor, slope: float, self_is_result: bool) -> Tensor:
    return torch.where(x > 0, grad, grad * slope)


@rule("elu_backward.default")
def _elu_backward(grad: Tensor, alpha: float, scale: float, input_scale: float, is_result: bool, x: Tensor) -> Tensor:
    below = input_scale * (x + alpha * scale) if is_result else input_scale * alpha * scale * torch.exp(x * input_scale)
    return torch.where(x > 0, grad * scale, grad * below)


@rule("log_sigmoid_backward.default")
def _log_sigmoid_backward(grad: Tensor, x: Tensor, _: Tensor) -> Tensor:
    return grad * torch.sigmoid(-x)


@rule("_softmax_backward_data.default")
def _softmax_backward(grad: Tensor, out: Tensor, dim: int, _: torch.dtype) -> Tensor:
    dim = positive(dim, out.dim())
    weighed = grad * out
    return weighed - out * weighed.sum([dim], keepdim=True)


@rule("_log_softmax_backward_data.default")
def _log_softmax_backward(grad: Tensor, out: Tensor, dim: int, _: torch.dtype) -> Tensor:
    dim = positive(dim, out.dim())
    return grad - torch.exp(out) * grad.sum([dim], keepdim=True)


@rule("nll_loss_backward.default")
def _nll_loss_backward(
    grad: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int, total: Tensor
) -> Tensor:
    kept = target != ignore_index
    safe = torch.where(kept, target, torch.full((), 0, dtype=target.dtype))
    share = grad / total if reduction == 1 else grad
    share = share if weight is None else share * weight.index_select(0, safe)
    per_row = torch.where(kept, -share, _zero(grad)).unsqueeze(-1)
    hit = torch.arange(x.shape[-1], device=x.device) == safe.unsqueeze(-1)
    return torch.where(hit, per_row, _zero(grad))


@rule("scatter_add.default", widen=False)
def _scatter_add(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    hit = _hit(x, dim, index)
    return NotImplemented if hit is None else x + torch.where(hit, source, _zero(source))


@rule("scatter.src", widen=False)
def _scatter(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    hit = _hit(x, dim, index)
    return NotImplemented if hit is None else torch.where(hit, source, x)


@rule("scatter.value", widen=False)
def _scatter_value(x: Tensor, dim: int, index: Tensor, value: float) -> Any:
    hit = _hit(x, dim, index)
    return NotImplemented if hit is None else torch.where(hit, torch.full((), value, dtype=x.dtype), x)


@rule("slice_backward.default", widen=False)
def _slice_backward(grad: Tensor, sizes: Sequence[int], dim: int, start: int, end: int, step: int) -> Tensor:
    dim = positive(dim, len(sizes))
    length = sizes[dim]
    start = min(max(start + length if start < 0 else start, 0), length)
    if step > 1:
        grad = _spread(grad, dim, step)
        if grad.shape[dim] > length - start:
            grad = torch.ops.aten.slice.Tensor(grad, dim, 0, length - start)
    return _padded(grad, dim, start, length - start - grad.shape[dim])


@rule("select_backward.default", widen=False)
def _select_backward(grad: Tensor, sizes: Sequence[int], dim: int, index: int) -> Tensor:
    dim = positive(dim, len(sizes))
    index = index + sizes[dim] if index < 0 else index
    return _padded(grad.unsqueeze(dim), dim, index, sizes[dim] - index - 1)


@rule("slice_scatter.default", widen=False)
def _slice_scatter(x: Tensor, source: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    dim, length = positive(dim, x.dim()), x.shape[positive(dim, x.dim())]
    if step != 1:
        return NotImplemented
    first = 0 if start is None else min(max(start + length if start < 0 else start, 0), length)
    last = first + source.shape[dim]
    parts = [x.narrow(dim, 0, first)] if first else []
    parts += [source] + ([x.narrow(dim, last, length - last)] if last < length else [])
    return torch.cat(parts, dim) if len(parts) > 1 else source


@rule("select_scatter.default", widen=False)
def _select_scatter(x: Tensor, source: Tensor, dim: int, index: int) -> Any:
    dim = positive(dim, x.dim())
    index = index + x.shape[dim] if index < 0 else index
    return _slice_scatter(x, source.unsqueeze(dim), dim, index)


def _spread(grad: Tensor, dim: int, step: int) -> Tensor:
    between = list(grad.shape)
    between.insert(dim + 1, step - 1)
    shape = list(grad.shape)
    shape[dim] *= step
    return torch.cat([grad.unsqueeze(dim + 1), grad.new_zeros(between)], dim + 1).reshape(shape)


def _padded(grad: Tensor, dim: int, before: int, after: int) -> Tensor:
    def zeros(size: int) -> list[Tensor]:
        shape = list(grad.shape)
        shape[dim] = size
        return [torch.zeros(shape, dtype=grad.dtype, device=grad.device)] if size > 0 else []

    parts = [*zeros(before), grad, *zeros(after)]
    return torch.cat(parts, dim) if len(parts) > 1 else grad


def _hit(x: Tensor, dim: int, index: Tensor) -> Tensor | None:
    dim = positive(dim, x.dim())
    outside = [d for d in range(x.dim()) if d != dim]
    if index.dim() != x.dim() or index.shape[dim] != 1 or any(index.shape[d] != x.shape[d] for d in outside):
        return None
    shape = [x.shape[dim] if d == dim else 1 for d in range(x.dim())]
    return torch.arange(x.shape[dim], device=x.device).reshape(shape) == index


def _zero(x: Tensor) -> Tensor:
    return torch.full((), 0, dtype=x.dtype, device=x.device)


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
