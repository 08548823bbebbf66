"""Which strategies are tried, in which order, and what each may gain. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from gpu_runner.contracts.reading import TRITON
from workers.contracts import Outcome, PlannedStrategy
from workers.strategies.catalog import FIRST, STRATEGIES
from workers.strategies.evidence import headroom
from workers.strategies.gains import Evidence, expected
from workers.strategies.protocol import ModelTurn, Situation, Stands

FRUITLESS = (
    Outcome.no_gain,
    Outcome.incorrect,
    Outcome.does_not_apply,
    Outcome.guardrail,
    Outcome.duplicate,
    Outcome.unusable,
)

NOTHING_MEASURED: Mapping[str, Evidence] = {}


def ordered(situation: Situation, known: Mapping[str, Evidence] = NOTHING_MEASURED) -> tuple[PlannedStrategy, ...]:
    """The strategies whose trigger applies: the sweep first, then by expected gain, those that failed before last.

    What earlier jobs measured (``known``, by strategy) corrects what the catalog claims; so does the share of usable variants.
    For a kernel that is yet to be written those are left out that are for an existing kernel alone, and for one in another language
    all that write Triton.
    A model's changes come right behind the sweep or at the very end, whatever they may gain. No gain is promised beyond the floor.
    """
    most = headroom(situation)
    fitting = [s for s in STRATEGIES if situation.stands is Stands.kernel or not s.needs_kernel]
    if situation.language != TRITON:
        fitting = [s for s in fitting if s.id == FIRST]
    claimed = [plan for strategy in fitting if (plan := strategy.plan(situation)) is not None]
    planned = [expected(p, known[p.strategy]) if p.strategy in known else p for p in claimed]
    capped = [replace(p, gain_high=_capped(p.gain_high, most), gain_low=_capped(p.gain_low, most)) for p in planned]
    fruitless = {variant.strategy for variant in situation.earlier if variant.outcome in FRUITLESS}
    in_order = sorted(capped, key=lambda p: (p.strategy != FIRST, p.strategy in fruitless, -_worth(p, known)))
    last = situation.model is ModelTurn.last
    return tuple(sorted(in_order, key=lambda p: (p.strategy != FIRST, p.repeats if last else not p.repeats)))


def _capped(gain: float, most: float) -> float:
    return min(gain, max(1.0, most))


def _worth(planned: PlannedStrategy, known: Mapping[str, Evidence]) -> float:
    expected_log = math.log(planned.gain_low * planned.gain_high) / 2
    share = known[planned.strategy].usable_share if planned.strategy in known else 1.0
    return min(expected_log, expected_log * share)
