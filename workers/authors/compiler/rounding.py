"""Dtypes of tensors, and where kernels round as the reference does in eager mode. Pure.

A ``rounded`` value's ``datum`` names, with blanks between, the parameters that keep it in float32 where one of them is float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpu_runner.contracts import Graph, Problem, Rounding
from workers.authors.compiler.domain import SCALAR, Domain
from workers.authors.compiler.graph import REDUCTIONS
from workers.authors.compiler.values import TileValue, ValueNumbering, topological


def fixed_dtype(problem: Problem, graph: Graph, node: str) -> str | None:
    """The dtype of an input, an output or its gradient where it does not follow the call's, None where it does.

    The graph is traced in float32, so that only another dtype in it is sure to be meant; what the capture saw with bfloat16
    inputs tells a cast to float32 from one to the input's dtype.
    """
    declared = {spec.name: spec.dtype for spec in problem.inputs}
    if node in declared:
        return declared[node]
    for index, names in enumerate(zip(graph.outputs, graph.upstream, strict=True)):
        if node in names:
            traced = next(n.meta.dtype for n in graph.nodes if n.name == graph.outputs[index])
            seen = graph.output_dtypes[index] if graph.output_dtypes else "bfloat16"
            return traced if traced != "float32" else None if seen == "bfloat16" else seen
    return None


def follows_call(problem: Problem, graph: Graph, node: str) -> bool:
    """Whether a tensor that kernels are handed is sure to have the call's dtype, which a parameter need not have."""
    parameters = {spec.name for spec in problem.inputs if spec.parameter}
    known = {*graph.inputs, *graph.outputs, *graph.upstream} - parameters
    return node in known and fixed_dtype(problem, graph, node) is None


@dataclass(frozen=True)
class AsStored(Rounding):
    """A value that is rounded because another kernel stored it, not because eager mode rounds there."""


ROUNDED = "rounded"
TYPE = "ROUNDED"
# What bfloat16 and float16 both hold exactly.
MANTISSA_BITS, LEAST, LARGEST = 8, 2.0**-14, 2.0**15


def keeps_order(graph: Graph) -> bool:
    """Whether kernels are to compute in the order of the reference: where they round as it does and nothing is summed up.

    Then each element can be eager mode's own to the last bit, and what a library's tests compare may depend on that: one bit of
    one element, multiplied by a matrix, is seen. Such kernels wait for memory, so that the order costs nothing.
    """
    as_reference = [rounding for rounding in graph.rounded if not isinstance(rounding, AsStored)]
    return bool(as_reference) and not any(node.op in REDUCTIONS for node in graph.nodes)


class ValueRounding:
    """Rounds the values of a graph's nodes that eager mode stores in a narrow dtype."""

    def __init__(self, problem: Problem, graph: Graph, domain: Domain, numbering: ValueNumbering) -> None:
        self._problem, self._graph, self._domain, self._numbering = problem, graph, domain, numbering
        self._unless = {rounding.node: rounding.unless for rounding in graph.rounded}

    def of(self, node: str, value: TileValue) -> TileValue:
        """A node's value with eager mode's rounding."""
        return self._rounded(value, self._unless[node]) if node in self._unless else value

    def _rounded(self, value: TileValue, unless: tuple[str, ...]) -> TileValue:
        if value.op == "cat":
            return self._numbering.pointwise("cat", *(self._rounded(arg, unless) for arg in value.args))
        if value.op == "neg":
            return self._numbering.pointwise("neg", self._rounded(value.args[0], unless))
        if not _is_computed(value) or self._holds(value, frozenset(unless)):
            return value
        if value.op == "where" and any(self._holds(arm, frozenset(unless)) for arm in value.args[1:]):
            arms = [self._rounded(arm, unless) for arm in value.args[1:]]
            return self._numbering.pointwise("where", value.args[0], *arms)
        return self._numbering.value(ROUNDED, (value,), " ".join(unless), value.space)

    def _holds(self, value: TileValue, unless: frozenset[str]) -> bool:
        """Whether the narrow dtype represents a value exactly."""
        if value.number is not None:
            return _is_short(float(value.number))
        if value.boolean:
            return True
        if value.op == ROUNDED:
            return unless.issuperset(str(value.datum).split())
        if value.op in {"load", "pick"}:
            node = self._domain.base(str(value.datum))
            if follows_call(self._problem, self._graph, node):
                return True
            return node in unless and fixed_dtype(self._problem, self._graph, node) is None
        if value.op in {"neg", "abs", "relu", "maximum", "minimum"} or value.datum in {"max", "min"}:
            return all(self._holds(arg, unless) for arg in value.args)
        return value.op == "where" and all(self._holds(arm, unless) for arm in value.args[1:])


def unrounded(numbering: ValueNumbering, value: TileValue) -> TileValue:
    """A value as it is stored: the store rounds it."""
    if value.op in {"cat", "neg"}:
        return numbering.pointwise(value.op, *(unrounded(numbering, arg) for arg in value.args))
    return value.args[0] if value.op == ROUNDED else value


def type_name(value: TileValue) -> str:
    """What a kernel calls the dtype that a value is rounded to."""
    return "_".join([TYPE, *str(value.datum).upper().split()])


def type_lines(problem: Problem, graph: Graph, pointers: dict[str, str], values: list[TileValue]) -> list[str]:
    """The dtypes that a kernel rounds its values to; ``pointers`` are its parameters for inputs, outputs and their gradients."""
    followed = [name for name in pointers if follows_call(problem, graph, name)]
    lines = []
    for name, value in {type_name(v): v for v in values if v.op == ROUNDED}.items():
        deciding = str(value.datum).split() or followed[:1]
        types = [f"{pointers[node]}.dtype.element_ty" for node in deciding if node in pointers]
        # A parameter that the kernel does not read may be float32.
        text = types[-1] if types and len(types) == len(deciding) else "tl.float32"
        for element in types[:-1] if text != "tl.float32" else []:
            text = f"tl.float32 if {element} == tl.float32 else {text}"
        lines.append(f"{name}: tl.constexpr = {text}")
    return ["# Values are rounded where the reference's own operators round.", *lines] if lines else []


def _is_computed(value: TileValue) -> bool:
    """Whether a value is one of a kernel: sums over all rows are not, nor is arithmetic over numbers alone."""
    if value.integer or value.boolean or value.number is not None:
        return False
    below = [] if value.space.rows else topological([value])
    if any(inner.op == "over_rows" for inner in below):
        return False
    return value.space != SCALAR or any(inner.op in {"load", "pick"} for inner in below)


def _is_short(number: float) -> bool:
    if number == 0 or math.isinf(number):
        return True
    mantissa, _ = math.frexp(number)
    return LEAST <= abs(number) <= LARGEST and (mantissa * 2**MANTISSA_BITS).is_integer()
