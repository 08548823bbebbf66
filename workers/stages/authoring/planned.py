"""The plan of a kernel that nobody has written yet, as far as its graph tells: for the profile that people decide on. Pure."""

from __future__ import annotations

from gpu_runner.contracts import Graph, Problem
from workers.authors.protocol import KernelPlan
from workers.layouts.dimensions import forward_operators

REDUCTIONS = frozenset({"sum", "mean", "amax", "amin", "argmax", "cumsum", "sort", "var"})
PRODUCTS = frozenset({"dot", "matmul", "conv"})
SENSITIVE = frozenset(
    {"exp", "exp2", "log", "log2", "log1p", "expm1", "rsqrt", "sqrt", "tanh", "sigmoid", "erf", "pow"}
)
OPEN = "as the model author writes it"


def plan_of_graph(problem: Problem, graph: Graph) -> KernelPlan:
    """Give what the graph says of a kernel; what only its author can say is named as open."""
    operators = forward_operators(graph)
    reduces = bool(operators & (REDUCTIONS | PRODUCTS))
    tier = 3 if operators & PRODUCTS else 2 if reduces else 1
    gradients = tuple((spec.name, "by the chain rule from the reference") for spec in problem.inputs if spec.grad)
    return KernelPlan(
        family={1: "element-wise", 2: "reduction", 3: "fused"}[tier],
        tier=tier,
        kernels=(),
        forward_formula="as the reference computes it",
        gradient_formulas=gradients,
        saved_tensors=(),
        recomputed=OPEN,
        precision_sensitive_ops=tuple(sorted((operators & SENSITIVE) | (operators & REDUCTIONS))),
        grid_dimensions="1D",
        grid_description=OPEN,
        block_size_source=OPEN,
        needs_sm_parallelism=False,
        forward_bytes="0",
        backward_bytes="0",
        forward_flops="0",
        backward_flops="0",
    )
