"""A change of an existing kernel: what a person decides on, and the report once it is confirmed. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_runner.contracts import CaseOutcome, Status, Word, WorkloadTiming
from service.escape import code, code_block, inline, sentence
from service.report.benchmarks import CANDIDATE, CONTENDERS, benchmark_table, compared, memory_table, overall_speedup
from service.report.layout import bullets, counted, folded, paragraphs, pictures, ratio, table
from service.report.profiled import profile_section
from service.report.verdicts import (
    attempts_section,
    provenance_line,
    style_section,
    tests_section,
    verdict_section,
    verdict_words,
)
from workers.contracts import AddedTest, ConfirmSummary, JobView, ModifySummary

TITLES = {**CONTENDERS, CANDIDATE: "after"}
SLOWER = 0.95  # speedups below it are told at the top
MAX_TESTS = 40
MAX_SLOW = 5
DIFF_CHARS = 24_000
FAILED = (CaseOutcome.failed, CaseOutcome.error)


def modified_verdict(summary: ModifySummary, job: JobView) -> str:
    """What was changed and how far it is proved, in one line; a call that breaks comes before everything else."""
    kernel = code(job.request.kernel)
    if summary.broken_call is not None:
        return f"**{kernel} is changed, and a call that works today breaks:** {sentence(summary.broken_call)}."
    where = " in Triton's interpreter" if summary.verdict.interpreted else ""
    kept = ", and today's call still returns the same results" if summary.changes_function else ""
    text = f"**{kernel} is changed and proved{where}:** {verdict_words(summary.verdict)}{kept}."
    return f"{text} The library's whole test file passes. {added_words(summary.added)}".rstrip()


def modified_sections(summary: ModifySummary) -> str:
    """The change below its verdict: the warning again, what the model says, files, tests; the rest folded."""
    return paragraphs(
        warning(summary),
        f"To your last review:\n\n{bullets([sentence(item) for item in summary.answered])}" if summary.answered else "",
        f"The model's description: {inline(summary.summary, 1_200)}",
        files_table(summary),
        bullets([sentence(note) for note in summary.notes]),
        change_details(summary),
        folded("Proof", verdict_section(summary.verdict)),
        folded("The library's tests", tests_section(summary.tests)),
        folded("Style check", style_section(summary.style)),
    )


def modified_holds(summary: ModifySummary) -> bool:
    """Whether nothing stands against the change."""
    return summary.verdict.status is Status.passed and summary.broken_call is None


def warning(summary: ModifySummary) -> str:
    """What somebody who uses the kernel today has to know."""
    if summary.broken_call is None:
        return ""
    meant = "Such callers must be changed. Approve only if this is intended."
    return f"> [!WARNING]\n> {sentence(summary.broken_call)}. {meant}"


def files_table(summary: ModifySummary) -> str:
    """The files of a change with their lines."""
    rows = [(code(item.path, 200), f"+{item.added}", f"−{item.removed}") for item in summary.files]
    return table(("file", "comes", "goes"), rows, numeric=(1, 2))


def change_details(summary: ModifySummary) -> str:
    """The diff, the tests that are added, the problem where it is another one, and the attempts, folded."""
    return paragraphs(
        folded("What was changed", code_block(summary.diff, "diff", DIFF_CHARS)),
        folded("Added tests", _added_table(summary.added)),
        folded(
            "The new problem",
            code_block(summary.problem_source, "python") if summary.changes_function else "",
        ),
        attempts_section(summary.attempts),
    )


def added_words(added: tuple[AddedTest, ...]) -> str:
    """How the added tests went without the change and with it, in a sentence; nothing where there are none."""
    if not added:
        return "No test was added."
    total, single = counted(len(added), "added test"), len(added) == 1
    ends = [test.after is CaseOutcome.passed for test in added]
    if all(ends) and all(test.before in FAILED for test in added):
        return (
            f"{total} {'fails' if single else 'fail'} before the change and {'passes' if single else 'pass'} with it."
        )
    groups = (
        ("fail", sum(test.before in FAILED for test in added)),
        ("cannot run", sum(test.before is None for test in added)),
        ("pass too", sum(test.before is CaseOutcome.passed for test in added)),
        ("are skipped", sum(test.before is CaseOutcome.skipped for test in added)),
    )
    before = ", ".join(f"{number} {what}" for what, number in groups if number)
    return f"{total}: before the change {before}; with it {'all' if all(ends) else sum(ends)} pass."


def confirmed_verdict(summary: ConfirmSummary, job: JobView) -> str:
    """What a change comes to in one line; what is slower, or breaks, comes first."""
    kernel, change = code(job.request.kernel), summary.change
    wrong = confirmed_faults(summary)
    if wrong:
        return f"**{kernel} cannot be merged as it is:** {'; '.join(wrong)}."
    against = [f"a call that works today breaks ({sentence(change.broken_call)})"] if change.broken_call else []
    against += [_slower_words(slow)] if (slow := slower_rows(summary)) else []
    proved = "Its values and gradients are proved" + (" in Triton's interpreter" if summary.verdict.interpreted else "")
    proved = f"{proved}, and the library's tests pass. {added_words(change.added)}"
    if against:
        return f"**{kernel} is changed, but {'; and '.join(against)}.** {proved}"
    return f"**{kernel} is changed{_speed(summary)}.** {proved}"


def confirmed_faults(summary: ConfirmSummary) -> list[str]:
    """What stands against a merge, each as part of a sentence."""
    return [] if summary.verdict.status is Status.passed else [verdict_words(summary.verdict)]


def confirmed_sections(summary: ConfirmSummary, image_urls: Mapping[str, str]) -> str:
    """The report below its verdict: the warning, the table, plots, files; the rest folded."""
    return paragraphs(
        warning(summary.change),
        benchmark_table(summary.benchmark, TITLES),
        pictures(summary.images, image_urls),
        files_table(summary.change),
        bullets([sentence(note) for note in summary.notes]),
        change_details(summary.change),
        folded("Proof", verdict_section(summary.verdict)),
        folded("The library's tests", tests_section(summary.tests)),
        folded("The library's benchmark script", tests_section(summary.script) if summary.script else ""),
        folded("Style check", style_section(summary.style)),
        folded("Peak memory", memory_table(summary.benchmark, TITLES)),
        folded("Profile", profile_section(summary.profile) if summary.profile else ""),
        provenance_line(summary.provenance),
        _repetition(summary.reproduce),
    )


def slower_rows(summary: ConfirmSummary) -> list[tuple[WorkloadTiming, float]]:
    """The measurements on which the change is more than 5% slower than what stood, the worst first."""
    rows = []
    for row in summary.benchmark.rows:
        comparison = compared(row)
        if comparison is not None and comparison.word is Word.slower and comparison.speedup < SLOWER:
            rows.append((row, comparison.speedup))
    return sorted(rows, key=lambda item: item[1])


def _slower_words(slow: list[tuple[WorkloadTiming, float]]) -> str:
    named = [f"{code(row.workload.label())} {row.timed_pass.value} {ratio(value)}" for row, value in slow[:MAX_SLOW]]
    more = f" and {len(slow) - MAX_SLOW} more" if len(slow) > MAX_SLOW else ""
    return f"it is more than 5% slower on {counted(len(slow), 'measurement')}: {', '.join(named)}{more}"


def _speed(summary: ConfirmSummary) -> str:
    benchmark = summary.benchmark
    gpu = inline(benchmark.gpu or "the GPU", 60)
    if benchmark.predicted:
        return f"; its speed is only predicted for {gpu}, since nothing was timed"
    words = [c.word for row in benchmark.rows if (c := compared(row)) is not None]
    mean = overall_speedup(benchmark.rows)
    if mean is None or not words:
        return "; its speed was not compared with the previous kernel"
    text = ", ".join(f"{word.value} on {words.count(word)}" for word in Word if word in words)
    return f" and is {ratio(mean)} as fast as before on {gpu}: of {counted(len(words), 'measurement')}, {text}"


def _added_table(added: tuple[AddedTest, ...]) -> str:
    rows = [
        (code(test.node, 160), test.before.value if test.before else "cannot run", test.after.value)
        for test in added[:MAX_TESTS]
    ]
    more = f"{counted(len(added) - MAX_TESTS, 'more test')} not shown." if len(added) > MAX_TESTS else ""
    return paragraphs(table(("test", "before the change", "with it"), rows), more)


def _repetition(reproduce: str) -> str:
    how = "To ask for it again on a checkout of the base commit, with `request.txt` from the job's page:"
    return paragraphs(how, code_block(reproduce, "sh", 2_000))
