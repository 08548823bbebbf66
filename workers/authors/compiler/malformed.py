"""What a graph must hold before anything is read from it; what does not is refused by name. Pure."""

from __future__ import annotations

from gpu_runner.contracts import Graph, Problem
from gpu_runner.contracts.graph import Expr, Node, NodeRef
from workers.authors.compiler.axes import references
from workers.authors.compiler.operators import BINARY, GATHERS, REDUCTIONS, SCANS, UNARY
from workers.authors.compiler.refusals import CannotCompileError

# How many arguments an operator has at least and at most; of operators that are not here the compiler says that it lacks them.
ARITIES = {
    **dict.fromkeys(UNARY | {"cast", "reshape", "expand"}, (1, 1)),
    **dict.fromkeys(BINARY, (2, 2)),
    **dict.fromkeys(REDUCTIONS, (1, 3)),
    **dict.fromkeys(GATHERS, (3, 3)),
    **dict.fromkeys(SCANS, (3, 3)),
    "where": (3, 3),
    "arange": (1, 1),
    "full": (1, 1),
    "permute": (2, 2),
    "slice": (2, 5),
    "cat": (2, 2),
    "input": (0, 0),
    "upstream": (0, 0),
}


def require_well_formed(problem: Problem, graph: Graph) -> None:
    """Look at every name, argument and dimension that the compiler follows.

    Raises:
        CannotCompileError: one of them leads nowhere.
    """
    known: dict[str, Node] = {}
    for node in graph.nodes:
        _require(node.name not in known, f"two nodes of the graph have the name `{node.name}`")
        _require_node(node, known)
        known[node.name] = node
    given = tuple(spec.name for spec in problem.inputs)
    _require(set(graph.inputs) == set(given), "the graph's inputs are not the problem's")
    _require(all(known[name].op == "input" for name in given if name in known), "an input of the graph is computed")
    ranks = {spec.name: len(spec.dims) for spec in problem.inputs}
    for name in (n for n in given if n in known):
        _require(len(known[name].meta.shape) == ranks[name], f"`{name}` has another rank than the problem says")
    for node in graph.nodes:
        handed = {"input": given, "upstream": graph.upstream}.get(node.op, (node.name,))
        _require(node.name in handed, f"`{node.name}` is handed to the graph by nobody", node.op)
    _require(bool(graph.outputs), "the graph has no output")
    _require(len(graph.upstream) == len(graph.outputs), "the graph names more or fewer upstream gradients than outputs")
    gradients = dict(graph.gradients)
    _require(set(gradients) <= set(given), "the graph has the gradient of something that is no input")
    for wanted in (*given, *graph.outputs, *graph.upstream, *gradients.values()):
        _require(wanted is None or wanted in known, f"the graph lacks the node `{wanted}`, which it names")
    parameters = {*given, *(spec.name for spec in problem.scalars)}
    _require(set(problem.parameters) <= parameters, "a parameter of the reference is neither an input nor a scalar")
    free = any(spec.dtype is None for spec in problem.inputs)
    _require(free, "every input has a dtype of its own, so that no dtype follows from the call")


def _require_node(node: Node, known: dict[str, Node]) -> None:
    operator = node.op
    for reference in references(node.args):
        _require(
            reference.name in known, f"`{operator}` takes `{reference.name}`, which nothing computes before", operator
        )
    if operator not in ARITIES:
        return
    least, most = ARITIES[operator]
    _require(least <= len(node.args) <= most, f"`{operator}` has {len(node.args)} arguments", operator)
    for dim in node.meta.shape:
        whole = isinstance(dim, int) and not isinstance(dim, bool) and dim >= 1
        _require(whole or isinstance(dim, Expr), f"`{operator}` gives a dimension of the size {dim!r}", operator)
    if operator == "cat":
        pieces = node.args[0] if isinstance(node.args[0], tuple) else ()
        whole = bool(pieces) and len(references(pieces)) == len(pieces)
        _require(whole and bool(node.meta.shape), "`cat` joins something that is no tensor", operator)
    if operator in GATHERS:
        _require(len(references(node.args)) == 2, f"`{operator}` looks up in something that is no tensor", operator)
    if operator == "arange":
        _require(len(node.meta.shape) == 1, "`arange` has more than one dimension", operator)
    if operator in REDUCTIONS | GATHERS | SCANS | {"reshape", "expand", "permute", "slice"}:
        _require(isinstance(node.args[0], NodeRef), f"`{operator}` moves something that is no tensor", operator)
        _require_dimensions(node, len(known[references(node.args)[0].name].meta.shape))


def _require_dimensions(node: Node, rank: int) -> None:
    operator = node.op
    if operator == "expand":
        _require(rank <= len(node.meta.shape), "`expand` drops a dimension", operator)
    over_all = operator in REDUCTIONS and (len(node.args) < 2 or node.args[1] is None)
    if operator in {"reshape", "expand"} or over_all:
        return
    argument = node.args[1]
    dims = argument if isinstance(argument, tuple) else (argument,)
    single = operator not in GATHERS | SCANS | {"slice"} or len(dims) == 1
    kept = operator != "slice" or len(node.meta.shape) == rank
    _require(single and kept, f"`{operator}` changes the rank or names more than one dimension", operator)
    for dim in dims:
        inside = isinstance(dim, int) and (-rank <= dim < rank or (rank == 0 and dim in {0, -1}))
        _require(inside, f"`{operator}` names the dimension {dim!r} of a tensor of rank {rank}", operator)
    if operator == "permute":
        counted = sorted(dim % rank for dim in dims if isinstance(dim, int) and rank)
        _require(counted == list(range(rank)), "`permute` does not name each dimension once", operator)


def _require(holds: bool, sentence: str, operator: str | None = None) -> None:
    if not holds:
        raise CannotCompileError(sentence, operator)
