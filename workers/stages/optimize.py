"""Optimize: variants one after the other until the search says stop, then a comparison of all for a person to decide on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_runner.contracts import from_json, to_json
from workers.authors.protocol import Feedback
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
from workers.stages.bench import Profiled, aim_of, keep_json, own_result, reopen_optimize
from workers.stages.briefs import HEARD, answered, remarks_of
from workers.stages.gains import keep_trials
from workers.stages.headroom import nothing_to_gain, target_met
from workers.stages.profiling import asks
from workers.stages.search import AttemptLog
from workers.stages.variants import ModelAuthor, VariantStart, VariantTrials
from workers.strategies.search import SearchLimits, in_regime, next_step

NAMED = re.compile(r"\bv(\d{1,2})\b", re.IGNORECASE)
CHOSEN = re.compile(r"\b(?:use|take|apply|choose|pick|prefer)\s+(?:variant\s+)?[`*\"']*v(\d{1,2})\b", re.IGNORECASE)
DENIED = re.compile(
    r"(?:\bnot|n['\u2019]t|\bnever|\bwithout|\binstead of|\brather than)\s+(?:\w+\s+)?[`*\"']*v\d{1,2}\b", re.IGNORECASE
)
APPLICABLE = (Outcome.kept, Outcome.proposed, Outcome.no_gain)
WORDS_OF_A_CHOICE = 4  # such as "V02 it is"
WORDS_ALONE = (
    "The review named no variant; without a model author a choice among the variants (such as `use v2`) is all that can be "
    "acted on, so the comparison is unchanged."
)


def chosen(
    variants: Sequence[Variant], feedback: Sequence[Feedback], made: Mapping[str, str] | None = None
) -> tuple[str | None, tuple[str, ...]]:
    """The winner, which is the last wish of the reviews that can be met, and what to say of the last review.

    ``made`` are the variants that a model made for a review, by the place of the review's last point; None where no model reads
    words.
    """
    winner, notes = best_of(variants), tuple[str, ...]()
    known = {variant.name: variant for variant in variants}
    asked_for = set() if made is None else set(made.values())
    if asked_for:  # they are better than what they were made from, which need not be the best of all
        winner = best_of([variant for variant in variants if variant.name not in asked_for])
    for place, review in enumerate(feedback):
        name = choice_in(review.text) if made is None or is_choice(review) else None
        new = None if made is None else made.get(str(place))
        if name is not None and name in known and known[name].outcome in APPLICABLE:
            winner, notes = name, (f"{name} was chosen by the review.",)
        elif name is not None:
            notes = (_refused(name, known.get(name), variants),)
        elif made is None:
            notes = (WORDS_ALONE,)
        if new is not None and new in known:
            kept = known[new].accepted
            notes = (f"{new} was made for the review.",) if kept else (_unkept(known[new], winner),)
            winner = new if kept else winner
    return winner, notes


def is_choice(point: Feedback) -> bool:
    """Whether a point of a review only chooses a variant, so that a model has nothing to do about it."""
    if point.path is not None or choice_in(point.text) is None:
        return False
    return CHOSEN.search(point.text) is not None or len(point.text.split()) <= WORDS_OF_A_CHOICE


def best_of(variants: Sequence[Variant]) -> str | None:
    """The accepted variant with the best score; where nothing was timed, the last that was proposed."""
    kept = [variant for variant in variants if variant.accepted]
    if not kept:
        return None
    return max(enumerate(kept), key=lambda item: (item[1].score or 0.0, item[0]))[1].name


def choice_in(text: str) -> str | None:
    """The one variant that a text asks for; None where it names none, or several of which none is chosen."""
    wanted = DENIED.sub(" ", text)
    for pattern in (CHOSEN, NAMED):
        numbers = {int(number) for number in pattern.findall(wanted)}
        if numbers:
            return f"v{numbers.pop()}" if len(numbers) == 1 else None
    return None


def _unkept(variant: Variant, winner: str | None) -> str:
    stays = f"{winner} stays the one to apply" if winner else "what stands stays"
    return f"{variant.name} was made for the review and is not kept, its outcome is {variant.outcome.value}: {stays}."


def _refused(name: str, variant: Variant | None, variants: Sequence[Variant]) -> str:
    why = "was not tried" if variant is None else f"may not be applied: its outcome is {variant.outcome.value}"
    able = ", ".join(v.name for v in variants if v.outcome in APPLICABLE) or "none"
    return f"{name} {why}, so the comparison is unchanged. Variants that may be applied: {able}."


MADE = "made"  # in the stage's output: the place of a review's last point, and the variant that was made for it


@dataclass(frozen=True)
class Searched:
    """All variants of a job so far, with its notes. ``made`` names those made for a review."""

    variants: tuple[Variant, ...]
    stop: StopReason
    notes: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()
    made: Mapping[str, str] = field(default_factory=dict)


def reviewed(author: ModelAuthor, earlier: dict[str, Any]) -> Searched:
    """The variants of an earlier attempt, and one more where a model may be asked and the new review is more than a choice.

    Raises:
        UserFacingError: the GPU host failed.
    """
    context = author.trials.context
    before = from_json(OptimizeSummary, earlier["summary"])
    made = {str(place): str(name) for place, name in earlier.get(MADE, {}).items()}
    kept = Searched(before.variants, before.stop, made=made)
    known = int(earlier.get(HEARD, 0))
    points = [point for point in context.feedback[known:] if point.text.strip() and not is_choice(point)]
    if not points or not author.trials.bench.asks_models():
        return kept
    return _made(author, kept, points)


def _made(author: ModelAuthor, kept: Searched, points: list[Feedback]) -> Searched:
    trials, variants = author.trials, kept.variants
    context = trials.context
    winner, _ = chosen(variants, context.feedback, kept.made)
    parent = next((variant for variant in variants if variant.name == winner), None)
    branch = trials.bench.tree
    if parent is not None:
        branch = branch.overlaid(trials.bench.change(trials.text_of(parent)))
    remarks = remarks_of(points, branch)
    start = VariantStart(len(variants) + 1, author.planned(), parent, variants, remarks)
    searched = author.write(start)
    notes = () if author.silence is None else (author.silence.note(),)
    if searched is None:
        return Searched(variants, kept.stop, notes, answered(remarks, ()), kept.made)
    made = dict(kept.made) | {str(len(context.feedback) - 1): searched.variant.name}
    variants = (*variants, searched.variant)
    return Searched(variants, kept.stop, notes, answered(remarks, searched.replies), made)


# A search that ends so would have gone on with a model's changes.
WITHOUT_A_MODEL = (StopReason.strategies_used, StopReason.no_progress)


class Optimize:
    """The second stage of ``optimize``."""

    name = StageName.optimize

    def run(self, context: StageContext) -> StageResult:
        """All variants that were tried, and the one that would be applied."""
        bench, known = reopen_optimize(context)
        log = AttemptLog(context, self.name)
        author = ModelAuthor(VariantTrials(bench, known), log)
        earlier = own_result(context, self.name)
        if earlier is not None:
            searched = reviewed(author, earlier)
        elif known.nothing_to_gain:
            searched = Searched((), StopReason.floor_reached)
        else:
            searched = _searched(author, log)
        reads = bool(searched.variants) and bench.asks_models()
        winner, choice_notes = chosen(searched.variants, context.feedback, searched.made if reads else None)
        options, measured = context.request.options, known.benchmark
        images = draw_variants(context, bench.kernel.name, searched.variants)
        summary = OptimizeSummary(
            searched.variants,
            winner,
            searched.stop,
            options.goal,
            options.scope,
            measured.predicted,
            measured.gpu,
            images,
            (*choice_notes, *searched.notes),
            searched.answered,
            reads,
        )
        keep_json(context, "variants.json", summary)
        keep_trials(context, bench.kernel.name, measured, searched.variants)
        asked = CheckpointUpdate(self.name, context.attempt, summary, asks(context))
        updates = () if known.nothing_to_gain else (AssetsUpdate(images), asked)
        output = {"summary": to_json(summary), HEARD: len(context.feedback), MADE: dict(searched.made)}
        return StageResult(output, updates, checkpoint=winner is not None)


def _searched(author: ModelAuthor, log: AttemptLog) -> Searched:
    """The variants of a search.

    Raises:
        UserFacingError: the GPU host failed; or a model was wanted, none answers, and nothing that was tried is better.
    """
    context = author.trials.context
    variants, stop = _search(author)
    silence = author.silence
    if silence is None:
        return Searched(variants, stop)
    if context.request.options.author is AuthorName.llm and not any(v.accepted for v in variants):
        # What was measured and answered is kept, so that a retry is nearer than a report of nothing.
        message = f"no model could be asked for what was wanted of it, and nothing else is better: {silence.sentence}"
        raise UserFacingError(Failure(silence.code, message, silence.fix, attempts=log.sentences()))
    return Searched(variants, StopReason.no_answer if stop in WITHOUT_A_MODEL else stop, (silence.note(),))


def _search(author: ModelAuthor) -> tuple[tuple[Variant, ...], StopReason]:
    trials = author.trials
    options, known = trials.context.request.options, trials.known
    target = aim_of(trials.bench.problem, options).target
    variants: list[Variant] = []
    while True:
        strategies = _open(known, author, variants)
        step = next_step(tuple(variants), strategies, SearchLimits(options.variants))
        if isinstance(step, StopReason):
            return tuple(variants), step
        by_name = {variant.name: variant for variant in variants}
        planned = next(item for item in strategies if item.strategy == step.strategy)
        variant = _tried(author, VariantStart(len(variants) + 1, planned, by_name.get(step.parent), tuple(variants)))
        if variant is None:
            continue
        variants.append(variant)
        if not variant.accepted:
            continue
        if target is not None and target_met(variant.rows, target):
            return tuple(variants), StopReason.target_met
        if _at_the_floor(variant, trials):
            return tuple(variants), StopReason.floor_reached


def _open(known: Profiled, author: ModelAuthor, variants: list[Variant]) -> tuple[PlannedStrategy, ...]:
    """Without a model's changes where none answers, and after one where nothing is timed: no other could be told from it."""
    tried = {variant.strategy for variant in variants}
    shut = author.silence is not None
    return tuple(
        planned
        for planned in known.strategies
        if not planned.repeats or not (shut or (known.benchmark.predicted and planned.strategy in tried))
    )


def _tried(author: ModelAuthor, start: VariantStart) -> Variant | None:
    if not start.planned.repeats:
        return author.trials.run(start.number, start.planned, start.parent, start.earlier)
    made = author.write(start)
    return None if made is None else made.variant


def _at_the_floor(variant: Variant, trials: VariantTrials) -> bool:
    """Whether a variant is at the floor, at the sizes that the command aims at."""
    options = trials.context.request.options
    rows = in_regime(variant.rows, aim_of(trials.bench.problem, options).regime)
    return nothing_to_gain(replace(trials.known.benchmark, rows=rows), options.scope)
