"""What a candidate's syntax tree asks of the cases: whole numbers, around which sizes are tried, small fractions, around which
elements are, and alignment. Pure."""

from __future__ import annotations

import ast
import contextlib
import functools
import itertools
import math
import operator
from collections.abc import Callable, Collection, Iterable, Iterator

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
MOST_KEPT = 16  # files whose trees are kept: a verdict asks for each several times


def constants_of(files: Collection[SourceFile]) -> frozenset[int]:
    """Every whole number from 2 to ``LARGEST`` in Python files, those included that constants add up or multiply to.

    A name has every value that it is given anywhere; a number with a fraction lies between two whole ones; text may be a number.
    """
    numbers = {value for tree in _trees(files) for values in _folded(tree).values.values() for value in values}
    numbers |= {
        _NARROW[name] for tree in _trees(files) for node in walk(tree) if (name := _named(node) or "") in _NARROW
    }
    return _sizes(numbers)


def compared_in(files: Collection[SourceFile]) -> frozenset[int]:
    """Those of them that something is compared with, or cut at: where code branches on a size."""
    numbers: set[int] = set()
    for tree in _trees(files):
        folded = _folded(tree)
        for node in walk(tree):
            asked = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            if isinstance(node, ast.Call) and _named(node.func) in ("min", "max"):
                asked = node.args
            if isinstance(node, ast.Call) and _named(node.func) in ("range", "static_range"):
                asked = node.args[2:]
            numbers |= {value for operand in asked for value in folded.values.get(operand, ())}
    return _sizes(numbers) | _limits(files)


def asks_for_zero(files: Collection[SourceFile]) -> bool:
    """Whether something is compared with zero in Python files, as host code does that returns early for an empty dimension."""
    nodes = (node for tree in _trees(files) for node in walk(tree) if isinstance(node, ast.Compare))
    sides = (side for node in nodes for side in (node.left, *node.comparators))
    return any(isinstance(side, ast.Constant) and type(side.value) is int and side.value == 0 for side in sides)


def fractions_in(files: Collection[SourceFile]) -> frozenset[float]:
    """The small fractions written in Python files: an epsilon, or what values are compared with, cut at or set to zero below."""
    constants = (node.value for tree in _trees(files) for node in walk(tree) if isinstance(node, ast.Constant))
    return frozenset(value for value in constants if isinstance(value, float) and SMALLEST <= value < SMALL)


def grouped_in(files: Collection[SourceFile]) -> frozenset[int]:
    """Products of two settings of one launch, where kernels multiply tiles: programs are grouped by so many rows or columns."""
    products: set[int] = set()
    for tree in _trees(files):
        nodes = walk(tree)
        if not any(_named(node) in ("dot", "mma") for node in nodes):
            continue
        folded = _folded(tree)
        for settings in map(_settings, nodes):
            values = [folded.values.get(value, frozenset()) for value in settings]
            products |= {one * other for a, b in itertools.combinations(values, 2) for one in a for other in b}
    return _sizes(products)


def remainders_in(files: Collection[SourceFile]) -> frozenset[tuple[int, int]]:
    """What is divided by, with each remainder that is compared with, or zero: what no range of sizes is sure to hold."""
    remainders: set[tuple[int, int]] = set()
    for tree in _trees(files):
        folded = _folded(tree)
        nodes = walk(tree)
        compared: dict[ast.AST, frozenset[int]] = {
            side: _remainders(folded, node)
            for node in nodes
            if isinstance(node, ast.Compare)
            for side in (node.left, *node.comparators)
        }
        for node in nodes:
            for divisor in _divisors(folded, node):
                remainders |= {(divisor, rest % divisor) for rest in compared.get(node, ()) or {0}}
    return frozenset(remainders)


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


def _remainders(folded: _Folded, node: ast.Compare) -> frozenset[int]:
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


def _limits(files: Collection[SourceFile]) -> frozenset[int]:
    names = {_named(node) for tree in _trees(files) for node in walk(tree)}
    return frozenset(limit for name, limit in _NARROW.items() if name in names)


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


def needs_alignment(files: Iterable[SourceFile]) -> bool:
    """Whether Python files make tensor descriptors, which the hardware takes of memory from a multiple of 16 bytes on alone."""
    return any(_named(node) in _DESCRIPTORS for tree in _trees(files) for node in walk(tree))


def _named(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def _trees(files: Iterable[SourceFile]) -> Iterator[ast.Module]:
    for file in files:
        if file.path.endswith(".py"):
            with contextlib.suppress(*UNPARSABLE):
                yield _tree(file.text)


@functools.lru_cache(MOST_KEPT)
def _tree(text: str) -> ast.Module:
    return parse(text)


@functools.lru_cache(MOST_KEPT)
def _folded(tree: ast.Module) -> _Folded:
    return _Folded(tree)
