"""Loops whose loads a compiled kernel begins some steps ahead: there a load finds what lay in memory before stores of these steps.

Triton pipelines the loads of blocks of a loop over ``tl.range`` with ``num_stages``, and looks at no address: with ``n`` stages
those of a step are begun before the stores of the ``n - 1`` steps ahead of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_runner.contracts.verify import Status
from gpu_runner.program.lanes import line_of_kernel
from gpu_runner.program.objects import Violation


class _Loop:
    """A loop that runs, and in which of its steps each byte of a launch's ranges was stored, counted from 1; zero: in none."""

    def __init__(self, stages: int) -> None:
        self.stages, self.step = stages, 0
        self.stored: dict[int, Any] = {}


loops: list[_Loop] = []  # of the program that runs, the innermost last
_asked: list[tuple[range, int]] = []  # the range that was made last with stages


def watch(interpreter: Any) -> None:
    """Have ``tl.range`` of the interpreter of this process tell its stages; once."""
    patch = interpreter._patch_lang_core  # noqa: SLF001 - there is no public place for it

    def patch_lang_core(lang: Any, scope: Any) -> None:
        patch(lang, scope)
        plain = lang.range

        def new_range(*bounds: Any, **named: Any) -> range:
            made: range = plain(*bounds, **named)
            stages = getattr(named.get("num_stages"), "value", named.get("num_stages"))
            _asked[:] = [(made, stages)] if isinstance(stages, int) and stages > 1 else []
            return made

        scope.set_attr(lang, "range", new_range)

    interpreter._patch_lang_core = patch_lang_core  # noqa: SLF001 - as above


def begin() -> None:
    """Begin a launch."""
    loops.clear()


def stepped(made: range, counted: Iterator[Any]) -> Iterator[Any]:
    """The numbers that a loop over a range counts, with its steps noted where that matters."""
    stages = next((stages for one, stages in _asked if one is made), 1)
    _asked.clear()
    return _stepping(counted, stages) if stages > 1 or loops else counted


def _stepping(counted: Iterator[Any], stages: int) -> Iterator[Any]:
    depth = len(loops)
    loops.append(loop := _Loop(stages))
    try:
        for value in counted:
            loop.step += 1
            yield value
    finally:  # also where a kernel returns out of it
        del loops[depth:]


def store(place: int, size: int, at: Any, width: int, numpy: Any) -> None:
    """Note a store of elements of ``width`` bytes, by their first bytes in a range of ``size`` bytes."""
    for loop in loops:
        if loop.stages > 1:
            stored = loop.stored.setdefault(place, numpy.zeros(size, "int32"))
            for byte in range(width):
                stored[at + byte] = loop.step


def load(place: int, at: Any) -> None:
    """Hold a load of a block against the stores of the steps before.

    Raises:
        Violation: it reads what one of them wrote that is not done yet when it begins.
    """
    loop = loops[-1] if loops else None
    if loop is None or loop.stages < 2 or at.size < 2 or place not in loop.stored:
        return
    steps = loop.stored[place][at]
    if bool(((steps > 0) & (steps < loop.step) & (steps > loop.step - loop.stages)).any()):
        message = (
            f"A loop of {loop.stages} stages reads in line {line_of_kernel()} what it stored less than so many steps before: "
            f"compiled, its loads begin {loop.stages - 1} steps ahead."
        )
        raise Violation("race", message, Status.nondeterministic)
