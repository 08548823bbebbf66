"""Products of what is computed from other products: their axes, and which columns a mask leaves to each row. Pure.

A program has rows of its own, ``rows``, and goes through the other dimension of the scores, ``inner``, block by block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpu_runner.contracts import Problem
from gpu_runner.contracts.graph import Graph, Node, NodeRef
from workers.authors.compiler.algebra import simplified
from workers.authors.compiler.attention import CORRECTED, HIGHEST, LOG2E, LOGARITHM, VIEWS, logsumexp_of, softmax_of
from workers.authors.compiler.axes import Shape, infer_axes, reduced_dimensions
from workers.authors.compiler.domain import FULL, ROW, SCALAR, Domain, Space, epilogue, nodes_behind
from workers.authors.compiler.graph import NEGATED, CannotCompileError, Sizes
from workers.authors.compiler.lowering import Lowering
from workers.authors.compiler.values import TileValue, ValueNumbering, rewritten, topological

MOST_FEATURES = 256  # of a row of an operand, which a program holds whole
Axes = tuple[int, ...]
# What a block of scores may be computed by.
_LEAVES = frozenset({"load", "const", "scalar", "row", "column", "dot"})
_REFUSED = frozenset({"over_cols", "over_rows", "scan", "pick", "cat", "rounded"})


@dataclass(frozen=True)
class Tensor:
    """An operand: an input whose axes are some of the batch's, those of a side, and its features."""

    node: str
    features: Axes


@dataclass(frozen=True)
class InnerProduct:
    """A product of whole rows of two tensors, one of the program's rows and one of the inner ones."""

    rows: Tensor
    inner: Tensor


@dataclass(frozen=True)
class OuterProduct:
    """A product over the inner rows. ``left`` is what is multiplied, or the scores in bits whose softmax is."""

    left: TileValue
    right: Tensor
    formula: TileValue  # what is multiplied, or whose softmax is


@dataclass(frozen=True)
class Chained:
    """The products of a program whose results never leave the chip, and those that are stored.

    ``domain`` is the scores' space; ``summed`` are axes of the batch over which results are added up.
    """

    batch: Axes
    summed: Axes
    rows: Axes
    inner: Axes
    shapes: Mapping[str, Shape]
    domain: Domain
    is_softmax: bool
    is_safe: bool  # a row of which a mask leaves nothing is zero, not NaN
    scores: Mapping[str, InnerProduct]  # by their nodes
    results: Mapping[str, OuterProduct]

    @property
    def operands(self) -> list[TileValue]:
        """A load of each operand."""
        tensors = [t for s in self.scores.values() for t in (s.rows, s.inner)] + [
            r.right for r in self.results.values()
        ]
        numbering = ValueNumbering()
        return [numbering.load(node, FULL) for node in dict.fromkeys(tensor.node for tensor in tensors)]


def is_chained(graph: Graph) -> bool:
    """Whether a graph without gradients multiplies what other products give."""
    return sum(node.op == "matmul" for node in graph.nodes) > 1


@dataclass(frozen=True)
class StoredValue:
    """What a kernel stores: a result with what follows from it, or a number of each row."""

    node: str
    value: TileValue
    domain: Domain


