"""Title and body of the pull request. Pure."""

from __future__ import annotations

from gpu_runner.contracts import Status
from service.conversation.benchmark_table import benchmark_table, memory_table
from service.conversation.commits import conventional
from service.conversation.comparisons import overall_speedup
from service.conversation.finalized import TITLES, finalized_verdict
from service.conversation.links import Links
from service.conversation.markdown import bullets, folded, paragraphs
from service.conversation.markers import Kind, signed
from service.conversation.modified import TITLES as CHANGE_TITLES
from service.conversation.modified import confirmed_verdict, files_table, modified_verdict, warning
from service.conversation.profile_table import profile_table
from service.conversation.quantities import ratio
from service.conversation.status import job_footer
from service.conversation.validated import provenance_line
from service.conversation.variants import lineage, variants_table
from service.conversation.verdicts import verdict_section, verdict_words
from service.escape import clip, code, code_block, inline, plain, sentence
from workers.contracts import ConfirmSummary, FinalizeSummary, JobView, KernelProfile, ModifySummary, PullRequestUpdate

TITLE_LIMIT = 120
MAX_WORDS = 4_000


def pull_request_title(update: PullRequestUpdate, job: JobView) -> str:
    """Give the title."""
    kernel = plain(job.request.kernel, 64)
    if update.modification is not None:
        first = job.request.words.strip().partition("\n")[0]
        return clip(conventional("feat", f"Change {kernel}: {plain(first, 100)}", job), TITLE_LIMIT)
    if update.profile is None:
        return clip(conventional("perf", f"Optimize {kernel}{_gain(update.optimization)}", job), TITLE_LIMIT)
    return clip(conventional("feat", f"Add {kernel}: {plain(update.profile.module_class_name, 64)}", job), TITLE_LIMIT)


def pull_request_body(update: PullRequestUpdate, job: JobView, links: Links) -> str:
    """Give the body: the profile of a new kernel, or what an optimization or a request changed, and the proof there is."""
    body = paragraphs(
        *_about(update, job, links),
        folded("Reference", code_block(update.problem_source, "python")),
        "The bot pushes to this branch and never merges. A commit of yours on it stays, and stops the job until `/kernel retry`.",
        job_footer(job, links),
    )
    return signed(body, job.job_id, Kind.pull)


def _about(update: PullRequestUpdate, job: JobView, links: Links) -> tuple[str, ...]:
    if update.modification is not None:
        return _changed(update.modification, update.confirmation, job, links)
    if update.profile is not None:
        return _new(update, update.profile, job, links)
    return _optimized(update, job, links)


def _changed(change: ModifySummary, confirmed: ConfirmSummary | None, job: JobView, links: Links) -> tuple[str, ...]:
    told = confirmed_verdict(confirmed, job) if confirmed is not None else modified_verdict(change, job)
    return (
        f"{told}\n\nIt was asked for {_origin(job, links)}, in these words:",
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
        f"{code(profile.forward_computation, 400)}. It was asked for {_origin(job, links)}.",
        _proof(update),
        f"### Kernel profile\n\n{profile_table(profile)}",
    )


def _optimized(update: PullRequestUpdate, job: JobView, links: Links) -> tuple[str, ...]:
    kernel, found = code(job.request.kernel), update.optimization
    asked = f"It was asked for {_origin(job, links)}. Only the kernel and its benchmark data are changed."
    if found is None:
        page = code(f"optimization/{job.request.kernel}/profile.md", 200)
        return (
            f"This is to make {kernel} faster or smaller. {asked}",
            f"**Profiled so far:** {page} says what bounds it and what is tried. It goes again with the kernel's commit.",
        )
    winner = found.winner
    changes = [f"({inline(v.title, 100)}): {sentence(v.notes.change)}" for v in lineage(winner, found.variants)]
    told = f"**What was changed** {changes[0]}" if len(changes) == 1 else ""
    return (
        f"{finalized_verdict(found, job)}\n{asked}",
        told or (paragraphs("**What was changed**, one on top of the other:", bullets(changes)) if changes else ""),
        benchmark_table(found.benchmark, TITLES) if found.benchmark is not None else "",
        folded("Peak memory", memory_table(found.benchmark, TITLES) if found.benchmark is not None else ""),
        folded("All variants", variants_table(found.variants, winner.name if winner is not None else None)),
        folded("Proof", verdict_section(found.verdict) if found.verdict is not None else ""),
        provenance_line(found.provenance),
    )


def _gain(found: FinalizeSummary | None) -> str:
    benchmark = found.benchmark if found is not None and found.applied else None
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
        return "**Not proved yet.** So far there is only the reference, inside of the test file."
    if verdict.status is not Status.passed:
        return paragraphs(f"**Not proved:** {verdict_words(verdict)}.", folded("Proof", verdict_section(verdict)))
    where = " in Triton's interpreter, which says nothing of speed" if verdict.interpreted else ""
    kernels = f" Its kernels: {', '.join(code(name, 80) for name in verdict.kernels[:8])}." if verdict.kernels else ""
    return paragraphs(
        f"**Proved{where}:** {verdict_words(verdict)}.{kernels}", folded("Proof", verdict_section(verdict))
    )
