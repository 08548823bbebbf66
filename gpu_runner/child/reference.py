"""The role in which a problem's reference runs: in its own dtype, and in float64 for the truth."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from gpu_runner.child.calls import listed, on_shapes, overlap, second_gradients, settle
from gpu_runner.child.handlers import ChildState, Handler, start
from gpu_runner.verify.lift import as_allowed, lifted, rounded
from gpu_runner.verify.measures import keep_pages
from gpu_runner.verify.mode import Mode

Answer = tuple[dict[str, Any], list[torch.Tensor]]

# Answers on inputs that are a step away: the side to which it is, and whether equal elements go the same way. Those that tie at a
# bend do for a kernel; those of a row without variance must not, if it is to show what rounding makes of that.
SHAKEN = {
    "shaken": (1.0, True),
    "shaken_back": (-1.0, True),
    "shaken_apart": (1.0, False),
    "shaken_apart_back": (-1.0, False),
}
# Answers with the noise of float32 arithmetic, by what has a sign of its own.
NOISY = {"noisy": "each", "noisy_together": "all"}
ROUNDED = "rounded"  # answers in the own dtype with half precision rounded at random: what lies farthest from the truth of each run
ROUNDINGS = (1, 2, 3)  # seeds of these runs
_ROUNDED = {f"{ROUNDED} {seed}": seed for seed in ROUNDINGS}


def load(state: ChildState, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Import the problem; a KernelBench model is built, and its inputs, parameters and buffers are given as they come."""
    problem = importlib.import_module("problem")
    if meta["form"] != "kernelbench":
        if not state.gpu:
            torch.set_num_threads(1)  # the cases are small: threads only wait for each other, and for other jobs
            keep_pages()
        state.values["reference"] = problem.reference
        return {}, []
    torch.manual_seed(meta["seed"])
    init = problem.get_init_inputs()
    model = problem.Model(*init)
    state.values["problem"], state.values["reference"] = problem, model.to(state.device)
    parameters = dict(model.named_parameters())
    state_dict = parameters | dict(model.named_buffers())
    facts = {
        "init": list(init),
        "parameters": list(state_dict),
        "trained": [name for name, parameter in parameters.items() if parameter.requires_grad],
    }
    return facts, [tensor.detach() for tensor in state_dict.values()]


