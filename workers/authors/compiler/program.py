"""A graph as values of one iteration space: what forward stores, what backward computes from it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from gpu_runner.contracts import Graph, Problem, Workload
from gpu_runner.contracts.graph import Expr
from workers.authors.compiler.algebra import TanhRewrite, simplified, with_shared_sums
from workers.authors.compiler.chained import Chained, find_chained, is_chained
from workers.authors.compiler.domain import (
    FULL,
    ROW,
    SEGMENT,
    Domain,
    ProductAxes,
    Space,
    epilogue,
    find_domains,
    find_product,
    find_windows,
    nodes_behind,
)
from workers.authors.compiler.graph import CannotCompileError, evaluate, numbers_of, require_well_formed
from workers.authors.compiler.lowering import Lowering
from workers.authors.compiler.polynomials import with_polynomials
from workers.authors.compiler.rounding import ROUNDED, fixed_dtype
from workers.authors.compiler.values import TileValue, ValueNumbering, never_negative, rewritten, topological


def with_sigmoid_for_tanh(program: ValueProgram) -> ValueProgram:
    """Write 1 + tanh(x) as 2 sigmoid(2x), and 1 - tanh(x)^2 by the same sigmoid, in passes that need no other tanh(x).

    The sigmoid takes one exponential and keeps its digits where tanh is near -1, as in GELU.
    """
    kept = [value for _, value in (*program.saved, *program.sums)]
    forward = TanhRewrite(program.numbering, [*(r.value for r in program.outputs), *kept]).done
    backward = TanhRewrite(program.numbering, [r.value for _, r in program.gradients]).done
    return replace(
        program,
        outputs=tuple(replace(result, value=forward[result.value]) for result in program.outputs),
        saved=tuple((key, forward[value]) for key, value in program.saved),
        sums=tuple((key, forward[value]) for key, value in program.sums),
        gradients=tuple((name, replace(r, value=backward[r.value])) for name, r in program.gradients),
    )


def with_short_polynomials(program: ValueProgram) -> ValueProgram:
    """Write what is stored by Horner's scheme where it is a polynomial of a loaded tensor."""
    kept = [value for _, value in (*program.saved, *program.sums)]
    forward = with_polynomials(program.numbering, [result.value for result in program.outputs], kept)
    backward = with_polynomials(program.numbering, [result.value for _, result in program.gradients], [])
    return replace(
        program,
        outputs=tuple(replace(r, value=value) for r, value in zip(program.outputs, forward, strict=True)),
        gradients=tuple(
            (name, replace(r, value=value)) for (name, r), value in zip(program.gradients, backward, strict=True)
        ),
    )


SUM_USED_AGAIN = (
    "`sum` over the leading dimensions is used again by every element, as in a batch norm, which takes two kernels"
)


@dataclass(frozen=True)
class Result:
    """A tensor to store. ``value`` is what each row gives; it is summed over what ``space`` does not vary over."""

    node: str  # the graph's name of it
    value: TileValue
    space: Space

    @property
    def summed(self) -> bool:
        """Whether rows are summed."""
        return self.value.space.rows and not self.space.rows


@dataclass(frozen=True)
class Operand:
    """An operand of a product: a value over a space of its own, whose columns or rows are summed over."""

    domain: Domain
    value: TileValue

    @property
    def loads(self) -> list[TileValue]:
        """The tensors that it is computed from."""
        return [value for value in topological([self.value]) if value.op == "load"]


@dataclass(frozen=True)
class Product:
    """The product of a program's ``dot`` value."""

    axes: ProductAxes
    left: Operand
    right: Operand


