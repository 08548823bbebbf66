"""Generate: ask the author, write through the layout, pass the target's style check, and have the library's form proved."""

from __future__ import annotations

from typing import Any

from gpu_runner.contracts import Action, Evidence, Status, Verdict, VerifyRequest, from_json, to_json
from workers.authors.protocol import Feedback
from workers.contracts import (
    CheckpointUpdate,
    CommitPurpose,
    CommitUpdate,
    Failure,
    FailureCode,
    FileChange,
    GenerateSummary,
    KernelProfile,
    PullRequestUpdate,
    StageName,
    StyleOutcome,
    Update,
    UserFacingError,
)
from workers.engine.protocol import StageContext, StageResult
from workers.layouts.protocol import Design
from workers.stages.workbench import (
    SNAPSHOT_FILE,
    Workbench,
    answer_of,
    changes_from_json,
    changes_to_json,
    merged,
    only_new,
    own_result,
    reopen,
)
from workers.stylecheck import check_style

MAX_EVIDENCE = 3


class Generate:
    """The second stage of ``create``."""

    name = StageName.generate

    def run(self, context: StageContext) -> StageResult:
        """Give a kernel in the library's form whose verdict is passed, committed."""
        bench = reopen(context)
        context.note("writing the kernel")
        design, _ = bench.propose(context.feedback)
        changes, style = styled_changes(context, bench, design, "style")
        verdict = prove(context, bench, design, changes, "verify")
        analyzed = context.result_of(StageName.analyze)
        earlier = own_result(context, self.name)
        before = changes_from_json((earlier or analyzed)["changes"])
        new = only_new(changes, bench.tree, before)
        profile = from_json(KernelProfile, analyzed["profile"])
        purpose = CommitPurpose.kernel if earlier is None else CommitPurpose.revision
        summary = GenerateSummary(
            verdict,
            tuple(change.path for change in changes),
            bench.author.name,
            design.plan.forward_formula,
            design.plan.gradient_formulas,
            _answered(context, earlier, design),
            design.plan.notes,
        )
        commit = (CommitUpdate(purpose, new, self.name, context.attempt),) if new else ()
        updates: tuple[Update, ...] = (
            *commit,
            PullRequestUpdate(profile, bench.problem.source, verdict),
            CheckpointUpdate(self.name, context.attempt, summary, not context.request.options.auto),
        )
        output: dict[str, Any] = {
            "source": design.source,
            "changes": changes_to_json(merged(before, changes)),
            "verdict": to_json(verdict),
            "style": to_json(style),
        }
        context.artifact(f"{bench.name}.py", (design.source or "").encode(), "text/x-python")
        return StageResult(output, updates)


def styled_changes(
    context: StageContext, bench: Workbench, design: Design, key: str
) -> tuple[tuple[FileChange, ...], StyleOutcome]:
    """Render a design through the layout and let the target's own formatter and linter have their way.

    Raises:
        UserFacingError: the style check still fails after its own fixes.
    """
    changes = bench.layout.kernel_changes(design, bench.tree)

    def check() -> Any:
        outcome, fixes = check_style(bench.layout.style_check(changes, bench.tree), bench.tree, changes)
        return {"outcome": to_json(outcome), "fixes": changes_to_json(fixes)}

    stored = context.memo(key, check)
    outcome = from_json(StyleOutcome, stored["outcome"])
    if not outcome.passed:
        message = "the library's own style check fails on what was written"
        failure = Failure(
            FailureCode.style, message, "This is a fault of the layout: please report it.", log=outcome.log
        )
        raise UserFacingError(failure)
    return merged(changes, changes_from_json(stored["fixes"])), outcome


def prove(
    context: StageContext, bench: Workbench, design: Design, changes: tuple[FileChange, ...], key: str
) -> Verdict:
    """Have the library's form judged by the runner.

    Raises:
        UserFacingError: the verdict is anything but passed; the failure says where.
    """
    context.note("proving the kernel against the reference")
    candidate = bench.layout.candidate(design, changes, SNAPSHOT_FILE)
    request = VerifyRequest(bench.problem.source, candidate)
    result = context.gpu(key, request, Action.verify, {SNAPSHOT_FILE: context.request.snapshot})
    verdict = from_json(Verdict, answer_of(result))
    if verdict.status is not Status.passed:
        raise UserFacingError(verdict_failure(verdict, bench.author.name))
    return verdict


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
    log = "\n".join(_told(evidence) for evidence in verdict.evidence[:MAX_EVIDENCE])
    return Failure(FailureCode.verdict, message, cure, first.line if first else None, log or None)


def _told(evidence: Evidence) -> str:
    where = [part for part in (evidence.workload, evidence.output) if part]
    where += [] if evidence.position is None else [f"at {list(evidence.position)}"]
    numbers = ("got", "expected", "error", "allowed")
    found = [f"{name} {value:.6g}" for name in numbers if (value := getattr(evidence, name)) is not None]
    line = f"{evidence.check}: {evidence.message}; {', '.join([*where, *found])}".rstrip("; ")
    return "\n".join(part for part in (line, evidence.log) if part)


def as_feedback(failure: Failure) -> Feedback:
    """Give a failure as an author reads it."""
    return Feedback("\n".join(part for part in (failure.message, failure.log) if part))


def _answered(context: StageContext, earlier: dict[str, Any] | None, design: Design) -> tuple[str, ...]:
    if not context.feedback or earlier is None:
        return ()
    if earlier["source"] == design.source:
        return ("The compiler author cannot act on words: it wrote the same kernel from the same problem.",)
    return ("The kernel was written again.",)
