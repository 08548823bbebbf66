"""Which sizes and scalars a problem is traced with, so that every number in a trace can be told apart. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpu_runner.contracts import Problem

ScalarValue = float | int | bool | str
Triple = tuple[dict[str, int], ...]
MAX_ELEMENTS = 2**22
# What sizes must be multiples of, tried in this order: halves and groups do not work on primes.
STEPS = (2, 4, 8, 16, 32, 64, 128)
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


def size_sets(problem: Problem) -> Iterator[Triple]:
    """Give triples of sizes to try, each dimension different in each.

    Primes first; then multiples, of one dimension and of all, for halves and groups; then whole ratios between two dimensions
    that hold in every workload, such as between numbers of heads.
    """
    names = dimensions(problem)
    for steps in _step_sets(names):
        found = multiples(problem, [steps] * 3)
        if found:
            yield found
    for link in _ratios(problem):
        for step in (1, 8):
            found = multiples(problem, [dict.fromkeys(names, step)] * 3, link)
            if found:
                yield found


def _step_sets(names: Sequence[str]) -> Iterator[dict[str, int]]:
    yield dict.fromkeys(names, 1)
    for step in STEPS:
        for chosen in reversed(names):
            yield {name: step if name == chosen else 1 for name in names}
        if len(names) > 1:
            yield dict.fromkeys(names, step)


def _ratios(problem: Problem) -> list[tuple[str, str, int]]:
    """Give pairs of dimensions with the whole ratio that they have in every workload, small ratios first."""
    found = []
    for big, small in itertools.permutations(dimensions(problem), 2):
        ratios = {dict(w.sizes)[big] / dict(w.sizes)[small] for w in problem.workloads}
        ratio = next(iter(ratios))
        if len(ratios) == 1 and ratio == int(ratio) and 1 <= ratio <= 64:
            found.append((big, small, int(ratio)))
    return sorted(found, key=lambda entry: (entry[2] == 1, entry[2]))


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


def multiples(
    problem: Problem, steps: Sequence[Mapping[str, int]], link: tuple[str, str, int] | None = None
) -> Triple | None:
    """Give sizes for three traces, each dimension a multiple of its step there; None where the inputs would be too large.

    ``link`` is a pair of dimensions, the first so many times the second.
    """
    for low, high in _BANDS:
        numbers = [p for p in range(low, 40 * high) if _is_prime(p)]
        triple = tuple(_sizes(own, numbers, low, turn) for turn, own in enumerate(steps))
        if link is not None:
            big, small, ratio = link
            triple = tuple(sizes | {big: sizes[small] * ratio} for sizes in triple)
        if max(_elements(problem, sizes) for sizes in triple) <= max(MAX_ELEMENTS, _fixed_elements(problem)):
            return triple
    return None


def _sizes(steps: Mapping[str, int], numbers: Sequence[int], low: int, turn: int) -> dict[str, int]:
    """Give the sizes of one trace. The last one has even sizes: on odd ones alone ``(H + 1) // 2`` is ``H // 2 + 1``."""
    # Far apart from trace to trace where there is room: then no wrong expression fits by chance.
    far = low > _BANDS[-2][0]
    places = {name: i + turn * (len(steps) + 4) if far else turn + 3 * i for i, name in enumerate(steps)}
    primes = {name: _prime(numbers, low, step, places[name]) for name, step in steps.items()}
    return {name: step * (primes[name] + (turn == 2 and step == 1)) for name, step in steps.items()}


def _prime(numbers: Sequence[int], low: int, step: int, index: int) -> int:
    # A multiple of a large step is large by itself, so the prime beside it may be small.
    least = max(low // step, 3)
    small = [p for p in range(least, low) if _is_prime(p)]
    return [*small, *numbers][index]


def _fixed_elements(problem: Problem) -> int:
    """Give the elements of the largest input whose sizes are all written out; it cannot be made smaller."""
    return max((math.prod(map(int, s.dims)) for s in problem.inputs if all(d.isdigit() for d in s.dims)), default=0)


def _elements(problem: Problem, sizes: dict[str, int]) -> int:
    return max(math.prod(int(d) if d.isdigit() else sizes[d] for d in spec.dims) for spec in problem.inputs)


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % d for d in range(2, math.isqrt(number) + 1))
