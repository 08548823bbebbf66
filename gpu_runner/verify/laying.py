"""Where a tensor lies in memory: strides, storage offset, and the guards around it. Draws nothing that it is not asked for."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

import torch

from gpu_runner.program.poison import GUARD_ELEMENTS
from gpu_runner.verify.cases import MemoryLayout

MOST_GAP = 48  # elements after each row
MOST_SHIFT = 15  # elements of the storage offset beyond a multiple of 16 bytes
FAR_SHIFT = 2**17  # elements, of a tensor that is a part of a larger one
STEPS = (2, 3)
MOST_STEP, STEPPED_ELEMENTS = 64, 2**20  # the widest step, and the memory that a step beyond the usual ones may take


@dataclass(frozen=True)
class Laid:
    """A tensor inside a guarded buffer: ``raw`` is one-dimensional, the tensor begins at ``offset``."""

    raw: torch.Tensor
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def view(self) -> torch.Tensor:
        """The tensor itself."""
        return self.raw.as_strided(self.shape, self.stride, self.offset)

    def elements(self, raw: torch.Tensor) -> torch.Tensor:
        """The tensor's own elements in a buffer of this form, each once: along a stride of zero there is one."""
        return raw.as_strided(_once(self.shape, self.stride), self.stride, self.offset)


