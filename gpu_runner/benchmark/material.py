"""What one workload is measured on: inputs as every contender gets them, and the truth of the set that will be checked."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace

import torch

from gpu_runner.benchmark.roofline import Traffic, Work, moved_bytes, surely_moved
from gpu_runner.benchmark.traffic import traffic_of
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.contracts.problem import Workload
from gpu_runner.outline import Operations, outline_of, unproved
from gpu_runner.verify.inputs import lay
from gpu_runner.verify.proof import Call, Proof, make_call
from gpu_runner.verify.sizes import Case
from gpu_runner.verify.truth import Oracle

PLACES = 3  # sets of inputs that take turns
FEW_PLACES = 2  # where one set alone is many times the L2 cache
MANY_BYTES = 2**29


@dataclass(frozen=True)
class Material:
    """``place`` is the set of inputs that will be checked; no child knows it before. ``asked`` is that set, without its truth."""

    workload: Workload
    call: Call
    asked: Proof
    place: int
    places: int
    traffic: Traffic | None
    operations: dict[Pass, Operations]

    def work(self, timed_pass: Pass, l2_bytes: int) -> Work:
        """Give what a pass has to do at least."""
        return work_of(self.traffic, self.operations.get(timed_pass), timed_pass, l2_bytes)


def make_material(oracle: Oracle, workload: Workload, case: Case) -> Material:
    """Draw inputs and upstream gradients.

    Raises:
        ChildFailed, ProtocolError: the reference does not run on this workload.
    """
    case = replace(case, seed=secrets.randbits(56))
    outline = outline_of(oracle, case)
    base = unproved(oracle, case, outline)
    size = sum(laid.raw.numel() * laid.raw.element_size() for laid in base.laid.values())
    places = FEW_PLACES if size > MANY_BYTES else PLACES
    place = secrets.randbelow(places)
    moved = {name: torch.roll(tensor, place, 0) if tensor.dim() else tensor for name, tensor in base.inputs.items()}
    asked = replace(base, inputs=moved, laid={name: lay(tensor, "dense") for name, tensor in moved.items()})
    operations = {} if outline is None else outline.operations
    return Material(workload, make_call(base), asked, place, places, traffic_of(oracle, case), operations)


def prove(oracle: Oracle, material: Material) -> Proof:
    """Ask the reference for the truth of the set that will be checked.

    Raises:
        ChildFailed, ProtocolError, BadProblem: it does not run, or not in float64.
    """
    return oracle.with_truth(material.asked, material.asked.upstream)


def work_of(traffic: Traffic | None, operations: Operations | None, timed_pass: Pass, l2_bytes: int) -> Work:
    """Give what a pass has to do at least; a loss may compute its gradient in the forward pass, so its backward alone nothing."""
    if traffic is None:
        return Work(
            matrix_flops=None if operations is None else operations.matrix,
            vector_flops=None if operations is None else operations.vector,
        )
    moved, sure = moved_bytes(traffic, timed_pass, l2_bytes), surely_moved(traffic, timed_pass, l2_bytes)
    if operations is None or (timed_pass is Pass.backward and traffic.is_loss):
        return Work(moved, sure)
    return Work(moved, sure, operations.matrix, operations.vector)
