"""From torch's operators to the canonical vocabulary, on one traced graph; runs in the child."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from gpu_runner.contracts.graph import BINARY_OPERATORS, UNARY_OPERATORS
from gpu_runner.tracing.fake import same_number
from gpu_runner.tracing.joint import JointTrace
from gpu_runner.tracing.raw import RawArg, RawGraph, RawNode, Ref, references
from gpu_runner.tracing.windows import WINDOW_RULES


class GraphBuilder:
    """The canonical graph as it grows."""

    def __init__(self, reserved: Sequence[str]) -> None:
        self.nodes: list[RawNode] = []
        self.taps: dict[str, Ref] = {}  # of a maximum's index in the whole plane, which tap of its window it is
        self._named: set[str] = set(reserved)
        self._numbers: dict[str, int] = {}
        self._by_name: dict[str, RawNode] = {}

    def add(
        self, op: str, args: Sequence[RawArg], shape: Sequence[int], dtype: torch.dtype | str, name: str | None = None
    ) -> Ref:
        """Append a node and give a reference to it."""
        text = str(dtype).removeprefix("torch.")
        node = RawNode(name or self._fresh(op), op, tuple(args), tuple(int(s) for s in shape), text)
        self.nodes.append(node)
        self._by_name[node.name] = node
        return Ref(node.name)

    def known(self, ref: Ref) -> RawNode:
        return self._by_name[ref.name]

    def operand(self, value: Any) -> Any:
        """``value``, or its number where it is a constant tensor without dimensions."""
        if isinstance(value, Ref):
            node = self.known(value)
            if node.op == "full" and node.shape == ():
                return node.args[0]
        return value

    def is_zero(self, value: Any) -> bool:
        """Whether an operand is a tensor of zeros; a number that is zero may be a scalar's value and stays."""
        return isinstance(value, Ref) and self.known(value).op == "full" and self.known(value).args[0] == 0

    def cast(self, value: Ref, dtype: torch.dtype) -> Ref:
        """``value`` cast to ``dtype``; unchanged where it has it."""
        node = self.known(value)
        if node.dtype == str(dtype).removeprefix("torch."):
            return value
        return self.add("cast", [value], node.shape, dtype)

    def _fresh(self, op: str) -> str:
        stem = op.removeprefix("aten.").replace(".", "_")
        number = self._numbers.get(stem, 0)
        while f"{stem}_{number}" in self._named:
            number += 1
        self._numbers[stem] = number + 1
        name = f"{stem}_{number}"
        self._named.add(name)
        return name


Value = Any  # the value of an fx node: a Ref, or a tuple of them

