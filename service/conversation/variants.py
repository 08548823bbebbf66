"""What a reviewer decides on after the search: every variant beside the others, and the one that would be applied. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_runner.contracts import BenchmarkResult, Pass, Status
from service.conversation.attempts import attempts_section
from service.conversation.benchmark_table import CONTENDERS, benchmark_table
from service.conversation.comparisons import CANDIDATE, ORIGINAL, change, mean_speedup, median_us, overall_memory
from service.conversation.links import pictures
from service.conversation.markdown import bullets, folded, paragraphs, table
from service.conversation.quantities import DASH, counted, ratio, usable
from service.conversation.verdicts import STATUS_WORDS
from service.escape import code, inline, label, sentence
from workers.contracts import (
    Breach,
    Goal,
    JobView,
    OptimizeSummary,
    Outcome,
    StopReason,
    Variant,
)

OUTCOME_WORDS: dict[Outcome, str] = {
    Outcome.kept: "kept",
    Outcome.no_gain: "no gain",
    Outcome.guardrail: "rejected by a guardrail",
    Outcome.incorrect: "wrong",
    Outcome.does_not_apply: "does not apply",
    Outcome.duplicate: "the same code again",
    Outcome.failed: "could not be measured",
    Outcome.unusable: "no usable answer",
}
UNPROVED = "not proved"
PROPOSED = "proposed, not timed"
STOP_WORDS: dict[StopReason, str] = {
    StopReason.variants_used: "as many variants as were allowed have been tried",
    StopReason.no_progress: "two variants in a row were less than 1% better",
    StopReason.target_met: "the target is met",
    StopReason.floor_reached: "the kernel has reached its floor, so nothing is left to gain",
    StopReason.strategies_used: "every strategy whose trigger holds has been tried",
    StopReason.no_answer: "no model answered any more, and nothing else was left to try",
    StopReason.cancelled: "it was cancelled",
}
GAIN_WORDS: dict[Goal, str] = {
    Goal.speed: "{score} as fast as v0",
    Goal.memory: "{score} as small as v0 in peak memory",
    Goal.balanced: "{score} as good as v0, by speed and memory together",
}
MAX_VARIANTS = 40
MAX_BREACHES = 4
MAX_POINTS = 64
WRITTEN = " (written by a model)"
BY_A_MODEL = "Written by a model: what is supposed, changed and expected are its own words."
TITLES = {**CONTENDERS, ORIGINAL: "v0"}


def optimized_verdict(summary: OptimizeSummary, job: JobView) -> str:
    """Give what the search came to, in one line."""
    kernel, winner = code(job.request.kernel), winner_of(summary)
    tried = counted(len(summary.variants), "variant")
    if winner is None:
        return f"**Nothing that was tried makes {kernel} better than it is:** {tried}, {STOP_WORDS[summary.stop]}."
    gained = f"{code(winner.name)} {gain_words(winner, summary.goal, predicted=summary.predicted)}"
    where = f" on {inline(summary.gpu, 60)}" if summary.gpu and winner.score is not None else ""
    return f"**Of {tried} of {kernel}, {gained}{where}:** {inline(winner.title, 120)}."


def optimized_sections(summary: OptimizeSummary, image_urls: Mapping[str, str]) -> str:
    """Give the table of all variants, why the search ended, and each variant's notes, folded."""
    predicted = ""
    if summary.predicted:
        gpu = inline(summary.gpu, 60) if summary.gpu else "an unnamed GPU"
        predicted = (
            f"No GPU was there: nothing was timed, and every gain is only predicted, from the roofline of {gpu}."
        )
    return paragraphs(
        predicted,
        variants_table(summary.variants, summary.winner),
        f"The search ({inline(summary.search, 40)}) ended because {STOP_WORDS[summary.stop]}.",
        pictures(summary.images, image_urls),
        bullets([sentence(note) for note in summary.notes]),
        bullets([sentence(point, 1_200) for point in summary.answered[:MAX_POINTS]]),
        *(variant_notes(variant) for variant in summary.variants[:MAX_VARIANTS]),
    )


def winner_of(summary: OptimizeSummary) -> Variant | None:
    """Give the variant that would be applied."""
    return next((variant for variant in summary.variants if variant.name == summary.winner), None)


