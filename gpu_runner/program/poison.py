"""What memory holds before a kernel writes it, and beyond its ends: drawn numbers, which no kernel can tell from any others."""

from __future__ import annotations

import torch

GUARD_ELEMENTS = 512  # keeps every alignment that a kernel may count on
_PERIOD = 4099  # prime, so that it falls in step with no row
_WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def between_guards(raw: torch.Tensor) -> torch.Tensor:
    """What lies between the guards of a buffer, in a storage of its own: offsets in it are those of a user's tensor."""
    return (
        torch.from_dlpack(raw[GUARD_ELEMENTS:-GUARD_ELEMENTS]) if raw.numel() > 2 * GUARD_ELEMENTS else raw.new_empty(0)
    )


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as whole numbers of the same width."""
    dense = tensor.contiguous()
    return (dense if dense.dim() else dense.reshape(1)).view(_WHOLE[tensor.element_size()])


def bits_equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors hold the same bits, NaN and negative zero included."""
    same_form = left.dtype == right.dtype and left.shape == right.shape
    return same_form and bool(torch.equal(bits(left), bits(right)))


class Poison:
    """A drawn sequence of numbers, and where in it each buffer begins. ``seed`` is secret."""

    def __init__(self, seed: int) -> None:
        self._stream = torch.Generator().manual_seed(seed)
        self._drawn: dict[tuple[torch.dtype, torch.device], torch.Tensor] = {}

    def fill(self, raw: torch.Tensor) -> int:
        """Fill a dense one-dimensional buffer; gives the phase by which ``same_ends`` and ``left`` know what it held."""
        phase = int(torch.randint(_PERIOD, (), generator=self._stream))
        raw.copy_(self._sequence(raw, phase))
        return phase

    def same_ends(self, raw: torch.Tensor, phase: int) -> bool:
        """Whether nothing was written to the first and the last elements of a buffer."""
        last = raw.numel() - GUARD_ELEMENTS
        begin, end = raw[:GUARD_ELEMENTS], raw[last:]
        return bits_equal(begin, self._sequence(begin, phase)) and bits_equal(end, self._sequence(end, phase + last))

    def left(self, tensor: torch.Tensor, raw: torch.Tensor, phase: int) -> int:
        """How many elements of a tensor in that buffer hold what they held at first."""
        before = self._sequence(raw, phase).as_strided(
            tensor.shape, tensor.stride(), GUARD_ELEMENTS + tensor.storage_offset()
        )
        return int((bits(tensor) == bits(before)).sum())

    def _sequence(self, like: torch.Tensor, phase: int) -> torch.Tensor:
        drawn = self._period(like.dtype, like.device).roll(-(phase % _PERIOD))
        return drawn.repeat(-(-like.numel() // _PERIOD))[: like.numel()]

    def _period(self, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        key = (dtype, device)
        if key not in self._drawn:
            self._drawn[key] = self._draw(dtype).to(device)
        return self._drawn[key]

    def _draw(self, dtype: torch.dtype) -> torch.Tensor:
        if dtype == torch.bool:
            return torch.randint(0, 2, (_PERIOD,), generator=self._stream).to(dtype)
        if not dtype.is_floating_point:
            return torch.randint(0, 100, (_PERIOD,), generator=self._stream).to(dtype)
        scale = 2.0 ** (torch.rand((), generator=self._stream).item() * 4 - 1)
        return (torch.randn(_PERIOD, generator=self._stream, dtype=torch.float64) * scale).to(dtype)
