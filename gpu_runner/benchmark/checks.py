"""Holds what was computed in the timed runs against the truth of the same rows, for which it asks the reference's child."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from gpu_runner.benchmark.contender import Computed
from gpu_runner.benchmark.material import Material
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.messages import ROUNDINGS, BendRows, ComputeRows
from gpu_runner.numerics.compare import FLOORS, Truth, ValueComparison, compare, is_far, loss_of, needs_loss, rms
from gpu_runner.numerics.measures import farthest
from gpu_runner.numerics.tolerances import typical_of
from gpu_runner.session import ChildSession
from gpu_runner.verify.telling import how
from gpu_runner.verify.truth import SHAKE

HALVES = (torch.float16, torch.bfloat16)
LOOSE = 4.0  # times the floor of the dtype, where the reference's own values stand in for the truth


@dataclass(frozen=True)
class ExpectedTensor:
    """One output or gradient: its whole form, and the truth of its secret rows."""

    label: str
    shape: tuple[int, ...]
    truth: Truth


@dataclass(frozen=True)
class Rows:
    """The expected rows of a pass; None in place of a gradient that does not exist. ``kind``: the dtype of the truth, or own."""

    outputs: tuple[ExpectedTensor, ...]
    gradients: tuple[ExpectedTensor | None, ...]
    kind: str


def prove(session: ChildSession, material: Material, timed_pass: Pass) -> Rows:
    """Ask for the truth of one pass.

    Raises:
        ChildFailed, ProtocolError: the reference does not run, or not in float64. KeyError, TypeError, ValueError: it answered in
        place of the runner's own code.
    """
    secret, call = material.secrets[timed_pass], material.call
    asked = ComputeRows(call.call, secret.place, secret.rows, timed_pass is not Pass.forward)
    reply = session.call(asked, call.tensors)
    message, tensors = reply.message, [buffer.to_torch() for buffer in reply.tensors]
    names, count = message.names, len(message.outputs)
    forms = [*message.outputs, *message.gradients]
    there = [form for form in forms if form is not None]
    if len(names) != len(message.gradients) or len(message.natural) != len(names) or len(tensors) != 2 * len(there):
        raise ValueError("a different number of tensors than announced")
    labels = [f"output {place}" for place in range(count)] + [f"gradient of {name}" for name in names]
    pairs = iter(zip(tensors[: len(there)], tensors[len(there) :], strict=True))
    wanted: list[ExpectedTensor | None] = []
    for label, form, natural in zip(labels, forms, [0.0] * count + [*message.natural], strict=True):
        wanted.append(None if form is None else _wanted_of(label, form.shape, natural, *next(pairs), message.kind))
    outputs = tuple(item for item in wanted[:count] if item is not None)
    return Rows(outputs, tuple(wanted[count:]), message.kind)


def bent(session: ChildSession, material: Material, timed_pass: Pass, rows: Rows) -> Rows:
    """The same rows, widened by what half precision may make of them: at a step or kink the truth one step of the inputs away, and
    everywhere what the reference gives where it rounds its intermediate results the other way. Where an error of one rounding is
    multiplied, as before a gate with large weights, one run of the reference says little of how far another may be.

    Raises:
        as ``prove``.
    """
    asked = [*rows.outputs, *(item for item in rows.gradients if item is not None)]
    if rows.kind != "float64" or not any(item.truth.own.dtype in HALVES for item in asked):
        return rows
    secret, call = material.secrets[timed_pass], material.call
    bends = BendRows(call.call, secret.place, secret.rows, timed_pass is not Pass.forward, SHAKE)
    given = [buffer.to_torch() for buffer in session.call(bends, call.tensors).tensors]
    if len(given) != (2 + len(ROUNDINGS)) * len(asked):
        raise ValueError("a different number of tensors than outputs and gradients")
    runs = [given[place :: len(asked)] for place in range(len(asked))]
    new = iter([_widened(item, run[:2], run[2:]) for item, run in zip(asked, runs, strict=True)])
    outputs = tuple(next(new) for _ in rows.outputs)
    return replace(rows, outputs=outputs, gradients=tuple(item and next(new) for item in rows.gradients))


def _widened(item: ExpectedTensor, sides: list[torch.Tensor], roundings: list[torch.Tensor]) -> ExpectedTensor:
    truth = item.truth
    if any(run.shape != truth.exact.shape for run in (*sides, *roundings)):
        raise ValueError("rows of two shapes")
    if truth.own.dtype not in HALVES:
        return item
    rounded = farthest(truth.exact, roundings)
    return replace(
        item, truth=replace(truth, shaken=(*sides, *([] if rounded is None else [rounded])), rounded=rounded)
    )


def _wanted_of(
    label: str, shape: tuple[int, ...], natural: float, exact: torch.Tensor, own: torch.Tensor, kind: str
) -> ExpectedTensor:
    if exact.shape != own.shape:
        raise ValueError("rows of two shapes")
    typical = typical_of(natural)
    if kind in ("own", str(own.dtype).removeprefix("torch.")) and own.dtype in FLOORS:
        natural += LOOSE * FLOORS[own.dtype].tensor * rms(own)
    return ExpectedTensor(label, shape, Truth(exact, own, natural, typical=typical))


MOST_PEER_ERROR = 0.1  # of a tensor's scale; stale, lost and unfinished results exceed twice as much


def result_error(computed: Computed, rows: Rows, timed_pass: Pass, peers: Sequence[Computed] = ()) -> str | None:
    """What is wrong with a contender's results; None where they are right.

    ``peers`` are results of the original in other runs: where its error exceeds the reference's tolerance, the contender's may be
    as large, by verify's measure (``compare``). What the original itself gets wrong is no allowance.
    """
    if computed.unforeseen:
        return f"a timed run overwrote {computed.unforeseen[0]}, which the runs before had left alone"
    wanted = _wanted(computed, rows, timed_pass)
    if wanted is None:
        return "the timed runs returned a different number of outputs or gradients than the reference"
    peer_runs = _PeerRuns(wanted, [peer.tensors for peer in peers if len(peer.tensors) == len(computed.tensors)])
    for place, (item, shape, tensor) in enumerate(zip(wanted, computed.shapes, computed.tensors, strict=True)):
        if item is None:
            continue
        if shape != item.shape or tensor.shape != item.truth.exact.shape:
            return f"{item.label} of a timed run has a different shape than the reference's"
        if tensor.dtype.is_floating_point and tensor.dtype not in FLOORS:
            return f"{item.label} of a timed run is of a dtype that no kernel has"
        comparison = peer_runs.compared(place, item, tensor)
        if not comparison.passed:
            what = "is wrong" if is_far(comparison) or _is_large(comparison) else "is not exact enough"
            return f"{item.label} of a timed run {what}: {_clause(comparison)}"
    return None


@dataclass(frozen=True)
class _PeerRuns:
    """The original's results in other runs, for all expected tensors."""

    wanted: Sequence[ExpectedTensor | None]
    peers: Sequence[Sequence[torch.Tensor]]

    def compared(self, place: int, item: ExpectedTensor, tensor: torch.Tensor) -> ValueComparison:
        alone = compare(tensor, item.truth)
        if alone.passed:
            return alone
        given = [values[place] for values in self.peers]
        near = [peer for peer in given if _fits(peer, item) and _is_allowance(compare(peer, item.truth))]
        loss = self._loss() if near and needs_loss(tensor, item.truth) else 0.0
        return compare(tensor, item.truth, near, loss) if near else alone

    def _loss(self) -> float:
        pairs = [(item, value) for values in self.peers for item, value in zip(self.wanted, values, strict=True)]
        return loss_of((value, item.truth) for item, value in pairs if item is not None and _fits(value, item))


