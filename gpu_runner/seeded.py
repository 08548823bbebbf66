"""A workload as a call whose inputs every child draws itself: seed, shapes and how they are drawn cross, tensors do not."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, replace

from gpu_runner.buffers import ITEM_BYTES
from gpu_runner.contracts.problem import InputSpec
from gpu_runner.messages import DescribeOutputs, DigestInputs, DrawnCall, DrawnTensor, ModuleCall, WorkloadCall
from gpu_runner.outline import MOST_OUTPUTS, WorkloadOutline
from gpu_runner.verify.cases import Case
from gpu_runner.verify.inputs import DTYPES, shape_of
from gpu_runner.verify.proof import ChildCall, make_call
from gpu_runner.verify.truth import Oracle


@dataclass(frozen=True)
class Seeded:
    """``backward``: whether there is a gradient to compute."""

    call: ChildCall[WorkloadCall]
    backward: bool
    input_bytes: int


def seeded(oracle: Oracle, case: Case, outline: WorkloadOutline | None) -> Seeded:
    """A workload's call, its inputs by seed. A KernelBench problem makes its inputs itself: small ones are sent.

    Raises:
        ChildFailed, KeyError, TypeError, ValueError: without an outline the reference is run for its outputs, and that fails.
    """
    if oracle.form.name == "kernelbench":
        return _of_module(oracle, case)
    inputs = tuple(_input(spec, case) for spec in oracle.problem.inputs)
    scalars = {spec.name: spec.default for spec in oracle.problem.scalars if spec.default is not None}
    call = DrawnCall(oracle.form, scalars | dict(case.scalars), case.seed, inputs)
    if outline is None:
        outputs = oracle.session.call(DescribeOutputs(call)).message[:MOST_OUTPUTS]
    else:
        outputs = outline.outputs
    upstream = tuple(DrawnTensor(item.shape, item.dtype) if item.differentiable else None for item in outputs)
    size = sum(math.prod(item.shape) * ITEM_BYTES[item.dtype] for item in inputs)
    return Seeded(
        ChildCall(replace(call, upstream=upstream)), any(item.grad for item in inputs) and any(upstream), size
    )


MOST_SENT = 2**28  # bytes


def _of_module(oracle: Oracle, case: Case) -> Seeded:
    """A module's call. Large inputs are drawn by its own ``get_inputs`` in every child, and their digests compared."""
    drawn, item = oracle.module_inputs(case), DTYPES[case.dtype].itemsize
    sizes = [
        math.prod(shape) * (item if DTYPES[dtype].is_floating_point else ITEM_BYTES[dtype])
        for shape, dtype in drawn.tensors.values()
    ]
    draws = drawing_source(oracle.problem.source) if sum(sizes) > MOST_SENT else None
    asked = oracle.asked(case) if draws is None else oracle.without_inputs(case, drawn)
    sent = make_call(asked)
    state_bytes = sum(
        tensor.numel() * tensor.element_size() for name, tensor in asked.inputs.items() if name in oracle.state
    )
    if draws is None:
        return Seeded(sent, False, state_bytes + sum(sizes))
    call = ModuleCall(sent.call, draws, case.seed, case.dtype)
    call = replace(call, digests=oracle.session.call(DigestInputs(call), sent.tensors).message)
    return Seeded(ChildCall(call, sent.tensors), False, state_bytes + sum(sizes))


def drawing_source(source: str) -> str | None:
    """The statements of a KernelBench problem that ``get_inputs`` takes; None where it takes the model.

    A candidate's process is given no more of the problem than that.
    """
    statements = ast.parse(source).body
    binds = [_names(node, ast.Store) for node in statements]
    taken: set[int] = set()
    wanted, seen = ["get_inputs"], set[str]()
    while wanted:
        name = wanted.pop()
        seen.add(name)
        for place, (node, names) in enumerate(zip(statements, binds, strict=True)):
            if name in names and place not in taken:
                taken.add(place)
                wanted += _names(node, ast.Load) - seen
    return None if "Model" in seen else "\n".join(ast.unparse(statements[place]) for place in sorted(taken))


def _names(node: ast.stmt, context: type[ast.expr_context]) -> set[str]:
    """The names that a statement of a module binds or reads."""
    found = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, context)}
    if context is ast.Store and isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if context is ast.Store and isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return found


def _input(spec: InputSpec, case: Case) -> DrawnTensor:
    dtype = spec.dtype or case.dtype
    high = case.size_of[spec.high] if isinstance(spec.high, str) else spec.high
    wants = spec.grad and DTYPES[dtype].is_floating_point
    shape = shape_of(spec, case.size_of)
    return DrawnTensor(
        shape,
        dtype,
        spec.name,
        spec.init,
        # As layers begin: a product with weights of deviation one saturates what follows, and multiplies each rounding before it.
        scale=math.prod(shape[1:]) ** -0.5 if spec.parameter and 0 not in shape else 1.0,
        noisy=spec.grad and not case.plain_init,  # parameters of exact ones would let a kernel forget them
        low=spec.low or 0,
        high=high or 2,
        grad=wants,
    )