@dataclass(frozen=True)
class ValueProgram:
    """A graph as values of one iteration space.

    ``saved`` are row numbers and sums over rows that forward computes and backward needs; backward loads them under their key.
    ``sums`` are those that only outputs need: outputs that the launcher computes load them under their key.
    """

    problem: Problem
    graph: Graph
    domain: Domain
    numbering: ValueNumbering
    outputs: tuple[Result, ...]
    gradients: tuple[tuple[str, Result], ...]  # input name, its gradient; none for inputs without
    saved: tuple[tuple[str, TileValue], ...]
    sums: tuple[tuple[str, TileValue], ...] = ()
    product: Product | None = None
    chained: Chained | None = None

    @property
    def multiplies(self) -> bool:
        """Whether it has products of matrices."""
        return self.product is not None or self.chained is not None

    def elements(self, axes: Iterable[int], workload: Workload) -> int | None:
        """The product of the axes' sizes in a workload, None where it does not say."""
        given, product = numbers_of(self.problem, workload), 1
        try:
            for axis in axes:
                size = self.domain.sizes[axis]
                product *= int(evaluate(size, given)) if isinstance(size, Expr) else size
        except CannotCompileError:
            return None
        return product

    @property
    def operands(self) -> list[TileValue]:
        """Loads of the products' operands."""
        if self.chained is not None:
            return self.chained.operands
        return [*self.product.left.loads, *self.product.right.loads] if self.product else []

    def on_host(self, result: Result) -> bool:
        """Whether a tensor is computed from sums over all rows, which no kernel has."""
        keys = {key for key, _ in (*self.saved, *self.sums)}
        return not result.value.space.rows and any(
            v.op == "load" and v.datum in keys for v in topological([result.value])
        )

    @property
    def backward_results(self) -> tuple[Result, ...]:
        """The distinct gradients that a kernel has to compute."""
        distinct: dict[tuple[object, ...], Result] = {}
        for _, result in self.gradients:
            if not self.is_upstream(result):
                distinct.setdefault(self.key(result), result)
        return tuple(distinct.values())

    def key(self, result: Result) -> tuple[object, ...]:
        """What two results have in common exactly where one tensor serves for both."""
        return (result.value, result.space, self.domain.shapes[result.node])

    def fixed_dtype(self, node: str) -> str | None:
        """The dtype of a tensor, or of the one that it is a chunk of, where it does not follow the call's."""
        return fixed_dtype(self.problem, self.graph, self.domain.base(node))

    def is_upstream(self, result: Result) -> bool:
        """Whether a gradient equals the gradient of an output, element by element."""
        value = result.value
        if value.op != "load" or value.datum not in self.graph.upstream or result.summed:
            return False
        if self.fixed_dtype(str(value.datum)) is not None:
            return False
        return self.domain.shapes[str(value.datum)] == self.domain.shapes[result.node]


def build_program(problem: Problem, graph: Graph) -> ValueProgram:
    """The program of a graph.

    Raises:
        CannotCompileError: the graph is beyond rows and columns.
    """
    require_well_formed(problem, graph)
    if any(node.op == "matmul" for node in graph.nodes):
        return _product_program(problem, graph)
    if any(node.op == "windows" for node in graph.nodes):
        return _window_program(problem, graph)
    first: CannotCompileError | None = None
    for domain in find_domains(graph, problem.dimensions):
        try:
            return _program(problem, graph, domain)
        except CannotCompileError as error:
            first = first or error  # of the simplest space, which says what the problem takes
    assert first is not None, "a graph fits into a space or is refused"
    raise first


def _program(problem: Problem, graph: Graph, domain: Domain) -> ValueProgram:
    lowering = Lowering(problem, graph, domain)
    sums = RowSums(lowering.numbering, [lowering.values[node] for node in graph.outputs])
    ends = [(name, node) for name, node in graph.gradients if node is not None]
    needed = sums.within([lowering.values[node] for _, node in ends])
    outputs = tuple(_output(lowering, domain, node, sums, needed) for node in graph.outputs)
    prepared = with_shared_sums(lowering.numbering, [sums.loaded(lowering.values[node]) for _, node in ends])
    gradients = tuple(
        (name, _result(lowering, domain, node, value)) for (name, node), value in zip(ends, prepared, strict=True)
    )
    kept = tuple((sums.keys[total], total) for total in needed)
    others = [total for total in sums.within([lowering.values[node] for node in graph.outputs]) if total not in needed]
    read = {v.datum for v in topological([r.value for r in outputs]) if v.op == "load"}
    rest = tuple((sums.keys[total], total) for total in others if sums.keys[total] in read)
    computed = [*(r.value for r in outputs), *(total for _, total in (*kept, *rest))]
    saved, replaced = _save_live_values(lowering.numbering, computed, outputs, gradients)
    return ValueProgram(problem, graph, domain, lowering.numbering, outputs, replaced, (*saved, *kept), rest)


