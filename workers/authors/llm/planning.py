"""The plan out of an answer. Pure.

A plan is for people: nothing is proved by it. So a count of bytes or FLOPs that is no arithmetic is replaced by what the problem
itself says and a note, and does not cost the kernel that it stands beside.
"""

from __future__ import annotations

import ast
import warnings
from typing import Any

from gpu_runner.contracts import Expr, Graph, Problem
from gpu_runner.contracts.syntax import UNPARSABLE
from workers.authors.protocol import KernelPlan, KernelSketch

MOST_CHARACTERS = 400
MOST_DEPTH = 40
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv)
MOST_NUMBER = 2**53


def plan_from(data: dict[str, Any], problem: Problem, graph: Graph | None) -> KernelPlan:
    """The plan of an answer's object; counts that cannot be read are replaced, and a note says so."""
    least = least_bytes(problem, graph)
    defaults = {"forward_bytes": least, "backward_bytes": least, "forward_flops": "0", "backward_flops": "0"}
    known = {*problem.dimensions, *(scalar.name for scalar in problem.scalars), "E"}
    counts = {name: data[name].strip() if is_count(data[name], known) else None for name in defaults}
    replaced = [name.replace("_", " ") for name, text in counts.items() if text is None]
    notes = tuple(data["notes"])
    if replaced:
        notes += (
            f"the model's {', '.join(replaced)} could not be read; each input and output once, no FLOPs, stand for it",
        )
    given = {name: counts[name] or defaults[name] for name in defaults}
    return KernelPlan(
        family=data["family"],
        tier=int(data["tier"]),
        kernels=tuple(
            KernelSketch(kernel["name"], kernel["pass"], kernel["iteration_space"], kernel["grid"])
            for kernel in data["kernels"]
        ),
        forward_formula=data["forward_formula"],
        gradient_formulas=tuple((entry["input"], entry["formula"]) for entry in data["gradient_formulas"]),
        saved_tensors=tuple(data["saved_tensors"]),
        recomputed=data["recomputed"],
        precision_sensitive_ops=tuple(data["precision_sensitive_ops"]),
        grid_dimensions=data["grid_dimensions"],
        grid_description=data["grid_description"],
        block_size_source=data["block_size_source"],
        needs_sm_parallelism=data["needs_sm_parallelism"],
        notes=notes,
        **given,
    )


def is_count(text: str, known: set[str]) -> bool:
    """Whether a text is arithmetic over ``known`` names and whole numbers, without powers: cheap to evaluate anywhere."""
    if len(text) > MOST_CHARACTERS:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval").body
    except UNPARSABLE:
        return False
    return _is_count(tree, known, MOST_DEPTH)


def _is_count(node: ast.expr, known: set[str], depth: int) -> bool:
    if depth == 0:
        return False
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float) and 0 <= node.value <= MOST_NUMBER  # type: ignore[operator]
    if isinstance(node, ast.Name):
        return node.id in known
    if isinstance(node, ast.BinOp) and isinstance(node.op, OPERATORS):
        return _is_count(node.left, known, depth - 1) and _is_count(node.right, known, depth - 1)
    return False


def least_bytes(problem: Problem, graph: Graph | None) -> str:
    """The bytes of each input and output once, as an expression; an integer input counts as an element of the dtype."""
    metas = {node.name: node.meta for node in graph.nodes} if graph is not None else {}
    shapes = [spec.dims for spec in problem.inputs]
    outputs = [metas[name].shape for name in graph.outputs if name in metas] if graph is not None else []
    shapes += [tuple(_factor(size) for size in shape) for shape in outputs]
    return " + ".join(" * ".join([*shape, "E"]) for shape in shapes) or "0"


def _factor(size: int | Expr) -> str:
    text = str(size) if isinstance(size, int) else size.text
    return text if text.isidentifier() or text.isdigit() else f"({text})"
