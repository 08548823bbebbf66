"""The pointwise operators that the compiler knows, and what each needs of the others. Pure tables."""

from __future__ import annotations

from gpu_runner.contracts import BINARY_OPERATORS, UNARY_OPERATORS

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
