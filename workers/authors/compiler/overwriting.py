"""Gradients in the memory of inputs and upstream gradients, where the brief allows it and the kernel makes it safe. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from workers.authors.compiler.domain import FULL
from workers.authors.compiler.program import Program, Result
from workers.authors.compiler.values import Value

UPSTREAM = "upstream "


def allowed_nodes(program: Program, may_overwrite: Iterable[str]) -> tuple[str, ...]:
    """Give the graph's names of the tensors that a brief allows to be overwritten; ``upstream N`` is that of output N."""
    graph, nodes = program.graph, []
    for name in may_overwrite:
        place = name.removeprefix(UPSTREAM)
        if name.startswith(UPSTREAM) and place.isdecimal() and int(place) < len(graph.upstream):
            nodes.append(graph.upstream[int(place)])
        elif name in graph.inputs:
            nodes.append(name)
    return tuple(node for node in dict.fromkeys(nodes) if node is not None)


def overwritten(
    program: Program, allowed: tuple[str, ...], at_hand: tuple[str, ...], values: Iterable[Value]
) -> dict[str, str]:
    """Give, for gradients by their graph names, the tensor whose memory each is written into; ``values`` are the kernel's.

    A kernel reads a tensor of all rows and columns element by element, each by one program, which reads all that it needs of
    an element, and of its row, before it writes there. So any such tensor of the same shape and dtype will do, once, unless it
    is itself the gradient of another input, or read by an index, which any element may be.
    """
    kept = {str(result.value.datum) for _, result in program.gradients if program.is_upstream(result)}
    kept |= {program.domain.base(str(v.datum)) for v in values if v.op != "load" and isinstance(v.datum, str)}
    free = [node for node in allowed if node in at_hand and node not in kept]
    found: dict[str, str] = {}
    owners = {program.key(result): name for name, result in reversed(program.gradients)}
    for result in program.backward_results:
        own = owners[program.key(result)]
        fitting = [node for node in free if _fits(program, result, own, node)]
        if fitting:
            found[result.node] = own if own in fitting else fitting[0]
            free.remove(found[result.node])
    return found


def _fits(program: Program, result: Result, owner: str, node: str) -> bool:
    domain = program.domain
    if result.space != FULL or result.summed or domain.shapes[node] != domain.shapes[result.node]:
        return False
    if domain.space_of(node) != FULL or set(domain.rows_of(node)) != set(domain.row_axes):
        return False
    return program.fixed_dtype(node) == program.fixed_dtype(owner)
