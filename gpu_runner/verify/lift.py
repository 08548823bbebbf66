"""Runs a reference in float64, its own casts to smaller floats lifted as well."""

from __future__ import annotations

import math
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


# What these give is exact in any dtype: noise there would move elements over steps, and make differences of equal numbers.
_EXACT_NAMES = """
    max min amax amin aminmax maximum minimum relu relu_ abs neg sign floor ceil round trunc clamp clamp_ clamp_min clamp_max where
    threshold threshold_backward hardtanh clone _to_copy copy_ cat stack gather index index_select take sort topk kthvalue median
    constant_pad_nd zeros zeros_like ones ones_like full full_like new_zeros new_ones new_full empty empty_like empty_strided
    new_empty new_empty_strided scalar_tensor arange eye flip roll repeat masked_fill masked_fill_ fill_ zero_ embedding scatter
    slice_scatter select_scatter select_backward slice_backward lift_fresh lift_fresh_copy tril triu _efficientzerotensor
    value_selecting_reduction_backward max_pool2d_with_indices max_pool1d max_pool2d
"""
_EXACT = frozenset(_EXACT_NAMES.split())
_ROUNDINGS = 4.0  # of float32 by which each result is moved: a kernel's formula may round as often where the reference rounds once


def _gelu(x: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
    return x * _gate(x, approximate)[0]


def _gelu_backward(grad: torch.Tensor, x: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
    gate, slope = _gate(x, approximate)
    return grad * (gate + x * slope)


def _gate(x: torch.Tensor, approximate: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The distribution function of a normal number, or its approximation, and its derivative: it cancels on one side."""
    if approximate == "none":
        density = torch.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
        return 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))), density
    k = math.sqrt(2.0 / math.pi)
    t = torch.tanh(k * (x + 0.044715 * x * x * x))
    return 0.5 * (1.0 + t), 0.5 * (1.0 - t * t) * k * (1.0 + 3.0 * 0.044715 * x * x)


# Operators within which terms cancel, as formulas: noise on their result alone would say nothing of that.
_FORMULAS: dict[str, Callable[..., Any]] = {"gelu": _gelu, "gelu_backward": _gelu_backward}


class _Noise(_Lift):
    """Moves every element of an operator's result by some roundings of float32, to either side as a drawn sign says.

    What comes of that differs from the truth by what float32 arithmetic may lose in it, where terms cancel above all. It is
    Monte Carlo arithmetic: D. S. Parker, 1997.
    """

    def __init__(self, seed: int, *, together: bool) -> None:
        super().__init__()
        self._seed = seed
        self._together = together  # one sign for all elements, as those that are equal have it
        self._streams: dict[torch.device, torch.Generator] = {}

    def operator(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator in float64, and move what it gives."""
        name = func.overloadpacket.__name__
        if name in _FORMULAS:
            with self:
                return _FORMULAS[name](*args, **kwargs)
        found = super().operator(func, args, kwargs)
        if name in _EXACT or func.is_view:
            return found
        return tree_map(self._written if _writes(func) else self._moved, found)

    def _moved(self, value: Any) -> Any:
        return value * self._factors(value) if _is_moved(value) else value

    def _written(self, value: Any) -> Any:
        return value.mul_(self._factors(value)) if _is_moved(value) else value

    def _factors(self, value: torch.Tensor) -> torch.Tensor:
        stream = self._streams.get(value.device)
        if stream is None:
            stream = self._streams[value.device] = torch.Generator(value.device).manual_seed(self._seed)
        shape = () if self._together else value.shape
        signs = torch.randint(0, 2, shape, generator=stream, device=value.device, dtype=torch.float64)
        return 1.0 + _ROUNDINGS * 2.0**-24 * (2.0 * signs - 1.0)


def _is_moved(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.float64 and not value._is_zerotensor()  # noqa: SLF001


@contextmanager
def lifted(noise: str | None = None) -> Iterator[None]:
    """Compute what is called inside in float64; with ``noise``, of ``each`` element or of ``all``, as float32 may have it."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Lift() if noise is None else _Noise(1, together=noise == "all"):
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
