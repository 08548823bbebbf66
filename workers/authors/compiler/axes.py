"""Which axis of the iteration space every dimension of every node belongs to, by unification. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpu_runner.contracts.graph import Arg, Dim, Expr, Graph, Node, NodeRef
from workers.authors.compiler.operators import POINTWISE, REDUCTIONS
from workers.authors.compiler.refusals import CannotCompileError
from workers.authors.compiler.sizes import Sizes

Axes = tuple[int, ...]
Shape = tuple[Axes, ...]  # for each dimension its axes, outermost first: none for a dimension of size one


@dataclass
class Unifier:
    """Axes that must run together share a root; ``size`` is the size of a root as the graph wrote it."""

    parents: list[int] = field(default_factory=list)
    size: list[Dim] = field(default_factory=list)

    def fresh(self, size: Dim) -> int:
        """Make an axis of its own."""
        self.parents.append(len(self.parents))
        self.size.append(size)
        return len(self.parents) - 1

    def find(self, axis: int) -> int:
        """Give the root of an axis."""
        while self.parents[axis] != axis:
            axis = self.parents[axis]
        return axis

    def join(self, left: int, right: int) -> None:
        """Let two axes be one; the older root stays."""
        first, second = sorted((self.find(left), self.find(right)))
        self.parents[second] = first


def infer_axes(graph: Graph, sizes: Sizes) -> tuple[dict[str, Shape], Unifier]:
    """Give the axes of every node's dimensions, as roots.

    Raises:
        CannotCompileError: an operator moves elements in a way that axes do not follow.
    """
    unifier = Unifier()
    shapes: dict[str, Shape] = {}
    for node in graph.nodes:
        shapes[node.name] = _shape_of(node, shapes, unifier, sizes)
        if len(shapes[node.name]) != len(node.meta.shape):
            raise CannotCompileError(f"`{node.op}` gives a tensor of another rank than the graph says", node.op)
    for output, upstream in zip(graph.outputs, graph.upstream, strict=True):
        if upstream is not None:
            _align([shapes[output], shapes[upstream]], unifier, "upstream")
    for name, gradient in graph.gradients:
        if gradient is not None:
            _align([shapes[name], shapes[gradient]], unifier, "gradient")
    resolved = {name: tuple(tuple(unifier.find(a) for a in dim) for dim in shape) for name, shape in shapes.items()}
    for node in graph.nodes:
        flat = [axis for dim in resolved[node.name] for axis in dim]
        if len(set(flat)) != len(flat):
            sentence = f"`{node.op}` meets a tensor with its own transpose, which the compiler cannot express"
            raise CannotCompileError(sentence, node.op)
    return resolved, unifier


def _shape_of(node: Node, shapes: Mapping[str, Shape], unifier: Unifier, sizes: Sizes) -> Shape:
    operands = [shapes[ref.name] for ref in references(node.args)]
    if node.op in {"input", "upstream", "full"}:
        return tuple(() if dim == 1 else (unifier.fresh(dim),) for dim in node.meta.shape)
    if node.op in POINTWISE:
        return _align(operands, unifier, node.op) if operands else ()
    if node.op == "expand":
        return _expanded(operands[0], node, unifier)
    if node.op == "reshape":
        return _reshaped(operands[0], node, unifier, sizes)
    if node.op == "permute":
        dims = _integers(node.args[1])
        return tuple(operands[0][dim] for dim in dims)
    if node.op in REDUCTIONS:
        return _reduced(operands[0], node)
    if node.op == "slice" and node.meta.shape and len(operands) == 1 and _is_whole_slice(node):
        return operands[0]
    raise CannotCompileError(f"it has no way to express `{node.op}` yet", node.op)


def references(argument: Arg | tuple[Arg, ...]) -> list[NodeRef]:
    """Give the nodes that an argument names, in order."""
    if isinstance(argument, NodeRef):
        return [argument]
    if isinstance(argument, tuple):
        return [ref for item in argument for ref in references(item)]
    return []


def _align(shapes: Iterable[Shape], unifier: Unifier, operator: str) -> Shape:
    shapes = list(shapes)
    rank = max(len(shape) for shape in shapes)
    result: list[Axes] = []
    for position in range(rank):
        dims = [s[position - rank + len(s)] for s in shapes if position - rank + len(s) >= 0]
        dims = [dim for dim in dims if dim]
        for dim in dims[1:]:
            if len(dim) != len(dims[0]):
                raise CannotCompileError(f"`{operator}` joins dimensions that were flattened differently", operator)
            for left, right in zip(dims[0], dim, strict=True):
                unifier.join(left, right)
        result.append(dims[0] if dims else ())
    return tuple(result)


def _expanded(operand: Shape, node: Node, unifier: Unifier) -> Shape:
    missing = len(node.meta.shape) - len(operand)
    padded = ((),) * missing + operand
    return tuple(
        old or (() if new == 1 else (unifier.fresh(new),)) for old, new in zip(padded, node.meta.shape, strict=True)
    )


def _reshaped(operand: Shape, node: Node, unifier: Unifier, sizes: Sizes) -> Shape:
    """Dimensions may be merged, and ones may come and go; a dimension is split only where it was merged before."""
    waiting = [axis for dim in operand for axis in dim]
    result: list[Axes] = []
    for dim in node.meta.shape:
        wanted, taken = sizes.value(dim), 1
        axes: list[int] = []
        while taken < wanted and waiting:
            axes.append(waiting.pop(0))
            taken *= sizes.value(unifier.size[axes[-1]])
        if taken != wanted:
            raise CannotCompileError("`reshape` splits a dimension, which it cannot express yet", "reshape")
        result.append(tuple(axes))
    return tuple(result)


def _reduced(operand: Shape, node: Node) -> Shape:
    dims = reduced_dimensions(node, len(operand))
    keep = bool(node.args[2]) if len(node.args) > 2 else False
    kept = [(() if position in dims else dim, position in dims) for position, dim in enumerate(operand)]
    return tuple(dim for dim, gone in kept if keep or not gone)


def reduced_dimensions(node: Node, rank: int) -> tuple[int, ...]:
    """Give the dimensions that a reduction runs over, counted from the front; all of them where it names none."""
    dims = _integers(node.args[1]) if len(node.args) > 1 and node.args[1] is not None else tuple(range(rank))
    return tuple(dim % rank for dim in dims) if dims and rank else tuple(range(rank))


def _integers(argument: Arg) -> tuple[int, ...]:
    items = argument if isinstance(argument, tuple) else (argument,)
    return tuple(item for item in items if isinstance(item, int))


def _is_whole_slice(node: Node) -> bool:
    start = node.args[2] if len(node.args) > 2 else None
    end = node.args[3] if len(node.args) > 3 else None
    step = node.args[4] if len(node.args) > 4 else 1
    size = node.meta.shape[_integers(node.args[1])[0]]
    reaches_end = end is None or end == size or (isinstance(end, int) and end >= 2**31)
    return start in (None, 0) and step in (None, 1) and reaches_end and not isinstance(start, Expr)
