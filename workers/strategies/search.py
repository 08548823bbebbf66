"""Which variant is tried next: searches as pure state machines over the variants so far. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from workers.contracts import Outcome, PlannedStrategy, StopReason, Variant

ORIGINAL = "v0"
# These were never measured, so they use up neither a variant nor patience.
UNMEASURED = (Outcome.does_not_apply, Outcome.duplicate)


@dataclass(frozen=True)
class Limits:
    """When a search ends."""

    variants: int = 8  # measured ones
    patience: int = 2  # so many in a row under ``least_gain`` end it
    least_gain: float = 1.01  # over the best before
    beam_width: int = 3  # parents that a beam goes on from


@dataclass(frozen=True)
class Step:
    """The next variant: a strategy, and the variant (or v0) whose file it changes."""

    parent: str
    strategy: str


class Search(Protocol):
    """A way through the strategies; the same variants always give the same step."""

    def next(
        self, variants: Sequence[Variant], strategies: Sequence[PlannedStrategy], limits: Limits
    ) -> Step | StopReason:
        """Give the next step, or why there is none."""
        ...


class Greedy:
    """Each strategy once, in its order, on the best variant so far; one that repeats as long as it gains something."""

    def next(
        self, variants: Sequence[Variant], strategies: Sequence[PlannedStrategy], limits: Limits
    ) -> Step | StopReason:
        """Give the first strategy that was not tried, on the best variant that was kept."""
        repeating = frozenset(planned.strategy for planned in strategies if planned.repeats)
        stop = _stopped(variants, limits, repeating)
        tried = {variant.strategy for variant in variants}
        left = [p.strategy for p in strategies if p.repeats or p.strategy not in tried]
        if not left:
            return StopReason.strategies_used
        begun = bool(repeating & tried)
        if repeating and (begun or stop is StopReason.no_progress):
            # That what was planned finds nothing more says nothing about what nobody knows before it is asked for.
            left, stop = [strategy for strategy in left if strategy in repeating], stop if begun else None
        return stop or Step(ranked(variants)[0], left[0])


class Beam:
    """Several of the best variants, each against several bottlenecks in turn."""

    def next(
        self, variants: Sequence[Variant], strategies: Sequence[PlannedStrategy], limits: Limits
    ) -> Step | StopReason:
        """Give the first untried pair: the leading strategy of each bottleneck on each parent, then the second ones."""
        tried = {(variant.parent, variant.strategy) for variant in variants}
        if not variants and strategies:
            return Step(ORIGINAL, strategies[0].strategy)
        pairs: list[tuple[int, int, int, Step]] = []
        for rank, parent in enumerate(ranked(variants)[: limits.beam_width]):
            before = _lineage(parent, variants)
            for place, depth, planned in _by_bottleneck(strategies):
                if planned.strategy not in before and (parent, planned.strategy) not in tried:
                    pairs.append((depth, rank, place, Step(parent, planned.strategy)))
        if not pairs:
            return StopReason.strategies_used
        return _stopped(variants, limits) or min(pairs, key=lambda pair: pair[:3])[3]


SEARCHES: dict[str, Search] = {"greedy": Greedy(), "beam": Beam()}


def ranked(variants: Sequence[Variant]) -> tuple[str, ...]:
    """Give the names of those that may be built on, the best first; v0 is always among them."""
    kept = [(variant.score, number, variant.name) for number, variant in enumerate(variants) if _kept(variant)]
    # Where nothing was timed, each kept one stands on the one before it.
    ordered = sorted(kept, key=lambda item: (item[0] if item[0] is not None else 1.0, item[1]), reverse=True)
    return (*(name for _, _, name in ordered), ORIGINAL)


def _kept(variant: Variant) -> bool:
    return variant.outcome is Outcome.kept


def _stopped(variants: Sequence[Variant], limits: Limits, repeating: frozenset[str] = frozenset()) -> StopReason | None:
    # What repeats would never end if the same code again were nothing.
    measured = [v for v in variants if v.outcome not in UNMEASURED or v.strategy in repeating]
    if len(measured) >= limits.variants:
        return StopReason.variants_used
    best, idle, before = 1.0, 0, False
    for variant in measured:
        repeats = variant.strategy in repeating
        if repeats and not before:
            idle = 0
        before = repeats
        # One that was rejected for what it does elsewhere is better all the same: its idea is not used up.
        better = _kept(variant) if variant.score is None else variant.score >= best * limits.least_gain
        idle = 0 if better else idle + 1
        if _kept(variant) and variant.score is not None:
            best = max(best, variant.score)
    return StopReason.no_progress if idle >= limits.patience else None


def _lineage(name: str, variants: Sequence[Variant]) -> frozenset[str]:
    known = {variant.name: variant for variant in variants}
    found: set[str] = set()
    while name in known:
        found.add(known[name].strategy)
        name = known.pop(name).parent
    return frozenset(found)


def _by_bottleneck(strategies: Sequence[PlannedStrategy]) -> list[tuple[int, int, PlannedStrategy]]:
    """Each strategy with its bottleneck's place and its own place among those of that bottleneck."""
    places: dict[str, list[PlannedStrategy]] = {}
    for planned in strategies:
        places.setdefault(planned.bound.value, []).append(planned)
    return [(i, depth, p) for i, group in enumerate(places.values()) for depth, p in enumerate(group)]
