"""Commit messages. Pure."""

from __future__ import annotations

from service.escape import clip, plain
from workers.contracts import CommitPurpose, CommitUpdate, JobView

SUBJECT_LIMIT = 72
MAX_PATHS = 30
SUBJECTS: dict[CommitPurpose, str] = {
    CommitPurpose.reference: "Add the reference of {kernel} and its tests",
    CommitPurpose.profile: "Add the profile of {kernel}",
    CommitPurpose.kernel: "Add the {kernel} kernel",
    CommitPurpose.revision: "Revise the {kernel} kernel",
    CommitPurpose.optimization: "Optimize the {kernel} kernel",
    CommitPurpose.modification: "Change the {kernel} kernel",
    CommitPurpose.restoration: "Restore the {kernel} kernel",
    CommitPurpose.benchmark_data: "Add benchmark data of {kernel}",
}
REASONS: dict[CommitPurpose, str] = {
    CommitPurpose.reference: "It says what the kernel has to compute; the tests fail until the kernel is there.",
    CommitPurpose.profile: "It is there to be reviewed, and goes again with the commit that optimizes the kernel.",
    CommitPurpose.kernel: "Its values and gradients were proved against the reference before this commit.",
    CommitPurpose.revision: "It was proved against the reference again before this commit.",
    CommitPurpose.optimization: (
        "Its values and gradients were proved against the reference, and it was compared with what stood before."
    ),
    CommitPurpose.modification: (
        "Its values and gradients were proved against the reference, and the library's whole test file passes with it."
    ),
    CommitPurpose.restoration: "What was tried did not pass the library's own checks, so what stood before stands again.",
    CommitPurpose.benchmark_data: "Measured by the library's own benchmark script.",
}


# Source: https://www.conventionalcommits.org/en/v1.0.0/
TYPES: dict[CommitPurpose, str] = {
    CommitPurpose.reference: "test",
    CommitPurpose.profile: "docs",
    CommitPurpose.kernel: "feat",
    CommitPurpose.revision: "fix",
    CommitPurpose.optimization: "perf",
    CommitPurpose.modification: "feat",
    CommitPurpose.restoration: "revert",
    CommitPurpose.benchmark_data: "test",
}


def conventional(kind: str, subject: str, job: JobView) -> str:
    """Give a subject as the repository wants it: with a type and the kernel as its scope where it asks for that."""
    if not job.request.options.conventional_commits:
        return subject
    return f"{kind}({plain(job.request.kernel, 40)}): {subject[:1].lower()}{subject[1:]}"


def commit_message(update: CommitUpdate, job: JobView) -> str:
    """Give subject, body and trailers."""
    kernel = plain(job.request.kernel, 40)
    subject = SUBJECTS[update.purpose].format(kernel=kernel)
    subject = clip(conventional(TYPES[update.purpose], subject, job), SUBJECT_LIMIT)
    files = [f"- {'remove ' if change.text is None else ''}{plain(change.path, 200)}" for change in update.changes]
    if len(files) > MAX_PATHS:
        files = [*files[:MAX_PATHS], f"- and {len(files) - MAX_PATHS} more"]
    trailers = [f"Kernelsmith-Job: {plain(job.job_id)}", f"Kernelsmith-Stage: {update.stage.value} {update.attempt}"]
    return "\n\n".join([subject, REASONS[update.purpose], "\n".join(files), "\n".join(trailers)]) + "\n"
