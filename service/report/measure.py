"""The report of a bench: whether a change makes kernels faster or slower, and how sure that is. Pure.

The form is that of rustc-perf's comment: the overall verdict and the next action first, one table to trust, the rest folded.
Source: https://github.com/rust-lang/rustc-perf/blob/master/site/src/github/comparison_summary.rs
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_runner.contracts import Status, Word
from service.escape import code, inline, label, sentence
from service.report.benchmarks import (
    CANDIDATE,
    CONTENDERS,
    ORIGINAL,
    PassResult,
    benchmark_table,
    by_pass,
    change,
    compared,
    mean_speedup,
    memory_ratio,
    memory_table,
    noise_sentence,
    with_interval,
    word_of,
)
from service.report.layout import Links, bullets, counted, folded, paragraphs, pictures, ratio, table
from service.report.status import reason
from service.report.verdicts import Conclusion, provenance_line, repetition, verdict_section, verdict_words
from workers.contracts import JobView, MeasuredKernel, MeasureSummary, Verb

TITLES = {**CONTENDERS, CANDIDATE: "head", ORIGINAL: "base"}
MAX_NAMED = 5
MAX_ROWS = 48
MEMORY_MARGIN = 0.01  # peak memory is counted, not timed: a smaller difference is the allocator's
LARGER = 1.05  # peak memory of head over base, beyond which it is named in the first line
HEADER = ("kernel", "pass", "sizes", "speed of head over base (95% interval)", "peak memory", "verdict")


@dataclass(frozen=True)
class SortedKernels:
    """The kernels of a comparison, sorted by what became of them."""

    wrong: tuple[MeasuredKernel, ...]  # head does not compute what it should
    slower: tuple[MeasuredKernel, ...]
    faster: tuple[MeasuredKernel, ...]
    larger: tuple[MeasuredKernel, ...]  # in peak memory
    undecided: tuple[MeasuredKernel, ...]
    timed: tuple[MeasuredKernel, ...]
    predicted: tuple[MeasuredKernel, ...]  # no GPU was there
    skipped: tuple[MeasuredKernel, ...]


def sort_out(summary: MeasureSummary) -> SortedKernels:
    """What became of each kernel; one may be faster in one pass and slower in another."""
    kernels = summary.kernels
    timed = tuple(k for k in kernels if k.benchmark is not None and not k.benchmark.predicted and k.benchmark.rows)
    return SortedKernels(
        wrong=tuple(k for k in kernels if is_wrong(k)),
        slower=tuple(k for k in timed if _count(k, Word.slower)),
        faster=tuple(k for k in timed if _count(k, Word.faster)),
        larger=tuple(k for k in timed if (_memory(k) or 0.0) > LARGER),
        undecided=tuple(k for k in timed if _count(k, Word.undecided)),
        timed=timed,
        predicted=tuple(k for k in kernels if k.benchmark is not None and k.benchmark.predicted),
        skipped=tuple(k for k in kernels if k.skipped is not None),
    )


def is_wrong(kernel: MeasuredKernel) -> bool:
    """Whether the head was judged and did not pass; a host's fault, or host code that cannot be evaluated, says nothing of it."""
    undecided = (Status.environment_error, Status.unproved)
    return kernel.verdict is not None and kernel.verdict.status not in (Status.passed, *undecided)


