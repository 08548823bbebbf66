"""What the compiler reads of a captured graph: operators, symbolic sizes, well-formedness. Pure."""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

from gpu_runner.contracts import BINARY_OPERATORS, UNARY_OPERATORS, Problem, ScalarSpec, Workload
from gpu_runner.contracts.graph import Arg, Atom, Dim, Expr, Graph, Multiple, Node, NodeRef
from gpu_runner.contracts.reading import UNPARSABLE


class CannotCompileError(Exception):
    """The graph is beyond what the compiler expresses: ``sentence`` names ``operator`` or the shape."""

    def __init__(self, sentence: str, operator: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.operator = operator


UNARY = frozenset(UNARY_OPERATORS)
BINARY = frozenset(BINARY_OPERATORS) - {"atan2"}  # Triton has none
COMPARISONS = frozenset(["eq", "ne", "lt", "le", "gt", "ge"])
# What stays whole where its operands are whole.
WHOLE = frozenset(["add", "sub", "mul", "neg", "abs", "maximum", "minimum", "where"])
BOOLEAN = COMPARISONS | {"logical_and", "logical_or", "logical_not", "isnan"}
POINTWISE = UNARY | BINARY | {"where", "cast"}
REDUCTIONS = frozenset({"sum", "amax", "amin", "prod", "argmax"})
SCANS = frozenset({"cumsum", "cumprod"})
GATHERS = frozenset({"gather", "index_select"})
NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}
# Rounding and growth of error are worst in these, so that a plan names them.
PRECISION_SENSITIVE = (
    "exp",
    "exp2",
    "log",
    "log2",
    "log1p",
    "expm1",
    "rsqrt",
    "sqrt",
    "reciprocal",
    "pow",
    "tanh",
    "erf",
    "sigmoid",
)
# Products of powers of distinct primes of this size meet only where the sizes are the same in letters.
FIRST_STAND_IN = 10_007


def with_bounds(problem: Problem, graph: Graph, part: Problem, own: Graph) -> tuple[Problem, Graph]:
    """A part of a problem, with its graph, that raises where the whole's graph is not valid; other parts then need not."""
    bounded = {bound.scalar for bound in graph.bounds}
    added = tuple(s for s in problem.scalars if s.name in bounded and s not in part.scalars)
    parameters = (*part.parameters, *(scalar.name for scalar in added))
    part = replace(part, scalars=(*part.scalars, *added), parameters=parameters)
    return part, replace(own, bounds=graph.bounds)


def with_ratios(graph: Graph) -> Graph:
    """The graph with a dimension that was traced as a part of another one alone, as the halves of a row, written as that part."""
    parts = {size.of: f"{size.dimension} // {size.step}" for size in graph.traced if size.of is not None}
    bracketed = {name: f"({part})" for name, part in parts.items()}
    if not parts:
        return graph

    def atom(one: Atom) -> Atom:
        return Expr(parts.get(one.text) or renamed(one.text, bracketed)) if isinstance(one, Expr) else one

    def argument(one: Arg) -> Arg:
        return tuple(map(atom, one)) if isinstance(one, tuple) else atom(one)

    def written(node: Node) -> Node:
        shape = tuple(cast(Dim, atom(dim)) for dim in node.meta.shape)
        named = tuple((name, argument(value)) for name, value in node.kwargs)
        return replace(node, args=tuple(map(argument, node.args)), kwargs=named, meta=replace(node.meta, shape=shape))

    return replace(graph, nodes=tuple(map(written, graph.nodes)))


def integers_of(argument: Arg) -> tuple[int, ...]:
    """The whole numbers of an argument, which is one or a tuple."""
    items = argument if isinstance(argument, tuple) else (argument,)
    return tuple(item for item in items if isinstance(item, int))


def texts_of(arguments: tuple[Arg, ...]) -> list[str]:
    """The expressions in arguments, as text."""
    texts: list[str] = []
    for argument in arguments:
        if isinstance(argument, Expr):
            texts.append(argument.text)
        elif isinstance(argument, tuple):
            texts += texts_of(argument)
    return texts


