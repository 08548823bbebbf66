"""The role in which a problem's reference runs: in its own dtype, and in float64 for the truth."""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from gpu_runner.child.calls import listed, on_shapes, overlap, second_gradients, settle
from gpu_runner.child.handlers import Answer, ChildState, Handler, start
from gpu_runner.child.lift import as_eager, lifted, rounded
from gpu_runner.messages import (
    NOISY,
    ROUNDED,
    ROUNDINGS,
    SHAKEN,
    CallForm,
    DescribeModuleInputs,
    Differentiate,
    DifferentiateTwice,
    DrawModuleInputs,
    Evaluate,
    LoadReference,
    MeasureTraffic,
    ModuleInputs,
    OpenDevice,
    PlainValue,
    ReferenceLoaded,
    ReferenceValues,
    Request,
    TensorForm,
    TrafficBytes,
    TruthKinds,
)
from gpu_runner.numerics.measures import farthest, keep_pages
from gpu_runner.program.mode import Mode

_ROUNDED = {f"{ROUNDED} {seed}": seed for seed in ROUNDINGS}


def load(state: ChildState, request: LoadReference, tensors: list[torch.Tensor]) -> Answer[ReferenceLoaded]:
    """Import the problem; a KernelBench model is built, and its parameters and buffers are returned."""
    problem = importlib.import_module("problem")
    if request.form != "kernelbench":
        if not state.gpu:
            torch.set_num_threads(1)  # the cases are small: threads only wait for each other, and for other jobs
            keep_pages()
        state.values["reference"] = problem.reference
        return ReferenceLoaded(), []
    torch.manual_seed(request.seed)
    init = problem.get_init_inputs()
    model = problem.Model(*init)
    state.values["problem"], state.values["reference"] = problem, model.to(state.device)
    parameters = dict(model.named_parameters())
    state_dict = parameters | dict(model.named_buffers())
    trained = tuple(name for name, parameter in parameters.items() if parameter.requires_grad)
    tensors = [tensor.detach() for tensor in state_dict.values()]
    return ReferenceLoaded(tuple(init), tuple(state_dict), trained), tensors


def inputs(state: ChildState, request: DrawModuleInputs, tensors: list[torch.Tensor]) -> Answer[ModuleInputs]:
    """Fresh inputs of a KernelBench problem from its own ``get_inputs``."""
    torch.manual_seed(request.seed)
    made = state.values["problem"].get_inputs()
    kinds = tuple(isinstance(value, torch.Tensor) for value in made)
    scalars = tuple(value for value in made if not isinstance(value, torch.Tensor))
    return ModuleInputs(kinds, scalars), [value for value in made if isinstance(value, torch.Tensor)]


def input_forms(
    state: ChildState, request: DescribeModuleInputs, tensors: list[torch.Tensor]
) -> Answer[tuple[TensorForm | PlainValue, ...]]:
    """Shapes and dtypes of what ``get_inputs`` of a KernelBench problem gives, drawn without content where it runs so."""
    problem = state.values["problem"]
    torch.manual_seed(request.seed)
    try:
        with torch.device("meta"):
            made = problem.get_inputs()
    except (RuntimeError, TypeError, ValueError):  # it reads what it draws
        made = problem.get_inputs()
    return tuple(_form(value) if isinstance(value, torch.Tensor) else PlainValue(value) for value in made), []


def evaluate(state: ChildState, request: Evaluate, tensors: list[torch.Tensor]) -> Answer[ReferenceValues]:
    """Every output in float64 and in the reference's own dtype.

    With ``shake``, the step by which inputs are shaken, in float64 once more on inputs that are shaken, and on such as are
    shaken the other way; unless ``by_value`` alone, on both once more with equal elements going their own ways. With ``noise``
    twice more as float32 arithmetic may have it, and with ``rounded`` once more in its own dtype as other roundings have it.
    """
    outputs_of: dict[str, list[torch.Tensor | None]] = {}
    for kind in _kinds(request.kinds):
        arguments = settle(state, request.call, tensors, reuse=False)
        if not _is_own(kind):
            arguments = arguments.promoted()
        if kind in SHAKEN:
            side, by_value = SHAKEN[kind]
            arguments = arguments.shaken(side * request.kinds.shake, by_value=by_value)
        with _context(kind):
            value = arguments.call(state.values["reference"])
        outputs = list(value) if isinstance(value, tuple | list) else [value]
        for output in outputs:
            if not isinstance(output, torch.Tensor):
                raise TypeError(f"the reference gives a {type(output).__name__} where a tensor belongs")
        state.values[kind], outputs_of[kind] = (outputs, arguments), outputs
    (own, arguments), places = state.values["own"], range(len(outputs_of["own"]))
    beside = tuple(_is_beside(place, own) for place in places)
    return _answer(outputs_of, beside=beside, given=tuple(arguments.shares(own[place]) for place in places))


