"""Softmax of a product times a product, found in a graph, as steps that keep the scores on the chip. Pure.

The products around the scores become ``chained`` nodes, each with the graph of what its kernel computes. Forward leaves the
largest score of each row and, beside it, the logarithm of the row's sum in bits, from which backward has the probabilities
again: in one number their sum would round the logarithm by as much as the largest score is large. The sum over a row of
probabilities times their gradients is the sum of the result times its own gradient, but for its rounding, which float32 shows
where the gradients of a row's scores cancel: the kernel of the rows' gradients adds what is left, for itself and for the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpu_runner.contracts.graph import Arg, Expr, Graph, Node, NodeRef, TensorMeta
from workers.authors.compiler.domain import nodes_behind
from workers.authors.compiler.graph import POINTWISE

VIEWS = frozenset({"reshape", "expand", "permute", "cast"})
CHAINED = "chained"
# Roles of a row's numbers, and what these are called.
KEPT = {"logarithm": "lse", "highest": "top", "delta": "delta", "corrected": "full_delta"}
EXACT = " exact"  # ends the name of the node of a result as it is before it is rounded
CORRECTED = " corrected"  # ends the name of the node of a sum of probabilities times their gradients to which its rest was added
LOGARITHM = " logarithm"  # ends the name of the node of a row's
HIGHEST = " highest"  # of the node of a row's largest score in bits
LOG2E = 1.4426950408889634
MOST_COPIES = 400  # nodes of a kernel


@dataclass
class Chain:
    """What one kernel computes: nodes, operands first, and the ``leaves`` that they begin at.

    Of a leaf its node in the whole graph, and its role: a tensor that is two operands has a name, and axes, for each.
    ``leader`` is the first of its outputs.
    """

    leader: str
    nodes: list[Node] = field(default_factory=list)
    leaves: dict[str, tuple[str, str]] = field(default_factory=dict)


class _NotChainedError(Exception):
    pass


def softmax_of(nodes: Mapping[str, Node], name: str) -> str | None:
    """The node of which a node is the softmax over the last dimension, None where it is none.

    A ``where`` is attention's own, with zeros in rows that have nothing but minus infinity.
    """
    quotient = nodes[name]
    if quotient.op == "where":
        condition, zero, rest = quotient.args
        if not isinstance(condition, NodeRef) or not isinstance(rest, NodeRef) or zero != 0:
            return None
        is_dead, score = nodes[condition.name], softmax_of(nodes, rest.name) if nodes[rest.name].op == "div" else None
        top = nodes[_first(is_dead)] if is_dead.op == "eq" and is_dead.args[1:] == (-math.inf,) else None
        same = top is not None and _reduces_last(top, "amax") and _first(top) == score
        return score if same else None
    powers, total = _operands(nodes, quotient, "div", 2)
    if powers is None or total is None or not _reduces_last(total, "sum") or _first(total) != powers.name:
        return None
    return _exponent(nodes, powers)


def logsumexp_of(nodes: Mapping[str, Node], name: str) -> str | None:
    """The node of whose rows a node is the largest element, or the logarithm of the sum beside it.

    Both are what ``with_chains`` writes.
    """
    own = nodes[name]
    if name.endswith(HIGHEST):
        return _first(nodes[_first(own)])
    if name.endswith(LOGARITHM):
        return _exponent(nodes, nodes[_first(nodes[_first(own)])])
    return None


def _exponent(nodes: Mapping[str, Node], powers: Node) -> str | None:
    if powers.op != "exp":
        return None
    score, top = _operands(nodes, nodes[_first(powers)], "sub", 2)
    if score is None or top is None or not _reduces_last(top, "amax") or _first(top) != score.name:
        return None
    return score.name if score.meta.shape == powers.meta.shape else None


def _operands(nodes: Mapping[str, Node], node: Node, op: str, count: int) -> tuple[Node | None, ...]:
    if node.op != op or len(node.operands) != count or len(node.args) != count:
        return (None,) * count
    return tuple(nodes[operand] for operand in node.operands)


def _first(node: Node) -> str:
    return node.operands[0]


def _reduces_last(node: Node, op: str) -> bool:
    rank = len(node.meta.shape)
    if node.op != op or len(node.args) != 3 or node.args[2] is not True:
        return False
    dims = node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)
    return dims in ((rank - 1,), (-1,))


def with_chains(graph: Graph, *, apart: bool) -> tuple[Graph, dict[str, Chain]]:
    """The graph with chained products, and the chain of each such node; without any where nothing is found.

    ``apart``: what is not computed from a product, such as the number of a row or a column, has a copy for each use.
    """
    chains: dict[str, Chain] = {}
    nodes = {node.name: node for node in graph.nodes}
    within = {name for n in nodes if nodes[n].op == "where" and softmax_of(nodes, n) for name in nodes[n].operands}
    for name, node in nodes.items():
        if node.op not in {"div", "where"} or softmax_of(nodes, name) is None or name in within:
            continue
        try:
            graph, found = _Attention(graph, name, apart).chained()
        except _NotChainedError:
            continue
        chains |= found
    return graph, chains


class _Attention:
    """One softmax, the products that its scores are computed from, and those that its probabilities meet."""

    def __init__(self, graph: Graph, probabilities: str, apart: bool) -> None:
        self._graph, self._apart, self.probabilities = graph, apart, probabilities
        self.nodes = {node.name: node for node in graph.nodes}
        self._is_safe = self.nodes[probabilities].op == "where"
        score = softmax_of(self.nodes, probabilities)
        assert score is not None
        self.score = score
        quotient = self.nodes[probabilities].operands[-1] if self._is_safe else probabilities
        powers, total = (self.nodes[operand] for operand in self.nodes[quotient].operands)
        self.total, self.top = total.name, _operands(self.nodes, self.nodes[_first(powers)], "sub", 2)[1].name  # type: ignore[union-attr]
        self.logarithm, self.deltas, self.corrected = f"{probabilities}{LOGARITHM}", dict[str, str](), dict[str, str]()
        self.highest = f"{probabilities}{HIGHEST}"
        self.views: dict[str, list[Node]] = {}  # by delta: from the sum of its factors, which is stored
        self._users: dict[str, list[Node]] = {}
        for node in graph.nodes:
            for operand in node.operands:
                self._users.setdefault(operand, []).append(node)
        self.touched, self.outer = self._follow()

    def chained(self) -> tuple[Graph, dict[str, Chain]]:
        """The graph with this attention's products chained.

        Raises:
            _NotChainedError: something else needs the scores in memory, or a product is of another form.
        """
        forward = {node.name for node in nodes_behind(self._graph, self._graph.outputs)}
        first = [name for name in self.outer if name in forward]
        backward = [name for name in self.outer if name not in forward]
        if len(first) != 1:
            raise _NotChainedError
        (result,) = first
        added = self._deltas(result) if backward else {}
        groups: dict[str, list[str]] = {"forward": [result]}
        for name in backward:
            own = self.own_rows(name)
            groups.setdefault("rows" if own else name if own is None else "columns", []).append(name)
        chains: dict[str, Chain] = {}
        placed: dict[str, list[Node]] = {}
        after = [node for name in groups.get("rows", ()) for node in self._following(name, is_forward=False)]
        if "rows" in groups and all(node.op != "sum" for node in after):
            self.corrected = {delta: f"{delta}{CORRECTED}" for delta in self.deltas}
        for key, products in groups.items():
            paths = {name: self._following(name, is_forward=key == "forward") for name in products}
            outputs = [paths[name][-1].name if paths[name] else name for name in products]
            chain = Chain(outputs[0])
            corrects = key == "rows"
            expansion = _Expansion(self, chain, in_forward=key == "forward", corrects=corrects, apart=self._apart)
            expansion.fill(paths)
            made, kept = list(outputs), list(self.corrected.values()) if corrects else []
            made += kept
            if key == "forward" and backward:
                kept = [self.logarithm, self.highest]
                made += kept
                self._logarithm(chain)
            if key == "forward" and self.deltas:
                made.append(self._exact(outputs[0], chain))
            refs = tuple(NodeRef(leaf) for leaf in dict.fromkeys(node for node, _ in chain.leaves.values()))
            for name in made:
                meta = self.nodes[self.top if name in kept else name.removesuffix(EXACT)].meta
                leader = name if name in self.nodes else outputs[0]
                placed.setdefault(leader, []).append(Node(name, CHAINED, refs, meta))
                chains[name] = chain
        nodes: list[Node] = []
        for node in self._graph.nodes:
            nodes += [*added.get(node.name, ()), *placed.get(node.name, (node,))]
        return replace(self._graph, nodes=tuple(_sorted(nodes))), chains

    def _follow(self) -> tuple[set[str], list[str]]:
        """What is computed from the scores' products, and the products that take it.

        Raises:
            _NotChainedError: the scores, or what is computed from them, are used in another way.
        """
        touched = _products_behind(self.nodes, self.score)
        if not touched:
            raise _NotChainedError
        outer: list[str] = []
        for node in self._graph.nodes:
            used = [operand for operand in node.operands if operand in touched]
            if not used or node.name in touched:
                continue
            if node.op == "matmul":
                if len(used) > 1:
                    raise _NotChainedError
                outer.append(node.name)
            elif node.op in POINTWISE | VIEWS or node.name in (self.top, self.total) or self._is_top(node):
                touched.add(node.name)
            elif self._is_delta(node):
                self.deltas[node.name] = f"{node.name} delta"
                touched.add(node.name)
            else:
                raise _NotChainedError
        ends = {*self._graph.outputs, *(end for _, end in self._graph.gradients)}
        if touched & ends or self.probabilities not in touched:
            raise _NotChainedError
        return touched, outer

    def _is_top(self, node: Node) -> bool:
        """Whether a node is the maximum of each row of scores once more."""
        return self._is_safe and _reduces_last(node, "amax") and _first(node) == self.score

    def _is_delta(self, node: Node) -> bool:
        """Whether a node is the sum over a row of probabilities times their gradients."""
        if not _reduces_last(node, "sum"):
            return False
        product = self.nodes[_first(node)]
        names = product.operands
        return product.op == "mul" and len(names) == 2 and self.probabilities in names and names[0] != names[1]

    def gradient_in(self, delta: str) -> str:
        """The gradient of the probabilities, of a node that is the sum of their products."""
        factors = self.nodes[_first(self.nodes[delta])].operands
        return next(factor for factor in factors if factor != self.probabilities)

    def _deltas(self, result: str) -> dict[str, list[Node]]:
        """The sums over rows of the result times its gradient that take the place of others, before which they stand.

        Raises:
            _NotChainedError: they are not the same.
        """
        added: dict[str, list[Node]] = {}
        weights, tensor = self.nodes[result].operands
        for name, delta in self.deltas.items():
            gradient = self.gradient_in(name)
            product = self.nodes[self._reshaped(gradient)]
            if product.op != "matmul" or self._reshaped(weights) != self.probabilities:
                raise _NotChainedError
            upstream, turned = (self.nodes[operand] for operand in product.operands)
            swap = (*range(len(turned.meta.shape) - 2), len(turned.meta.shape) - 1, len(turned.meta.shape) - 2)
            same = (
                turned.op == "permute"
                and turned.args[1] == swap
                and _first(turned) == tensor
                and upstream.meta.shape == self.nodes[result].meta.shape
                and product.meta.shape == self.nodes[weights].meta.shape
                and self.nodes[gradient].meta.shape == self.nodes[self.probabilities].meta.shape
                and product.meta.shape[-1] == self.nodes[gradient].meta.shape[-1]
            )
            if not same:
                raise _NotChainedError
            own = self._from_output(result, delta)
            path, root = self._path(upstream.name)
            first, second = (own[0].args[0] if own else NodeRef(f"{result}{EXACT}")), NodeRef(root)
            if not own or [_move(node) for node in own] != [_move(node) for node in path] or not _keep_last(path):
                first, second, path = NodeRef(own[-1].name) if own else first, NodeRef(upstream.name), []
            shape = self.nodes[second.name].meta.shape
            own += [
                Node(f"{delta} factors", "mul", (first, second), TensorMeta(shape, "float32")),
                Node(
                    delta,
                    "sum",
                    (NodeRef(f"{delta} factors"), (len(shape) - 1,), True),
                    TensorMeta((*shape[:-1], 1), "float32"),
                ),
            ]
            added[name] = own
            self.views[delta] = [
                *(replace(n, meta=TensorMeta((*n.meta.shape[:-1], 1), "float32")) for n in path),
                replace(self.nodes[name], op="reshape", args=(NodeRef(name),)),
            ]
        return added

    def _path(self, name: str) -> tuple[list[Node], str]:
        """The views that a node is of another, first to last."""
        path: list[Node] = []
        while self.nodes[name].op in {"reshape", "permute"}:
            path.insert(0, self.nodes[name])
            name = _first(self.nodes[name])
        return path, name

    def _reshaped(self, name: str) -> str:
        """What a node is, but for its shape."""
        while self.nodes[name].op in {"reshape", "cast"}:
            name = _first(self.nodes[name])
        return name

    def _from_output(self, result: str, stem: str) -> list[Node]:
        """The result before it is rounded, as a view of how it is stored: of a row with one probability rounding leaves little."""
        path = [result, *(node.name for node in self._following(result, is_forward=True))]
        back, current = list[Node](), f"{path[-1]}{EXACT}"
        for name, before in zip(reversed(path), reversed(path[:-1]), strict=False):
            view, meta = self.nodes[name], self.nodes[before].meta
            places = view.args[1] if view.op == "permute" else None
            args: tuple[Arg, ...] = (NodeRef(current),)
            if isinstance(places, tuple):
                args = (NodeRef(current), tuple(places.index(place) for place in range(len(places))))
            back.append(Node(f"{stem} of {before}", view.op, args, meta))
            current = back[-1].name
        return back

    def own_rows(self, name: str) -> bool | None:
        """Whether the rows of a product are the scores' rows, rather than their columns; None where that is not seen."""
        left, right = self.nodes[name].operands
        is_left = left in self.touched
        operand, views = left if is_left else right, list[Node]()
        while self.nodes[operand].op in VIEWS:
            views.insert(0, self.nodes[operand])
            operand = _first(self.nodes[operand])
        shape = self.nodes[operand].meta.shape
        place = len(shape) - 1  # of the scores' columns
        for view in views:
            places = view.args[1] if view.op == "permute" else None
            if isinstance(places, tuple):
                place = places.index(place)
            elif view.op != "cast":
                behind = [dim for dim in shape[place + 1 :] if dim != 1]
                found = [p for p, dim in enumerate(view.meta.shape) if dim == shape[place]]
                found = [p for p in found if [dim for dim in view.meta.shape[p + 1 :] if dim != 1] == behind]
                if not found:
                    return None
                place = found[0]
            shape = view.meta.shape
        turned = place != len(shape) - 1
        return is_left != turned

    def _following(self, name: str, *, is_forward: bool) -> list[Node]:
        """The views of a product that nothing else uses, and of a gradient its sum over heads that share a tensor.

        The last of them is how the product is stored.
        """
        ends = {*self._graph.outputs, *(end for _, end in self._graph.gradients)}
        path: list[Node] = []
        while name not in ends and len(self._users.get(name, ())) == 1:
            (node,) = self._users[name]
            if is_forward or (node.op != "sum" and _factor(node, self.nodes) is None):
                fits = node.op in {"reshape", "permute"}
            else:
                dims = node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)
                rank = len(node.meta.shape)
                leading = len(node.args) == 3 and all(isinstance(d, int) and d % rank < rank - 2 for d in dims)
                fits = node.op != "sum" or (node.args[2:] == (True,) and leading)
            if not fits:
                break
            path.append(node)
            name = node.name
        return path

    def _exact(self, stored: str, chain: Chain) -> str:
        """Add the result in float32."""
        name, shape = f"{stored}{EXACT}", self.nodes[stored].meta.shape
        chain.nodes.append(Node(name, "cast", (NodeRef(stored),), TensorMeta(shape, "float32")))
        return name

    def _logarithm(self, chain: Chain) -> None:
        """Add what forward leaves of each row."""
        top, total = _inside(self.top, chain), _inside(self.total, chain)
        meta = self.nodes[self.top].meta
        chain.nodes += [
            Node(self.highest, "mul", (NodeRef(top), LOG2E), meta),
            Node(self.logarithm, "log2", (NodeRef(total),), meta),
        ]


