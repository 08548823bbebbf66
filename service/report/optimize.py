"""The variants of an optimization, the winner, and the report once it is applied. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_runner.contracts import BenchmarkResult, Pass, Status, Word
from service.escape import code, code_block, inline, label, sentence
from service.report.benchmarks import (
    CANDIDATE,
    CONTENDERS,
    ORIGINAL,
    PassResult,
    benchmark_table,
    by_pass,
    change,
    mean_speedup,
    median_us,
    memory_table,
    overall_memory,
    overall_speedup,
)
from service.report.layout import DASH, Links, bullets, counted, folded, paragraphs, pictures, ratio, table, usable
from service.report.profiled import TITLES as PROFILE_TITLES
from service.report.status import pull_link
from service.report.verdicts import (
    STATUS_WORDS,
    attempts_section,
    provenance_line,
    repetition,
    style_section,
    tests_section,
    verdict_section,
    verdict_words,
)
from workers.contracts import (
    Breach,
    FinalizeSummary,
    Goal,
    JobView,
    NewVersion,
    OptimizeSummary,
    Outcome,
    StopReason,
    Variant,
)

OUTCOME_WORDS: dict[Outcome, str] = {
    Outcome.kept: "kept",
    Outcome.proposed: "proposed, not timed",
    Outcome.no_gain: "no gain",
    Outcome.guardrail: "rejected by a guardrail",
    Outcome.incorrect: "wrong",
    Outcome.does_not_apply: "does not apply",
    Outcome.duplicate: "the same code again",
    Outcome.failed: "could not be measured",
    Outcome.unusable: "no usable answer",
}
UNPROVED = "not proved"
STOP_WORDS: dict[StopReason, str] = {
    StopReason.variants_used: "as many variants as were allowed have been tried",
    StopReason.no_progress: "two variants in a row were less than 1% better",
    StopReason.target_met: "the target is met",
    StopReason.floor_reached: "the kernel has reached its floor, so nothing is left to gain",
    StopReason.strategies_used: "every strategy whose trigger holds has been tried",
    StopReason.no_answer: "no model answered, and nothing else was left to try",
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
BY_A_MODEL = "Written by a model: assumption, change and expectation are in its own words."
TITLES = {**CONTENDERS, ORIGINAL: "v0"}


def optimized_verdict(summary: OptimizeSummary, job: JobView) -> str:
    """What the search came to, in one line."""
    kernel, winner = code(job.request.kernel), winner_of(summary)
    tried = counted(len(summary.variants), "variant")
    if winner is None:
        return f"**No variant improves {kernel}:** {tried}, {STOP_WORDS[summary.stop]}."
    gained = f"{code(winner.name)} {gain_words(winner, summary.goal, predicted=summary.predicted)}"
    where = f" on {inline(summary.gpu, 60)}" if summary.gpu and winner.score is not None else ""
    return f"**Of {tried} of {kernel}, {gained}{where}:** {inline(winner.title, 120)}."


def optimized_sections(summary: OptimizeSummary, image_urls: Mapping[str, str]) -> str:
    """The table of all variants, why the search ended, and each variant's notes, folded."""
    predicted = ""
    if summary.predicted:
        gpu = inline(summary.gpu, 60) if summary.gpu else "an unnamed GPU"
        predicted = f"No GPU was available: nothing was timed, and every gain is predicted from the roofline of {gpu}."
    return paragraphs(
        predicted,
        variants_table(summary.variants, summary.winner),
        f"The search ended because {STOP_WORDS[summary.stop]}.",
        pictures(summary.images, image_urls),
        bullets([sentence(note) for note in summary.notes]),
        bullets([sentence(point, 1_200) for point in summary.answered[:MAX_POINTS]]),
        *(variant_notes(variant) for variant in summary.variants[:MAX_VARIANTS]),
    )


def winner_of(summary: OptimizeSummary) -> Variant | None:
    """The variant that would be applied."""
    return next((variant for variant in summary.variants if variant.name == summary.winner), None)


