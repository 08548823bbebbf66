"""Evaluates a captured graph on tensors, operation by operation: the graph's meaning, and an alternative truth for verify."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gpu_runner.contracts import Expr, Graph, Node, NodeRef, RunnerError
from gpu_runner.contracts.expressions import Number, evaluate_expression
from gpu_runner.contracts.graph import BINARY_OPERATORS, UNARY_OPERATORS, Arg


class Unsupported(RunnerError):  # noqa: N818 - it states a fact
    """The graph has an operation outside of the canonical vocabulary."""


@dataclass(frozen=True)
class Evaluated:
    """Values of a graph; a gradient is None where no output depends on the input."""

    outputs: tuple[Tensor, ...]
    gradients: dict[str, Tensor | None]


def evaluate(
    graph: Graph,
    inputs: Mapping[str, Tensor],
    values: Mapping[str, Number],
    upstream: Sequence[Tensor | None] = (),
    lift: bool = False,
) -> Evaluated:
    """Evaluate on ``inputs``; ``values`` are the sizes and scalars by name, ``upstream`` the gradients of the outputs.

    With ``lift`` all floating values are float64, also those that the reference casts to float32. Without upstream gradients
    only the outputs are computed.

    Raises:
        Unsupported: an operation outside of the vocabulary. ExpressionError: a name without a value.
    """
    run = _Run(dict(inputs), values, lift)
    for name, tensor in zip(graph.upstream, upstream, strict=False):
        if name is not None and tensor is not None:
            run.known[name] = run.raised(tensor)
    ends = list(graph.outputs)
    if upstream:
        ends += [node for _, node in graph.gradients if node is not None]
    needed = _needed(graph, ends)
    for node in graph.nodes:
        if node.name in needed and node.op not in ("input", "upstream"):
            run.known[node.name] = run.value(node)
    outputs = tuple(run.known[name] for name in graph.outputs)
    gradients = {n: None if node is None else run.known[node] for n, node in graph.gradients} if upstream else {}
    return Evaluated(outputs, gradients)


def _needed(graph: Graph, ends: Sequence[str]) -> set[str]:
    needed = set(ends)
    for node in reversed(graph.nodes):
        if node.name in needed:
            needed.update(node.operands)
    return needed


class _Run:
    def __init__(self, inputs: dict[str, Tensor], values: Mapping[str, Number], lift: bool) -> None:
        self.values = values
        self.lift = lift
        self.known = {name: self.raised(tensor) for name, tensor in inputs.items()}
        floating = [t for t in self.known.values() if t.is_floating_point()]
        self.dtype = floating[0].dtype if floating else torch.float32
        self.device = next(iter(self.known.values())).device

    def raised(self, tensor: Tensor) -> Tensor:
        return tensor.double() if self.lift and tensor.is_floating_point() else tensor

    def value(self, node: Node) -> Tensor:
        rule = _RULES.get(node.op)
        if rule is None:
            raise Unsupported(f"the operator {node.op} is outside of the vocabulary")
        return rule(self, node, [self._argument(arg) for arg in node.args])

    def shape(self, node: Node) -> list[int]:
        return [self._number(dim) for dim in node.meta.shape]

    def made_dtype(self, node: Node) -> torch.dtype:
        """The dtype of a node without tensor operands: that of the inputs where it was traced with theirs."""
        dtype: torch.dtype = getattr(torch, node.meta.dtype)
        if not dtype.is_floating_point:
            return dtype
        return torch.float64 if self.lift else self.dtype if dtype is torch.float32 else dtype

    def cast_dtype(self, node: Node) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, node.meta.dtype)
        return torch.float64 if self.lift and dtype.is_floating_point else dtype

    def _argument(self, arg: Arg) -> Any:
        if isinstance(arg, tuple):
            return [self._argument(item) for item in arg]
        if isinstance(arg, NodeRef):
            return self.known[arg.name]
        return evaluate_expression(arg.text, self.values) if isinstance(arg, Expr) else arg

    def _number(self, dim: int | Expr) -> int:
        return int(evaluate_expression(dim.text, self.values)) if isinstance(dim, Expr) else dim


Rule = Callable[[_Run, Node, list[Any]], Tensor]


def _pointwise(function: Callable[..., Tensor]) -> Rule:
    def rule(run: _Run, node: Node, args: list[Any]) -> Tensor:
        if not any(isinstance(arg, Tensor) for arg in args):
            args[0] = torch.tensor(args[0], dtype=run.made_dtype(node), device=run.device)
        like = next(arg for arg in args if isinstance(arg, Tensor))
        return function(*[_tensor(arg, like) for arg in args])

    return rule


def _tensor(arg: Any, like: Tensor) -> Tensor:
    # Next to a tensor a number takes the tensor's dtype unless it is of a higher kind, as in torch.
    if isinstance(arg, Tensor):
        return arg
    dtype = like.dtype
    if isinstance(arg, float) and not dtype.is_floating_point:
        dtype = torch.get_default_dtype()
    elif dtype is torch.bool and not isinstance(arg, bool):
        dtype = torch.int64
    return torch.tensor(arg, dtype=dtype, device=like.device)


def _where(run: _Run, node: Node, args: list[Any]) -> Tensor:
    condition, a, b = args
    dtype = run.made_dtype(node) if not isinstance(a, Tensor) and not isinstance(b, Tensor) else None
    like = a if isinstance(a, Tensor) else b if isinstance(b, Tensor) else torch.empty((), dtype=dtype)
    chosen = [t if isinstance(t, Tensor) else torch.tensor(t, dtype=like.dtype, device=run.device) for t in (a, b)]
    return torch.where(condition, *chosen)


def _sum(run: _Run, node: Node, args: list[Any]) -> Tensor:
    return args[0].sum(args[1], keepdim=args[2])


def _cat(run: _Run, node: Node, args: list[Any]) -> Tensor:
    return torch.cat(args[0], args[1])


def _slice(run: _Run, node: Node, args: list[Any]) -> Tensor:
    x, dim, start, end, step = args
    return x[(slice(None),) * dim + (slice(start, end, step),)]


def _prod(run: _Run, node: Node, args: list[Any]) -> Tensor:
    x = args[0]
    for dim in sorted(args[1], reverse=True):
        x = torch.prod(x, dim, keepdim=args[2])
    return x


def _windows(run: _Run, node: Node, args: list[Any]) -> Tensor:
    x, _, *rules, _ends, lowest = args
    shape, n = run.shape(node), len(rules[0])
    lead = x.dim() - n
    places, inside = [], torch.ones((), dtype=torch.bool, device=run.device)
    for dim, (taps, step, dilation, offset, divisor) in enumerate(zip(*rules, strict=True)):
        across, size = [1] * (2 * n), x.shape[lead + dim]
        across[dim], across[n + dim] = shape[lead + dim], taps
        starts = step * torch.arange(shape[lead + dim], device=run.device) + offset
        at = starts[:, None] + dilation * torch.arange(taps, device=run.device)
        inside = inside & ((at % divisor == 0) & (at >= 0) & (at < size * divisor)).reshape(across)
        places.append((at // divisor).clamp(0, size - 1).reshape(across))
    taken = x[(slice(None),) * lead + tuple(places)]
    return torch.where(inside, taken, float("-inf") if lowest else 0)


def _scan(function: Callable[..., Tensor]) -> Rule:
    def rule(run: _Run, node: Node, args: list[Any]) -> Tensor:
        x, dim, reverse = args
        return function(x.flip(dim), dim).flip(dim) if reverse else function(x, dim)

    return rule


_RULES: dict[str, Rule] = {op: _pointwise(getattr(torch, op)) for op in [*UNARY_OPERATORS, *BINARY_OPERATORS]} | {
    "where": _where,
    "cast": lambda run, node, args: args[0].to(run.cast_dtype(node)),
    "full": lambda run, node, args: torch.full(run.shape(node), args[0], dtype=run.made_dtype(node), device=run.device),
    "arange": lambda run, node, args: torch.arange(args[0], dtype=run.made_dtype(node), device=run.device),
    "reshape": lambda run, node, args: args[0].reshape(run.shape(node)),
    "expand": lambda run, node, args: args[0].expand(run.shape(node)),
    "permute": lambda run, node, args: args[0].permute(args[1]),
    "slice": _slice,
    "cat": _cat,
    "sum": _sum,
    "prod": _prod,
    "cumsum": _scan(torch.cumsum),
    "cumprod": _scan(torch.cumprod),
    "flip": lambda run, node, args: torch.flip(args[0], args[1]),
    "amax": lambda run, node, args: torch.amax(args[0], args[1], args[2]),
    "amin": lambda run, node, args: torch.amin(args[0], args[1], args[2]),
    "argmax": lambda run, node, args: torch.argmax(args[0], args[1], args[2]),
    "gather": lambda run, node, args: torch.gather(args[0], args[1], args[2]),
    "index_select": lambda run, node, args: torch.index_select(args[0], args[1], args[2]),
    "matmul": lambda run, node, args: torch.matmul(args[0], args[1]),
    "windows": _windows,
}