def _move(view: Node) -> tuple[object, ...]:
    return view.op, view.args[1:], view.meta.shape


def _keep_last(path: list[Node]) -> bool:
    """Whether views leave the last dimension what it is."""
    lasts = {node.meta.shape[-1] for node in path}
    places = [node.args[1] for node in path if node.op == "permute"]
    return len(lasts) <= 1 and all(isinstance(p, tuple) and p[-1] == len(p) - 1 for p in places)


def _inside(name: str, chain: Chain) -> str:
    return f"{name} of {chain.leader}"


def _products_behind(nodes: Mapping[str, Node], name: str) -> set[str]:
    """The products that a node is computed from element by element."""
    found: set[str] = set()
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        node = nodes[waiting.pop()]
        if node.name in seen:
            continue
        seen.add(node.name)
        if node.op == "matmul":
            found.add(node.name)
        elif node.op in POINTWISE | VIEWS:
            waiting += node.operands
    return found


def _sorted(nodes: list[Node]) -> list[Node]:
    """Nodes in an order in which they can be evaluated, else as they stand."""
    known = {node.name: node for node in nodes}
    done: dict[str, Node] = {}

    def place(first: Node) -> None:
        waiting = [(first, False)]
        while waiting:
            node, ready = waiting.pop()
            if node.name in done:
                continue
            if ready:
                done[node.name] = node
                continue
            waiting.append((node, True))
            waiting += [(known[operand], False) for operand in reversed(node.operands)]

    for node in nodes:
        place(node)
    return list(done.values())


