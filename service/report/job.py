"""The comments that ask for a review and end a job, and the check run beside them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.escape import clip, code, inline, plain, sentence
from service.report.layout import Links, MessageKind, bullets, fit, link, paragraphs, signed
from service.report.status import (
    again,
    decided_by_comment,
    details,
    job_footer,
    left_behind,
    measures,
    next_line,
    pull_link,
    stopped_line,
    subject,
)
from service.report.summaries import after, conclusion, sections, verdict
from service.report.verdicts import Conclusion
from workers.contracts import (
    AnalyzeSummary,
    CheckpointUpdate,
    FinalizeSummary,
    JobView,
    MeasureSummary,
    OptimizeSummary,
    ProfileSummary,
    ReminderUpdate,
    ReportUpdate,
    StageName,
    Verb,
)

MAX_ATTEMPTS = 5
MERGE = "the job ends, and the pull request is yours to merge"
ENDS = "the job ends with its report, and nothing is changed"
AFTERWARDS: dict[StageName, str] = {
    StageName.analyze: "the kernel is written and proved",
    StageName.generate: "the library's tests and the benchmark run",
    StageName.validate: MERGE,
    StageName.profile: "the strategies are tried in this order, each proved and measured against v0",
    StageName.optimize: "the winner is applied, and the library's whole test file and style check run on it",
    StageName.finalize: MERGE,
    StageName.modify: "the change is proved and tested again, and measured against the previous kernel",
    StageName.confirm: MERGE,
    StageName.port: MERGE,
    StageName.route: "the model is cut into parts",
    StageName.extract: "the parts are proved, and a program is composed of them and proved as a whole",
    StageName.dispatch: "the program is composed, and proved as a whole",
    StageName.compose: "the test of the whole runs in the library, and the whole is timed where a GPU is there",
    StageName.measure: "the job ends",
    StageName.nightly: "the job ends",
    StageName.bisect: "the job ends",
}
AGAIN: dict[StageName, str] = {
    StageName.analyze: "the analysis runs again; a Python block in the review replaces the problem",
    StageName.generate: "the kernel is written and proved again, with your comments as feedback",
    StageName.validate: "tests, benchmark and report run again, with your comments as feedback",
    StageName.profile: "the profile runs again; a Python block in your words replaces the problem",
    StageName.optimize: "`use v2` takes that variant instead, unless it is wrong or breaks a guardrail",
    StageName.finalize: "tests, benchmark and report run again, with your comments as feedback",
    StageName.modify: "the change is made again, with your comments answered point by point",
    StageName.confirm: "proof, tests, benchmark and report run again; another change needs a new `/kernel modify`",
    StageName.port: "the port is written and proved again; comments do not change it",
    StageName.route: "the model is traced again",
    StageName.extract: "`keep 3 and 4 together` or `leave 2 to torch` changes the cut, which is shown again",
    StageName.dispatch: "the parts are proved again",
    StageName.compose: "the same parts are composed again; another cut needs a new `/kernel fuse`",
    StageName.measure: "it is measured again",
    StageName.nightly: "what is left is measured",
    StageName.bisect: "it is searched again",
}

IN_WORDS = "other words go to a model, which writes one more variant and answers each point"


def checkpoint_comment(
    update: CheckpointUpdate,
    job: JobView,
    links: Links,
    image_urls: Mapping[str, str] | None = None,
    sha: str | None = None,
) -> str:
    """What a reviewer decides on.

    ``image_urls`` are addresses by the images' names, ``sha`` the commit that is decided on where it is known better than
    from the job.
    """
    sha = sha or checkpoint_sha(update, job)
    body = paragraphs(
        f"{verdict(update.summary, job)}\n{_next(update, job, links, sha)}",
        sections(update.summary, job, image_urls or {}),
        _how(update, job, sha) if asks(update) else "",
        job_footer(job, links),
    )
    return signed(body, job.job_id, MessageKind.checkpoint, f"{update.stage.value}-{update.attempt}")


def reminder_comment(update: ReminderUpdate, job: JobView, links: Links) -> str:
    """The comment that says once that a checkpoint still waits."""
    sha = job.checkpoint.sha if job.checkpoint else None
    approve = code(f"/kernel approve {sha[:12]}") if sha else "`/kernel approve`"
    ends = (
        f" Without a decision the job ends on {inline(update.ends[:10])}; what was pushed stays." if update.ends else ""
    )
    body = paragraphs(
        f"**{code(job.request.kernel)}: {update.stage.value} has waited for a decision since {inline(update.since[:10])}.**{ends}\n"
        f"**Next:** {approve}, `/kernel revise` with what should change, or `/kernel cancel`.",
        job_footer(job, links),
    )
    return signed(body, job.job_id, MessageKind.reminder, f"{update.stage.value}-{update.attempt}")


def checkpoint_sha(update: CheckpointUpdate, job: JobView) -> str | None:
    """The commit that a checkpoint's review is about; before an optimize has made one, the commit that it starts from."""
    view = job.checkpoint
    named = view.sha if view and (view.stage, view.attempt) == (update.stage, update.attempt) else None
    if named or job.head_sha:
        return named or job.head_sha
    return job.request.base_sha if decided_by_comment(job) else None


