"""Which strategies are tried, in which order, and what each may gain. Pure."""

from __future__ import annotations

import math
from dataclasses import replace

from workers.contracts import Outcome, PlannedStrategy
from workers.strategies.catalog import FIRST, STRATEGIES
from workers.strategies.evidence import headroom
from workers.strategies.protocol import ModelTurn, Situation, Stands

FRUITLESS = (
    Outcome.no_gain,
    Outcome.incorrect,
    Outcome.does_not_apply,
    Outcome.guardrail,
    Outcome.duplicate,
    Outcome.unusable,
)


def ordered(situation: Situation) -> tuple[PlannedStrategy, ...]:
    """The strategies whose trigger applies: the sweep first, then by expected gain, those that failed before last.

    For a kernel that is yet to be written those are left out that are for an existing kernel alone.
    A model's changes come right behind the sweep or at the very end, whatever they may gain. No gain is promised beyond the floor.
    """
    most = headroom(situation)
    fitting = [s for s in STRATEGIES if situation.stands is Stands.kernel or not s.needs_kernel]
    planned = [plan for strategy in fitting if (plan := strategy.plan(situation)) is not None]
    capped = [replace(p, gain_high=_capped(p.gain_high, most), gain_low=_capped(p.gain_low, most)) for p in planned]
    fruitless = {variant.strategy for variant in situation.earlier if variant.outcome in FRUITLESS}
    in_order = sorted(capped, key=lambda p: (p.strategy != FIRST, p.strategy in fruitless, -_expected(p)))
    last = situation.model is ModelTurn.last
    return tuple(sorted(in_order, key=lambda p: (p.strategy != FIRST, p.repeats if last else not p.repeats)))


def _capped(gain: float, most: float) -> float:
    return max(1.0, min(gain, most))


def _expected(planned: PlannedStrategy) -> float:
    return math.sqrt(planned.gain_low * planned.gain_high)
