"""A call at the size of a workload whose batch dimensions are known at a few places; see ``verify.scale``.

Memory of that size is named and not touched: the kernel gives a page of zeros for what nobody has written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from gpu_runner.child.calls import Arguments, arranged
from gpu_runner.child.steps import is_plain
from gpu_runner.messages import SampleCall, SampledValue, SentTensor, SpreadTensor
from gpu_runner.program.sampling import UNTOUCHED_BYTES, Sample


def spread(asked: SampleCall, tensors: list[torch.Tensor]) -> Arguments:
    """Arguments of full size, with what was sent at the places of their batch dimensions, and zeros elsewhere."""
    given = Arguments()
    values = dict(asked.call.scalars)
    for entry in asked.call.inputs:
        value = _spread(asked, entry, asked.inputs[entry.name], tensors)
        given.memory[entry.name] = value
        if entry.name in asked.call.form.weights and value.is_floating_point():
            value = torch.nn.Parameter(value, requires_grad=False)
        if entry.grad:
            given.leaves[entry.name] = value.requires_grad_()
        values[entry.name] = value
    given.upstream = [
        None if entry is None or to is None else _spread(asked, entry, to, tensors)
        for entry, to in zip(asked.call.upstream, asked.upstream, strict=True)
    ]
    return arranged(given, values, asked.call.form)


def note_few(asked: SampleCall, arguments: Arguments, sample: Sample) -> None:
    """Tell where inputs that nobody may overwrite are not zero."""
    for entry in asked.call.inputs:
        value = arguments.memory[entry.name]
        if value.dim() and entry.name not in asked.call.form.mutates:
            sample.holds(value, indices(value.shape, asked.inputs[entry.name].axes, asked.places))


def _spread(asked: SampleCall, entry: SentTensor, to: SpreadTensor, tensors: list[torch.Tensor]) -> torch.Tensor:
    few = tensors[entry.place].as_strided(entry.shape, entry.stride, entry.offset)
    shape = full_shape(few.shape, to.axes, asked.sizes)
    strides, step = [0] * len(shape), 1
    axes = range(len(shape))
    for place, axis in enumerate(axes if to.permuted else reversed(axes)):
        strides[axis], step = step, step * shape[axis]
        step += round(to.gap * shape[axis]) if place == 0 else 0
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    storage = torch.empty(to.offset + last + 1, dtype=few.dtype)
    if storage.numel() * storage.element_size() < UNTOUCHED_BYTES:
        storage.zero_()
    value = storage.as_strided(shape, strides, to.offset)
    if value.dim():
        value[indices(shape, to.axes, asked.places)] = few
    else:
        value.copy_(few)
    return value


def full_shape(few: Sequence[int], axes: Sequence[str | None], sizes: Mapping[str, int]) -> list[int]:
    """The shape of which ``few`` is at some places of the batch dimensions."""
    return [size if dim is None else sizes[dim] for size, dim in zip(few, axes, strict=True)]


def places_of(
    shape: Sequence[int], axes: Sequence[str | None], places: Mapping[str, Sequence[int]]
) -> tuple[torch.Tensor, ...]:
    """The places along each axis."""
    return tuple(
        torch.arange(size) if dim is None else torch.tensor(places[dim]) for size, dim in zip(shape, axes, strict=True)
    )


def indices(
    shape: Sequence[int], axes: Sequence[str | None], places: Mapping[str, Sequence[int]]
) -> tuple[torch.Tensor, ...]:
    """The same as indices that belong together."""
    return tuple(torch.meshgrid(*places_of(shape, axes, places), indexing="ij"))


def unseen(asked: SampleCall, entries: Sequence[SampledValue], tensors: list[torch.Tensor]) -> set[str]:
    """Answers of which nothing is known at the last places of their batch dimensions or, of a single one, in the middle."""
    labels = set()
    for entry in entries:
        if entry.tensor is None or entry.unsure:
            continue
        known, axes = tensors[entry.tensor + 1], asked.answers[entry.label]
        batch = [dim for dim in axes if dim is not None]
        ends = [-1]
        if asked.middle is not None and len(batch) == 1:
            ends.append(asked.places[batch[0]].index(asked.middle[0]))
        if not all(bool(known[tuple(slice(None) if dim is None else end for dim in axes)].any()) for end in ends):
            labels.add(entry.label)
    return labels


def gathered(
    asked: SampleCall, values: Mapping[str, Any], sample: Sample
) -> tuple[tuple[SampledValue, ...], list[torch.Tensor]]:
    """Of each answer that is known by places what it is there, and which of that is known; of one of another form its shape."""
    entries: list[SampledValue] = []
    tensors: list[torch.Tensor] = []
    for label, axes in asked.answers.items():
        value = values.get(label)
        if value is None or not is_plain(value):
            continue
        shape = tuple(value.shape)
        entry = SampledValue(label, shape, str(value.dtype).removeprefix("torch."))
        has_form = len(shape) == len(axes) and all(
            dim is None or size == asked.sizes[dim] for size, dim in zip(shape, axes, strict=True)
        )
        if has_form:
            entry = replace(entry, tensor=len(tensors), unsure=sample.is_unsure(value))
            places = places_of(shape, axes, asked.places)
            there = value.detach()[indices(shape, axes, asked.places)] if shape else value.detach().clone()
            tensors += [there, sample.known(value, places)]
        entries.append(entry)
    return tuple(entries), tensors
