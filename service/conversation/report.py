"""The report: what the last stage found, and the comment that ends a job. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_runner.contracts import CaseOutcome, Status, TestsResult
from service.conversation.benchmark_table import benchmark_table, memory_table, speed_sentence
from service.conversation.failures import details, next_line, stopped_line
from service.conversation.links import Links, image
from service.conversation.markdown import bullets, folded, paragraphs, table
from service.conversation.markers import Kind, signed
from service.conversation.quantities import counted
from service.conversation.status import job_footer, pull_link
from service.conversation.verdicts import verdict_section, verdict_words
from service.escape import code, code_block, inline, sentence
from workers.contracts import JobView, ReportUpdate, StyleOutcome, ValidateSummary

MAX_CASES = 40
OUTCOME_ORDER = (CaseOutcome.failed, CaseOutcome.error, CaseOutcome.skipped, CaseOutcome.passed)


def report_comment(
    update: ReportUpdate,
    job: JobView,
    links: Links,
    image_urls: Mapping[str, str] | None = None,
    key: str | None = None,
) -> str:
    """Give the comment that ends a job.

    ``image_urls`` are addresses by the images' names; ``key`` tells the ends of a job apart that was retried.
    """
    return signed(_body(update, job, links, image_urls or {}), job.job_id, Kind.report, key)


def _body(update: ReportUpdate, job: JobView, links: Links, image_urls: Mapping[str, str]) -> str:
    footer = job_footer(job, links)
    kernel = code(job.request.kernel)
    if update.cancelled_by is not None:
        told = f"**{kernel} was cancelled** by {code(update.cancelled_by)}; what was pushed stays."
        return paragraphs(f"{told}\n**Next:** nothing. A new `/kernel create` starts afresh.", footer)
    if update.failure is not None:
        head = f"{stopped_line(update.failure, job)}\n{next_line(update.failure, job)}"
        found = report_sections(update.summary, image_urls) if update.summary else ""
        return paragraphs(head, details(update.failure), found, footer)
    after = f"**Next:** merge {pull_link(job, links)} when you are content. The bot never merges."
    if update.summary is None:
        return paragraphs(f"**{kernel} is done:** every checkpoint was approved.\n{after}", footer)
    head = f"{report_verdict(update.summary, job)}\n{after}"
    return paragraphs(head, report_sections(update.summary, image_urls), footer)


def report_verdict(summary: ValidateSummary, job: JobView) -> str:
    """Give the verdict on a kernel in one line."""
    kernel = code(job.request.kernel)
    wrong = faults(summary)
    if wrong:
        return f"**{kernel} cannot be merged as it is:** {'; '.join(wrong)}."
    if summary.verdict.interpreted or summary.benchmark.predicted:
        proved = "in Triton's interpreter " if summary.verdict.interpreted else ""
        return f"**{kernel} is proved {proved}and passes the library's tests.** {speed_sentence(summary.benchmark)}"
    return f"**{kernel} is proved and passes the library's tests.** {speed_sentence(summary.benchmark)}"


def faults(summary: ValidateSummary) -> list[str]:
    """Give what stands against a merge, each as part of a sentence; nothing where all is well."""
    found = []
    if summary.verdict.status is not Status.passed:
        found.append(verdict_words(summary.verdict))
    if not summary.tests.passed:
        found.append(f"the library's tests fail ({inline(summary.tests.summary, 120)})")
    if not summary.style.passed:
        found.append("the library's style check fails")
    return found


def report_sections(summary: ValidateSummary, image_urls: Mapping[str, str]) -> str:
    """Give the report below its verdict: the table, then plots, then the rest folded, then where the numbers come from."""
    plots = [image(item.alt, image_urls[item.name]) for item in summary.images if item.name in image_urls]
    return paragraphs(
        benchmark_table(summary.benchmark),
        "\n".join(plots),
        bullets([sentence(note) for note in summary.notes]),
        folded("Proof", verdict_section(summary.verdict)),
        folded("The library's tests", tests_section(summary.tests)),
        folded("The library's benchmark script", tests_section(summary.script) if summary.script else ""),
        folded("Style check", style_section(summary.style)),
        folded("Peak memory", memory_table(summary.benchmark)),
        _provenance(summary),
        _repetition(summary),
    )


def _repetition(summary: ValidateSummary) -> str:
    if not summary.reproduce.strip():
        return ""
    how = "To repeat it on a checkout of the base commit, with `problem.py` from the job's page:"
    return paragraphs(how, code_block(summary.reproduce, "sh", 2_000))


def tests_section(result: TestsResult) -> str:
    """Give a test run: its summary, the cases that matter most first, and its log where it failed."""
    cases = sorted(result.cases, key=lambda case: OUTCOME_ORDER.index(case.outcome))
    told = any(case.message for case in cases[:MAX_CASES])
    header = ("test", "outcome", "message") if told else ("test", "outcome")
    rows = [
        (code(case.node, 160), case.outcome.value, inline(case.message, 160) if case.message else "")[: len(header)]
        for case in cases[:MAX_CASES]
    ]
    more = f"{counted(len(cases) - MAX_CASES, 'more case')} not shown." if len(cases) > MAX_CASES else ""
    log = "" if result.passed or not result.log.strip() else code_block(result.log, "text", 6_000)
    return paragraphs(inline(result.summary), table(header, rows), more, log)


def style_section(outcome: StyleOutcome) -> str:
    """Give the style check: its commands, and its log where it failed."""
    told = "Passed:" if outcome.passed else "Failed:"
    commands = ", ".join(code(command, 200) for command in outcome.commands)
    log = "" if outcome.passed or not outcome.log.strip() else code_block(outcome.log, "text", 6_000)
    return paragraphs(f"{told} {commands}" if commands else f"{told} no command was run.", log)


def _provenance(summary: ValidateSummary) -> str:
    facts = [f"{inline(name, 60)} {code(value)}" for name, value in summary.provenance]
    return f"Provenance: {' · '.join(facts)}" if facts else ""
