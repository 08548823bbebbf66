"""Which sizes and scalars a problem is traced with, so that every number in a trace can be told apart. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpu_runner.contracts import Problem

ScalarValue = float | int | bool | str
MAX_ELEMENTS = 2**22
# What sizes must be multiples of, tried in this order: halves and groups do not work on primes.
STEPS = (1, 2, 4, 8, 16, 32, 64, 128)
_BANDS = ((101, 400), (29, 120), (11, 60), (5, 40), (3, 30))
# No value here is a simple multiple of another, so that the expression found is the only one.
_FACTORS = ((1.0, 0.731, 1.391), (1.0, 0.617, 1.523), (1.0, 0.839, 1.171), (1.0, 0.557, 1.683))


@dataclass(frozen=True)
class Setting:
    """What one trace is made with."""

    sizes: tuple[tuple[str, int], ...]
    scalars: tuple[tuple[str, ScalarValue], ...]

    def values(self) -> dict[str, float | int]:
        """Give sizes and numeric scalars by name."""
        numeric = {k: v for k, v in self.scalars if isinstance(v, int | float) and not isinstance(v, bool)}
        return dict(self.sizes) | numeric


def defaults(problem: Problem) -> dict[str, ScalarValue]:
    """Give each scalar's value: that of the first workload where it names one, else its default; None is left out."""
    given = dict(problem.workloads[0].scalars) if problem.workloads else {}
    values = {spec.name: given.get(spec.name, spec.default) for spec in problem.scalars}
    return {name: value for name, value in values.items() if value is not None}


def dimensions(problem: Problem) -> tuple[str, ...]:
    """Give the names that need a size, those that only bound an input's values too."""
    bounds = [spec.high for spec in problem.inputs if isinstance(spec.high, str)]
    return tuple(dict.fromkeys([*problem.dimensions, *bounds]))


def size_sets(problem: Problem) -> Iterator[tuple[dict[str, int], ...]]:
    """Give triples of sizes to try, each dimension different in each: primes first, then multiples, then the workload's ratios."""
    for step in STEPS:
        found = _multiples(problem, step)
        if found:
            yield found
    ratios = _ratio_sets(problem)
    if ratios:
        yield ratios


def scalar_sets(problem: Problem, varied: Sequence[str]) -> tuple[dict[str, ScalarValue], ...]:
    """Give three sets of scalars: the values as they stand, and two in which ``varied`` are changed."""
    base = defaults(problem)
    sets: list[dict[str, ScalarValue]] = []
    for turn in range(3):
        changed = dict(base)
        for number, name in enumerate(varied):
            changed[name] = _changed(base[name], turn, number)
        sets.append(changed)
    return tuple(sets)


def variable_scalars(problem: Problem) -> list[str]:
    """Give the scalars that are numbers and may be varied."""
    return [n for n, v in defaults(problem).items() if isinstance(v, int | float) and not isinstance(v, bool)]


def _changed(value: ScalarValue, turn: int, number: int) -> ScalarValue:
    if turn == 0 or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value + (2 * turn + 1) * (1 if value >= 0 else -1) + number * turn
    factor = _FACTORS[number % len(_FACTORS)][turn]
    return value * factor if value else 0.0137 * turn * factor + 0.0071 * number


def _multiples(problem: Problem, step: int) -> tuple[dict[str, int], ...] | None:
    names = dimensions(problem)
    for low, high in _BANDS:
        numbers = [p for p in range(max(low // step, 2), 40 * high) if _is_prime(p)]
        triple = tuple(
            {name: step * numbers[turn + 3 * index] for index, name in enumerate(names)} for turn in range(3)
        )
        if max(_elements(problem, sizes) for sizes in triple) <= MAX_ELEMENTS:
            return triple
    return None


def _ratio_sets(problem: Problem) -> tuple[dict[str, int], ...] | None:
    """Keep whole ratios between dimensions that hold in every workload, such as between numbers of heads."""
    names = dimensions(problem)
    base = _multiples(problem, 8)
    if base is None:
        return None
    triple = []
    for sizes in base:
        linked = dict(sizes)
        for big, small in itertools.permutations(names, 2):
            ratios = {dict(w.sizes)[big] / dict(w.sizes)[small] for w in problem.workloads}
            ratio = next(iter(ratios))
            if len(ratios) == 1 and ratio == int(ratio) and 1 < ratio <= 64:
                linked[big] = linked[small] * int(ratio)
        triple.append(linked)
    if tuple(triple) == base or max(_elements(problem, s) for s in triple) > MAX_ELEMENTS:
        return None
    return tuple(triple)


def _elements(problem: Problem, sizes: dict[str, int]) -> int:
    return max(math.prod(int(d) if d.isdigit() else sizes[d] for d in spec.dims) for spec in problem.inputs)


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % d for d in range(2, math.isqrt(number) + 1))