def find_chained(problem: Problem, graph: Graph) -> tuple[Chained, list[StoredValue]]:
    """The products of a graph, and its outputs.

    Raises:
        CannotCompileError: they have no rows, or no inner dimension, in common.
    """
    shapes, unifier = infer_axes(graph, Sizes.divisible(problem.dimensions, graph))
    sizes = {unifier.find(axis): unifier.size[unifier.find(axis)] for axis in range(len(unifier.parents))}
    nodes = {node.name: node for node in graph.nodes}
    numbers = {name: score for name in graph.outputs if (score := logsumexp_of(nodes, name)) is not None}
    corrected = {name: nodes[name].operands for name in graph.outputs if name.endswith(CORRECTED)}
    outputs = tuple(name for name in graph.outputs if name not in numbers | corrected)
    outer = [_outer(graph, node, shapes) for node in epilogue(replace(graph, outputs=outputs)) if node.op == "matmul"]
    if len({(one.batch, one.rows, one.inner) for one in outer}) != 1:
        raise _refused("have different rows")
    batch, rows, inner = outer[0].batch, outer[0].rows, outer[0].inner
    cols = {one.node: one.cols for one in outer}
    _require_apart(batch, rows, inner, cols.values())
    base = Domain((*batch, *rows), inner, sizes, shapes, numbered=rows)
    softmaxes = {one.node: softmax_of(nodes, _viewed(nodes, one.left)) for one in outer}
    is_softmax = any(softmaxes.values())
    is_safe = is_softmax and nodes[_viewed(nodes, outer[0].left)].op == "where"
    if (is_softmax and len(outer) > 1) or set(numbers.values()) - set(softmaxes.values()):
        raise _refused("have several softmaxes")
    ends = {one.node: softmaxes[one.node] or one.left for one in outer}
    left = {name: (nodes[total].operands[0], delta) for name, (delta, total) in corrected.items()}
    lowering = _lowered(problem, graph, (*ends.values(), *(node for pair in left.values() for node in pair)), base)
    shaped, bits = Scores(lowering.numbering), lowering.numbering.const(LOG2E if is_softmax else 1.0)
    values = {n: shaped.fast(lowering.numbering.pointwise("mul", bits, lowering.values[e])) for n, e in ends.items()}
    rests = {name: tuple(shaped.fast(lowering.values[node]) for node in pair) for name, pair in left.items()}
    _require_elementwise([*values.values(), *(value for pair in rests.values() for value in pair)])
    scores = {
        str(v.datum): _inner(str(v.datum), nodes, shapes, (batch, rows, inner))
        for v in topological(values.values())
        if v.op == "dot"
    }
    results = {
        one.node: OuterProduct(
            values[one.node],
            _tensor(one.right, nodes, shapes, (batch, inner), one.cols),
            lowering.values[ends[one.node]] if is_softmax else values[one.node],
        )
        for one in outer
    }
    stored = [_stored(problem, graph, name, results, cols, base) for name in outputs]
    summed = {tuple(axis for axis in base.row_axes if axis not in one.domain.row_axes) for one in stored}
    if len(summed) > 1 or (is_softmax and any(summed)):
        raise _refused("are summed over different dimensions")
    for place, name in enumerate(graph.outputs):
        if name in numbers:
            value = lowering.numbering.value("logsumexp", (next(iter(values.values())),), name, ROW)
            stored.insert(place, StoredValue(name, value, base))
        elif name in rests:
            stored.insert(place, StoredValue(name, lowering.numbering.value("corrected", rests[name], name, ROW), base))
    chained = Chained(batch, summed.pop(), rows, inner, shapes, base, is_softmax, is_safe, scores, results)
    _require_narrow(chained)
    return chained, stored


@dataclass(frozen=True)
class _Outer:
    """A product, the operand that other products are in, the other one, and its axes."""

    node: str
    left: str
    right: str
    batch: Axes
    rows: Axes
    inner: Axes
    cols: Axes


def _outer(graph: Graph, node: Node, shapes: Mapping[str, Shape]) -> _Outer:
    sides = node.operands
    deep = [any(n.op == "matmul" for n in nodes_behind(graph, [side])) for side in sides]
    if deep[0] == deep[1]:
        raise _refused("meet each other")
    shape = shapes[node.name]
    batch = tuple(axis for dim in shape[:-2] for axis in dim)
    left, right = sides if deep[0] else sides[::-1]
    rows, cols = (shape[-2], shape[-1]) if deep[0] else (shape[-1], shape[-2])
    return _Outer(node.name, left, right, batch, rows, shapes[sides[0]][-1], cols)


def _require_apart(batch: Axes, rows: Axes, inner: Axes, cols: Iterable[Axes]) -> None:
    if not rows or not inner or not all(cols):
        raise _refused("are of a matrix that has one row or one column")
    for own in cols:
        axes = (*batch, *rows, *inner, *own)
        if len({*axes}) != len(axes):
            raise _refused("have the same dimension twice")