def inputs(state: ChildState, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Fresh inputs of a KernelBench problem from its own ``get_inputs``."""
    torch.manual_seed(meta["seed"])
    made = state.values["problem"].get_inputs()
    kinds = [isinstance(value, torch.Tensor) for value in made]
    scalars = [value for value in made if not isinstance(value, torch.Tensor)]
    return {"is_tensor": kinds, "scalars": scalars}, [value for value in made if isinstance(value, torch.Tensor)]


def input_forms(state: ChildState, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Shapes and dtypes of what ``get_inputs`` of a KernelBench problem gives, drawn without content where it runs so."""
    problem = state.values["problem"]
    torch.manual_seed(meta["seed"])
    try:
        with torch.device("meta"):
            made = problem.get_inputs()
    except (RuntimeError, TypeError, ValueError):  # it reads what it draws
        made = problem.get_inputs()
    return {"inputs": [_facts(value) if isinstance(value, torch.Tensor) else {"value": value} for value in made]}, []


def evaluate(state: ChildState, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Every output in float64 and in the reference's own dtype.

    With ``shake``, the step by which inputs are shaken, in float64 once more on inputs that are shaken, and on such as are
    shaken the other way; unless ``by_value`` alone, on both once more with equal elements going their own ways. With ``noise``
    twice more as float32 arithmetic may have it, and with ``rounded`` once more in its own dtype as other roundings have it.
    """
    outputs_of: dict[str, list[torch.Tensor | None]] = {}
    for kind in _kinds(meta):
        arguments = settle(state, meta, tensors, reuse=False)
        if not _is_own(kind):
            arguments = arguments.promoted()
        if kind in SHAKEN:
            side, by_value = SHAKEN[kind]
            arguments = arguments.shaken(side * meta["shake"], by_value=by_value)
        with _context(kind):
            value = arguments.call(state.values["reference"])
        outputs = list(value) if isinstance(value, tuple | list) else [value]
        for output in outputs:
            if not isinstance(output, torch.Tensor):
                raise TypeError(f"the reference gives a {type(output).__name__} where a tensor belongs")
        state.values[kind], outputs_of[kind] = (outputs, arguments), outputs
    facts, answers = _answer(outputs_of)
    return facts | {
        "beside": [_is_beside(place, outputs_of["own"]) for place in range(len(outputs_of["own"]))]
    }, answers


def gradients(state: ChildState, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """The gradient of every leaf of the last ``evaluate``, of the same kinds."""
    gradients_of: dict[str, list[torch.Tensor | None]] = {}
    for kind in _kinds(meta):
        outputs, arguments = state.values.pop(kind)
        given = settle(state, {**meta, "inputs": [], "form": "upstream"}, tensors, reuse=False)
        upstream = (given.shaken(SHAKEN[kind][0] * meta["shake"]) if kind in SHAKEN else given).upstream
        if meta["echoes"] and _is_own(kind):  # as a candidate has it: what its own output loses its gradients lose too
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
    facts, answers = _answer(gradients_of)
    return facts | {"names": list(arguments.leaves)}, answers


def double(state: ChildState, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """Second gradients of every leaf and upstream gradient along ``directions``, in float64 and in the own dtype.

    Raises:
        RuntimeError: the reference has no double backward.
    """
    gradients_of: dict[str, list[torch.Tensor | None]] = {}
    for kind in _kinds(meta):
        given = settle(state, meta, tensors, reuse=False)
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


def traffic(state: ChildState, meta: dict[str, Any], tensors: list[torch.Tensor]) -> Answer:
    """The bytes of a workload's tensors, of what autograd keeps, and of all that is made, from a run on shapes alone."""
    arguments = on_shapes(meta)
    saved_bytes: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        saved_bytes[id(tensor.untyped_storage())] = tensor.numel() * tensor.element_size()
        kept.append(tensor)
        return tensor

    kept: list[torch.Tensor] = []
    made = _Made()
    with torch.device("meta"), made, torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        value = arguments.call(state.values["reference"])
    outputs = list(value) if isinstance(value, tuple | list) else [value]
    wanted = [output for output in outputs if output.requires_grad]
    facts = {
        "inputs": _bytes(arguments.tensors()),
        "outputs": _bytes(outputs),
        "upstream": _bytes(wanted),
        "gradients": _bytes(list(arguments.leaves.values())) if wanted else 0,
        "saved": sum(saved_bytes.values()),
        "made": made.bytes,
        "is_loss": all(output.numel() == 1 for output in outputs),
    }
    return facts, []


class _Made(Mode):
    """Counts the bytes of what operators make, views of it once."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def operator(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        made = func(*args, **kwargs)
        of_operands = {id(tensor.untyped_storage()) for tensor in _tensors((args, kwargs))}
        self.bytes += _bytes([one for one in _tensors(made) if id(one.untyped_storage()) not in of_operands])
        return made


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _bytes(tensors: list[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _kinds(meta: dict[str, Any]) -> tuple[str, ...]:
    shaken = (
        [kind for kind, (_, by_value) in SHAKEN.items() if by_value or not meta["by_value"]]
        if meta.get("shake")
        else ()
    )
    more = (*shaken, *(NOISY if meta.get("noise") else ()))
    return ("exact", "own", *more, *(_ROUNDED if meta.get("rounded") else ()))


def _is_own(kind: str) -> bool:
    return kind == "own" or kind in _ROUNDED


def _context(kind: str) -> AbstractContextManager[None]:
    if kind in _ROUNDED:
        return rounded(_ROUNDED[kind])
    if kind != "own":
        return lifted(NOISY.get(kind))
    return as_allowed() if torch.cuda.is_available() and torch.backends.cudnn.allow_tf32 else nullcontext()


def _answer(values_of: dict[str, list[torch.Tensor | None]]) -> Answer:
    """The values of each kind, of those rounded at random one."""
    runs = [values_of.pop(kind) for kind in _ROUNDED if kind in values_of]
    if runs:
        values_of[ROUNDED] = [farthest(exact, values) for exact, *values in zip(values_of["exact"], *runs, strict=True)]
    facts = {kind: [None if value is None else _facts(value) for value in values] for kind, values in values_of.items()}
    return facts, [_plain(value) for values in values_of.values() for value in values if value is not None]


def farthest(exact: torch.Tensor | None, values: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
    """Of each element the value that lies farthest from the exact one."""
    farthest, *others = values
    for other in others:
        if exact is None or farthest is None or other is None:
            return None
        farthest = torch.where((other.double() - exact).abs() > (farthest.double() - exact).abs(), other, farthest)
    return farthest


def _is_beside(place: int, outputs: list[torch.Tensor | None]) -> bool:
    """Whether another output lies in the memory of this one."""
    own = outputs[place]
    others = [one for at, one in enumerate(outputs) if at != place]
    return any(own is not None and one is not None and overlap(own, one) for one in others)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers of a tensor in memory, which the zeros that autograd gives for an untaken branch do not have."""
    tensor = tensor.detach()
    return (tensor.clone() if tensor._is_zerotensor() else tensor).contiguous()  # noqa: SLF001 - torch has no other word for it


def _facts(tensor: torch.Tensor) -> dict[str, Any]:
    return {
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "differentiable": tensor.requires_grad,
    }


HANDLERS: dict[str, Handler] = {
    "start": start,
    "load": load,
    "inputs": inputs,
    "input_forms": input_forms,
    "evaluate": evaluate,
    "gradients": gradients,
    "double": double,
    "traffic": traffic,
}