def gradients(state: ChildState, request: Differentiate, tensors: list[torch.Tensor]) -> Answer[ReferenceValues]:
    """The gradient of every leaf of the last ``evaluate``, of the same kinds."""
    gradients_of: dict[str, list[torch.Tensor | None]] = {}
    sent = replace(request.call, inputs=(), form=CallForm("upstream"))
    for kind in _kinds(request.kinds):
        outputs, arguments = state.values.pop(kind)
        given = settle(state, sent, tensors, reuse=False)
        upstream = (given.shaken(SHAKEN[kind][0] * request.kinds.shake) if kind in SHAKEN else given).upstream
        if sent.echoes and _is_own(kind):  # as a candidate has it: what its own output loses its gradients lose too
            upstream = [g if g is None else o.detach() for o, g in zip(outputs, upstream, strict=True)]
        pairs = [(o, g) for o, g in zip(outputs, upstream, strict=True) if g is not None and o.requires_grad]
        leaves = list(arguments.leaves.values())
        with _context(kind):
            grads = torch.autograd.grad(
                [output for output, _ in pairs],
                leaves,
                [grad.to(output.dtype) for output, grad in pairs],
                allow_unused=True,
            )
        gradients_of[kind] = list(grads)
    return _answer(gradients_of, names=tuple(arguments.leaves))


def double(state: ChildState, request: DifferentiateTwice, tensors: list[torch.Tensor]) -> Answer[ReferenceValues]:
    """Second gradients of every leaf and upstream gradient along ``directions``, in float64 and in the own dtype.

    Raises:
        RuntimeError: the reference has no double backward.
    """
    gradients_of: dict[str, list[torch.Tensor | None]] = {}
    for kind in _kinds(request.kinds):
        given = settle(state, request.call, tensors, reuse=False)
        arguments = given if _is_own(kind) else given.promoted()
        leaves = list(arguments.leaves.values())
        with _context(kind):
            outputs = listed(arguments.call(state.values["reference"]))
            pairs = [
                (output, grad.detach().to(output.dtype).requires_grad_())
                for output, grad in zip(outputs, given.upstream, strict=True)
                if grad is not None and output.requires_grad
            ]
            upstream = [grad for _, grad in pairs]
            first = torch.autograd.grad(
                [output for output, _ in pairs], leaves, upstream, create_graph=True, allow_unused=True
            )
            gradients_of[kind] = second_gradients(first, list(given.directions.values()), [*leaves, *upstream])
    return _answer(gradients_of)


def traffic(state: ChildState, request: MeasureTraffic, tensors: list[torch.Tensor]) -> Answer[TrafficBytes]:
    """The bytes of a workload's tensors, of what autograd keeps, and of all that is made, from a run on shapes alone."""
    arguments = on_shapes(request.call)
    kept: list[
        tuple[weakref.ref[torch.UntypedStorage], int]
    ] = []  # as long as autograd keeps it: not of what has no gradient

    def note(tensor: torch.Tensor) -> torch.Tensor:
        kept.append((weakref.ref(tensor.untyped_storage()), _bytes([tensor])))
        return tensor.detach()  # a result that its own operator kept would never be freed

    made = _Made()
    with torch.device("meta"), made, torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        value = arguments.call(state.values["reference"])
    outputs = list(value) if isinstance(value, tuple | list) else [value]
    wanted = [output for output in outputs if output.requires_grad]
    saved_bytes = {id(storage): size for known, size in kept if (storage := known()) is not None}
    counted = TrafficBytes(
        inputs=_bytes(arguments.tensors()),
        outputs=_bytes(outputs),
        upstream=_bytes(wanted),
        gradients=_written(list(arguments.leaves.values()), wanted) if wanted else 0,
        saved=sum(saved_bytes.values()),
        made=made.bytes,
        live=made.most_bytes,
        is_loss=all(output.numel() == 1 for output in outputs),
    )
    return counted, []


