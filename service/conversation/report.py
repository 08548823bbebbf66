"""The comment that ends a job. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from service.conversation.failures import details, next_line, stopped_line
from service.conversation.links import Links, link
from service.conversation.markdown import paragraphs
from service.conversation.markers import Kind, signed
from service.conversation.status import job_footer, left_behind, pull_link
from service.conversation.subject import again, measures, subject
from service.conversation.telling import after, sections, verdict
from service.escape import code, sentence
from workers.contracts import JobView, ReportUpdate


def report_comment(
    update: ReportUpdate,
    job: JobView,
    links: Links,
    image_urls: Mapping[str, str] | None = None,
    key: str | None = None,
    moved_to: str | None = None,
) -> str:
    """Give the comment that ends a job.

    ``image_urls`` are addresses by the images' names; ``key`` tells the ends of a job apart that was retried; ``moved_to`` is the
    head of the pull request where that is no longer the one that was looked at.
    """
    parts = _body(update, job, links, image_urls or {})
    body = paragraphs(parts[0], _moved(job, links, moved_to), *parts[1:], job_footer(job, links))
    return signed(body, job.job_id, Kind.report, key)


def cancelled_lines(job: JobView, by: str, why: str = "") -> str:
    """Give the two lines on a job that was cancelled, by a person or because of something else."""
    stays = "" if measures(job) else f"; {left_behind(job)}"
    if why:
        again_ = "`/kernel retry` goes on from where it was" if not measures(job) else f"{again(job)} starts afresh"
        return f"**{subject(job)} was ended:** {sentence(why)}{stays}.\n**Next:** nothing. {again_}."
    told = f"**{subject(job)} was cancelled** by {code(by)}{stays}."
    return f"{told}\n**Next:** nothing. `/kernel retry` goes on from where it was; a new {again(job)} starts afresh."


def _body(update: ReportUpdate, job: JobView, links: Links, image_urls: Mapping[str, str]) -> tuple[str, ...]:
    if update.cancelled_by is not None:
        return (cancelled_lines(job, update.cancelled_by, update.why),)
    if update.failure is not None:
        head = f"{stopped_line(update.failure, job)}\n{next_line(update.failure, job)}"
        found = sections(update.summary, job, image_urls) if update.summary else ""
        return head, details(update.failure), found
    if update.summary is None:
        merge = f"**Next:** merge {pull_link(job, links)} when you are content. The bot never merges."
        return (f"**{subject(job)} is done:** every checkpoint was approved.\n{merge}",)
    head = f"{verdict(update.summary, job)}\n**Next:** {after(update.summary, job, links)}"
    return head, sections(update.summary, job, image_urls)


def _moved(job: JobView, links: Links, moved_to: str | None) -> str:
    seen = job.request.head_sha
    if moved_to is None or seen is None or moved_to == seen:
        return ""
    old, new = (link(code(sha[:12]), links.commit(sha)) for sha in (seen, moved_to))
    return f"**The pull request has moved on:** this is about {old}, and its head is {new} now. {again(job)} looks at that one."