def measured_verdict(summary: MeasureSummary, _job: JobView) -> str:
    """The overall verdict in one line."""
    kernels, against = sort_out(summary), inline(summary.against, 120)
    if not summary.kernels:
        return f"**This change touches no kernel:** nothing was compared with {against}."
    parts = [f"{code(k.kernel)} is wrong, {verdict_words(k.verdict)}" for k in kernels.wrong[:MAX_NAMED] if k.verdict]
    if kernels.slower:
        parts.append(f"{_among(kernels.slower, kernels, 'slower')}: {_names(kernels.slower, Word.slower)}")
    if kernels.faster:
        parts.append(f"{_among(kernels.faster, kernels, 'faster')}: {_names(kernels.faster, Word.faster)}")
    if kernels.larger:
        text = ", ".join(f"{code(k.kernel)} ({change(_memory(k))})" for k in kernels.larger[:MAX_NAMED])
        more = "needs more memory" if len(kernels.larger) == 1 else "need more memory"
        parts.append(f"{len(kernels.larger)} of {counted(len(kernels.timed), 'kernel')} {more}: {text}")
    if parts:
        tail = "" if kernels.slower or kernels.larger or not kernels.faster else "; nothing is slower"
        return f"**Compared with {against}:** {'; '.join(parts)}{tail}.{_left(kernels)}"
    if not kernels.timed and kernels.predicted:
        return f"**Nothing was timed:** no GPU was available, so the speed is unknown against {against}."
    if not kernels.timed:
        return f"**Nothing could be measured** against {against}: {_first_reason(kernels)}"
    measurements = sum(len(k.benchmark.rows) for k in kernels.timed if k.benchmark)
    text = f"{counted(len(kernels.timed), 'kernel')}, {counted(measurements, 'measurement')}"
    if kernels.undecided:
        names = ", ".join(code(k.kernel) for k in kernels.undecided[:MAX_NAMED])
        undecided = f"({text}), but not all is decided: {names}"
        return f"**Nothing is known to be faster or slower** than {against} {undecided}.{_left(kernels)}"
    return f"**Nothing became faster or slower** than {against}: {text}.{_left(kernels)}"


def measured_after(summary: MeasureSummary, job: JobView, _links: Links) -> str:
    """What a maintainer does next."""
    kernels = sort_out(summary)
    if not summary.kernels:
        return "nothing, or name the kernels that should be compared: `/kernel bench NAME`."
    if kernels.wrong:
        return f"fix {_codes(kernels.wrong)} first; timings of a wrong kernel mean nothing."
    worse = tuple(k for k in kernels.timed if k in kernels.slower or k in kernels.larger)
    if worse:
        return f"look at {_codes(worse)}, or justify it in the pull request; the rows are below."
    if not kernels.timed and kernels.predicted:
        return "give the command on an installation with a GPU; `/kernel verify` proves the values without one."
    if not kernels.timed:
        return "see why below, then use `/kernel bench` again."
    if kernels.undecided:
        return "`/kernel bench` again, when the GPU is quieter, if the undecided rows matter."
    return "nothing; speed is no obstacle to merging." if not kernels.skipped else "see what was not measured, below."


def measured_conclusion(summary: MeasureSummary) -> Conclusion:
    """How the check ends: a slower kernel is for people to weigh, a wrong one is not."""
    kernels = sort_out(summary)
    if kernels.wrong:
        return Conclusion.failure
    return Conclusion.neutral if kernels.slower or kernels.larger or not kernels.timed else Conclusion.success


def is_worse(summary: MeasureSummary) -> bool:
    """Whether anything is slower, needs more memory, or is wrong."""
    kernels = sort_out(summary)
    return bool(kernels.wrong or kernels.slower or kernels.larger)


def measured_sections(summary: MeasureSummary, job: JobView, image_urls: Mapping[str, str]) -> str:
    """The report below its verdict: the one table, its noise, and the rest folded."""
    kernels = sort_out(summary)
    ordered = sorted(
        kernels.timed, key=lambda k: (k not in kernels.slower, k not in kernels.faster, k not in kernels.undecided)
    )
    rows = [_row(kernel, result) for kernel in ordered if kernel.benchmark for result in by_pass(kernel.benchmark.rows)]
    noise = noise_sentence(tuple(row for k in kernels.timed if k.benchmark for row in k.benchmark.rows))
    return paragraphs(
        table(HEADER, rows[:MAX_ROWS], numeric=(2, 3, 4)),
        folded("More kernels", table(HEADER, rows[MAX_ROWS:], numeric=(2, 3, 4))),
        f"<sub>{noise}</sub>" if noise and rows else "",
        unusual_section(summary),
        skipped_list(summary),
        bullets([sentence(note) for note in summary.notes]),
        pictures(summary.images, image_urls),
        *(kernel_details(kernel) for kernel in [*ordered, *(k for k in summary.kernels if k not in ordered)]),
        compared_line(summary, job),
        provenance_line(summary.provenance),
        repetition(summary.reproduce, "a checkout of the head commit"),
    )


