"""Holds what was computed in the timed runs against the truth. No I/O."""

from __future__ import annotations

import math
import secrets

import torch

from gpu_runner.benchmark.contender import Computed
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.verify.compare import Truth, compare
from gpu_runner.verify.proof import Expected, Proof

MOST_ELEMENTS = 2**24  # of a tensor are compared: secret rows of a larger one, which keeps a check under a second


def objection(found: Computed, proof: Proof, timed_pass: Pass, peer: Computed | None = None) -> str | None:
    """Say what is wrong with a contender's results; None where nothing is.

    ``peer`` is what the original gave: where it errs more than the reference may, the contender may err as much.
    """
    if found.unforeseen:
        return f"a timed run overwrote {found.unforeseen[0]}, which the runs before had left alone"
    wanted = _wanted(found, proof, timed_pass)
    if wanted is None:
        return "the timed runs gave another number of outputs or gradients than the reference"
    peers = peer.tensors if peer is not None and len(peer.tensors) == len(found.tensors) else [None] * len(wanted)
    for item, tensor, beside in zip(wanted, found.tensors, peers, strict=True):
        if item is None:
            continue
        if tuple(tensor.shape) != item.shape:
            return f"{item.label} of a timed run is of another shape than the reference's"
        if not _passes(item, tensor, beside):
            return f"{item.label} of a timed run is wrong"
    return None


def same_bits(one: Computed, other: Computed | None) -> bool:
    """Say whether two contenders gave the very same, so that one check holds for both."""
    if other is None or one.unforeseen or (one.outputs, one.gradients) != (other.outputs, other.gradients):
        return False
    pairs = list(zip(one.tensors, other.tensors, strict=False))
    return len(one.tensors) == len(other.tensors) and all(
        a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b) for a, b in pairs
    )


def _wanted(found: Computed, proof: Proof, timed_pass: Pass) -> list[Expected | None] | None:
    """Give what every tensor of an answer is held against, in its order."""
    outputs = list(proof.outputs) if timed_pass is not Pass.backward else []
    names = list(proof.wanted) if timed_pass is not Pass.forward else []
    if found.outputs != len(outputs) or len(found.gradients) != len(names):
        return None
    wanted: list[Expected | None] = [*outputs]
    wanted += [proof.gradients.get(name) for name, there in zip(names, found.gradients, strict=True) if there]
    return wanted if len(found.tensors) == len(wanted) else None


def _passes(item: Expected, tensor: torch.Tensor, beside: torch.Tensor | None) -> bool:
    rows = _rows_of(item.shape)
    got, truth = _part(tensor, rows), _part_of_truth(item.truth, rows)
    if compare(got, truth).passed:
        return True
    if beside is None or beside.shape != tensor.shape:
        return False
    return compare(got, truth, (_part(beside, rows),)).passed


def _rows_of(shape: tuple[int, ...]) -> torch.Tensor | None:
    """Draw rows (all but the last dimension) of a tensor that is too large to be compared as a whole."""
    elements = math.prod(shape)
    if elements <= MOST_ELEMENTS or len(shape) < 2:
        return None
    rows = elements // shape[-1]
    stream = torch.Generator().manual_seed(secrets.randbits(56))
    return torch.randperm(rows, generator=stream)[: max(1, MOST_ELEMENTS // shape[-1])]


def _part(tensor: torch.Tensor, rows: torch.Tensor | None) -> torch.Tensor:
    return tensor if rows is None else tensor.reshape(-1, tensor.shape[-1])[rows]


def _part_of_truth(truth: Truth, rows: torch.Tensor | None) -> Truth:
    return Truth(_part(truth.exact, rows), _part(truth.own, rows), truth.natural)