def gain_words(variant: Variant, goal: Goal, *, predicted: bool) -> str:
    """What a variant gains over v0, as the end of a sentence."""
    if variant.score is None:
        return "is proved, and proposed without having been timed" if predicted else "is the best"
    told = GAIN_WORDS[goal].format(score=ratio(variant.score))
    return f"is predicted to be {told}" if predicted else f"is {told}"


def variants_table(variants: tuple[Variant, ...], winner: str | None) -> str:
    """Every variant in a row; columns that nothing was measured of are left out."""
    header = ("variant", "from", "strategy", "outcome", *(item.value for item in Pass), "memory", "score", "why")
    rows = [_row(variant, winner) for variant in variants[:MAX_VARIANTS]]
    used = [i for i in range(len(header)) if i < 4 or any(row[i] not in (DASH, "") for row in rows)]
    numeric = [position for position, i in enumerate(used) if 4 <= i < len(header) - 1]
    return table([header[i] for i in used], [[row[i] for i in used] for row in rows], numeric)


def variant_notes(variant: Variant) -> str:
    """A variant's lab notebook, folded: what was written before it ran, and what was learned."""
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
    """A broken guardrail: what got worse, where, and how much is allowed."""
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
    """A variant with those that it builds on, the first of them first; none for none."""
    known = {variant.name: variant for variant in variants}
    chain: list[Variant] = []
    while winner is not None and winner not in chain:
        chain.insert(0, winner)
        winner = known.get(winner.parent)
    return tuple(chain)


def _outcome(variant: Variant) -> str:
    """What became of a variant; one that the judge cannot evaluate is not called wrong."""
    return UNPROVED if variant.status is Status.unproved else OUTCOME_WORDS[variant.outcome]


APPLIED_TITLES = {**CONTENDERS, CANDIDATE: "after"}


def finalized_verdict(summary: FinalizeSummary, job: JobView) -> str:
    """What came of it in one line."""
    kernel = code(job.request.kernel)
    wrong = finalized_faults(summary)
    if not summary.applied:
        why = sentence(summary.notes[0]).rstrip(".") if summary.notes else _why_not(summary)
        return f"**{kernel} stays as it is:** {why}."
    if wrong:
        return f"**{kernel} cannot be merged as it is:** {'; '.join(wrong)}."
    return f"**{kernel} {_gained(summary.benchmark)}** {_proved(summary)}"


def finalized_after(summary: FinalizeSummary, job: JobView, links: Links) -> str:
    """What a maintainer does next."""
    if not summary.applied:
        closed = f" {pull_link(job, links)} is closed." if job.pull_number is not None else ""
        return f"nothing to merge.{closed} The variants, and what they showed, are below."
    if job.request.read_only:
        return fork_after(job)
    return f"merge {pull_link(job, links)} when you are satisfied. The bot never merges."


def fork_after(job: JobView) -> str:
    """What is done with a change of a fork's branch."""
    ref = code(job.request.base_ref)
    return f"apply the patch below to {ref}, with `git apply`. The branch is a fork's, so nothing was pushed."


def finalized_faults(summary: FinalizeSummary) -> list[str]:
    """What stands against a merge, each as part of a sentence; nothing where all is well or nothing was applied."""
    reasons = []
    if not summary.applied:
        return []
    if summary.verdict is not None and summary.verdict.status is not Status.passed:
        reasons.append(verdict_words(summary.verdict))
    if summary.tests is not None and not summary.tests.passed:
        reasons.append(f"the library's tests fail ({inline(summary.tests.summary, 120)})")
    if summary.style is not None and not summary.style.passed:
        reasons.append("the library's style check fails")
    return [*reasons, *_failed_runs(summary.benchmark)]


def _failed_runs(benchmark: BenchmarkResult | None) -> list[str]:
    """Why it has no time where it was measured, once each: a timed run that is wrong counts as much as a verdict."""
    rows = benchmark.rows if benchmark is not None else ()
    errors = [timing.error for row in rows for timing in row.timings if timing.contender == CANDIDATE and timing.error]
    return [f"it could not be timed on every size ({inline(error, 120)})" for error in dict.fromkeys(errors)]


