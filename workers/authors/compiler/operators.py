"""The pointwise operators that the compiler knows, and what each needs of the others. Pure tables."""

from __future__ import annotations

UNARY = frozenset(
    [
        "neg",
        "abs",
        "exp",
        "exp2",
        "log",
        "log2",
        "log1p",
        "expm1",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "sigmoid",
        "tanh",
        "erf",
        "sin",
        "cos",
        "relu",
        "sign",
        "floor",
        "ceil",
        "round",
        "trunc",
        "logical_not",
        "isnan",
    ]
)
BINARY = frozenset(
    [
        "add",
        "sub",
        "mul",
        "div",
        "pow",
        "maximum",
        "minimum",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "logical_and",
        "logical_or",
        "fmod",
    ]
)
COMPARISONS = frozenset(["eq", "ne", "lt", "le", "gt", "ge"])
BOOLEAN = COMPARISONS | {"logical_and", "logical_or", "logical_not", "isnan"}
POINTWISE = UNARY | BINARY | {"where", "cast"}
REDUCTIONS = frozenset({"sum", "amax", "amin"})
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
