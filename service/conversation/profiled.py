"""What a reviewer decides on after the profile of a kernel that exists: where its time goes, and what would be tried. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_runner.contracts import Bound, Finding, ProfileResult, Status
from service.conversation.benchmark_table import CONTENDERS, benchmark_table, memory_table
from service.conversation.comparisons import CANDIDATE, ORIGINAL, median_us
from service.conversation.counters import counters_section, peaks_line
from service.conversation.links import pictures
from service.conversation.markdown import bullets, folded, paragraphs, table
from service.conversation.quantities import (
    DASH,
    duration_us,
    geometric_mean,
    percent,
    ratio,
    size_bytes,
    usable,
)
from service.conversation.source_reading import reading_section
from service.conversation.verdicts import excused_errors, verdict_section, verdict_words
from service.escape import code, code_block, inline, sentence
from workers.contracts import JobView, ModelReading, PlannedStrategy, ProfileSummary, Scope, written_scope

BOUND_WORDS: dict[Bound, str] = {
    Bound.memory: "memory-bound",
    Bound.compute: "compute-bound",
    Bound.latency: "latency-bound",
    Bound.locality: "bound by locality",
    Bound.unknown: "of no known bound",
}
TITLES = {**CONTENDERS, CANDIDATE: "v0", ORIGINAL: "v0"}
IMPRECISE = (
    "**What stands today errs by more than a new kernel would be allowed**, not by so much that it computes something else. It is "
    "measured as it is, and a variant may err as much and no more."
)
MAX_FINDINGS = 8
MAX_STEPS = 16
MODELS_WORDS = "These are a model's words; what stands outside of this fold is measured, or found by rules."
MAX_STRATEGIES = 32
MAX_ROOFLINES = 60


def profiled_verdict(summary: ProfileSummary, job: JobView) -> str:
    """Give the bottleneck with its evidence in one line."""
    kernel = code(job.request.kernel)
    if summary.verdict.status is not Status.passed:
        return f"**{kernel} does not compute what its problem says:** {verdict_words(summary.verdict)}."
    gpu = inline(summary.profile.gpu.name, 60)
    if summary.nothing_to_gain:
        return f"**{kernel} is at its limit on {gpu} already, so there is nothing to gain:** {_limits(summary)}."
    return f"**{kernel} is {_bounds(summary.profile)} on {gpu}:** {_limits(summary)}."


def profiled_sections(summary: ProfileSummary, image_urls: Mapping[str, str]) -> str:
    """Give the profile below its verdict: evidence, v0 at every size, the strategies in order, the source; the rest folded."""
    counters = summary.profile.counters_error
    return paragraphs(
        _aim(summary),
        _imprecision(summary),
        bullets([_finding(finding) for finding in summary.profile.findings[:MAX_FINDINGS]]),
        _diagnosis(summary.diagnosis),
        benchmark_table(summary.benchmark, TITLES),
        pictures(summary.images, image_urls),
        _strategies(summary),
        bullets([sentence(note) for note in summary.notes]),
        folded("Reading of the source", reading_section(summary.reading)),
        folded("Nsight Compute", counters_section(summary.profile.counters)),
        f"Nsight Compute was not used: {sentence(counters)}" if counters else "",
        folded("Proof of v0", verdict_section(summary.verdict)),
        folded("Peak memory", memory_table(summary.benchmark, TITLES)),
        folded("Problem", code_block(summary.problem_source, "python")),
        peaks_line(summary.profile.gpu),
    )


def _diagnosis(reading: ModelReading | None) -> str:
    """Give what a model says beside the rules; nothing where none was asked, or it gave nothing."""
    if reading is None:
        return ""
    steps = "\n".join(f"{n}. {inline(step, 600)}" for n, step in enumerate(reading.steps[:MAX_STEPS], 1))
    return folded(
        "A model's reading",
        paragraphs(
            MODELS_WORDS,
            inline(reading.bottleneck, 1_200),
            bullets([inline(line, 600) for line in reading.evidence[:MAX_STEPS]]),
            steps,
        ),
    )


def _imprecision(summary: ProfileSummary) -> str:
    """Say what today's kernel errs beyond what a new one would be allowed; nothing where it does not."""
    verdict = summary.verdict
    if not verdict.excused:
        return ""
    unsteady = " Two runs of it on the same inputs do not agree bit by bit." if verdict.deterministic is False else ""
    return paragraphs(f"{IMPRECISE}{unsteady}", bullets(excused_errors(verdict)))


