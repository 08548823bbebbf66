"""Simplification: what a person would not write is not emitted. Pure.

Every rule keeps the value in exact arithmetic; the order of rounding may change. Values are float32 from the load to the store,
so that casts between floating types in the middle are dropped: the result is at least as exact as the reference's. A value that is
to be rounded as in eager mode (``rounding``) is of no form that a rule looks for, so that none reaches across it. Where operations
are to stay in their order, none is changed for another.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from workers.authors.compiler.operators import COMPARISONS, NEGATED
from workers.authors.compiler.values import Pool, Value

MAX_UNROLLED_POWER = 64
Rule = Callable[[Pool, tuple[Value, ...]], Value | None]

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


def simplified(pool: Pool, op: str, *args: Value) -> Value:
    """Give an operation in its simplest form."""
    numbers = [arg.number for arg in args]
    if op in _FOLDED and all(number is not None for number in numbers):
        try:
            return pool.const(_FOLDED[op](*numbers))
        except (ValueError, ZeroDivisionError, OverflowError):
            return pool.pointwise(op, *args)
    if pool.in_order and op in _REORDERED:
        return _in_order(pool, op, args)
    rule = _RULES.get(op)
    found = rule(pool, args) if rule is not None else None
    return found if found is not None else pool.pointwise(op, *args)


def _in_order(pool: Pool, op: str, args: tuple[Value, ...]) -> Value:
    """Give an operation as it is, a number behind what it changes; nothing is left of one that changes no bit."""
    if len(args) == 1:
        return pool.pointwise("libdevice_tanh" if op == "tanh" else op, *args)
    left, right = args
    if op in {"add", "mul"} and left.number is not None:
        left, right = right, left
    if right.number == (0 if op in {"add", "sub"} else 1):
        return left
    return pool.pointwise(op, left, right)


def scaled(pool: Pool, factor: float, value: Value) -> Value:
    """Give a value times a number, the number kept outermost."""
    inner, core = coefficient(value)
    factor = factor * inner
    if factor == 0:
        return pool.const(0.0)
    if factor == 1:
        return core
    if core.number is not None:
        return pool.const(factor * core.number)
    if factor == -1:
        return pool.pointwise("neg", core)
    return pool.pointwise("mul", pool.const(factor), core)


def coefficient(value: Value) -> tuple[float, Value]:
    """Split a value into the number it is multiplied by and the rest."""
    if value.op == "neg":
        factor, core = coefficient(value.args[0])
        return -factor, core
    if value.op == "mul" and value.args[0].number is not None:
        return float(value.args[0].number), value.args[1]
    return 1.0, value


def _add(pool: Pool, args: tuple[Value, ...]) -> Value | None:
    left, right = args
    if left.number == 0:
        return right
    if right.number == 0:
        return left
    factor, core = coefficient(right)
    if factor < 0:
        return simplified(pool, "sub", left, scaled(pool, -factor, core))
    factor, core = coefficient(left)
    if factor < 0:
        return simplified(pool, "sub", right, scaled(pool, -factor, core))
    if left is right:
        return scaled(pool, 2.0, left)
    return None


def _sub(pool: Pool, args: tuple[Value, ...]) -> Value | None:
    left, right = args
    if right.number == 0:
        return left
    if left is right:
        return pool.const(0.0)
    if left.number == 0:
        return scaled(pool, -1.0, right)
    factor, core = coefficient(right)
    if factor < 0:
        return simplified(pool, "add", left, scaled(pool, -factor, core))
    return None


def _mul(pool: Pool, args: tuple[Value, ...]) -> Value | None:
    (first, left), (second, right) = coefficient(args[0]), coefficient(args[1])
    for factor, other in ((args[0], args[1]), (args[1], args[0])):
        if factor.number is not None:
            return scaled(pool, float(factor.number), other)
    if first * second != 1 or left is not args[0] or right is not args[1]:
        return scaled(pool, first * second, simplified(pool, "mul", left, right))
    for one, other in ((left, right), (right, left)):
        if one.op == "reciprocal":
            return simplified(pool, "div", other, one.args[0])
        # (r / n) * x is r / n computed once a row; r / n / n would round twice, so that only whole quotients of one move.
        if one.op == "div" and one.args[0].number == 1:
            return simplified(pool, "div", other, one.args[1])
    return None


def _div(pool: Pool, args: tuple[Value, ...]) -> Value | None:
    left, right = args
    if right.number == 1:
        return left
    if left.number == 0:
        return pool.const(0.0)
    if right.number is not None and right.number != 0 and math.frexp(abs(right.number))[0] == 0.5:
        return scaled(pool, 1.0 / right.number, left)
    factor, core = coefficient(left)
    if factor != 1 and core is not left:
        return scaled(pool, factor, simplified(pool, "div", core, right))
    return None


def _neg(pool: Pool, args: tuple[Value, ...]) -> Value | None:
    return scaled(pool, -1.0, args[0])


def _pow(pool: Pool, args: tuple[Value, ...]) -> Value | None:
    base, exponent = args[0], args[1].number
    if exponent is None:
        return None
    if exponent == 0:
        return pool.const(1.0)
    if exponent < 0:
        inverted = {-0.5: "rsqrt", -1: "reciprocal"}.get(exponent)
        if inverted:
            return simplified(pool, inverted, base)
        return simplified(pool, "reciprocal", simplified(pool, "pow", base, pool.const(-exponent)))
    if exponent == 0.5:
        return simplified(pool, "sqrt", base)
    if exponent != int(exponent) or exponent > MAX_UNROLLED_POWER:
        return None
    return _power(pool, base, int(exponent))


def _power(pool: Pool, base: Value, exponent: int) -> Value:
    if exponent == 1:
        return base
    half = _power(pool, base, exponent // 2)
    square = simplified(pool, "mul", half, half)
    return square if exponent % 2 == 0 else simplified(pool, "mul", square, base)


def _where(pool: Pool, args: tuple[Value, ...]) -> Value | None:
    condition, yes, no = args
    if condition.number is not None:
        return yes if condition.number else no
    if yes is no:
        return yes
    clamped = _clamp(pool, condition, yes, no)
    if clamped is not None:
        return clamped
    if yes.number == 0 and condition.op in NEGATED:
        return simplified(pool, "where", simplified(pool, NEGATED[condition.op], *condition.args), no, yes)
    if no.number == 0 and condition.op == "gt" and condition.args[1].number == 0 and _vanishes(yes, condition.args[0]):
        return yes
    return None


def _clamp(pool: Pool, condition: Value, yes: Value, no: Value) -> Value | None:
    """``where(x <= limit or isnan(x), x, limit)`` is how a clamp is decomposed."""
    if condition.op == "logical_or":
        plain = [arg for arg in condition.args if arg.op != "isnan"]
        if len(plain) != 1 or any(arg.op == "isnan" and arg.args[0] is not yes for arg in condition.args):
            return None
        condition = plain[0]
    if condition.op in {"le", "lt", "ge", "gt"} and condition.args[0] is yes and _same_number(condition.args[1], no):
        return simplified(pool, "minimum" if condition.op in {"le", "lt"} else "maximum", yes, no)
    return None


def _vanishes(product: Value, gate: Value) -> bool:
    """Tell whether a product has ``max(gate, 0)`` as a factor, so that it is zero where the gate is shut."""
    if product.op == "mul":
        return any(_vanishes(factor, gate) for factor in product.args)
    return product.op == "maximum" and product.args[0] is gate and product.args[1].number == 0


def _same_number(left: Value, right: Value) -> bool:
    return left is right or (left.number is not None and left.number == right.number)


def _compare(op: str) -> Rule:
    def rule(pool: Pool, args: tuple[Value, ...]) -> Value | None:
        left, right = args
        if right.number == 0 and left.op == "maximum" and left.args[1].number == 0 and op in {"le", "gt"}:
            return simplified(pool, op, left.args[0], right)
        if right.number == 0 and left.boolean and op in {"ne", "eq"}:
            return left if op == "ne" else simplified(pool, "logical_not", left)
        return None

    return rule


def _relu(pool: Pool, args: tuple[Value, ...]) -> Value | None:
    return simplified(pool, "maximum", args[0], pool.const(0.0))


def _logical_not(pool: Pool, args: tuple[Value, ...]) -> Value | None:
    inner = args[0]
    if inner.op == "logical_not":
        return inner.args[0]
    return pool.pointwise(NEGATED[inner.op], *inner.args) if inner.op in NEGATED else None


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
