"""What kernels load and store in the interpreter by way of numpy is what Triton loads and stores, element by element."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from triton.runtime import interpreter

from gpu_runner.program.memory import _Guarded
from gpu_runner.program.objects import Violation

SIZE = 96  # bytes of each of two buffers
DTYPES = ("bool", "uint16", "float16", "float32", "int64")
RANGES = ("one", "two")


def of_triton() -> Any:
    """Triton's own, also where another test has bounded it in this process."""
    there = interpreter._interpreter
    return there._inner if isinstance(there, _Guarded) else there


def guarded(buffers: list[Any]) -> _Guarded:
    found = _Guarded(of_triton())
    found.np, found.builder = np, SimpleNamespace(grid_idx=(0, 0, 0), grid_dim=(1, 1, 1))
    found.begin([(one.ctypes.data, one.ctypes.data + one.nbytes) for one in buffers])
    return found


def drawn(dtype: str, shift: int, where: str, masked: bool) -> tuple[list[Any], Any, Any, Any]:
    """Two buffers of any bytes, and a block of addresses within one of them or in both, with a mask and other values."""
    stream, kind = np.random.default_rng(5), np.dtype(dtype)
    buffers = [stream.integers(0, 2 if dtype == "bool" else 256, SIZE, np.uint8) for _ in range(2)]
    places = stream.permutation(SIZE // kind.itemsize - 1)[:8].reshape(2, 4).astype(np.uint64)
    begins = np.array([buffers[0].ctypes.data] * 4 + [buffers[where == "two"].ctypes.data] * 4, np.uint64).reshape(2, 4)
    addresses = begins + places * np.uint64(kind.itemsize) + np.uint64(shift)
    mask = stream.random((2, 4)) < 0.6 if masked else np.ones((2, 4), bool)
    other = stream.integers(0, 2 if dtype == "bool" else 256, 8 * kind.itemsize, np.uint8).view(kind).reshape(2, 4)
    return buffers, addresses, mask, other


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("where", RANGES)
@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("masked", [False, True])
def test_loads_and_stores_have_the_bits_that_triton_gives(dtype: str, where: str, shift: int, masked: bool) -> None:
    buffers, addresses, mask, other = drawn(dtype, shift, where, masked)
    by_numpy, kind = guarded(buffers), np.dtype(dtype)
    expected = of_triton().load(addresses, mask, other, kind)
    got = by_numpy.load(addresses, mask, other, kind)
    assert (got.dtype, got.shape, got.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())
    before = [one.copy() for one in buffers]
    by_numpy.store(addresses, other, mask)
    written = [one.copy() for one in buffers]
    for one, held in zip(buffers, before, strict=True):
        one[:] = held
    of_triton().store(addresses, other, mask)
    assert [one.tobytes() for one in buffers] == [one.tobytes() for one in written]


def test_elements_of_one_range_are_loaded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers, addresses, mask, other = drawn("float32", 0, "one", masked=True)
    found = guarded(buffers)
    monkeypatch.setattr(found, "_inner", None)  # which goes from element to element
    found.load(addresses, mask, other, np.dtype("float32"))
    found.store(addresses, other, mask)


def test_two_numbers_at_one_place_are_a_race_however_they_are_stored() -> None:
    buffers, addresses, _, other = drawn("float32", 0, "one", masked=False)
    addresses[0, 0] = addresses[1, 1]
    with pytest.raises(Violation, match="several numbers"):
        guarded(buffers).store(addresses, other, np.ones((2, 4), bool))
