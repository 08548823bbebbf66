"""Holds what was computed in the timed runs against the truth of the same rows. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gpu_runner.benchmark.contender import Computed
from gpu_runner.benchmark.proving import Rows, Wanted
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.verify.compare import FLOORS, compare


def objection(found: Computed, rows: Rows, timed_pass: Pass, peers: Sequence[Computed] = ()) -> str | None:
    """Say what is wrong with a contender's results; None where nothing is.

    ``peers`` are what runs of the original gave: where it errs more than the reference may, the contender may err as much.
    """
    if found.unforeseen:
        return f"a timed run overwrote {found.unforeseen[0]}, which the runs before had left alone"
    wanted = _wanted(found, rows, timed_pass)
    if wanted is None:
        return "the timed runs gave another number of outputs or gradients than the reference"
    alike = [peer.tensors for peer in peers if len(peer.tensors) == len(found.tensors)]
    for place, (item, shape, tensor) in enumerate(zip(wanted, found.shapes, found.tensors, strict=True)):
        if item is None:
            continue
        if shape != item.shape or tensor.shape != item.truth.exact.shape:
            return f"{item.label} of a timed run is of another shape than the reference's"
        if not _passes(item, tensor, [tensors[place] for tensors in alike]):
            return f"{item.label} of a timed run is wrong"
    return None


def same_bits(one: Computed, other: Computed | None) -> bool:
    """Say whether two contenders gave the very same, so that one check holds for both."""
    if other is None or one.unforeseen or (one.outputs, one.gradients) != (other.outputs, other.gradients):
        return False
    pairs = list(zip(one.tensors, other.tensors, strict=False))
    return (
        len(one.tensors) == len(other.tensors)
        and one.shapes == other.shapes
        and all(a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b) for a, b in pairs)
    )


def _wanted(found: Computed, rows: Rows, timed_pass: Pass) -> list[Wanted | None] | None:
    """Give what every tensor of an answer is held against, in its order."""
    outputs = rows.outputs if timed_pass is not Pass.backward else ()
    gradients = rows.gradients if timed_pass is not Pass.forward else ()
    if found.outputs != len(outputs) or len(found.gradients) != len(gradients):
        return None
    wanted: list[Wanted | None] = [*outputs]
    wanted += [item for item, there in zip(gradients, found.gradients, strict=True) if there]
    return wanted if len(found.tensors) == len(found.shapes) == len(wanted) else None


def _passes(item: Wanted, tensor: torch.Tensor, peers: Sequence[torch.Tensor]) -> bool:
    if tensor.dtype.is_floating_point and tensor.dtype not in FLOORS:
        return False
    return compare(tensor, item.truth, [peer for peer in peers if peer.shape == tensor.shape]).passed
