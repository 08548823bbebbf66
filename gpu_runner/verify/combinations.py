"""Which sizes to call with which kinds of inputs, so that decisions of host code meet that no case had together.

Cases have each decision both ways, one by one. A fault that hangs on two of them, such as on a range of widths and a small epsilon,
or on one and special rows, shows where both meet. Few calls meet them by chance; so sizes and kinds are looked at apart, by what
host code decides and computes with each, and those are put together that have most pairs which nothing before has had.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

MOST_VALUES = 8  # of one expression; with more it is a number, of which each call has another

Item = tuple[object, object]  # a decision, an expression or a property of a case, with its outcome or value
Signature = frozenset[Item]


@dataclass(frozen=True)
class Seen:
    """A case by what host code decides and computes in it, and by the kind of its inputs."""

    decided: Signature
    features: Signature


def meetings(cases: Sequence[Seen], sizes: Sequence[Signature]) -> Iterator[tuple[int, int]]:
    """Places of sizes and of cases to be called together, by turns those with the most pairs that no case and none before them had.

    ``sizes`` says what is decided at each with usual inputs. A pair is of two items of host code, or of one and a property of
    inputs. It ends where no pair is new.
    """
    values = _values([*(case.decided for case in cases), *sizes])
    varies = {key for key, several in values.items() if 1 < len(several) <= MOST_VALUES}
    of_sizes = {key for key, several in _values(sizes).items() if key in varies and len(several) > 1}
    alike: dict[Signature, list[int]] = {}
    for place, signature in enumerate(sizes):
        alike.setdefault(_only(signature, of_sizes), []).append(place)
    pairs = _Pairs()
    for case in cases:
        pairs.add(pairs.met(_only(case.decided, varies), case.features))
    besides = [_only(case.decided, varies - of_sizes) for case in cases]
    turns = [itertools.cycle(places) for places in alike.values()]
    calls = [
        (turn, place, pairs.met(signature | besides[place], case.features))
        for turn, signature in zip(turns, alike, strict=True)
        for place, case in enumerate(cases)
    ]
    # A call has no more new pairs than it had before others: only those that come first are counted again.
    left = [(-pairs.new(met), at) for at, (*_, met) in enumerate(calls)]
    heapq.heapify(left)
    while left:
        known, at = left[0]
        turn, place, met = calls[at]
        if (now := -pairs.new(met)) > known:
            heapq.heapreplace(left, (now, at))
            continue
        if not now:
            return
        heapq.heappop(left)
        pairs.add(met)
        yield next(turn), place


def covering(signatures: Sequence[Signature], most: int) -> Iterator[int]:
    """Places of few signatures that have each item of any: by turns the first with the most items that none before has had.

    What has more than few values is a number, and counts as no item.
    """
    varies = {key for key, several in _values(signatures).items() if 1 < len(several) <= MOST_VALUES}
    left = {place: _only(signature, varies) for place, signature in enumerate(signatures)}
    seen: set[Item] = set()
    for turn in range(min(most, len(left))):
        best = max(left, key=lambda place: len(left[place] - seen))
        if turn and not left[best] - seen:
            return
        seen |= left.pop(best)
        yield best


def _values(signatures: Iterable[Signature]) -> dict[object, set[object]]:
    values: dict[object, set[object]] = {}
    for key, value in itertools.chain.from_iterable(signatures):
        values.setdefault(key, set()).add(value)
    return values


def _only(signature: Signature, keys: Collection[object]) -> Signature:
    return frozenset(item for item in signature if item[0] in keys)


class _Met(NamedTuple):
    """Items that meet in a call: those of host code by place, and as bits of a number, and properties of inputs as such bits."""

    places: list[int]
    decided: int
    features: int


class _Pairs:
    """Which pairs were met: of two items of host code, an item with itself too, and of one and a property of inputs."""

    def __init__(self) -> None:
        self._decided: dict[Item, int] = {}
        self._features: dict[Item, int] = {}
        self._rows: list[tuple[int, int]] = []  # by item of host code, those from it on and the properties that it met

    def met(self, decided: Signature, features: Signature) -> _Met:
        """Items that meet in a call."""
        places = [self._decided.setdefault(item, len(self._decided)) for item in decided]
        self._rows += [(0, 0)] * (len(self._decided) - len(self._rows))
        others = [self._features.setdefault(item, len(self._features)) for item in features]
        return _Met(places, sum(1 << place for place in places), sum(1 << place for place in others))

    def new(self, met: _Met) -> int:
        """How many of the pairs of a call were not met before."""
        rows, count = self._rows, 0
        for place in met.places:
            row, beside = rows[place]
            count += (met.decided >> place << place & ~row).bit_count() + (met.features & ~beside).bit_count()
        return count

    def add(self, met: _Met) -> None:
        """Count the pairs of a call as met."""
        for place in met.places:
            row, beside = self._rows[place]
            self._rows[place] = row | met.decided >> place << place, beside | met.features