UNARY_NAMES = {name: name for name in UNARY_OPERATORS} | {"sgn": "sign", "bitwise_not": "logical_not"}
BINARY_NAMES = {name: name for name in BINARY_OPERATORS} | {
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "logical_xor": "ne",
}
SAME = ("alias", "detach", "clone", "lift_fresh_copy", "lift_fresh", "lift", "contiguous", "view_as", "_to_copy_same")
RESHAPES = ("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "_reshape_alias", "flatten")
FILLS = {
    "zeros": 0,
    "zeros_like": 0,
    "new_zeros": 0,
    "ones": 1,
    "ones_like": 1,
    "new_ones": 1,
    "empty_like": 0,
    "empty": 0,
}


Rule = Callable[[GraphBuilder, Any, list[Any], dict[str, Any]], Value]


def _unary(op: str) -> Rule:
    def rule(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Value:
        if op == "round" and len(args) > 1:
            return None
        return graph.add(op, [args[0]], meta.shape, meta.dtype)

    return rule


def _binary(op: str) -> Rule:
    def rule(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Value:
        if op in ("logical_and", "logical_or", "logical_not") and meta.dtype is not torch.bool:
            return None  # bits of whole numbers
        return graph.add(op, [graph.operand(args[0]), graph.operand(args[1])], meta.shape, meta.dtype)

    return rule


def _sum_of_two(op: str) -> Rule:
    def rule(graph: GraphBuilder, meta: Tensor, args: list[Any], kwargs: dict[str, Any]) -> Value:
        a, b = graph.operand(args[0]), graph.operand(args[1])
        alpha = kwargs.get("alpha", args[2] if len(args) > 2 else 1)
        if alpha != 1:
            b = graph.add("mul", [b, alpha], graph.known(b).shape, meta.dtype) if isinstance(b, Ref) else b * alpha
        for one, other in ((a, b), (b, a)):
            same = isinstance(one, Ref) and graph.known(one).shape == tuple(meta.shape)
            if same and graph.is_zero(other) and (op == "add" or one is a):
                return graph.cast(one, meta.dtype)
        return graph.add(op, [a, b], meta.shape, meta.dtype)

    return rule


def _rsub(graph: GraphBuilder, meta: Tensor, args: list[Any], kwargs: dict[str, Any]) -> Value:
    return _sum_of_two("sub")(graph, meta, [args[1], args[0], *args[2:]], kwargs)


def _div(graph: GraphBuilder, meta: Tensor, args: list[Any], kwargs: dict[str, Any]) -> Value:
    mode = kwargs.get("rounding_mode")
    dtype = meta.dtype if mode is None or meta.is_floating_point() else torch.float32
    ref = graph.add("div", [graph.operand(args[0]), graph.operand(args[1])], meta.shape, dtype)
    return ref if mode is None else graph.cast(graph.add(mode, [ref], meta.shape, dtype), meta.dtype)


def _pow(graph: GraphBuilder, meta: Tensor, args: list[Any], kwargs: dict[str, Any]) -> Value:
    if args[1] == 1 and isinstance(args[0], Ref):
        return graph.cast(args[0], meta.dtype)
    return _binary("pow")(graph, meta, args, kwargs)


def _copy(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Value:
    source = graph.cast(args[1], meta.dtype)
    same = graph.known(source).shape == tuple(meta.shape)
    return source if same else graph.add("expand", [source], meta.shape, meta.dtype)


def _where(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Value:
    return graph.add("where", [args[0], graph.operand(args[1]), graph.operand(args[2])], meta.shape, meta.dtype)


def _same(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Value:
    return args[0]


def _to_copy(graph: GraphBuilder, meta: Tensor, args: list[Any], kwargs: dict[str, Any]) -> Value:
    return args[0] if kwargs.get("dtype") is None else graph.add("cast", [args[0]], meta.shape, meta.dtype)


def _fill(name: str) -> Rule:
    def rule(graph: GraphBuilder, meta: Tensor, args: list[Any], kwargs: dict[str, Any]) -> Value:
        return graph.add("full", [FILLS[name]], meta.shape, meta.dtype)

    return rule


def _full(graph: GraphBuilder, meta: Tensor, args: list[Any], kwargs: dict[str, Any]) -> Value:
    value = args[-1] if len(args) > 1 else kwargs.get("fill_value", args[0])
    return graph.add("full", [graph.operand(value)], meta.shape, meta.dtype)


def _arange(graph: GraphBuilder, meta: Tensor, args: list[Any], kwargs: dict[str, Any]) -> Value:
    start, end, step = (0, args[0], 1) if len(args) == 1 else (args[0], args[1], args[2] if len(args) > 2 else 1)
    if (start, step) == (0, 1):
        return graph.add("arange", [end], meta.shape, meta.dtype)
    ref = graph.add("arange", [meta.shape[0]], meta.shape, meta.dtype)
    ref = ref if step == 1 else graph.add("mul", [ref, step], meta.shape, meta.dtype)
    return ref if start == 0 else graph.add("add", [ref, start], meta.shape, meta.dtype)


def _reshape(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Value:
    source = args[0]
    while (node := graph.known(source)).op == "reshape" and isinstance(node.args[0], Ref):
        source = node.args[0]
    same = graph.known(source).shape == tuple(meta.shape)
    return source if same else graph.add("reshape", [source], meta.shape, meta.dtype)


def _expand(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Value:
    same = graph.known(args[0]).shape == tuple(meta.shape)
    return args[0] if same else graph.add("expand", [args[0]], meta.shape, meta.dtype)


def _permuted(graph: GraphBuilder, meta: Tensor, x: Ref, order: Sequence[int]) -> Value:
    order = [d % len(order) for d in order]
    node = graph.known(x)
    if node.op == "permute" and isinstance(node.args[0], Ref) and isinstance(node.args[1], tuple):
        x, order = node.args[0], [int(str(node.args[1][d])) for d in order]
    return x if order == sorted(order) else graph.add("permute", [x, tuple(order)], meta.shape, meta.dtype)


def _permute(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Value:
    return _permuted(graph, meta, args[0], args[1])


def _transpose(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Value:
    order = list(range(meta.dim()))
    if len(args) == 3:
        a, b = args[1] % meta.dim(), args[2] % meta.dim()
        order[a], order[b] = b, a
    return _permuted(graph, meta, args[0], order if len(args) == 3 else order[::-1])


def _slice(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Value:
    shape = graph.known(args[0]).shape
    dim = (args[1] if len(args) > 1 else 0) % len(shape)
    size = shape[dim]
    start = _bounded(args[2] if len(args) > 2 else None, size, 0)
    end = max(_bounded(args[3] if len(args) > 3 else None, size, size), start)
    step = args[4] if len(args) > 4 else 1
    if (start, end, step) == (0, size, 1):
        return args[0]
    return graph.add("slice", [args[0], dim, start, end, step], meta.shape, meta.dtype)


def _bounded(value: int | None, size: int, default: int) -> int:
    if value is None:
        return default
    return min(max(value + size if value < 0 else value, 0), size)


def _select(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Value:
    shape = list(graph.known(args[0]).shape)
    dim = args[1] % len(shape)
    index = args[2] % shape[dim]
    if shape[dim] == 1:
        return _reshape(graph, meta, args, {})
    shape[dim] = 1
    part = graph.add("slice", [args[0], dim, index, index + 1, 1], shape, meta.dtype)
    return _reshape(graph, meta, [part], {})


def _cat(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Value:
    parts = [p for p in args[0] if graph.known(p).shape != (0,)]
    dim = (args[1] if len(args) > 1 else 0) % max(meta.dim(), 1)
    if len(parts) == 1:
        return parts[0]
    return graph.add("cat", [tuple(graph.cast(p, meta.dtype) for p in parts), dim], meta.shape, meta.dtype)


def _reduction(op: str) -> Rule:
    def rule(graph: GraphBuilder, meta: Tensor, args: list[Any], kwargs: dict[str, Any]) -> Value:
        x = args[0]
        if kwargs.get("dtype") is not None:
            x = graph.cast(x, kwargs["dtype"])
        rank = len(graph.known(x).shape)
        dims = args[1] if len(args) > 1 and args[1] not in (None, []) else list(range(rank))
        chosen = tuple(sorted(d % max(rank, 1) for d in ([dims] if isinstance(dims, int) else dims)))
        if rank == 0:
            return graph.cast(x, meta.dtype)
        return graph.add(op, [x, chosen, bool(args[2]) if len(args) > 2 else False], meta.shape, meta.dtype)

    return rule


def _argmax(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Value:
    x, shape = args[0], graph.known(args[0]).shape
    dim = args[1] if len(args) > 1 else None
    if dim is None:
        flat = graph.add("reshape", [x], [math.prod(shape)], graph.known(x).dtype)
        return graph.add("argmax", [flat, 0, False], meta.shape, meta.dtype)
    keepdim = bool(args[2]) if len(args) > 2 else False
    return graph.add("argmax", [x, dim % max(len(shape), 1), keepdim], meta.shape, meta.dtype)


def _argmin(graph: GraphBuilder, meta: Tensor, args: list[Any], kwargs: dict[str, Any]) -> Value:
    node = graph.known(args[0])
    if not node.dtype.startswith(("float", "bfloat")):
        return None  # the least whole number has no negative
    return _argmax(graph, meta, [graph.add("neg", [args[0]], node.shape, node.dtype), *args[1:]], kwargs)


def _scan(op: str) -> Rule:
    """A scan of what was turned round is one from the end, turned round."""

    def rule(graph: GraphBuilder, meta: Tensor, args: list[Any], kwargs: dict[str, Any]) -> Value:
        x = args[0] if kwargs.get("dtype") is None else graph.cast(args[0], kwargs["dtype"])
        if not meta.dim():
            return graph.cast(x, meta.dtype)
        dim, node = args[1] % meta.dim(), graph.known(x)
        x = graph.cast(x, meta.dtype)
        if node.op == "flip" and node.args[1] == (dim,) and isinstance(node.args[0], Ref):
            inner = graph.cast(node.args[0], meta.dtype)
            return graph.add(
                "flip", [graph.add(op, [inner, dim, True], meta.shape, meta.dtype), (dim,)], meta.shape, meta.dtype
            )
        return graph.add(op, [x, dim, False], meta.shape, meta.dtype)

    return rule


def _flip(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Value:
    dims = tuple(sorted(d % max(meta.dim(), 1) for d in args[1]))
    node = graph.known(args[0])
    if not dims or (node.op == "flip" and node.args[1] == dims):
        return node.args[0] if dims else args[0]
    return graph.add("flip", [args[0], dims], meta.shape, meta.dtype)


def _gather(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Value:
    dim = args[1] % max(len(graph.known(args[0]).shape), 1)
    return graph.add("gather", [args[0], dim, args[2]], meta.shape, meta.dtype)


def _index_select(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Value:
    dim = args[1] % max(len(graph.known(args[0]).shape), 1)
    return graph.add("index_select", [args[0], dim, args[2]], meta.shape, meta.dtype)


def _index(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Value:
    given = [(dim, index) for dim, index in enumerate(args[1]) if index is not None]
    if len(given) != 1:
        return None
    dim, index = given[0]
    node = graph.known(index)
    if node.dtype not in ("int64", "int32") or len(node.shape) != 1:
        return None
    return graph.add("index_select", [args[0], dim, index], meta.shape, meta.dtype)


def _matmul(graph: GraphBuilder, meta: Tensor, args: list[Any], _: dict[str, Any]) -> Value:
    return graph.add("matmul", [args[0], args[1]], meta.shape, meta.dtype)


def _addmm(graph: GraphBuilder, meta: Tensor, args: list[Any], kwargs: dict[str, Any]) -> Value:
    alpha, beta = kwargs.get("alpha", 1), kwargs.get("beta", 1)
    product = graph.add("matmul", [args[1], args[2]], meta.shape, meta.dtype)
    product = product if alpha == 1 else graph.add("mul", [product, alpha], meta.shape, meta.dtype)
    base = args[0] if beta == 1 else graph.add("mul", [args[0], beta], graph.known(args[0]).shape, meta.dtype)
    return graph.add("add", [base, product], meta.shape, meta.dtype)


TABLE: dict[str, Rule] = (
    {name: _unary(op) for name, op in UNARY_NAMES.items()}
    | {name: _binary(op) for name, op in BINARY_NAMES.items()}
    | dict.fromkeys(SAME, _same)
    | dict.fromkeys(RESHAPES, _reshape)
    | {name: _fill(name) for name in FILLS}
    | {name: _reduction(name) for name in ("sum", "amax", "amin", "prod")}
    | {
        "add": _sum_of_two("add"),
        "sub": _sum_of_two("sub"),
        "rsub": _rsub,
        "div": _div,
        "pow": _pow,
        "copy": _copy,
        "where": _where,
        "_to_copy": _to_copy,
        "full": _full,
        "full_like": _full,
        "new_full": _full,
        "scalar_tensor": _full,
        "arange": _arange,
        "expand": _expand,
        "permute": _permute,
        "transpose": _transpose,
        "t": _transpose,
        "slice": _slice,
        "select": _select,
        "cat": _cat,
        "argmax": _argmax,
        "argmin": _argmin,
        "cumsum": _scan("cumsum"),
        "cumprod": _scan("cumprod"),
        "flip": _flip,
        "gather": _gather,
        "index_select": _index_select,
        "index": _index,
        "mm": _matmul,
        "bmm": _matmul,
        "matmul": _matmul,
        "addmm": _addmm,
    }
    | WINDOW_RULES
)


def canonical(traced: JointTrace, inputs: Sequence[str], wanted: Sequence[str]) -> RawGraph:
    """Rewrite a traced graph in the canonical vocabulary, without nodes that nothing needs."""
    return canonical_with_names(traced, inputs, wanted)[0]


def canonical_with_names(
    traced: JointTrace, inputs: Sequence[str], wanted: Sequence[str]
) -> tuple[RawGraph, dict[str, str]]:
    """Rewrite a traced graph, and give the names of the new nodes by those of the traced ones that they stand for."""
    upstream = [f"upstream_{i}" if has else None for i, has in enumerate(traced.upstream)]
    graph = GraphBuilder([*inputs, *(name for name in upstream if name)])
    values: dict[Node, Value] = {}
    placeholders = [*[(name, "input") for name in inputs], *[(name, "upstream") for name in upstream if name]]
    results: list[Value] = []
    made: dict[str, str] = {}
    for node in traced.module.graph.nodes:
        if node.op == "placeholder":
            name, op = placeholders.pop(0)
            values[node] = graph.add(op, [], node.meta["val"].shape, node.meta["val"].dtype, name)
        elif node.op == "get_attr":
            values[node] = _constant(graph, getattr(traced.module, node.target))
        elif node.op == "output":
            results = [values[n] for n in node.args[0]]
        else:
            before = len(graph.nodes)
            value = values[node] = _rewrite(graph, node, values)
            new = len(graph.nodes) > before and isinstance(value, Ref) and value.name == graph.nodes[-1].name
            if new or (node.target is operator.getitem and isinstance(value, Ref)):
                made[node.name] = value.name
    names = [result.name for result in results]
    gradient_names = iter(names[traced.outputs :])
    gradients = tuple(
        (name, next(gradient_names) if has else None) for name, has in zip(wanted, traced.gradients, strict=True)
    )
    outputs = tuple(names[: traced.outputs])
    kept = _alive(graph.nodes, [*outputs, *(n for _, n in gradients if n)])
    return RawGraph(kept, tuple(inputs), outputs, tuple(upstream), gradients, traced.tuple_output), made


def _alive(nodes: Sequence[RawNode], ends: Sequence[str]) -> tuple[RawNode, ...]:
    needed = set(ends)
    for node in reversed(nodes):
        if node.name in needed:
            needed.update(references(node))
    return tuple(n for n in nodes if n.name in needed or n.op in ("input", "upstream"))


def _constant(graph: GraphBuilder, tensor: Tensor) -> Ref:
    number = same_number(tensor)
    if number is None:
        return graph.add("constant", [], tensor.shape, tensor.dtype)
    return graph.add("full", [number], tensor.shape, tensor.dtype)


def _rewrite(graph: GraphBuilder, node: Node, values: dict[Node, Value]) -> Value:
    args = [_plain(arg, values) for arg in node.args]
    kwargs = {key: _plain(arg, values) for key, arg in node.kwargs.items()}
    if node.target is operator.getitem:
        source = args[0]
        return source[args[1]] if isinstance(source, tuple) else _unknown(graph, node, [source, args[1]], {}, "getitem")
    name = node.target.overloadpacket.__name__
    rule = TABLE.get(name)
    result = rule(graph, node.meta["val"], args, kwargs) if rule else None
    return _unknown(graph, node, args, kwargs, str(node.target)) if result is None else result


def _plain(arg: Any, values: dict[Node, Value]) -> Any:
    if isinstance(arg, Node):
        return values[arg]
    if isinstance(arg, list | tuple):
        return [_plain(item, values) for item in arg]
    return arg


def _unknown(graph: GraphBuilder, node: Node, args: Sequence[Any], kwargs: dict[str, Any], op: str) -> Ref:
    meta = node.meta["val"]
    first = meta if isinstance(meta, Tensor) else next(m for m in meta if isinstance(m, Tensor))
    ref = graph.add(op, [_atom(arg) for arg in args], first.shape, first.dtype)
    if kwargs:
        last = graph.nodes.pop()
        pairs = tuple((key, _atom(value)) for key, value in sorted(kwargs.items()))
        graph.nodes.append(RawNode(last.name, last.op, last.args, last.shape, last.dtype, pairs))
    return ref


def _atom(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_atom(item) for item in value)
    return (
        value
        if value is None or isinstance(value, Ref | bool | int | float | str)
        else str(value).replace("torch.", "")
    )
