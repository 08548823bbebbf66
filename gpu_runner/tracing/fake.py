"""Tensors without data: shapes, dtypes and operators are traced at any size in little memory; runs in the child."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    unset_fake_temporarily,
)
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gpu_runner.contracts.problem import InputSpec

# What asks for values, or has no rule for its shape: only a run with data can tell what it does.
NEEDS_DATA = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    GuardOnDataDependentSymNode,
)
# Beyond this nothing is run with data: it would take seconds, and twice the memory for a second run.
MOST_ELEMENTS_WITH_DATA = 2**24
MOST_ELEMENTS_COMPUTED = 2**26  # of all that a reference computes
# Operators of one forward: MobileNetV2 calls 760, a transformer of six layers 530. Traced with its backward, a
# forward has up to five times as many, each about a millisecond.
MOST_OPERATORS = 2000

Bounds = tuple[int, int]


class ReadsValues(RuntimeError):  # noqa: N818 - it states a fact
    """What is computed hangs on the values of a tensor, as a branch on one does: at no size is there one graph of it."""


class TooManyOperators(RuntimeError):  # noqa: N818 - it states a fact
    """A forward calls more operators than are traced."""


class OperatorLimit(TorchDispatchMode):  # type: ignore[misc]  # torch is not typed here
    """Raises where more than ``MOST_OPERATORS`` are called inside of it."""

    def __init__(self) -> None:
        super().__init__()
        self._called = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # A tensor without data is asked for its device by `prim.device`, where torch cannot pass an exception on and aborts.
        counted = func.namespace != "prim"
        self._called += counted
        if counted and self._called > MOST_OPERATORS:
            message = f"the reference calls more than {MOST_OPERATORS} operators, as a recurrence over many steps does"
            raise TooManyOperators(message)
        return func(*args, **(kwargs or {}))


def fake_mode() -> FakeTensorMode:
    """A mode in which tensors have no data; tensors made outside of it may take part."""
    # What a reference raises at sizes that do not fit is expected while sizes are tried, and reported where it matters.
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
    return FakeTensorMode(allow_non_fake_inputs=True)


def fake_inputs(
    specs: Sequence[InputSpec], sizes: Mapping[str, int], dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """Make a problem's inputs in the mode that is entered."""
    return [
        torch.empty(
            [int(d) if d.isdigit() else sizes[d] for d in spec.dims],
            dtype=getattr(torch, spec.dtype) if spec.dtype else dtype,
        )
        for spec in specs
    ]


def elements(specs: Sequence[InputSpec], sizes: Mapping[str, int]) -> int:
    """Count the elements of a problem's inputs."""
    with fake_mode():
        return sum(x.numel() for x in fake_inputs(specs, sizes))


def same_number(tensor: Tensor) -> float | int | bool | None:
    """The number that all elements of a constant of the reference are; None where they differ or have no data.

    A constant that is written out, such as ``torch.tensor(0.5)``, keeps its values beside tensors without data.
    """
    with unset_fake_temporarily():
        values = tensor.constant if isinstance(tensor, FakeTensor) else tensor
        if values is None or not values.numel():
            return None
        first = values.reshape(-1)[0]
        number: float | int | bool = first.item()
        return number if bool((values == first).all()) else None


def random_operator(module: GraphModule) -> str | None:
    """The first operator of a trace that draws random numbers."""
    for node in module.graph.nodes:
        if node.users and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            return str(node.target)
    return None


class BoundsOfIntegers(TorchDispatchMode):  # type: ignore[misc]  # torch is not typed here
    """Remembers between which values the whole numbers lie that factories make, also without data.

    Values that are computed from them are not followed, but for operators that move or cast them.
    """

    _KEEPS = frozenset({"alias", "_to_copy", "clone", "detach", "lift_fresh"})
    _KEEPS |= {"expand", "permute", "reshape", "squeeze", "t", "transpose", "unsqueeze", "view", "_unsafe_view"}
    _KEEPS |= {"select", "slice", "index_select", "gather", "flip", "roll", "repeat"}

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[int, tuple[Tensor, Bounds]] = {}

    def of(self, x: Tensor) -> Bounds | None:
        """The lower bound and the exclusive upper bound of a tensor's values; None where unknown."""
        entry = self._known.get(id(x))
        return None if entry is None else entry[1]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and not result.is_floating_point():
            bounds = self._bounds(func.overloadpacket.__name__, str(func), args, result)
            if bounds is not None:
                self._known[id(result)] = (result, bounds)  # kept alive, so that no other tensor gets its id
        return result

    def _bounds(self, name: str, overload: str, args: Any, result: Tensor) -> Bounds | None:
        if name == "randint":
            return (int(args[0]), int(args[1])) if ".low" in overload else (0, int(args[0]))
        if name == "randperm":
            return 0, int(args[0])
        if name in {"zeros", "zeros_like", "new_zeros"}:
            return 0, 1
        if name in {"ones", "ones_like", "new_ones"}:
            return 1, 2
        if name in {"full", "full_like"} and type(args[1]) is int:
            return args[1], args[1] + 1
        if name == "arange" and all(type(a) is int for a in args):
            start, end, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
            return (start, end) if step > 0 else (end + 1, start + 1)
        if name in self._KEEPS and isinstance(args[0], Tensor) and not args[0].is_floating_point():
            return self.of(args[0])
        if name in {"cat", "stack"}:
            each = [self.of(x) for x in tree_leaves(args[0])]
            known = [bounds for bounds in each if bounds is not None]
            if known and len(known) == len(each):
                return min(low for low, _ in known), max(high for _, high in known)
        return None