def unusual_section(summary: MeasureSummary) -> str:
    """What of the differences lies outside of what each kernel's own nights vary by; empty where no kernel has enough nights."""
    known = [kernel for kernel in summary.kernels if kernel.usual]
    if not known:
        return ""
    judged = [one for kernel in known for one in _against_nights(kernel)]
    unusual = [text for is_unusual, text in judged if is_unusual]
    usual = [text for is_unusual, text in judged if not is_unusual]
    names = ", ".join(code(kernel.kernel) for kernel in known[:MAX_NAMED]) + (
        " and others" if known[MAX_NAMED:] else ""
    )
    head = f"**Unusual for {names}**, by the nights on {inline(known[0].usual[0].gpu, 60)}:"
    nothing = f"Nothing is unusual for {names}, by the nights on {inline(known[0].usual[0].gpu, 60)}."
    return paragraphs(
        paragraphs(head, bullets(unusual[:MAX_ROWS])) if unusual else nothing,
        folded("Different, but within the nightly variation", bullets(usual[:MAX_ROWS])) if usual else "",
    )


def _against_nights(kernel: MeasuredKernel) -> list[tuple[bool, str]]:
    """Each difference that was found in a row with a past: whether it leaves the range of the nights, and the sentence."""
    ranges = {(one.timed_pass, one.workload, one.metric): one for one in kernel.usual}
    judged = []
    for row in kernel.benchmark.rows if kernel.benchmark else ():
        place, comparison = (row.timed_pass.value, row.workload.label()), compared(row)
        differs = comparison is not None and comparison.word in (Word.slower, Word.faster)
        ratios = {
            "time_us": 1 / comparison.speedup if comparison is not None and differs else None,
            "peak_bytes": row.memory_ratio,
        }
        for metric, value in ratios.items():
            past = ranges.get((*place, metric))
            if value is None or past is None or (metric == "peak_bytes" and abs(value - 1) <= MEMORY_MARGIN):
                continue
            span = f"{counted(past.nights, 'night')} vary from {past.low - 1:+.1%} to {past.high - 1:+.1%}"
            where = f"{code(kernel.kernel)} {place[0]}, {inline(place[1], 120)}"
            what = "time" if metric == "time_us" else "peak memory"
            judged.append((not past.low <= value <= past.high, f"{where}: {what} {value - 1:+.1%}; {span}."))
    return judged


def skipped_list(summary: MeasureSummary) -> str:
    """The kernels that were not looked at, each with the reason and the fix."""
    lines = [
        f"{code(k.kernel)}: {reason(k.skipped)} {sentence(k.skipped.fix) if k.skipped.fix else ''}".rstrip()
        for k in summary.kernels
        if k.skipped is not None
    ]
    return f"Not measured:\n\n{bullets(lines)}" if lines else ""


def kernel_details(kernel: MeasuredKernel) -> str:
    """All that is known of one kernel, folded."""
    touched = ", ".join(code(path, 160) for path in kernel.touched[:12])
    more = f" and {len(kernel.touched) - 12} more" if len(kernel.touched) > 12 else ""
    body = paragraphs(
        benchmark_table(kernel.benchmark, TITLES) if kernel.benchmark else "",
        folded("Peak memory", memory_table(kernel.benchmark, TITLES) if kernel.benchmark else ""),
        folded("Proof", verdict_section(kernel.verdict) if kernel.verdict else ""),
    )
    told = f"{code(kernel.path, 160)}, touched by {touched}{more}." if touched else f"{code(kernel.path, 160)}."
    return folded(f"{label(kernel.kernel, 64)}: every size", paragraphs(told, body)) if body else ""


def compared_line(summary: MeasureSummary, _job: JobView) -> str:
    """Which commits were compared."""
    return f"<sub>Head {code(summary.head_sha[:12])} against base {code(summary.base_sha[:12])}.</sub>"


