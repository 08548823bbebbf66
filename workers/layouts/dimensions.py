"""Dimensions of a problem in generated code: names, sizes, tensors of these shapes, and leading dimensions. Pure."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpu_runner.contracts import Expr, Graph, InputSpec, NodeRef, Problem
from gpu_runner.contracts.graph import BINARY_OPERATORS, UNARY_OPERATORS, Arg, Dim, Node
from workers.layouts.python_source import call, tuple_of

# What a dimension of a common name is called in a module's signature and in a model's configuration.
MEANINGS = {
    "H": "hidden_size",
    "hidden": "hidden_size",
    "D": "hidden_size",
    "I": "intermediate_size",
    "F": "intermediate_size",
    "V": "vocab_size",
    "vocab": "vocab_size",
    "C": "num_channels",
    "G": "num_groups",
    "O": "output_size",
    "l": "length",
}
MODEL_KEYS = ("hidden_size", "intermediate_size", "vocab_size")
# Names that generated code uses itself, so that no input and no dimension may bear them.
TAKEN = frozenset({
    "F", "args", "atol", "cfg", "device", "dtype", "expected", "grad_output", "input", "layer", "math", "model", "model_cfg", "nn",
    "os", "output", "pytest", "reference", "rtol", "self", "set_seed", "sys", "torch",
})  # fmt: skip
# A power of two, an odd width beside one, primes, and less than any block; the first is the widest.
COLUMN_SIZES = (4096, 2048, 1023, 256, 5)
LEAST_WIDTH = 3
REDUCTIONS = frozenset({"sum", "amax", "amin", "prod", "argmax"})
ROW_SIZES = ((16, 8, 1, 21, 3), (2, 4, 1, 3, 1), (8, 16, 1, 7, 2), (3, 2, 1, 5, 4))


@dataclass(frozen=True)
class Axes:
    """The named dimensions of a problem: ``rows`` come before the ``columns`` dimension of the widest input."""

    rows: tuple[str, ...]
    columns: str | None
    variables: tuple[tuple[str, str], ...]  # dimension -> variable of generated code

    def variable(self, dim: str) -> str:
        """The variable of a dimension, or the number that it is."""
        return dict(self.variables).get(dim, dim)

    @property
    def all(self) -> tuple[str, ...]:
        """The dimensions, rows first."""
        return self.rows if self.columns is None else (*self.rows, self.columns)


def axes_of(problem: Problem) -> Axes:
    """Rows and columns: the columns are the last named dimension of the call input with the most dimensions."""
    calls = [spec for spec in problem.inputs if not spec.parameter] or list(problem.inputs)
    widest = max(calls, key=lambda spec: len(spec.dims))
    named = [dim for dim in widest.dims if not dim.isdigit()]
    high = [spec.high for spec in problem.inputs if isinstance(spec.high, str)]
    everything = tuple(dict.fromkeys([*problem.dimensions, *high]))
    columns = named[-1] if named else None
    return Axes(tuple(dim for dim in everything if dim != columns), columns, _variables(problem, everything))


def shape(spec: InputSpec, axes: Axes) -> tuple[str, ...]:
    """An input's sizes as expressions."""
    return tuple(axes.variable(dim) for dim in spec.dims)


def local(name: str) -> str:
    """The variable of an input, apart from what generated code uses itself."""
    return f"{name}_input" if name in TAKEN else name


