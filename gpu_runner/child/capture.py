"""The role that traces a problem, and builds a KernelBench model once to describe what it takes.

The problem stands as ``problem.py`` in the child's folder.
"""

from __future__ import annotations

import importlib
import inspect
import types
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from gpu_runner.child.handlers import Answer, ChildState, Handler
from gpu_runner.messages import (
    CheckReference,
    CompareGraph,
    DescribedModel,
    DescribeModel,
    FindRounding,
    LoadProblem,
    ModelNumber,
    ModelTensor,
    ReferenceRuns,
    Request,
    RoundedValues,
    TracedReference,
    TraceReference,
    TraceSizes,
)

if TYPE_CHECKING:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from gpu_runner.tracing.fake import Bounds, BoundsOfIntegers
    from gpu_runner.tracing.joint import JointTrace
    from gpu_runner.tracing.raw import RawGraph
    from gpu_runner.tracing.rounding import OperatorCall

T = TypeVar("T")
# Operators that are called, over all runs with one float32 parameter each, to tell which values that leaves unrounded: about a
# second. Where there would be more, no value counts as rounded beside any.
MOST_CALLS_BESIDE = 4000


def load_problem(state: ChildState, request: LoadProblem, tensors: list[torch.Tensor]) -> Answer[None]:
    """Import the problem, or run a source in its place."""
    state.values["no data"] = request.fake
    state.values.pop("traces", None)
    with _mode(state) if state.values["no data"] else nullcontext():
        if request.source is not None:
            module = types.ModuleType("problem")
            exec(compile(request.source, str(state.work / "problem.py"), "exec"), module.__dict__)  # noqa: S102 - as an import
            state.values["problem"] = module
        else:
            state.values["problem"] = importlib.import_module("problem")
    return None, []


def trace(state: ChildState, request: TraceReference, tensors: list[torch.Tensor]) -> Answer[TracedReference]:
    """Trace the reference."""
    from gpu_runner.tracing import whole
    from gpu_runner.tracing.fake import random_operator
    from gpu_runner.tracing.raw import to_plain

    at = request.at

    def traced(data: bool) -> TracedReference:
        if at.whole:
            inputs, _ = _inputs(at, data)
            forward = whole.trace(_bound(state, at), inputs, [spec.name for spec in at.inputs])
            return TracedReference(to_plain(forward), whole.random_operator(forward))
        capture = _watched(state, at, data)
        return TracedReference(to_plain(capture.graph), random_operator(capture.trace.module))

    return _without_data(state, at, traced), []


@dataclass(frozen=True)
class WatchedTrace:
    """A trace with the operators that were called for it; ``made`` are the graph's nodes by those of the trace."""

    trace: JointTrace
    graph: RawGraph
    made: dict[str, str]
    calls: list[OperatorCall]


def _watched(state: ChildState, at: TraceSizes, data: bool) -> WatchedTrace:
    """Trace the problem, once at the same sizes: a large model takes seconds."""
    from gpu_runner.tracing.canonical import canonical_with_names
    from gpu_runner.tracing.joint import trace as trace_joint
    from gpu_runner.tracing.rounding import Watch

    known: dict[str, WatchedTrace] = state.values.setdefault("traces", {})
    key = repr((at.sizes, at.scalars, data))
    if key not in known:
        (inputs, wanted), watch = _inputs(at, data), Watch()
        traced = trace_joint(_bound(state, at), inputs, wanted, watch)
        names = [spec.name for spec in at.inputs]
        known[key] = WatchedTrace(
            traced, *canonical_with_names(traced, names, [names[i] for i in wanted]), calls=watch.calls
        )
    return known[key]


def rounding(state: ChildState, request: FindRounding, tensors: list[torch.Tensor]) -> Answer[RoundedValues]:
    """Tell which values of the trace are bfloat16 in eager mode, and beside which float32 parameters not."""
    return _without_data(state, request.at, lambda data: _rounding(state, request.at, data)), []


