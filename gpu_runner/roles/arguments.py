"""The arguments of one call, settled on the child's device from the guarded buffers that the parent sent."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import torch

from gpu_runner.roles import State
from gpu_runner.verify.poison import GUARD_ELEMENTS, between_guards, bits_equal


@dataclass
class Arguments:
    """What a callable is called with, and the memory behind it."""

    positional: list[Any] = field(default_factory=list)
    named: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)  # of a module, in place of its own
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
    _other: list[Arguments] = field(default_factory=list)

    @property
    def other(self) -> Arguments:
        """Give the second set of inputs, which lies beside the first."""
        return self._other[0]

    def call(self, callable_: Callable[..., Any]) -> Any:
        """Call a function with these arguments, or a module with these parameters for its own.

        Raises:
            KeyError: the module lacks a parameter or buffer.
        """
        if not self.parameters:
            return callable_(*self.positional, **self.named)
        assert isinstance(callable_, torch.nn.Module)
        held = {name for name, _ in [*callable_.named_parameters(), *callable_.named_buffers()]}
        for name in self.parameters:
            if name not in held:
                raise KeyError(f"the module has no parameter or buffer {name}")
        return torch.func.functional_call(callable_, self.parameters, tuple(self.positional), self.named)

    def promoted(self, dtype: torch.dtype = torch.float64) -> Arguments:
        """Give the same arguments with every floating tensor as a leaf of the same value in a wider dtype."""
        return self._with(lambda value: value.to(dtype) if value.is_floating_point() else value)

    def shaken(self, step: float, *, by_value: bool = False) -> Arguments:
        """Give the same arguments with every floating element ``step`` of itself away, up or down by a fixed draw.

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
        """The same arguments in memory of their own."""
        return self._with(lambda value: value.clone())

    def replacing(self, leaves: dict[str, torch.Tensor]) -> Arguments:
        """The same arguments with other tensors for some leaves."""
        swapped = {id(self.leaves[name]): leaf for name, leaf in leaves.items()}

        def new(value: Any) -> Any:
            return swapped.get(id(value), value)

        return Arguments(
            positional=[new(value) for value in self.positional],
            named={name: new(value) for name, value in self.named.items()},
            parameters={name: new(value) for name, value in self.parameters.items()},
            leaves=self.leaves | leaves,
            upstream=self.upstream,
        )

    def _with(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Arguments:
        """Give the same arguments with every tensor changed, as a leaf where it was one."""
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
            leaves={name: new(value) for name, value in self.leaves.items()},
            upstream=self.upstream,
        )

    def shares(self, tensor: torch.Tensor) -> bool:
        """Say whether a tensor lies in the memory of an input or of an upstream gradient."""
        held = self.memory.values()
        return any(tensor.untyped_storage().data_ptr() == memory.untyped_storage().data_ptr() for memory in held)

    def rolled(self, rows: int) -> Arguments:
        """Give the same arguments with every input moved on by ``rows`` along its first dimension: fresh content, same values."""
        return self._with(lambda value: value.clone() if value.dim() == 0 else torch.roll(value, rows, 0))

    def tensors(self) -> list[torch.Tensor]:
        """Give every tensor argument."""
        held = [*self.positional, *self.named.values(), *self.parameters.values()]
        return [value for value in held if isinstance(value, torch.Tensor)]

    def refill(self, meta: dict[str, Any], tensors: list[torch.Tensor], names: Collection[str]) -> list[str]:
        """Put inputs and upstream gradients ("upstream N") back as they were sent; gives the names of those that had changed.

        What was written beyond their edges stays as it is, to be found.
        """
        given = {entry["name"]: entry for entry in meta["inputs"]}
        held = [(name, self.raw[name], entry) for name, entry in given.items()]
        sent = [(f"upstream {place}", entry) for place, entry in enumerate(meta["upstream"]) if entry is not None]
        held += [(name, raw, entry) for (name, entry), raw in zip(sent, self.raw_upstream, strict=True)]
        changed = []
        for name, raw, entry in held:
            if name in names:
                target, source = _written(raw, entry), _written(tensors[entry["tensor"]].to(raw.device), entry)
                if not bits_equal(target, source):
                    changed.append(name)
                    target.copy_(source)
        return changed


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
        return value * (1 + self._step * (self._drawn(value).to(value) * 2 - 1))

    def _drawn(self, value: torch.Tensor) -> torch.Tensor:
        """Zeros and ones."""
        if self._by_value:
            bits = value.double().contiguous().view(torch.int64)
            return (((bits >> 20) ^ bits ^ self._seed) * 0x9E3779B97F4A7C1).bitwise_right_shift(40).bitwise_and(1)
        if value.device not in self._streams:
            self._streams[value.device] = torch.Generator(value.device).manual_seed(self._seed)
        return torch.randint(0, 2, value.shape, generator=self._streams[value.device], device=value.device)


