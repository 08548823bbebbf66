"""What a candidate's syntax tree asks of the cases: whole numbers, around which sizes are tried, small fractions, around which
elements are, and alignment. Pure."""

from __future__ import annotations

import ast
import contextlib
import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from gpu_runner.contracts.reading import UNPARSABLE, parse, walk
from gpu_runner.contracts.verify import SourceFile

LARGEST = 2**24  # a larger number is a mask, a hash or a limit of a dtype, and no size that a kernel branches on
SMALLEST, SMALL = 1e-12, 2.0**-9  # of fractions: a third power of the smallest is a normal number of float32
MOST_SHIFT = 24
MOST_OPERAND = 2**40
MOST_DIGITS = 32  # of text that is read as a number

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.LShift: operator.lshift,
    ast.Pow: operator.pow,
}

_DESCRIPTORS = ("make_tensor_descriptor", "TensorDescriptor")
# Beyond its limit a size is cut: a kernel that names such a dtype may count rows or columns in it.
_NARROW = {"int8": 2**7, "uint8": 2**8, "int16": 2**15, "uint16": 2**16}
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")  # Triton's own
MOST_VALUES = 16  # that one expression may have
ROUNDS = 3  # in which names are made of names
MOST_KEPT = 16  # files whose numbers are kept: a verdict asks for each several times


@dataclass(frozen=True)
class WrittenNumbers:
    """What a candidate's Python files write that its cases are tried around."""

    # Whole numbers from 2 to ``LARGEST``, those included that constants add up or multiply to.
    constants: AbstractSet[int] = frozenset()
    compared: AbstractSet[int] = (
        frozenset()
    )  # those that something is compared with, or cut at: where code branches on a size
    grouped: AbstractSet[int] = (
        frozenset()
    )  # products of two settings of a launch that multiplies tiles: rows or columns of a group
    remainders: AbstractSet[tuple[int, int]] = frozenset()  # a divisor and what its remainder is compared with, or zero
    fractions: AbstractSet[float] = (
        frozenset()
    )  # an epsilon, or what values are compared with, cut at or set to zero below
    asks_for_zero: bool = (
        False  # something is compared with zero, as by host code that returns early for an empty dimension
    )
    needs_alignment: bool = (
        False  # by tensor descriptors, which the hardware takes of memory from a multiple of 16 bytes on alone
    )


NO_NUMBERS = WrittenNumbers()


def numbers_in(files: Iterable[SourceFile]) -> WrittenNumbers:
    """What Python files write; files that do not parse write nothing.

    A name has every value that it is given anywhere; a number with a fraction lies between two whole ones; text may be a number.
    """
    each = [_written(file.text) for file in files if file.path.endswith(".py")]
    return WrittenNumbers(
        frozenset().union(*(one.constants for one in each)),
        frozenset().union(*(one.compared for one in each)),
        frozenset().union(*(one.grouped for one in each)),
        frozenset().union(*(one.remainders for one in each)),
        frozenset().union(*(one.fractions for one in each)),
        any(one.asks_for_zero for one in each),
        any(one.needs_alignment for one in each),
    )


@functools.lru_cache(MOST_KEPT)
def _written(text: str) -> WrittenNumbers:
    try:
        tree = parse(text)
    except UNPARSABLE:
        return NO_NUMBERS
    nodes, folded = walk(tree), _Folded(tree)
    names = {name for node in nodes if (name := _named(node)) is not None}
    narrow = {limit for name, limit in _NARROW.items() if name in names}
    plain = [node.value for node in nodes if isinstance(node, ast.Constant)]
    comparisons = [node for node in nodes if isinstance(node, ast.Compare)]
    sides = [side for node in comparisons for side in (node.left, *node.comparators)]
    return WrittenNumbers(
        _sizes({value for values in folded.values.values() for value in values} | narrow),
        _sizes({value for one in [*sides, *_cut_at(nodes)] for value in folded.values.get(one, ())})
        | frozenset(narrow),
        _sizes(_grouped(nodes, folded)) if names & {"dot", "mma"} else frozenset(),
        _remainders(nodes, folded),
        frozenset(value for value in plain if isinstance(value, float) and SMALLEST <= value < SMALL),
        any(isinstance(side, ast.Constant) and type(side.value) is int and side.value == 0 for side in sides),
        not names.isdisjoint(_DESCRIPTORS),
    )


