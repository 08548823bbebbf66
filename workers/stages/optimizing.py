"""Optimize: variants one after the other until the search says stop, then a comparison of all for a person to decide on."""

from __future__ import annotations

from dataclasses import replace

from gpu_runner.contracts import to_json
from workers.contracts import (
    AssetsUpdate,
    AuthorName,
    CheckpointUpdate,
    Failure,
    OptimizeSummary,
    Outcome,
    PlannedStrategy,
    StageName,
    StopReason,
    UserFacingError,
    Variant,
)
from workers.engine.protocol import StageContext, StageResult
from workers.reports.variants import draw_variants
from workers.stages.authoring.attempts import Book
from workers.stages.authoring.remarks import HEARD
from workers.stages.authoring.writing import reads_words
from workers.stages.choosing import chosen
from workers.stages.headroom import nothing_to_gain, target_met
from workers.stages.modelled import ModelAuthor, Start
from workers.stages.profiling import asks
from workers.stages.reviewing import MADE, Found, reviewed
from workers.stages.situation import Profiled, left_by_profile
from workers.stages.standing import aim_of, reopen_bench
from workers.stages.suites import json_bytes
from workers.stages.trial import Trials
from workers.stages.workbench import own_result
from workers.strategies.search import SEARCHES, Limits, in_regime

SEARCH = "greedy"
# A search that ends so would have gone on with a model's changes.
WITHOUT_A_MODEL = (StopReason.strategies_used, StopReason.no_progress)


class Optimize:
    """The second stage of ``optimize``."""

    name = StageName.optimize

    def run(self, context: StageContext) -> StageResult:
        """Give all variants that were tried, and the one that would be applied."""
        bench, known = reopen_bench(context), left_by_profile(context)
        book = Book(context, self.name)
        author = ModelAuthor(Trials(context, bench, known), book)
        earlier = own_result(context, self.name)
        if earlier is not None:
            found = reviewed(context, author, earlier)
        elif known.nothing_to_gain:
            found = Found((), StopReason.floor_reached)
        else:
            found = _searched(context, author, book)
        reads = bool(found.variants) and reads_words(context)
        winner, said = chosen(found.variants, context.feedback, found.made if reads else None)
        options, measured = context.request.options, known.benchmark
        images = draw_variants(context, bench.standing.name, found.variants)
        summary = OptimizeSummary(
            found.variants,
            winner,
            found.stop,
            SEARCH,
            options.goal,
            options.scope,
            measured.predicted,
            measured.gpu,
            images,
            (*said, *found.notes),
            found.answered,
            reads,
        )
        context.artifact("variants.json", json_bytes(summary), "application/json")
        asked = CheckpointUpdate(self.name, context.attempt, summary, asks(context))
        updates = () if known.nothing_to_gain else (AssetsUpdate(images), asked)
        output = {"summary": to_json(summary), HEARD: len(context.feedback), MADE: dict(found.made)}
        return StageResult(output, updates, checkpoint=winner is not None)


def _searched(context: StageContext, author: ModelAuthor, book: Book) -> Found:
    """Give the variants of a search.

    Raises:
        UserFacingError: the GPU host failed; or a model was wanted, none answers, and nothing that was tried is better.
    """
    variants, stop = _search(context, author)
    silence = author.silence
    if silence is None:
        return Found(variants, stop)
    if context.request.options.author is AuthorName.llm and not any(v.outcome is Outcome.kept for v in variants):
        # What was measured and answered is kept, so that a retry is nearer than a report of nothing.
        message = f"no model could be asked for what was wanted of it, and nothing else is better: {silence.sentence}"
        raise UserFacingError(Failure(silence.code, message, silence.cure, attempts=book.sentences()))
    return Found(variants, StopReason.no_answer if stop in WITHOUT_A_MODEL else stop, (silence.note(),))


def _search(context: StageContext, author: ModelAuthor) -> tuple[tuple[Variant, ...], StopReason]:
    options, known = context.request.options, author.trials.known
    target = aim_of(author.trials.bench.problem, options).target
    variants: list[Variant] = []
    while True:
        strategies = _open(known, author, variants)
        step = SEARCHES[SEARCH].next(tuple(variants), strategies, Limits(options.variants))
        if isinstance(step, StopReason):
            return tuple(variants), step
        by_name = {variant.name: variant for variant in variants}
        planned = next(item for item in strategies if item.strategy == step.strategy)
        variant = _tried(author, Start(len(variants) + 1, planned, by_name.get(step.parent), tuple(variants)))
        if variant is None:
            continue
        variants.append(variant)
        if variant.outcome is not Outcome.kept:
            continue
        if target is not None and target_met(variant.rows, target):
            return tuple(variants), StopReason.target_met
        if nothing_to_gain_with(variant, author.trials, context):
            return tuple(variants), StopReason.floor_reached


def _open(known: Profiled, author: ModelAuthor, variants: list[Variant]) -> tuple[PlannedStrategy, ...]:
    """Leave out a model's changes where none answers, and after one where nothing is timed: no other could be told from it."""
    tried = {variant.strategy for variant in variants}
    shut = author.silence is not None
    return tuple(
        planned
        for planned in known.strategies
        if not planned.repeats or not (shut or (known.benchmark.predicted and planned.strategy in tried))
    )


def _tried(author: ModelAuthor, start: Start) -> Variant | None:
    if not start.planned.repeats:
        return author.trials.run(start.number, start.planned, start.parent, start.earlier)
    made = author.write(start)
    return None if made is None else made.variant


def nothing_to_gain_with(variant: Variant, trials: Trials, context: StageContext) -> bool:
    """Tell whether a variant is at the floor, at the sizes that the command aims at."""
    options = context.request.options
    rows = in_regime(variant.rows, aim_of(trials.bench.problem, options).regime)
    return nothing_to_gain(replace(trials.known.benchmark, rows=rows), options.scope)
