"""Values as text: Triton source and readable formulas share one printer. Pure."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workers.authors.compiler.domain import FULL
from workers.authors.compiler.graph import CannotCompileError
from workers.authors.compiler.rounding import ROUNDED, type_name
from workers.authors.compiler.values import TileValue, never_negative

COMPARE, OR, AND, SUM, PRODUCT, UNARY, ATOM = 1, 2, 3, 4, 5, 6, 7


@dataclass(frozen=True)
class ExpressionText:
    """A piece of an expression and how tightly it binds; ``whole``: it is a whole number in a language that tells types apart."""

    text: str
    binds: int = ATOM
    whole: bool = False

    def within(self, binds: int) -> str:
        """The text, in parentheses where what is around it binds as tightly as ``binds``."""
        return self.text if self.binds >= binds else f"({self.text})"


_INFIX = {
    "add": ("+", SUM),
    "sub": ("-", SUM),
    "mul": ("*", PRODUCT),
    "div": ("/", PRODUCT),
    "eq": ("==", COMPARE),
    "ne": ("!=", COMPARE),
    "lt": ("<", COMPARE),
    "le": ("<=", COMPARE),
    "gt": (">", COMPARE),
    "ge": (">=", COMPARE),
}


OF_POSITIVE = " of positive"  # ends an operator's name where its first operand is never negative


@dataclass(frozen=True)
class Dialect:
    """How a language writes operators that are no infix: ``{0}`` and so on are the operands."""

    calls: Mapping[str, str]
    logical: Mapping[str, tuple[str, int]]
    floats_in_calls: bool
    language: str = "it"  # what a refusal says has no way to write an operator


TRITON = Dialect(
    {
        "abs": "tl.abs({0})",
        "exp": "tl.exp({0})",
        "exp2": "tl.exp2({0})",
        "log": "tl.log({0})",
        "log2": "tl.log2({0})",
        "log1p": "_log1p({0})",
        "expm1": "_expm1({0})",
        "sqrt": "tl.sqrt({0})",
        "rsqrt": "tl.rsqrt({0})",
        "sigmoid": "tl.sigmoid({0})",
        "tanh": "_tanh({0})",
        "libdevice_tanh": "tanh({0})",  # CUDA's own, as eager mode has it
        "erf": "tl.erf({0})",
        "sin": "tl.sin({0})",
        "cos": "tl.cos({0})",
        "sign": "_sign({0})",
        "floor": "tl.floor({0})",
        "ceil": "tl.ceil({0})",
        "round": "_round({0})",
        "trunc": "_trunc({0})",
        "fmod": "_fmod({0}, {1})",
        "pow": "_pow({0}, {1})",
        f"tanh{OF_POSITIVE}": "_positive_tanh({0})",
        f"pow{OF_POSITIVE}": "_positive_pow({0}, {1})",
        # As torch's; without it a GPU gives the other number where one is NaN.
        "maximum": "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
        "minimum": "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
        "where": "tl.where({0}, {1}, {2})",
        "float": "tl.cast({0}, tl.float32)",
    },
    {"logical_and": ("&", AND), "logical_or": ("|", OR)},
    True,
)
# What cuTile lacks (`erf`, CUDA's own `tanh`) is refused. Its division and exponential are exact where nothing is said: with what
# Triton writes without asking, softmax takes 2264 instructions in place of 4288 (sm_90, 32768 columns, bfloat16).
CUTILE = Dialect(
    {
        **{
            op: text.replace("tl.", "ct.")
            for op, text in TRITON.calls.items()
            if op not in {"erf", "libdevice_tanh"} and "propagate_nan" not in text
        },
        "div": "ct.truediv({0}, {1}, rounding_mode=ct.RoundingMode.FULL)",
        "reciprocal": "ct.truediv(1.0, {0}, rounding_mode=ct.RoundingMode.FULL)",
        "exp": "ct.exp({0}, rounding_mode=ct.RoundingMode.APPROX)",
        "sigmoid": "_sigmoid({0})",
        "maximum": "ct.maximum({0}, {1}, propagate_nan=True)",
        "minimum": "ct.minimum({0}, {1}, propagate_nan=True)",
        "float": "ct.astype({0}, ct.float32)",
    },
    TRITON.logical,
    True,
    "cuTile",
)
_CUTE_FUNCTIONS = "abs exp exp2 log log2 log1p expm1 sqrt rsqrt tanh erf sin cos floor ceil trunc"
# A value is a vector of a thread's elements, of which some operators take no number beside one, and CUDA's functions are at hand.
CUTE = Dialect(
    {
        **{name: f"cute.math.{name}({{0}})" for name in _CUTE_FUNCTIONS.split()},
        "libdevice_tanh": "cute.math.tanh({0})",
        "round": "cute.math.roundeven({0})",
        "sigmoid": "_sigmoid({0})",
        "sign": "_sign({0})",
        "maximum": "_maximum({0}, {1})",
        "minimum": "_minimum({0}, {1})",
        "where": "_where({0}, {1}, {2})",
        "logical_not": "_not({0})",
        "float": "cutlass.Float32({0})",
    },
    TRITON.logical,
    True,
    "CuTe DSL",
)
FORMULA = Dialect(
    {
        **{
            name: name + "({0})"
            for name in [
                "abs",
                "exp",
                "log",
                "log1p",
                "expm1",
                "sqrt",
                "rsqrt",
                "tanh",
                "erf",
                "sin",
                "cos",
                "sign",
                "floor",
                "ceil",
                "round",
                "trunc",
            ]
        },
        "libdevice_tanh": "tanh({0})",
        "sigmoid": "sigmoid({0})",
        "exp2": "2^({0})",
        "log2": "log2({0})",
        "fmod": "fmod({0}, {1})",
        "pow": "({0})^({1})",
        "maximum": "max({0}, {1})",
        "minimum": "min({0}, {1})",
        "where": "where({0}, {1}, {2})",
    },
    {"logical_and": ("and", AND), "logical_or": ("or", OR)},
    False,
)
LARGEST_FLOAT32 = 3.4028234e38
_TAKE_WHOLE = frozenset(
    {"where", "maximum", "minimum", "abs", "float", "div"}
)  # of the calls: others are functions of fractions alone


def number(value: float | bool, floating: bool = False) -> str:
    """Write a number; whole ones without a point unless ``floating``."""
    if isinstance(value, bool):
        return str(value)
    if value != value or abs(value) == float("inf"):
        return f'{"-" if value < 0 else ""}float("{"nan" if value != value else "inf"}")'
    if value == int(value) and abs(value) < 1e6 and not floating:
        return str(int(value))
    return plain(_shortest(float(value)))


def plain(value: object) -> str:
    """Write a value as people do: 1e-6, not 1e-06."""
    return re.sub(r"e([+-])0+(?=\d)", r"e\1", repr(value))


def _shortest(value: float) -> float:
    """The shortest number that float32 takes for this one, where a float32 is what it is; kernels compute in float32."""
    if abs(value) > LARGEST_FLOAT32 or _as_float32(value) != value:
        return value
    return next(short for digits in range(1, 18) if _as_float32(short := float(f"{value:.{digits}g}")) == value)


def _as_float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def spelled(value: TileValue, dialect: Dialect) -> str:
    """The operator that a language writes for a value: where it has one, that for a first operand that is never negative."""
    own = value.op + OF_POSITIVE
    return own if own in dialect.calls and never_negative(value.args[0]) else value.op


def compose(value: TileValue, dialect: Dialect, operand: Callable[[TileValue], ExpressionText]) -> ExpressionText:
    """Emit one operation on emitted operands."""
    if value.number is not None:
        text = number(value.number)
        return ExpressionText(text, UNARY if text.startswith("-") else ATOM)
    if value.op == "neg":
        return ExpressionText("-" + operand(value.args[0]).within(UNARY), UNARY)
    is_called = value.op in dialect.calls and value.space == FULL  # infix operators of an element of each row
    if value.op == "reciprocal" and not is_called:
        return ExpressionText("1 / " + operand(value.args[0]).within(UNARY), PRODUCT)
    if value.op == "logical_not" and value.op not in dialect.calls:
        return ExpressionText(
            "~" + operand(value.args[0]).within(ATOM)
            if dialect.floats_in_calls
            else "not " + operand(value.args[0]).within(ATOM),
            UNARY,
        )
    if value.op == "isnan":
        inner = operand(value.args[0]).within(SUM)
        return ExpressionText(f"{inner} != {inner}", COMPARE)
    if value.op in _INFIX and not is_called:
        return _infix(value, dialect, operand)
    if value.op in dialect.logical:
        symbol, binds = dialect.logical[value.op]
        left, right = (operand(arg) for arg in value.args)
        return ExpressionText(f"{left.within(ATOM)} {symbol} {right.within(ATOM)}", binds)
    if value.op in {"over_cols", "over_rows"} and not dialect.floats_in_calls:
        return ExpressionText(
            f"{value.datum}{'_rows' if value.op == 'over_rows' else ''}({operand(value.args[0]).text})"
        )
    if value.op == "scan" and not dialect.floats_in_calls:
        kind, _, reverse = str(value.datum).partition(" ")
        return ExpressionText(f"cum{kind}{'_from_the_end' if reverse else ''}({operand(value.args[0]).text})")
    if value.op == "float" and not dialect.floats_in_calls:
        return operand(value.args[0])
    if value.op == ROUNDED:
        cast = operand(value.args[0])
        narrow = f"{cast.within(ATOM)}.to({type_name(value)}).to(tl.float32)"
        return ExpressionText(narrow) if dialect.floats_in_calls else cast
    if value.op == "cat" and not dialect.floats_in_calls:
        return ExpressionText(f"[{', '.join(operand(arg).text for arg in value.args)}]")
    if value.op not in dialect.calls:
        raise CannotCompileError(f"{dialect.language} has no way to write `{value.op}` yet", value.op)
    return ExpressionText(
        dialect.calls[spelled(value, dialect)].format(*(_argument(arg, value, dialect, operand) for arg in value.args))
    )


def _argument(arg: TileValue, call: TileValue, dialect: Dialect, operand: Callable[[TileValue], ExpressionText]) -> str:
    if arg.number is not None:
        return number(arg.number, dialect.floats_in_calls and not call.integer)
    text = operand(arg)
    is_cast = text.whole and dialect.floats_in_calls and call.op not in _TAKE_WHOLE
    return dialect.calls["float"].format(text.text) if is_cast else text.text


def _infix(value: TileValue, dialect: Dialect, operand: Callable[[TileValue], ExpressionText]) -> ExpressionText:
    symbol, binds = _INFIX[value.op]
    left, right = (operand(arg) for arg in value.args)
    if binds == COMPARE:
        return ExpressionText(f"{left.within(SUM)} {symbol} {right.within(SUM)}", binds)
    flat = value.op == "mul" and right.binds == PRODUCT and _flattens(value)
    flat = flat and not (value.args[1].op == "div" and "div" in dialect.calls)  # it would divide each element
    return ExpressionText(f"{left.within(binds)} {symbol} {right.text if flat else right.within(binds + 1)}", binds)


def _flattens(value: TileValue) -> bool:
    """A product of a product needs no parentheses where it costs no more work: 0.5 * a * b, but x * (mean * rstd)."""
    left, right = value.args
    return (
        (right.op == "mul" or right.op == "div") and right.space == right.args[0].space and left.space != right.space
    ) or (left.number is not None and right.op in {"mul", "div"})
