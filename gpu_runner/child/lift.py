"""Runs a reference in float64, its own casts to smaller floats lifted as well, or with other roundings than eager mode has."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from gpu_runner.program.mode import Mode

_HALVES = (torch.bfloat16, torch.float16)
_LIFTED = (torch.float32, *_HALVES)


class _Lift(Mode):
    """Rewrites every dtype argument, and every operand, of a smaller floating dtype to float64.

    It sits below autograd, so the gradient's own casts are lifted in the same way.
    """

    def operator(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator in float64."""
        change: Callable[[Any], Any] = _dtype if _writes(func) else _lifted
        return func(*_mapped(change, args), **_mapped(change, dict(kwargs)))


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
# What these give without options is rounded once: torch's formula for each is itself, after conversions that change nothing here.
_ROUNDED_ONCE = frozenset(["add", "sub", "mul", "div", "exp", "log", "sqrt", "rsqrt", "tanh", "sin", "cos"])
# Their formulas compute places, which noise would move to another element.
_SAMPLES = re.compile("upsample|grid_sampler")
# Sums of up to a whole row each; torch's formula sums a square of as many numbers as a row has, masked.
_SCANS = frozenset({"cumsum", "cumprod"})
_OF_TERMS = _SCANS | {"sum"}
_ROUNDINGS = 4.0  # of float32 by which each result is moved: a kernel's formula may round as often where the reference rounds once


