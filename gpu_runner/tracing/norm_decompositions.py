"""The norms written out, forward and backward. They run in the child, while it traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gpu_runner.tracing.decompositions import count, rule, var_mean


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
