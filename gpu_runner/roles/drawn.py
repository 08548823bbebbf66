"""Inputs that a child draws itself, on its own device: the same bits in every child of one host, and nothing travels."""

from __future__ import annotations

import random
from typing import Any

import torch

from gpu_runner.roles import State
from gpu_runner.roles.arguments import Arguments, arranged, settle
from gpu_runner.verify.inputs import PARAMETER_NOISE

MOST_DOUBLINGS = 2.0  # of the scale, up or down
MOST_HALF_DOUBLINGS = 1.0  # of float16, which soon overflows


def given(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Arguments:
    """Lay out a workload's arguments: drawn where the call gives a seed, else as they were sent."""
    if meta.get("seed") is None:
        return settle(state, meta, tensors, reuse=False)
    return drawn(state.device, meta)


def drawn(device: str, meta: dict[str, Any]) -> Arguments:
    """Draw the arguments from ``meta["seed"]``.

    Source: the PyTorch notes on reproducibility: one generator, one device type and one torch give the same bits.
    """
    stream = torch.Generator(device=device)
    stream.manual_seed(meta["seed"])
    scales = random.Random(meta["seed"])  # noqa: S311 - scales of inputs, not a secret
    leaves: dict[str, torch.Tensor] = {}
    values: dict[str, Any] = dict(meta["scalars"])
    for entry in meta["inputs"]:
        value = values[entry["name"]] = _value(entry, stream, scales)
        if entry["grad"]:
            leaves[entry["name"]] = value.requires_grad_()
    made = Arguments(leaves=leaves)
    for entry in meta["upstream"]:
        made.upstream.append(None if entry is None else _value({"init": "normal", **entry}, stream, scales))
    return arranged(made, values, meta)


def _value(entry: dict[str, Any], stream: torch.Generator, scales: random.Random) -> torch.Tensor:
    dtype: torch.dtype = getattr(torch, entry["dtype"])
    shape = tuple(entry["shape"])
    if not dtype.is_floating_point:
        low, high = (0, 2) if dtype == torch.bool else (entry["low"], entry["high"])
        return torch.randint(low, high, shape, generator=stream, device=stream.device).to(dtype)
    most = MOST_HALF_DOUBLINGS if dtype == torch.float16 else MOST_DOUBLINGS
    return _floating(entry, shape, stream, 2.0 ** scales.uniform(-most, most)).to(dtype)


def _floating(entry: dict[str, Any], shape: tuple[int, ...], stream: torch.Generator, scale: float) -> torch.Tensor:
    if entry["init"] in ("ones", "zeros"):
        exact = torch.full(shape, 1.0 if entry["init"] == "ones" else 0.0, device=stream.device)
        return exact.add_(_normal(shape, stream), alpha=PARAMETER_NOISE) if entry["noisy"] else exact
    if entry["init"] == "uniform":
        return torch.rand(shape, generator=stream, device=stream.device, dtype=torch.float32)
    values = _normal(shape, stream).mul_(scale)
    if entry["init"] == "log_softmax":
        return torch.log_softmax(values, -1)
    return torch.softmax(values, -1) if entry["init"] == "softmax" else values


def _normal(shape: tuple[int, ...], stream: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=stream, device=stream.device, dtype=torch.float32)
