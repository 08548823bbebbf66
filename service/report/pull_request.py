"""The text of a pull request and of its commits, with the trailer by which one is found again. Pure."""

from __future__ import annotations

import re

from gpu_runner.contracts import Status
from service.escape import clip, code, code_block, inline, plain, sentence
from service.report.benchmarks import benchmark_table, memory_table, overall_speedup
from service.report.create import profile_table
from service.report.fused import fused_sections, fused_verdict
from service.report.layout import Links, MessageKind, bullets, folded, paragraphs, ratio, signed
from service.report.modify import TITLES as CHANGE_TITLES
from service.report.modify import confirmed_verdict, files_table, modified_verdict, warning
from service.report.optimize import APPLIED_TITLES, finalized_verdict, lineage, variants_table
from service.report.port import ported_sections, ported_verdict
from service.report.status import job_footer
from service.report.verdicts import provenance_line, verdict_section, verdict_words
from workers.contracts import (
    CommitPurpose,
    CommitUpdate,
    ConfirmSummary,
    FinalizeSummary,
    JobView,
    KernelProfile,
    ModifySummary,
    PullRequestUpdate,
)

UPDATE = "Kernelsmith-Update"
_TRAILER = re.compile(r"[A-Za-z][A-Za-z-]*: \S.*")


def with_trailer(message: str, update_id: str) -> str:
    """A commit message that names the update it was made for, on its last line."""
    text = message.rstrip()
    body, _, last = text.rpartition("\n")
    gap = "\n" if body and _TRAILER.fullmatch(last) else "\n\n"
    return f"{text}{gap}{UPDATE}: {update_id}\n"


def is_commit_of(message: str, update_id: str) -> bool:
    """Whether a commit was made for an update; only its last line counts."""
    return message.rstrip().rpartition("\n")[2] == f"{UPDATE}: {update_id}"


SUBJECT_LIMIT = 72
MAX_PATHS = 30
SUBJECTS: dict[CommitPurpose, str] = {
    CommitPurpose.reference: "Add the reference of {kernel} and its tests",
    CommitPurpose.profile: "Add the profile of {kernel}",
    CommitPurpose.kernel: "Add the {kernel} kernel",
    CommitPurpose.revision: "Revise the {kernel} kernel",
    CommitPurpose.optimization: "Optimize the {kernel} kernel",
    CommitPurpose.modification: "Change the {kernel} kernel",
    CommitPurpose.port: "Port {kernel} to another device",
    CommitPurpose.composition: "Add {kernel}, composed of proved kernels",
    CommitPurpose.restoration: "Restore the {kernel} kernel",
    CommitPurpose.benchmark_data: "Add benchmark data of {kernel}",
}
REASONS: dict[CommitPurpose, str] = {
    CommitPurpose.reference: "It says what the kernel has to compute; the tests fail until the kernel is there.",
    CommitPurpose.profile: "It is here for review; the commit that optimizes the kernel removes it.",
    CommitPurpose.kernel: "Its values and gradients were proved against the reference before this commit.",
    CommitPurpose.revision: "It was proved against the reference again before this commit.",
    CommitPurpose.optimization: (
        "Its values and gradients were proved against the reference, and it was compared with the previous kernel."
    ),
    CommitPurpose.modification: (
        "Its values and gradients were proved against the reference, and the library's whole test file passes with it."
    ),
    CommitPurpose.port: "Its values and gradients were proved against the reference; the default operator is unchanged.",
    CommitPurpose.composition: "Its parts were proved before this commit, and its values and gradients as a whole.",
    CommitPurpose.restoration: "The variants failed the library's own checks, so the previous kernel is restored.",
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
    CommitPurpose.port: "feat",
    CommitPurpose.composition: "feat",
    CommitPurpose.restoration: "revert",
    CommitPurpose.benchmark_data: "test",
}


def conventional(kind: str, subject: str, job: JobView) -> str:
    """A subject as the repository wants it: with a type and the kernel as its scope where it asks for that."""
    if not job.request.options.conventional_commits:
        return subject
    return f"{kind}({plain(job.request.kernel, 40)}): {subject[:1].lower()}{subject[1:]}"


def commit_message(update: CommitUpdate, job: JobView) -> str:
    """Subject, body and trailers."""
    kernel = plain(job.request.kernel, 40)
    subject = SUBJECTS[update.purpose].format(kernel=kernel)
    subject = clip(conventional(TYPES[update.purpose], subject, job), SUBJECT_LIMIT)
    files = [f"- {'remove ' if change.text is None else ''}{plain(change.path, 200)}" for change in update.changes]
    if len(files) > MAX_PATHS:
        files = [*files[:MAX_PATHS], f"- and {len(files) - MAX_PATHS} more"]
    trailers = [f"Kernelsmith-Job: {plain(job.job_id)}", f"Kernelsmith-Stage: {update.stage.value} {update.attempt}"]
    return "\n\n".join([subject, REASONS[update.purpose], "\n".join(files), "\n".join(trailers)]) + "\n"


TITLE_LIMIT = 120
MAX_WORDS = 4_000