def _require_narrow(chained: Chained) -> None:
    for tensor in _tensors(chained):
        known = [size for axis in tensor.features if isinstance(size := chained.domain.sizes[axis], int)]
        if math.prod(known) > MOST_FEATURES:
            raise _refused(f"are of rows of more than {MOST_FEATURES} numbers")


def _lowered(problem: Problem, graph: Graph, ends: tuple[str, ...], domain: Domain) -> Lowering:
    """The values of nodes, from products on."""
    nodes = tuple(nodes_behind(graph, ends, beyond_products=False))
    part = replace(graph, nodes=nodes, outputs=ends, upstream=(None,) * len(ends), rounded=())
    return Lowering(problem, part, domain)


def _tensors(chained: Chained) -> list[Tensor]:
    inner = [tensor for score in chained.scores.values() for tensor in (score.rows, score.inner)]
    return inner + [result.right for result in chained.results.values()]


def _refused(why: str) -> CannotCompileError:
    return CannotCompileError(f"products of products {why}", "matmul")


def _viewed(nodes: Mapping[str, Node], name: str) -> str:
    while nodes[name].op in VIEWS:
        name = nodes[name].operands[0]
    return name


def _inner(
    name: str, nodes: Mapping[str, Node], shapes: Mapping[str, Shape], axes: tuple[Axes, Axes, Axes]
) -> InnerProduct:
    batch, rows, inner = axes
    sides = nodes[name].operands
    features, own = shapes[sides[0]][-1], (shapes[sides[0]][-2], shapes[sides[1]][-1])
    if own == (rows, inner):
        first, second = sides
    elif own == (inner, rows):
        second, first = sides
    else:
        raise _refused("have other rows and columns than the scores")
    if not features or {*features} & {*rows, *inner, *batch}:
        raise _refused("are summed over one of their own dimensions")
    return InnerProduct(
        _tensor(first, nodes, shapes, (batch, rows), features), _tensor(second, nodes, shapes, (batch, inner), features)
    )


def _tensor(
    name: str, nodes: Mapping[str, Node], shapes: Mapping[str, Shape], sides: tuple[Axes, Axes], features: Axes
) -> Tensor:
    batch, own = sides
    node = _viewed(nodes, name)
    axes = [axis for dim in shapes[node] for axis in dim]
    if nodes[node].op != "input" or not {*own, *features} <= {*axes} <= {*batch, *own, *features}:
        raise _refused("are of tensors that are computed")
    return Tensor(node, features)


def _require_elementwise(values: Iterable[TileValue]) -> None:
    for value in topological(values):
        if value.op in _REFUSED or (not value.args and value.op not in _LEAVES):
            raise _refused(f"are followed by `{value.op}`")


def _stored(
    problem: Problem,
    graph: Graph,
    name: str,
    results: Mapping[str, OuterProduct],
    cols: Mapping[str, Axes],
    base: Domain,
) -> StoredValue:
    """An output with its products, whose operands their values have."""
    around = nodes_behind(graph, [name], beyond_products=False)
    own = [node.name for node in around if node.op == "matmul"]
    if len({cols[node] for node in own}) != 1:
        raise _refused("meet others of different columns")
    gone = {axis for node in around if node.op == "sum" for axis in _summed_axes(node, base)}
    if gone - ({*base.row_axes} - {*base.numbered}):
        raise _refused("are summed over their rows or columns")
    kept = tuple(axis for axis in base.row_axes if axis not in gone)
    domain = replace(base, row_axes=kept, col_axes=cols[own[0]])
    # The kernel adds up over heads what a product gives, so that a sum over them has the product's own value.
    around = [replace(node, op="reshape") if node.op == "sum" else node for node in around]
    linear = {"matmul", "reshape", "permute", "expand", "cast"}
    whole = {node.name for node in around if node.meta.shape}
    if gone and any(node.name in whole and node.op not in linear and not _is_scaled(node, whole) for node in around):
        raise _refused("are summed after something else")
    part = replace(graph, nodes=tuple(around), outputs=(name,), upstream=(None,), rounded=())
    lowering = Lowering(problem, part, domain)

    def with_operand(value: TileValue) -> TileValue | None:
        if value.op != "dot":
            return None
        return lowering.numbering.value("dot", (results[str(value.datum)].left,), value.datum, FULL)

    (value,) = rewritten(lowering.numbering, [lowering.values[name]], with_operand)
    if {axis for dim in base.shapes[name] for axis in dim} != {
        *domain.row_axes,
        *domain.col_axes,
    } or value.space != FULL:
        raise _refused("are stored in part")
    outside = [v for v in _outside(value) if v.op in _REFUSED or v.op in {"row", "column"}]
    if outside:
        raise _refused(f"are followed by `{outside[0].op}`")
    return StoredValue(name, value, domain)


