"""Optimize: variants one after the other until the search says stop, then a comparison of all for a person to decide on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from gpu_runner.contracts import to_json
from workers.authors.protocol import Feedback
from workers.contracts import (
    AssetsUpdate,
    CheckpointUpdate,
    Failure,
    FailureCode,
    OptimizeSummary,
    Outcome,
    StageName,
    StopReason,
    UserFacingError,
    Variant,
    parse_target,
)
from workers.engine.protocol import StageContext, StageResult
from workers.reports.variants import draw_variants
from workers.stages.headroom import nothing_to_gain, target_met
from workers.stages.situation import Profiled, left_by_profile
from workers.stages.standing import reopen_bench
from workers.stages.suites import json_bytes
from workers.stages.trial import Trials
from workers.strategies.search import SEARCHES, Limits

SEARCH = "greedy"
NAMED = re.compile(r"\bv(\d{1,2})\b", re.IGNORECASE)
WORDS_ALONE = (
    "The review named no variant; without a model author a choice among the variants (such as `use v2`) is all that can be "
    "acted on, so the comparison is unchanged."
)


class Optimize:
    """The second stage of ``optimize``."""

    name = StageName.optimize

    def run(self, context: StageContext) -> StageResult:
        """Give all variants that were tried, and the one that would be applied."""
        bench, known = reopen_bench(context), left_by_profile(context)
        trials = Trials(context, bench, known)
        variants, stop = ((), StopReason.floor_reached) if known.nothing_to_gain else _search(context, trials, known)
        winner, notes = chosen(variants, context.feedback)
        options, measured = context.request.options, known.benchmark
        images = draw_variants(context, bench.standing.name, variants)
        summary = OptimizeSummary(
            variants,
            winner,
            stop,
            SEARCH,
            options.goal,
            options.scope,
            measured.predicted,
            measured.gpu,
            images,
            notes,
        )
        context.artifact("variants.json", json_bytes(summary), "application/json")
        asked = CheckpointUpdate(self.name, context.attempt, summary, not options.auto)
        updates = () if known.nothing_to_gain else (AssetsUpdate(images), asked)
        return StageResult({"summary": to_json(summary)}, updates, checkpoint=winner is not None)


def chosen(variants: Sequence[Variant], feedback: Sequence[Feedback]) -> tuple[str | None, tuple[str, ...]]:
    """Give the winner: the variant that the last review named, or the best of those that were kept; and what to say of it.

    Raises:
        UserFacingError: the review named a variant that may not be applied.
    """
    best = best_of(variants)
    if not feedback:
        return best, ()
    named = NAMED.findall(feedback[-1].text)
    if not named:
        return best, (WORDS_ALONE,)
    name = f"v{int(named[-1])}"
    wanted = next((v for v in variants if v.name == name), None)
    if wanted is None or wanted.outcome not in (Outcome.kept, Outcome.no_gain):
        why = "was not tried" if wanted is None else f"may not be applied: its outcome is {wanted.outcome.value}"
        able = ", ".join(v.name for v in variants if v.outcome is Outcome.kept) or "none"
        failure = Failure(FailureCode.refused, f"{name} {why}", f"Variants that may be applied: {able}.")
        raise UserFacingError(failure)
    return name, (f"{name} was chosen by the review.",)


def best_of(variants: Sequence[Variant]) -> str | None:
    """Give the kept variant with the best score; where nothing was timed, the last that was kept."""
    kept = [variant for variant in variants if variant.outcome is Outcome.kept]
    if not kept:
        return None
    return max(enumerate(kept), key=lambda item: (item[1].score or 0.0, item[0]))[1].name


def _search(context: StageContext, trials: Trials, known: Profiled) -> tuple[tuple[Variant, ...], StopReason]:
    options = context.request.options
    target = parse_target(options.target) if options.target else None
    variants: list[Variant] = []
    while True:
        step = SEARCHES[SEARCH].next(tuple(variants), known.strategies, Limits(options.variants))
        if isinstance(step, StopReason):
            return tuple(variants), step
        by_name = {variant.name: variant for variant in variants}
        planned = next(item for item in known.strategies if item.strategy == step.strategy)
        variant = trials.run(len(variants) + 1, planned, by_name.get(step.parent), tuple(variants))
        variants.append(variant)
        if variant.outcome is not Outcome.kept:
            continue
        if target is not None and target_met(variant.rows, target):
            return tuple(variants), StopReason.target_met
        if nothing_to_gain_with(variant, known, context):
            return tuple(variants), StopReason.floor_reached


def nothing_to_gain_with(variant: Variant, known: Profiled, context: StageContext) -> bool:
    """Tell whether a variant is at the floor."""
    return nothing_to_gain(replace(known.benchmark, rows=variant.rows), context.request.options.scope)