def asks(update: CheckpointUpdate) -> bool:
    """Whether anybody is asked: with ``--auto`` nobody is, nor where there is nothing to choose between."""
    return update.decides and not _settled(update)


def _settled(update: CheckpointUpdate) -> bool:
    summary = update.summary
    nothing = isinstance(summary, ProfileSummary) and summary.nothing_to_gain
    return nothing or (isinstance(summary, OptimizeSummary) and summary.winner is None)


def afterwards(update: CheckpointUpdate) -> str:
    """What follows an approval."""
    summary = update.summary
    if isinstance(summary, ProfileSummary) and summary.nothing_to_gain:
        return ENDS
    if isinstance(summary, OptimizeSummary):
        if summary.winner is None:
            return ENDS
        return AFTERWARDS[update.stage].replace("the winner", code(summary.winner, 20))
    if isinstance(summary, FinalizeSummary) and not summary.applied:
        return ENDS
    return AFTERWARDS[update.stage]


def _again(update: CheckpointUpdate) -> str:
    reads = isinstance(update.summary, OptimizeSummary) and update.summary.reads_words
    return f"{AGAIN[update.stage]}; {IN_WORDS}" if reads else AGAIN[update.stage]


def _next(update: CheckpointUpdate, job: JobView, links: Links, sha: str | None) -> str:
    if not asks(update):
        auto = "" if _settled(update) or job.request.verb is Verb.tune else ". With `--auto` nobody is asked"
        return f"**Next:** nothing to do{auto}; {afterwards(update)}."
    if sha is not None and decided_by_comment(job):
        # There is no commit to review yet; the one that is named says which source was looked at.
        approve = code(f"/kernel approve {sha[:12]}")
        return f"**Next:** look at it, and reply {approve} here, or `/kernel revise` with what should change."
    commit = link(code(sha[:12]), links.commit(sha)) if sha else "its commit"
    return f"**Next:** review {commit} on {pull_link(job, links)}, and approve it or request changes."


def _how(update: CheckpointUpdate, job: JobView, sha: str | None) -> str:
    left = MAX_ATTEMPTS - update.attempt
    bound = f"This was attempt {update.attempt} of {MAX_ATTEMPTS}." if left > 0 else "This was the last attempt."
    after, again = f"{afterwards(update)}.", f"{_again(update)}. {bound}"
    if sha is not None and decided_by_comment(job):
        return bullets([f"{code(f'/kernel approve {sha[:12]}')}: {after}", f"`/kernel revise`: {again}"])
    points = [f"**Approve**: {after}", f"**Request changes**: {again}"]
    if sha and not measures(job):
        approve = code(f"/kernel approve {sha[:12]}")
        points.append(f"If GitHub does not let you review: {approve}, or `/kernel revise` with what should change.")
    return bullets(points)


def report_comment(
    update: ReportUpdate,
    job: JobView,
    links: Links,
    image_urls: Mapping[str, str] | None = None,
    moved_to: str | None = None,
) -> str:
    """The comment that ends a job.

    ``image_urls`` are addresses by the images' names; ``moved_to`` is the head of the pull request where that is no longer the one
    that was looked at.
    """
    parts = _body(update, job, links, image_urls or {})
    body = paragraphs(parts[0], _moved(job, links, moved_to), *parts[1:], job_footer(job, links))
    return signed(body, job.job_id, MessageKind.report)


