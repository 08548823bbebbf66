"""Two dimensions that the reference takes in one ratio alone, as a row and its half. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from gpu_runner.contracts.problem import Problem
from gpu_runner.tracing.sizes import dimensions, ratios

Ratio = tuple[str, str, int]  # a dimension, the one that it is a multiple of, how many times

_PRIMES = (29, 31, 37, 41, 43, 47, 53, 59)
_EVEN = 16


def ratio_of(problem: Problem, runs: Callable[[Mapping[str, int]], bool]) -> Ratio | None:
    """The ratio of all workloads without which the reference does not run, by what ``runs`` says of sizes of every dimension.

    Drawn apart, such dimensions meet by chance alone, where one is broadcast: a half of one element.
    """
    links = ratios(problem)
    odd = dict(zip(dimensions(problem), itertools.cycle(_PRIMES), strict=False))
    bases = [odd, {name: _EVEN * size for name, size in odd.items()}]
    if not links or any(map(runs, bases)):
        return None
    for big, small, ratio in links:
        for base in bases:
            alone, *others = (runs(base | {big: times * base[small]}) for times in (ratio, ratio + 1, 2 * ratio))
            if alone:
                return None if any(others) else (big, small, ratio)
    return None


def in_ratio(sizes: Mapping[str, int], ratio: Ratio) -> dict[str, int]:
    """The sizes with both in that ratio, by the longer one."""
    big, small, times = ratio
    least = max(sizes[small], sizes[big] // times)
    return {**sizes, small: least, big: times * least}
