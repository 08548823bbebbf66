"""What a job is about, as its messages name it. Pure."""

from __future__ import annotations

from service.escape import code
from workers.contracts import JobView, Verb

MAX_NAMED = 6
MEASURING = (Verb.bench, Verb.verify)


def measures(job: JobView) -> bool:
    """Tell whether a job only compares, and pushes nothing."""
    return job.request.verb in (*MEASURING, Verb.nightly)


def decided_by_comment(job: JobView) -> bool:
    """Tell whether a checkpoint is decided by a command, since there is no commit of the bot's to review."""
    unpushed = job.request.read_only or job.request.verb in (Verb.optimize, Verb.tune)
    return job.pull_number is None and unpushed


def subject(job: JobView) -> str:
    """Give the kernel of a job, or what is compared."""
    request = job.request
    if not measures(job):
        return code(request.kernel)
    what = "this pull request" if request.origin.is_pull else "the default branch"
    if request.verb is Verb.nightly and not request.kernels:
        return "The nightly run of the default branch"
    if request.kernels:
        more = len(request.kernels) - MAX_NAMED
        what = ", ".join(code(name) for name in request.kernels[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
    run = "nightly run" if request.verb is Verb.nightly else request.verb.value
    return f"The {run} of {what}"


def again(job: JobView) -> str:
    """Give the command that starts such a job afresh."""
    return f"`/kernel {job.request.verb.value}`"