def gain_words(variant: Variant, goal: Goal, *, predicted: bool) -> str:
    """Give what a variant gains over v0, as the end of a sentence."""
    if variant.score is None:
        return "is proved, and proposed without having been timed" if predicted else "is the best"
    told = GAIN_WORDS[goal].format(score=ratio(variant.score))
    return f"is predicted to be {told}" if predicted else f"is {told}"


def variants_table(variants: tuple[Variant, ...], winner: str | None) -> str:
    """Give every variant in a row; columns that nothing was measured of are left out."""
    header = ("variant", "from", "strategy", "outcome", *(item.value for item in Pass), "memory", "score", "why")
    rows = [_row(variant, winner) for variant in variants[:MAX_VARIANTS]]
    used = [i for i in range(len(header)) if i < 4 or any(row[i] not in (DASH, "") for row in rows)]
    numeric = [position for position, i in enumerate(used) if 4 <= i < len(header) - 1]
    return table([header[i] for i in used], [[row[i] for i in used] for row in rows], numeric)


def variant_notes(variant: Variant) -> str:
    """Give a variant's lab notebook, folded: what was written before it ran, and what was learned."""
    notes = variant.notes
    settings = ", ".join(code(f"{name}: {value}", 80) for name, value in variant.settings[:20])
    status = f"Verdict: {STATUS_WORDS[variant.status]}." if variant.status is not None else ""
    points = [
        f"**Hypothesis**: {sentence(notes.hypothesis)}",
        f"**Change**: {sentence(notes.change)}" if notes.change.strip() else "",
        f"**Expected**: {sentence(notes.expected)}",
        f"**Learned**: {sentence(notes.learnings)}" if notes.learnings.strip() else "",
    ]
    title = f"{label(variant.name, 20)}: {label(variant.title, 100)}, {_outcome(variant)}"
    body = paragraphs(
        BY_A_MODEL if variant.attempts else "",
        bullets([point for point in points if point]),
        f"Settings: {settings}" if settings else "",
        status,
        bullets([breach_words(breach) for breach in variant.breaches[:MAX_BREACHES]]),
        _rows_table(variant),
        attempts_section(variant.attempts) if variant.attempts else "",
    )
    return folded(title, body)


def breach_words(breach: Breach) -> str:
    """Give a broken guardrail: what got worse, where, and how much is allowed."""
    return (
        f"{inline(breach.metric, 40)} of {breach.timed_pass.value} at {code(breach.workload, 80)} is {change(breach.ratio)}, "
        f"and {change(breach.allowed)} is allowed"
    )


def _row(variant: Variant, winner: str | None) -> list[str]:
    name = f"**{inline(variant.name, 20)}**" if variant.name == winner else inline(variant.name, 20)
    means = [ratio(mean_speedup(row for row in variant.rows if row.timed_pass is item)) for item in Pass]
    why = breach_words(variant.breaches[0]) if variant.breaches else ""
    if variant.reason:
        why = sentence(variant.reason, 200)
    return [
        name,
        inline(variant.parent, 20),
        f"{inline(variant.title, 80)}{WRITTEN if variant.attempts else ''}",
        _outcome(variant),
        *means,
        change(overall_memory(variant.rows)),
        ratio(variant.score),
        why,
    ]


def _rows_table(variant: Variant) -> str:
    timed = tuple(row for row in variant.rows if usable(median_us(row, CANDIDATE)))
    titles = {**TITLES, CANDIDATE: inline(variant.name, 20)}
    # Without a GPU every variant has the same floor, which the profile has told already.
    return benchmark_table(BenchmarkResult(timed, False, None, None), titles, conditions=False) if timed else ""


def lineage(winner: Variant | None, variants: Sequence[Variant]) -> tuple[Variant, ...]:
    """Give a variant with those that it builds on, the first of them first; none for none."""
    known = {variant.name: variant for variant in variants}
    found: list[Variant] = []
    while winner is not None and winner not in found:
        found.insert(0, winner)
        winner = known.get(winner.parent)
    return tuple(found)


def _outcome(variant: Variant) -> str:
    """What became of a variant; one that the judge cannot evaluate is not called wrong."""
    if variant.outcome is Outcome.kept and variant.score is None:
        return PROPOSED  # without a GPU nothing is known to be better, so nothing is kept
    return UNPROVED if variant.status is Status.unproved else OUTCOME_WORDS[variant.outcome]