@functools.lru_cache(maxsize=4096)  # a series that is taken apart asks hundreds of thousands of times for a few texts
def names_in(text: str) -> tuple[str, ...]:
    """The names of an expression in the order in which they are written.

    Raises:
        CannotCompileError: it is not arithmetic.
    """
    try:
        tree = ast.parse(text, mode="eval")
    except UNPARSABLE as error:
        raise CannotCompileError(f"the size `{text}` is not arithmetic") from error
    names: list[str] = []
    allowed = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Name, ast.Constant, ast.Load)
    for node in ast.walk(tree):
        if not isinstance(node, allowed):
            raise CannotCompileError(f"the size `{text}` is not arithmetic")
        if isinstance(node, ast.Name) and node.id not in names:
            names.append(node.id)
    return tuple(sorted(names, key=text.find))


def renamed(text: str, table: dict[str, str]) -> str:
    """Write arithmetic with other names."""
    return re.sub(r"[A-Za-z_]\w*", lambda match: table.get(match.group(), match.group()), text)


def _next_prime(number: int) -> int:
    number += 1
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number += 1
    return number


@dataclass(frozen=True)
class Sizes:
    """A number for each dimension name, and for scalars that divide them: a prime, or a multiple of one."""

    stand_ins: dict[str, int]
    scalars: frozenset[str] = frozenset()

    @staticmethod
    def of(dimensions: tuple[str, ...], rules: tuple[Multiple, ...] = ()) -> Sizes:
        """Choose the stand-ins; the rules hold for them."""
        scalars = tuple(dict.fromkeys(name for rule in rules for name in rule.scalars))
        table: dict[str, int] = {}
        prime = FIRST_STAND_IN
        for name in (*dimensions, *scalars):
            table[name] = prime
            prime = _next_prime(prime)
        given = {name: table[name] for name in scalars}
        for rule in rules:
            table[rule.dimension] *= int(evaluate(Expr(rule.of), given))
        return Sizes(table, frozenset(scalars))

    @staticmethod
    def divisible(dimensions: tuple[str, ...], graph: Graph) -> Sizes:
        """Choose stand-ins that every number divides by which the sizes of a graph divide."""
        dims: Iterable[Dim] = (dim for node in graph.nodes for dim in node.meta.shape)
        whole = {int(n) for dim in dims if isinstance(dim, Expr) for n in re.findall(r"// (\d{1,4})\b", dim.text)}
        return Sizes.of(dimensions, graph.multiples).times(math.lcm(*(n for n in whole if n > 0)))

    def times(self, step: int) -> Sizes:
        """Stand-ins for dimensions that are multiples of a number."""
        table = {name: size if name in self.scalars else size * step for name, size in self.stand_ins.items()}
        return Sizes(table, self.scalars)

    def value(self, dim: Dim) -> int:
        """The number for a dimension.

        Raises:
            CannotCompileError: it is not whole, or names something that is no dimension.
        """
        if isinstance(dim, int):
            return dim
        value = evaluate(dim, self.stand_ins)
        if isinstance(value, float) and value != int(value):
            raise CannotCompileError(f"the size `{dim.text}` is not a whole number")
        return int(value)


def numbers_of(problem: Problem, workload: Workload) -> dict[str, int]:
    """The sizes and the whole scalars of a workload by name."""
    scalars = {spec.name: spec.default for spec in problem.scalars} | dict(workload.scalars)
    return {name: value for name, value in scalars.items() if type(value) is int} | dict(workload.sizes)


def evaluate(expression: Expr, values: dict[str, int]) -> float | int:
    """Compute arithmetic over known names.

    Raises:
        CannotCompileError: a name is unknown, or it is not arithmetic.
    """
    names_in(expression.text)
    return _evaluate(ast.parse(expression.text, mode="eval").body, expression.text, values)


def _evaluate(node: ast.expr, text: str, values: dict[str, int]) -> float | int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.Name) and node.id in values:
        return values[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand, text, values)
    if isinstance(node, ast.BinOp):
        left, right = _evaluate(node.left, text, values), _evaluate(node.right, text, values)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.FloorDiv) and right:
            return left // right
        if isinstance(node.op, ast.Div) and right:
            return left / right
    raise CannotCompileError(f"the size `{text}` cannot be read")