def profile_section(result: ProfileResult) -> str:
    """Give a profile by itself: what bounds each pass, by which evidence, and the roofline at every size."""
    rows = [
        (
            code(roofline.workload.label()),
            roofline.timed_pass.value,
            size_bytes(roofline.moved_bytes),
            f"{roofline.intensity:.3g}" if usable(roofline.intensity) else DASH,
            duration_us(roofline.memory_us),
            duration_us(roofline.compute_us),
            BOUND_WORDS[roofline.bound],
        )
        for roofline in result.rooflines[:MAX_ROOFLINES]
    ]
    header = ("workload", "pass", "bytes to move", "operations a byte", "by bytes", "by operations", "so it is")
    counters = result.counters_error
    return paragraphs(
        f"**{_bounds(result)}** on {inline(result.gpu.name, 60)}",
        bullets([_finding(finding) for finding in result.findings[:MAX_FINDINGS]]),
        table(header, rows, numeric=(2, 3, 4, 5)),
        counters_section(result.counters),
        f"Nsight Compute was not used: {sentence(counters)}" if counters else "",
        peaks_line(result.gpu),
    )


def profiled_holds(summary: ProfileSummary) -> bool:
    """Tell whether what stands today computes what its problem says."""
    return summary.verdict.status is Status.passed


def _bounds(profile: ProfileResult) -> str:
    known = dict(profile.bounds)
    if not known:
        return BOUND_WORDS[Bound.unknown]
    if len(set(known.values())) == 1:
        return BOUND_WORDS[next(iter(known.values()))]
    return ", ".join(f"{BOUND_WORDS[bound]} in {name.value}" for name, bound in known.items())


def _limits(summary: ProfileSummary) -> str:
    """Give how far each pass is from its floor, where that was measured."""
    told = []
    for timed_pass in dict.fromkeys(row.timed_pass for row in summary.benchmark.rows):
        shares = []
        for row in summary.benchmark.rows:
            median = median_us(row, CANDIDATE) or median_us(row, ORIGINAL)
            if row.timed_pass is timed_pass and usable(row.floor_us) and usable(median) and median > 0:
                shares.append(row.floor_us / median)
        mean = geometric_mean(shares)
        if mean is not None:
            told.append(f"{timed_pass.value} reaches {percent(mean)}")
    if summary.benchmark.predicted or not told:
        return "by its bytes and operations, since no GPU was there to time it"
    return f"{', '.join(told)} of the speed that the hardware allows"


def _aim(summary: ProfileSummary) -> str:
    scope = "both passes" if summary.scope is Scope.general else f"the {summary.scope.value} pass"
    sizes = written_scope(Scope.general, summary.regime)
    scope += f" at {code(sizes)} sizes" if summary.regime.part else f" at {code(sizes)}" if summary.regime.sizes else ""
    target = f", until {code(summary.target)}" if summary.target else ""
    return f"Goal: {summary.goal.value}, of {scope}{target}."


def _finding(finding: Finding) -> str:
    return (
        f"{code(finding.subject, 80)}: {inline(finding.metric, 80)} is {finding.value:.3g}, and the rule {code(finding.rule, 60)} "
        f"has its threshold at {finding.threshold:.3g}: {BOUND_WORDS[finding.bound]}"
    )


def _strategies(summary: ProfileSummary) -> str:
    planned = summary.strategies[:MAX_STRATEGIES]
    rows = [
        (str(number), inline(item.title, 80), sentence(item.trigger, 240), _gain(item))
        for number, item in enumerate(planned, 1)
    ]
    shown = table(("", "strategy", "because", "expected gain"), rows, numeric=(0,))
    return f"These would be tried, in this order:\n\n{shown}" if shown else ""


def _gain(item: PlannedStrategy) -> str:
    if item.gain_high <= 1.0:
        return "in memory"
    return f"{ratio(item.gain_low)} to {ratio(item.gain_high)}"
