"""Holds what was computed in the timed runs against the truth of the same rows. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gpu_runner.benchmark.contender import Computed
from gpu_runner.benchmark.proving import Rows, Wanted
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.verify.compare import FLOORS, Comparison, compare, is_far, loss_of, needs_loss
from gpu_runner.verify.telling import how

MOST_LENT = 0.1  # of a tensor's scale: with twice as much, stale, lost and unfinished results are found all the same


def objection(found: Computed, rows: Rows, timed_pass: Pass, peers: Sequence[Computed] = ()) -> str | None:
    """Say what is wrong with a contender's results; None where nothing is.

    ``peers`` are what runs of the original gave: where it errs more than the reference may, the contender may err as much, and
    "as much" is what a verdict says (``compare``). What the original itself gets wrong lends nothing.
    """
    if found.unforeseen:
        return f"a timed run overwrote {found.unforeseen[0]}, which the runs before had left alone"
    wanted = _wanted(found, rows, timed_pass)
    if wanted is None:
        return "the timed runs gave another number of outputs or gradients than the reference"
    beside = _Beside(wanted, [peer.tensors for peer in peers if len(peer.tensors) == len(found.tensors)])
    for place, (item, shape, tensor) in enumerate(zip(wanted, found.shapes, found.tensors, strict=True)):
        if item is None:
            continue
        if shape != item.shape or tensor.shape != item.truth.exact.shape:
            return f"{item.label} of a timed run is of another shape than the reference's"
        if tensor.dtype.is_floating_point and tensor.dtype not in FLOORS:
            return f"{item.label} of a timed run is of a dtype that no kernel has"
        comparison = beside.compared(place, item, tensor)
        if not comparison.passed:
            what = "is wrong" if is_far(comparison) or _is_large(comparison) else "is not exact enough"
            return f"{item.label} of a timed run {what}: {_clause(comparison)}"
    return None


@dataclass(frozen=True)
class _Beside:
    """What runs of the original gave for everything that is wanted."""

    wanted: Sequence[Wanted | None]
    peers: Sequence[Sequence[torch.Tensor]]

    def compared(self, place: int, item: Wanted, tensor: torch.Tensor) -> Comparison:
        alone = compare(tensor, item.truth)
        if alone.passed:
            return alone
        given = [values[place] for values in self.peers]
        near = [peer for peer in given if _fits(peer, item) and _lends(compare(peer, item.truth))]
        loss = self._loss() if near and needs_loss(tensor, item.truth) else 0.0
        return compare(tensor, item.truth, near, loss) if near else alone

    def _loss(self) -> float:
        pairs = [(item, value) for values in self.peers for item, value in zip(self.wanted, values, strict=True)]
        return loss_of((value, item.truth) for item, value in pairs if item is not None and _fits(value, item))


def _fits(value: torch.Tensor, item: Wanted) -> bool:
    return value.shape == item.truth.exact.shape and (not value.dtype.is_floating_point or value.dtype in FLOORS)


def _lends(own: Comparison) -> bool:
    """Say whether an original's value is inexact at most: beside one that is wrong, whatever is computed would pass."""
    return not (is_far(own) and _is_large(own))


def _is_large(comparison: Comparison) -> bool:
    return comparison.error is None or comparison.error > MOST_LENT


def _clause(comparison: Comparison) -> str:
    said = how(comparison).removesuffix(".")
    return said[0].lower() + said[1:]


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