# How many arguments an operator has at least and at most; of operators that are not here the compiler says that it lacks them.
ARITIES = {
    **dict.fromkeys(UNARY | {"cast", "reshape", "expand"}, (1, 1)),
    **dict.fromkeys(BINARY, (2, 2)),
    **dict.fromkeys(REDUCTIONS, (1, 3)),
    **dict.fromkeys(GATHERS, (3, 3)),
    **dict.fromkeys(SCANS, (3, 3)),
    "where": (3, 3),
    "arange": (1, 1),
    "full": (1, 1),
    "permute": (2, 2),
    "slice": (2, 5),
    "cat": (2, 2),
    "matmul": (2, 2),
    "windows": (9, 9),
    "input": (0, 0),
    "upstream": (0, 0),
}


def require_well_formed(problem: Problem, graph: Graph) -> None:
    """Look at every name, argument and dimension that the compiler follows.

    Raises:
        CannotCompileError: one of them leads nowhere.
    """
    known: dict[str, Node] = {}
    for node in graph.nodes:
        _require(node.name not in known, f"two nodes of the graph have the name `{node.name}`")
        _require_node(node, known)
        known[node.name] = node
    given = tuple(spec.name for spec in problem.inputs)
    _require(set(graph.inputs) == set(given), "the graph's inputs are not the problem's")
    _require(all(known[name].op == "input" for name in given if name in known), "an input of the graph is computed")
    ranks = {spec.name: len(spec.dims) for spec in problem.inputs}
    for name in (n for n in given if n in known):
        _require(len(known[name].meta.shape) == ranks[name], f"`{name}` has another rank than the problem says")
    for node in graph.nodes:
        handed = {"input": given, "upstream": graph.upstream}.get(node.op, (node.name,))
        _require(node.name in handed, f"`{node.name}` is handed to the graph by nobody", node.op)
    _require(bool(graph.outputs), "the graph has no output")
    _require(len(graph.upstream) == len(graph.outputs), "the graph names more or fewer upstream gradients than outputs")
    gradients = dict(graph.gradients)
    _require(set(gradients) <= set(given), "the graph has the gradient of something that is no input")
    for wanted in (*given, *graph.outputs, *graph.upstream, *gradients.values()):
        _require(wanted is None or wanted in known, f"the graph lacks the node `{wanted}`, which it names")
    parameters = {*given, *(spec.name for spec in problem.scalars)}
    _require(set(problem.parameters) <= parameters, "a parameter of the reference is neither an input nor a scalar")
    for spec in problem.scalars:
        _require_one_function(problem, graph, spec)
    free = any(spec.dtype is None for spec in problem.inputs)
    # A step between others may have float32 alone, in and out.
    known_outputs = not graph.gradients and bool(graph.output_dtypes) and "bfloat16" not in graph.output_dtypes
    _require(free or known_outputs, "every input has a dtype of its own, so that no dtype follows from the call")


def _require_node(node: Node, known: dict[str, Node]) -> None:
    operator = node.op
    _require(
        node.meta.dtype.isidentifier(), f"`{operator}` has the dtype `{node.meta.dtype}`, which torch has not", operator
    )
    for operand in node.operands:
        _require(operand in known, f"`{operator}` takes `{operand}`, which nothing computes before", operator)
    if operator not in ARITIES:
        return
    least, most = ARITIES[operator]
    _require(least <= len(node.args) <= most, f"`{operator}` has {len(node.args)} arguments", operator)
    for dim in node.meta.shape:
        whole = isinstance(dim, int) and not isinstance(dim, bool) and dim >= 1
        _require(whole or isinstance(dim, Expr), f"`{operator}` gives a dimension of the size {dim!r}", operator)
    if operator == "cat":
        pieces = node.args[0] if isinstance(node.args[0], tuple) else ()
        whole = bool(pieces) and all(isinstance(piece, NodeRef) for piece in pieces)
        _require(whole and bool(node.meta.shape), "`cat` joins something that is no tensor", operator)
    if operator in GATHERS:
        _require(len(node.operands) == 2, f"`{operator}` looks up in something that is no tensor", operator)
    if operator == "matmul":
        ranks = [len(known[operand].meta.shape) for operand in node.operands]
        _require(len(ranks) == 2 and min(ranks) > 1, "`matmul` multiplies something that is no matrix", operator)
    if operator == "windows":
        _require_windows(node, [len(known[operand].meta.shape) for operand in node.operands])
    if operator == "arange":
        _require(len(node.meta.shape) == 1, "`arange` has more than one dimension", operator)
    if operator in REDUCTIONS | GATHERS | SCANS | {"reshape", "expand", "permute", "slice"}:
        _require(isinstance(node.args[0], NodeRef), f"`{operator}` moves something that is no tensor", operator)
        _require_dimensions(node, len(known[node.operands[0]].meta.shape))


