"""Tensors that are cut, joined or reordered by copies in memory, written as windows of one tap. Pure.

A window of one tap at place o reads the element ``o * step + offset``, or zero outside of the tensor. So a slice is such windows,
tensors side by side are a sum of them, and an operand in another order is them in that order. One kernel reads each element once.
This is the last way: where rows are cut in registers, or an operand is read as it lies, nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from gpu_runner.contracts import Graph, Problem
from gpu_runner.contracts.graph import Arg, Dim, Node, NodeRef, TensorMeta
from workers.authors.compiler.attention import VIEWS
from workers.authors.compiler.graph import POINTWISE, REDUCTIONS, SCANS, CannotCompileError, Sizes, integers_of

COPIED = " copied"  # ends the name of the node that holds the copy of an operand
_FLOATING = ("float32", "bfloat16", "float16")


def with_moves(problem: Problem, graph: Graph, *, operands: bool) -> Graph:
    """The graph whose slices and joins of floating tensors are copies; the same object where there is none.

    With ``operands``, what another operator or the caller is handed in another order than it was computed in is a copy too.

    Raises:
        CannotCompileError: a shape does not fit what makes it.
    """
    sizes = Sizes.of(problem.dimensions, graph.multiples)
    by_name = {node.name: node for node in graph.nodes}
    between = _difference((sizes, sizes.times(2)))
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op in {"slice", "cat"} and node.meta.dtype in _FLOATING:
            nodes += _joined(node, by_name, between) if node.op == "cat" else _cut(node, by_name, between)
        elif node.op == "matmul" and operands:
            nodes += _with_operands(node, by_name, _moves_batch)
        elif node.op in POINTWISE | REDUCTIONS | SCANS | {"windows"} and operands:
            nodes += _with_operands(node, by_name, lambda _: True)
        else:
            nodes.append(node)
    ends = [*graph.outputs, *(name for _, name in graph.gradients if name is not None)] if operands else []
    copies = {name: _copied(name, f"{name}{COPIED}", by_name, lambda _: True) for name in dict.fromkeys(ends)}
    table = {name: copied[-1].name for name, copied in copies.items() if copied}
    if nodes == list(graph.nodes) and not table:
        return graph
    return replace(
        graph,
        nodes=(*nodes, *(node for copied in copies.values() for node in copied)),
        outputs=tuple(table.get(name, name) for name in graph.outputs),
        gradients=tuple((name, None if node is None else table.get(node, node)) for name, node in graph.gradients),
    )


Difference = Callable[[Dim, Dim], int | None]


def _difference(cases: Sequence[Sizes]) -> Difference:
    def between(left: Dim, right: Dim) -> int | None:
        found = {case.value(left) - case.value(right) for case in cases}
        return found.pop() if len(found) == 1 else None

    return between


def _cut(node: Node, nodes: Mapping[str, Node], between: Difference) -> list[Node]:
    source = nodes[node.operands[0]]
    dim, start, step = node.args[1], (*node.args[2:3], 0)[0] or 0, (*node.args[4:5], 1)[0] or 1
    if not (isinstance(dim, int) and isinstance(start, int) and isinstance(step, int)):
        return [node]
    length, whole = _length(node, dim), _length(source, dim)
    longer = between(length, whole)
    end = None if longer is None else longer - 1
    if step > 1:
        if not isinstance(length, int) or not isinstance(whole, int):
            return [node]  # of a length that is a name, how many are left depends on its parity
        end = (length - 1) * step - whole
    return list(_read(node, node.name, source, dim, (step, start, end), nodes))


def _joined(node: Node, nodes: Mapping[str, Node], between: Difference) -> list[Node]:
    dim, read = node.args[1], list[list[Node]]()
    if not isinstance(dim, int):
        return [node]
    start: int | None = 0
    for part in (nodes[operand] for operand in node.operands):
        length = _length(part, dim)
        if part.op != "full" or part.args[0] != 0:
            more = between(_length(node, dim), length)
            if start is None:
                return [node]
            end = None if more is None else more - 1
            own = f"{node.name} part {len(read)}"
            read.append(list(_read(node, own, part, dim, (1, -start, end), nodes)))
        start = start + length if start is not None and isinstance(length, int) else None
    if not read:
        return [node]
    total = read[0][-1].name
    joined = [one for part in read for one in part]
    for number, copied in enumerate(read[1:], 1):
        sides = (NodeRef(total), NodeRef(copied[-1].name))
        joined.append(replace(node, name=f"{node.name} sum {number}", op="add", args=sides))
        total = joined[-1].name
    return [*joined[:-1], replace(joined[-1], name=node.name)]


def _length(node: Node, dim: int) -> Dim:
    if not -len(node.meta.shape) <= dim < len(node.meta.shape):
        raise CannotCompileError(f"`{node.op}` works along a dimension that a tensor of it does not have", node.op)
    return node.meta.shape[dim]


def _read(
    node: Node, name: str, source: Node, dim: int, rule: tuple[int, int, int | None], nodes: Mapping[str, Node]
) -> Iterator[Node]:
    """Windows of one tap along a dimension, with its step, offset and end, and the elements that they hold."""
    copied = _copied(source.name, f"{name}{COPIED}", nodes, lambda _: True)
    yield from copied
    source = copied[-1] if copied else source
    count = len(node.meta.shape) - dim
    ones, none = (1,) * count, (0,) * (count - 1)
    step, offset, end = rule
    rules = (ones, (step, *ones[1:]), ones, (offset, *none), ones, (end, *(-1,) * (count - 1)))
    shape = node.meta.shape
    yield Node(
        f"{name} windows",
        "windows",
        (NodeRef(source.name), None, *rules, False),
        TensorMeta((*shape, *ones), node.meta.dtype),
    )
    taps = tuple(range(len(shape), len(shape) + count))
    yield Node(name, "sum", (NodeRef(f"{name} windows"), taps, False), node.meta)


def _with_operands(node: Node, nodes: Mapping[str, Node], moves: Callable[[Node], bool]) -> list[Node]:
    """A node with copies of the operands whose dimensions were put into another order, or lie across those of one before."""
    copies: list[Node] = []
    args: list[Arg] = []
    for side, argument in enumerate(node.args):
        name = argument.name if isinstance(argument, NodeRef) else None
        before = [other.name for other in node.args[:side] if isinstance(other, NodeRef) and node.op in POINTWISE]
        crosses = name is not None and any(_lie_across(name, other, nodes) for other in before)
        own = f"{node.name}{COPIED} {side}"
        copied = [] if name is None else _copied(name, own, nodes, moves, anyhow=crosses)
        copies += copied
        args.append(NodeRef(copied[-1].name) if copied else argument)
    return [*copies, replace(node, args=tuple(args))]


def _viewed(operand: str, nodes: Mapping[str, Node]) -> list[Node]:
    """A view and what it is of, from that on."""
    chain = [nodes[operand]]
    while chain[0].op in VIEWS - {"expand", "cast"}:
        chain.insert(0, nodes[chain[0].operands[0]])
    return chain


def _lie_across(one: str, other: str, nodes: Mapping[str, Node]) -> bool:
    """Whether two views have a dimension of one tensor at different places, as a column has that meets its own row."""
    chains = _viewed(one, nodes), _viewed(other, nodes)
    places = [_places(chain) for chain in chains]
    return chains[0][0] is chains[1][0] and None not in places and places[0] != places[1]


def _places(chain: Sequence[Node]) -> list[tuple[int, int]] | None:
    """Where the dimensions of a tensor lie in a view of it, counted from the last one; None where it merges or splits some."""
    shape = chain[0].meta.shape
    order: list[int | None] = [place if size != 1 else None for place, size in enumerate(shape)]
    for view in chain[1:]:
        if view.op == "permute":
            order = [order[place] for place in integers_of(view.args[1])]
            continue
        kept = iter([place for place in order if place is not None])
        if [size for size in view.meta.shape if size != 1] != [shape[place] for place in order if place is not None]:
            return None
        order = [None if size == 1 else next(kept) for size in view.meta.shape]
    return sorted((place, at - len(order)) for at, place in enumerate(order) if place is not None)


def _copied(
    operand: str, name: str, nodes: Mapping[str, Node], moves: Callable[[Node], bool], *, anyhow: bool = False
) -> list[Node]:
    """The nodes that store a view in its own order; none where no permutation ``moves`` what matters and it is not wanted
    ``anyhow``, or it is of windows."""
    base, *views = _viewed(operand, nodes)
    moved = anyhow or any(view.op == "permute" and moves(view) for view in views)
    if not moved or base.op in {"windows", "expand"} or base.meta.dtype not in _FLOATING:
        return []
    rank, one = len(base.meta.shape), (1,)
    rules = (one, one, one, (0,), one, (-1,))
    copies = [
        Node(f"{name} 0", "windows", (NodeRef(base.name), None, *rules, False), _with_tap(base.meta)),
    ]
    for number, view in enumerate(views, 1):
        before = NodeRef(copies[-1].name)
        order = (*integers_of(view.args[1]), len(view.meta.shape)) if view.op == "permute" else ()
        args: tuple[Arg, ...] = (before, order) if view.op == "permute" else (before,)
        copies.append(Node(f"{name} {number}", view.op, args, _with_tap(view.meta)))
    rank = len(nodes[operand].meta.shape)
    return [*copies, Node(name, "sum", (NodeRef(copies[-1].name), (rank,), False), nodes[operand].meta)]


def _moves_batch(view: Node) -> bool:
    """Whether more than the last two dimensions change places."""
    order = integers_of(view.args[1])
    return order[:-2] != tuple(range(len(order) - 2))


def _with_tap(meta: TensorMeta) -> TensorMeta:
    return TensorMeta((*meta.shape, 1), meta.dtype)
