"""What a host can do, in words. Pure."""

from __future__ import annotations

from gpu_runner.contracts import HostReport
from service.conversation.markdown import bullets, paragraphs, table


def host_section(report: HostReport) -> str:
    """Give a host's report: what it is, what a child was kept from, and what to cure."""
    facts = [
        ("GPU", report.gpu or "none: kernels run in Triton's interpreter, values are proved, speed is only predicted"),
        ("architecture", report.architecture),
        ("driver", report.driver or "none"),
        ("python, torch, triton", f"{report.python}, {report.torch or 'missing'}, {report.triton or 'missing'}"),
        ("copy bandwidth", f"{report.bandwidth_gbps:.0f} GB/s" if report.bandwidth_gbps else "not measured"),
        ("isolation that holds", ", ".join(level.value for level in report.levels) or "none"),
        *report.tools,
    ]
    proofs = [
        (proof.attempt, "prevented" if proof.prevented else "**possible**", proof.detail) for proof in report.proofs
    ]
    problems = ("To be cured:", bullets(report.problems)) if report.problems else ("Nothing is to be cured.",)
    return paragraphs(
        table(("fact", "value"), facts),
        table(("a child tried to", "and it was", "detail"), proofs) if proofs else "",
        *problems,
    )
