"""Cases in which whole scalars divide sizes as other numbers than the problem's: an odd one, one, the size itself. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence

from gpu_runner.contracts.expressions import evaluate_expression
from gpu_runner.contracts.graph import Multiple
from gpu_runner.contracts.problem import Workload
from gpu_runner.verify.scalars import Scalar

Move = tuple[tuple[tuple[str, int], ...], tuple[tuple[str, Scalar], ...]]  # sizes and scalars


def divided(
    sizes: tuple[tuple[str, int], ...],
    rules: Sequence[Multiple],
    workload: Workload,
    stream: random.Random,
    *,
    quick: bool,
) -> list[Move]:
    """Sizes and scalars in which the rules hold; dimensions without a rule keep their ``sizes``. A quick look takes the first."""
    return _moved(sizes, rules, workload, _settings(stream)[: 1 if quick else None])


def beyond(
    sizes: tuple[tuple[str, int], ...],
    rules: Sequence[Multiple],
    workload: Workload,
    constant: int,
    stream: random.Random,
) -> list[Move]:
    """The same with scalars beyond a constant."""
    return _moved(sizes, rules, workload, [(constant + stream.randint(1, constant // 2), stream.randint(1, 2))])


def _moved(
    sizes: tuple[tuple[str, int], ...],
    rules: Sequence[Multiple],
    workload: Workload,
    settings: Sequence[tuple[int, int]],
) -> list[Move]:
    names = dict.fromkeys(name for rule in rules for name in rule.scalars)
    moves = []
    for value, times in settings if rules else ():
        scalars: dict[str, Scalar] = dict(workload.scalars) | dict.fromkeys(names, value)
        of = {rule.dimension: int(evaluate_expression(rule.of, dict.fromkeys(names, value))) for rule in rules}
        moved = tuple((dim, of[dim] * times if dim in of else size) for dim, size in sizes)
        moves.append((moved, tuple(scalars.items())))
    return moves


def _settings(stream: random.Random) -> list[tuple[int, int]]:
    """What the scalars are, and how many times the product of a rule goes into its dimension: an odd number first."""
    odd, even = stream.choice((3, 5, 7)), 2 * stream.randint(1, 3)
    return [
        (odd, stream.randint(5, 9)),
        (1, stream.randint(20, 40)),
        (even, stream.randint(9, 15)),
        (stream.randint(9, 13), 1),
    ]
