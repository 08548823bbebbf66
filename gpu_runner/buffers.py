"""Tensors as plain bytes with a dtype, a shape and strides: the form in which they cross between parent and child."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

ITEM_BYTES = {
    "float64": 8,
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
MAX_RANK = 16


@dataclass(frozen=True)
class Buffer:
    """A strided tensor: ``data`` covers exactly the elements from ``0`` to the last one within the strides."""

    dtype: str  # torch's short name
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements, never negative
    data: bytes | bytearray | memoryview = field(repr=False)
    offset: int = 0  # of the first element, in elements

    def __post_init__(self) -> None:
        """Check that the parts fit each other.

        Raises:
            ValueError: an unknown dtype, a negative number, or bytes that the strides do not span exactly.
        """
        expected = span_bytes(self.dtype, self.shape, self.strides, self.offset)
        got = memoryview(self.data).nbytes
        if got != expected:
            raise ValueError(f"a {self.dtype} tensor of shape {self.shape} needs {expected} bytes, not {got}")

    @classmethod
    def from_torch(cls, tensor: torch.Tensor) -> Buffer:
        """A tensor's memory as a buffer, with its strides; on a CPU without a copy, so the tensor must not change meanwhile."""
        tensor = tensor.detach()
        if tensor.device.type != "cpu":
            tensor = tensor.cpu()  # keeps the strides of a dense tensor
        tensor = tensor.resolve_conj().resolve_neg()
        dtype, shape, strides = str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tuple(tensor.stride())
        if tensor.numel() == 0:
            return cls(dtype, shape, _dense(shape), b"")
        return cls(dtype, shape, strides, _memory(tensor, span_bytes(dtype, shape, strides)))

    def to_torch(self, device: str | None = None) -> torch.Tensor:
        """The tensor; it shares the buffer's memory where that is writable and no device is named."""
        import torch

        dtype = getattr(torch, self.dtype)
        if 0 in self.shape:
            return torch.empty(self.shape, dtype=dtype, device=device)
        view = memoryview(self.data)
        flat = torch.frombuffer(bytearray(view) if view.readonly else view, dtype=dtype)
        strided = flat.as_strided(self.shape, self.strides, self.offset)
        return strided if device in (None, "cpu") else strided.to(device)


def span_bytes(dtype: str, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> int:
    """Bytes from the start to the end of the last element within the strides.

    Raises:
        ValueError: an unknown dtype, too many dimensions or a number that is no size.
    """
    if dtype not in ITEM_BYTES:
        raise ValueError(f"unknown dtype {str(dtype)[:40]!r}")
    if len(shape) != len(strides) or len(shape) > MAX_RANK:
        raise ValueError("shape and strides are of different rank, or of too high a rank")
    for number in (*shape, *strides, offset):
        if type(number) is not int or not 0 <= number < 2**48:
            raise ValueError(f"{str(number)[:40]!r} is no size")
    if 0 in shape:
        return 0
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return (last + 1) * ITEM_BYTES[dtype]


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _memory(tensor: torch.Tensor, nbytes: int) -> memoryview:
    array = (ctypes.c_ubyte * nbytes).from_address(tensor.data_ptr())
    array.tensor = tensor  # type: ignore[attr-defined]  # the view keeps the array alive, the array the tensor
    return memoryview(array)
