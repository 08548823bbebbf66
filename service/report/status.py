"""The comment that follows a job, what a job is called, and why one stopped. Pure."""

from __future__ import annotations

from service.escape import code, code_block, inline, sentence
from service.report.layout import Links, MessageKind, bullets, counted, folded, link, paragraphs, signed, wait
from workers.contracts import (
    NOTIFIED_LOSSES,
    CloseUpdate,
    Failure,
    FailureCode,
    JobState,
    JobView,
    StageName,
    StageState,
    StageView,
    Verb,
)

MAX_NAMED = 6
MEASURING = (Verb.bench, Verb.verify)


def measures(job: JobView) -> bool:
    """Whether a job only compares, and pushes nothing."""
    return job.request.verb in (*MEASURING, Verb.nightly, Verb.bisect)


def decided_by_comment(job: JobView) -> bool:
    """Whether a checkpoint is decided by a command, since there is no commit of the bot's to review."""
    unpushed = job.request.read_only or job.request.verb in (Verb.optimize, Verb.tune)
    return job.pull_number is None and unpushed


def subject(job: JobView) -> str:
    """The kernel of a job, or what is compared."""
    request = job.request
    if not measures(job):
        return code(request.kernel)
    what = "this pull request" if request.origin.is_pull else "the default branch"
    if request.verb is Verb.bisect:
        return f"The bisection of {code(request.kernel)}"
    if request.verb is Verb.nightly and not request.kernels:
        return "The nightly run of the default branch"
    if request.kernels:
        more = len(request.kernels) - MAX_NAMED
        what = ", ".join(code(name) for name in request.kernels[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
    run = "nightly run" if request.verb is Verb.nightly else request.verb.value
    return f"The {run} of {what}"


def again(job: JobView) -> str:
    """The command that starts such a job afresh."""
    request = job.request
    if request.verb is Verb.bisect:
        ends = f"{request.commits[0].sha[:12]}..{request.commits[-1].sha[:12]}"
        return code(f"/kernel bisect {request.kernel} {ends}")
    return f"`/kernel {job.request.verb.value}`"


ICONS: dict[StageState, str] = {
    StageState.pending: "⬜",
    StageState.running: "⏳",
    StageState.waiting: "👀",
    StageState.done: "✅",
    StageState.revised: "🔁",
    StageState.failed: "❌",
    StageState.cancelled: "⏹️",
}
STAGE_WORDS: dict[StageName, str] = {
    StageName.analyze: "find and trace the problem, write the kernel profile",
    StageName.generate: "write the kernel and prove it against the reference",
    StageName.validate: "run the library's own checks and tests, benchmark, write the report",
    StageName.profile: "measure the existing kernel, read its source, list what to try",
    StageName.optimize: "try variants, each proved and measured against the existing kernel",
    StageName.finalize: "apply the winner, run the library's own checks and tests, write the report",
    StageName.modify: "ask a model for the change, prove it, run the library's whole test file",
    StageName.confirm: "prove and test the pushed commit again, measure it against the previous kernel, write the report",
    StageName.port: "read the API of the default operator, write its kernels for the target, prove values and gradients",
    StageName.route: "find and trace the model",
    StageName.extract: "cut it into parts that the compiler can write, judge the refactored program",
    StageName.dispatch: "prove each part",
    StageName.compose: "put the proved parts together, and prove the whole",
    StageName.measure: "find the touched kernels, and compare each on both commits",
    StageName.nightly: "measure every kernel, store the numbers, compare changes with the last good commit",
    StageName.bisect: "compare commits of the range with the good one, halving the range each time",
}


def status_comment(job: JobView, links: Links) -> str:
    """The whole status comment of a job, as the job is now."""
    body = paragraphs(_headline(job, links), _next(job), _checklist(job), _details(job), job_footer(job, links))
    return signed(body, job.job_id, MessageKind.status)


def job_line(job: JobView, links: Links) -> str:
    """A job's state in one line, for lists of jobs."""
    state = _STATE_WORDS[job.state].format(stage=current_stage(job))
    return f"{link(code(job.job_id), links.job_page)}: {code(job.request.kernel)}, {state}"


def short(sha: str | None) -> str:
    """A commit as people name it."""
    return code(sha[:12]) if sha else "its commit"


def pull_link(job: JobView, links: Links) -> str:
    """The job's pull request as a link, or in words before there is one."""
    if job.pull_number is None:
        return "the pull request"
    return link(f"pull request {job.pull_number}", links.pull(job.pull_number))


def current_stage(job: JobView) -> str:
    """The name of the stage that a job is in."""
    return job.stages[-1].stage.value if job.stages else job.pipeline[0].value


def job_footer(job: JobView, links: Links) -> str:
    """Who asked for what, and where to look."""
    asked = links.own("asked", job.request.origin.url)
    parts = [f"Job {link(code(job.job_id), links.job_page)}", f"{asked} for by {code(job.request.origin.author)}"]
    if job.pull_number is not None:
        parts.append(pull_link(job, links))
    return f"<sub>{' · '.join(parts)}</sub>"


_STATE_WORDS: dict[JobState, str] = {
    JobState.queued: "queued",
    JobState.running: "{stage} runs",
    JobState.waiting: "waits for a review of {stage}",
    JobState.done: "done",
    JobState.failed: "stopped in {stage}",
    JobState.cancelled: "cancelled",
}


def _headline(job: JobView, links: Links) -> str:
    kernel = subject(job)
    if job.state is JobState.failed and job.failure is not None:
        return stopped_line(job.failure, job)
    if job.state is JobState.waiting:
        where = f"review** on {pull_link(job, links)}" if job.pull_number is not None else "decision** here"
        return f"**{kernel}: {current_stage(job)} is done and waits for your {where}."
    if job.state is JobState.done:
        if measures(job):
            return f"**{kernel} is done**: see the report below."
        unchanged = "the report has the patch" if job.request.read_only else "nothing was changed"
        if closed(job):
            told = f"nothing is better than the existing kernel, and {pull_link(job, links)} is closed"
        else:
            told = f"see {pull_link(job, links)}" if job.pull_number is not None else unchanged
        return f"**{kernel} is done**: {told}."
    words = {JobState.queued: "is queued", JobState.cancelled: "was cancelled"}
    return f"**{kernel} {words.get(job.state, f'is in {current_stage(job)}')}.**"


def _next(job: JobView) -> str:
    if job.state is JobState.failed and job.failure is not None:
        return next_line(job.failure, job)
    if job.state is JobState.waiting:
        sha = job.checkpoint.sha if job.checkpoint else None
        if decided_by_comment(job):
            approve = code(f"/kernel approve {sha[:12]}") if sha else "`/kernel approve`"
            return f"**Next:** {approve} or `/kernel revise`; the checkpoint's comment says what each does."
        return f"**Next:** approve or request changes on commit {short(sha)}; the checkpoint's comment says what each does."
    if job.state is JobState.done and (measures(job) or job.pull_number is None or closed(job)):
        return "**Next:** nothing; the report explains the result."
    if job.state is JobState.done:
        return "**Next:** merge it when you are satisfied. The bot never merges."
    if job.state is JobState.cancelled:
        stays = "" if measures(job) else f" {left_behind(job)}."
        return f"**Next:** nothing;{stays} `/kernel retry` resumes it, a new {again(job)} starts over."
    return paragraphs(f"**Now:** {_now(job)}", _losses(job))


def _losses(job: JobView) -> str:
    if job.losses < NOTIFIED_LOSSES:
        return ""
    return (
        f"The host that worked on this was lost {job.losses} times. Finished work is kept, and the rest is retried with growing "
        "pauses, on any available host. Operators: look at the log of the workers, and at `dmesg` for memory and driver "
        "faults; if the work itself brings its hosts down, `/kernel cancel` ends it."
    )


def closed(job: JobView) -> bool:
    """Whether the bot closed the draft, since nothing came of the job."""
    return any(event.kind == "update_published" and event.text == CloseUpdate.__name__ for event in job.timeline)


def _now(job: JobView) -> str:
    if job.no_host_since is not None:
        return no_host(job)
    if job.queue_position is not None:
        place = "next in the queue" if job.queue_position <= 1 else f"number {job.queue_position} in the queue"
        expected = f", expected to start in {wait(job.expected_wait_s)}" if job.expected_wait_s is not None else ""
        return f"{place}{expected}."
    note = next((view.note for view in reversed(job.stages) if view.state is StageState.running and view.note), "")
    if note:
        return f"{inline(note)}."
    return "waiting for a worker." if job.state is JobState.queued else "working."


def left_behind(job: JobView) -> str:
    """Say what a job that ended early has left in the repository."""
    # What it pushed before it started over stands on a branch that it has forgotten.
    started_over = any(event.kind == "retried" for event in job.timeline)
    return "what was pushed stays" if job.head_sha or started_over else "nothing was pushed"


def no_host(job: JobView) -> str:
    """Say that a job waits for a GPU host, and what an operator and a maintainer can do about it."""
    kind = f"a host of {code(job.request.options.gpu)}" if job.request.options.gpu else "a GPU host"
    since = (job.no_host_since or "")[:16].replace("T", " ")
    why = "the GPU host that worked on this was lost, and no other has" if job.host_lost else "no GPU host has"
    if job.host_trouble is not None:
        return (
            f"no GPU host has taken it since {since} UTC, and one declined it, {code(job.host_trouble)}. Finished work is kept, "
            "and the job continues by itself once that is over, or another host is available. Operators: look at the log there; "
            "`/kernel cancel` ends it."
        )
    return (
        f"{why} taken it since {since} UTC. Finished work is kept, and the job continues by itself once a host is available. "
        f"Operators: start `kernelsmith work --only gpu` on {kind}, or look at `/readyz` and the log there; "
        "`/kernel cancel` ends it."
    )


def _checklist(job: JobView) -> str:
    return bullets([_stage_line(stage, [view for view in job.stages if view.stage is stage]) for stage in job.pipeline])


def _stage_line(stage: StageName, attempts: list[StageView]) -> str:
    if not attempts:
        return f"{ICONS[StageState.pending]} **{stage.value}**: {STAGE_WORDS[stage]}"
    last = attempts[-1]
    many = f" ({counted(len(attempts), 'attempt')})" if len(attempts) > 1 else ""
    told = STAGE_WORDS[stage]
    if last.state is StageState.running and last.note:
        told = inline(last.note)
    if last.state is StageState.failed and last.failure is not None:
        told = sentence(last.failure.message, 200)
    return f"{ICONS[last.state]} **{stage.value}**{many}: {told}"


def _details(job: JobView) -> str:
    return details(job.failure) if job.state is JobState.failed and job.failure is not None else ""


RETRY: dict[FailureCode, str] = {
    FailureCode.problem: (
        "`/kernel retry` reads the same problem again, which helps only if the file it came from has changed. "
        "Otherwise give a new {command} with the corrected problem."
    ),
    FailureCode.exists: "`/kernel retry` would be refused again. Give a new {command} with another name.",
    FailureCode.name: "`/kernel retry` would be refused again. Give a new {command} with another name.",
    FailureCode.layout: "Once the repository can be read that way, `/kernel retry` looks at it again.",
    FailureCode.refused: (
        "`/kernel retry` gives the same problem to the same author, so it helps only if one of them has changed. "
        "A problem with other operators needs a new {command}."
    ),
    FailureCode.verdict: "`/kernel retry` writes and proves the kernel again.",
    FailureCode.style: "`/kernel retry` runs {stage} again.",
    FailureCode.tests: "`/kernel retry` runs {stage} again, with a new set of attempts.",
    FailureCode.environment: "This says nothing about the kernel. `/kernel retry` runs {stage} again.",
    FailureCode.budget: "`/kernel retry` runs {stage} again; answers that it already has are not paid for again.",
    FailureCode.model: (
        "This says nothing about the kernel. `/kernel retry` runs {stage} again; answers that it already has are not paid for "
        "again."
    ),
    FailureCode.moved: "`/kernel retry` starts over from {base} as it is now, on a new branch.",
    FailureCode.attempts: "`/kernel retry` runs {stage} again.",
    FailureCode.missing: "Once it is there, `/kernel retry` starts over from {base} as it is then.",
    FailureCode.forbidden: "Once the permission is there, `/kernel retry` resumes {stage}.",
    FailureCode.internal: (
        "This is a fault of the bot, and its log has it under the job's id. `/kernel retry` runs {stage} again."
    ),
}


def stopped_line(failure: Failure, job: JobView) -> str:
    """The verdict on a failed job in one line."""
    return f"**{subject(job)} stopped in {failed_stage(job)}:** {reason(failure)}"


def reason(failure: Failure) -> str:
    """What is wrong, with the line where it is known; it ends with a full stop."""
    message = sentence(failure.message).rstrip(".")
    line = f" (line {failure.line})" if failure.line is not None and f"line {failure.line}" not in message else ""
    return f"{message}{line}."


def next_line(failure: Failure, job: JobView) -> str:
    """What a maintainer can do, and what a retry will do, in one line."""
    told_again = RETRY[failure.code].format(
        stage=failed_stage(job), base=code(job.request.base_ref), command=again(job)
    )
    fix = sentence(failure.fix) if failure.fix else ""
    # Where the fix speaks of it already, a second sentence would only say the same in other words.
    lines = [part for part in (fix, "" if "/kernel retry" in fix else told_again) if part]
    return f"**Next:** {' '.join(lines)}"


def details(failure: Failure) -> str:
    """What was tried, and the end of the log, folded."""
    tried = bullets([sentence(attempt) for attempt in failure.attempts])
    log = code_block(failure.log, "text") if failure.log and failure.log.strip() else ""
    return paragraphs(f"What was tried:\n\n{tried}" if tried else "", folded("Log", log))


def failed_stage(job: JobView) -> str:
    """The stage in which a job stopped, by name."""
    failed = [view.stage.value for view in job.stages if view.state is StageState.failed]
    if failed:
        return failed[-1]
    return job.stages[-1].stage.value if job.stages else job.pipeline[0].value