def _fits(value: torch.Tensor, item: ExpectedTensor) -> bool:
    return value.shape == item.truth.exact.shape and (not value.dtype.is_floating_point or value.dtype in FLOORS)


def _is_allowance(own: ValueComparison) -> bool:
    """Whether an original's value is at most inexact: measured by a wrong one, any value would pass."""
    return not (is_far(own) and _is_large(own))


def _is_large(comparison: ValueComparison) -> bool:
    return comparison.error is None or comparison.error > MOST_PEER_ERROR


def _clause(comparison: ValueComparison) -> str:
    sentence = how(comparison).removesuffix(".")
    return sentence[0].lower() + sentence[1:]


def same_bits(one: Computed, other: Computed | None) -> bool:
    """Whether two contenders' results are bit for bit the same, so that one check serves both."""
    if other is None or one.unforeseen or (one.outputs, one.gradients) != (other.outputs, other.gradients):
        return False
    pairs = list(zip(one.tensors, other.tensors, strict=False))
    return (
        len(one.tensors) == len(other.tensors)
        and one.shapes == other.shapes
        and all(a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b) for a, b in pairs)
    )


def _wanted(computed: Computed, rows: Rows, timed_pass: Pass) -> list[ExpectedTensor | None] | None:
    """The expected tensor for each tensor of an answer, in its order."""
    outputs = rows.outputs if timed_pass is not Pass.backward else ()
    gradients = rows.gradients if timed_pass is not Pass.forward else ()
    if computed.outputs != len(outputs) or len(computed.gradients) != len(gradients):
        return None
    wanted: list[ExpectedTensor | None] = [*outputs]
    wanted += [item for item, there in zip(gradients, computed.gradients, strict=True) if there]
    return wanted if len(computed.tensors) == len(computed.shapes) == len(wanted) else None
