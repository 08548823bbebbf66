"""The report of a verify: whether each kernel computes what its problem says. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_runner.contracts import Check, Status, Verdict
from service.escape import code, inline, sentence
from service.report.layout import DASH, Links, bullets, counted, paragraphs, pictures, small, table
from service.report.measure import compared_line, is_wrong, kernel_details, skipped_list
from service.report.verdicts import Conclusion, interpreted_words, provenance_line, repetition, verdict_words
from workers.contracts import JobView, MeasuredKernel, MeasureSummary

MAX_NAMED = 5
MAX_ROWS = 64
LONGEST_COMMAND = 4000
HEADER = ("kernel", "verdict", "checks", "largest error", "allowed", "on")


def proved_verdict(summary: MeasureSummary, _job: JobView) -> str:
    """The overall verdict in one line."""
    judged = _judged(summary)
    wrong = [kernel for kernel in judged if is_wrong(kernel)]
    if not summary.kernels:
        return "**This change touches no kernel:** nothing was proved."
    if wrong:
        text = "; ".join(f"{code(k.kernel)}: {verdict_words(k.verdict)}" for k in wrong[:MAX_NAMED] if k.verdict)
        more = f" and {len(wrong) - MAX_NAMED} more" if len(wrong) > MAX_NAMED else ""
        is_or_are = "is" if len(wrong) == 1 else "are"
        return f"**{len(wrong)} of {counted(len(judged), 'kernel')} {is_or_are} wrong:** {text}{more}."
    passed = _passed(summary)
    if not passed:
        return "**Nothing could be proved:** the reasons are below."
    where = " in Triton's interpreter" if any(k.verdict and k.verdict.interpreted for k in passed) else ""
    left = len(summary.kernels) - len(passed)
    rest = f" {counted(left, 'kernel')} could not be judged." if left else ""
    return f"**{counted(len(passed), 'kernel')} proved{where}:** values and gradients match the references.{rest}"


def proved_after(summary: MeasureSummary, job: JobView, _links: Links) -> str:
    """What a maintainer does next."""
    if not summary.kernels:
        return "nothing, or name the kernels that should be proved: `/kernel verify NAME`."
    wrong = [kernel for kernel in summary.kernels if is_wrong(kernel)]
    if wrong:
        return f"fix {', '.join(code(kernel.kernel) for kernel in wrong[:MAX_NAMED])}; the evidence is below."
    if len(_passed(summary)) < len(summary.kernels):
        return "see below what was not judged and why."
    if any(kernel.verdict and kernel.verdict.interpreted for kernel in summary.kernels):
        return "nothing; values are no obstacle to merging."
    against = job.request.options.against
    words = ["/kernel bench", *job.request.kernels, *(["--against", against] if against else [])]
    return f"{code(' '.join(words), LONGEST_COMMAND)} compares the times; values are no obstacle to merging."


def proved_conclusion(summary: MeasureSummary) -> Conclusion:
    """How the check ends."""
    if any(is_wrong(kernel) for kernel in summary.kernels):
        return Conclusion.failure
    all_passed = summary.kernels and len(_passed(summary)) == len(summary.kernels)
    return Conclusion.success if all_passed else Conclusion.neutral


def proved_sections(summary: MeasureSummary, job: JobView, image_urls: Mapping[str, str]) -> str:
    """The report below its verdict: a row a kernel, then the rest folded."""
    rows = [_row(kernel, kernel.verdict) for kernel in _judged(summary)[:MAX_ROWS] if kernel.verdict]
    interpreted = [kernel.verdict for kernel in summary.kernels if kernel.verdict and kernel.verdict.interpreted]
    return paragraphs(
        table(HEADER, rows, numeric=(3, 4)),
        "\n".join(dict.fromkeys(map(interpreted_words, interpreted))),
        skipped_list(summary),
        bullets([sentence(note) for note in summary.notes]),
        pictures(summary.images, image_urls),
        *(kernel_details(kernel) for kernel in summary.kernels),
        compared_line(summary, job),
        provenance_line(summary.provenance),
        repetition(summary.reproduce, "a checkout of the head commit"),
    )


def _judged(summary: MeasureSummary) -> tuple[MeasuredKernel, ...]:
    return tuple(kernel for kernel in summary.kernels if kernel.verdict is not None)


def _passed(summary: MeasureSummary) -> tuple[MeasuredKernel, ...]:
    return tuple(k for k in summary.kernels if k.verdict is not None and k.verdict.status is Status.passed)


def _row(kernel: MeasuredKernel, verdict: Verdict) -> tuple[str, ...]:
    passed = sum(check.passed for check in verdict.checks)
    worst = max(verdict.checks, key=_share, default=None)
    words = verdict_words(verdict) if verdict.status is Status.passed else f"**{verdict_words(verdict)}**"
    return (
        code(kernel.kernel),
        words,
        f"{passed} of {len(verdict.checks)}",
        small(worst.error) if worst else DASH,
        small(worst.allowed) if worst else DASH,
        code(worst.workload, 80) if worst else inline("nothing was run"),
    )


def _share(check: Check) -> tuple[bool, float]:
    share = check.error / check.allowed if check.error is not None and check.allowed else check.error or 0.0
    return not check.passed, share
