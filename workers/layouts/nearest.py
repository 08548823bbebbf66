"""The existing kernel that a new one is most like: by operators, reductions, inputs and name. Pure."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from gpu_runner.contracts import Graph, Problem
from gpu_runner.contracts.syntax import UNPARSABLE
from workers.layouts.rank import forward_operators, subtracts_a_sum

# A trait of a kernel, and how it shows in Triton source.
TRAITS = {
    "dot": r"\btl\.dot\(|\btorch\.(?:mm|matmul|addmm)\(|\bconv\dd\(|\w @ \w",
    "erf": r"\berf\(",
    "exp": r"\btl\.(?:math\.)?exp2?\(|\bexp\(",
    "gather": r"\bindices(?:_ptr)?\b",
    "log": r"\btl\.(?:math\.)?log2?\(",
    "centred": r"- (?:row_)?(?:mean|mu)\b",
    "max": r"\btl\.max\(",
    "relu": r"\btl\.maximum\([^()]*, 0(?:\.0)?\)",
    "rsqrt": r"\brsqrt\(",
    "scan": r"\btl\.(?:cumsum|associative_scan|sort)\(",
    "sigmoid": r"\bsigmoid\(",
    "sin": r"\b(?:sin|cos)(?:_row|_ptr|\()|\bfreqs",
    "sum": r"\btl\.sum\(",
    "tanh": r"\btanh\(",
    "weight": r"\b(?:d?gamma|dW|W|weight)(?:_ptr)?\b",
}
OPERATORS = {
    "amax": "max",
    "argmax": "max",
    "cos": "sin",
    "exp2": "exp",
    "expm1": "exp",
    "index_select": "gather",
    "log1p": "log",
    "log2": "log",
    "matmul": "dot",
    "sqrt": "rsqrt",
}
ACTIVATIONS = frozenset({"erf", "relu", "sigmoid", "tanh"})
STRUCTURE = frozenset({"centred", "dot", "gather", "log", "max", "rsqrt", "scan", "sin", "sum", "weight"})
# One with a matrix product, or with rows that are centred first, teaches little about one without, and the other way round.
APART = frozenset({"centred", "dot"})


@dataclass(frozen=True)
class Likeness:
    """What a kernel is compared by."""

    name: str
    traits: frozenset[str]
    tensors: int  # given to the forward pass


def likeness_of_source(name: str, source: str) -> Likeness:
    """Read the likeness of an existing kernel from its source."""
    traits = frozenset(trait for trait, pattern in TRAITS.items() if re.search(pattern, source))
    return Likeness(name, traits, _tensors(source))


def likeness_of_problem(name: str, problem: Problem, graph: Graph) -> Likeness:
    """Read the likeness of a new kernel from its graph."""
    operators = {node.op for node in graph.nodes}
    traits = {OPERATORS.get(op, op) for op in operators if OPERATORS.get(op, op) in TRAITS}
    # A sum that only the gradient of a parameter needs says nothing of the forward pass.
    if "sum" in traits and not forward_operators(graph) & {"sum", "mean"}:
        traits.discard("sum")
    if any(spec.parameter for spec in problem.inputs):
        traits.add("weight")
    if subtracts_a_sum(graph):
        traits.add("centred")
    return Likeness(name, frozenset(traits), len(problem.inputs))


def likenesses(sources: dict[str, str]) -> tuple[Likeness, ...]:
    """Read the likenesses of existing kernels, by name and source; what holds no Triton kernel itself is left out."""
    return tuple(likeness_of_source(name, text) for name, text in sources.items() if "@triton.jit" in text)


def nearest(new: Likeness, existing: tuple[Likeness, ...]) -> str | None:
    """Give the name of the existing kernel that is most like the new one, None where there is none."""
    ranked = by_likeness(new, existing)
    return ranked[0] if ranked else None


def by_likeness(new: Likeness, existing: tuple[Likeness, ...]) -> tuple[str, ...]:
    """Give the names of existing kernels, those most like the new one first."""
    ranked = sorted(existing, key=lambda other: (-_score(new, other), len(other.traits), len(other.name), other.name))
    return tuple(other.name for other in ranked)


def _score(new: Likeness, other: Likeness) -> float:
    ours, theirs = new.traits & STRUCTURE, other.traits & STRUCTURE
    structure = 2.0 * _overlap(ours, theirs)
    activation = 0.75 * _overlap(new.traits - STRUCTURE, other.traits - STRUCTURE)
    activation += 0.5 * bool(new.traits & ACTIVATIONS and other.traits & ACTIVATIONS)
    inputs = 2.0 / (1 + abs(new.tensors - other.tensors))
    apart = len((ours ^ theirs) & APART)
    return structure + activation + inputs + 1.5 * _named_alike(new.name, other.name) - apart


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 1.0


def _named_alike(one: str, other: str) -> float:
    ours, theirs = set(one.split("_")), set(other.split("_"))
    shared = len(ours & theirs) / len(ours | theirs)
    families = [
        end for end in ("glu", "norm", "softmax", "max", "loss", "rope") if one.endswith(end) and other.endswith(end)
    ]
    return max(shared, 0.6 if families else 0.0)


def _tensors(source: str) -> int:
    try:
        tree = ast.parse(source)
    except UNPARSABLE:
        return 0
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any("Function" in ast.unparse(base) for base in node.bases):
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name == "forward":
                    required = item.args.args[1 : len(item.args.args) - len(item.args.defaults)]
                    return len([a for a in required if a.arg not in ("eps", "dim", "ctx")])
    return 0
