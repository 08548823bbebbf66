"""The captured graph of a problem as data: joint forward and backward, small operator set, shapes in named dimensions.

Operators are written in a canonical vocabulary; whatever is outside of it keeps its full torch name (``aten.sort.stable``),
so that an author can name it in a refusal. Arguments in order:

- pointwise, one operand: ``UNARY_OPERATORS``; two operands (node or scalar, broadcast as torch does): ``BINARY_OPERATORS``;
  three: ``where(condition, a, b)``
- ``cast(x)``: the dtype is the node's own
- ``full(value)``, ``arange(end)``: shape and dtype are the node's own
- shape: ``reshape(x)`` and ``expand(x)`` to the node's own shape, ``permute(x, dims)``, ``slice(x, dim, start, end, step)``,
  ``cat(tensors, dim)``
- reductions: ``sum(x, dims, keepdim)``, ``amax(x, dims, keepdim)``, ``amin(x, dims, keepdim)``, ``prod(x, dims, keepdim)``,
  ``argmax(x, dim, keepdim)``
- scans: ``cumsum(x, dim, reverse)``, ``cumprod(x, dim, reverse)``; ``flip(x, dims)``
- index: ``gather(x, dim, index)``, ``index_select(x, dim, index)``
- matrix: ``matmul(a, b)``
- ``windows(x, like, taps, steps, dilations, offsets, divisors, ends, lowest)``: the windows of the last dimensions of ``x``, as
  many as ``taps`` has numbers; the shape is the leading dimensions, then the places, then the taps. Tap k of place o is the
  element ``(o * steps + k * dilations + offsets) / divisors``; where that is none, zero, or with ``lowest`` minus infinity. The
  places are the last dimensions of ``like``, or where that is None ``(size * divisors + ends) // steps + 1``
"""

from __future__ import annotations

import functools
import operator
import re
from dataclasses import dataclass, field

from gpu_runner.contracts.envelope import FORMERLY

UNARY_OPERATORS = (
    "neg",
    "abs",
    "exp",
    "exp2",
    "log",
    "log2",
    "log1p",
    "expm1",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sigmoid",
    "tanh",
    "erf",
    "sin",
    "cos",
    "relu",
    "sign",
    "floor",
    "ceil",
    "round",
    "trunc",
    "logical_not",
    "isnan",
)
BINARY_OPERATORS = (
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "maximum",
    "minimum",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "atan2",
    "fmod",
)


@dataclass(frozen=True)
class Expr:
    """A number that depends on the workload: Python arithmetic (``+ - * / //``) over dimension and scalar names."""

    text: str


@dataclass(frozen=True)
class NodeRef:
    """An argument that is the value of another node."""

    name: str


Dim = int | Expr
Atom = NodeRef | Expr | int | float | bool | str | None
Arg = Atom | tuple[Atom, ...]


@dataclass(frozen=True)
class TensorMeta:
    """What is known of a node's value: ``shape`` outermost first, ``dtype`` by torch's short name such as ``bfloat16``."""

    shape: tuple[Dim, ...]
    dtype: str


@dataclass(frozen=True)
class Node:
    """One operation; ``op`` is ``input``, ``upstream`` (the gradient of an output), or of the vocabulary above."""

    name: str
    op: str
    args: tuple[Arg, ...]
    meta: TensorMeta
    kwargs: tuple[tuple[str, Arg], ...] = ()

    @functools.cached_property
    def operands(self) -> tuple[str, ...]:
        """The nodes that the arguments name, in order and as often as they do."""
        arguments = (*self.args, *(value for _, value in self.kwargs))
        items = (item for argument in arguments for item in (argument if isinstance(argument, tuple) else (argument,)))
        return tuple(item.name for item in items if isinstance(item, NodeRef))


@dataclass(frozen=True)
class Rounding:
    """Where eager mode rounds: with inputs in a narrow dtype ``node`` has that dtype.

    It has float32 instead where one of the inputs ``unless`` is float32, as weights may be.
    """

    node: str
    unless: tuple[str, ...] = ()


@dataclass(frozen=True)
class Multiple:
    """A dimension that is a whole multiple of ``of``: arithmetic over scalars that are whole numbers from 1 on."""

    dimension: str
    of: str

    @property
    def scalars(self) -> tuple[str, ...]:
        """The scalars of the arithmetic, in order and as often as it names them."""
        return tuple(re.findall(r"[A-Za-z_]\w*", self.of))


@dataclass(frozen=True)
class TracedSize:
    """A dimension that was traced as a multiple of ``step`` alone, or as ``step`` times the dimension ``of``; at others the
    reference did not run, or was not tried."""

    dimension: str
    step: int
    of: str | None = None


_COMPARISONS = {"!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True)
class ScalarBound:
    """What holds of a number where a graph is valid, as ``beta != 0.0``: beyond, the reference computes something else."""

    scalar: str
    comparison: str  # of Python: ``!=``, ``<``, ``<=``, ``>`` or ``>=``
    limit: float

    def text(self, name: str) -> str:
        """The condition as Python, with the scalar called ``name``."""
        return f"{name} {self.comparison} {self.limit!r}"

    def holds(self, value: float) -> bool:
        """Whether the graph is valid for a value, as far as this says."""
        return bool(_COMPARISONS[self.comparison](value, self.limit))


@dataclass(frozen=True)
class Graph:
    """A problem's computation, nodes in an order in which they can be evaluated.

    The dtype of the call inputs in the graph is float32; casts that the reference makes are nodes.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]  # node names; each equals the problem's input name
    outputs: tuple[str, ...]  # node names, in the order in which the reference returns them
    upstream: tuple[str | None, ...]  # for each output the node of its gradient, None where it has none
    gradients: tuple[tuple[str, str | None], ...]  # input name -> node of its gradient; only inputs that want one
    specialised: tuple[
        str, ...
    ] = ()  # scalars whose first of ``Problem.values_of`` is baked into the graph: no other is valid
    tuple_output: bool = False  # the reference returns a tuple even if it is of length one
    output_dtypes: tuple[str, ...] = ()  # of each output where the call inputs are bfloat16; empty: not known
    rounded: tuple[Rounding, ...] = ()  # values that eager mode rounds to a narrow dtype, as far as known
    multiples: tuple[Multiple, ...] = ()  # the graph is valid where all of these are; their scalars are not specialised
    bounds: tuple[ScalarBound, ...] = ()  # and where all of these hold
    traced: tuple[TracedSize, ...] = ()  # of dimensions that were not traced at sizes of any kind and have no rule


@dataclass(frozen=True)
class CaptureRequest:
    """Trace a problem: run it twice on fresh sizes, decompose, map sizes back to names.

    With ``whole`` the graph is of the forward alone, in torch's own operators (``aten.linear.default``), which a program can be
    cut along; of an operator with several results the parts are nodes ``getitem(x, place)``.
    """

    problem_source: str
    whole: bool = False


@dataclass(frozen=True)
class CaptureResult:
    """``graph`` is None where the problem does not run; then ``error`` says why and ``line`` where, in the problem's source."""

    graph: Graph | None
    error: str | None = None
    line: int | None = None
    fix: str | None = field(default=None, metadata={FORMERLY: "cure"})
    problem_source: str | None = None  # for a KernelBench problem: the same problem in the reference form
    operators: tuple[str, ...] = field(default=())  # distinct operators of the graph, sorted
    # Of a KernelBench model: parameters and buffers that are another one under a second name, with that one's name.
    tied: tuple[tuple[str, str], ...] = ()
