"""What a reviewer decides on while a new kernel is made: the analysis, then the kernel with its proof. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_runner.contracts import Status
from service.conversation.attempts import attempts_section
from service.conversation.markdown import bullets, folded, paragraphs, table
from service.conversation.profile_table import profile_table
from service.conversation.verdicts import INTERPRETED, verdict_section, verdict_words
from service.escape import code, code_block, inline, sentence
from workers.contracts import AnalyzeSummary, GenerateSummary, JobView

MAX_PATHS = 40


def analyzed_verdict(summary: AnalyzeSummary, job: JobView) -> str:
    """Give what the kernel was understood as, in one line."""
    profile = summary.profile
    return (
        f"**{code(job.request.kernel)} is understood:** tier {profile.tier}, {inline(profile.tier_description, 80)}, "
        f"nearest to {code(profile.closest_existing_kernel)}."
    )


def generated_verdict(summary: GenerateSummary, job: JobView) -> str:
    """Give whether the kernel is proved, in one line."""
    kernel, words = code(job.request.kernel), verdict_words(summary.verdict)
    if summary.verdict.status is not Status.passed:
        return f"**{kernel} is not proved:** {words}."
    where = " in Triton's interpreter" if summary.verdict.interpreted else ""
    return f"**{kernel} is written and proved{where}:** {words}."


def analyzed_sections(summary: AnalyzeSummary) -> str:
    """Give what the kernel is written from."""
    return paragraphs(
        f"Look at the inputs, the gradients and the names; the kernel is written from these by the {code(summary.author)} author.",
        review_answered(summary.answered),
        profile_table(summary.profile),
        bullets([sentence(note) for note in summary.notes]),
        folded("Reference", code_block(summary.problem_source, "python")),
    )


def review_answered(answered: Sequence[str]) -> str:
    """Give what was done about the last review, point by point; the points and a model's replies are foreign text."""
    points = bullets([sentence(answer) for answer in answered])
    return f"To your last review:\n\n{points}" if points else ""


def generated_sections(summary: GenerateSummary) -> str:
    """Give what was written, and its proof."""
    formulas = [("forward", summary.forward_formula), *summary.gradient_formulas]
    rows = [(inline(name, 60), code(formula, 400)) for name, formula in formulas]
    paths = [code(path, 200) for path in summary.changed[:MAX_PATHS]]
    if len(summary.changed) > MAX_PATHS:
        paths.append(f"and {len(summary.changed) - MAX_PATHS} more")
    return paragraphs(
        f"{INTERPRETED} Speed is not looked at yet." if summary.verdict.interpreted else "",
        review_answered(summary.answered),
        table(("value", "computed as"), rows),
        f"Files, by the {code(summary.author)} author:\n\n{bullets(paths)}" if paths else "",
        bullets([sentence(note) for note in summary.notes]),
        attempts_section(summary.attempts),
        folded("Proof", verdict_section(summary.verdict)),
    )
