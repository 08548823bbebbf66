"""The calls of a callable: its arguments, laid out from the guarded buffers that the parent sent, and its uses.

A use is another way to call a function than forward and backward once: without autograd, for some gradients, checkpointed, or
twice.
"""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from gpu_runner.child.handlers import ChildState
from gpu_runner.child.lift import is_within_one, mirrored
from gpu_runner.contracts.problem import RAISES
from gpu_runner.messages import CallForm, SentCall, SentTensor, ShapedCall
from gpu_runner.program.poison import GUARD_ELEMENTS, between_guards, bits_equal


@dataclass
class Arguments:
    """What a callable is called with, and the memory behind it."""

    positional: list[Any] = field(default_factory=list)
    named: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)  # of a module, in place of its own
    inputs: dict[str, torch.Tensor] = field(default_factory=dict)
    leaves: dict[str, torch.Tensor] = field(default_factory=dict)  # inputs that want a gradient
    raw: dict[str, torch.Tensor] = field(default_factory=dict)  # guarded buffers by input
    memory: dict[str, torch.Tensor] = field(
        default_factory=dict
    )  # of inputs and upstream gradients, what lies between the guards
    upstream: list[torch.Tensor | None] = field(default_factory=list)  # one per output
    raw_upstream: list[torch.Tensor] = field(default_factory=list)
    directions: dict[str, torch.Tensor] = field(
        default_factory=dict
    )  # by leaf: what a second derivative is taken along
    names: tuple[str, ...] = ()  # of what is passed by place
    usual: frozenset[str] = frozenset()  # scalars that are what the reference takes where they are left out
    _other: list[Arguments] = field(default_factory=list)

    @property
    def other(self) -> Arguments:
        """The second set of inputs, which lies beside the first."""
        return self._other[0]

    def call(self, callable_: Callable[..., Any]) -> Any:
        """Call a function with these arguments, or a module with these parameters for its own.

        Raises:
            KeyError: the module lacks a parameter or buffer.
        """
        if not self.parameters:
            return callable_(*self.positional, **self.named)
        assert isinstance(callable_, torch.nn.Module)
        before = "_orig_mod." if isinstance(getattr(callable_, "_orig_mod", None), torch.nn.Module) else ""  # compiled
        parameters = {f"{before}{name}": value for name, value in self.parameters.items()}
        known = {name for name, _ in [*callable_.named_parameters(), *callable_.named_buffers()]}
        for name in parameters:
            if name not in known:
                raise KeyError(f"the module has no parameter or buffer {name}")
        return torch.func.functional_call(callable_, parameters, tuple(self.positional), self.named)

    def omitting(self, callable_: Callable[..., Any]) -> Arguments:
        """The same arguments but for usual scalars for which the callable has a default of its own."""
        optional = _optional(callable_)
        last = len(self.positional)
        while last and last <= len(self.names) and self.names[last - 1] in self.usual and last - 1 in optional:
            last -= 1
        named = {name: value for name, value in self.named.items() if name not in self.usual or name not in optional}
        return replace(self, positional=self.positional[:last], named=named)

    def promoted(self, dtype: torch.dtype = torch.float64) -> Arguments:
        """The same arguments with every floating tensor as a leaf of the same value in a wider dtype."""
        return self._with(lambda value: value.to(dtype) if value.is_floating_point() else value)

    def shaken(self, step: float, *, by_value: bool = False) -> Arguments:
        """The same arguments with every floating element ``step`` of itself away, up or down by a fixed draw.

        The opposite step moves every element to the other side, and ``by_value`` equal ones to the same. Upstream gradients are
        shaken too.
        """
        shake = _Shaker(step, 0, by_value=by_value)
        moved = self._with(shake)
        shake = _Shaker(step, 1, by_value=False)
        moved.upstream = [None if grad is None else shake(grad.double()) for grad in self.upstream]
        return moved

    def requiring(self, names: Collection[str]) -> Arguments:
        """The same memory under new tensors, of which only those with these names want a gradient."""
        fresh = self._with(lambda value: value)
        for name, leaf in list(fresh.leaves.items()):
            if name not in names:
                leaf.requires_grad_(False)
                del fresh.leaves[name]
        return fresh

    def copied(self) -> Arguments:
        """The same arguments in memory of their own, with the strides that they have unless elements share their memory."""

        def copy(value: torch.Tensor) -> torch.Tensor:
            made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
            is_expanded = torch._debug_has_internal_overlap(made) == 1  # noqa: SLF001 - torch's own test
            return value.clone() if is_expanded else made.copy_(value)

        return self._with(copy)

    def replacing(self, leaves: dict[str, torch.Tensor]) -> Arguments:
        """The same arguments with other tensors for some leaves."""
        swapped = {id(self.leaves[name]): leaf for name, leaf in leaves.items()}

        def new(value: Any) -> Any:
            return swapped.get(id(value), value)

        return Arguments(
            positional=[new(value) for value in self.positional],
            named={name: new(value) for name, value in self.named.items()},
            parameters={name: new(value) for name, value in self.parameters.items()},
            inputs={name: new(value) for name, value in self.inputs.items()},
            leaves=self.leaves | leaves,
            upstream=self.upstream,
            names=self.names,
            usual=self.usual,
        )

    def _with(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Arguments:
        """The same arguments with every tensor changed, as a leaf where it was one."""
        changed: dict[int, torch.Tensor] = {}

        def new(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            if id(value) not in changed:
                fresh = change(value.detach())
                changed[id(value)] = fresh.requires_grad_() if value.requires_grad else fresh
            return changed[id(value)]

        return Arguments(
            positional=[new(value) for value in self.positional],
            named={name: new(value) for name, value in self.named.items()},
            parameters={name: new(value) for name, value in self.parameters.items()},
            inputs={name: new(value) for name, value in self.inputs.items()},
            leaves={name: new(value) for name, value in self.leaves.items()},
            upstream=self.upstream,
            names=self.names,
            usual=self.usual,
        )

    def shares(self, tensor: torch.Tensor) -> bool:
        """Say whether a tensor lies in the memory of an input or of an upstream gradient."""
        memories = self.memory.values()
        return any(tensor.untyped_storage().data_ptr() == memory.untyped_storage().data_ptr() for memory in memories)

    def rolled(self, rows: int) -> Arguments:
        """The same arguments with every input moved on by ``rows`` along its first dimension: fresh content, same values."""
        return self._with(lambda value: value.clone() if value.dim() == 0 else torch.roll(value, rows, 0))

    def tensors(self) -> list[torch.Tensor]:
        """Every tensor argument."""
        values = [*self.positional, *self.named.values(), *self.parameters.values()]
        return [value for value in values if isinstance(value, torch.Tensor)]

    def refill(self, call: SentCall, tensors: list[torch.Tensor], names: Collection[str]) -> list[str]:
        """Put inputs and upstream gradients ("upstream N") back as they were sent; gives the names of those that had changed.

        What was written beyond their edges stays as it is, to be found.
        """
        sent_values = [(entry.name, self.raw[entry.name], entry) for entry in call.inputs]
        sent = [(f"upstream {place}", entry) for place, entry in enumerate(call.upstream) if entry is not None]
        sent_values += [(name, raw, entry) for (name, entry), raw in zip(sent, self.raw_upstream, strict=True)]
        changed = []
        for name, raw, entry in sent_values:
            if name in names:
                target, source = _written(raw, entry), _written(tensors[entry.place].to(raw.device), entry)
                if not bits_equal(target, source):
                    changed.append(name)
                    target.copy_(source)
        return changed


def _optional(callable_: Callable[..., Any]) -> set[str | int]:
    """Places and names of the parameters of a function that have a default; a function of the evaluator has a signature too."""
    signature = getattr(callable_, "signature", None)
    if not isinstance(signature, inspect.Signature):
        try:
            signature = inspect.signature(callable_)
        except (TypeError, ValueError):
            return set()
    positions: set[str | int] = set()
    for place, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.default is not inspect.Parameter.empty:
            positions |= {place, name}
    return positions


class _Shaker:
    """Moves every floating element ``step`` of itself up or down, by draws that are the same each time.

    Equal elements are moved to the same side where the numbers themselves draw it: of those that tie at a bend a kernel takes all
    or none. Else places draw it.
    """

    def __init__(self, step: float, seed: int, *, by_value: bool) -> None:
        self._step, self._seed, self._by_value = step, seed, by_value
        self._streams: dict[torch.device, torch.Generator] = {}

    def __call__(self, value: torch.Tensor) -> torch.Tensor:
        if not value.is_floating_point():
            return value
        moved = value * (1 + self._step * (self._drawn(value).to(value) * 2 - 1))
        return mirrored(moved) if is_within_one(value) else moved

    def _drawn(self, value: torch.Tensor) -> torch.Tensor:
        """Zeros and ones."""
        if self._by_value:
            bits = value.double().contiguous().view(torch.int64)
            return (((bits >> 20) ^ bits ^ self._seed) * 0x9E3779B97F4A7C1).bitwise_right_shift(40).bitwise_and(1)
        if value.device not in self._streams:
            self._streams[value.device] = torch.Generator(value.device).manual_seed(self._seed)
        return torch.randint(0, 2, value.shape, generator=self._streams[value.device], device=value.device)


def settle(state: ChildState, call: SentCall, tensors: list[torch.Tensor], *, reuse: bool = True) -> Arguments:
    """Lay out the arguments of a call.

    With ``reuse`` a buffer of the same name and size is used again, so that a candidate that remembers addresses meets old
    ones with new content.
    """
    if not reuse:
        state.values.pop("buffers", None)
    first = _settled(state, call, tensors, call.inputs, "")
    if call.others:
        first._other.append(_settled(state, call, tensors, call.others, "other "))  # noqa: SLF001 - its own kind
    return first


def _settled(
    state: ChildState, call: SentCall, tensors: list[torch.Tensor], inputs: Sequence[SentTensor], prefix: str
) -> Arguments:
    given = Arguments()
    values = dict(call.scalars)
    known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # parts of one tensor share its memory
    for entry in inputs:
        name = entry.name
        if entry.place not in known:
            known[entry.place] = _kept(state, prefix + name, tensors[entry.place])
        given.raw[name], given.memory[name] = known[entry.place]
        value = _view(given.memory[name], entry)
        if name in call.form.weights and value.is_floating_point():
            value = torch.nn.Parameter(value, requires_grad=False)  # as a module has them; uses get plain tensors
        if entry.grad:
            value.requires_grad_()
            given.leaves[name] = value
        values[name] = value
    for name in call.same[1:] if inputs else ():
        values[name] = values[call.same[0]]
        if name in given.leaves:
            given.leaves[name] = values[name]
    given.inputs = {entry.name: values[entry.name] for entry in inputs}
    sent: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # outputs may have one upstream gradient
    views: dict[int, torch.Tensor] = {}
    for place, upstream in enumerate(call.upstream):
        if upstream is None:
            given.upstream.append(None)
            continue
        if upstream.place not in sent:
            sent[upstream.place] = _kept(state, f"{prefix}upstream {place}", tensors[upstream.place])
            views[upstream.place] = _view(sent[upstream.place][1], upstream)
        raw, memory = sent[upstream.place]
        given.raw_upstream.append(raw)
        given.memory[f"upstream {place}"] = memory
        given.upstream.append(views[upstream.place])
    for entry in call.directions if not prefix else ():
        _, memory = _kept(state, f"direction {entry.name}", tensors[entry.place])
        given.directions[entry.name] = _view(memory, entry)
    return arranged(given, values, call.form)


def on_shapes(call: ShapedCall) -> Arguments:
    """Arguments of the right shapes and dtypes without content."""
    given = Arguments()
    values = dict(call.scalars)
    for entry in call.inputs:
        value = torch.empty(entry.shape, dtype=getattr(torch, entry.dtype), device="meta")
        if entry.grad:
            given.leaves[entry.name] = value.requires_grad_()
        values[entry.name] = value
    return arranged(given, values, call.form)


def arranged(given: Arguments, values: dict[str, Any], form: CallForm) -> Arguments:
    """Put values where the callable takes them."""
    if form.name == "kernelbench":
        given.positional = [values[name] for name in form.order]
        given.parameters = {name: values[name] for name in form.parameters}
    else:
        by_name = set(form.keywords)
        given.names = tuple(name for name in form.order if name in values and name not in by_name)
        given.positional = [values[name] for name in given.names]
        given.usual = frozenset(name for name, default in form.defaults if _is_same(values.get(name), default))
        given.named = {name: values[name] for name in form.order if name in values and name in by_name}
    return given


def _is_same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


def _kept(state: ChildState, name: str, sent: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A guarded buffer, and what lies between its guards."""
    cache: dict[tuple[Any, ...], tuple[torch.Tensor, torch.Tensor]] = state.values.setdefault("buffers", {})
    key = (name, tuple(sent.shape), sent.dtype)
    if key not in cache:
        raw = sent.to(state.device, copy=True)
        cache[key] = raw, between_guards(raw)
    else:
        cache[key][0].copy_(sent)
    return cache[key]


def _view(memory: torch.Tensor, entry: SentTensor) -> torch.Tensor:
    return memory.detach().as_strided(entry.shape, entry.stride, entry.offset - GUARD_ELEMENTS).detach()


def _written(raw: torch.Tensor, entry: SentTensor) -> torch.Tensor:
    """A tensor's own elements, each once: an expanded one is a single number."""
    shape = [size if step else min(size, 1) for size, step in zip(entry.shape, entry.stride, strict=True)]
    return raw.detach().as_strided(shape, entry.stride, entry.offset)


# Taken before a candidate is imported, so that it calls what torch had then.
_derived = torch.autograd.grad
_backward = torch.autograd.backward
_checkpoint = checkpoint


def derived(*given: Any, **named: Any) -> Any:
    """Gradients as ``torch.autograd.grad`` gives them on a GPU: in a thread without the context variables of the forward,
    such as Triton's allocator."""
    return contextvars.Context().run(_derived, *given, **named)


Values = dict[str, Any]
MOST_OUTPUTS = 65
CHANGE = -1.5  # times what it was: of another sign and size


def use(kind: str, names: Sequence[str], called: Callable[..., Any], given: Arguments) -> Values:
    """Outputs and gradients of one use, by label; of a double backward the second gradients."""
    if kind == "no_grad":
        with torch.no_grad():
            return _outputs(given.omitting(called).call(called))
    if kind == "plain":
        return _outputs(given.requiring(()).omitting(called).call(called))
    if kind == "subset":
        chosen = given.requiring(names).omitting(called)
        outputs = listed(chosen.call(called))
        return _labelled(outputs) | _gradients(chosen, _grad_of(outputs, chosen))
    if kind == "outputs":
        return _gradients(given, _by_outputs(called, given))
    if kind in ("checkpoint", "reentrant"):
        return _checkpointed(called, given, reentrant=kind == "reentrant")
    if kind == "double":
        return _double(called, given)
    if kind == "changed":
        return _changed(called, given, names)
    if kind == "elsewhere":
        return _elsewhere(called, given)
    raise ValueError(f"no use {kind}")


def saved_changed(called: Callable[..., Any], given: Arguments) -> int:
    """How many of the tensors that autograd saves in a forward are others after the backward."""
    saved: list[tuple[torch.Tensor, torch.Tensor]] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved.append((tensor.detach(), tensor.detach().clone()))
        return tensor

    chosen = given.requiring(tuple(given.leaves))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        outputs = listed(chosen.call(called))
    _grad_of(outputs, chosen)
    return sum(not bits_equal(tensor, copy) for tensor, copy in saved)


def second_gradients(
    first: Sequence[torch.Tensor | None], directions: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]
) -> list[torch.Tensor | None]:
    """Gradients of the first gradients' products with ``directions``; empty where no gradient can be derived again.

    Raises:
        RuntimeError: autograd says that there is none.
    """
    pairs = [
        (gradient, direction.to(gradient.dtype))
        for gradient, direction in zip(first, directions, strict=True)
        if gradient is not None and gradient.requires_grad
    ]
    if not pairs:
        return []
    return list(derived([g for g, _ in pairs], list(targets), [d for _, d in pairs], allow_unused=True))


def listed(value: Any) -> list[Any]:
    """A callable's outputs as a list, the first of them where there are too many."""
    return list(value[:MOST_OUTPUTS]) if isinstance(value, tuple | list) else [value]


def overlaps(values: Values, given: Arguments) -> list[tuple[str, str]]:
    """Pairs of outputs in the same memory, each with an input in it too, and of gradients that are two tensors in the same; not of
    those that are views of an upstream gradient.
    """
    of_inputs = [
        (label, f"input {name}")
        for label, value in values.items()
        if label.startswith("output") and isinstance(value, torch.Tensor)
        for name, tensor in given.inputs.items()
        if overlap(value, tensor)
    ]
    tensors = [
        (label, value)
        for label, value in values.items()
        if label.startswith(("output", "gradient")) and isinstance(value, torch.Tensor) and not given.shares(value)
    ]
    return of_inputs + [
        (one, other)
        for at, (one, left) in enumerate(tensors)
        for other, right in tensors[at + 1 :]
        if one.split()[0] == other.split()[0]
        and (left is not right or one.startswith("output"))
        and overlap(left, right)
    ]


def overlap(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors have an element in the same memory."""
    if left.untyped_storage().data_ptr() != right.untyped_storage().data_ptr() or not left.numel() or not right.numel():
        return False
    (begin, end), (other_begin, other_end) = _range(left), _range(right)
    if end <= other_begin or other_end <= begin:
        return False
    # Columns of one buffer may lie between one another without meeting.
    taken = torch.zeros(left.untyped_storage().nbytes(), dtype=torch.bool)
    for offset in range(left.element_size()):
        _bytes(taken, left, offset).fill_(True)
    return any(bool(_bytes(taken, right, offset).any()) for offset in range(right.element_size()))


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    begin = tensor.storage_offset() * tensor.element_size()
    return begin, begin + span * tensor.element_size()


def _bytes(taken: torch.Tensor, tensor: torch.Tensor, offset: int) -> torch.Tensor:
    width = tensor.element_size()
    return taken.as_strided(
        tensor.shape, [step * width for step in tensor.stride()], tensor.storage_offset() * width + offset
    )


def _checkpointed(called: Callable[..., Any], given: Arguments, *, reentrant: bool) -> Values:
    chosen = given.requiring(tuple(given.leaves))
    names = list(chosen.leaves)

    def again(*leaves: torch.Tensor) -> Any:
        return chosen.replacing(dict(zip(names, leaves, strict=True))).call(called)

    value = _checkpoint(again, *chosen.leaves.values(), use_reentrant=reentrant, preserve_rng_state=False)
    outputs = listed(value)
    pairs = _pairs(outputs, chosen)
    if pairs:  # a reentrant checkpoint knows no other way than ``backward``
        _backward([output for output, _ in pairs], [grad for _, grad in pairs])
    return _labelled(outputs) | _gradients(chosen, [leaf.grad for leaf in chosen.leaves.values()])


def _double(called: Callable[..., Any], given: Arguments) -> Values:
    """Second gradients; only ``RAISES`` where there are none, which is what a function without a double backward should say."""
    chosen = given.requiring(tuple(given.leaves))
    upstream = [None if grad is None else grad.detach().clone().requires_grad_() for grad in given.upstream]
    outputs = listed(chosen.call(called))
    pairs = _pairs(outputs, chosen, upstream)
    leaves = list(chosen.leaves.values())
    first = derived(
        [output for output, _ in pairs], leaves, [grad for _, grad in pairs], create_graph=True, allow_unused=True
    )
    there = {f"upstream {place}": grad for place, grad in enumerate(upstream) if grad is not None}
    try:
        gradients = second_gradients(first, list(given.directions.values()), [*leaves, *there.values()])
    except (RuntimeError, NotImplementedError):
        return {RAISES: None}
    # What depends on nothing but the upstream gradient, such as the sum of it, claims nothing of the inputs.
    if all(gradient is None for gradient in gradients[: len(leaves)]):
        return {RAISES: None}
    names = [*chosen.leaves, *there]
    return {f"second gradient of {name}": value for name, value in zip(names, gradients, strict=True)}


def _changed(called: Callable[..., Any], given: Arguments, names: Sequence[str]) -> Values:
    """Gradients where inputs or outputs, or those of these names, are changed in place before the backward; only ``RAISES`` where
    autograd sees it."""
    chosen = given.copied()
    outputs = listed(chosen.call(called))
    changed = [chosen.inputs[name] for name in names if name in chosen.inputs]
    for tensor in changed or (chosen.tensors() if "inputs" in names else outputs):
        if isinstance(tensor, torch.Tensor):
            with suppress(RuntimeError):  # one number that stands for many cannot be changed in place
                _change(tensor.detach())  # autograd sees it all the same
    try:
        return _gradients(chosen, _grad_of(outputs, chosen))
    except RuntimeError:
        return {RAISES: None}


def _change(tensor: torch.Tensor) -> None:
    """Make a tensor another one in place: numbers of another sign and size, truth values turned, indices in reverse order."""
    if tensor.is_floating_point():
        tensor.mul_(CHANGE)
    elif tensor.dtype == torch.bool:
        tensor.logical_not_()
    else:
        tensor.copy_(tensor.flip(tuple(range(tensor.dim()))))


def _elsewhere(called: Callable[..., Any], given: Arguments) -> Values:
    """Gradients where what autograd saves comes back as a dense copy, as of a view that hooks have kept on the host meanwhile."""
    chosen = given.requiring(tuple(given.leaves))
    with torch.autograd.graph.saved_tensors_hooks(_dense, lambda tensor: tensor):
        outputs = listed(chosen.call(called))
    return _gradients(chosen, _grad_of(outputs, chosen))


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def _outputs(value: Any) -> Values:
    return _labelled(listed(value))


def _labelled(outputs: Sequence[Any]) -> Values:
    return {f"output {place}": value for place, value in enumerate(outputs)}


def _gradients(given: Arguments, gradients: Sequence[Any]) -> Values:
    return {f"gradient of {name}": value for name, value in zip(given.leaves, gradients, strict=True)}


def _grad_of(outputs: Sequence[Any], given: Arguments) -> list[Any]:
    pairs = _pairs(outputs, given)
    leaves = list(given.leaves.values())
    if not pairs or not leaves:
        return [None] * len(leaves)
    return list(derived([output for output, _ in pairs], leaves, [grad for _, grad in pairs], allow_unused=True))


def _by_outputs(called: Callable[..., Any], given: Arguments) -> list[torch.Tensor | None]:
    """The gradients that each output alone gives, added up: together they are those of all."""
    chosen = given.requiring(tuple(given.leaves))
    leaves = list(chosen.leaves.values())
    totals: list[torch.Tensor | None] = [None] * len(leaves)
    for place in range(len(given.upstream)):
        pairs = _pairs(listed(chosen.call(called))[place : place + 1], chosen, given.upstream[place : place + 1])
        if not pairs:
            continue
        for at, grad in enumerate(derived([pairs[0][0]], leaves, [pairs[0][1]], allow_unused=True)):
            total = totals[at]
            if grad is not None:
                totals[at] = grad if total is None else total + grad
    return totals


def _pairs(
    outputs: Sequence[Any], given: Arguments, upstream: Sequence[torch.Tensor | None] | None = None
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [
        (value, grad)
        for value, grad in zip(outputs, given.upstream if upstream is None else upstream, strict=False)
        if grad is not None and isinstance(value, torch.Tensor) and value.requires_grad
    ]
