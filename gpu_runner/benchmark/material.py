"""What one workload is measured on: inputs that every contender draws itself, and secret rows that will be checked.

The reference says on shapes alone what tensors there are.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpu_runner.benchmark.roofline import PassWork, Traffic, moved_bytes, surely_moved
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.contracts.problem import Workload
from gpu_runner.errors import ChildError, MalformedReply
from gpu_runner.messages import MeasureTraffic, Operations, WorkloadCall
from gpu_runner.outline import outline_of
from gpu_runner.seeded import seeded
from gpu_runner.verify.cases import Case
from gpu_runner.verify.inputs import DTYPES, shape_of
from gpu_runner.verify.proof import ChildCall
from gpu_runner.verify.truth import Oracle


def traffic_of(oracle: Oracle, case: Case) -> Traffic | None:
    """Bytes of a workload's tensors; None where the reference does not run on fake tensors."""
    try:
        counted = oracle.session.call(MeasureTraffic(oracle.on_shapes(case))).message
    except (ChildError, MalformedReply):
        return None
    names = ("inputs", "outputs", "upstream", "gradients", "saved")
    numbers: dict[str, int] = {name: getattr(counted, name) for name in names}
    if min(numbers.values()) < 0:
        return None
    numbers["inputs"] -= _never_read(oracle, case, counted.outputs, counted.whole)
    return Traffic(**numbers, is_loss=counted.is_loss)


def _never_read(oracle: Oracle, case: Case, output_bytes: int, whole: Sequence[str]) -> int:
    """Bytes of tables that need not be read: of a table that is only indexed, no more than the output's bytes are."""
    indexed = {spec.high for spec in oracle.problem.inputs if isinstance(spec.high, str)}
    spared = 0
    for spec in oracle.problem.inputs:
        if indexed & set(spec.dims) and spec.name not in whole:
            size = math.prod(shape_of(spec, case.size_of)) * DTYPES[spec.dtype or case.dtype].itemsize
            spared += max(0, size - output_bytes)
    return spared


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
    call: ChildCall[WorkloadCall]
    backward: bool
    places: int
    secrets: dict[Pass, Secret]
    traffic: Traffic | None
    operations: dict[Pass, Operations]

    def work(self, timed_pass: Pass, l2_bytes: int) -> PassWork:
        """The least work of a pass."""
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


def work_of(traffic: Traffic | None, operations: Operations | None, timed_pass: Pass, l2_bytes: int) -> PassWork:
    """The least work of a pass; a loss may compute its gradient in the forward pass, so its backward alone has none."""
    if traffic is None:
        return PassWork(
            matrix_flops=None if operations is None else operations.matrix,
            vector_flops=None if operations is None else operations.vector,
            tf32_flops=0 if operations is None else operations.tf32,
        )
    moved, sure = moved_bytes(traffic, timed_pass, l2_bytes), surely_moved(traffic, timed_pass, l2_bytes)
    if operations is None or (timed_pass is Pass.backward and traffic.is_loss):
        return PassWork(moved, sure)
    return PassWork(moved, sure, operations.matrix, operations.vector, operations.tf32)
