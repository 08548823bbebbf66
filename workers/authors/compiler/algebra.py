"""Simplification: what a person would not write is not emitted. Pure.

Every rule keeps the value in exact arithmetic; the order of rounding may change. Values are float32 from the load to the store,
so that casts between floating types in the middle are dropped: the result is at least as exact as the reference's. A value that is
to be rounded as in eager mode (``rounding``) is of no form that a rule looks for, so that none reaches across it. Where operations
are to stay in their order, none is changed for another.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from functools import reduce

from workers.authors.compiler.graph import COMPARISONS, NEGATED, CannotCompileError
from workers.authors.compiler.values import TileValue, ValueNumbering, rewritten, topological

MAX_UNROLLED_POWER = 64
Rule = Callable[[ValueNumbering, tuple[TileValue, ...]], TileValue | None]
_FOLDED: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "maximum": max,
    "minimum": min,
    "sqrt": math.sqrt,
    "rsqrt": lambda a: 1.0 / math.sqrt(a),
    "reciprocal": lambda a: 1.0 / a,
    "exp": math.exp,
    "log": math.log,
    "pow": lambda a, b: a**b,
    "abs": abs,
}


def simplified(numbering: ValueNumbering, op: str, *args: TileValue) -> TileValue:
    """An operation, simplified."""
    numbers = [arg.number for arg in args]
    if op in _FOLDED and all(number is not None for number in numbers):
        try:
            return numbering.const(_FOLDED[op](*numbers))
        except (ValueError, ZeroDivisionError, OverflowError):
            return numbering.pointwise(op, *args)
    if numbering.in_order and op in _REORDERED:
        return _in_order(numbering, op, args)
    rule = _RULES.get(op)
    result = rule(numbering, args) if rule is not None else None
    return result if result is not None else numbering.pointwise(op, *args)


def _in_order(numbering: ValueNumbering, op: str, args: tuple[TileValue, ...]) -> TileValue:
    """An operation in the order of the reference, constants last; one that changes no bit is dropped."""
    if len(args) == 1:
        return numbering.pointwise("libdevice_tanh" if op == "tanh" else op, *args)
    left, right = args
    if op in {"add", "mul"} and left.number is not None:
        left, right = right, left
    if right.number == (0 if op in {"add", "sub"} else 1):
        return left
    return numbering.pointwise(op, left, right)


def scaled(numbering: ValueNumbering, factor: float, value: TileValue) -> TileValue:
    """A value times a number, the number kept outermost."""
    inner, core = coefficient(value)
    factor = factor * inner
    if factor == 0:
        return numbering.const(0.0)
    if factor == 1:
        return core
    if core.number is not None:
        return numbering.const(factor * core.number)
    if factor == -1:
        return numbering.pointwise("neg", core)
    return numbering.pointwise("mul", numbering.const(factor), core)


def coefficient(value: TileValue) -> tuple[float, TileValue]:
    """Split a value into the number it is multiplied by and the rest."""
    if value.op == "neg":
        factor, core = coefficient(value.args[0])
        return -factor, core
    if value.op == "mul" and value.args[0].number is not None:
        return float(value.args[0].number), value.args[1]
    return 1.0, value


def _add(numbering: ValueNumbering, args: tuple[TileValue, ...]) -> TileValue | None:
    left, right = args
    if left.number == 0:
        return right
    if right.number == 0:
        return left
    factor, core = coefficient(right)
    if factor < 0:
        return simplified(numbering, "sub", left, scaled(numbering, -factor, core))
    factor, core = coefficient(left)
    if factor < 0:
        return simplified(numbering, "sub", right, scaled(numbering, -factor, core))
    if left is right:
        return scaled(numbering, 2.0, left)
    return None


def _sub(numbering: ValueNumbering, args: tuple[TileValue, ...]) -> TileValue | None:
    left, right = args
    if right.number == 0:
        return left
    if left is right:
        return numbering.const(0.0)
    if left.number == 0:
        return scaled(numbering, -1.0, right)
    factor, core = coefficient(right)
    if factor < 0:
        return simplified(numbering, "add", left, scaled(numbering, -factor, core))
    return None


def _mul(numbering: ValueNumbering, args: tuple[TileValue, ...]) -> TileValue | None:
    (first, left), (second, right) = coefficient(args[0]), coefficient(args[1])
    for factor, other in ((args[0], args[1]), (args[1], args[0])):
        if factor.number is not None:
            return scaled(numbering, float(factor.number), other)
    if first * second != 1 or left is not args[0] or right is not args[1]:
        return scaled(numbering, first * second, simplified(numbering, "mul", left, right))
    for one, other in ((left, right), (right, left)):
        if one.op == "reciprocal":
            return simplified(numbering, "div", other, one.args[0])
        # (r / n) * x is r / n computed once a row; r / n / n would round twice, so that only whole quotients of one move.
        if one.op == "div" and one.args[0].number == 1:
            return simplified(numbering, "div", other, one.args[1])
    return None


def _div(numbering: ValueNumbering, args: tuple[TileValue, ...]) -> TileValue | None:
    left, right = args
    if right.number == 1:
        return left
    if left.number == 0:
        return numbering.const(0.0)
    if right.number is not None and right.number != 0 and math.frexp(abs(right.number))[0] == 0.5:
        return scaled(numbering, 1.0 / right.number, left)
    factor, core = coefficient(left)
    if factor != 1 and core is not left:
        return scaled(numbering, factor, simplified(numbering, "div", core, right))
    return None


def _neg(numbering: ValueNumbering, args: tuple[TileValue, ...]) -> TileValue | None:
    return scaled(numbering, -1.0, args[0])


def _pow(numbering: ValueNumbering, args: tuple[TileValue, ...]) -> TileValue | None:
    base, exponent = args[0], args[1].number
    if exponent is None:
        return None
    if exponent == 0:
        return numbering.const(1.0)
    if exponent < 0:
        inverted = {-0.5: "rsqrt", -1: "reciprocal"}.get(exponent)
        if inverted:
            return simplified(numbering, inverted, base)
        return simplified(numbering, "reciprocal", simplified(numbering, "pow", base, numbering.const(-exponent)))
    if exponent == 0.5:
        return simplified(numbering, "sqrt", base)
    if exponent != int(exponent) or exponent > MAX_UNROLLED_POWER:
        return None
    return _power(numbering, base, int(exponent))


def _power(numbering: ValueNumbering, base: TileValue, exponent: int) -> TileValue:
    if exponent == 1:
        return base
    half = _power(numbering, base, exponent // 2)
    square = simplified(numbering, "mul", half, half)
    return square if exponent % 2 == 0 else simplified(numbering, "mul", square, base)


def _where(numbering: ValueNumbering, args: tuple[TileValue, ...]) -> TileValue | None:
    condition, yes, no = args
    if condition.number is not None:
        return yes if condition.number else no
    if yes is no or _same_zero_or_number(yes, no):
        return yes
    clamped = _clamp(numbering, condition, yes, no)
    if clamped is not None:
        return clamped
    if yes.number == 0 and condition.op in {"eq", "ne"}:
        return simplified(numbering, "where", simplified(numbering, NEGATED[condition.op], *condition.args), no, yes)
    for zero, product, shut in ((no, yes, "gt"), (yes, no, "le")):
        if zero.number == 0 and condition.op == shut and condition.args[1].number == 0:
            return product if _vanishes(product, condition.args[0]) else None
    return None


def _same_zero_or_number(left: TileValue, right: TileValue) -> bool:
    """Whether two constants are the same number with the same sign, such as 0 and 0.0."""
    if left.number is None or right.number is None:
        return False
    return left.number == right.number and math.copysign(1.0, left.number) == math.copysign(1.0, right.number)


def _clamp(numbering: ValueNumbering, condition: TileValue, yes: TileValue, no: TileValue) -> TileValue | None:
    """``where(x <= limit or isnan(x), x, limit)`` is how a clamp is decomposed."""
    if condition.op == "logical_or":
        plain = [arg for arg in condition.args if arg.op != "isnan"]
        if len(plain) != 1 or any(arg.op == "isnan" and arg.args[0] is not yes for arg in condition.args):
            return None
        condition = plain[0]
    if condition.op in {"le", "lt", "ge", "gt"} and condition.args[0] is yes and _same_number(condition.args[1], no):
        return simplified(numbering, "minimum" if condition.op in {"le", "lt"} else "maximum", yes, no)
    return None


def _vanishes(product: TileValue, gate: TileValue) -> bool:
    """Whether a product has ``max(gate, 0)`` as a factor, so that it is zero where the gate is shut."""
    if product.op == "mul":
        return any(_vanishes(factor, gate) for factor in product.args)
    return product.op == "maximum" and product.args[0] is gate and product.args[1].number == 0


def _same_number(left: TileValue, right: TileValue) -> bool:
    return left is right or (left.number is not None and left.number == right.number)


def _compare(op: str) -> Rule:
    def rule(numbering: ValueNumbering, args: tuple[TileValue, ...]) -> TileValue | None:
        left, right = args
        if right.number == 0 and left.op == "maximum" and left.args[1].number == 0 and op in {"le", "gt"}:
            return simplified(numbering, op, left.args[0], right)
        if right.number == 0 and left.boolean and op in {"ne", "eq"}:
            return left if op == "ne" else simplified(numbering, "logical_not", left)
        return None

    return rule


def _relu(numbering: ValueNumbering, args: tuple[TileValue, ...]) -> TileValue | None:
    return simplified(numbering, "maximum", args[0], numbering.const(0.0))


def _logical_not(numbering: ValueNumbering, args: tuple[TileValue, ...]) -> TileValue | None:
    inner = args[0]
    if inner.op == "logical_not":
        return inner.args[0]
    return numbering.pointwise(NEGATED[inner.op], *inner.args) if inner.op in NEGATED else None


_REORDERED = frozenset({"add", "sub", "mul", "div", "neg", "tanh"})
_RULES: dict[str, Rule] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "neg": _neg,
    "pow": _pow,
    "where": _where,
    "relu": _relu,
    "logical_not": _logical_not,
    **{op: _compare(op) for op in COMPARISONS},
}


def picked(numbering: ValueNumbering, value: TileValue, index: TileValue, operator: str) -> TileValue:
    """A value at the column ``index`` of each row: one element of each tensor is loaded, and no row is searched.

    Raises:
        CannotCompileError: the value holds parts, or the index is no whole number.
    """
    if not (index.integer or isinstance(index.number, int)):
        raise CannotCompileError(f"`{operator}` looks up at an index that is computed from fractions", operator)
    known: dict[TileValue, TileValue] = {}

    def at(inner: TileValue) -> TileValue:
        if inner not in known:
            known[inner] = _at(inner)
        return known[inner]

    def _at(inner: TileValue) -> TileValue:
        if not inner.space.cols:
            return inner
        if inner.op == "load":
            return numbering.pick(inner, index)
        if inner.op == "column":
            return index
        if inner.op == "pick":
            return numbering.pick(inner, at(inner.args[0]))
        if inner.op in {"cat", "over_rows", "scan"}:
            raise CannotCompileError(
                f"`{operator}` looks up in a row of several parts, in a scan or in a sum over rows", operator
            )
        return simplified(numbering, inner.op, *(at(arg) for arg in inner.args))

    return at(value)


def single_column(numbering: ValueNumbering, value: TileValue) -> TileValue | None:
    """The sum over a row that is zero but for one column, which an index names; None where it is another row.

    An index outside of the row would be an error of the reference.
    """
    if value.op != "where" or value.args[2].number != 0:
        return None
    condition = value.args[0]
    if condition.op != "eq":
        return None
    for column, index in (condition.args, condition.args[::-1]):
        if column.op == "column" and not index.space.cols and (index.integer or isinstance(index.number, int)):
            return picked(numbering, value.args[1], index, "sum")
    return None


Key = frozenset[tuple[TileValue, int]]


def with_shared_sums(numbering: ValueNumbering, roots: list[TileValue]) -> list[TileValue]:
    """Rebuild values so that sums over the same product of columns are the same sum."""
    sums = [v for v in topological(roots) if v.op == "over_cols" and v.datum == "sum" and v.args[0].op == "mul"]
    split = {value: _factors(value.args[0]) for value in sums}
    keys = {value: _factor_key(columns) for value, (_, columns) in split.items()}
    counts = Counter(keys.values())
    common = {value for value in sums if counts[keys[value]] > 1}
    if not common:
        return roots
    cores: dict[Key, TileValue] = {}

    def shared(value: TileValue) -> TileValue | None:
        if value not in common:
            return None
        numbers, columns = split[value]
        if any(inner in common for factor in (*numbers, *columns) for inner in topological([factor])):
            return None
        core = cores.setdefault(keys[value], numbering.over_cols("sum", _product_of(numbering, columns)))
        return _product_of(numbering, [*numbers, core])

    return rewritten(numbering, roots, shared)


def _factors(value: TileValue) -> tuple[list[TileValue], list[TileValue]]:
    """Split a product into factors that are one number a row and factors that vary along it."""
    if not value.space.cols:
        return [value], []
    if value.op != "mul":
        return [], [value]
    (first, left), (second, right) = (_factors(arg) for arg in value.args)
    return first + second, left + right


def _factor_key(columns: list[TileValue]) -> Key:
    return frozenset(Counter(columns).items())


def _product_of(numbering: ValueNumbering, factors: list[TileValue]) -> TileValue:
    return reduce(lambda left, right: simplified(numbering, "mul", left, right), factors)


class TanhRewrite:
    """Rebuilds the values of a pass; ``done`` gives the new form of each."""

    def __init__(self, numbering: ValueNumbering, roots: list[TileValue]) -> None:
        self._numbering = numbering
        values = topological(roots)
        self._replaced = _replaceable(values, roots)
        self.done: dict[TileValue, TileValue] = {}
        for value in values:
            self.done[value] = self._rebuilt(value)

    def _rebuilt(self, value: TileValue) -> TileValue:
        one_more, one_less = _one_plus_tanh(value), _one_minus_square(value)
        if one_more in self._replaced and one_more is not None:
            return scaled(self._numbering, 2.0, self._sigmoid(one_more))
        if one_less in self._replaced and one_less is not None:
            sigmoid = self._sigmoid(one_less)
            rest = simplified(self._numbering, "sub", self._numbering.const(1.0), sigmoid)
            return scaled(self._numbering, 4.0, simplified(self._numbering, "mul", sigmoid, rest))
        args = tuple(self.done[arg] for arg in value.args)
        if all(new is old for new, old in zip(args, value.args, strict=True)):
            return value
        if value.datum is None and value.op != "cat":
            return simplified(self._numbering, value.op, *args)
        return self._numbering.value(value.op, args, value.datum, value.space, value.boolean)

    def _sigmoid(self, tanh: TileValue) -> TileValue:
        return simplified(self._numbering, "sigmoid", scaled(self._numbering, 2.0, self.done[tanh.args[0]]))


def _replaceable(values: list[TileValue], roots: Iterable[TileValue]) -> set[TileValue]:
    """Every tanh whose users are all of the two forms."""
    users: dict[TileValue, list[TileValue]] = {value: [] for value in values}
    for value in values:
        for arg in value.args:
            users[arg].append(value)
    stored = set(roots)
    return {
        value
        for value in values
        if value.op == "tanh"
        and value not in stored
        and all(_is_tanh_form(user, value, users, stored) for user in users[value])
    }


def _is_tanh_form(
    user: TileValue, tanh: TileValue, users: dict[TileValue, list[TileValue]], stored: set[TileValue]
) -> bool:
    if _one_plus_tanh(user) is tanh:
        return True
    squares = user.op == "mul" and user.args == (tanh, tanh) and user not in stored
    return squares and all(_one_minus_square(other) is tanh for other in users[user])


def _one_plus_tanh(value: TileValue) -> TileValue | None:
    if value.op != "add" or 1 not in [arg.number for arg in value.args]:
        return None
    return next((arg for arg in value.args if arg.op == "tanh"), None)


def _one_minus_square(value: TileValue) -> TileValue | None:
    if value.op != "sub" or value.args[0].number != 1 or value.args[1].op != "mul":
        return None
    one, other = value.args[1].args
    return one if one is other and one.op == "tanh" else None