def _product_program(problem: Problem, graph: Graph) -> ValueProgram:
    """What is around a product is computed on its result, what is before it on its operands."""
    if graph.gradients:
        raise CannotCompileError("it has no way to express `matmul` in one kernel for each pass", "matmul")
    if is_chained(graph):
        return _chained_program(problem, graph)
    axes = find_product(graph, problem.dimensions)

    def operand(node: str, *, is_left: bool) -> Operand:
        domain = axes.operand(is_left=is_left)
        part = replace(graph, nodes=tuple(nodes_behind(graph, [node])), outputs=(node,), upstream=(None,))
        return Operand(domain, Lowering(problem, part, domain).values[node])

    lowering = Lowering(problem, replace(graph, nodes=tuple(epilogue(graph))), axes.domain)
    outputs = tuple(_result(lowering, axes.domain, node, lowering.values[node]) for node in graph.outputs)
    product = Product(axes, operand(axes.left, is_left=True), operand(axes.right, is_left=False))
    return ValueProgram(problem, graph, axes.domain, lowering.numbering, outputs, (), (), product=product)


def _window_program(problem: Problem, graph: Graph) -> ValueProgram:
    """Windows are reduced to the elements of what is stored."""
    if graph.gradients:
        raise CannotCompileError("it has no way to express `windows` in one kernel for each pass", "windows")
    domain = find_windows(graph, problem.dimensions)
    lowering = Lowering(problem, graph, domain)
    outputs = tuple(_result(lowering, domain, node, lowering.values[node]) for node in graph.outputs)
    if any(value.op == "over_rows" or value.op == "pick" for value in topological(r.value for r in outputs)):
        raise CannotCompileError("windows are reduced over dimensions of the result", "windows")
    return ValueProgram(problem, graph, domain, lowering.numbering, outputs, (), ())


def _chained_program(problem: Problem, graph: Graph) -> ValueProgram:
    """What several products meet in is computed block by block, and multiplied where it is."""
    chained, stored = find_chained(problem, graph)
    outputs = tuple(Result(one.node, one.value, one.domain.space_of(one.node)) for one in stored)
    domain = next(one.domain for one in stored if one.domain is not chained.domain)
    return ValueProgram(problem, graph, domain, ValueNumbering(), outputs, (), (), chained=chained)


class RowSums:
    """The sums over all rows that outputs are computed from: a launcher adds them up, and whoever needs them after loads them."""

    def __init__(self, numbering: ValueNumbering, outputs: list[TileValue]) -> None:
        self._numbering = numbering
        self.keys = {v: f"sum {i}" for i, v in enumerate(v for v in topological(outputs) if v.op == "over_rows")}

    def within(self, values: list[TileValue]) -> list[TileValue]:
        """The sums that values are computed from."""
        return [value for value in topological(values) if value in self.keys]

    def loaded(self, value: TileValue) -> TileValue:
        """A value with the sums in it loaded."""
        return rewritten(self._numbering, [value], lambda v: self._load(v) if v in self.keys else None)[0]

    def _load(self, total: TileValue) -> TileValue:
        return self._numbering.load(self.keys[total], total.space)


def _output(lowering: Lowering, domain: Domain, node: str, sums: RowSums, needed: list[TileValue]) -> Result:
    """A sum that moves outermost is all that a kernel's programs leave; else the launcher computes with whole sums."""
    value, space = lowering.values[node], domain.space_of(node)
    own = sums.within([value])
    if any(total.datum == "segments" for total in own):
        raise CannotCompileError("`sum` over segments of rows is used again, which takes another kernel", "sum")
    if value.space.rows or not own:
        return _result(lowering, domain, node, value)
    if not any(total in needed for total in own):
        try:
            return _result(lowering, domain, node, value)
        except CannotCompileError:
            pass
    if any(inner in own for total in own for inner in topological(total.args)):
        raise CannotCompileError(SUM_USED_AGAIN, "sum")
    return Result(node, sums.loaded(value), space)