class _Noise(_Lift):
    """Moves every element of an operator's result by up to some roundings of float32, to either side as is drawn.

    What comes of that differs from the truth by what float32 arithmetic may lose in it, where terms cancel above all. It is
    Monte Carlo arithmetic: D. S. Parker, 1997.
    """

    def __init__(self, seed: int, *, together: bool) -> None:
        super().__init__()
        self._seed = seed
        self._together = together  # one draw for all elements, as those that are equal have it
        self._streams: dict[torch.device, torch.Generator] = {}

    def operator(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator in float64, and move what it gives."""
        is_scan = func.overloadpacket.__name__ in _SCANS
        is_simple = not kwargs and func.overloadpacket.__name__ in _ROUNDED_ONCE
        formula = None if is_scan or is_simple or _is_exact(func) or _writes(func) else _formulas().get(func)
        if formula is not None:
            lifted_args, lifted_kwargs = _mapped(_lifted, args), _mapped(_lifted, dict(kwargs))
            with self:
                return formula(*lifted_args, **lifted_kwargs)
        # Where terms cancel, what rounding made of the partial sums is left, of any order.
        if func.overloadpacket.__name__ in _OF_TERMS and args[0].dim():
            args = (self._moved(_lifted(args[0]), 1, is_written=False), *args[1:])
        result = super().operator(func, args, kwargs)
        if _is_exact(func):
            return result
        given = max((value.numel() for value in tree_leaves(args) if isinstance(value, torch.Tensor)), default=0)
        if is_scan and args[0].dim():
            given *= args[0].shape[args[1]]
        return _mapped(lambda value: self._moved(value, given, is_written=_writes(func)), result)

    def _moved(self, value: Any, given: int, *, is_written: bool) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float64 or value._is_zerotensor():  # noqa: SLF001
            return value
        factors = self._factors(value, given / max(1, value.numel()))
        if not is_within_one(value):
            return value.mul_(factors) if is_written else value * factors
        moved = mirrored(value * factors)
        return value.copy_(moved) if is_written else moved

    def _factors(self, value: torch.Tensor, terms: float) -> torch.Tensor:
        stream = self._streams.get(value.device)
        if stream is None:
            stream = self._streams[value.device] = torch.Generator(value.device).manual_seed(self._seed)
        shape = () if self._together else value.shape
        drawn = 2.0 * torch.rand(shape, generator=stream, device=value.device, dtype=torch.float64) - 1.0
        # At least half of it, and never as much as another time: a step up and the same step down would cancel.
        roundings = _ROUNDINGS + math.log2(max(1.0, terms)) / 2.0  # a sum by a tree rounds once at each of its levels
        return 1.0 + roundings * 2.0**-24 * (drawn.sign() + drawn) / 2.0


def is_within_one(value: torch.Tensor) -> bool:
    """Whether all elements lie within -1..1, as probabilities and cosines do."""
    if not value.numel():
        return False
    low, high = value.aminmax()
    return bool((low >= -1.0) & (high <= 1.0))


def mirrored(moved: torch.Tensor) -> torch.Tensor:
    """Elements that were moved a step beyond -1 or 1 as far within: operators of probabilities and cosines take no others."""
    return torch.where(moved.abs() > 1.0, 2.0 * moved.sign() - moved, moved)


@functools.cache
def _formulas() -> Mapping[Any, Callable[..., Any]]:
    """Formulas of simpler operators for those within which terms may cancel: noise on their result says nothing of that."""
    import torch._decomp.decompositions

    table = torch._decomp.decomposition_table  # noqa: SLF001 - torch has its formulas under this name only
    formulas = {operator: formula for operator, formula in table.items() if not _SAMPLES.search(str(operator))}
    norm = torch.ops.aten.linalg_vector_norm.default
    own = {torch.ops.aten._log_softmax.default: _log_softmax, norm: _of_counted_dims(formulas[norm])}  # noqa: SLF001 - its name
    return formulas | own


def _of_counted_dims(norm: Callable[..., Any]) -> Callable[..., Any]:
    """A formula of norms, given its dimensions from the first: torch 2.11's keeps a last one of a single element otherwise."""

    def formula(x: torch.Tensor, ord: float = 2, dim: Any = None, *rest: Any, **more: Any) -> Any:
        return norm(x, ord, dim and [each % max(1, x.dim()) for each in dim], *rest, **more)

    return formula


def _log_softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    """As kernels have it that keep the logarithm of the sum for their backward: it is as large as what it is of."""
    top = x.amax(dim, keepdim=True)
    beside = (x - top).exp().sum(dim, keepdim=True).log()
    with _disable_current_modes():  # which would lift this
        total = (top + beside).float().double()
    return x - total


class _Rounded(Mode):
    """Rounds what eager mode rounds to half precision to either neighbour at random, by how near each is.

    Eager mode may be lucky in a row, and a right kernel that rounds the same intermediate result the other way is not. This is
    stochastic rounding: G. E. Forsythe, 1950.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self._streams: dict[torch.device, torch.Generator] = {}

    def operator(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator as eager mode does, and once more in float32 where it gives half precision."""
        rounded = func(*args, **kwargs)
        is_exact = _is_exact(func) and func.overloadpacket.__name__ != "_to_copy"
        if is_exact or _writes(func) or not any(_is_half(value) for value in tree_leaves(rounded)):
            return rounded
        try:
            wide = func(*tree_map(_widened, args), **tree_map(_widened, dict(kwargs)))
        except RuntimeError:  # an operator of half precision alone, as fused attention
            return rounded
        return tree_map(lambda near, value: self._rounded(near, value) if _is_half(near) else near, rounded, wide)

    def _rounded(self, near: torch.Tensor, wide: torch.Tensor) -> torch.Tensor:
        """Take a number or its neighbour on the side where the exact one lies."""
        if near.dtype == wide.dtype or near._is_zerotensor():  # noqa: SLF001
            return near
        stream = self._streams.get(near.device)
        if stream is None:
            stream = self._streams[near.device] = torch.Generator(near.device).manual_seed(self._seed)
        near = wide.to(near.dtype)
        left = wide - near.float()
        # Of a float's bits as a whole number the next one is the next float away from zero.
        away = torch.where((left > 0) == (near > 0), 1, -1).to(torch.int16)
        other = (near.view(torch.int16) + away).view(near.dtype)
        share = left.abs() / (other.float() - near.float()).abs()
        moved = torch.rand(near.shape, generator=stream, device=near.device) < share
        return torch.where(moved & torch.isfinite(other) & (near != 0), other, near)


class _Allowed(Mode):
    """Rounds the operands of convolutions to TF32 wherever torch's setting allows it; cuDNN does so for some sizes."""

    def operator(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator as eager mode does, a convolution with operands as tensor cores take them."""
        operands = _CONVOLVED.get(func.overloadpacket.__name__, 0)
        if operands and may_be_tf32(args[0]):
            args = (*map(_nearest_tf32, args[:operands]), *args[operands:])
        return func(*args, **kwargs)


class _AsOnGpu(Mode):
    """Makes variances infinite where their squares overflow float32: a GPU adds those up in float32, and the CPU in float64."""

    def operator(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator as eager mode does on a GPU."""
        made = func(*args, **kwargs)
        if func.overloadpacket.__name__ not in _VARIANCES or args[0].dtype not in _LIFTED:
            return made
        dim, keepdim = args[1] if len(args) > 1 else kwargs.get("dim"), kwargs.get("keepdim", False)
        apart = args[0].float() - args[0].float().mean(dim, keepdim=True)
        is_lost = torch.isinf(apart.square().sum(dim, keepdim=keepdim))
        if isinstance(made, tuple):
            return made[0].masked_fill(is_lost, math.inf), made[1]
        return made.masked_fill(is_lost, math.inf)


_VARIANCES = {"var", "std", "var_mean", "std_mean"}
_CONVOLVED = {"convolution": 2, "convolution_backward": 3}  # how many operands come first


def may_be_tf32(operand: torch.Tensor) -> bool:
    """Whether cuDNN may round the operands of a convolution to TF32."""
    return operand.is_cuda and operand.dtype == torch.float32 and bool(torch.backends.cudnn.allow_tf32)


def _nearest_tf32(values: torch.Tensor) -> torch.Tensor:
    values = values.contiguous()
    near = ((values.view(torch.int32) + 2**12) & -(2**13)).view(torch.float32)
    return torch.where(torch.isfinite(values) & torch.isfinite(near), near, values)


def _is_half(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _HALVES


def _widened(value: Any) -> Any:
    if _is_half(value):
        return value.float()
    return torch.float32 if isinstance(value, torch.dtype) and value in _HALVES else value


def _mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """What ``tree_map`` gives, sooner for what operators mostly take."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind([_mapped(change, part) for part in value])
    if kind in _LEAVES:
        return change(value)
    return value if kind is dict and not value else tree_map(change, value)


_LEAVES = frozenset((torch.Tensor, torch.nn.Parameter, torch.dtype, int, float, bool))


@functools.cache
def _is_exact(func: Any) -> bool:
    return func.is_view or func.overloadpacket.__name__ in _EXACT


def as_eager() -> AbstractContextManager[None]:
    """Compute what is called inside in its own dtypes, losing what eager mode may lose on a GPU, whichever way cuDNN takes."""
    if not torch.cuda.is_available():
        return as_on_gpu()
    return as_allowed() if torch.backends.cudnn.allow_tf32 else nullcontext()


@contextmanager
def as_allowed() -> Iterator[None]:
    """Compute what is called inside in its own dtypes, convolutions in TF32 wherever torch's setting allows it."""
    with _Allowed():
        yield


@contextmanager
def as_on_gpu() -> Iterator[None]:
    """Compute what is called inside in its own dtypes, and lose what overflows on a GPU."""
    with _AsOnGpu():
        yield


@contextmanager
def rounded(seed: int) -> Iterator[None]:
    """Compute what is called inside in its own dtypes, with half precision rounded at random."""
    with _Rounded(seed):
        yield


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


@functools.cache
def _writes(func: Any) -> bool:
    """Say whether an operator writes to an operand: that one must stay the object it is."""
    return bool(func._schema.is_mutable)  # noqa: SLF001 - torch gives an operator's schema under this name only


def _dtype(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _LIFTED else value


def _lifted(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype in _LIFTED:
        return value.to(torch.float64)
    return _dtype(value)
