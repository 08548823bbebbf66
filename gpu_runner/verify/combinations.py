"""Which sizes to call with which kinds of inputs, so that decisions of host code meet that no case had together.

Cases have each decision both ways, one by one. A fault that hangs on two of them, such as on a range of widths and a small epsilon,
or on one and special rows, shows where both meet. Few calls meet them by chance; so sizes and kinds are looked at apart, by what
host code decides and computes with each, and those are put together that have most pairs which nothing before has had.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

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
    varies = {key for key, found in values.items() if 1 < len(found) <= MOST_VALUES}
    of_sizes = {key for key, found in _values(sizes).items() if key in varies and len(found) > 1}
    alike: dict[Signature, list[int]] = {}
    for place, signature in enumerate(sizes):
        alike.setdefault(_only(signature, of_sizes), []).append(place)
    seen = set().union(*(_pairs(_only(case.decided, varies), case.features) for case in cases))
    left = {
        (signature, place): _pairs(signature | _only(case.decided, varies - of_sizes), case.features)
        for signature in alike
        for place, case in enumerate(cases)
    }
    turns = {signature: itertools.cycle(places) for signature, places in alike.items()}
    while left:
        best = max(left, key=lambda one: len(left[one] - seen))
        if not left[best] - seen:
            return
        seen |= left.pop(best)
        yield next(turns[best[0]]), best[1]


def covering(signatures: Sequence[Signature], most: int) -> Iterator[int]:
    """Places of few signatures that have each item of any: by turns the first with the most items that none before has had.

    What has more than few values is a number, and counts as no item.
    """
    varies = {key for key, found in _values(signatures).items() if 1 < len(found) <= MOST_VALUES}
    left = {place: _only(signature, varies) for place, signature in enumerate(signatures)}
    seen: set[Item] = set()
    for turn in range(min(most, len(left))):
        best = max(left, key=lambda place: len(left[place] - seen))
        if turn and not left[best] - seen:
            return
        seen |= left.pop(best)
        yield best


def _values(signatures: Iterable[Signature]) -> dict[object, set[object]]:
    found: dict[object, set[object]] = {}
    for key, value in itertools.chain.from_iterable(signatures):
        found.setdefault(key, set()).add(value)
    return found


def _only(signature: Signature, keys: Collection[object]) -> Signature:
    return frozenset(item for item in signature if item[0] in keys)


def _pairs(decided: Signature, features: Signature) -> set[frozenset[Item]]:
    return {frozenset((one, other)) for one in decided for other in (*decided, *features)}