def _row(kernel: MeasuredKernel, result: PassResult) -> tuple[str, ...]:
    mean = with_interval(result.speedup, result.low, result.high)
    memory = change(memory_ratio(result.rows))
    return code(kernel.kernel), result.timed_pass.value, str(len(result.rows)), mean, memory, word_of(result)


def _count(kernel: MeasuredKernel, word: Word) -> int:
    return sum(result.count(word) for result in by_pass(kernel.benchmark.rows)) if kernel.benchmark else 0


def _memory(kernel: MeasuredKernel) -> float | None:
    """Peak memory, head over base, of the pass in which it grew most."""
    results = by_pass(kernel.benchmark.rows) if kernel.benchmark else ()
    return max((known for result in results if (known := memory_ratio(result.rows)) is not None), default=None)


def _among(kernels: tuple[MeasuredKernel, ...], sorted_kernels: SortedKernels, word: str) -> str:
    return f"{len(kernels)} of {counted(len(sorted_kernels.timed), 'kernel')} {'is' if len(kernels) == 1 else 'are'} {word}"


def _names(kernels: tuple[MeasuredKernel, ...], word: Word) -> str:
    more = f" and {len(kernels) - MAX_NAMED} more" if len(kernels) > MAX_NAMED else ""
    return ", ".join(f"{code(k.kernel)} ({_passes(k, word)})" for k in kernels[:MAX_NAMED]) + more


def _passes(kernel: MeasuredKernel, word: Word) -> str:
    results = by_pass(kernel.benchmark.rows) if kernel.benchmark else ()
    return ", ".join(_where(result, word) for result in results if result.count(word))


def _where(result: PassResult, word: Word) -> str:
    """A pass with its speed at the sizes that have the word: over all sizes a slower one may be hidden by the others."""
    members = [row for row in result.rows if (comparison := compared(row)) is not None and comparison.word is word]
    text = f"{result.timed_pass.value} {ratio(mean_speedup(members))}"
    return (
        text if len(members) == len(result.rows) else f"{text} on {len(members)} of {counted(len(result.rows), 'size')}"
    )


def _codes(kernels: tuple[MeasuredKernel, ...]) -> str:
    return ", ".join(code(k.kernel) for k in kernels[:MAX_NAMED]) + (" and others" if len(kernels) > MAX_NAMED else "")


def _left(kernels: SortedKernels) -> str:
    return f" {counted(len(kernels.skipped), 'kernel')} could not be measured." if kernels.skipped else ""


def _first_reason(kernels: SortedKernels) -> str:
    skipped = kernels.skipped[0].skipped if kernels.skipped else None
    return reason(skipped) if skipped is not None else "the runner returned no measurement."


def reply_no_pull(verb: Verb) -> str:
    """Answer a bench or verify on an issue, where nothing is changed that could be looked at."""
    if verb is Verb.verify:
        return "`verify` proves the kernels that a pull request touches, and this is an issue. Give it on the pull request."
    return (
        "`bench` compares the head of a pull request with its merge base, and this is an issue. Give the command on the pull "
        "request, or name what the default branch is to be compared with, such as `/kernel bench rms_norm --against v1.2.0`."
    )


def reply_no_change(sha: str, against: str) -> str:
    """Answer a bench or verify whose two sides are one commit."""
    return (
        f"Nothing was done: {code(sha[:12])} is contained in {code(against)}, so there is nothing to compare. "
        "Name another base, such as `/kernel bench --against v1.2.0`."
    )


def reply_no_comparison(against: str, head_sha: str) -> str:
    """Answer a bench whose other side is not there, or has no history in common with the head."""
    return (
        f"{code(against)} and {code(head_sha[:12])} cannot be compared: there is no such branch, tag or commit here, or the two "
        "have no history in common. Nothing was done. **Next:** name another one with `--against`."
    )


def reply_fork_needs_writer(login: str) -> str:
    """Answer a bench or verify of a fork's code by somebody without write permission."""
    return (
        f"This pull request comes from a fork, and a fork's code runs only when somebody with write permission asks for it; "
        f"{code(login)} has none. Nothing was done. A maintainer who has read the change can give the command."
    )
