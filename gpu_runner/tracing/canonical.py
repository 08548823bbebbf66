"""From torch's operators to the canonical vocabulary, on one traced graph; runs in the child."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.fx import Node

from gpu_runner.tracing.builder import GraphBuilder
from gpu_runner.tracing.joint import Traced
from gpu_runner.tracing.raw import RawGraph, RawNode, Ref, references
from gpu_runner.tracing.rules import TABLE, Value


def canonical(traced: Traced, inputs: Sequence[str], wanted: Sequence[str]) -> RawGraph:
    """Rewrite a traced graph in the canonical vocabulary, without nodes that nothing needs."""
    return canonical_with_names(traced, inputs, wanted)[0]


def canonical_with_names(
    traced: Traced, inputs: Sequence[str], wanted: Sequence[str]
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
            if len(graph.nodes) > before and isinstance(value, Ref) and value.name == graph.nodes[-1].name:
                made[node.name] = value.name
    names = [result.name for result in results]
    found = iter(names[traced.outputs :])
    gradients = tuple((name, next(found) if has else None) for name, has in zip(wanted, traced.gradients, strict=True))
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
    if tensor.numel() and bool((tensor == tensor.reshape(-1)[0]).all()):
        return graph.add("full", [tensor.reshape(-1)[0].item()], tensor.shape, tensor.dtype)
    return graph.add("constant", [], tensor.shape, tensor.dtype)


def _rewrite(graph: GraphBuilder, node: Node, values: dict[Node, Value]) -> Value:
    args = [_plain(arg, values) for arg in node.args]
    kwargs = {key: _plain(arg, values) for key, arg in node.kwargs.items()}
    if node.target is operator.getitem:
        held = args[0]
        return held[args[1]] if isinstance(held, tuple) else _unknown(graph, node, [held, args[1]], {}, "getitem")
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
        held = graph.nodes.pop()
        pairs = tuple((key, _atom(value)) for key, value in sorted(kwargs.items()))
        graph.nodes.append(RawNode(held.name, held.op, held.args, held.shape, held.dtype, pairs))
    return ref


def _atom(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_atom(item) for item in value)
    return (
        value
        if value is None or isinstance(value, Ref | bool | int | float | str)
        else str(value).replace("torch.", "")
    )