def finalized_sections(summary: FinalizeSummary, image_urls: Mapping[str, str]) -> str:
    """The report below its verdict: before and after, plots, the diff, what was rejected; the rest folded."""
    titles = APPLIED_TITLES if summary.applied else PROFILE_TITLES
    winner = summary.winner.name if summary.winner is not None else None
    taken = {variant.name for variant in lineage(summary.winner, summary.variants)}
    rejected = [variant for variant in summary.variants if variant.name not in taken]
    notes = summary.notes if summary.applied else summary.notes[1:]
    return paragraphs(
        benchmark_table(summary.benchmark, titles) if summary.benchmark else "",
        pictures(summary.images, image_urls),
        paragraphs(*(new_version(version) for version in summary.versions)),
        bullets([sentence(note) for note in notes]),
        f"The search ended because {STOP_WORDS[summary.stop]}." if summary.stop else "",
        folded("What was changed", code_block(summary.diff, "diff", 16_000) if summary.diff.strip() else ""),
        folded("All variants", variants_table(summary.variants, winner)),
        folded(
            "Variants tried and rejected",
            paragraphs(*(variant_notes(variant) for variant in rejected[:MAX_VARIANTS])),
        ),
        folded("Proof", verdict_section(summary.verdict) if summary.verdict else ""),
        folded("The library's tests", tests_section(summary.tests) if summary.tests else ""),
        folded("The library's benchmark script", tests_section(summary.script) if summary.script else ""),
        folded("Style check", style_section(summary.style) if summary.style else ""),
        folded("Peak memory", memory_table(summary.benchmark, titles) if summary.benchmark else ""),
        provenance_line(summary.provenance),
        repetition(summary.reproduce),
    )


def new_version(version: NewVersion) -> str:
    """A version that is new in the repository: what was applied, its files, and that it passed everything."""
    kernel, _, number = version.name.rpartition("_")
    created, modified = (", ".join(map(code, paths)) or "none" for paths in (version.created, version.modified))
    return paragraphs(
        f"## New Version: {inline(kernel, 60)} {number}",
        "### Changes Applied\n" + "\n".join(f"{n}. {sentence(text)}" for n, text in enumerate(version.applied, 1)),
        f"### Files\n- Created: {created}\n- Modified: {modified}",
        "### Correctness: PASS",
        f"### Devlog Entry Written: {code(version.log) if version.log else 'none'}",
    )


def passes_words(results: tuple[PassResult, ...]) -> str:
    """Each pass with its mean, such as "forward 1.10×, backward 1.61×"."""
    lines = [f"{result.timed_pass.value} {ratio(result.speedup)}" for result in results if result.speedup is not None]
    return ", ".join(lines)


def _why_not(summary: FinalizeSummary) -> str:
    if summary.winner is None and not any(variant.accepted for variant in summary.variants):
        return "nothing that was tried is better"
    return "the variant that won did not pass the library's own checks"


def _gained(benchmark: BenchmarkResult | None) -> str:
    if benchmark is None or benchmark.predicted:
        where = inline(benchmark.gpu, 60) if benchmark is not None and benchmark.gpu else "a GPU"
        return f"is changed; its speed is only predicted for {where}, since nothing was timed."
    mean = overall_speedup(benchmark.rows)
    if mean is None:
        return "is changed, but could not be compared with the previous kernel."
    slower = sum(result.count(Word.slower) for result in by_pass(benchmark.rows))
    memory = overall_memory(benchmark.rows)
    text = f"is {ratio(mean)} as fast as before on {inline(benchmark.gpu or 'the GPU', 60)}"
    text += f", peak memory {change(memory)}" if memory is not None else ""
    return f"{text}; slower on {counted(slower, 'measurement')}." if slower else f"{text}."


def _proved(summary: FinalizeSummary) -> str:
    interpreted = summary.verdict is not None and summary.verdict.interpreted
    text = "Its values and gradients are proved" + (" in Triton's interpreter" if interpreted else "")
    text += ", and the library's tests pass." if summary.tests is not None else "."
    passes = (
        passes_words(by_pass(summary.benchmark.rows)) if summary.benchmark and not summary.benchmark.predicted else ""
    )
    return f"{text} By pass: {passes}." if passes else text