def _cut_at(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    for node in nodes:
        if isinstance(node, ast.Call) and (name := _named(node.func)) in ("min", "max", "range", "static_range"):
            yield from node.args if name in ("min", "max") else node.args[2:]


def _grouped(nodes: Iterable[ast.AST], folded: _Folded) -> Iterator[int]:
    for settings in map(_settings, nodes):
        values = [folded.values.get(value, frozenset()) for value in settings]
        yield from (one * other for a, b in itertools.combinations(values, 2) for one in a for other in b)


def _remainders(nodes: Iterable[ast.AST], folded: _Folded) -> frozenset[tuple[int, int]]:
    """What is divided by, with each remainder that is compared with: what no range of sizes is sure to hold."""
    compared: dict[ast.AST, frozenset[int]] = {
        side: _compared_with(folded, node)
        for node in nodes
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
    }
    return frozenset(
        (divisor, rest % divisor)
        for node in nodes
        for divisor in _divisors(folded, node)
        for rest in compared.get(node, ()) or {0}
    )


def _divisors(folded: _Folded, node: ast.AST) -> Iterator[int]:
    """The whole numbers by which an expression takes a remainder, by a mask too."""
    if isinstance(node, ast.Call) and _named(node.func) == "divmod" and len(node.args) > 1:
        yield from _sizes(folded.values.get(node.args[1], ()))
    if not isinstance(node, ast.BinOp):
        return
    if isinstance(node.op, ast.Mod):
        yield from _sizes(folded.values.get(node.right, ()))
    if isinstance(node.op, ast.BitAnd):
        for side in (node.left, node.right):
            yield from (value + 1 for value in _sizes(folded.values.get(side, ())))


def _compared_with(folded: _Folded, node: ast.Compare) -> frozenset[int]:
    exact = {value for side in (node.left, *node.comparators) for value in folded.values.get(side, ())}
    if all(isinstance(operator_, ast.Eq | ast.NotEq) for operator_ in node.ops):
        return frozenset(exact)
    return frozenset(near for value in exact for near in (value - 1, value, value + 1) if near >= 0)


def _settings(node: ast.AST) -> list[ast.expr]:
    """The settings of a kernel that a call passes by name, or a table holds."""
    if isinstance(node, ast.Call):
        return [keyword.value for keyword in node.keywords if keyword.arg not in (None, *_OPTIONS)]
    if isinstance(node, ast.Dict):
        return [value for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)]
    return []


def _sizes(values: Iterable[int]) -> frozenset[int]:
    return frozenset(abs(value) for value in values if 2 <= abs(value) <= LARGEST)


