"""Which values of a float32 trace eager mode rounds to a narrow dtype, from the operators of both runs.

Autograd calls the same operators for narrow inputs as for float32 ones, but for casts. So the two runs are watched and laid side by
side; where they are not the same but for casts, nothing can be concluded. What an operator is made of, such as the steps of a
decomposition, is not seen: the watch stands above the tracer. Runs in the child.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CAST = "aten._to_copy.default"
Key = tuple[object, ...]


@dataclass(frozen=True)
class TracedTensor:
    """A tensor that an operator gave. ``node`` is its node in the graph that is being traced, None where none is."""

    key: Key  # the same for all objects that hold the same elements
    dtype: torch.dtype
    view: bool  # of an operand's memory
    node: str | None
    used_inside: bool  # further steps of the operator itself read it


@dataclass(frozen=True)
class OperatorCall:
    """One call of an operator: its name, the tensors among its arguments, and what it gave."""

    operator: str
    operands: tuple[Key, ...]
    results: tuple[TracedTensor, ...]

    @property
    def casts(self) -> bool:
        """Whether it only changes the dtype."""
        return self.operator == CAST and len(self.operands) == len(self.results) == 1


class Watch(TorchDispatchMode):  # type: ignore[misc]  # torch is not typed here
    """Remembers every operator that is called inside of it, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[OperatorCall] = []
        self._turns: dict[int, int] = {}  # an address holds one tensor after the other; which it is now

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "prim":
            return func(*args, **kwargs)  # tensors without data are asked for their device this way
        read = _tensors([args, kwargs])
        operands = tuple(self._key(x) for x in read)
        given = func(*args, **kwargs)
        memory = set() if func._schema.is_mutable else {_address(x) for x in read}  # noqa: SLF001 - the public name of it
        results = tuple(self._given(x, _address(x) in memory) for x in _tensors([given]))
        self.calls.append(OperatorCall(str(func), operands, results))
        return given

    def _given(self, x: Tensor, view: bool) -> TracedTensor:
        if not view:
            self._turns[_address(x)] = self._turns.get(_address(x), 0) + 1
        mode = get_proxy_mode()
        slot = None if mode is None else get_proxy_slot(x, mode.tracer, None)
        node = None if slot is None else slot.proxy.node
        return TracedTensor(self._key(x), x.dtype, view, node and node.name, bool(node and node.users))

    def _key(self, x: Tensor) -> Key:
        address = _address(x)
        return address, self._turns.get(address, 0), x.storage_offset(), tuple(x.shape), x.stride(), x.dtype


def _tensors(values: Sequence[Any]) -> list[Tensor]:
    leaves: Iterable[Any] = tree_leaves(list(values))
    return [x for x in leaves if isinstance(x, Tensor)]


def _address(x: Tensor) -> int:
    return int(x.untyped_storage()._cdata)  # noqa: SLF001 - the storage itself: tensors without data have no address


Place = tuple[object, ...]


@dataclass(frozen=True)
class _Pair:
    """The same call in both runs."""

    traced: OperatorCall
    eager: OperatorCall


def rounded_nodes(
    traced: Sequence[OperatorCall], eager: Sequence[OperatorCall], narrow: torch.dtype
) -> frozenset[str] | None:
    """The traced nodes whose value eager mode rounds to ``narrow``; None where the runs differ in more than casts.

    Of an operator with several results the first counts, and all of a backward operator: what else there is, such as the statistics
    of a norm, has another dtype on a GPU than on the host.
    """
    pairs = _aligned(traced, eager)
    if pairs is None or not _same_flow(traced, eager, pairs):
        return None
    narrowed = {node for pair in pairs for node in _results(pair, narrow)}
    return frozenset(narrowed | set(_cast_after(pairs, eager, narrow)))


def _aligned(traced: Sequence[OperatorCall], eager: Sequence[OperatorCall]) -> list[_Pair] | None:
    pairs, place = [], 0
    for call in traced:
        if not call.casts:
            while place < len(eager) and eager[place].casts:
                place += 1
        there = eager[place] if place < len(eager) else None
        if there is not None and there.operator == call.operator and len(there.results) == len(call.results):
            pairs.append(_Pair(call, there))
            place += 1
        elif not call.casts:
            return None
    return pairs if all(call.casts for call in eager[place:]) else None


def _same_flow(traced: Sequence[OperatorCall], eager: Sequence[OperatorCall], pairs: Sequence[_Pair]) -> bool:
    """Whether every call takes the same values in both runs, casts left out."""
    numbers = [{id(pair.traced): n for n, pair in enumerate(pairs)}, {id(p.eager): n for n, p in enumerate(pairs)}]
    flows = [_flow(calls, number) for calls, number in zip((traced, eager), numbers, strict=True)]
    return flows[0] == flows[1]


def _flow(calls: Sequence[OperatorCall], numbers: dict[int, int]) -> list[tuple[Place, ...]]:
    """Where the operands of each numbered call come from: another call's result, or outside, in order of appearance."""
    places: dict[Key, Place] = {}
    flow, outside = [], itertools.count()
    for call in calls:
        for key in (key for key in call.operands if key not in places):
            places[key] = ("outside", next(outside))
        number = numbers.get(id(call))
        if number is not None:
            flow.append(tuple(places[key] for key in call.operands))
        for index, given in enumerate(call.results):
            made: Place = places[call.operands[0]] if call.casts else ("result", number, index)
            places.setdefault(given.key, made)
    return flow


def _results(pair: _Pair, narrow: torch.dtype) -> Iterator[str]:
    every = pair.traced.operator.split(".")[1].endswith("_backward")
    for index, (made, kept) in enumerate(zip(pair.traced.results, pair.eager.results, strict=True)):
        if (index == 0 or every) and kept.dtype == narrow and not kept.view:
            yield from _node(made)


def _cast_after(pairs: Sequence[_Pair], eager: Sequence[OperatorCall], narrow: torch.dtype) -> Iterator[str]:
    """What eager mode alone casts to ``narrow`` before anything else reads it: autograd does so with gradients."""
    known = {id(pair.eager) for pair in pairs}
    casts = [c for c in eager if c.casts and id(c) not in known and c.results[0].dtype == narrow]
    others = {key for call in eager if call not in casts for key in call.operands}
    wanted = {cast.operands[0] for cast in casts} - others
    for pair in pairs:
        for made, kept in zip(pair.traced.results, pair.eager.results, strict=True):
            if kept.key in wanted and not kept.view:
                yield from _node(made)


def _node(made: TracedTensor) -> Iterator[str]:
    if made.node is not None and not made.used_inside:
        yield made.node
