"""Sizes that the reference takes alone: multiples of a number, as of a row that it halves, and two in one ratio. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from gpu_runner.contracts.problem import Problem
from gpu_runner.tracing.sizes import dimensions, ratios

Ratio = tuple[str, str, int]  # a dimension, the one that it is a multiple of, how many times

_PRIMES = (29, 31, 37, 41, 43, 47, 53, 59)
_EVEN = 16
_STEPS = (2, 3, 4, 8, 16)


def ratio_of(problem: Problem, runs: Callable[[Mapping[str, int]], bool]) -> Ratio | None:
    """The ratio of all workloads without which the reference does not run, by what ``runs`` says of sizes of every dimension.

    Drawn apart, such dimensions meet by chance alone, where one is broadcast: a half of one element.
    """
    links = ratios(problem)
    odd = _odd(problem)
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


def steps_of(problem: Problem, runs: Callable[[Mapping[str, int]], bool]) -> dict[str, int]:
    """What dimensions must be multiples of for the reference to run, by what ``runs`` says of sizes of every dimension.

    Other sizes run by chance alone, where a part of one element is broadcast.
    """
    odd = _odd(problem)
    if runs(odd):
        return {}
    for step in _STEPS:
        base = {name: step * size for name, size in odd.items()}
        if runs(base):
            beside = {name: [base | {name: size + more} for more in (-1, 1)] for name, size in base.items()}
            return {name: step for name, others in beside.items() if not any(map(runs, others))}
    return {}


def in_steps(sizes: Mapping[str, int], steps: Mapping[str, int]) -> dict[str, int]:
    """The next sizes that are such multiples."""
    return {name: -(-size // steps.get(name, 1)) * steps.get(name, 1) for name, size in sizes.items()}


def _odd(problem: Problem) -> dict[str, int]:
    return dict(zip(dimensions(problem), itertools.cycle(_PRIMES), strict=False))
