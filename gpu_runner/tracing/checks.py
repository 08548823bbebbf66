"""What a captured graph says about its problem: every output must depend on an input, and every input must matter. Pure."""

from __future__ import annotations

import ast

from gpu_runner.contracts import Graph, NodeRef, Problem, ProblemError


def check(graph: Graph, problem: Problem) -> None:
    """Check what depends on what.

    Raises:
        ProblemError: naming the output or the input, with its line.
    """
    behind = _inputs_behind(graph)
    used: set[str] = set()
    for number, output in enumerate(graph.outputs):
        if not behind[output]:
            raise ProblemError(
                f"output {number} does not depend on any input",
                _line(problem.source, None),
                "Compute it from the inputs, or leave it out.",
            )
        used |= behind[output]
    for name in graph.inputs:
        if name not in used:
            raise ProblemError(
                f"no output depends on input `{name}`",
                _line(problem.source, name),
                f"Use `{name}` in the reference or take it out of its parameters and INPUTS.",
            )


def _inputs_behind(graph: Graph) -> dict[str, frozenset[str]]:
    behind: dict[str, frozenset[str]] = {}
    for node in graph.nodes:
        if node.op == "input":
            behind[node.name] = frozenset({node.name})
            continue
        values = [*node.args, *(value for _, value in node.kwargs)]
        flat = [item for value in values for item in (value if isinstance(value, tuple) else (value,))]
        behind[node.name] = frozenset().union(*(behind[item.name] for item in flat if isinstance(item, NodeRef)))
    return behind


def _line(source: str, parameter: str | None) -> int | None:
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == "reference":
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            return next((a.lineno for a in given if a.arg == parameter), node.lineno)
    return None
