"""Runs a reference in float64, its own casts to smaller floats lifted as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_map

from gpu_runner.verify.mode import Mode

_LIFTED = (torch.float32, torch.bfloat16, torch.float16)


class _Lift(Mode):
    """Rewrites every dtype argument, and every operand, of a smaller floating dtype to float64.

    It sits below autograd, so the gradient's own casts are lifted in the same way.
    """

    def operator(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator in float64."""
        change: Callable[[Any], Any] = _dtype if _writes(func) else _lifted
        return func(*tree_map(change, args), **tree_map(change, dict(kwargs)))


@contextmanager
def lifted() -> Iterator[None]:
    """Compute what is called inside in float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Lift():
            yield
    finally:
        torch.set_default_dtype(before)


def _writes(func: Any) -> bool:
    """Say whether an operator writes to an operand: that one must stay the object it is."""
    return bool(func._schema.is_mutable)  # noqa: SLF001 - torch gives an operator's schema under this name only


def _dtype(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _LIFTED else value


def _lifted(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype in _LIFTED:
        return value.to(torch.float64)
    return _dtype(value)