def cancelled_lines(job: JobView, by: str, why: str = "") -> str:
    """The two lines on a job that was cancelled, by a person or because of something else."""
    stays = "" if measures(job) else f"; {left_behind(job)}"
    if why:
        again_ = "`/kernel retry` resumes it" if not measures(job) else f"{again(job)} starts over"
        return f"**{subject(job)} was ended:** {sentence(why)}{stays}.\n**Next:** nothing. {again_}."
    text = f"**{subject(job)} was cancelled** by {code(by)}{stays}."
    return f"{text}\n**Next:** nothing. `/kernel retry` resumes it; a new {again(job)} starts over."


def _body(update: ReportUpdate, job: JobView, links: Links, image_urls: Mapping[str, str]) -> tuple[str, ...]:
    if update.cancelled_by is not None:
        return (cancelled_lines(job, update.cancelled_by, update.why),)
    if update.failure is not None:
        head = f"{stopped_line(update.failure, job)}\n{next_line(update.failure, job)}"
        shown = sections(update.summary, job, image_urls) if update.summary else ""
        return head, details(update.failure), shown
    if update.summary is None:
        merge = f"**Next:** merge {pull_link(job, links)} when you are satisfied. The bot never merges."
        return (f"**{subject(job)} is done:** every checkpoint was approved.\n{merge}",)
    head = f"{verdict(update.summary, job)}\n**Next:** {after(update.summary, job, links)}"
    return head, sections(update.summary, job, image_urls)


def _moved(job: JobView, links: Links, moved_to: str | None) -> str:
    seen = job.request.head_sha
    if moved_to is None or seen is None or moved_to == seen:
        return ""
    old, new = (link(code(sha[:12]), links.commit(sha)) for sha in (seen, moved_to))
    return f"**The pull request has changed:** this is about {old}, and its head is now {new}. {again(job)} runs on the new head."


NAME = "Kernelsmith"
TITLE_LIMIT = 120
TITLES = {Conclusion.success: "passed", Conclusion.failure: "failed", Conclusion.neutral: "done"}
SUMMARY_LIMIT = 65_000  # Source: https://docs.github.com/en/rest/checks/runs, 65535 characters


@dataclass(frozen=True)
class CheckRunOutput:
    """The texts and the conclusion; ``title`` is plain text, ``summary`` markdown."""

    name: str
    title: str
    summary: str
    conclusion: Conclusion


def check_run_output(update: CheckpointUpdate | ReportUpdate, job: JobView) -> CheckRunOutput:
    """What the check run on the head commit says after an update."""
    if isinstance(update, CheckpointUpdate):
        title, summary, conclusion = _checkpoint(update, job)
    else:
        title, summary, conclusion = _report(update, job)
    return CheckRunOutput(NAME, clip(title, TITLE_LIMIT), fit(summary, limit=SUMMARY_LIMIT), conclusion)


def _checkpoint(update: CheckpointUpdate, job: JobView) -> tuple[str, str, Conclusion]:
    # A check run is never edited, so its title says nothing that a review changes, such as what waits.
    told, stage, ends = verdict(update.summary, job), update.stage.value, conclusion(update.summary, job)
    if isinstance(update.summary, AnalyzeSummary):
        return f"{stage}: the problem is understood", told, ends
    title = TITLES[ends] if not isinstance(update.summary, ProfileSummary) else "the kernel is measured"
    return f"{stage}: {title}", paragraphs(told, sections(update.summary, job, {})), ends


def _report(update: ReportUpdate, job: JobView) -> tuple[str, str, Conclusion]:
    if update.cancelled_by is not None:
        return "Cancelled", "The job was cancelled; what was pushed stays.", Conclusion.cancelled
    if update.failure is not None:
        text = paragraphs(stopped_line(update.failure, job), next_line(update.failure, job), details(update.failure))
        return f"Stopped: {plain(update.failure.message, 100)}", text, Conclusion.failure
    if update.summary is None:
        return "Done", "Every checkpoint was approved.", Conclusion.success
    text = paragraphs(verdict(update.summary, job), sections(update.summary, job, {}))
    if not isinstance(update.summary, MeasureSummary):
        # What stands against a merge was told at the checkpoint, and a person approved it all the same.
        return "Done", text, Conclusion.success
    ends = conclusion(update.summary, job)
    return f"{job.request.verb.value}: {TITLES[ends]}", text, ends
