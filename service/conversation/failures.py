"""Why something cannot go on, what to do about it, and what ``/kernel retry`` will do. Pure."""

from __future__ import annotations

from service.conversation.markdown import bullets, folded, paragraphs
from service.conversation.subject import again, subject
from service.escape import code, code_block, sentence
from workers.contracts import Failure, FailureCode, JobView, StageState

RETRY: dict[FailureCode, str] = {
    FailureCode.problem: (
        "`/kernel retry` reads the same problem again, which helps only if the file it came from has changed. "
        "Otherwise give a new {command} with the corrected problem."
    ),
    FailureCode.exists: "`/kernel retry` would be refused again. Give a new {command} with another name.",
    FailureCode.name: "`/kernel retry` would be refused again. Give a new {command} with another name.",
    FailureCode.layout: "Once the repository can be read that way, `/kernel retry` looks at it again.",
    FailureCode.refused: (
        "`/kernel retry` asks the same author about the same problem, so it helps only if one of them has changed. "
        "A problem in other operators needs a new {command}."
    ),
    FailureCode.verdict: "`/kernel retry` has the kernel written and proved again.",
    FailureCode.style: "`/kernel retry` runs {stage} again.",
    FailureCode.tests: "`/kernel retry` runs {stage} again, with a new set of attempts.",
    FailureCode.environment: "This says nothing about the kernel. `/kernel retry` runs {stage} again.",
    FailureCode.budget: "`/kernel retry` runs {stage} again; what the models have answered in it is not paid for again.",
    FailureCode.model: (
        "This says nothing about the kernel. `/kernel retry` runs {stage} again; what the models have answered in it is not "
        "paid for again."
    ),
    FailureCode.moved: "`/kernel retry` starts over from {base} as it is now, on a branch of its own.",
    FailureCode.attempts: "`/kernel retry` runs {stage} again.",
    FailureCode.missing: "Once it is there, `/kernel retry` starts over from {base} as it is then.",
    FailureCode.forbidden: "Once the permission is there, `/kernel retry` goes on from {stage}.",
    FailureCode.internal: (
        "This is a fault of the bot, and its log has it under the job's id. `/kernel retry` runs {stage} again."
    ),
}


def stopped_line(failure: Failure, job: JobView) -> str:
    """Give the verdict on a failed job in one line."""
    return f"**{subject(job)} stopped in {failed_stage(job)}:** {reason(failure)}"


def reason(failure: Failure) -> str:
    """Give what is wrong, with the line where it is known; it ends with a full stop."""
    message = sentence(failure.message).rstrip(".")
    line = f" (line {failure.line})" if failure.line is not None and f"line {failure.line}" not in message else ""
    return f"{message}{line}."


def next_line(failure: Failure, job: JobView) -> str:
    """Give what a maintainer can do, and what a retry will do, in one line."""
    told_again = RETRY[failure.code].format(
        stage=failed_stage(job), base=code(job.request.base_ref), command=again(job)
    )
    cure = sentence(failure.cure) if failure.cure else ""
    # Where the cure speaks of it already, a second sentence would only say the same in other words.
    told = [part for part in (cure, "" if "/kernel retry" in cure else told_again) if part]
    return f"**Next:** {' '.join(told)}"


def details(failure: Failure) -> str:
    """Give what was tried, and the end of the log, folded."""
    tried = bullets([sentence(attempt) for attempt in failure.attempts])
    log = code_block(failure.log, "text") if failure.log and failure.log.strip() else ""
    return paragraphs(f"What was tried:\n\n{tried}" if tried else "", folded("Log", log))


def failed_stage(job: JobView) -> str:
    """Give the stage in which a job stopped, by name."""
    failed = [view.stage.value for view in job.stages if view.state is StageState.failed]
    if failed:
        return failed[-1]
    return job.stages[-1].stage.value if job.stages else job.pipeline[0].value
