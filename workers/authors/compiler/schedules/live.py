"""How many float32 tiles a kernel keeps at once: its memory on a device whose tiles lie in a buffer of fixed size. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

TILE_SIZE = "BLOCK_SIZE"
CONVERSION = (
    0.5  # of a tile: what is loaded or stored in two bytes stands next to its float32 form while it is converted
)
INLINED = 9.0  # tiles that a device function of the module keeps at most, besides what it is given and returns
REDUCTIONS = frozenset({"sum", "max", "min", "reduce", "argmax", "argmin"})
ADDRESSES = frozenset({"cols", "mask", "col_mask", "row_mask", "rows", "offsets"})


def live_tiles(source: str) -> float:
    """The most float32 tiles that are alive at once in a kernel: named values, and those inside of an expression.

    An upper bound: a buffer is free only after the last statement that reads its value, and no operation writes into its
    operand's. A column of a number for each row takes a tile where it meets one. Addresses and masks of copies take none,
    since copies have sizes and strides.
    """
    function = next(node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    reading = _StatementReader()
    reading.block(function.body)
    return reading.peak()


@dataclass
class _LiveRange:
    """The statements from which to which a value is kept."""

    first: int
    last: int


@dataclass
class _StatementReader:
    """The statements of a kernel in order, with the tiles that each makes and reads."""

    ranges: list[_LiveRange] = field(default_factory=list)
    bound: dict[str, _LiveRange] = field(default_factory=dict)  # the value that a name has
    inner: list[float] = field(default_factory=list)  # tiles inside of each statement's expression
    columns: set[str] = field(default_factory=set)  # names of a number for each row

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if isinstance(statement, ast.For):
                self._loop(statement)
            elif isinstance(statement, ast.If):
                self.block([*statement.body, *statement.orelse])
            elif isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr):
                self._statement(statement)

    def _loop(self, loop: ast.For) -> None:
        before, start = list(self.bound.values()), len(self.inner)
        self.block(loop.body)
        for value in before:
            if value.last >= start:  # what a turn takes from before the loop is kept until the last one
                value.last = len(self.inner) - 1

    def _statement(self, statement: ast.Assign | ast.AugAssign | ast.Expr) -> None:
        place = len(self.inner)
        for name in _names(statement):
            if name in self.bound:
                self.bound[name].last = place
        is_tile, peak = self._expression(statement.value)
        own = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if isinstance(own, ast.Name):
            self.bound.pop(own.id, None)
            self._column(own.id, statement.value, is_tile)
            if is_tile and not _is_address(own.id):
                peak -= 1.0  # the result is counted by its name
                self.bound[own.id] = _LiveRange(place, place)
                self.ranges.append(self.bound[own.id])
        self.inner.append(max(peak, 0.0))

    def _column(self, name: str, value: ast.expr, is_tile: bool) -> None:
        """Keep in mind which names are columns of a number for each row, which an operation with a tile broadcasts."""
        known = not is_tile and any(other in self.columns for other in _names(value))
        text = ast.unparse(value)
        if not _is_address(name) and (known or "keep_dims=True" in text or ("tl.load(" in text and "+ rows" in text)):
            self.columns.add(name)

    def _expression(self, node: ast.expr) -> tuple[bool, float]:
        """Whether an expression is a tile, and the most tiles without a name while it is computed, its result included."""
        if isinstance(node, ast.Name):
            return node.id in self.bound, 0.0
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Subscript):
            return self._expression(node.value)
        operands = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        return self._operation(operands)

    def _call(self, node: ast.Call) -> tuple[bool, float]:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        method = isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Name)
        if name == "load":
            return _has_tile_address(node.args[0]), 1.0 if _has_tile_address(node.args[0]) else 0.0
        if name in ("zeros", "full"):
            return TILE_SIZE in ast.unparse(node.args[0]) and "//" not in ast.unparse(node.args[0]), 1.0
        if name == "to" and method:
            assert isinstance(node.func, ast.Attribute)
            is_tile, peak = self._expression(node.func.value)
            loaded = is_tile and "tl.load" in ast.unparse(node.func.value)
            return is_tile, peak + CONVERSION if loaded else peak
        if name == "store":
            is_tile, peak = self._expression(node.args[1])
            return False, peak + CONVERSION if is_tile else peak
        if name in REDUCTIONS:
            is_tile, peak = self._expression(node.args[0])
            return is_tile and "axis=0" in ast.unparse(node) and "keep_dims" in ast.unparse(node), peak
        operands = [*([node.func.value] if method and isinstance(node.func, ast.Attribute) else []), *node.args]
        is_tile, peak = self._operation(operands)
        peak += float(name == "where" and is_tile)  # a mask that chooses values is a tile itself
        if isinstance(node.func, ast.Name) and node.func.id.startswith("_") and is_tile:
            peak += INLINED
        return is_tile, peak

    def _operation(self, operands: list[ast.expr]) -> tuple[bool, float]:
        kept, peak, is_tile = 0.0, 0.0, False
        for operand in operands:
            tile, inside = self._expression(operand)
            peak = max(peak, kept + inside)
            kept += float(tile and not isinstance(operand, ast.Name))
            is_tile = is_tile or tile
        kept += float(is_tile and any(isinstance(one, ast.Name) and one.id in self.columns for one in operands))
        return is_tile, max(peak, kept + 1.0) if is_tile else peak

    def peak(self) -> float:
        alive = [sum(one.first <= place <= one.last for one in self.ranges) for place in range(len(self.inner))]
        return max((count + inside for count, inside in zip(alive, self.inner, strict=True)), default=1.0)


def _names(node: ast.AST) -> Iterator[str]:
    return (child.id for child in ast.walk(node) if isinstance(child, ast.Name))


def _is_address(name: str) -> bool:
    return name in ADDRESSES or name.endswith(("_offsets", "_mask", "_cols"))


def _has_tile_address(node: ast.expr) -> bool:
    return any(name in ("cols", "offsets") or name.endswith("offsets") for name in _names(node))