class _Folded:
    """The whole numbers that each expression of a tree may be, where nothing but constants goes into it."""

    def __init__(self, tree: ast.AST) -> None:
        self._nodes = walk(tree)[::-1]  # operands before what is computed of them, however deep
        self._names: dict[str, frozenset[int]] = {}
        bindings = [pair for node in self._nodes for pair in _bindings(node)]
        self._rows = {name: value for name, value in bindings if isinstance(value, ast.Tuple | ast.List)}
        self.values: dict[ast.AST, frozenset[int]] = {}
        for _ in range(ROUNDS):
            before = self._names
            self._fold()
            if self._names == before:
                break

    def _fold(self) -> None:
        names: dict[str, frozenset[int]] = {}
        for node in self._nodes:
            numbers = frozenset(sorted(self._of(node))[:MOST_VALUES])
            if numbers:
                self.values[node] = numbers
            for name, value in _bindings(node):
                names[name] = names.get(name, frozenset()) | self.values.get(value, frozenset())
        self._names = {name: frozenset(sorted(values)[:MOST_VALUES]) for name, values in names.items() if values}

    def _of(self, node: ast.AST) -> Iterable[int]:
        if isinstance(node, ast.Constant):
            return _plain(node.value)
        if isinstance(node, ast.Name | ast.Attribute):
            return self._names.get(_named(node) or "", ())
        if isinstance(node, ast.Tuple | ast.List):
            return {value for item in node.elts for value in self.values.get(item, ())}
        if isinstance(node, ast.Dict):
            return {value for item in node.values for value in self.values.get(item, ())}
        if isinstance(node, ast.Subscript):
            return self.values.get(self._item(node), ())
        if isinstance(node, ast.IfExp):
            return {value for side in (node.body, node.orelse) for value in self.values.get(side, ())}
        if isinstance(node, ast.Call) and len(node.args) == 1:
            return _called(_named(node.func), node.args[0], self.values.get(node.args[0], frozenset()))
        if isinstance(node, ast.BinOp):
            pairs = itertools.product(self.values.get(node.left, ()), self.values.get(node.right, ()))
            return {value for pair in pairs if (value := _applied(type(node.op), *pair)) is not None}
        return ()

    def _item(self, node: ast.Subscript) -> ast.AST:
        """The item of a table that is written out, or all of what is looked up in."""
        table = self._rows.get(_named(node.value) or "")
        place = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(table, ast.Tuple | ast.List) and isinstance(place, int) and place < len(table.elts):
            return table.elts[place]
        return node.value


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Names that a node gives values to: by assignment, as an argument, as a default."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            pairs: Iterable[tuple[ast.AST, ast.AST]] = [(target, node.value)]
            if isinstance(target, ast.Tuple | ast.List):
                is_written_out = isinstance(node.value, ast.Tuple | ast.List)
                values = node.value.elts if is_written_out else [node.value] * len(target.elts)  # type: ignore[attr-defined]
                pairs = zip(target.elts, values, strict=False)
            yield from ((name, value) for one, value in pairs if (name := _named(one)) is not None)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        name = _named(node.target)
        if name is not None:
            yield name, node.value
    elif isinstance(node, ast.For | ast.comprehension):
        yield from ((part.id, node.iter) for part in walk(node.target) if isinstance(part, ast.Name))
    elif isinstance(node, ast.keyword) and node.arg is not None:
        yield node.arg, node.value
    elif isinstance(node, ast.arguments):
        plain = [*node.posonlyargs, *node.args]
        yield from zip((arg.arg for arg in plain[len(plain) - len(node.defaults) :]), node.defaults, strict=True)
        for arg, default in zip(node.kwonlyargs, node.kw_defaults, strict=True):
            if default is not None:
                yield arg.arg, default


def _plain(value: object) -> Iterable[int]:
    if isinstance(value, float) and abs(value) <= LARGEST:
        return {math.floor(value), math.ceil(value)}  # as in ``x.shape[1] > 4096.0``
    return {value} if type(value) is int else ()


def _called(name: str | None, argument: ast.AST, values: frozenset[int]) -> Iterable[int]:
    """What a call of one argument gives, where that is a number, or text that stands for one."""
    text = argument.value if isinstance(argument, ast.Constant) else None
    if not isinstance(text, str):
        return values if name in ("int", "float", "constexpr", "abs", "round", "floor", "ceil") else ()
    if name == "len":
        return {len(text)}
    if name == "ord" and len(text) == 1:
        return {ord(text)}
    if name in ("int", "float") and len(text) <= MOST_DIGITS:
        with contextlib.suppress(ValueError, OverflowError):
            return _plain(float(text))
    return ()


def _applied(operation: type[ast.operator], left: int, right: int) -> int | None:
    if operation not in _OPERATORS or max(abs(left), abs(right)) > MOST_OPERAND:
        return None
    if operation in (ast.LShift, ast.Pow) and not 0 <= right <= MOST_SHIFT:
        return None
    if operation is ast.FloorDiv and right == 0:
        return None
    return _OPERATORS[operation](left, right)


def _named(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
