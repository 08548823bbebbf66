"""The report of a create: what the library's checks, its tests and the benchmark say of a kernel. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_runner.contracts import CaseOutcome, Status, TestsResult
from service.conversation.analyzed import review_answered
from service.conversation.attempts import attempts_section
from service.conversation.benchmark_table import benchmark_table, memory_table, speed_sentence
from service.conversation.links import pictures
from service.conversation.markdown import bullets, folded, paragraphs, table
from service.conversation.profiled import profile_section
from service.conversation.quantities import counted
from service.conversation.verdicts import verdict_section, verdict_words
from service.escape import code, code_block, inline, sentence
from workers.contracts import JobView, StyleOutcome, ValidateSummary

MAX_CASES = 40
OUTCOME_ORDER = (CaseOutcome.failed, CaseOutcome.error, CaseOutcome.skipped, CaseOutcome.passed)


def validated_verdict(summary: ValidateSummary, job: JobView) -> str:
    """Give the verdict on a kernel in one line."""
    kernel = code(job.request.kernel)
    wrong = faults(summary)
    if wrong:
        return f"**{kernel} cannot be merged as it is:** {'; '.join(wrong)}."
    proved = "in Triton's interpreter " if summary.verdict.interpreted else ""
    return f"**{kernel} is proved {proved}and passes the library's tests.** {speed_sentence(summary.benchmark)}"


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


def validated_sections(summary: ValidateSummary, image_urls: Mapping[str, str]) -> str:
    """Give the report below its verdict: the table, then plots, then the rest folded, then where the numbers come from."""
    return paragraphs(
        review_answered(summary.answered),
        benchmark_table(summary.benchmark),
        pictures(summary.images, image_urls),
        bullets([sentence(note) for note in summary.notes]),
        attempts_section(summary.attempts),
        folded("Proof", verdict_section(summary.verdict)),
        folded("The library's tests", tests_section(summary.tests)),
        folded("The library's benchmark script", tests_section(summary.script) if summary.script else ""),
        folded("Style check", style_section(summary.style)),
        folded("Peak memory", memory_table(summary.benchmark)),
        folded("Profile", profile_section(summary.profile) if summary.profile else ""),
        provenance_line(summary.provenance),
        repetition(summary.reproduce),
    )


def repetition(reproduce: str) -> str:
    """Give the command that does it again."""
    if not reproduce.strip():
        return ""
    how = "To repeat it on a checkout of the base commit, with `problem.py` from the job's page:"
    return paragraphs(how, code_block(reproduce, "sh", 2_000))


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


def provenance_line(provenance: tuple[tuple[str, str], ...]) -> str:
    """Give where numbers come from, in one line."""
    facts = [f"{inline(name, 60)} {code(value)}" for name, value in provenance]
    return f"Provenance: {' · '.join(facts)}" if facts else ""
