"""Operators written out in the small vocabulary, forward, the norms and views by strides. They run in the child, while it traces.

They compute in float32 where the operand is narrower, as torch's own kernels do, and round once at the end. Views by strides, which
autograd makes for changes in place, are written as slices.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}
_NARROW = (torch.bfloat16, torch.float16)


def rule(*names: str, widen: bool = True) -> Callable[[Rule], Rule]:
    """Enter a function into the table for the operators ``names``, such as ``silu.default``."""

    def enter(function: Rule) -> Rule:
        chosen = widened(function) if widen else function
        RULES.update(dict.fromkeys(names, chosen))
        return function

    return enter


def widened(function: Rule) -> Rule:
    """Wrap a rule to compute in float32 where its first operand is narrower, and to round its results once."""

    @functools.wraps(function)
    def call(first: Tensor, *args: Any, **kwargs: Any) -> Any:
        if first.dtype not in _NARROW:
            return function(first, *args, **kwargs)
        wide = [a.float() if isinstance(a, Tensor) and a.dtype in _NARROW else a for a in args]
        result = function(first.float(), *wide, **kwargs)
        if isinstance(result, tuple):
            return tuple(r.to(first.dtype) if isinstance(r, Tensor) and r.dtype == torch.float32 else r for r in result)
        return result.to(first.dtype) if result.dtype == torch.float32 else result

    return call


def positive(dim: int, rank: int) -> int:
    """``dim`` counted from the front."""
    return dim % max(rank, 1)


def all_dims(x: Tensor, dims: int | Sequence[int] | None) -> list[int]:
    """The dimensions of a reduction, counted from the front; None means all."""
    if isinstance(dims, int):
        dims = [dims]
    return sorted({positive(d, x.dim()) for d in dims}) if dims else list(range(x.dim()))


def count(x: Tensor, dims: Sequence[int]) -> int:
    """Number of elements along ``dims``."""
    return math.prod(x.shape[d] for d in dims)


@rule("silu.default")
def _silu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


@rule("gelu.default")
def _gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
        return 0.5 * x * (1 + torch.tanh(inner))
    return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))


@rule("softplus.default")
def _softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    scaled = x if beta == 1 else x * beta
    smooth = torch.log1p(torch.exp(scaled))
    return torch.where(scaled > threshold, x, smooth if beta == 1 else smooth / beta)


@rule("mish.default")
def _mish(x: Tensor) -> Tensor:
    return x * torch.tanh(_softplus(x))


@rule("hardsigmoid.default")
def _hardsigmoid(x: Tensor) -> Tensor:
    return torch.minimum(torch.maximum(x + 3, _zero(x)), _number(x, 6.0)) / 6


@rule("hardswish.default")
def _hardswish(x: Tensor) -> Tensor:
    return x * _hardsigmoid(x)


@rule("hardtanh.default")
def _hardtanh(x: Tensor, low: float = -1, high: float = 1) -> Tensor:
    return torch.minimum(torch.maximum(x, _number(x, low)), _number(x, high))


@rule("leaky_relu.default")
def _leaky_relu(x: Tensor, slope: float = 0.01) -> Tensor:
    return torch.where(x > 0, x, x * slope)


@rule("elu.default")
def _elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    scaled = x if input_scale == 1 else x * input_scale
    low = torch.expm1(scaled)
    low = low if alpha * scale == 1 else low * (alpha * scale)
    return torch.where(x > 0, x if scale == 1 else x * scale, low)


@rule("log_sigmoid_forward.default")
def _log_sigmoid_forward(x: Tensor) -> tuple[Tensor, Tensor]:
    result = torch.minimum(x, _zero(x)) - torch.log1p(torch.exp(-torch.abs(x)))
    return result, torch.zeros_like(x)


@rule("threshold.default")
def _threshold(x: Tensor, limit: float, value: float) -> Tensor:
    return torch.where(x > limit, x, _number(x, value))


@rule("clamp.default")
def _clamp(x: Tensor, low: float | None = None, high: float | None = None) -> Tensor:
    x = x if low is None else torch.maximum(x, _number(x, low))
    return x if high is None else torch.minimum(x, _number(x, high))


@rule("clamp_min.default")
def _clamp_min(x: Tensor, low: float) -> Tensor:
    return torch.maximum(x, _number(x, low))


@rule("clamp_max.default")
def _clamp_max(x: Tensor, high: float) -> Tensor:
    return torch.minimum(x, _number(x, high))


@rule("clamp.Tensor", widen=False)
def _clamp_tensor(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    x = x if low is None else torch.maximum(x, low)
    return x if high is None else torch.minimum(x, high)


@rule("masked_fill.Scalar", widen=False)
def _masked_fill(x: Tensor, mask: Tensor, value: float) -> Tensor:
    return torch.where(mask, _number(x, value), x)


@rule("masked_fill.Tensor", widen=False)
def _masked_fill_tensor(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    return torch.where(mask, value.to(x.dtype), x)


@rule("mean.default", "mean.dim")
def _mean(x: Tensor, dims: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    x = x if dtype is None else x.to(dtype)
    chosen = all_dims(x, dims)
    return x.sum(chosen, keepdim=keepdim) / count(x, chosen)


@rule("var_mean.correction")
def var_mean(x: Tensor, dims: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Any:
    """Variance and mean along dimensions, in two passes over the values."""
    chosen = all_dims(x, dims)
    free = 1 if correction is None else correction
    size = count(x, chosen)
    middle = x.sum(chosen, keepdim=True) / size
    away = x - middle
    spread = (away * away).sum(chosen, keepdim=keepdim) / (size if free == 0 else size - free)
    return spread, middle if keepdim or not chosen else _dropped(middle, chosen)


@rule("var.correction")
def _var(x: Tensor, dims: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    return var_mean(x, dims, correction=correction, keepdim=keepdim)[0]


@rule("std.correction")
def _std(x: Tensor, dims: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    return torch.sqrt(_var(x, dims, correction=correction, keepdim=keepdim))


@rule("linalg_vector_norm.default")
def _vector_norm(
    x: Tensor, order: float = 2, dims: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    x = x if dtype is None else x.to(dtype)
    chosen = all_dims(x, dims)
    if order == 2:
        return torch.sqrt((x * x).sum(chosen, keepdim=keepdim))
    if order in (math.inf, -math.inf):
        extreme = torch.amax if order > 0 else torch.amin
        return extreme(torch.abs(x), chosen, keepdim)
    if order == 0:
        return (x != 0).to(x.dtype).sum(chosen, keepdim=keepdim)
    size = torch.abs(x)
    total = (size if order == 1 else size**order).sum(chosen, keepdim=keepdim)
    return total if order == 1 else total ** (1 / order)


@rule("logsumexp.default")
def _logsumexp(x: Tensor, dims: Any, keepdim: bool = False) -> Tensor:
    chosen = all_dims(x, dims)
    top = torch.amax(x, chosen, True)
    total = torch.log(torch.exp(x - top).sum(chosen, keepdim=True)) + top
    return total if keepdim else _dropped(total, chosen)


@rule("_safe_softmax.default")
def _safe_softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """Attention's softmax: a row of which a mask leaves nothing is zero."""
    top = torch.amax(x, [positive(dim, x.dim())], True)
    return torch.where(top == -math.inf, 0.0, _softmax(x, dim))


