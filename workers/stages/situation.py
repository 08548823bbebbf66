"""What the profile stage found out, as later stages read it, and the situation that strategies decide by."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpu_runner.contracts import BenchmarkResult, ProfileResult, Verdict, from_json
from workers.authors.table import author_named
from workers.contracts import (
    AuthorName,
    ModelReading,
    PlannedStrategy,
    SourceReading,
    StageName,
    UserFacingError,
    Variant,
    Verb,
)
from workers.engine.protocol import StageContext
from workers.engine.questions import NO_MODEL
from workers.stages.authoring.writing import has_models
from workers.stages.standing import Bench, aim_of
from workers.strategies.protocol import ModelTurn, Situation
from workers.strategies.search import in_regime

WITHOUT_A_MODEL = (Verb.tune, Verb.profile)  # they measure, and write nothing that a sweep does not


@dataclass(frozen=True)
class Profiled:
    """What is known of v0. ``strategies`` are in the order in which they will be tried."""

    reading: SourceReading
    verdict: Verdict
    benchmark: BenchmarkResult
    profile: ProfileResult
    strategies: tuple[PlannedStrategy, ...] = ()
    nothing_to_gain: bool = False
    diagnosis: ModelReading | None = None


def left_by_profile(context: StageContext) -> Profiled:
    """Give what the profile stage left."""
    left = context.result_of(StageName.profile)
    return Profiled(
        from_json(SourceReading, left["reading"]),
        from_json(Verdict, left["verdict"]),
        from_json(BenchmarkResult, left["benchmark"]),
        from_json(ProfileResult, left["profile"]),
        tuple(from_json(PlannedStrategy, item) for item in left["strategies"]),
        bool(left["nothing_to_gain"]),
        None if left.get("diagnosis") is None else from_json(ModelReading, left["diagnosis"]),
    )


def turn_of(context: StageContext) -> ModelTurn:
    """Give when a model's changes come, the same in every run of the attempt.

    Raises:
        UserFacingError: a model is wanted and none is configured.
    """
    wanted = context.request.options.author
    if context.request.verb in WITHOUT_A_MODEL:
        return ModelTurn.never
    if wanted is AuthorName.compiler:
        return ModelTurn.never
    if has_models(context):
        return ModelTurn.first if wanted is AuthorName.llm else ModelTurn.last
    if wanted is AuthorName.llm:
        raise UserFacingError(NO_MODEL)
    return ModelTurn.never


def situation_of(
    context: StageContext,
    bench: Bench,
    known: Profiled,
    source: str | None = None,
    earlier: tuple[Variant, ...] = (),
    model: ModelTurn = ModelTurn.never,
) -> Situation:
    """Give the situation before a variant; ``source`` is the text of its parent's file, None for v0's."""
    options = context.request.options
    aimed_at = in_regime(known.benchmark.rows, aim_of(bench.problem, options).regime)
    return Situation(
        standing=bench.standing,
        problem=bench.problem,
        graph=bench.graph,
        source=bench.original if source is None else source,
        original=bench.original,
        reading=known.reading,
        benchmark=replace(known.benchmark, rows=aimed_at),
        bounds=known.profile.bounds,
        goal=options.goal,
        scope=options.scope,
        overwrites=known.verdict.overwrites,
        tree=bench.tree,
        style=bench.layout.section_style(bench.standing, bench.tree),
        author=author_named(AuthorName.compiler),
        earlier=earlier,
        model=model,
    )