@dataclass(frozen=True)
class Placement:
    """How a tensor lies: ``order`` lists its dimensions outermost in memory first, empty for their own order."""

    order: tuple[int, ...] = ()
    gap: int = 0  # elements after each row
    step: int = 1  # between neighbours in the innermost dimension
    shift: int = 0  # of the storage offset
    broadcast: int | None = None  # the dimension of stride zero
    advance: int = 0  # elements from one row to the next, where rows overlap
    apart: int = 0  # elements after each slice along one of several dimensions, which is ``along``
    along: int = 0

    def repeated(self, values: torch.Tensor) -> torch.Tensor:
        """The values as they are where elements lie in several places: equal along a stride of zero, and where rows overlap."""
        if self.advance and values.numel():
            stride = self.stride(tuple(values.shape))
            memory = values.new_empty(_span(tuple(values.shape), stride))
            window = memory.as_strided(values.shape, stride)
            window.copy_(values)
            return window.clone()
        if self.broadcast is None or values.shape[self.broadcast] < 2:
            return values
        return values.narrow(self.broadcast, 0, 1).expand(values.shape)

    def aligned(self, shape: tuple[int, ...]) -> Placement:
        """The same with an offset of a multiple of 16 bytes in every dtype; so are strides of one row, and where gaps are odd."""
        evens = self.gap and (self.gap % 2 or math.prod(shape[:-1]) == 1)
        gap = self.gap + -(shape[-1] + self.gap) % 16 if evens else self.gap
        return replace(self, shift=16 if self.shift else 0, gap=gap)

    def stride(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The strides of a tensor of this shape, in elements."""
        steps, step = [0] * len(shape), self.step
        for place, dim in enumerate(reversed(self.order or range(len(shape)))):
            if dim == self.broadcast and shape[dim] > 1:
                continue
            steps[dim] = step
            step *= shape[dim] if place or not self.advance else self.advance
            step += self.gap if place == 0 else 0
            step += self.apart if place == len(shape) - 2 - self.along else 0
        return tuple(steps)


def place_of(shape: tuple[int, ...], layout: MemoryLayout, stream: random.Random) -> Placement:
    """A place of this kind, as far as the shape has room for it."""
    rank = len(shape)
    wide = [dim for dim, size in enumerate(shape) if size > 1]
    shift = stream.randint(1, MOST_SHIFT)
    if layout is MemoryLayout.apart:
        # A row's own length: the first or the second half of a projection.
        if rank > 1 and stream.random() < 0.5:
            return Placement(gap=shape[-1], shift=stream.choice((0, shape[-1])))
        return Placement(gap=stream.randint(1, MOST_GAP) if rank > 1 else 0, shift=stream.choice((0, shift)))
    if layout in (MemoryLayout.slices, MemoryLayout.inner_slices) and rank > 2:
        along = 0 if layout is MemoryLayout.slices else rank - 3
        return Placement(apart=shape[-1] * stream.randint(1, 2), along=along)
    if layout is MemoryLayout.shifted:
        return Placement(shift=stream.choice((0, FAR_SHIFT)) + 2 * (shift // 2) + 1)
    if layout is MemoryLayout.permuted and rank > 1:
        swapped = (*range(rank - 2), rank - 1, rank - 2)
        drawn = tuple(stream.sample(range(rank), rank))
        order = swapped if drawn == tuple(range(rank)) else stream.choice((swapped, drawn))
        return Placement(
            order=order, gap=stream.choice((0, stream.randint(1, MOST_GAP)))
        )  # as of a cut table, transposed
    if layout is MemoryLayout.sliced:
        return Placement(
            gap=stream.randint(0, 7) if rank > 1 else 0,
            step=_step(math.prod(shape), stream),
            shift=stream.choice((0, shift)),
        )
    if layout is MemoryLayout.broadcast and wide:
        return Placement(broadcast=stream.choice(wide))
    if layout is MemoryLayout.level and rank - 1 in wide:
        return Placement(broadcast=rank - 1)
    if layout is MemoryLayout.windows and rank > 1 and min(shape[-2:]) > 1:
        return Placement(advance=stream.randint(1, shape[-1] - 1))
    return Placement()


def _step(elements: int, stream: random.Random) -> int:
    """A small step, or as often one up to what the memory allows: a head or channel of a tensor in which these come last."""
    most = min(MOST_STEP, STEPPED_ELEMENTS // max(1, elements))
    usual = stream.choice(STEPS)
    return usual if most <= max(STEPS) or stream.random() < 0.5 else stream.randint(max(STEPS) + 1, most)


def _span(shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """The elements of memory from the first element of a tensor to its last."""
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))


def lay(
    tensor: torch.Tensor,
    place: Placement = Placement(),  # noqa: B008 - it is frozen
    beyond: int | None = None,
    guard_seed: int | None = None,
) -> Laid:
    """Put a tensor into a guarded buffer. One that is a single number, expanded, stays one.

    ``beyond`` stands in the guards of whole numbers: one that is no valid index. Those of others are NaN, or with ``guard_seed``
    numbers, so that no kernel knows a guard by what it holds.
    """
    shape = tuple(tensor.shape)
    if tensor.dim() and tensor.numel() > 1 and not any(tensor.stride()):
        stride = (0,) * tensor.dim()
    else:
        stride = place.stride(shape)
    span = _span(shape, stride) if tensor.numel() else 0
    raw = torch.full((span + place.shift + 2 * GUARD_ELEMENTS,), _guard(tensor.dtype, beyond), dtype=tensor.dtype)
    if guard_seed is not None and tensor.is_floating_point():
        stream = torch.Generator().manual_seed(guard_seed)
        raw.copy_(torch.randn(raw.shape, generator=stream) * 2.0 ** float(torch.rand((), generator=stream) * 12))
    laid = Laid(raw, shape, stride, GUARD_ELEMENTS + place.shift)
    own = laid.elements(raw)
    own.copy_(tensor[tuple(slice(0, size) for size in own.shape)])
    return laid


def lay_packed(parts: dict[str, torch.Tensor], along: int, guard_seed: int | None = None) -> dict[str, Laid]:
    """Put tensors of one shape into one guarded buffer, as parts of one tensor along a dimension."""
    whole = lay(torch.cat(list(parts.values()), along), guard_seed=guard_seed)
    shape = tuple(next(iter(parts.values())).shape)
    step = shape[along] * whole.stride[along]
    return {name: Laid(whole.raw, shape, whole.stride, whole.offset + place * step) for place, name in enumerate(parts)}


def _once(shape: tuple[int, ...], stride: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size if step else min(size, 1) for size, step in zip(shape, stride, strict=True))


def _guard(dtype: torch.dtype, beyond: int | None) -> float:
    if dtype.is_floating_point:
        return math.nan
    if dtype == torch.bool:
        return True
    return min(beyond or 0, int(torch.iinfo(dtype).max))