@rule("_softmax.default")
def _softmax(x: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    dim = positive(dim, x.dim())
    powers = torch.exp(x - torch.amax(x, [dim], True))
    return powers / powers.sum([dim], keepdim=True)


@rule("_log_softmax.default")
def _log_softmax(x: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    dim = positive(dim, x.dim())
    shifted = x - torch.amax(x, [dim], True)
    return shifted - torch.log(torch.exp(shifted).sum([dim], keepdim=True))


@rule("max.dim", widen=False)
def _max_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return torch.amax(x, [dim], keepdim), torch.argmax(x, dim, keepdim)


@rule("min.dim", widen=False)
def _min_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return torch.amin(x, [dim], keepdim), torch.argmax(-x, dim, keepdim)


@rule("hypot.default")
def _hypot(x: Tensor, y: Tensor) -> Tensor:
    # Squares of the elements themselves would overflow, or vanish, where the length does not.
    longer, shorter = torch.maximum(x.abs(), y.abs()), torch.minimum(x.abs(), y.abs())
    ratio = torch.where(longer == shorter, 1.0, shorter / longer)
    infinite = (x.abs() == torch.inf) | (y.abs() == torch.inf)
    return torch.where(infinite, torch.inf, longer * torch.sqrt(1.0 + ratio * ratio))


@rule("any.default", "any.dim", "any.dims", widen=False)
def _any(x: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    return torch.amax((x != 0).float(), all_dims(x, dim), keepdim) != 0


@rule("all.default", "all.dim", "all.dims", widen=False)
def _all(x: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    return torch.amin((x != 0).float(), all_dims(x, dim), keepdim) != 0


@rule("max.default", widen=False)
def _max_of_all(x: Tensor) -> Tensor:
    return torch.amax(x, list(range(x.dim())))


@rule("min.default", widen=False)
def _min_of_all(x: Tensor) -> Tensor:
    return torch.amin(x, list(range(x.dim())))


@rule("nll_loss_forward.default")
def _nll_loss(x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int) -> Any:
    kept = target != ignore_index
    safe = torch.where(kept, target, _zero(target))
    picked = -torch.gather(x, x.dim() - 1, safe.unsqueeze(-1)).squeeze(-1)
    scale = kept.to(x.dtype) if weight is None else torch.where(kept, weight.index_select(0, safe), _zero(weight))
    loss = torch.where(kept, picked if weight is None else picked * scale, _zero(x))
    total = scale.sum()
    if reduction == 0:
        return loss, total
    return (loss.sum() / total if reduction == 1 else loss.sum()), total


@rule("embedding.default", widen=False)
def _embedding(weight: Tensor, index: Tensor, *_: Any) -> Tensor:
    return weight.index_select(0, index.reshape(-1)).reshape(*index.shape, weight.shape[1])


@rule("split_with_sizes.default", widen=False)
def _split_with_sizes(x: Tensor, sizes: Sequence[int], dim: int = 0) -> list[Tensor]:
    parts, start = [], 0
    for size in sizes:
        parts.append(torch.ops.aten.slice.Tensor(x, dim, start, start + size))
        start += size
    return parts


@rule("repeat.default", widen=False)
def _repeat(x: Tensor, times: Sequence[int]) -> Tensor:
    x = x.reshape([1] * (len(times) - x.dim()) + list(x.shape))
    paired = [part for size in x.shape for part in (1, size)]
    wide = [part for time, size in zip(times, x.shape, strict=True) for part in (time, size)]
    return x.reshape(paired).expand(wide).reshape([t * s for t, s in zip(times, x.shape, strict=True)])


def _dropped(x: Tensor, dims: Sequence[int]) -> Tensor:
    return x.reshape([size for d, size in enumerate(x.shape) if d not in dims])


def _number(x: Tensor, value: float) -> Tensor:
    return torch.full((), value, dtype=x.dtype, device=x.device)


def _zero(x: Tensor) -> Tensor:
    return torch.full((), 0, dtype=x.dtype, device=x.device)


Window = list[tuple[int, int]]  # for each dimension of the base, where the view starts and how long it is


@rule("diagonal.default", widen=False)
def _diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    first, second = positive(dim1, x.dim()), positive(dim2, x.dim())
    size = x.shape[first]
    if offset or size != x.shape[second] or x.dtype in _NARROW or not x.is_floating_point():
        return NotImplemented
    own = torch.arange(size, device=x.device).reshape([size if d == first else 1 for d in range(x.dim())])
    other = torch.arange(size, device=x.device).reshape([size if d == second else 1 for d in range(x.dim())])
    one = torch.where(own == other, x, 0.0).sum([first], keepdim=True)  # one of the terms, so that nothing is rounded
    moved = [d for d in range(x.dim()) if d not in (first, second)]
    return one.permute([*moved, second, first]).reshape([*(x.shape[d] for d in moved), size])


@rule("as_strided.default", widen=False)
def _as_strided(x: Tensor, sizes: Sequence[int], strides: Sequence[int], offset: int | None = None) -> Any:
    box = window(x, sizes, strides, offset or 0)
    if box is None:
        return NotImplemented
    for dim, (start, length) in enumerate(box):
        if length < x.shape[dim]:
            x = torch.ops.aten.slice.Tensor(x, dim, start, start + length)
    return x.reshape(tuple(sizes))


@rule("unfold.default", widen=False)
def _unfold(x: Tensor, dim: int, size: int, step: int) -> Any:
    if size != step or not x.dim():
        return NotImplemented  # windows that overlap, or leave elements out
    dim = positive(dim, x.dim())
    pieces = x.shape[dim] // size
    kept = torch.ops.aten.slice.Tensor(x, dim, 0, pieces * size) if pieces * size < x.shape[dim] else x
    cut = kept.reshape([*x.shape[:dim], pieces, size, *x.shape[dim + 1 :]])
    return cut.permute([d for d in range(cut.dim()) if d != dim + 1] + [dim + 1])


@rule("unfold_backward.default", widen=False)
def _unfold_backward(grad: Tensor, sizes: Sequence[int], dim: int, size: int, step: int) -> Any:
    if size != step or not sizes:
        return NotImplemented
    dim = positive(dim, len(sizes))
    last = grad.dim() - 1
    turned = grad.permute([*range(dim + 1), last, *range(dim + 1, last)])
    whole = turned.reshape([*sizes[:dim], grad.shape[dim] * size, *sizes[dim + 1 :]])
    missing = sizes[dim] - whole.shape[dim]
    return torch.constant_pad_nd(whole, [0] * (2 * (len(sizes) - 1 - dim)) + [0, missing]) if missing else whole


@rule("as_strided_scatter.default", widen=False)
def _as_strided_scatter(
    x: Tensor, source: Tensor, sizes: Sequence[int], strides: Sequence[int], offset: int | None = None
) -> Any:
    box = window(x, sizes, strides, offset or 0)
    if box is None:
        return NotImplemented
    return _placed(x, source.reshape([length for _, length in box]), box, 0)


@rule("new_empty_strided.default", "empty_strided.default", widen=False)
def _new_empty_strided(x: Any, sizes: Any, strides: Any = None, **options: Any) -> Tensor:
    shape = sizes if isinstance(x, Tensor) else x
    dtype = options.get("dtype") or (x.dtype if isinstance(x, Tensor) else torch.get_default_dtype())
    return torch.zeros(tuple(shape), dtype=dtype)


def window(x: Tensor, sizes: Sequence[int], strides: Sequence[int], offset: int) -> Window | None:
    """The box of ``x`` that a strided view shows; None where it is no box of whole steps in order."""
    if not x.is_contiguous():
        return None
    views = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size != 1]
    box: Window = []
    for size, stride in zip(x.shape, x.stride(), strict=True):
        start, offset = divmod(offset, stride)
        length = 1
        if views and views[0][1] == stride:
            length = views.pop(0)[0]
        if start + length > size:
            return None
        box.append((start, length))
    return None if views or offset else box


def _placed(x: Tensor, source: Tensor, box: Window, dim: int) -> Tensor:
    if dim == len(box):
        return source
    start, length = box[dim]
    inside = x if length == x.shape[dim] else torch.ops.aten.slice.Tensor(x, dim, start, start + length)
    filled = _placed(inside, source, box, dim + 1)
    if length == x.shape[dim]:
        return filled
    end = x.shape[dim]
    parts = [torch.ops.aten.slice.Tensor(x, dim, 0, start)] if start else []
    parts += [filled] + ([torch.ops.aten.slice.Tensor(x, dim, start + length, end)] if start + length < end else [])
    return torch.cat(parts, dim)


@rule("constant_pad_nd.default", widen=False)
def _constant_pad(x: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    for place, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True), 1):
        dim = x.dim() - place
        start, end = max(-before, 0), x.shape[dim] - max(-after, 0)
        inside = x if (start, end) == (0, x.shape[dim]) else x.narrow(dim, start, end - start)
        shape = list(x.shape)
        parts = []
        for size, part in ((before, None), (1, inside), (after, None)):
            shape[dim] = size
            parts += [torch.full(shape, value, dtype=x.dtype, device=x.device)] if part is None and size > 0 else []
            parts += [] if part is None else [part]
        x = torch.cat(parts, dim) if len(parts) > 1 else inside
    return x


@rule("native_layer_norm.default")
def _layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
    dims = list(range(x.dim() - len(shape), x.dim()))
    spread, middle = var_mean(x, dims, correction=0, keepdim=True)
    scale = torch.rsqrt(spread + eps)
    normal = (x - middle) * scale
    normal = normal if weight is None else normal * weight
    return (normal if bias is None else normal + bias), middle, scale


@rule("native_group_norm.default")
def _group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, n: int, c: int, inner: int, groups: int, eps: float
) -> Any:
    grouped = x.reshape(n, groups, c // groups * inner)
    spread, middle = var_mean(grouped, [2], correction=0, keepdim=True)
    scale = torch.rsqrt(spread + eps)
    normal = ((grouped - middle) * scale).reshape(x.shape)
    column = [1, c, *([1] * (x.dim() - 2))]
    normal = normal if weight is None else normal * weight.reshape(column)
    normal = normal if bias is None else normal + bias.reshape(column)
    return normal, middle.reshape(n, groups), scale.reshape(n, groups)


@rule("native_layer_norm_backward.default")
def _layer_norm_backward(
    grad: Tensor,
    x: Tensor,
    shape: Sequence[int],
    middle: Tensor,
    scale: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    wanted: Sequence[bool],
) -> Any:
    first = x.dim() - len(shape)
    inner, outer = list(range(first, x.dim())), list(range(first))
    size = count(x, inner)
    normal = (x - middle) * scale
    scaled = grad if weight is None else grad * weight
    along = scaled.sum(inner, keepdim=True) / size
    across = (scaled * normal).sum(inner, keepdim=True) / size
    grad_x = (scaled - along - normal * across) * scale if wanted[0] else None
    grad_weight = _summed(grad * normal, outer, shape) if wanted[1] and weight is not None else None
    return grad_x, grad_weight, _summed(grad, outer, shape) if wanted[2] and bias is not None else None


@rule("native_group_norm_backward.default")
def _group_norm_backward(
    grad: Tensor,
    x: Tensor,
    middle: Tensor,
    scale: Tensor,
    weight: Tensor | None,
    n: int,
    c: int,
    inner: int,
    groups: int,
    wanted: Sequence[bool],
) -> Any:
    grouped, size = [n, groups, c // groups * inner], c // groups * inner
    column = [1, c, *([1] * (x.dim() - 2))]
    factor = scale.reshape(n, groups, 1)
    normal = (x.reshape(grouped) - middle.reshape(n, groups, 1)) * factor
    scaled = (grad if weight is None else grad * weight.reshape(column)).reshape(grouped)
    along = scaled.sum([2], keepdim=True) / size
    across = (scaled * normal).sum([2], keepdim=True) / size
    grad_x = ((scaled - along - normal * across) * factor).reshape(x.shape) if wanted[0] else None
    others = [0, *range(2, x.dim())]
    grad_weight = (grad * normal.reshape(x.shape)).sum(others) if wanted[1] else None
    return grad_x, grad_weight, grad.sum(others) if wanted[2] else None


@rule("native_batch_norm.default")
def _batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    column = [1, x.shape[1], *([1] * (x.dim() - 2))]
    if training and running_mean is None:
        spread, middle = var_mean(x, [0, *range(2, x.dim())], correction=0, keepdim=True)
    elif not training and running_mean is not None and running_var is not None:
        spread, middle = running_var.reshape(column), running_mean.reshape(column)
    else:
        return NotImplemented  # it changes its running statistics
    scale = torch.rsqrt(spread + eps)
    normal = (x - middle) * scale
    normal = normal if weight is None else normal * weight.reshape(column)
    normal = normal if bias is None else normal + bias.reshape(column)
    return normal, middle.reshape(-1), scale.reshape(-1)


@rule("native_batch_norm_backward.default")
def _batch_norm_backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    middle: Tensor | None,
    scale: Tensor | None,
    training: bool,
    eps: float,
    wanted: Sequence[bool],
) -> Any:
    column, others = [1, x.shape[1], *([1] * (x.dim() - 2))], [0, *range(2, x.dim())]
    if not training and running_mean is not None and running_var is not None:
        middle, scale = running_mean, torch.rsqrt(running_var + eps)
    if middle is None or scale is None:
        return NotImplemented
    factor = scale.reshape(column)
    normal = (x - middle.reshape(column)) * factor
    scaled = grad if weight is None else grad * weight.reshape(column)
    grad_x = scaled * factor
    if training:
        size = count(x, others)
        along = scaled.sum(others, keepdim=True) / size
        across = (scaled * normal).sum(others, keepdim=True) / size
        grad_x = (scaled - along - normal * across) * factor
    grad_weight = (grad * normal).sum(others) if wanted[1] else None
    return grad_x if wanted[0] else None, grad_weight, grad.sum(others) if wanted[2] else None


def _summed(x: Tensor, outer: list[int], shape: Sequence[int]) -> Tensor:
    return x.sum(outer) if outer else x.reshape(tuple(shape))