def _rounding(state: ChildState, at: TraceSizes, data: bool) -> RoundedValues:
    import torch

    from gpu_runner.tracing.joint import run
    from gpu_runner.tracing.raw import to_plain
    from gpu_runner.tracing.rounding import Watch, rounded_nodes

    specs, call, narrow = at.inputs, _bound(state, at), torch.bfloat16
    capture = _watched(state, at, data)
    if capture.trace.rewritten:
        return RoundedValues(to_plain(capture.graph), ())
    wide, wanted = _inputs(at, data)
    eager_calls = Watch()
    names = [spec.name for spec in specs]
    inputs, _ = _inputs(at, data, narrow)
    dtypes = run(call, inputs, wanted, eager_calls)
    nodes = rounded_nodes(capture.calls, eager_calls.calls, narrow) or frozenset()
    unless: dict[str, list[str]] = {node: [] for node in nodes}
    places = [i for i, spec in enumerate(specs) if spec.parameter and spec.dtype is None and nodes]
    if len(places) * len(capture.calls) > MOST_CALLS_BESIDE:
        unless, places = {node: [names[i] for i in places] for node in nodes}, []
    for place in places:
        beside = Watch()
        mixed = [wide[i] if i == place else x for i, x in enumerate(inputs)]
        try:
            run(call, mixed, wanted, beside, dtypes)
            still = rounded_nodes(capture.calls, beside.calls, narrow) or frozenset()
        # A reference that takes no float32 parameter beside others is fine, and raises what it likes; the answer tells that its
        # values are then not known to be rounded.
        except Exception:  # noqa: BLE001 - as said above
            still = frozenset()
        for node in nodes - still:
            unless[node].append(names[place])
    kept = {node.name for node in capture.graph.nodes}
    rows = [(capture.made[node], tuple(unless[node])) for node in nodes if capture.made.get(node) in kept]
    return RoundedValues(to_plain(capture.graph), tuple(sorted(rows)))


def check(state: ChildState, request: CheckReference, tensors: list[torch.Tensor]) -> Answer[ReferenceRuns]:
    """Whether the reference agrees with itself, and its dtypes.

    Where the inputs, or all elements of the trace, are too many to be run, the trace alone says what is random.
    """
    import torch

    from gpu_runner.tracing.fake import MOST_ELEMENTS_COMPUTED, MOST_ELEMENTS_WITH_DATA, elements
    from gpu_runner.tracing.joint import as_tuple

    at = request.at
    call, same = _bound(state, at), None
    small = elements(at.inputs, at.sizes) <= MOST_ELEMENTS_WITH_DATA
    if not state.values.get("no data") and small and request.elements <= MOST_ELEMENTS_COMPUTED:
        runs = []
        for _ in range(2):
            torch.manual_seed(torch.seed())
            runs.append(as_tuple(call(_inputs(at, data=True)[0])))
        same = all(_identical(a, b) for a, b in zip(*runs, strict=True))

    def dtypes(data: bool) -> tuple[str, ...]:
        outputs = as_tuple(call(_inputs(at, data, torch.bfloat16)[0]))
        return tuple(str(out.dtype).removeprefix("torch.") for out in outputs)

    narrow: tuple[str, ...] | None
    try:
        narrow = _without_data(state, at, dtypes)
    # A reference that runs in float32 alone is fine, and raises what it likes; the graph then names no dtypes of its outputs.
    except Exception:  # noqa: BLE001 - as said above
        narrow = None
    return ReferenceRuns(same, narrow), []


def _without_data(state: ChildState, at: TraceSizes, run: Callable[[bool], T]) -> T:
    """What ``run`` finds on tensors without data, or with data where only that can tell and the inputs are small."""
    from gpu_runner.tracing.fake import MOST_ELEMENTS_WITH_DATA, NEEDS_DATA, ReadsValues, elements

    try:
        with _mode(state):
            return run(False)
    except NEEDS_DATA as error:
        operator = str(error)[:100]
        if state.values.get("no data") or elements(at.inputs, at.sizes) > MOST_ELEMENTS_WITH_DATA:
            sentence = f"`{operator}` takes the values of a tensor, and inputs of this size have none"
            raise ReadsValues(sentence).with_traceback(error.__traceback__) from error
    try:
        return run(True)
    except RuntimeError as error:
        if "value out of a tracing tensor" in str(error):
            sentence = f"`{operator}` takes the values of a tensor, so that there is no one graph"
            raise ReadsValues(sentence).with_traceback(error.__traceback__) from error
        raise


def _mode(state: ChildState) -> FakeTensorMode:
    """The child's one mode of tensors without data: tensors of two of them do not meet."""
    from gpu_runner.tracing.fake import fake_mode

    mode: FakeTensorMode = state.values.setdefault("mode", fake_mode())
    return mode