def _whole_numbers(values: Arg) -> tuple[int, ...]:
    """A tuple of numbers, empty where it is none."""
    numbers = tuple(v for v in values if isinstance(v, int)) if isinstance(values, tuple) else ()
    return numbers if isinstance(values, tuple) and len(numbers) == len(values) else ()


def _require_windows(node: Node, ranks: list[int]) -> None:
    ends = node.args[7]
    # None where the places do not follow from the size of the tensor, but from that of another.
    ended = tuple(0 if end is None else end for end in ends) if isinstance(ends, tuple) else ends
    fixed = [whole for values in (*node.args[2:7], ended) if (whole := _whole_numbers(values))]
    given = isinstance(node.args[0], NodeRef) and (node.args[1] is None or isinstance(node.args[1], NodeRef))
    known = len(fixed) == 6 and len({len(values) for values in fixed}) == 1 and isinstance(node.args[8], bool)
    sentence = "the windows of a convolution or a pool have sizes, steps or padding that are no fixed numbers"
    _require(given and known, sentence, "windows")
    taps, steps, _, _, divisors, _ = fixed
    count = len(taps)
    _require(0 < count <= ranks[0] and all(n > 0 for n in (*taps, *steps, *divisors)), sentence, "windows")
    _require(len(node.meta.shape) == ranks[0] + count and min(ranks) >= count, sentence, "windows")
    _require(node.meta.shape[-count:] == taps, sentence, "windows")


def _require_dimensions(node: Node, rank: int) -> None:
    operator = node.op
    if operator == "expand":
        _require(rank <= len(node.meta.shape), "`expand` drops a dimension", operator)
    over_all = operator in REDUCTIONS and (len(node.args) < 2 or node.args[1] is None)
    if operator in {"reshape", "expand"} or over_all:
        return
    argument = node.args[1]
    dims = argument if isinstance(argument, tuple) else (argument,)
    single = operator not in GATHERS | SCANS | {"slice"} or len(dims) == 1
    kept = operator != "slice" or len(node.meta.shape) == rank
    _require(single and kept, f"`{operator}` changes the rank or names more than one dimension", operator)
    for dim in dims:
        inside = isinstance(dim, int) and (-rank <= dim < rank or (rank == 0 and dim in {0, -1}))
        _require(inside, f"`{operator}` names the dimension {dim!r} of a tensor of rank {rank}", operator)
    if operator == "permute":
        counted = sorted(dim % rank for dim in dims if isinstance(dim, int) and rank)
        _require(counted == list(range(rank)), "`permute` does not name each dimension once", operator)


def _require(holds: bool, sentence: str, operator: str | None = None) -> None:
    if not holds:
        raise CannotCompileError(sentence, operator)


def _require_one_function(problem: Problem, graph: Graph, spec: ScalarSpec) -> None:
    """Every workload's value of a scalar is one for which the graph is valid."""
    values = problem.values_of(spec)
    if spec.name in graph.specialised and len(values) > 1:
        texts = " and ".join(f"`{spec.name} = {value!r}`" for value in values[:2])
        where = _line_of(problem.source, spec.name)
        raise CannotCompileError(f"it is traced for one value of a scalar, and WORKLOADS have {texts} ({where})")
    for bound in graph.bounds:
        numbers = [v for v in values if isinstance(v, int | float)] if bound.scalar == spec.name else []
        if not all(map(bound.holds, numbers)):
            where = _line_of(problem.source, spec.name)
            text = f"the reference computes something else where not `{bound.text(spec.name)}`, as WORKLOADS have it"
            raise CannotCompileError(f"{text} ({where})")


def _line_of(source: str, parameter: str) -> str:
    """Where the reference names a parameter."""
    found = (n.lineno for n in ast.walk(ast.parse(source)) if isinstance(n, ast.arg) and n.arg == parameter)
    return f"line {next(found, 1)}"
