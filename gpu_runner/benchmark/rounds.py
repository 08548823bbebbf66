"""The order in which contenders take turns. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def turns(contenders: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Give round after round, every second one in reverse (ABBA), the first place moving on, so that a drift cancels out."""
    order = list(contenders)
    while True:
        yield tuple(order)
        yield tuple(reversed(order))
        order = order[1:] + order[:1]