def _inputs(at: TraceSizes, data: bool, dtype: torch.dtype | None = None) -> tuple[list[torch.Tensor], list[int]]:
    """The problem's inputs, and the places of those that want a gradient."""
    import torch

    from gpu_runner.tracing.fake import fake_inputs
    from gpu_runner.tracing.joint import make_inputs

    specs, chosen = at.inputs, dtype or torch.float32
    if data:
        made = make_inputs(specs, at.sizes, seed=at.seed, dtype=chosen)
    else:
        made = fake_inputs(specs, at.sizes, chosen)
    return made, [i for i, spec in enumerate(specs) if spec.grad and made[i].is_floating_point()]


def agrees(state: ChildState, request: CompareGraph, tensors: list[torch.Tensor]) -> Answer[bool]:
    """Tell whether a graph gives the outputs and gradients of the reference."""
    import torch

    from gpu_runner.contracts.expressions import ExpressionError
    from gpu_runner.evaluate import Unsupported, evaluate
    from gpu_runner.tracing.joint import as_tuple, make_inputs

    if state.values.get("no data"):
        return False, []  # nothing was compared
    at, graph = request.at, request.graph
    names, made = [spec.name for spec in at.inputs], make_inputs(at.inputs, at.sizes, seed=at.seed)
    for spec, tensor in zip(at.inputs, made, strict=True) if request.last is not None else ():
        if tensor.is_floating_point() and tensor.dim() and spec.init == "normal" and not spec.parameter:
            tensor[..., -1] = request.last
    wanted = [name for name, _ in graph.gradients]
    leaves = [x.clone().requires_grad_(name in wanted) for name, x in zip(names, made, strict=True)]
    outputs = as_tuple(_bound(state, at)(leaves))
    draw = torch.Generator().manual_seed(at.seed + 1)  # of the inputs' own stream, norms would have no gradient
    upstream = [
        None if node is None else torch.randn(out.shape, generator=draw).to(out.dtype)
        for out, node in zip(outputs, graph.upstream, strict=True)
    ]
    ends = [(out, grad) for out, grad in zip(outputs, upstream, strict=True) if grad is not None]
    own = [leaf for name, leaf in zip(names, leaves, strict=True) if name in wanted]
    heads, grads = [out for out, _ in ends], [grad for _, grad in ends]
    given = torch.autograd.grad(heads, own, grads, allow_unused=True) if ends and own else [None] * len(own)
    values = {k: v for k, v in (at.sizes | at.scalars).items() if isinstance(v, int | float)}
    try:
        evaluated = evaluate(graph, dict(zip(names, made, strict=True)), values, upstream if ends else ())
    except (Unsupported, ExpressionError, RuntimeError):
        return False, []
    pairs = list(zip(outputs, evaluated.outputs, strict=True))
    order = [name for name in names if name in wanted]
    pairs += [(a, evaluated.gradients.get(name)) for a, name in zip(given, order, strict=True) if a is not None]
    return all(b is not None and _close(a.detach(), b) for a, b in pairs), []


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Tell whether two results are the same but for how float32 was rounded; a gradient that cancels is nothing else."""
    import torch

    if a.shape != b.shape:
        return False
    finite = torch.nan_to_num(a.double(), nan=0.0, posinf=0.0, neginf=0.0)
    scale = float(finite.abs().max()) if a.numel() else 0.0
    return bool(torch.allclose(a.double(), b.double(), rtol=0.0, atol=1e-4 * scale + 2e-6, equal_nan=True))


def _identical(a: torch.Tensor, b: torch.Tensor) -> bool:
    import torch

    return a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)))


def _bound(state: ChildState, at: TraceSizes) -> Callable[[Sequence[torch.Tensor]], Any]:
    reference = state.values["problem"].reference
    signature = inspect.signature(reference)
    names = [spec.name for spec in at.inputs]

    def call(inputs: Sequence[torch.Tensor]) -> Any:
        named = at.scalars | dict(zip(names, inputs, strict=True))
        positional = [named.pop(n) for n, p in signature.parameters.items() if p.kind is p.POSITIONAL_ONLY]
        return reference(*positional, **named)

    return call


def describe(state: ChildState, request: DescribeModel, tensors: list[torch.Tensor]) -> Answer[DescribedModel]:
    """The inputs of the call, the parameters and buffers, and the names of tensors that the model hides from both.

    Model and inputs are made without data: they may be larger than memory. What asks for values while it is made gets them.
    """
    import torch

    from gpu_runner.tracing.fake import MOST_ELEMENTS_WITH_DATA, NEEDS_DATA, BoundsOfIntegers, fake_mode

    problem = importlib.import_module("problem")
    mode, bounds = fake_mode(), BoundsOfIntegers()

    def made(make: Callable[[], Any]) -> Any:
        try:
            with mode, bounds:
                return make()
        except NEEDS_DATA:
            with bounds:
                return make()

    model = made(lambda: problem.Model(*problem.get_init_inputs()))
    if not isinstance(model, torch.nn.Module):
        raise TypeError("Model is no torch.nn.Module")
    parameters = list(inspect.signature(model.forward).parameters.values())
    inputs = made(problem.get_inputs)
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.KEYWORD_ONLY) for p in parameters) or len(inputs) > len(
        parameters
    ):
        raise TypeError("forward takes *args or **kwargs, or fewer arguments than get_inputs gives")
    hidden = tuple(
        f"{path}.{name}".lstrip(".")
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, torch.Tensor)
    )
    elements = sum(value.numel() for _, value in _held(model))
    start = _constants(problem.Model(*problem.get_init_inputs())) if elements <= MOST_ELEMENTS_WITH_DATA else {}
    drawn = _drawn(problem, inputs, bounds)
    tracking = tuple(
        path
        for path, module in model.named_modules()
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)  # noqa: SLF001 - the only name of what they share
        and module.training
        and module.track_running_stats
    )
    described = DescribedModel(
        tuple(_value(p.name, value, drawn) for p, value in zip(parameters, inputs, strict=False)),
        tuple(_tensor(n, v, bounds.of, start.get(n)) for n, v in model.named_parameters()),
        tuple(_tensor(n, v, bounds.of, start.get(n)) for n, v in model.named_buffers()),
        hidden,
        _tied(model),
        elements,
        tracking,
    )
    return described, []


def _tied(model: torch.nn.Module) -> tuple[tuple[str, str], ...]:
    """The second names of parameters and buffers, each with the first one."""
    first = {id(value): name for name, value in _held(model)}
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    return tuple((name, first[id(value)]) for name, value in named if first[id(value)] != name)


def _held(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [*model.named_parameters(), *model.named_buffers()]


def _constants(model: torch.nn.Module) -> dict[str, str]:
    """Tell which parameters and buffers start as ones, and which as zeros."""
    return {
        name: init
        for name, value in _held(model)
        for init, number in (("ones", 1), ("zeros", 0))
        if value.is_floating_point() and value.numel() and bool((value == number).all())
    }


def _drawn(problem: Any, inputs: Sequence[Any], bounds: BoundsOfIntegers) -> Callable[[torch.Tensor], Bounds | None]:
    """The bounds of whole numbers among the inputs: those they were drawn with, else of one draw where it is small."""
    import torch

    from gpu_runner.tracing.fake import MOST_ELEMENTS_WITH_DATA

    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    whole = [x for x in tensors if not x.is_floating_point() and x.dtype is not torch.bool]
    unknown = [x for x in whole if bounds.of(x) is None]
    if not unknown or sum(x.numel() for x in tensors) > MOST_ELEMENTS_WITH_DATA:
        return bounds.of
    seen = {
        id(x): (int(real.min()), int(real.max()) + 1)
        for x, real in zip(inputs, problem.get_inputs(), strict=True)
        if any(x is other for other in unknown) and real.numel()
    }
    return lambda x: seen.get(id(x)) or bounds.of(x)


def _value(name: str, value: Any, bounds: Callable[[torch.Tensor], Bounds | None]) -> ModelTensor | ModelNumber:
    import torch

    if isinstance(value, torch.Tensor):
        return _tensor(name, value, bounds)
    if isinstance(value, bool | int | float | str):
        return ModelNumber(name, value)
    raise TypeError(f"get_inputs gives a {type(value).__name__} for {name}")


def _tensor(
    name: str, value: torch.Tensor, bounds: Callable[[torch.Tensor], Bounds | None], init: str | None = None
) -> ModelTensor:
    low, high = (None if value.is_floating_point() else bounds(value)) or (None, None)
    dtype = str(value.dtype).removeprefix("torch.")
    return ModelTensor(name, tuple(value.shape), dtype, value.requires_grad, low, high, init)


HANDLERS: dict[type[Request[Any]], Handler] = {
    DescribeModel: describe,
    LoadProblem: load_problem,
    TraceReference: trace,
    CheckReference: check,
    FindRounding: rounding,
    CompareGraph: agrees,
}
