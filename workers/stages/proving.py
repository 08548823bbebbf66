"""From a design to files in the target's style, and from files to a verdict: the way that every candidate goes."""

from __future__ import annotations

from typing import Any

from gpu_runner.contracts import Action, Evidence, Status, Verdict, VerifyRequest, from_json, to_json
from workers.contracts import Failure, FailureCode, FileChange, StyleOutcome, UserFacingError
from workers.engine.protocol import StageContext
from workers.layouts.protocol import Design
from workers.stages.workbench import (
    SNAPSHOT_FILE,
    Workbench,
    answer_of,
    changes_from_json,
    changes_to_json,
    merged,
)
from workers.stylecheck import check_style

MAX_EVIDENCE = 3


def styled_changes(
    context: StageContext, bench: Workbench, design: Design, key: str
) -> tuple[tuple[FileChange, ...], StyleOutcome]:
    """Render a design through the layout and let the target's own formatter and linter have their way.

    Raises:
        UserFacingError: the style check still fails after its own fixes.
    """
    changes, outcome = styled(context, bench, design, key)
    if not outcome.passed:
        message = "the library's own style check fails on what was written"
        failure = Failure(
            FailureCode.style, message, "This is a fault of the layout: please report it.", log=outcome.log
        )
        raise UserFacingError(failure)
    return changes, outcome


def styled(
    context: StageContext, bench: Workbench, design: Design, key: str
) -> tuple[tuple[FileChange, ...], StyleOutcome]:
    """Render a design through the layout, and give it as the target's formatter and linter left it, with their outcome.

    Raises:
        UserFacingError: the layout cannot place it, or a tool of the style check is missing.
    """
    changes = bench.layout.kernel_changes(design, bench.tree)

    def check() -> Any:
        outcome, fixes = check_style(bench.layout.style_check(changes, bench.tree), bench.tree, changes)
        return {"outcome": to_json(outcome), "fixes": changes_to_json(fixes)}

    stored = context.memo(key, check)
    return merged(changes, changes_from_json(stored["fixes"])), from_json(StyleOutcome, stored["outcome"])


def prove(
    context: StageContext, bench: Workbench, design: Design, changes: tuple[FileChange, ...], key: str, author: str
) -> Verdict:
    """Have the library's form judged by the runner.

    Raises:
        UserFacingError: the verdict is anything but passed; the failure says where.
    """
    verdict = judge(context, bench, design, changes, key)
    if verdict.status is not Status.passed:
        raise UserFacingError(verdict_failure(verdict, author))
    return verdict


def judge(
    context: StageContext, bench: Workbench, design: Design, changes: tuple[FileChange, ...], key: str
) -> Verdict:
    """Give the runner's verdict on the library's form, whatever it is.

    Raises:
        UserFacingError: the GPU host failed.
    """
    context.note("proving the kernel against the reference")
    candidate = bench.layout.candidate(design, changes, SNAPSHOT_FILE)
    request = VerifyRequest(bench.problem.source, candidate, multiples=bench.graph.multiples)
    result = context.gpu(key, request, Action.verify, {SNAPSHOT_FILE: context.request.snapshot})
    return from_json(Verdict, answer_of(result))


def verdict_failure(verdict: Verdict, author: str) -> Failure:
    """Say in words why a candidate did not pass."""
    first = verdict.evidence[0] if verdict.evidence else None
    told = f": {first.message}" if first else ""
    place = f" ({first.workload})" if first and first.workload else ""
    rule = f" [{verdict.rule}]" if verdict.rule else ""
    message = f"the {author} author's kernel did not pass, status `{verdict.status.value}`{rule}{told}{place}"
    if verdict.status is Status.degenerate_problem:
        cure = "A trivial answer passes on this problem: make the output depend on every input."
    else:
        cure = "Nothing was pushed; a new `/kernel create` takes another problem."
    log = "\n".join(told_evidence(evidence) for evidence in verdict.evidence[:MAX_EVIDENCE])
    return Failure(FailureCode.verdict, message, cure, first.line if first else None, log or None)


def told_evidence(evidence: Evidence) -> str:
    """Give where and how a candidate failed, in a line, with what was printed below it."""
    return "\n".join(part for part in (evidence_line(evidence), evidence.log) if part)


def evidence_line(evidence: Evidence) -> str:
    """Give where and how a candidate failed, in a line."""
    where = [part for part in (evidence.workload, evidence.output) if part]
    where += [] if evidence.position is None else [f"at {list(evidence.position)}"]
    where += [] if evidence.line is None else [f"line {evidence.line}"]
    numbers = ("got", "expected", "error", "allowed")
    found = [f"{name} {value:.6g}" for name in numbers if (value := getattr(evidence, name)) is not None]
    return f"{evidence.check}: {evidence.message}; {', '.join([*where, *found])}".rstrip("; ")
