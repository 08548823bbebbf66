"""Optimize: variants one after the other until the search says stop, then a comparison of all for a person to decide on."""

from __future__ import annotations

from dataclasses import replace

from gpu_runner.contracts import to_json
from workers.contracts import (
    AssetsUpdate,
    CheckpointUpdate,
    OptimizeSummary,
    Outcome,
    StageName,
    StopReason,
    Variant,
    parse_target,
)
from workers.engine.protocol import StageContext, StageResult
from workers.reports.variants import draw_variants
from workers.stages.choosing import chosen
from workers.stages.headroom import nothing_to_gain, target_met
from workers.stages.situation import Profiled, left_by_profile
from workers.stages.standing import reopen_bench
from workers.stages.suites import json_bytes
from workers.stages.trial import Trials
from workers.strategies.search import SEARCHES, Limits

SEARCH = "greedy"


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
