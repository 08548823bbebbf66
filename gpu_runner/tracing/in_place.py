"""Operators of a traced graph that change a tensor in place, replaced by those that give a new one; runs in the child."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping

import torch
from torch.fx import Graph, Node

# Without dropping anything they give their input itself, which their schemas do not say.
_GIVE_THEIR_INPUT = frozenset({"dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout", "type_as"})


class CannotFollow(RuntimeError):  # noqa: N818 - it states a fact
    """What the reference does cannot be a graph of operators."""


def without_changes(graph: Graph, names: Mapping[Node, str], kept_out: Collection[object] = ()) -> None:
    """Replace what changes tensors in place. Nodes keep their names.

    ``names`` are those of the placeholders that the caller sees; operators of ``kept_out`` must not come in.

    Raises:
        CannotFollow: the old values, or the change, are seen from elsewhere, or no operator gives a new tensor.
    """
    places = {node: place for place, node in enumerate(graph.nodes)}
    memory, sharing = _memory(graph)
    for node in list(graph.nodes):
        if not changes(node):
            continue
        own = memory[node.args[0]]
        for name in (name for other, name in names.items() if other in own):
            raise CannotFollow(f"`{node.target}` changes `{name}` in place, which the caller sees")
        if any(origin.op == "get_attr" for origin in own):
            if node.users:
                raise CannotFollow(f"`{node.target}` changes a constant of the model, and its value is used")
            graph.erase_node(node)  # such as a count of batches
            continue
        target, place = node.args[0], places[node]
        for other in {other for origin in memory[node] for other in sharing[origin]} - {target}:
            if places[other] < place and any(places[user] > place for user in other.users):
                raise CannotFollow(
                    f"`{node.target}` changes memory in place that `{other.name}` shows too, which is used later"
                )
        _make_new(node, kept_out)
        for user in [user for user in target.users if places[user] > place]:
            user.replace_input_with(target, node)


def changes(node: Node) -> bool:
    """Whether a node changes a tensor in place."""
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and schema is not None and bool(schema.is_mutable)


def _make_new(node: Node, kept_out: Collection[object]) -> None:
    name = node.target.overloadpacket.__name__
    if name == "copy_" and _alike(node.args[0], node.args[1]):
        node.target, node.args, node.kwargs = torch.ops.aten.clone.default, (node.args[1],), {}
        return
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None)
    pure = getattr(packet, node.target._overloadname, None)  # noqa: SLF001 - the only name of an overload
    if pure is None or pure in kept_out:
        raise CannotFollow(f"`{node.target}` changes a tensor in place, and there is no operator that gives a new one")
    node.target = pure


def _alike(one: Node, other: object) -> bool:
    if not isinstance(other, Node):
        return False
    first, second = one.meta["val"], other.meta["val"]
    return bool(first.shape == second.shape and first.dtype == second.dtype)


def _memory(graph: Graph) -> tuple[dict[Node, set[Node]], dict[Node, list[Node]]]:
    """By node, the nodes that made the memory which it may share, by the schemas of operators; and the same the other way round."""
    memory: dict[Node, set[Node]] = {}
    sharing: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        schema = getattr(node.target, "_schema", None)
        shared = [arg for arg in node.args[:1] if node.target is operator.getitem]
        if schema is not None:
            named = zip(schema.arguments, node.args, strict=False)
            shared = [arg for argument, arg in named if argument.alias_info is not None]
            shared += node.args[:1] if node.target.overloadpacket.__name__ in _GIVE_THEIR_INPUT else []
        nodes = [
            item
            for arg in shared
            for item in (arg if isinstance(arg, list | tuple) else (arg,))
            if isinstance(item, Node)
        ]
        memory[node] = set().union(*(memory[item] for item in nodes)) if nodes else {node}
        for origin in memory[node]:
            sharing.setdefault(origin, []).append(node)
    return memory, sharing
