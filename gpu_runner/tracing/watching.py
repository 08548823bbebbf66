"""Which operators a reference calls, forward and backward, each with the dtype of what it gives; runs in the child.

What an operator is made of, such as the steps of a decomposition, is not seen: the watch stands above the tracer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
class Given:
    """A tensor that an operator gave. ``node`` is its node in the graph that is being traced, None where none is."""

    key: Key  # the same for all objects that hold the same elements
    dtype: torch.dtype
    view: bool  # of an operand's memory
    node: str | None
    used_inside: bool  # further steps of the operator itself read it


@dataclass(frozen=True)
class Called:
    """One call of an operator: its name, the tensors among its arguments, and what it gave."""

    operator: str
    operands: tuple[Key, ...]
    results: tuple[Given, ...]

    @property
    def casts(self) -> bool:
        """Tell whether it does nothing but give another dtype."""
        return self.operator == CAST and len(self.operands) == len(self.results) == 1


class Watch(TorchDispatchMode):  # type: ignore[misc]  # torch is not typed here
    """Remembers every operator that is called inside of it, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Called] = []
        self._turns: dict[int, int] = {}  # an address holds one tensor after the other; which it is now

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "prim":
            return func(*args, **kwargs)  # tensors without data are asked for their device this way
        read = _tensors([args, kwargs])
        operands = tuple(self._key(x) for x in read)
        given = func(*args, **kwargs)
        memory = {_address(x) for x in read}
        results = tuple(self._given(x, _address(x) in memory) for x in _tensors([given]))
        self.calls.append(Called(str(func), operands, results))
        return given

    def _given(self, x: Tensor, view: bool) -> Given:
        if not view:
            self._turns[_address(x)] = self._turns.get(_address(x), 0) + 1
        mode = get_proxy_mode()
        slot = None if mode is None else get_proxy_slot(x, mode.tracer, None)
        node = None if slot is None else slot.proxy.node
        return Given(self._key(x), x.dtype, view, node and node.name, bool(node and node.users))

    def _key(self, x: Tensor) -> Key:
        address = _address(x)
        return address, self._turns.get(address, 0), x.storage_offset(), tuple(x.shape), x.stride(), x.dtype


def _tensors(values: Sequence[Any]) -> list[Tensor]:
    leaves: Iterable[Any] = tree_leaves(list(values))
    return [x for x in leaves if isinstance(x, Tensor)]


def _address(x: Tensor) -> int:
    return int(x.untyped_storage()._cdata)  # noqa: SLF001 - the storage itself: tensors without data have no address