def suite_sizes(axes: Axes, problem: Problem, graph: Graph) -> tuple[tuple[int, ...], ...]:
    """Sizes of the dimensions for tests, in the order of ``axes.all``; small enough for Triton's interpreter.

    Dimensions that the problem divides, such as a row that is halved, are multiples, and such as it was traced with
    alone as multiples of others are so here; the columns keep their sizes where they can.
    """
    scalars = {spec.name: spec.default for spec in problem.scalars} | dict(problem.workloads[0].scalars)
    factors = factors_of(graph, scalars)
    patterns = ROW_SIZES[:1] if len(axes.rows) == 1 else ROW_SIZES[1:]
    rows: list[tuple[int, ...]] = [patterns[i % len(patterns)] for i in range(len(axes.rows))]
    # One or two numbers that are normalised have no gradient but what rounding leaves.
    reduced = _reduced(graph)
    rows = [
        tuple(max(size, LEAST_WIDTH) for size in column) if dim in reduced else column
        for dim, column in zip(axes.rows, rows, strict=True)
    ]
    columns = [_column_sizes(problem, axes.columns)] if axes.columns is not None else []
    sizes = {
        dim: tuple(_multiple(size, factors.get(dim, 1)) for size in column)
        for dim, column in zip(axes.all, [*rows, *columns], strict=True)
    }
    for link in graph.traced:
        if link.of is not None and link.dimension == axes.columns:
            sizes[link.of] = tuple(size // link.step for size in sizes[link.dimension])
        elif link.of is not None:
            sizes[link.dimension] = tuple(size * link.step for size in sizes[link.of])
    return tuple(zip(*sizes.values(), strict=True)) or ((),)


def factors_of(graph: Graph, scalars: Mapping[str, object] | None = None) -> dict[str, int]:
    """The dimensions that the graph divides into whole parts, with the number of parts; ``scalars`` are those of the calls."""
    texts = [e.text for node in graph.nodes for e in (*node.meta.shape, *node.args) if isinstance(e, Expr)]
    factors: dict[str, int] = {}
    for dim, parts in re.findall(r"\b([A-Za-z_]\w*) // (\d+)", " ; ".join(texts)):
        factors[dim] = math.lcm(factors.get(dim, 1), max(int(parts), 1))
    for size in graph.traced:
        factors[size.dimension] = math.lcm(factors.get(size.dimension, 1), size.step)
    known = {name: value for name, value in (scalars or {}).items() if type(value) is int}
    for rule in graph.multiples:
        of = math.prod(int(text) if text.isdigit() else known.get(text, 1) for text in re.findall(r"\w+", rule.of))
        factors[rule.dimension] = math.lcm(factors.get(rule.dimension, 1), of)
    return factors


def _reduced(graph: Graph) -> set[str]:
    """The dimensions over which the outputs take sums and extremes."""
    shapes = {node.name: node.meta.shape for node in graph.nodes}
    needed, dims = set(graph.outputs), set[str]()
    for node in reversed(graph.nodes):
        if node.name in needed:
            needed.update(node.operands)
            if node.op in REDUCTIONS:
                shape, places = shapes[node.operands[0]], node.args[1]
                reduced = [shape[place] for place in (places if isinstance(places, tuple) else (places,))]  # type: ignore[index]
                dims |= {dim.text for dim in reduced if isinstance(dim, Expr)}
    return dims


def _column_sizes(problem: Problem, columns: str) -> tuple[int, ...]:
    """``COLUMN_SIZES`` for a problem as wide as its workloads; of narrow ones, such as heads of 64, parts of them."""
    widest = max(dict(workload.sizes)[columns] for workload in problem.workloads)
    parts = max(1, COLUMN_SIZES[0] // 2 ** (2 * widest - 1).bit_length())
    return tuple(max(size // parts, min(size, COLUMN_SIZES[-1])) for size in COLUMN_SIZES)


def _multiple(size: int, factor: int) -> int:
    return max(size - size % factor, factor)


def _variables(problem: Problem, dims: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    used = {local(name) for name in problem.parameters} | TAKEN
    chosen: list[tuple[str, str]] = []
    for dim in dims:
        wanted = MEANINGS.get(dim, dim)
        variable = next(
            v for v in (wanted, dim, *(f"{dim}_{n}" for n in range(2, 99))) if v not in used and v not in "lIO"
        )
        used.add(variable)
        chosen.append((dim, variable))
    return tuple(chosen)


MAKERS = {"ones": "torch.ones", "zeros": "torch.zeros", "uniform": "torch.rand"}
METHODS = {"softmax": ".softmax(dim=-1)", "log_softmax": ".log_softmax(dim=-1)"}


@dataclass(frozen=True)
class Creation:
    """A call that makes a tensor, and what is done with its result."""

    function: str
    arguments: tuple[str, ...]
    method: str = ""

    def source(self, head: str = "", tail: str = "", depth: int = 0) -> str:
        """It as source, with something before and after."""
        return call(head + self.function, self.arguments, self.method + tail, depth=depth)


def creation(spec: InputSpec, axes: Axes, options: tuple[str, ...] = ()) -> Creation:
    """The call that makes an input; ``options`` are its keyword arguments, such as ``device=device``."""
    sizes = shape(spec, axes)
    if spec.dtype == "bool" or spec.high is not None:
        high = "2" if spec.dtype == "bool" else axes.variable(str(spec.high))
        return Creation("torch.randint", (str(spec.low or 0), high, tuple_of(sizes), *options))
    method = METHODS.get(spec.init, "")
    return Creation(MAKERS.get(spec.init, "torch.randn"), (*(sizes or ("()",)), *options), method)


def assignments(specs: tuple[InputSpec, ...], axes: Axes, *, grad: bool = False, depth: int = 1) -> str:
    """One assignment an input, on ``device``, in ``dtype`` or its own dtype; with ``grad`` ready for a backward pass."""
    lines: list[str] = []
    for spec in specs:
        options = ("device=device", f"dtype={f'torch.{spec.dtype}' if spec.dtype else 'dtype'}")
        tail = ".requires_grad_(True)" if grad and spec.grad else ""
        lines.append(creation(spec, axes, options).source(f"{local(spec.name)} = ", tail, depth))
    return "\n".join(lines)


def initial(spec: InputSpec, axes: Axes) -> str:
    """The value with which a module's parameter starts."""
    return creation(spec, axes, (f"dtype=torch.{spec.dtype}",) if spec.dtype else ()).source()


# Functions whose dimension must be written, by the position of that argument when called as a function of torch.
DIMENSION_AT = {
    **dict.fromkeys(
        ("sum", "mean", "amax", "amin", "max", "min", "var", "std", "var_mean", "softmax", "log_softmax"), 1
    ),
    **dict.fromkeys(("softmin", "logsumexp", "unsqueeze", "size", "cat", "concat", "concatenate"), 1),
    **dict.fromkeys(("norm", "normalize", "vector_norm", "cosine_similarity", "chunk", "split", "tensor_split"), 2),
}
# Without a dimension these run over all elements; the others run over one that a rule of theirs picks.
OVER_ALL = frozenset({"sum", "mean", "amax", "amin", "max", "min", "var", "std", "var_mean", "norm", "vector_norm"})
FROM_THE_FRONT = frozenset(
    {
        "view",
        "reshape",
        "squeeze",
        "permute",
        "transpose",
        "movedim",
        "expand",
        "flatten",
        "unflatten",
        "T",
        "mT",
        "narrow",
    }
    | {"select", "unbind", "stack", "flip", "roll", "cumsum", "dim", "ndim", "stride", "numel", "repeat", "tile"}
    | {"batch_norm", "group_norm", "instance_norm", "local_response_norm", "cross_entropy", "nll_loss"}
)
MODULES = frozenset({"torch", "F", "functional", "nn", "special", "linalg"})


def counts_from_the_end(source: str, shared: frozenset[str]) -> bool:
    """Whether a problem's functions name no dimension from the front; ``shared`` are inputs without the leading one."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    nodes = [node for function in functions for statement in function.body for node in ast.walk(statement)]
    accounted = {id(part) for node in nodes for part in _accounted(node, shared)}
    return all(id(node) in accounted or _is_harmless(node) for node in nodes)


def _accounted(node: ast.AST, shared: frozenset[str]) -> list[ast.AST]:
    """The parts that what is around them makes harmless."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        return [node, node.value] if _is_from_end(node.slice) else []
    if isinstance(node, ast.Subscript):
        return [node] if _is_trailing_index(node.slice) or _name(node.value) in shared else []
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        return [node] if _name(node.value) in shared else []
    return []


def _is_harmless(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return False
    if isinstance(node, ast.Attribute):
        return node.attr != "shape" and node.attr not in FROM_THE_FRONT
    return not isinstance(node, ast.Call) or _call_is_harmless(node)


def _call_is_harmless(call: ast.Call) -> bool:
    name = _name(call.func)
    reduction = next((k.value for k in call.keywords if k.arg == "reduction"), None)
    if isinstance(reduction, ast.Constant) and reduction.value == "batchmean":
        return False
    if name not in DIMENSION_AT:
        return name not in FROM_THE_FRONT
    method = not (isinstance(call.func, ast.Attribute) and _name(call.func.value) in MODULES)
    place = DIMENSION_AT[name] - method
    named = [k.value for k in call.keywords if k.arg in {"dim", "axis", "dims"}]
    given = named or call.args[place : place + 1]
    return _is_from_end(given[0]) if given else name in OVER_ALL


def _is_from_end(node: ast.expr) -> bool:
    """Whether an index, a slice or a tuple of them is made of negative numbers."""
    if isinstance(node, ast.Tuple | ast.List):
        return all(_is_from_end(item) for item in node.elts)
    if isinstance(node, ast.Slice):
        return node.lower is not None and all(_is_from_end(n) for n in (node.lower, node.upper) if n is not None)
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)


def _is_trailing_index(index: ast.expr) -> bool:
    """``x[..., :half]`` takes of the last dimension only."""
    return isinstance(index, ast.Tuple) and isinstance(index.elts[0], ast.Constant) and index.elts[0].value is Ellipsis


def _name(node: ast.expr) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


# What acts on each element alone, whatever the rank.
POINTWISE = frozenset({"input", "cast", "full", "expand", "where", *UNARY_OPERATORS, *BINARY_OPERATORS})
# What moves no element and adds none: along the last dimensions it means the same at any rank.
MOVING = frozenset({"reshape", "slice", "cat"})
REDUCTIONS = frozenset({"sum", "amax", "amin"})


def leading_inputs(problem: Problem, graph: Graph) -> tuple[str, ...]:
    """The inputs that may have more leading dimensions, all of them the same; none where the problem may mean more by its own.

    These are the inputs that begin with the first dimension; the others must lack it, as a weight does.
    """
    first = max((spec.dims for spec in problem.inputs), key=len, default=())[:1]
    if not first or not first[0].isidentifier():
        return ()
    leading = [spec for spec in problem.inputs if spec.dims[:1] == first]
    shared = [spec for spec in problem.inputs if first[0] not in spec.dims]
    whole = len(leading) + len(shared) == len(problem.inputs) and not any(spec.parameter for spec in leading)
    if (
        not whole
        or any(spec.dims.count(first[0]) > 1 for spec in leading)
        or max(len(spec.dims) for spec in leading) < 2
    ):
        return ()
    nodes = {node.name: node for node in graph.nodes}
    reached = [nodes[name] for name in _reached(graph)]
    widest = tuple(dim for dim in max((spec.dims for spec in leading), key=len) if dim.isidentifier())
    if not all(_keeps_leading(node, nodes, widest) for node in reached):
        return ()
    free = counts_from_the_end(problem.source, frozenset(spec.name for spec in shared))
    return tuple(spec.name for spec in leading) if free else ()


def forward_operators(graph: Graph) -> set[str]:
    """The operators that the outputs depend on."""
    nodes = {node.name: node for node in graph.nodes}
    return {nodes[name].op for name in _reached(graph)}


def subtracts_a_sum(graph: Graph) -> bool:
    """Whether the forward pass takes a mean or another sum off a tensor, as a norm that centres its rows."""
    nodes = {node.name: node for node in graph.nodes}
    differences = [nodes[name] for name in _reached(graph) if nodes[name].op == "sub" and len(nodes[name].args) > 1]
    return any(_is_scaled_sum(node.args[1], nodes) for node in differences)


def _is_scaled_sum(argument: Arg, nodes: Mapping[str, Node]) -> bool:
    waiting = [argument.name] if isinstance(argument, NodeRef) else []
    while waiting:
        node = nodes.get(waiting.pop())
        if node is not None and node.op in {"sum", "mean"}:
            return True
        if node is not None and node.op in {"cast", "div", "expand", "mul", "reshape"}:
            waiting += node.operands
    return False


def _reached(graph: Graph) -> list[str]:
    nodes = {node.name: node for node in graph.nodes}
    reached, waiting = dict[str, None](), list(graph.outputs)
    while waiting:
        name = waiting.pop()
        if name in reached or name not in nodes:
            continue
        reached[name] = None
        waiting += nodes[name].operands
    return list(reached)


def _keeps_leading(node: Node, nodes: Mapping[str, Node], dims: tuple[str, ...]) -> bool:
    """Whether an operation leaves the first of the dimensions alone; a reduction may take all of them together."""
    for number in node.args:
        if isinstance(number, Expr) and _mentions(number, dims[0]) and not all(_mentions(number, dim) for dim in dims):
            return False
    operands = [nodes[operand].meta.shape for operand in node.operands if operand in nodes]
    if node.op not in REDUCTIONS | MOVING or not any(_mentions(dim, dims[0]) for shape in operands for dim in shape):
        return node.op in POINTWISE | REDUCTIONS | MOVING
    shape = operands[0]
    argument = node.args[1] if len(node.args) > 1 else None
    if node.op in REDUCTIONS:
        gone = argument if isinstance(argument, tuple) else ()
        return not gone or len(gone) == len(shape) or 0 not in gone
    if node.op == "reshape":
        ones = [[dim for dim in dims if dim != 1] for dims in (shape, node.meta.shape)]
        return ones[0] == ones[1] and shape[:1] == node.meta.shape[:1]
    return len(shape) > 1 and argument in {-1, len(shape) - 1}


def _mentions(dim: Dim, name: str) -> bool:
    return isinstance(dim, Expr) and name in re.findall(r"[A-Za-z_]\w*", dim.text)
