"""Makes a case's inputs from its secret seed, laid into larger buffers whose borders are guarded."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from gpu_runner.contracts.problem import InputSpec, Problem
from gpu_runner.verify.extremes import sharpen, with_large, with_odd
from gpu_runner.verify.poison import GUARD_ELEMENTS
from gpu_runner.verify.sizes import DISTRIBUTIONS, Case, Content, holds

ROW_GAP = 32  # between rows that lie apart; a multiple of 16 bytes in every dtype
PARAMETER_NOISE = 0.4
DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in (
        "float64", "float32", "bfloat16", "float16", "int64", "int32", "int16", "int8", "uint8", "bool",
    )
}  # fmt: skip


@dataclass(frozen=True)
class Laid:
    """A tensor inside a guarded buffer: ``raw`` is one-dimensional, the tensor begins at ``offset``."""

    raw: torch.Tensor
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def view(self) -> torch.Tensor:
        """Give the tensor itself."""
        return self.raw.as_strided(self.shape, self.stride, self.offset)


def shape_of(spec: InputSpec, sizes: dict[str, int]) -> tuple[int, ...]:
    """Give an input's shape."""
    return tuple(int(dim) if dim.isdigit() else sizes[dim] for dim in spec.dims)


def make_inputs(problem: Problem, case: Case) -> dict[str, torch.Tensor]:
    """Give every input of the case by name, dense."""
    stream = torch.Generator().manual_seed(case.seed)
    # Inputs that lie side by side hold their large rows one after the other, so that each meets an ordinary one.
    place = {name: at for at, name in enumerate(filled_of(problem, case))}
    return {spec.name: _make(spec, case, stream, place.get(spec.name)) for spec in problem.inputs}


def filled_of(problem: Problem, case: Case) -> tuple[str, ...]:
    """Give the inputs that hold a case's large or odd values."""
    if case.content is Content.ordinary:
        return ()
    able = [spec.name for spec in problem.inputs if holds(spec, case.content)]
    return tuple(name for name in able if not case.among or name in case.among)


def make_upstream(shapes: list[tuple[int, ...]], dtypes: list[torch.dtype], case: Case) -> list[torch.Tensor]:
    """Give a random upstream gradient for every output."""
    stream = torch.Generator().manual_seed((case.seed * 6364136223846793005 + 1442695040888963407) % 2**63)
    grads = []
    for shape, dtype in zip(shapes, dtypes, strict=True):
        if case.upstream == "expanded":
            grads.append(_random((), stream, _scale(stream, dtype)).to(dtype).expand(shape))
        else:
            grads.append((_random(shape, stream, _scale(stream, dtype))).to(dtype))
    return grads


def lay(tensor: torch.Tensor, layout: str, beyond: int | None = None) -> Laid:
    """Put a tensor into a guarded buffer; with ``apart`` there is a gap after each row. An expanded tensor stays one number.

    ``beyond`` stands in the guards of whole numbers: one that is no valid index.
    """
    if tensor.dim() and tensor.numel() > 1 and not any(tensor.stride()):
        one = lay(tensor.flatten()[0].clone(), "dense", beyond)
        return Laid(one.raw, tuple(tensor.shape), (0,) * tensor.dim(), one.offset)
    shape = tuple(tensor.shape)
    stride = _strides(shape, ROW_GAP if layout == "apart" and len(shape) > 1 else 0)
    span = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True)) if tensor.numel() else 0
    raw = torch.full((span + 2 * GUARD_ELEMENTS,), _guard(tensor.dtype, beyond), dtype=tensor.dtype)
    laid = Laid(raw, shape, stride, GUARD_ELEMENTS)
    laid.view().copy_(tensor)
    return laid


def _strides(shape: tuple[int, ...], gap: int) -> tuple[int, ...]:
    steps = []
    step = 1
    for place, size in enumerate(reversed(shape)):
        steps.append(step)
        step *= size
        if place == 0:
            step += gap
    return tuple(reversed(steps))


def _guard(dtype: torch.dtype, beyond: int | None) -> float:
    if dtype.is_floating_point:
        return math.nan
    if dtype == torch.bool:
        return True
    return min(beyond or 0, int(torch.iinfo(dtype).max))


def _make(spec: InputSpec, case: Case, stream: torch.Generator, place: int | None) -> torch.Tensor:
    shape = shape_of(spec, case.size_of)
    dtype = DTYPES[spec.dtype or case.dtype]
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=stream).to(dtype)
    if not dtype.is_floating_point:
        high = case.size_of[spec.high] if isinstance(spec.high, str) else spec.high
        return torch.randint(spec.low or 0, high or 2, shape, generator=stream).to(dtype)
    values = _floating(spec, shape, case, stream, dtype)
    if place is not None:
        values = _filled(values, spec, case, stream, place)
    return _distribution(values, spec).to(dtype)


def _filled(values: torch.Tensor, spec: InputSpec, case: Case, stream: torch.Generator, place: int) -> torch.Tensor:
    """Put a case's large or odd values into the rows of an input that takes part in it."""
    if case.content is Content.large and spec.init in DISTRIBUTIONS:
        return sharpen(values, case.reach, stream, place)
    if case.content is Content.large:
        return with_large(values, case.reach, stream, place)
    return with_odd(values, stream)


def _floating(
    spec: InputSpec, shape: tuple[int, ...], case: Case, stream: torch.Generator, dtype: torch.dtype
) -> torch.Tensor:
    scale = _scale(stream, dtype)
    if spec.init in ("ones", "zeros"):
        exact = torch.full(shape, 1.0 if spec.init == "ones" else 0.0)
        # A weight of exact ones would let a kernel pass that forgets the weight.
        noisy = spec.grad and not case.plain_init
        return exact + PARAMETER_NOISE * torch.randn(shape, generator=stream) if noisy else exact
    if spec.init == "uniform":
        return torch.rand(shape, generator=stream)
    return _random(shape, stream, scale)


def _distribution(values: torch.Tensor, spec: InputSpec) -> torch.Tensor:
    if spec.init == "log_softmax":
        return torch.log_softmax(values, -1)
    if spec.init == "softmax":
        return torch.softmax(values, -1)
    return values


def _random(shape: tuple[int, ...], stream: torch.Generator, scale: float) -> torch.Tensor:
    return torch.randn(shape, generator=stream) * scale


def _scale(stream: torch.Generator, dtype: torch.dtype) -> float:
    """Draw a scale between a quarter and four; half of that range, in powers, where float16 would soon overflow."""
    most = 1.0 if dtype == torch.float16 else 2.0
    return float(2.0 ** ((torch.rand((), generator=stream).item() * 2 - 1) * most))
