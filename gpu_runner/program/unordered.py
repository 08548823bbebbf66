"""Orders that Triton leaves open, drawn where a launch is run once more: a kernel that counts on one gives something else.

A reduction combines its elements in any order, so that its function must commute too; of ``tl.reshape`` and ``tl.cat`` with
``can_reorder``, and of ``tl.view``, any element may come out in any place.
Source: Triton's documentation of these; its reduction of a warp exchanges lanes by a butterfly.
"""

from __future__ import annotations

from typing import Any

_SEED: list[int | None] = [None]


def draw(seed: int | None) -> None:
    """Have the launches from now on take orders of this seed; None: those that the interpreter has by itself."""
    _SEED[0] = seed


def order_of(count: int) -> Any:
    """An order of so many elements, the same one for all blocks of that size in a run; None where none is drawn."""
    from triton.runtime import interpreter

    if _SEED[0] is None or count < 2:
        return None
    return interpreter.np.random.default_rng((_SEED[0], count)).permutation(count)


def elements_of_a_thread(count: int) -> int:
    """How many of so many elements, a power of two, a thread combines one after the other before threads do; 1 where no order is
    drawn."""
    if _SEED[0] is None or count < 4:
        return 1
    most: int = min(3, count.bit_length() - 2)
    return 1 << 1 + (_SEED[0] + count) % most


def reordered(data: Any) -> Any:
    """A block along its last axis in the order that is drawn."""
    order = order_of(data.shape[-1])
    return data if order is None else data.take(order, -1)


def leave_open() -> None:
    """Have reshapes and concatenations that may reorder do so in this process; once."""
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    reshape, cat = builder.create_reshape, builder.create_cat

    def create_reshape(self: Any, arg: Any, shape: Any, allow_reorder: bool) -> Any:
        made = reshape(self, arg, shape, allow_reorder)
        return _in_any_place(made) if allow_reorder else made

    def create_cat(self: Any, lhs: Any, rhs: Any) -> Any:
        return _in_any_place(cat(self, lhs, rhs))

    builder.create_reshape, builder.create_cat = create_reshape, create_cat


def _in_any_place(made: Any) -> Any:
    from triton.runtime import interpreter

    data = made.data
    return interpreter.TensorHandle(reordered(data.reshape(-1)).reshape(data.shape), made.dtype)
