"""Title and body of the pull request. Pure."""

from __future__ import annotations

from gpu_runner.contracts import Status
from service.conversation.links import Links
from service.conversation.markdown import folded, paragraphs
from service.conversation.markers import Kind, signed
from service.conversation.profile_table import profile_table
from service.conversation.status import job_footer
from service.conversation.verdicts import verdict_section, verdict_words
from service.escape import clip, code, code_block, plain
from workers.contracts import JobView, PullRequestUpdate

TITLE_LIMIT = 120


def pull_request_title(update: PullRequestUpdate, job: JobView) -> str:
    """Give the title."""
    return clip(f"Add {plain(job.request.kernel, 64)}: {plain(update.profile.module_class_name, 64)}", TITLE_LIMIT)


def pull_request_body(update: PullRequestUpdate, job: JobView, links: Links) -> str:
    """Give the body, with the profile and, once there is one, the verdict."""
    profile = update.profile
    body = paragraphs(
        f"This adds {code(profile.operation_name)} ({code(profile.functional_name)}, {code(profile.module_class_name)}): "
        f"{code(profile.forward_computation, 400)}. It was asked for {_origin(job, links)}.",
        _proof(update),
        f"### Kernel profile\n\n{profile_table(profile)}",
        folded("Reference", code_block(update.problem_source, "python")),
        "The bot pushes to this branch and never merges. A commit of yours on it stays, and stops the job until `/kernel retry`.",
        job_footer(job, links),
    )
    return signed(body, job.job_id, Kind.pull)


def _origin(job: JobView, links: Links) -> str:
    origin = job.request.origin
    if not origin.number:
        return "on the command line"
    number = f"in #{origin.number}"
    return f"{number} ({links.own('comment', origin.url)})" if origin.url else number


def _proof(update: PullRequestUpdate) -> str:
    verdict = update.verdict
    if verdict is None:
        return "**Not proved yet.** So far there is only the reference, inside of the test file."
    if verdict.status is not Status.passed:
        return paragraphs(f"**Not proved:** {verdict_words(verdict)}.", folded("Proof", verdict_section(verdict)))
    where = " in Triton's interpreter, which says nothing of speed" if verdict.interpreted else ""
    kernels = f" Its kernels: {', '.join(code(name, 80) for name in verdict.kernels[:8])}." if verdict.kernels else ""
    return paragraphs(
        f"**Proved{where}:** {verdict_words(verdict)}.{kernels}", folded("Proof", verdict_section(verdict))
    )
