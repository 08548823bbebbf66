"""Loops that a trace has unrolled: the same operations again and again, each turn on what the last one left. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from workers.authors.compiler.values import TileValue, topological

LONGEST_TURN = 64  # operations
LEAST_SEEN = 3  # turns that must be there whole
LEAST_SAVED = 12  # operations that need not be written: for less, a loop is no easier to read
Key = tuple[object, ...]


@dataclass(frozen=True)
class RerolledLoop:
    """A loop: each state begins as its ``start``; ``body`` is one of the turns, from the states ``before`` it to those ``after``.

    ``ends`` are the states that the last turn leaves, None for one that nothing needs.
    """

    count: int
    starts: tuple[TileValue, ...]
    before: tuple[TileValue, ...]
    body: tuple[TileValue, ...]
    after: tuple[TileValue, ...]
    ends: tuple[TileValue | None, ...]
    turns: tuple[tuple[TileValue | None, ...], ...]  # what each turn computes, in the order of the body
    own: frozenset[TileValue] = frozenset()  # the starts that nothing needs once the first turn has begun

    @property
    def outside(self) -> tuple[TileValue, ...]:
        """What is computed before the first turn: the starts, and what every turn reads."""
        inner = {*self.body, *self.before}
        read = (arg for value in self.body for arg in value.args if arg not in inner)
        return tuple(dict.fromkeys((*self.starts, *read)))

    @property
    def values(self) -> frozenset[TileValue]:
        """All that the turns compute."""
        return frozenset(value for turn in self.turns for value in turn if value is not None)


def rerolled_loops(roots: Iterable[TileValue]) -> tuple[RerolledLoop, ...]:
    """The loops among all that the roots need, in the order in which they come; no two share an operation."""
    trace = _Trace(tuple(roots))
    return tuple(_between(trace, 0, len(trace.values)))


def _between(trace: _Trace, first: int, last: int) -> list[RerolledLoop]:
    """The loops from a place on and before another: the one that saves most, and those on both sides of it."""
    trace.first, trace.last = first, last
    best = trace.longest()
    if best is None:
        return []
    places = [trace.place[value] for value in best.values]
    return [*_between(trace, first, min(places)), best, *_between(trace, max(places) + 1, last)]


class _Trace:
    """All operations in order, with their places and their users; loops are looked for from ``first`` on, before ``last``."""

    def __init__(self, roots: Sequence[TileValue]) -> None:
        self.values = [value for value in topological(roots) if value.args]
        self.place = {value: place for place, value in enumerate(self.values)}
        self.first, self.last = 0, len(self.values)
        self.known = {_key(value, value.args): value for value in self.values}
        self.users: dict[TileValue, set[TileValue | None]] = {value: set() for value in self.values}
        for value in self.values:
            for arg in value.args:
                self.users.setdefault(arg, set()).add(value)
        for root in roots:
            self.users.setdefault(root, set()).add(None)

    def longest(self) -> RerolledLoop | None:
        """The loop that saves most."""
        best: tuple[int, RerolledLoop] | None = None
        for length in range(1, min(LONGEST_TURN, (self.last - self.first) // LEAST_SEEN) + 1):
            for begin, end in self._runs(length):
                if best is not None and length % len(best[1].body) == 0 and self.values[begin] in best[1].values:
                    continue  # it is the same loop, several turns at a time
                loop = self._of_run(begin, end, length)
                saved = 0 if loop is None else (loop.count - 1) * length
                if loop is not None and saved >= LEAST_SAVED and (best is None or saved > best[0]):
                    best = (saved, loop)
        return None if best is None else best[1]

    def _runs(self, length: int) -> list[tuple[int, int]]:
        """Runs of turns in which every operation is that of the turn before, shifted."""
        runs: list[tuple[int, int]] = []
        begin = self.first + length
        for place in range(begin, self.last + 1):
            if place < self.last and self._is_moved(place, length):
                continue
            if place - begin >= (LEAST_SEEN - 1) * length:
                runs.append((begin - length, place))
            begin = place + 1
        return runs

    def _is_moved(self, place: int, length: int) -> bool:
        value, earlier = self.values[place], self.values[place - length]
        return _same_operation(value, earlier) and all(
            one is other or (one in self.place and self.place[one] - length == self.place.get(other))
            for one, other in zip(value.args, earlier.args, strict=True)
        )

    def _of_run(self, begin: int, end: int, length: int) -> RerolledLoop | None:
        """A turn may be taken to begin at any operation: the fewest states are best, then the most turns."""
        last = min(begin + length, end - LEAST_SEEN * length + 1)
        rolled = [self._from(start, length) for start in range(begin, last)]
        return min((one for one in rolled if one), key=lambda one: (len(one.before), -one.count), default=None)

    def _from(self, start: int, length: int) -> RerolledLoop | None:
        zero, body, third = (tuple(self.values[at : at + length]) for at in range(start, start + 3 * length, length))
        offsets: set[int] = set()
        for value, later in zip(body, third, strict=True):
            for arg, moved in zip(value.args, later.args, strict=True):
                if arg in zero and moved in body:
                    offsets.add(self.place[arg] - start)
                elif arg is not moved and arg not in body:
                    return None  # it reads what an earlier turn than the last left
        before, after = (tuple(turn[offset] for offset in sorted(offsets)) for turn in (zero, body))
        if not before or not all(
            one.space.rows and _same_kind(one, two) for one, two in zip(before, after, strict=True)
        ):
            return None
        return self._whole(before, body, after, sorted(offsets))

    def _whole(
        self,
        before: tuple[TileValue, ...],
        body: tuple[TileValue, ...],
        after: tuple[TileValue, ...],
        offsets: list[int],
    ) -> RerolledLoop | None:
        """Follow the states down to where they start and up to where they end."""
        starts, turns = before, [body]
        while (lower := self._earlier(starts, before, body, after, offsets)) is not None:
            starts, turn = lower
            turns.insert(0, turn)
        rows: list[tuple[TileValue | None, ...]] = list(turns)
        ends: tuple[TileValue | None, ...] = after
        while all(end is not None for end in ends):
            turn_after = self._applied(body, before, ends)
            states = tuple(turn_after[offset] for offset in offsets)
            if not any(state is not None for state in states) or not self._are_here(turn_after):
                break
            rows.append(turn_after)
            ends = states
        while len(rows) >= LEAST_SEEN and not self._stands_alone(rows, offsets):
            rows.pop()
        if len(rows) < LEAST_SEEN:
            return None
        ends = tuple(rows[-1][offset] for offset in offsets)
        loop = RerolledLoop(len(rows), starts, before, body, after, ends, tuple(rows))
        read = {arg for value in body for arg in value.args}
        early = loop.values | set(topological(loop.outside))
        return replace(loop, own=frozenset(s for s in starts if s not in read and self.users.get(s, set()) <= early))

    def _applied(
        self, body: tuple[TileValue, ...], before: tuple[TileValue, ...], states: Sequence[TileValue | None]
    ) -> tuple[TileValue | None, ...]:
        """The body's values from other states, as far as they are needed."""
        table: dict[TileValue, TileValue | None] = dict(zip(before, states, strict=True))
        for value in body:
            args = tuple(table.get(arg, arg) for arg in value.args)
            table[value] = self.known.get(_key(value, args))
        return tuple(table[value] for value in body)

    def _earlier(
        self,
        states: tuple[TileValue, ...],
        before: tuple[TileValue, ...],
        body: tuple[TileValue, ...],
        after: tuple[TileValue, ...],
        offsets: list[int],
    ) -> tuple[tuple[TileValue, ...], tuple[TileValue, ...]] | None:
        """The states that a turn before these would have begun with, and the turn."""
        bound: dict[TileValue, TileValue] = {}
        pairs = list(zip(after, states, strict=True))
        inner, carried, seen = set(body), set(before), set[tuple[TileValue, TileValue]]()
        while pairs:
            one, other = pairs.pop()
            if (one, other) in seen:
                continue
            seen.add((one, other))
            if one in carried:
                if bound.setdefault(one, other) is not other:
                    return None
            elif one not in inner:
                if one is not other:
                    return None
            elif not _same_operation(one, other):
                return None
            else:
                pairs += zip(one.args, other.args, strict=True)
        if set(bound) != carried:
            return None
        starts = tuple(bound[state] for state in before)
        turn = self._applied(body, before, starts)
        values = tuple(value for value in turn if value is not None)
        same_kind = all(_same_kind(one, two) for one, two in zip(starts, before, strict=True))
        if len(values) < len(turn) or tuple(values[offset] for offset in offsets) != states or not same_kind:
            return None
        if not self._are_here(values):
            return None
        return starts, values

    def _are_here(self, turn: Sequence[TileValue | None]) -> bool:
        return all(value is None or self.first <= self.place[value] < self.last for value in turn)

    def _stands_alone(self, turns: list[tuple[TileValue | None, ...]], offsets: list[int]) -> bool:
        """Whether only the last states are used outside of the loop."""
        inner = {value for turn in turns for value in turn if value is not None}
        ends = {turns[-1][offset] for offset in offsets}
        return all(user in inner for value in inner - ends for user in self.users.get(value, ()))


def _key(value: TileValue, args: Sequence[TileValue | None]) -> Key:
    return (value.op, tuple(id(arg) for arg in args), type(value.datum).__name__, repr(value.datum), value.space)


def _same_operation(one: TileValue, other: TileValue) -> bool:
    return (
        _same_kind(one, other)
        and (one.op, repr(one.datum), len(one.args)) == (other.op, repr(other.datum), len(other.args))
        and type(one.datum) is type(other.datum)
    )


def _same_kind(one: TileValue, other: TileValue) -> bool:
    """Whether two values have the same shape and type in a kernel."""
    return (one.space, one.boolean, one.integer) == (other.space, other.boolean, other.integer)