class _Expansion:
    """Copies what a kernel computes into its chain, from the products' operands to its outputs."""

    def __init__(self, attention: _Attention, chain: Chain, *, in_forward: bool, corrects: bool, apart: bool) -> None:
        self._attention, self._chain, self._in_forward, self._apart = attention, chain, in_forward, apart
        self._corrects = corrects
        self._nodes = attention.nodes
        self._done: dict[tuple[str, str], str] = {}

    def fill(self, paths: Mapping[str, list[Node]]) -> None:
        """Copy these products, each with the nodes that follow from it."""
        for name, path in paths.items():
            self._product(name)
            for before, node in zip((name, *(n.name for n in path)), path, strict=False):
                args = tuple(self._number(a) if a != NodeRef(before) else a for a in node.args)
                self._add(node.name, node.op, args, node.meta)
        for delta, name in self._attention.corrected.items() if self._corrects else ():
            self._correct(delta, name)

    def _correct(self, delta: str, name: str) -> None:
        """Add to a sum of probabilities times their gradients what it lacks: the sum of what it leaves of them."""
        attention, wide = self._attention, self._nodes[self._attention.gradient_in(delta)].meta
        own, gradient = NodeRef(self._visit(delta)), NodeRef(self._visit(attention.gradient_in(delta)))
        rest = NodeRef(self._add(f"{name} rest", "sub", (gradient, own), wide))
        left = self._add(f"{name} left", "mul", (NodeRef(self._visit(attention.probabilities)), rest), wide)
        meta = self._nodes[delta].meta
        total = self._add(f"{name} sum", "sum", (NodeRef(left), (len(wide.shape) - 1,), True), meta)
        self._add(name, "add", (own, NodeRef(total)), meta)

    def _number(self, argument: Arg) -> Arg:
        return NodeRef(self._beside(argument.name)) if isinstance(argument, NodeRef) else argument

    def _add(self, name: str, op: str, args: tuple[Arg, ...], meta: TensorMeta) -> str:
        if len(self._chain.nodes) > MOST_COPIES:
            raise _NotChainedError
        self._chain.nodes.append(Node(name, op, args, meta))
        return name

    def _leaf(self, name: str, role: str) -> str:
        node = self._nodes.get(name)  # None of what attention itself adds
        if node is not None and node.op not in {"input", "upstream"} and not node.operands:
            raise _NotChainedError
        own = f"{name} for {role}"
        self._chain.leaves.setdefault(own, (name, role))
        return own

    def _product(self, name: str) -> None:
        """A product of what is computed from scores and a tensor."""
        node, attention = self._nodes[name], self._attention
        sides = node.operands
        own_rows = attention.own_rows(name)
        role = name if own_rows is None else "columns" if own_rows else "rows"
        texts, factors = [], list[tuple[str, Arg]]()
        for side in sides:
            if side in attention.touched:
                texts.append(self._visit(side))
            else:
                text, own = self._operand(side, role)
                texts.append(text)
                factors += own
        self._scaled(name, tuple(NodeRef(text) for text in texts), node.meta, factors)

    def _scaled(self, name: str, args: tuple[Arg, ...], meta: TensorMeta, factors: list[tuple[str, Arg]]) -> None:
        """A product, then the numbers that its operands are multiplied by."""
        current = self._add(f"{name} bare" if factors else name, "matmul", args, meta)
        for index, (op, given) in enumerate(factors):
            number = self._number(given)
            last = index == len(factors) - 1
            current = self._add(name if last else f"{name} {index}", op, (NodeRef(current), number), meta)

    def _operand(self, name: str, role: str) -> tuple[str, list[tuple[str, Arg]]]:
        """An operand as a view of a tensor in memory, and the numbers that it is multiplied or divided by."""
        if name in self._attention.touched:
            raise _NotChainedError
        path, factors = list[Node](), list[tuple[str, Arg]]()
        while True:
            node = self._nodes[name]
            factor = _factor(node, self._nodes)
            if factor is not None:
                factors.append(factor)
                (name,) = (a.name for a in node.args if isinstance(a, NodeRef) and a != factor[1])
                continue
            if node.op in VIEWS and node.meta.dtype.startswith(("float", "bfloat")):
                path.append(node)
            else:
                break
            name = _first(node)
        if not node.meta.dtype.startswith(("float", "bfloat")):
            raise _NotChainedError
        current = self._leaf(name, role)
        for view in reversed(path):
            own = f"{view.name} of {self._chain.leader} for {role}"
            if (view.name, role) not in self._done:
                self._done[view.name, role] = self._add(own, view.op, (NodeRef(current), *view.args[1:]), view.meta)
            current = own
        return current, factors

    def _visit(self, name: str) -> str:
        """What is computed from scores, and the scores themselves."""
        attention, node = self._attention, self._nodes[name]
        own = _inside(name, self._chain)
        if (name, "") in self._done:
            return own
        self._done[name, ""] = own
        if name in attention.corrected and not self._corrects:
            return self._add(own, "reshape", (NodeRef(self._leaf(attention.corrected[name], "corrected")),), node.meta)
        if name in attention.deltas:
            delta = attention.deltas[name]
            current = self._leaf(delta, "delta")
            for index, view in enumerate(attention.views[delta]):
                last = index == len(attention.views[delta]) - 1
                text = own if last else f"{own} {index}"
                current = self._add(text, view.op, (NodeRef(current), *view.args[1:]), view.meta)
            return own
        if name == attention.probabilities and not self._in_forward:
            bits = self._add(f"{own} bits", "mul", (NodeRef(self._visit(attention.score)), LOG2E), node.meta)
            highest, logarithm = self._leaf(attention.highest, "highest"), self._leaf(attention.logarithm, "logarithm")
            below = self._add(f"{own} below", "sub", (NodeRef(bits), NodeRef(highest)), node.meta)
            power = self._add(f"{own} power", "sub", (NodeRef(below), NodeRef(logarithm)), node.meta)
            return self._add(own, "exp2", (NodeRef(power),), node.meta)
        if node.op == "matmul":
            sides = node.operands
            (left, first), (right, second) = (
                self._operand(side, role) for side, role in zip(sides, ("rows", "columns"), strict=True)
            )
            self._scaled(own, (NodeRef(left), NodeRef(right)), node.meta, [*first, *second])
            return own
        allowed = POINTWISE | VIEWS if not self._in_forward else POINTWISE | VIEWS | {"amax", "sum"}
        if node.op not in allowed:
            raise _NotChainedError
        return self._copied(node, own)

    def _copied(self, node: Node, own: str) -> str:
        def renamed(argument: Arg) -> Arg:
            if not isinstance(argument, NodeRef):
                return argument
            name = argument.name
            inside = name in self._attention.touched or _products_behind(self._nodes, name)
            return NodeRef(self._visit(name) if inside else self._beside(name))

        return self._add(own, node.op, tuple(renamed(argument) for argument in node.args), node.meta)

    def _beside(self, name: str) -> str:
        """What is not computed from a product: a mask, a bias, numbers of rows and columns."""
        node = self._nodes[name]
        role = f"use {len(self._chain.nodes)}" if self._apart else "scores"
        if self._apart or (name, role) not in self._done:
            own = f"{name} of {self._chain.leader} as {role}"
            if not self._is_elementwise(name):
                own = self._leaf(name, role)
            else:
                args = tuple(NodeRef(self._beside(a.name)) if isinstance(a, NodeRef) else a for a in node.args)
                if self._apart:
                    own = f"{own} {len(self._chain.nodes)}"
                self._add(own, node.op, args, node.meta)
            self._done[name, role] = own
        return self._done[name, role]

    def _is_elementwise(self, name: str) -> bool:
        node = self._nodes[name]
        return node.op in POINTWISE | VIEWS | {"full", "arange"}


def _factor(node: Node, nodes: Mapping[str, Node]) -> tuple[str, Arg] | None:
    """The operator and the number of a node that multiplies or divides a tensor by a number; one of sizes is a node itself."""
    if node.op not in {"mul", "div"} or len(node.args) != 2:
        return None
    numbers = [_is_number(argument, nodes) for argument in node.args]
    if numbers == [False, True]:
        return node.op, node.args[1]
    return (node.op, node.args[0]) if numbers == [True, False] and node.op == "mul" else None


def _is_number(argument: Arg, nodes: Mapping[str, Node]) -> bool:
    if not isinstance(argument, NodeRef):
        return not isinstance(argument, bool) and isinstance(argument, int | float | Expr)
    node = nodes[argument.name]
    computed = node.op in POINTWISE | {"full"} and not node.meta.shape
    return computed and all(_is_number(NodeRef(operand), nodes) for operand in node.operands)
