"""What a workload looks like without computing it: how much is computed in each pass, and the form of the outputs.

With it a call can be made whose values nobody will check: for profiling and tuning, where a truth in float64 would cost more
than the measurement.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpu_runner.buffers import ITEM_BYTES
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.errors import ChildError
from gpu_runner.verify.cases import Case
from gpu_runner.verify.inputs import DTYPES, lay, make_upstream
from gpu_runner.verify.proof import Proof
from gpu_runner.verify.truth import BadProblem, Oracle

ROLE = "operations"  # what the oracle's session must serve


@dataclass(frozen=True)
class Operations:
    """Floating-point operations of one pass."""

    matrix: int  # of matrix products
    vector: int  # of everything else, one per element and step
    tf32: int = 0  # of the matrix products, convolutions in float32

    @property
    def total(self) -> int:
        return self.matrix + self.vector

    def __add__(self, other: Operations) -> Operations:
        return Operations(self.matrix + other.matrix, self.vector + other.vector, self.tf32 + other.tf32)


@dataclass(frozen=True)
class OutputForm:
    shape: tuple[int, ...]
    dtype: str
    differentiable: bool


@dataclass(frozen=True)
class WorkloadOutline:
    """A workload as it runs on shapes alone."""

    operations: dict[Pass, Operations]  # of the passes that there are
    outputs: tuple[OutputForm, ...]


def outline_of(oracle: Oracle, case: Case) -> WorkloadOutline | None:
    """The outline of a workload; None where the reference does not run on fake tensors."""
    try:
        facts = oracle.session.call("outline", oracle.on_shapes(case)).meta
        return _checked(facts)
    except (ChildError, KeyError, TypeError, ValueError):
        return None  # also where the reference answered in place of the runner's own code


def unproved(oracle: Oracle, case: Case, outline: WorkloadOutline | None) -> Proof:
    """A case with inputs and upstream gradients but, where there is an outline, without its true values.

    Raises:
        ChildFailed, BadProblem: without an outline the reference is computed, and that fails.
    """
    asked = oracle.asked(case)
    if outline is None:
        try:
            return oracle.with_truth(asked, None)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise BadProblem("the reference's process answered in place of the runner's own code") from error
    dtypes = [DTYPES.get(item.dtype, DTYPES["float32"]) for item in outline.outputs]
    made = make_upstream([item.shape for item in outline.outputs], dtypes, case)
    pairs = zip(made, outline.outputs, strict=True)
    return replace(asked, upstream=tuple(lay(grad) if item.differentiable else None for grad, item in pairs))


def _checked(facts: dict[str, Any]) -> WorkloadOutline:
    """Check the child's words.

    Raises:
        ValueError: they are not of their form.
    """
    forward, backward = _operations(facts["forward"]), _operations(facts["backward"])
    operations = {} if forward is None else {Pass.forward: forward}
    if forward is not None and backward is not None:
        operations |= {Pass.backward: backward, Pass.full: forward + backward}
    return WorkloadOutline(operations, tuple(read_output(row) for row in facts["outputs"][:64]))


def _operations(counts: Any) -> Operations | None:
    if counts is None:
        return None
    if not isinstance(counts, list) or len(counts) != 3 or not all(type(item) is int and item >= 0 for item in counts):
        raise ValueError("no counts of operations")
    return Operations(*counts)


def read_output(row: Any) -> OutputForm:
    """Parse a child's description of an output.

    Raises:
        TypeError, ValueError: it is malformed.
    """
    shape, dtype, differentiable = row
    if dtype not in ITEM_BYTES or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("no form of an output")
    return OutputForm(tuple(shape), dtype, bool(differentiable))
