"""A call at the size of a workload whose batch dimensions are known at a few places; see ``verify.scale``.

Memory of that size is named and not touched: the kernel gives a page of zeros for what nobody has written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gpu_runner.child.calls import Arguments, arranged
from gpu_runner.child.steps import is_plain
from gpu_runner.program.sampling import UNTOUCHED_BYTES, Sample


def spread(meta: dict[str, Any], tensors: list[torch.Tensor]) -> Arguments:
    """Arguments of full size, with what was sent at the places of their batch dimensions, and zeros elsewhere."""
    given = Arguments()
    values: dict[str, Any] = dict(meta["scalars"])
    for entry in meta["inputs"]:
        value = _spread(meta, entry, tensors)
        given.memory[entry["name"]] = value
        if entry["name"] in meta["weights"] and value.is_floating_point():
            value = torch.nn.Parameter(value, requires_grad=False)
        if entry["grad"]:
            given.leaves[entry["name"]] = value.requires_grad_()
        values[entry["name"]] = value
    given.upstream = [None if entry is None else _spread(meta, entry, tensors) for entry in meta["upstream"]]
    return arranged(given, values, meta)


def note_few(meta: dict[str, Any], arguments: Arguments, sample: Sample) -> None:
    """Tell where inputs that nobody may overwrite are not zero."""
    for entry in meta["inputs"]:
        value = arguments.memory[entry["name"]]
        if value.dim() and entry["name"] not in meta["mutates"]:
            sample.holds(value, indices(value.shape, entry["axes"], meta["places"]))


def _spread(meta: dict[str, Any], entry: dict[str, Any], tensors: list[torch.Tensor]) -> torch.Tensor:
    few = tensors[entry["tensor"]].as_strided(entry["shape"], entry["stride"], entry["offset"])
    shape = full_shape(few.shape, entry["axes"], meta["sizes"])
    strides, step = [0] * len(shape), 1
    axes = range(len(shape))
    for place, axis in enumerate(axes if entry["permuted"] else reversed(axes)):
        strides[axis], step = step, step * shape[axis]
        step += round(entry["gap"] * shape[axis]) if place == 0 else 0
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    storage = torch.empty(entry["from"] + last + 1, dtype=few.dtype)
    if storage.numel() * storage.element_size() < UNTOUCHED_BYTES:
        storage.zero_()
    value = storage.as_strided(shape, strides, entry["from"])
    if value.dim():
        value[indices(shape, entry["axes"], meta["places"])] = few
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


def unseen(meta: dict[str, Any], entries: list[dict[str, Any]], tensors: list[torch.Tensor]) -> set[str]:
    """Answers of which nothing is known at the last places of their batch dimensions or, of a single one, in the middle."""
    found = set()
    for entry in entries:
        if "tensor" not in entry or entry["unsure"]:
            continue
        known, axes = tensors[entry["tensor"] + 1], meta["answers"][entry["label"]]
        batch = [dim for dim in axes if dim is not None]
        ends = [-1]
        if meta["middle"] is not None and len(batch) == 1:
            ends.append(meta["places"][batch[0]].index(meta["middle"][0]))
        if not all(bool(known[tuple(slice(None) if dim is None else end for dim in axes)].any()) for end in ends):
            found.add(entry["label"])
    return found


def gathered(
    meta: dict[str, Any], values: Mapping[str, Any], sample: Sample
) -> tuple[list[dict[str, Any]], list[torch.Tensor]]:
    """Of each answer that is known by places what it is there, and which of that is known; of one of another form its shape."""
    entries: list[dict[str, Any]] = []
    tensors: list[torch.Tensor] = []
    for label, axes in meta["answers"].items():
        value = values.get(label)
        if value is None or not is_plain(value):
            continue
        entry = {"label": label, "shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
        shape = list(value.shape)
        has_form = len(shape) == len(axes) and all(
            dim is None or size == meta["sizes"][dim] for size, dim in zip(shape, axes, strict=True)
        )
        if has_form:
            entry["tensor"] = len(tensors)
            entry["unsure"] = sample.is_unsure(value)
            places = places_of(shape, axes, meta["places"])
            there = value.detach()[indices(shape, axes, meta["places"])] if shape else value.detach().clone()
            tensors += [there, sample.known(value, places)]
        entries.append(entry)
    return entries, tensors