def settle(state: State, meta: dict[str, Any], tensors: list[torch.Tensor], *, reuse: bool = True) -> Arguments:
    """Lay out the arguments of ``meta``: ``inputs`` and ``upstream`` name tensors, ``order`` the parameters.

    With ``reuse`` a buffer of the same name and size is used again, so that a candidate that remembers addresses meets old
    ones with new content.
    """
    if not reuse:
        state.values.pop("buffers", None)
    first = _settled(state, meta, tensors, meta["inputs"], "")
    if meta.get("others"):
        first._other.append(_settled(state, meta, tensors, meta["others"], "other "))  # noqa: SLF001 - its own kind
    return first


def _settled(
    state: State, meta: dict[str, Any], tensors: list[torch.Tensor], inputs: list[dict[str, Any]], prefix: str
) -> Arguments:
    given = Arguments()
    values: dict[str, Any] = dict(meta["scalars"])
    known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # parts of one tensor share its memory
    for entry in inputs:
        place = entry["tensor"]
        if place not in known:
            known[place] = _kept(state, prefix + entry["name"], tensors[place])
        raw, memory = known[place]
        given.raw[entry["name"]], given.memory[entry["name"]] = raw, memory
        value = _view(memory, entry)
        if entry["grad"]:
            value.requires_grad_()
            given.leaves[entry["name"]] = value
        values[entry["name"]] = value
    for name in meta.get("same", ())[1:] if inputs else ():
        values[name] = values[meta["same"][0]]
        if name in given.leaves:
            given.leaves[name] = values[name]
    for place, entry in enumerate(meta["upstream"]):
        if entry is None:
            given.upstream.append(None)
            continue
        raw, memory = _kept(state, f"{prefix}upstream {place}", tensors[entry["tensor"]])
        given.raw_upstream.append(raw)
        given.memory[f"upstream {place}"] = memory
        given.upstream.append(_view(memory, entry))
    for entry in meta.get("directions", ()) if not prefix else ():
        _, memory = _kept(state, f"direction {entry['name']}", tensors[entry["tensor"]])
        given.directions[entry["name"]] = _view(memory, entry)
    return arranged(given, values, meta)


def on_shapes(meta: dict[str, Any]) -> Arguments:
    """Give arguments of the right shapes and dtypes without content."""
    given = Arguments()
    values: dict[str, Any] = dict(meta["scalars"])
    for entry in meta["inputs"]:
        value = torch.empty(entry["shape"], dtype=getattr(torch, entry["dtype"]), device="meta")
        if entry["grad"]:
            given.leaves[entry["name"]] = value.requires_grad_()
        values[entry["name"]] = value
    return arranged(given, values, meta)


def arranged(given: Arguments, values: dict[str, Any], meta: dict[str, Any]) -> Arguments:
    """Put values where the callable takes them."""
    if meta["form"] == "kernelbench":
        given.positional = [values[name] for name in meta["order"]]
        given.parameters = {name: values[name] for name in meta["parameters"]}
    else:
        by_name = set(meta["keywords"])
        given.positional = [values[name] for name in meta["order"] if name in values and name not in by_name]
        given.named = {name: values[name] for name in meta["order"] if name in values and name in by_name}
    return given


def _kept(state: State, name: str, sent: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A guarded buffer, and what lies between its guards."""
    cache: dict[tuple[Any, ...], tuple[torch.Tensor, torch.Tensor]] = state.values.setdefault("buffers", {})
    key = (name, tuple(sent.shape), sent.dtype)
    if key not in cache:
        raw = sent.to(state.device, copy=True)
        cache[key] = raw, between_guards(raw)
    else:
        cache[key][0].copy_(sent)
    return cache[key]


def _view(memory: torch.Tensor, entry: dict[str, Any]) -> torch.Tensor:
    return memory.detach().as_strided(entry["shape"], entry["stride"], entry["offset"] - GUARD_ELEMENTS).detach()


def _written(raw: torch.Tensor, entry: dict[str, Any]) -> torch.Tensor:
    """Give a tensor's own elements, each once: an expanded one is a single number."""
    shape = [size if step else min(size, 1) for size, step in zip(entry["shape"], entry["stride"], strict=True)]
    return raw.detach().as_strided(shape, entry["stride"], entry["offset"])
