"""Which tensors of a problem have a dtype of their own, and which follow the call's. Pure."""

from __future__ import annotations

from gpu_runner.contracts import Graph, Problem


def fixed_dtype(problem: Problem, graph: Graph, node: str) -> str | None:
    """Give the dtype of an input, an output or its gradient where it does not follow the call's, None where it does.

    The graph is traced in float32, so that only another dtype in it is sure to be meant; what the capture saw with bfloat16
    inputs tells a cast to float32 from one to the input's dtype.
    """
    declared = {spec.name: spec.dtype for spec in problem.inputs}
    if node in declared:
        return declared[node]
    for index, names in enumerate(zip(graph.outputs, graph.upstream, strict=True)):
        if node in names:
            traced = next(n.meta.dtype for n in graph.nodes if n.name == graph.outputs[index])
            seen = graph.output_dtypes[index] if graph.output_dtypes else "bfloat16"
            return traced if traced != "float32" else None if seen == "bfloat16" else seen
    return None


def follows_call(problem: Problem, graph: Graph, node: str) -> bool:
    """Tell whether a tensor that kernels are handed is sure to have the call's dtype, which a parameter need not have."""
    parameters = {spec.name for spec in problem.inputs if spec.parameter}
    known = {*graph.inputs, *graph.outputs, *graph.upstream} - parameters
    return node in known and fixed_dtype(problem, graph, node) is None
