"""A workload as a call whose inputs every child draws itself: seed, shapes and how they are drawn cross, tensors do not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gpu_runner.buffers import ITEM_BYTES
from gpu_runner.contracts.problem import InputSpec
from gpu_runner.outline import OutputForm, WorkloadOutline, read_output
from gpu_runner.verify.cases import Case
from gpu_runner.verify.inputs import DTYPES, shape_of
from gpu_runner.verify.proof import ChildCall, make_call
from gpu_runner.verify.truth import Oracle


@dataclass(frozen=True)
class Seeded:
    """``backward``: whether there is a gradient to compute."""

    call: ChildCall
    backward: bool
    input_bytes: int


def seeded(oracle: Oracle, case: Case, outline: WorkloadOutline | None) -> Seeded:
    """A workload's call, its inputs by seed. A KernelBench problem makes its inputs itself, so they are sent.

    Raises:
        ChildFailed, KeyError, TypeError, ValueError: without an outline the reference is run for its outputs, and that fails.
    """
    if oracle.form.name == "kernelbench":
        asked = oracle.asked(case)
        size = sum(tensor.numel() * tensor.element_size() for tensor in asked.inputs.values())
        return Seeded(make_call(asked), False, size)
    inputs = [_input(spec, case) for spec in oracle.problem.inputs]
    scalars = {spec.name: spec.default for spec in oracle.problem.scalars if spec.default is not None}
    meta: dict[str, Any] = {
        "form": oracle.form.name,
        "order": list(oracle.form.order),
        "keywords": list(oracle.form.keywords),
        "parameters": list(oracle.form.parameters),
        "scalars": scalars | dict(case.scalars),
        "seed": case.seed,
        "inputs": inputs,
        "upstream": [],
    }
    outputs = _forms(oracle, meta) if outline is None else outline.outputs
    meta["upstream"] = [
        {"shape": list(item.shape), "dtype": item.dtype} if item.differentiable else None for item in outputs
    ]
    meta["backward"] = any(item["grad"] for item in inputs) and any(meta["upstream"])
    size = sum(math.prod(item["shape"]) * ITEM_BYTES[item["dtype"]] for item in inputs)
    return Seeded(ChildCall(meta, []), bool(meta["backward"]), size)


def _forms(oracle: Oracle, meta: dict[str, Any]) -> tuple[OutputForm, ...]:
    return tuple(read_output(row) for row in oracle.session.call("forms", meta).meta["outputs"][:64])


def _input(spec: InputSpec, case: Case) -> dict[str, Any]:
    dtype = spec.dtype or case.dtype
    high = case.size_of[spec.high] if isinstance(spec.high, str) else spec.high
    wants = spec.grad and DTYPES[dtype].is_floating_point
    shape = shape_of(spec, case.size_of)
    return {
        "name": spec.name,
        "shape": list(shape),
        # As layers begin: a product with weights of deviation one saturates what follows, and multiplies each rounding before it.
        "scale": math.prod(shape[1:]) ** -0.5 if spec.parameter and 0 not in shape else 1.0,
        "dtype": dtype,
        "init": spec.init,
        "noisy": spec.grad and not case.plain_init,  # parameters of exact ones would let a kernel forget them
        "low": spec.low or 0,
        "high": high or 2,
        "grad": wants,
    }
