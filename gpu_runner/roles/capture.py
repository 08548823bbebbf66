"""The role that traces a problem. The problem stands as ``problem.py`` in the child's folder."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gpu_runner.roles import Handler, State

if TYPE_CHECKING:
    import torch

Answer = tuple[dict[str, Any], "list[torch.Tensor]"]


def load_problem(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Import the problem."""
    state.values["problem"] = importlib.import_module("problem")
    return {}, []


def trace(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Trace the reference at the sizes of ``meta``."""
    from gpu_runner.tracing.canonical import canonical
    from gpu_runner.tracing.joint import make_inputs
    from gpu_runner.tracing.joint import trace as trace_joint
    from gpu_runner.tracing.raw import to_plain

    specs = meta["inputs"]
    inputs = make_inputs(specs, meta["sizes"], seed=meta["seed"])
    wanted = [i for i, spec in enumerate(specs) if spec["grad"] and inputs[i].is_floating_point()]
    traced = trace_joint(_bound(state, meta), inputs, wanted)
    names = [spec["name"] for spec in specs]
    return {"graph": to_plain(canonical(traced, names, [names[i] for i in wanted]))}, []


def rounding(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Tell which values of the trace at the sizes of ``meta`` are bfloat16 in eager mode, and beside which float32 parameters not.

    The trace goes along, so that it can be seen to be the one that the names are of.
    """
    import torch

    from gpu_runner.tracing.canonical import canonical_with_names
    from gpu_runner.tracing.joint import make_inputs, run
    from gpu_runner.tracing.joint import trace as trace_joint
    from gpu_runner.tracing.raw import to_plain
    from gpu_runner.tracing.rounding import rounded_nodes
    from gpu_runner.tracing.watching import Watch

    specs, call, narrow = meta["inputs"], _bound(state, meta), torch.bfloat16
    wide = make_inputs(specs, meta["sizes"], seed=meta["seed"])
    wanted = [i for i, spec in enumerate(specs) if spec["grad"] and wide[i].is_floating_point()]
    traced_calls, eager_calls = Watch(), Watch()
    traced = trace_joint(call, wide, wanted, traced_calls)
    names = [spec["name"] for spec in specs]
    graph, made = canonical_with_names(traced, names, [names[i] for i in wanted])
    inputs = make_inputs(specs, meta["sizes"], seed=meta["seed"], dtype=narrow)
    dtypes = run(call, inputs, wanted, eager_calls)
    nodes = rounded_nodes(traced_calls.calls, eager_calls.calls, narrow) or frozenset()
    nodes = frozenset() if traced.rewritten else nodes
    unless: dict[str, list[str]] = {node: [] for node in nodes}
    for place in (i for i, spec in enumerate(specs) if spec["parameter"] and spec["dtype"] is None and nodes):
        beside = Watch()
        mixed = [wide[i] if i == place else x for i, x in enumerate(inputs)]
        try:
            run(call, mixed, wanted, beside, dtypes)
            still = rounded_nodes(traced_calls.calls, beside.calls, narrow) or frozenset()
        # A reference that takes no float32 parameter beside others is fine, and raises what it likes; the answer tells that its
        # values are then not known to be rounded.
        except Exception:  # noqa: BLE001 - as said above
            still = frozenset()
        for node in nodes - still:
            unless[node].append(names[place])
    kept = {node.name for node in graph.nodes}
    rows = [[made[node], unless[node]] for node in nodes if made.get(node) in kept]
    return {"graph": to_plain(graph), "rounded": sorted(rows)}, []


def check(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Run the reference twice on the same inputs and once in bfloat16; tells whether it agrees with itself, and its dtypes."""
    import torch

    from gpu_runner.tracing.joint import as_tuple, make_inputs

    call = _bound(state, meta)
    runs = []
    for _ in range(2):
        torch.manual_seed(torch.seed())
        runs.append(as_tuple(call(make_inputs(meta["inputs"], meta["sizes"], seed=meta["seed"]))))
    same = [_identical(a, b) for a, b in zip(*runs, strict=True)]
    narrow: list[str] | None
    try:
        half = make_inputs(meta["inputs"], meta["sizes"], seed=meta["seed"], dtype=torch.bfloat16)
        narrow = [str(out.dtype).removeprefix("torch.") for out in as_tuple(call(half))]
    # A reference that runs in float32 alone is fine, and raises what it likes; the graph then names no dtypes of its outputs.
    except Exception:  # noqa: BLE001 - as said above
        narrow = None
    return {"deterministic": all(same), "narrow": narrow}, []


def agrees(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Tell whether a graph gives the outputs and gradients of the reference at the sizes and with the scalars of ``meta``."""
    import torch

    from gpu_runner.contracts import Graph, from_json
    from gpu_runner.contracts.expressions import ExpressionError
    from gpu_runner.evaluate import Unsupported, evaluate
    from gpu_runner.tracing.joint import as_tuple, make_inputs

    graph, specs = from_json(Graph, meta["graph"]), meta["inputs"]
    names, made = [spec["name"] for spec in specs], make_inputs(specs, meta["sizes"], seed=meta["seed"])
    wanted = [name for name, _ in graph.gradients]
    leaves = [x.clone().requires_grad_(name in wanted) for name, x in zip(names, made, strict=True)]
    outputs = as_tuple(_bound(state, meta)(leaves))
    draw = torch.Generator().manual_seed(meta["seed"] + 1)  # of the inputs' own stream, norms would have no gradient
    upstream = [
        None if node is None else torch.randn(out.shape, generator=draw).to(out.dtype)
        for out, node in zip(outputs, graph.upstream, strict=True)
    ]
    ends = [(out, grad) for out, grad in zip(outputs, upstream, strict=True) if grad is not None]
    own = [leaf for name, leaf in zip(names, leaves, strict=True) if name in wanted]
    heads, grads = [out for out, _ in ends], [grad for _, grad in ends]
    given = torch.autograd.grad(heads, own, grads, allow_unused=True) if ends and own else [None] * len(own)
    values = {k: v for k, v in (meta["sizes"] | meta["scalars"]).items() if isinstance(v, int | float)}
    try:
        found = evaluate(graph, dict(zip(names, made, strict=True)), values, upstream if ends else ())
    except (Unsupported, ExpressionError, RuntimeError):
        return {"agrees": False}, []
    pairs = list(zip(outputs, found.outputs, strict=True))
    order = [name for name in names if name in wanted]
    pairs += [(a, found.gradients.get(name)) for a, name in zip(given, order, strict=True) if a is not None]
    return {"agrees": all(b is not None and _close(a.detach(), b) for a, b in pairs)}, []


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Tell whether two results are the same but for how float32 was rounded; a gradient that cancels is nothing else."""
    import torch

    if a.shape != b.shape:
        return False
    scale = float(torch.nan_to_num(a.double()).abs().max()) if a.numel() else 0.0
    return bool(torch.allclose(a.double(), b.double(), rtol=0.0, atol=1e-4 * scale + 2e-6, equal_nan=True))


def _identical(a: torch.Tensor, b: torch.Tensor) -> bool:
    import torch

    return a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)))


def _bound(state: State, meta: dict[str, Any]) -> Callable[[Sequence[torch.Tensor]], Any]:
    reference = state.values["problem"].reference
    signature = inspect.signature(reference)
    names = [spec["name"] for spec in meta["inputs"]]

    def call(inputs: Sequence[torch.Tensor]) -> Any:
        named = dict(meta["scalars"]) | dict(zip(names, inputs, strict=True))
        positional = [named.pop(n) for n, p in signature.parameters.items() if p.kind is p.POSITIONAL_ONLY]
        return reference(*positional, **named)

    return call


HANDLERS: dict[str, Handler] = {
    "load": load_problem,
    "trace": trace,
    "check": check,
    "rounding": rounding,
    "agrees": agrees,
}
