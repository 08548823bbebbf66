"""Shape, dtype, strides and device of what a candidate gives, held against the reference's. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from gpu_runner.contracts.verify import Status
from gpu_runner.verify.answer import Value
from gpu_runner.verify.proof import Expected


@dataclass(frozen=True)
class Fault:
    """What is wrong with the form of an output."""

    status: Status
    check: str
    message: str


def output_fault(
    item: Expected, value: Value, device: str, wanted: bool, given: Collection[tuple[int, ...]] = ()
) -> Fault | None:
    """Give what is wrong with an output's form; ``wanted`` says that an input wants a gradient.

    ``given`` are the strides of inputs that may be overwritten, of which one may be handed back.
    """
    if value.tensor is None:
        return Fault(Status.incorrect_shape, "shape", f"It is a {value.kind}, not a tensor.")
    if value.shape != item.shape:
        return Fault(Status.incorrect_shape, "shape", f"The shape is {value.shape}, not {item.shape}.")
    if value.dtype != item.dtype:
        return Fault(Status.incorrect_dtype, "dtype", f"The dtype is {value.dtype}, not {item.dtype}.")
    if value.device != device:
        return Fault(Status.incorrect_shape, "device", f"It lies on {value.device}, not on {device}.")
    if not _fits(value.stride, item) and value.stride not in given:
        message = f"The strides are {value.stride}: neither contiguous nor as the reference's, {item.stride}."
        return Fault(Status.incorrect_shape, "stride", message)
    if wanted and item.differentiable and not value.differentiable:
        message = "It carries no gradient: the output is not connected to the inputs by autograd."
        return Fault(Status.incorrect_gradient, "gradient", message)
    return None


def gradient_fault(item: Expected | None, value: Value) -> str | None:
    """Give what is wrong with a gradient's form, or with its being there."""
    if item is None:
        there = value.tensor is not None and bool((value.tensor != 0).any())
        return "There should be no gradient here." if there else None
    if value.tensor is None:
        return "There is no gradient for this input."
    if value.shape != item.shape or value.dtype != item.dtype:
        return f"The gradient is {value.dtype} {value.shape}, not {item.dtype} {item.shape}."
    return None


def _fits(stride: tuple[int, ...], item: Expected) -> bool:
    dense, step = [], 1
    for size in reversed(item.shape):
        dense.append(step)
        step *= size
    wide = [place for place, size in enumerate(item.shape) if size > 1]
    forms = (tuple(reversed(dense)), item.stride)
    return 0 in item.shape or any(all(stride[place] == form[place] for place in wide) for form in forms)