def _summed_axes(node: Node, domain: Domain) -> Axes:
    shape = domain.shapes[node.operands[0]]
    return tuple(axis for dim in reduced_dimensions(node, len(shape)) for axis in shape[dim])


def _is_scaled(node: Node, whole: set[str]) -> bool:
    """Whether a node is a tensor times a number, or divided by one."""
    tensors = [isinstance(arg, NodeRef) and arg.name in whole for arg in node.args]
    return tensors == [True, False] if node.op == "div" else node.op == "mul" and sum(tensors) == 1


def _outside(value: TileValue) -> list[TileValue]:
    """What is computed from products that are done."""
    done: dict[TileValue, None] = {}
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if one not in done:
            done[one] = None
            waiting += one.args if one.op != "dot" else ()
    return list(done)


class Scores:
    """Rewrites scores so that masks are outermost and no element is divided by a number.

    The largest score is subtracted before what is left is multiplied: a product that is added in one step is not rounded, and of
    large scores would differ from the largest, which is.
    """

    def __init__(self, numbering: ValueNumbering) -> None:
        self._numbering = numbering
        self._done: dict[TileValue, TileValue] = {}

    def fast(self, value: TileValue) -> TileValue:
        """The same scores."""
        if value not in self._done:
            self._done[value] = self._fast(value)
        return self._done[value]

    def _fast(self, value: TileValue) -> TileValue:
        if not value.args:
            return value
        numbering, args = self._numbering, tuple(self.fast(arg) for arg in value.args)
        fixed = [arg.space == SCALAR for arg in args]
        if value.op == "div" and fixed == [False, True]:
            return self._times(simplified(numbering, "div", numbering.const(1.0), args[1]), args[0])
        if value.op == "mul" and fixed in ([True, False], [False, True]):
            return self._times(args[fixed.index(True)], args[fixed.index(False)])
        if value.op == "sub" and HIGHEST in str(args[1].datum):  # which forward keeps without the factor of the scores
            factor, core = with_factor(numbering, args[0])
            return self._times(factor, self._below(core, args[1]))
        if value.op == "sub" and args[0].op == args[1].op == "mul":
            for factor in args[0].args:
                if factor in args[1].args and factor.number is None:
                    rest = [next((a for a in product.args if a is not factor), factor) for product in args]
                    return numbering.pointwise("mul", factor, simplified(numbering, "sub", *rest))
        if value.op == "add":
            for one, other in (args, args[::-1]):
                if _is_mask(other):
                    kept, masked = (one, other.args[2]) if other.args[1].number == 0 else (other.args[1], one)
                    return simplified(numbering, "where", other.args[0], kept, masked)
        return _folded(numbering, value, list(args))

    def _below(self, value: TileValue, top: TileValue) -> TileValue:
        """A value less a number of its row, in which masks stay outermost."""
        if value.op == "where" and any(_is_infinite(arm) for arm in value.args[1:]):
            arms = (arm if _is_infinite(arm) else self._below(arm, top) for arm in value.args[1:])
            return self._numbering.pointwise("where", value.args[0], *arms)
        return self._numbering.pointwise("sub", value, top)

    def _times(self, factor: TileValue, value: TileValue) -> TileValue:
        """A value times a number of the launch, which is kept outermost but for masks."""
        numbering = self._numbering
        if _is_infinite(value) and _is_positive(factor):
            return value
        if value.op == "where" and any(_is_infinite(arm) for arm in value.args[1:]) and _is_positive(factor):
            return numbering.pointwise("where", value.args[0], *(self._times(factor, arm) for arm in value.args[1:]))
        if value.op == "mul" and value.args[0].space == SCALAR and value.space != SCALAR:
            return self._times(simplified(numbering, "mul", factor, value.args[0]), value.args[1])
        return value if factor.number == 1 else numbering.pointwise("mul", factor, value)


