"""The comment that asks for a review at a checkpoint. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_runner.contracts import Status
from service.conversation.links import Links, link
from service.conversation.markdown import bullets, folded, paragraphs, table
from service.conversation.markers import Kind, signed
from service.conversation.profile_table import profile_table
from service.conversation.report import faults, report_sections, report_verdict
from service.conversation.status import job_footer, pull_link
from service.conversation.verdicts import INTERPRETED, verdict_section, verdict_words
from service.escape import code, code_block, inline, sentence
from workers.contracts import (
    AnalyzeSummary,
    CheckpointUpdate,
    GenerateSummary,
    JobView,
    StageName,
    ValidateSummary,
)

MAX_ATTEMPTS = 5
MAX_PATHS = 40
AFTERWARDS: dict[StageName, str] = {
    StageName.analyze: "the kernel is written and proved",
    StageName.generate: "the library's tests and the benchmark run",
    StageName.validate: "the job ends, and the pull request is yours to merge",
}
AGAIN: dict[StageName, str] = {
    StageName.analyze: "the analysis is made again; a Python block in the review replaces the problem",
    StageName.generate: "the kernel is written and proved again, with your words and line comments as feedback",
    StageName.validate: "tests, benchmark and report are made again, with your words and line comments as feedback",
}


def checkpoint_comment(
    update: CheckpointUpdate,
    job: JobView,
    links: Links,
    image_urls: Mapping[str, str] | None = None,
    sha: str | None = None,
) -> str:
    """Give what a reviewer decides on.

    ``image_urls`` are addresses by the images' names, ``sha`` the commit that is decided on where it is known better than
    from the job.
    """
    sha = sha or checkpoint_sha(update, job)
    body = paragraphs(
        f"{checkpoint_verdict(update, job)}\n{_next(update, job, links, sha)}",
        _sections(update, image_urls or {}),
        _how(update, sha) if update.decides else "",
        job_footer(job, links),
    )
    return signed(body, job.job_id, Kind.checkpoint, f"{update.stage.value}-{update.attempt}")


def checkpoint_sha(update: CheckpointUpdate, job: JobView) -> str | None:
    """Give the commit that a checkpoint's review is about."""
    view = job.checkpoint
    named = view.sha if view and (view.stage, view.attempt) == (update.stage, update.attempt) else None
    return named or job.head_sha


def checkpoint_verdict(update: CheckpointUpdate, job: JobView) -> str:
    """Give what the stage found, in one line."""
    kernel, summary = code(job.request.kernel), update.summary
    if isinstance(summary, ValidateSummary):
        return report_verdict(summary, job)
    if isinstance(summary, AnalyzeSummary):
        profile = summary.profile
        return (
            f"**{kernel} is understood:** tier {profile.tier}, {inline(profile.tier_description, 80)}, "
            f"nearest to {code(profile.closest_existing_kernel)}."
        )
    words = verdict_words(summary.verdict)
    if summary.verdict.status is not Status.passed:
        return f"**{kernel} is not proved:** {words}."
    where = " in Triton's interpreter" if summary.verdict.interpreted else ""
    return f"**{kernel} is written and proved{where}:** {words}."


def checkpoint_holds(update: CheckpointUpdate) -> bool:
    """Tell whether nothing stands against going on."""
    if isinstance(update.summary, ValidateSummary):
        return not faults(update.summary)
    return not isinstance(update.summary, GenerateSummary) or update.summary.verdict.status is Status.passed


def _next(update: CheckpointUpdate, job: JobView, links: Links, sha: str | None) -> str:
    if not update.decides:
        return f"**Next:** nothing to do. With `--auto` nobody is asked; {AFTERWARDS[update.stage]}."
    commit = link(code(sha[:12]), links.commit(sha)) if sha else "its commit"
    return f"**Next:** review {commit} on {pull_link(job, links)}, and approve it or request changes."


def _how(update: CheckpointUpdate, sha: str | None) -> str:
    left = MAX_ATTEMPTS - update.attempt
    bound = f"This was attempt {update.attempt} of {MAX_ATTEMPTS}." if left > 0 else "This was the last attempt."
    points = [f"**Approve**: {AFTERWARDS[update.stage]}.", f"**Request changes**: {AGAIN[update.stage]}. {bound}"]
    if sha:
        approve = code(f"/kernel approve {sha[:12]}")
        points.append(f"Where GitHub does not let you review: {approve}, or `/kernel revise` and what should change.")
    return bullets(points)


def _sections(update: CheckpointUpdate, image_urls: Mapping[str, str]) -> str:
    if isinstance(update.summary, AnalyzeSummary):
        return _analyze(update.summary)
    if isinstance(update.summary, GenerateSummary):
        return _generate(update.summary)
    return report_sections(update.summary, image_urls)


def _analyze(summary: AnalyzeSummary) -> str:
    return paragraphs(
        f"Look at the inputs, the gradients and the names; the kernel is written from these by the {code(summary.author)} author.",
        profile_table(summary.profile),
        bullets([sentence(note) for note in summary.notes]),
        folded("Reference", code_block(summary.problem_source, "python")),
    )


def _generate(summary: GenerateSummary) -> str:
    formulas = [("forward", summary.forward_formula), *summary.gradient_formulas]
    rows = [(inline(name, 60), code(formula, 400)) for name, formula in formulas]
    paths = [code(path, 200) for path in summary.changed[:MAX_PATHS]]
    if len(summary.changed) > MAX_PATHS:
        paths.append(f"and {len(summary.changed) - MAX_PATHS} more")
    answered = [sentence(answer) for answer in summary.answered]
    return paragraphs(
        f"{INTERPRETED} Speed is not looked at yet." if summary.verdict.interpreted else "",
        f"To your last review:\n\n{bullets(answered)}" if answered else "",
        table(("value", "computed as"), rows),
        f"Files, by the {code(summary.author)} author:\n\n{bullets(paths)}" if paths else "",
        bullets([sentence(note) for note in summary.notes]),
        folded("Proof", verdict_section(summary.verdict)),
    )
