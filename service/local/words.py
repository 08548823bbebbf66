"""What is told at a terminal about a job that stopped, in words of the command line. Pure."""

from __future__ import annotations

from service.escape import sentence
from service.report.layout import paragraphs
from service.report.status import details, failed_stage, stopped_line
from workers.contracts import Failure, FailureCode, JobView

REFUSALS = frozenset(
    {
        FailureCode.problem,
        FailureCode.exists,
        FailureCode.missing,
        FailureCode.name,
        FailureCode.layout,
        FailureCode.refused,
    }
)
# What a comment on GitHub would say, and what stands for it on the command line.
COMMANDS = (
    ("`/kernel retry`", "the same command"),
    ("`/kernel create", "`kernelsmith create"),
    ("`/kernel optimize", "`kernelsmith optimize"),
    ("`/kernel modify", "`kernelsmith modify"),
    ("`/kernel bench", "`kernelsmith compare"),
    ("`/kernel verify", "`kernelsmith compare --verify"),
    ("`/kernel nightly", "`kernelsmith nightly"),
)


def as_commands(text: str) -> str:
    """Give a text with the commands of this machine for those of a comment."""
    for comment, command in COMMANDS:
        text = text.replace(comment, command)
    return text


def stopped_comment(failure: Failure, job: JobView) -> str:
    """Give why a job stopped, what to do about it, and what running the command again will do."""
    head = f"{stopped_line(failure, job)}\n**Next:** {_next(failure, job)}"
    return paragraphs(head, details(failure), f"<sub>Job `{job.job_id}`</sub>")


def _next(failure: Failure, job: JobView) -> str:
    cure = as_commands(sentence(failure.cure)) if failure.cure else ""
    if failure.code in REFUSALS or "the same command" in cure:
        return cure
    return f"{cure} The same command goes on from {failed_stage(job)}.".strip()
