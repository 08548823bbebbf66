"""Tracing a reference's forward in torch's own operators, as autograd sees them; runs in the child.

Operators that change a tensor in place are replaced by those that give a new one, where nothing else looks at that memory later.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from gpu_runner.tracing.fake import OperatorLimit, same_number
from gpu_runner.tracing.in_place import CannotFollow, without_changes
from gpu_runner.tracing.joint import as_tuple
from gpu_runner.tracing.raw import RawArg, RawGraph, RawNode, Ref, references

_DROPPED = frozenset({"device", "pin_memory", "layout"})  # a program runs where its inputs lie
# Operators that draw numbers only where an argument says so: its place, and the name that it may have.
_DROPOUTS = ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
_STATISTICS = ("batch_norm", "instance_norm")  # which change their fourth and fifth argument where the sixth is true


def trace(call: Callable[[Sequence[Tensor]], Any], inputs: Sequence[Tensor], names: Sequence[str]) -> RawGraph:
    """The forward of ``call`` as one graph over ``names``.

    Raises:
        CannotFollow: it changes memory that is seen elsewhere, or leaves torch's operators. TypeError: its result is no tensor.
    """
    is_tuple: list[bool] = []

    def flat(*given: Tensor) -> list[Tensor]:
        with OperatorLimit():
            result = call(given)
        is_tuple.append(isinstance(result, tuple | list))
        return list(as_tuple(result))

    module = make_fx(flat, pre_dispatch=True)(*inputs)
    given = (node for node in module.graph.nodes if node.op == "placeholder")
    without_changes(module.graph, dict(zip(given, names, strict=True)))
    return _Reader(module, names).graph(is_tuple[-1])


def random_operator(graph: RawGraph) -> str | None:
    """The first operator of a graph that draws random numbers."""
    for node in graph.nodes:
        packet, _, overload = node.op.removeprefix("aten.").partition(".")
        operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if torch.Tag.nondeterministic_seeded not in getattr(operator, "tags", ()):
            continue
        if packet == "scaled_dot_product_attention" and (len(node.args) < 5 or not node.args[4]):
            continue
        return node.op
    return None


def _changes_nothing(node: Node) -> bool:
    """Whether a cast gives its input itself: in float32, one to float32 as well as one to the dtype of the call."""
    before, after = node.args[0].meta["val"], node.meta["val"]
    return before.dtype == after.dtype and before.device == after.device and not any(a is True for a in node.args[2:])


class _Reader:
    """Reads a traced module."""

    def __init__(self, module: GraphModule, names: Sequence[str]) -> None:
        self._module, self._names = module, list(names)
        self._nodes: list[RawNode] = []
        self._values: dict[Node, Ref] = {}
        self._taken = set(names)
        self._has_gradients = True

    def graph(self, is_tuple: bool) -> RawGraph:
        given = iter(self._names)
        outputs: list[str] = []
        for node in self._module.graph.nodes:
            if node.op == "placeholder":
                self._values[node] = self._add(next(given), "input", (), node.meta["val"])
            elif node.op == "get_attr":
                if node.users:
                    self._values[node] = self._constant(getattr(self._module, node.target))
            elif node.op == "output":
                outputs = [self._values[item].name for item in node.args[0]]
            else:
                self._called(node)
        none = (None,) * len(outputs)
        return RawGraph(self._alive(outputs), tuple(self._names), tuple(outputs), none, (), is_tuple)

    def _called(self, node: Node) -> None:
        if node.target is torch._C._set_grad_enabled:  # noqa: SLF001 - as it stands in the trace
            self._has_gradients = bool(node.args[0])
            return
        args = tuple(self._plain(arg) for arg in node.args)
        if node.target is operator.getitem:
            self._values[node] = self._add(self._fresh(node.name), "getitem", args, node.meta["val"])
            return
        if not isinstance(node.target, torch._ops.OpOverload):  # noqa: SLF001 - the public name of an operator's type
            raise CannotFollow(f"`{getattr(node.target, '__name__', node.target)}` is no operator of torch's")
        packet = node.target.overloadpacket.__name__
        if packet in _DROPOUTS and not (node.args[1] and node.args[2]):
            self._values[node] = self._values[node.args[0]]
            return
        if packet in ("to", "type_as") and _changes_nothing(node):
            self._values[node] = self._values[node.args[0]]
            return
        if packet in _STATISTICS and len(args) > 5 and args[3] is not None and args[5]:
            raise CannotFollow(f"`{node.target}` updates its running statistics in place: call eval(), or keep none")
        kwargs = tuple((key, self._plain(value)) for key, value in node.kwargs.items() if key not in _DROPPED)
        value = self._add(self._fresh(node.name), str(node.target), args, node.meta["val"], kwargs)
        meta = node.meta["val"]
        if not self._has_gradients and isinstance(meta, Tensor) and meta.is_floating_point():
            value = self._add(self._fresh(f"{node.name}_detached"), "aten.detach.default", (value,), meta)
        self._values[node] = value

    def _constant(self, tensor: Tensor) -> Ref:
        number = same_number(tensor)
        if number is None:
            raise CannotFollow("the model makes a tensor of several different numbers: register it as a buffer")
        dtype = (("dtype", str(tensor.dtype)),)
        return self._add(self._fresh("constant"), "aten.full.default", (tuple(tensor.shape), number), tensor, dtype)

    def _add(
        self, name: str, op: str, args: tuple[RawArg, ...], meta: Any, kwargs: tuple[tuple[str, RawArg], ...] = ()
    ) -> Ref:
        first = meta if isinstance(meta, Tensor) else next(item for item in meta if isinstance(item, Tensor))
        shape = tuple(int(size) for size in first.shape)
        self._nodes.append(RawNode(name, op, args, shape, str(first.dtype).removeprefix("torch."), kwargs))
        return Ref(name)

    def _fresh(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def _plain(self, arg: Any) -> Any:
        if isinstance(arg, Node):
            return self._values[arg]
        if isinstance(arg, list | tuple):
            return tuple(self._plain(item) for item in arg)
        return arg if arg is None or isinstance(arg, bool | int | float | str) else str(arg)

    def _alive(self, ends: Sequence[str]) -> tuple[RawNode, ...]:
        needed = set(ends)
        for node in reversed(self._nodes):
            if node.name in needed:
                needed.update(references(node))
        return tuple(n for n in self._nodes if n.name in needed or n.op == "input")