def pull_request_title(update: PullRequestUpdate, job: JobView) -> str:
    """The title."""
    kernel = plain(job.request.kernel, 64)
    if update.modification is not None:
        first = job.request.words.strip().partition("\n")[0]
        return clip(conventional("feat", f"Change {kernel}: {plain(first, 100)}", job), TITLE_LIMIT)
    if update.port is not None:
        return clip(conventional("feat", f"Port {kernel} to {plain(update.port.language, 40)}", job), TITLE_LIMIT)
    if update.fusion is not None:
        return clip(conventional("feat", f"Fuse {kernel}", job), TITLE_LIMIT)
    if update.profile is None:
        return clip(conventional("perf", f"Optimize {kernel}{_gain(update.optimization)}", job), TITLE_LIMIT)
    return clip(conventional("feat", f"Add {kernel}: {plain(update.profile.module_class_name, 64)}", job), TITLE_LIMIT)


def pull_request_body(update: PullRequestUpdate, job: JobView, links: Links) -> str:
    """The body: the profile of a new kernel, or what an optimization or a request changed, and the proof there is."""
    body = paragraphs(
        *_about(update, job, links),
        folded("Reference", code_block(update.problem_source, "python")),
        "The bot pushes to this branch and never merges. Commits of yours on it stay, and stop the job until `/kernel retry`.",
        job_footer(job, links),
    )
    return signed(body, job.job_id, MessageKind.pull)


def _about(update: PullRequestUpdate, job: JobView, links: Links) -> tuple[str, ...]:
    if update.modification is not None:
        return _changed(update.modification, update.confirmation, job, links)
    if update.port is not None:
        asked = f"Requested {_origin(job, links)}. The default operator is unchanged."
        return (f"{ported_verdict(update.port, job)}\n{asked}", ported_sections(update.port))
    if update.fusion is not None:
        told = f"{fused_verdict(update.fusion, job)}\nRequested {_origin(job, links)}."
        return (told, fused_sections(update.fusion, {}))
    if update.profile is not None:
        return _new(update, update.profile, job, links)
    return _optimized(update, job, links)


def _changed(change: ModifySummary, confirmed: ConfirmSummary | None, job: JobView, links: Links) -> tuple[str, ...]:
    told = confirmed_verdict(confirmed, job) if confirmed is not None else modified_verdict(change, job)
    return (
        f"{told}\n\nRequested {_origin(job, links)}, in these words:",
        code_block(job.request.words, "text", MAX_WORDS),
        warning(change),
        files_table(change),
        benchmark_table(confirmed.benchmark, CHANGE_TITLES) if confirmed is not None else "**Not measured yet.**",
        folded("Proof", verdict_section(confirmed.verdict if confirmed is not None else change.verdict)),
        provenance_line(confirmed.provenance) if confirmed is not None else "",
    )


def _new(update: PullRequestUpdate, profile: KernelProfile, job: JobView, links: Links) -> tuple[str, ...]:
    return (
        f"This adds {code(profile.operation_name)} ({code(profile.functional_name)}, {code(profile.module_class_name)}): "
        f"{code(profile.forward_computation, 400)}. Requested {_origin(job, links)}.",
        _proof(update),
        f"### Kernel profile\n\n{profile_table(profile)}",
    )


def _optimized(update: PullRequestUpdate, job: JobView, links: Links) -> tuple[str, ...]:
    kernel, summary = code(job.request.kernel), update.optimization
    asked = f"Requested {_origin(job, links)}. Only the kernel and its benchmark data are changed."
    if summary is None:
        page = code(f"optimization/{job.request.kernel}/profile.md", 200)
        return (
            f"This is to make {kernel} faster or smaller. {asked}",
            f"**Profiled so far:** {page} lists what bounds it and what will be tried. The kernel's commit removes it.",
        )
    winner = summary.winner
    changes = [f"({inline(v.title, 100)}): {sentence(v.notes.change)}" for v in lineage(winner, summary.variants)]
    told = f"**What was changed** {changes[0]}" if len(changes) == 1 else ""
    return (
        f"{finalized_verdict(summary, job)}\n{asked}",
        told or (paragraphs("**What was changed**, one on top of the other:", bullets(changes)) if changes else ""),
        benchmark_table(summary.benchmark, APPLIED_TITLES) if summary.benchmark is not None else "",
        folded("Peak memory", memory_table(summary.benchmark, APPLIED_TITLES) if summary.benchmark is not None else ""),
        folded("All variants", variants_table(summary.variants, winner.name if winner is not None else None)),
        folded("Proof", verdict_section(summary.verdict) if summary.verdict is not None else ""),
        provenance_line(summary.provenance),
    )


def _gain(summary: FinalizeSummary | None) -> str:
    benchmark = summary.benchmark if summary is not None and summary.applied else None
    mean = overall_speedup(benchmark.rows) if benchmark is not None and not benchmark.predicted else None
    return f": {ratio(mean)} as fast" if mean is not None else ""


def _origin(job: JobView, links: Links) -> str:
    origin = job.request.origin
    if not origin.number:
        return "on the command line"
    number = f"in #{origin.number}"
    return f"{number} ({links.own('comment', origin.url)})" if origin.url else number


def _proof(update: PullRequestUpdate) -> str:
    verdict = update.verdict
    if verdict is None:
        return "**Not proved yet.** So far there is only the reference, in the test file."
    if verdict.status is not Status.passed:
        return paragraphs(f"**Not proved:** {verdict_words(verdict)}.", folded("Proof", verdict_section(verdict)))
    where = " in Triton's interpreter, which says nothing about speed" if verdict.interpreted else ""
    kernels = f" Its kernels: {', '.join(code(name, 80) for name in verdict.kernels[:8])}." if verdict.kernels else ""
    return paragraphs(
        f"**Proved{where}:** {verdict_words(verdict)}.{kernels}", folded("Proof", verdict_section(verdict))
    )
