"""The report of an optimize job: what was applied, and what it changed; or why what stood before stands again. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_runner.contracts import BenchmarkResult, Status, Word
from service.conversation.benchmark_table import CONTENDERS, benchmark_table, memory_table
from service.conversation.comparisons import CANDIDATE, PassResult, by_pass, change, overall_memory, overall_speedup
from service.conversation.links import Links, pictures
from service.conversation.markdown import bullets, folded, paragraphs
from service.conversation.profiled import TITLES as PROFILE_TITLES
from service.conversation.quantities import counted, ratio
from service.conversation.status import pull_link
from service.conversation.validated import provenance_line, repetition, style_section, tests_section
from service.conversation.variants import STOP_WORDS, lineage, variant_notes, variants_table
from service.conversation.verdicts import verdict_section, verdict_words
from service.escape import code, code_block, inline, sentence
from workers.contracts import FinalizeSummary, JobView, Outcome

TITLES = {**CONTENDERS, CANDIDATE: "after"}
MAX_VARIANTS = 40


def finalized_verdict(summary: FinalizeSummary, job: JobView) -> str:
    """Give what came of it in one line."""
    kernel = code(job.request.kernel)
    wrong = finalized_faults(summary)
    if not summary.applied:
        why = sentence(summary.notes[0]).rstrip(".") if summary.notes else _why_not(summary)
        return f"**{kernel} stays as it is:** {why}."
    if wrong:
        return f"**{kernel} cannot be merged as it is:** {'; '.join(wrong)}."
    return f"**{kernel} {_gained(summary.benchmark)}** {_proved(summary)}"


def finalized_after(summary: FinalizeSummary, job: JobView, links: Links) -> str:
    """Give what a maintainer does next."""
    if not summary.applied:
        closed = f" {pull_link(job, links)} is closed." if job.pull_number is not None else ""
        return f"nothing to merge.{closed} What was tried, and what was learned from it, stands below."
    if job.request.read_only:
        return fork_after(job)
    return f"merge {pull_link(job, links)} when you are content. The bot never merges."


def fork_after(job: JobView) -> str:
    """Give what is done with a change of a fork's branch."""
    ref = code(job.request.base_ref)
    return f"apply the patch below to {ref}, with `git apply`. The branch is a fork's, so nothing was pushed."


def finalized_faults(summary: FinalizeSummary) -> list[str]:
    """Give what stands against a merge, each as part of a sentence; nothing where all is well or nothing was applied."""
    found = []
    if not summary.applied:
        return []
    if summary.verdict is not None and summary.verdict.status is not Status.passed:
        found.append(verdict_words(summary.verdict))
    if summary.tests is not None and not summary.tests.passed:
        found.append(f"the library's tests fail ({inline(summary.tests.summary, 120)})")
    if summary.style is not None and not summary.style.passed:
        found.append("the library's style check fails")
    return [*found, *_failed_runs(summary.benchmark)]


def _failed_runs(benchmark: BenchmarkResult | None) -> list[str]:
    """Give why it has no time where it was measured, once each: a timed run that is wrong counts as much as a verdict."""
    rows = benchmark.rows if benchmark is not None else ()
    errors = [timing.error for row in rows for timing in row.timings if timing.contender == CANDIDATE and timing.error]
    return [f"it could not be timed on every size ({inline(error, 120)})" for error in dict.fromkeys(errors)]


def finalized_sections(summary: FinalizeSummary, image_urls: Mapping[str, str]) -> str:
    """Give the report below its verdict: before and after, plots, the diff, what was rejected; the rest folded."""
    titles = TITLES if summary.applied else PROFILE_TITLES
    winner = summary.winner.name if summary.winner is not None else None
    taken = {variant.name for variant in lineage(summary.winner, summary.variants)}
    rejected = [variant for variant in summary.variants if variant.name not in taken]
    notes = summary.notes if summary.applied else summary.notes[1:]
    return paragraphs(
        benchmark_table(summary.benchmark, titles) if summary.benchmark else "",
        pictures(summary.images, image_urls),
        bullets([sentence(note) for note in notes]),
        f"The search ended because {STOP_WORDS[summary.stop]}." if summary.stop else "",
        folded("What was changed", code_block(summary.diff, "diff", 16_000) if summary.diff.strip() else ""),
        folded("All variants", variants_table(summary.variants, winner)),
        folded(
            "What was tried and left",
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


def passes_words(results: tuple[PassResult, ...]) -> str:
    """Give each pass with its mean, such as "forward 1.10×, backward 1.61×"."""
    told = [f"{result.timed_pass.value} {ratio(result.speedup)}" for result in results if result.speedup is not None]
    return ", ".join(told)


def _why_not(summary: FinalizeSummary) -> str:
    if summary.winner is None and not any(variant.outcome is Outcome.kept for variant in summary.variants):
        return "nothing that was tried is better"
    return "the variant that won did not pass the library's own checks"


def _gained(benchmark: BenchmarkResult | None) -> str:
    if benchmark is None or benchmark.predicted:
        where = inline(benchmark.gpu, 60) if benchmark is not None and benchmark.gpu else "a GPU"
        return f"is changed; its speed is only predicted for {where}, since nothing was timed."
    mean = overall_speedup(benchmark.rows)
    if mean is None:
        return "is changed, but could not be compared with what stood before."
    slower = sum(result.count(Word.slower) for result in by_pass(benchmark.rows))
    memory = overall_memory(benchmark.rows)
    told = f"is {ratio(mean)} as fast as before on {inline(benchmark.gpu or 'the GPU', 60)}"
    told += f", peak memory {change(memory)}" if memory is not None else ""
    return f"{told}; slower on {counted(slower, 'measurement')}." if slower else f"{told}."


def _proved(summary: FinalizeSummary) -> str:
    interpreted = summary.verdict is not None and summary.verdict.interpreted
    told = "Its values and gradients are proved" + (" in Triton's interpreter" if interpreted else "")
    told += ", and the library's tests pass." if summary.tests is not None else "."
    passes = (
        passes_words(by_pass(summary.benchmark.rows)) if summary.benchmark and not summary.benchmark.predicted else ""
    )
    return f"{told} By pass: {passes}." if passes else told