def _is_positive(value: TileValue) -> bool:
    if value.op in {"mul", "div"}:
        return all(_is_positive(arg) for arg in value.args)
    return value.op == "sqrt" or (value.number is not None and value.number > 0)


def _joined(args: Iterable[TileValue]) -> Space:
    space = SCALAR
    for arg in args:
        space = space.joined(arg.space)
    return space


def _is_infinite(value: TileValue) -> bool:
    return value.number == -float("inf")


def _is_mask(value: TileValue) -> bool:
    arms = [arm.number for arm in value.args[1:]]
    return value.op == "where" and sorted(map(str, arms)) in (["-inf", "0"], ["-inf", "0.0"])


def with_factor(numbering: ValueNumbering, value: TileValue) -> tuple[TileValue, TileValue]:
    """A positive number of the launch that a value is multiplied by, and the rest; masks stay what they are."""
    if value.op == "where":
        fixed = [arm.number == 0 or _is_infinite(arm) for arm in value.args[1:]]
        if sum(fixed) == 1:
            place = 1 + fixed.index(False)
            factor, core = with_factor(numbering, value.args[place])
            arms = (core, value.args[2]) if place == 1 else (value.args[1], core)
            return factor, numbering.pointwise("where", value.args[0], *arms)
    if value.op != "mul" or value.args[0].space != SCALAR or not _is_positive(value.args[0]):
        return numbering.const(1.0), value
    factor, core = with_factor(numbering, value.args[1])
    return simplified(numbering, "mul", value.args[0], factor), core


@dataclass(frozen=True)
class InnerRows:
    """Which inner rows a program's rows meet: from ``row + least`` on, up to ``row + most``; ``known`` comparisons say so."""

    least: int | None
    most: int | None
    known: frozenset[TileValue]


NO_BOUNDS = InnerRows(None, None, frozenset())


def bounds_of(score: TileValue) -> InnerRows:
    """What masks leave of scores: where they say minus infinity, nothing is met."""
    least: list[int] = []
    most: list[int] = []
    known: list[TileValue] = []
    while score.op == "where" and any(_is_infinite(arm) for arm in score.args[1:]):
        holds = _is_infinite(score.args[2])
        for comparison, is_true in _conjuncts(score.args[0], holds):
            bound = _bound(comparison, is_true)
            if bound is not None:
                (least if bound[0] else most).append(bound[1])
                known.append(comparison)
        score = score.args[1 if holds else 2]
    return InnerRows(max(least, default=None), min(most, default=None), frozenset(known))


def _conjuncts(condition: TileValue, holds: bool) -> list[tuple[TileValue, bool]]:
    """Comparisons, and whether each holds, all of which follow."""
    if condition.op == "logical_not":
        return _conjuncts(condition.args[0], not holds)
    if condition.op == ("logical_and" if holds else "logical_or"):
        return [pair for arg in condition.args for pair in _conjuncts(arg, holds)]
    if condition.op in {"eq", "ne"} and condition.args[0].op == "where" and condition.args[1].number is not None:
        chosen = condition.args[0]
        if all(arm.number is not None for arm in chosen.args[1:]):
            same = [(arm.number == condition.args[1].number) == (condition.op == "eq") for arm in chosen.args[1:]]
            return _conjuncts(chosen.args[0], holds == same[0]) if same[0] != same[1] else []
    return [(condition, holds)]


def _bound(comparison: TileValue, holds: bool) -> tuple[bool, int] | None:
    """Whether a comparison says where the inner rows begin, rather than end, and the distance from the row."""
    if comparison.op not in {"le", "lt", "ge", "gt"}:
        return None
    op = comparison.op if holds else NEGATED[comparison.op]
    left, right = (_affine(arg) for arg in comparison.args)
    if left is None or right is None:
        return None
    inner, row, number = (a - b for a, b in zip(left, right, strict=True))
    if op in {"ge", "gt"}:
        inner, row, number = -inner, -row, -number
    number += op in {"lt", "gt"}
    if (inner, row) == (1, -1):
        return False, -number
    return (True, number) if (inner, row) == (-1, 1) else None