def _result(lowering: Lowering, domain: Domain, node: str, value: TileValue) -> Result:
    space = domain.space_of(node)
    if value.op == "over_rows" and value.datum == "segments":
        if any(inner.op == "over_rows" for inner in topological(value.args)):
            raise CannotCompileError(SUM_USED_AGAIN, "sum")
        return Result(node, value.args[0], SEGMENT)
    if space.rows and set(domain.rows_of(node)) != set(domain.row_axes):
        raise CannotCompileError(
            f"the output or gradient `{node}` lacks some of the leading dimensions, but not all, and takes a `sum` over the others",
            "sum",
        )
    if domain.segments_of(node) is not None:
        raise CannotCompileError(
            f"`{node}` has one number for each segment of a row, while other tensors have whole rows"
        )
    if domain.chunking is not None and domain.is_chunked(node) and value.op != "cat":
        value = lowering.numbering.pointwise(
            "cat", *[value] * domain.chunking.count
        )  # the same number along the whole row
    if _sums_rows(value):
        value = _hoisted_sum(lowering.numbering, value).args[0]
        if not space.cols:
            value = _unreduced(lowering.numbering, value)
    elif not space.rows and not domain.row_axes:
        space = Space(True, space.cols)  # all that there is lies in one row
    elif not space.rows:
        raise CannotCompileError(f"`{node}` is computed from vectors alone, while other tensors have rows")
    for inner in topological([value]):
        if inner.op == "over_rows":
            raise CannotCompileError(SUM_USED_AGAIN, "sum")
    return Result(node, value, space)


def _unreduced(numbering: ValueNumbering, value: TileValue) -> TileValue:
    """Summing a tile once at the end is cheaper than every row on its way."""
    if value.op == "cat":
        return numbering.pointwise("cat", *(_unreduced(numbering, arg) for arg in value.args))
    return value.args[0] if value.op == "over_cols" and value.datum == "sum" else value


def _sums_rows(value: TileValue) -> bool:
    return any(inner.op == "over_rows" for inner in topological([value]))


def _hoisted_sum(numbering: ValueNumbering, value: TileValue) -> TileValue:
    """A sum over the rows, hoisted outermost: what is linear moves into it."""
    if value.op == "over_rows":
        return value
    if value.space.rows:
        raise CannotCompileError(SUM_USED_AGAIN, "sum")
    sums = [_sums_rows(arg) for arg in value.args]
    inside = {"neg": sums == [True], "mul": sums.count(True) == 1, "div": sums == [True, False]}.get(
        value.op, all(sums)
    )
    if value.op not in {"neg", "mul", "div", "add", "sub", "cat"} or not inside:
        raise CannotCompileError(
            f"`{value.op}` is taken of a `sum` over the leading dimensions, which does not move into it", value.op
        )
    args = [
        _hoisted_sum(numbering, arg).args[0] if summed else arg for arg, summed in zip(value.args, sums, strict=True)
    ]
    return numbering.over_rows("sum", simplified(numbering, value.op, *args))


Gradients = tuple[tuple[str, Result], ...]


