"""What one workload is measured on: inputs that every contender draws itself, and secret rows that will be checked."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpu_runner.benchmark.roofline import Traffic, Work, moved_bytes, surely_moved
from gpu_runner.benchmark.traffic import traffic_of
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.contracts.problem import Workload
from gpu_runner.outline import Operations, outline_of
from gpu_runner.seeded import seeded
from gpu_runner.verify.cases import Case
from gpu_runner.verify.proof import Call
from gpu_runner.verify.truth import Oracle

PLACES = 3  # sets of inputs that take turns
FEW_PLACES = 2  # where one set alone is many times the L2 cache
MANY_BYTES = 2**29


@dataclass(frozen=True)
class Secret:
    """What of a pass will be checked: a set of inputs, and rows. No contender knows it before the race is over."""

    place: int
    rows: int


@dataclass(frozen=True)
class Material:
    """One workload, ready to be prepared. Each pass has a secret of its own: the check of one gives its secret away."""

    workload: Workload
    call: Call
    backward: bool
    places: int
    secrets: dict[Pass, Secret]
    traffic: Traffic | None
    operations: dict[Pass, Operations]

    def work(self, timed_pass: Pass, l2_bytes: int) -> Work:
        """Give what a pass has to do at least."""
        return work_of(self.traffic, self.operations.get(timed_pass), timed_pass, l2_bytes)


def make_material(oracle: Oracle, workload: Workload, case: Case, asked: Sequence[Pass]) -> Material:
    """Choose a seed and the secrets of those asked passes that there are.

    Raises:
        ChildFailed, ProtocolError, KeyError, TypeError, ValueError: the reference does not run on this workload.
    """
    case = replace(case, seed=secrets.randbits(56))
    outline = outline_of(oracle, case)
    given = seeded(oracle, case, outline)
    places = FEW_PLACES if given.input_bytes > MANY_BYTES else PLACES
    passes = [item for item in asked if item is Pass.forward or given.backward]
    chosen = {item: Secret(secrets.randbelow(places), secrets.randbits(56)) for item in passes}
    operations = {} if outline is None else outline.operations
    return Material(workload, given.call, given.backward, places, chosen, traffic_of(oracle, case), operations)


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