def _affine(value: TileValue) -> tuple[int, int, int] | None:
    """How often the inner row's number and the row's are in a whole number, and what is added."""
    if value.op == "column":
        return 1, 0, 0
    if value.op == "row":
        return 0, 1, 0
    if value.number is not None:
        return (0, 0, int(value.number)) if float(value.number).is_integer() else None
    if value.op == "float":
        return _affine(value.args[0])
    if value.op == "neg":
        inner = _affine(value.args[0])
        return None if inner is None else (-inner[0], -inner[1], -inner[2])
    if value.op not in {"add", "sub"}:
        return None
    left, right = (_affine(arg) for arg in value.args)
    if left is None or right is None:
        return None
    sign = 1 if value.op == "add" else -1
    return left[0] + sign * right[0], left[1] + sign * right[1], left[2] + sign * right[2]


def vanishes(value: TileValue, powers: frozenset[TileValue]) -> bool:
    """Whether a value is zero wherever ``powers`` are, all else being finite."""
    if value in powers or value.number == 0:
        return True
    if value.op == "mul":
        return any(vanishes(arg, powers) for arg in value.args)
    if value.op in {"add", "sub"}:
        return all(vanishes(arg, powers) for arg in value.args)
    if value.op == "where":
        return all(vanishes(arg, powers) for arg in value.args[1:])
    return value.op in {"neg", "div"} and vanishes(value.args[0], powers)


def powers_of(values: Iterable[TileValue]) -> list[TileValue]:
    """The probabilities in backward values: powers of two of scores without the logarithm of their sum."""
    return [
        v
        for v in topological(values)
        if v.op == "exp2" and v.args[0].op == "sub" and LOGARITHM in str(v.args[0].args[1].datum)
    ]


def inside(numbering: ValueNumbering, values: list[TileValue], bounds: InnerRows) -> list[TileValue]:
    """Values where all that ``bounds`` say is known to hold."""
    done: dict[TileValue, TileValue] = {}
    truths: dict[TileValue, bool] = {}
    for comparison in bounds.known:
        truths[comparison] = _truth(comparison, bounds)

    def of(value: TileValue) -> TileValue:
        if value in done:
            return done[value]
        if value in truths:
            new = numbering.const(truths[value])
        elif not value.args:
            new = value
        else:
            args = [of(arg) for arg in value.args]
            new = _folded(numbering, value, args)
        done[value] = new
        return new

    return [of(value) for value in values]


def _truth(comparison: TileValue, bounds: InnerRows) -> bool:
    return _bound(comparison, True) is not None and _is_implied(_bound(comparison, True), bounds)


def _is_implied(bound: tuple[bool, int] | None, bounds: InnerRows) -> bool:
    if bound is None:
        return False
    begins, distance = bound
    limit = bounds.least if begins else bounds.most
    return limit is not None and (limit >= distance if begins else limit <= distance)


def _folded(numbering: ValueNumbering, value: TileValue, args: list[TileValue]) -> TileValue:
    numbers = [arg.number for arg in args]
    if value.op == "logical_not" and isinstance(numbers[0], bool):
        return numbering.const(not numbers[0])
    if value.op in {"logical_and", "logical_or"}:
        rest = [arg for arg in args if not isinstance(arg.number, bool)]
        absorbing = value.op == "logical_or"
        if any(arg.number is absorbing for arg in args):
            return numbering.const(absorbing)
        if len(rest) < len(args):
            return rest[0] if rest else numbering.const(not absorbing)
    if value.op in {"eq", "ne"} and all(number is not None for number in numbers):
        return numbering.const((numbers[0] == numbers[1]) == (value.op == "eq"))
    if value.op == "where" and isinstance(numbers[0], bool):
        return args[1] if numbers[0] else args[2]
    return numbering.value(value.op, tuple(args), value.datum, _joined(args), value.boolean, value.integer)
