"""What a workload looks like without computing it: how much is computed in each pass, and the form of the outputs.

With it a call can be made whose values nobody will check: for profiling and tuning, where a truth in float64 would cost more
than the measurement.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpu_runner.contracts.benchmark import Pass
from gpu_runner.errors import ChildError
from gpu_runner.messages import Operations, OutlineCall, OutputForm
from gpu_runner.verify.cases import Case
from gpu_runner.verify.inputs import DTYPES, lay, make_upstream
from gpu_runner.verify.proof import Proof
from gpu_runner.verify.truth import BadProblem, Oracle

ROLE = "operations"  # what the oracle's session must serve
MOST_OUTPUTS = 64


@dataclass(frozen=True)
class WorkloadOutline:
    """A workload as it runs on shapes alone."""

    operations: dict[Pass, Operations]  # of the passes that there are
    outputs: tuple[OutputForm, ...]


def outline_of(oracle: Oracle, case: Case) -> WorkloadOutline | None:
    """The outline of a workload; None where the reference does not run on fake tensors."""
    try:
        outlined = oracle.session.call(OutlineCall(oracle.on_shapes(case))).message
    except (ChildError, KeyError, TypeError, ValueError):
        return None  # also where the reference answered in place of the runner's own code
    forward, backward = outlined.forward, outlined.backward
    operations = {Pass.forward: forward}
    if backward is not None:
        operations |= {Pass.backward: backward, Pass.full: forward + backward}
    return WorkloadOutline(operations, outlined.outputs[:MOST_OUTPUTS])


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
