"""Convolutions and pooling in the canonical vocabulary: windows of a tensor, and products and reductions of them.

The gradient of an input is taken in gather form: its windows are of the upstream gradient, and hold for each place what the places
that it was read for have received. So no element is written twice, and forward and backward are of one kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gpu_runner.tracing.raw import Ref

if TYPE_CHECKING:
    from gpu_runner.tracing.canonical import GraphBuilder

Rule = Callable[["GraphBuilder", Any, list[Any], dict[str, Any]], Any]
# Which tap of its window was the largest: torch's own index counts in the whole plane, which only torch's gradient has to know.
TAP_DTYPE, MOST_TAPS = "int16", 2**15


@dataclass(frozen=True)
class Windows:
    """The windows of the last dimensions: tap k of place o lies at ``(o * steps + k * dilations + offsets) / divisors``.

    There are ``places`` of them along each dimension: ``(size * divisors + ends) // steps + 1``, if ``ends`` are known.
    """

    taps: tuple[int, ...]
    steps: tuple[int, ...]
    dilations: tuple[int, ...]
    offsets: tuple[int, ...]
    divisors: tuple[int, ...]
    ends: tuple[int, ...]
    places: tuple[int, ...]

    def without(self, units: Sequence[int]) -> Windows:
        """The windows without some of the dimensions."""
        kept = [dim for dim in range(len(self.taps)) if dim not in units]
        return Windows(*(tuple(values[dim] for dim in kept) for values in (*self.values, self.places)))

    @property
    def values(self) -> tuple[tuple[int, ...], ...]:
        """What a node says of them."""
        return self.taps, self.steps, self.dilations, self.offsets, self.divisors, self.ends


@dataclass(frozen=True)
class Geometry:
    """Kernel, stride, padding and dilation, each a number for each dimension; ``more`` is what a ceiling adds to the size."""

    taps: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    more: tuple[int, ...] = field(default=())

    def sliding(self, places: Sequence[int]) -> Windows:
        """What a convolution or a pool reads for each of its ``places``."""
        more = self.more or (0,) * len(self.taps)
        reach = [
            2 * p - d * (k - 1) - 1 + m for k, p, d, m in zip(self.taps, self.padding, self.dilation, more, strict=True)
        ]
        offsets, ones = tuple(-p for p in self.padding), (1,) * len(self.taps)
        return Windows(self.taps, self.stride, self.dilation, offsets, ones, tuple(reach), tuple(places))

    def spreading(self, sizes: Sequence[int], places: Sequence[int]) -> Windows:
        """What one that is transposed reads for each of its ``places``, of a tensor of these ``sizes``."""
        backwards, ones = tuple(-d for d in self.dilation), (1,) * len(self.taps)
        ends = tuple(o - 1 - i * s for o, i, s in zip(places, sizes, self.stride, strict=True))
        return Windows(self.taps, ones, backwards, self.padding, self.stride, ends, tuple(places))


def windows(graph: GraphBuilder, x: Ref, taken: Windows, like: Ref | None = None, *, lowest: bool = False) -> Ref:
    """The windows of ``x``: its leading dimensions, the places, then the taps; zero outside of it, or the ``lowest`` number.

    ``like`` is a tensor whose last dimensions are the places, where these do not follow from the size of ``x``.
    """
    node = graph.known(x)
    shape = (*node.shape[: len(node.shape) - len(taken.taps)], *taken.places, *taken.taps)
    narrow, fewer = _narrowed(graph, taken, [ref for ref in (x, like) if ref is not None])
    if fewer is not taken:
        inner = windows(graph, narrow[0], fewer, *narrow[1:], lowest=lowest)
        return graph.add("reshape", [inner], shape, node.dtype)
    values = taken.values if like is None else (*taken.values[:5], (0,) * len(taken.taps))
    return graph.add("windows", [x, like, *values, lowest], shape, node.dtype)


def _narrowed(graph: GraphBuilder, taken: Windows, refs: Sequence[Ref]) -> tuple[Sequence[Ref], Windows]:
    """Tensors before they got dimensions of one element for an operator that takes more, and their windows then."""
    sizes = graph.known(refs[0]).shape
    lead = len(sizes) - len(taken.taps)
    rules = enumerate(zip(sizes[lead:], taken.taps, taken.offsets, strict=True))
    units = [dim for dim, rule in rules if rule == (1, 1, 0)]
    narrow = [ref_without for ref in refs if (ref_without := _without(graph, ref, lead, units)) is not None]
    if not units or len(units) == len(taken.taps) or len(narrow) < len(refs):
        return refs, taken
    return narrow, taken.without(units)


def _without(graph: GraphBuilder, ref: Ref, lead: int, units: Sequence[int]) -> Ref | None:
    """What a tensor was before it got dimensions of one element, None where it had them."""
    node = graph.known(ref)
    shape = tuple(size for dim, size in enumerate(node.shape) if dim - lead not in units)
    source = node.args[0] if node.op == "reshape" else None
    return source if isinstance(source, Ref) and graph.known(source).shape == shape else None


def _moved(graph: GraphBuilder, x: Ref, before: Sequence[int], order: Sequence[int], after: Sequence[int]) -> Ref:
    """Cut the dimensions of a tensor, put them into another order, and join them."""
    node = graph.known(x)
    if tuple(before) != node.shape:
        x = graph.add("reshape", [x], before, node.dtype)
    shape = [before[dim] for dim in order]
    if list(order) != sorted(order):
        x = graph.add("permute", [x, tuple(order)], shape, node.dtype)
    return x if shape == list(after) else graph.add("reshape", [x], after, node.dtype)


def contracted(
    graph: GraphBuilder, x: Ref, weight: Ref, taken: Windows, groups: int, like: Ref | None = None, *, transposed: bool
) -> Ref:
    """Every place's window times the weight: over its second dimension and the taps, or over the first where ``transposed``."""
    first, second, *taps = graph.known(weight).shape
    batch, dtype, n = graph.known(x).shape[0], graph.known(x).dtype, len(taps)
    rows, inner = (second, first // groups) if transposed else (first // groups, second)
    last, area, count = range(3, 3 + n), math.prod(taken.places), math.prod(taps)
    order = [0, 2, *last, 1] if transposed else [0, 1, *last, 2]
    left = _moved(graph, weight, [groups, first // groups, second, *taps], order, [1, groups, rows, count * inner])
    left = graph.add("expand", [left], [batch, groups, rows, count * inner], dtype)
    view = windows(graph, x, taken, like)
    split = [batch, groups, inner, *taken.places, *taps]
    order = [0, 1, *range(3 + n, 3 + 2 * n), 2, *last]
    right = _moved(graph, view, split, order, [batch, groups, count * inner, area])
    product = graph.add("matmul", [left, right], [batch, groups, rows, area], dtype)
    return graph.add("reshape", [product], [batch, groups * rows, *taken.places], dtype)


def weight_gradient(
    graph: GraphBuilder, read: Ref, windowed: Ref, taken: Windows, groups: int, shape: Sequence[int]
) -> Ref:
    """What ``read``, a number for each place, gives with the windows of the other tensor; summed over batch and places."""
    first, second, *taps = shape
    batch, n, dtype = graph.known(read).shape[0], len(taps), graph.known(read).dtype
    area, count, last = math.prod(taken.places), math.prod(taps), range(3, 3 + n)
    left = _moved(
        graph,
        read,
        [batch, groups, first // groups, *taken.places],
        [1, 2, 0, *last],
        [groups, first // groups, batch * area],
    )
    right = _moved(
        graph,
        windows(graph, windowed, taken),
        [batch, groups, second, *taken.places, *taps],
        [1, 0, *last, 2, *range(3 + n, 3 + 2 * n)],
        [groups, batch * area, second * count],
    )
    product = graph.add("matmul", [left, right], [groups, first // groups, second * count], dtype)
    return graph.add("reshape", [product], shape, dtype)


def _convolution_rule(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Any:
    x, weight, bias, stride, padding, dilation, transposed, _more, groups = args
    if len(graph.known(x).shape) != len(graph.known(weight).shape):
        return None
    geometry = Geometry(tuple(graph.known(weight).shape[2:]), *map(tuple, (stride, padding, dilation)))
    places = meta.shape[2:]
    taken = geometry.spreading(graph.known(x).shape[2:], places) if transposed else geometry.sliding(places)
    result = contracted(graph, x, weight, taken, groups, transposed=transposed)
    if bias is None:
        return result
    column = graph.add("reshape", [bias], [meta.shape[1], *([1] * len(places))], meta.dtype)
    return graph.add("add", [result, column], meta.shape, meta.dtype)


def _convolution_backward_rule(graph: GraphBuilder, meta: Any, args: list[Any], _: dict[str, Any]) -> Any:
    grad, x, weight, _bias, stride, padding, dilation, transposed, _more, groups, wanted = args
    if len(graph.known(x).shape) != len(graph.known(weight).shape):
        return None
    shape, taps = graph.known(x).shape, tuple(graph.known(weight).shape[2:])
    geometry = Geometry(taps, *map(tuple, (stride, padding, dilation)))
    received = graph.known(grad).shape
    grad_x = grad_weight = grad_bias = None
    if wanted[0] and transposed:
        grad_x = contracted(graph, grad, weight, geometry.sliding(shape[2:]), groups, transposed=False)
    elif wanted[0]:
        taken = geometry.spreading(received[2:], shape[2:])
        like = x if any(step > 1 for step in stride) else None
        grad_x = contracted(graph, grad, weight, taken, groups, like, transposed=True)
    if wanted[1]:
        read, windowed = (x, grad) if transposed else (grad, x)
        taken = geometry.sliding(graph.known(read).shape[2:])
        grad_weight = weight_gradient(graph, read, windowed, taken, groups, graph.known(weight).shape)
    if wanted[2]:
        others = (0, *range(2, len(received)))
        grad_bias = graph.add("sum", [grad, others, False], [received[1]], graph.known(grad).dtype)
    return grad_x, grad_weight, grad_bias


def _geometry(n: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceiling: bool) -> Geometry | None:
    """The geometry of a pool; None where the last window may begin beyond what is padded, which torch then leaves out."""
    taps, paddings, dilations = (_each(value, n) for value in (kernel, padding, dilation))
    strides = _each(stride, n) if stride else taps
    if not ceiling:
        return Geometry(taps, strides, paddings, dilations)
    reach = [p + s - 2 - d * (k - 1) for k, s, p, d in zip(taps, strides, paddings, dilations, strict=True)]
    return None if max(reach) >= 0 else Geometry(taps, strides, paddings, dilations, tuple(s - 1 for s in strides))


def _each(value: Any, n: int) -> tuple[int, ...]:
    values = [value] if isinstance(value, int) else list(value)
    return tuple(values * n if len(values) == 1 else values)


def _mean_of(graph: GraphBuilder, view: Ref, n: int, divisor: int, meta: Tensor) -> Ref:
    rank = meta.dim()
    total = graph.add("sum", [view, tuple(range(rank, rank + n)), False], meta.shape, meta.dtype)
    return total if divisor == 1 else graph.add("div", [total, divisor], meta.shape, meta.dtype)


def _mean_geometry(n: int, args: list[Any]) -> tuple[Geometry, int] | None:
    """The geometry of a mean, and what its sums are divided by; None where that differs from window to window."""
    defaults: list[Any] = [None, [], 0, False, True, None]
    kernel, stride, padding, ceiling, whole, divisor = [*args, *defaults[len(args) :]]
    geometry = _geometry(n, kernel, stride, padding, 1, ceiling)
    if geometry is None or ceiling or not (whole or divisor or not any(geometry.padding)):
        return None
    return geometry, divisor or math.prod(geometry.taps)


def _mean_pool(n: int) -> Rule:
    def rule(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Any:
        geometry = _mean_geometry(n, args[1:])
        if geometry is None:
            return None
        view = windows(graph, args[0], geometry[0].sliding(meta.shape[-n:]))
        return _mean_of(graph, view, n, geometry[1], meta)

    return rule


def _mean_pool_backward(n: int) -> Rule:
    def rule(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Any:
        geometry = _mean_geometry(n, args[2:])
        if geometry is None:
            return None
        return _mean_of(graph, _spread(graph, args[0], args[1], geometry[0], n), n, geometry[1], meta)

    return rule


def _adaptive_geometry(sizes: Sequence[int], places: Sequence[int]) -> Geometry | None:
    """Windows side by side, where the sizes divide."""
    if any(size % place for size, place in zip(sizes, places, strict=True)):
        return None
    taps = tuple(size // place for size, place in zip(sizes, places, strict=True))
    return Geometry(taps, taps, (0,) * len(taps), (1,) * len(taps))


def _adaptive_mean(n: int) -> Rule:
    def rule(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Any:
        geometry = _adaptive_geometry(graph.known(args[0]).shape[-n:], meta.shape[-n:])
        if geometry is None:
            return None
        view = windows(graph, args[0], geometry.sliding(meta.shape[-n:]))
        return _mean_of(graph, view, n, math.prod(geometry.taps), meta)

    return rule


def _adaptive_mean_backward(n: int) -> Rule:
    def rule(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Any:
        geometry = _adaptive_geometry(meta.shape[-n:], graph.known(args[0]).shape[-n:])
        if geometry is None:
            return None
        view = _spread(graph, args[0], args[1], geometry, n)
        return _mean_of(graph, view, n, math.prod(geometry.taps), meta)

    return rule


def _spread(graph: GraphBuilder, grad: Ref, x: Ref, geometry: Geometry, n: int) -> Ref:
    taken = geometry.spreading(graph.known(grad).shape[-n:], graph.known(x).shape[-n:])
    return windows(graph, grad, taken, x if any(step > 1 for step in geometry.stride) else None)


def _flat(graph: GraphBuilder, view: Ref, n: int) -> Ref:
    """Windows with their taps in one dimension."""
    node = graph.known(view)
    return graph.add("reshape", [view], [*node.shape[:-n], math.prod(node.shape[-n:])], node.dtype)


def _max_pool(n: int) -> Rule:
    def rule(graph: GraphBuilder, meta: Any, args: list[Any], _: dict[str, Any]) -> Any:
        defaults: list[Any] = [None, None, [], 0, 1, False]
        x, kernel, stride, padding, dilation, ceiling = [*args, *defaults[len(args) :]]
        geometry, shape = _geometry(n, kernel, stride, padding, dilation, ceiling), meta[0].shape
        if geometry is None or math.prod(geometry.taps) > MOST_TAPS:
            return None
        (x,), taken = _narrowed(graph, geometry.sliding(shape[-n:]), [x])
        view = _flat(graph, windows(graph, x, taken, lowest=True), len(taken.taps))
        own = graph.known(view).shape[:-1]
        largest = graph.add("amax", [view, (len(own),), False], own, meta[0].dtype)
        tap = graph.add("argmax", [view, len(own), False], own, TAP_DTYPE)
        if own != tuple(shape):
            largest, tap = (graph.add("reshape", [ref], shape, graph.known(ref).dtype) for ref in (largest, tap))
        # What torch counts in the whole plane is expressed by nothing: only the gradient, which takes the tap, may use it.
        index = graph.add(f"aten.max_pool{n}d_with_indices.default", [args[0]], shape, meta[1].dtype)
        graph.taps[index.name] = tap
        return largest, index

    return rule


def _max_pool_backward(n: int) -> Rule:
    def rule(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Any:
        grad, x, kernel, stride, padding, dilation, ceiling, index = args
        geometry, tap = _geometry(n, kernel, stride, padding, dilation, ceiling), graph.taps.get(index.name)
        if geometry is None or tap is None:
            return None
        received, wanted = (_flat(graph, _spread(graph, one, x, geometry, n), n) for one in (grad, tap))
        shape, count = graph.known(received).shape, math.prod(geometry.taps)
        number = graph.add("arange", [count], [count], "int64")
        is_own = graph.add("eq", [wanted, number], shape, "bool")
        own = graph.add("where", [is_own, received, 0], shape, meta.dtype)
        return graph.add("sum", [own, (meta.dim(),), False], meta.shape, meta.dtype)

    return rule


WINDOW_RULES: dict[str, Rule] = {
    "convolution": _convolution_rule,
    "convolution_backward": _convolution_backward_rule,
    **{f"avg_pool{n}d": _mean_pool(n) for n in (1, 2, 3)},
    **{f"avg_pool{n}d_backward": _mean_pool_backward(n) for n in (2, 3)},
    **{f"max_pool{n}d_with_indices": _max_pool(n) for n in (2, 3)},
    **{f"max_pool{n}d_with_indices_backward": _max_pool_backward(n) for n in (2, 3)},
    "adaptive_avg_pool1d": _adaptive_mean(1),
    **{f"_adaptive_avg_pool{n}d": _adaptive_mean(n) for n in (2, 3)},
    **{f"_adaptive_avg_pool{n}d_backward": _adaptive_mean_backward(n) for n in (2, 3)},
}