def _written(leaves: list[torch.Tensor], outputs: list[torch.Tensor]) -> int:
    """The bytes of the gradients: what autograd hands to two inputs is written once, and an upstream gradient handed on is not."""
    with torch.device("meta"):
        upstream = [torch.empty_like(output) for output in outputs]
        try:
            gradients = torch.autograd.grad(outputs, leaves, upstream, allow_unused=True)
        except RuntimeError:  # an operator whose gradient has no form on shapes alone
            return _bytes(leaves)
    distinct = {_place(grad): _bytes([leaf]) for leaf, grad in zip(leaves, gradients, strict=True) if grad is not None}
    given = set(map(_place, upstream))
    return sum(size for place, size in distinct.items() if place not in given)


def _place(tensor: torch.Tensor) -> tuple[object, ...]:
    storage = tensor.untyped_storage()._cdata  # noqa: SLF001 - on no device an address tells storages apart
    return storage, tensor.storage_offset(), tuple(tensor.shape), tensor.stride()


class _Made(Mode):
    """Counts the bytes of what operators make, views of it once, and the most that was not yet freed."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = self.most_bytes = self._live_bytes = 0

    def operator(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        made = func(*args, **kwargs)
        of_operands = {id(tensor.untyped_storage()) for tensor in _tensors((args, kwargs))}
        for one in _tensors(made):
            if id(one.untyped_storage()) not in of_operands:
                self._live(_bytes([one]))
                weakref.finalize(one.untyped_storage(), self._live, -_bytes([one]))
        return made

    def _live(self, more: int) -> None:
        self.bytes += max(0, more)
        self._live_bytes += more
        self.most_bytes = max(self.most_bytes, self._live_bytes)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _bytes(tensors: list[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _kinds(asked: TruthKinds) -> tuple[str, ...]:
    every = SHAKEN.items() if asked.shake else ()
    shaken = [kind for kind, (_, by_value) in every if by_value or not asked.by_value]
    return ("exact", "own", *shaken, *(NOISY if asked.noise else ()), *(_ROUNDED if asked.rounded else ()))


def _is_own(kind: str) -> bool:
    return kind == "own" or kind in _ROUNDED


def _context(kind: str) -> AbstractContextManager[None]:
    if kind in _ROUNDED:
        return rounded(_ROUNDED[kind])
    return as_eager() if kind == "own" else lifted(NOISY.get(kind))


def _answer(values_of: dict[str, list[torch.Tensor | None]], **more: Any) -> Answer[ReferenceValues]:
    """The values of each kind, of those rounded at random one."""
    runs = [values_of.pop(kind) for kind in _ROUNDED if kind in values_of]
    if runs:
        values_of[ROUNDED] = [farthest(exact, values) for exact, *values in zip(values_of["exact"], *runs, strict=True)]
    forms = {
        kind: tuple(None if value is None else _form(value) for value in values) for kind, values in values_of.items()
    }
    return ReferenceValues(forms, **more), [
        _plain(value) for values in values_of.values() for value in values if value is not None
    ]


def _is_beside(place: int, outputs: Sequence[torch.Tensor]) -> bool:
    """Whether another output lies in the memory of this one."""
    own = outputs[place]
    others = [one for at, one in enumerate(outputs) if at != place]
    return any(overlap(own, one) for one in others)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers of a tensor in memory, which the zeros that autograd gives for an untaken branch do not have."""
    tensor = tensor.detach()
    return (tensor.clone() if tensor._is_zerotensor() else tensor).contiguous()  # noqa: SLF001 - torch has no other word for it


def _form(tensor: torch.Tensor) -> TensorForm:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorForm(tuple(tensor.shape), tensor.stride(), dtype, tensor.requires_grad)


HANDLERS: dict[type[Request[Any]], Handler] = {
    OpenDevice: start,
    LoadReference: load,
    DrawModuleInputs: inputs,
    DescribeModuleInputs: input_forms,
    Evaluate: evaluate,
    Differentiate: gradients,
    DifferentiateTwice: double,
    MeasureTraffic: traffic,
}
