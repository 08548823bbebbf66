"""Views by strides, which autograd makes for changes in place, written as slices. They run in the child, while it traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gpu_runner.tracing.decompositions import rule

Window = list[tuple[int, int]]  # for each dimension of the base, where the view starts and how long it is


@rule("as_strided.default", widen=False)
def _as_strided(x: Tensor, sizes: Sequence[int], strides: Sequence[int], offset: int | None = None) -> Any:
    found = window(x, sizes, strides, offset or 0)
    if found is None:
        return NotImplemented
    for dim, (start, length) in enumerate(found):
        if length < x.shape[dim]:
            x = torch.ops.aten.slice.Tensor(x, dim, start, start + length)
    return x.reshape(tuple(sizes))


@rule("as_strided_scatter.default", widen=False)
def _as_strided_scatter(
    x: Tensor, source: Tensor, sizes: Sequence[int], strides: Sequence[int], offset: int | None = None
) -> Any:
    found = window(x, sizes, strides, offset or 0)
    if found is None:
        return NotImplemented
    return _placed(x, source.reshape([length for _, length in found]), found, 0)


@rule("new_empty_strided.default", "empty_strided.default", widen=False)
def _new_empty_strided(x: Any, sizes: Any, strides: Any = None, **options: Any) -> Tensor:
    shape = sizes if isinstance(x, Tensor) else x
    dtype = options.get("dtype") or (x.dtype if isinstance(x, Tensor) else torch.get_default_dtype())
    return torch.zeros(tuple(shape), dtype=dtype)


def window(x: Tensor, sizes: Sequence[int], strides: Sequence[int], offset: int) -> Window | None:
    """Give the box of ``x`` that a view by strides shows, None where it is no box of whole steps in order."""
    if not x.is_contiguous():
        return None
    views = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size != 1]
    found: Window = []
    for size, stride in zip(x.shape, x.stride(), strict=True):
        start, offset = divmod(offset, stride)
        length = 1
        if views and views[0][1] == stride:
            length = views.pop(0)[0]
        if start + length > size:
            return None
        found.append((start, length))
    return None if views or offset else found


def _placed(x: Tensor, source: Tensor, found: Window, dim: int) -> Tensor:
    if dim == len(found):
        return source
    start, length = found[dim]
    inside = x if length == x.shape[dim] else torch.ops.aten.slice.Tensor(x, dim, start, start + length)
    filled = _placed(inside, source, found, dim + 1)
    if length == x.shape[dim]:
        return filled
    end = x.shape[dim]
    parts = [torch.ops.aten.slice.Tensor(x, dim, 0, start)] if start else []
    parts += [filled] + ([torch.ops.aten.slice.Tensor(x, dim, start + length, end)] if start + length < end else [])
    return torch.cat(parts, dim)