def _save_live_values(
    numbering: ValueNumbering, computed: list[TileValue], outputs: tuple[Result, ...], gradients: Gradients
) -> tuple[tuple[tuple[str, TileValue], ...], Gradients]:
    """The live values that forward saves for backward: numbers that a row was reduced to, and outputs that spare inputs."""
    forward = set(topological(computed))
    reduced: set[TileValue] = set()
    for value in topological([*computed, *(r.value for _, r in gradients)]):
        if value.op == "over_cols" or any(arg in reduced for arg in value.args):
            reduced.add(value)
    saved: dict[TileValue, str] = {}
    whole = {output.value: output.node for output in outputs if output.space == ROW and output.value.integer}

    def numbers(value: TileValue) -> TileValue | None:
        if value.space != ROW or value not in forward or value not in reduced or value.op == ROUNDED or value.boolean:
            return None  # a rounded number is rounded again, so that no two of one are kept
        key = whole.get(value) or saved.setdefault(value, f"saved {len(saved)}")
        return numbering.load(key, ROW, integer=value.integer, positive=never_negative(value))

    gradients = _replaced(numbering, gradients, numbers)
    for output in outputs:
        if (
            output.space == FULL
            and output.value.args
            and output.value.op != "cat"
            and output.value not in reduced
            and not output.value.boolean
        ):
            load = numbering.load(output.node, FULL)

            def loaded(value: TileValue, saved: TileValue = output.value, load: TileValue = load) -> TileValue | None:
                return load if value is saved or (value.op == ROUNDED and value.args[0] is saved) else None

            shorter = _replaced(numbering, gradients, loaded)
            gradients = shorter if _full_loads(shorter) < _full_loads(gradients) else gradients
    return tuple((key, value) for value, key in saved.items()), gradients


def _full_loads(gradients: Gradients) -> int:
    return sum(value.op == "load" and value.space == FULL for value in topological([r.value for _, r in gradients]))


def _replaced(
    numbering: ValueNumbering, gradients: Gradients, replacement: Callable[[TileValue], TileValue | None]
) -> Gradients:
    """Rebuild the gradients with values replaced, from the gradients down: what only a replaced value needs is gone."""
    values = rewritten(numbering, [r.value for _, r in gradients], replacement)
    return tuple((name, Result(r.node, value, r.space)) for (name, r), value in zip(gradients, values, strict=True))


UPSTREAM = "upstream "


def allowed_nodes(program: ValueProgram, may_overwrite: Iterable[str]) -> tuple[str, ...]:
    """The graph's names of the tensors that a brief allows to be overwritten; ``upstream N`` is that of output N."""
    graph, nodes = program.graph, []
    for name in may_overwrite:
        place = name.removeprefix(UPSTREAM)
        if name.startswith(UPSTREAM) and place.isdecimal() and int(place) < len(graph.upstream):
            nodes.append(graph.upstream[int(place)])
        elif name in graph.inputs:
            nodes.append(name)
    return tuple(node for node in dict.fromkeys(nodes) if node is not None)


def overwritten(
    program: ValueProgram, allowed: tuple[str, ...], available: tuple[str, ...], values: Iterable[TileValue]
) -> dict[str, str]:
    """For gradients by their graph names, the tensor whose memory each is written into; ``values`` are the kernel's.

    A kernel reads a tensor of all rows and columns element by element, each by one program, which reads all that it needs of
    an element, and of its row, before it writes there. So any such tensor of the same shape and dtype will do, once, unless it
    is itself the gradient of another input, or read by an index, which any element may be.
    """
    kept = {str(result.value.datum) for _, result in program.gradients if program.is_upstream(result)}
    kept |= {program.domain.base(str(v.datum)) for v in values if v.op != "load" and isinstance(v.datum, str)}
    free = [node for node in allowed if node in available and node not in kept]
    places: dict[str, str] = {}
    owners = {program.key(result): name for name, result in reversed(program.gradients)}
    for result in program.backward_results:
        own = owners[program.key(result)]
        fitting = [node for node in free if _fits_memory(program, result, own, node)]
        if fitting:
            places[result.node] = own if own in fitting else fitting[0]
            free.remove(places[result.node])
    return places


def _fits_memory(program: ValueProgram, result: Result, owner: str, node: str) -> bool:
    domain = program.domain
    if result.space != FULL or result.summed or domain.shapes[node] != domain.shapes[result.node]:
        return False
    if domain.space_of(node) != FULL or set(domain.rows_of(node)) != set(domain.row_axes):
        return False
    return program.fixed_dtype(node) == program.fixed_dtype(owner)
