"""Analyze: find the problem, capture it, write the kernel profile, and open the draft pull request."""

from __future__ import annotations

from typing import Any

from gpu_runner.contracts import Action, CaptureRequest, CaptureResult, Graph, from_json, to_json
from workers.contracts import (
    AnalyzeSummary,
    CheckpointUpdate,
    CommitPurpose,
    CommitUpdate,
    Failure,
    FailureCode,
    PullRequestUpdate,
    StageName,
    Update,
    UserFacingError,
)
from workers.engine.protocol import StageContext, StageResult
from workers.stages.problem_text import parse, problem_source, revised_source
from workers.stages.workbench import (
    answer_of,
    build,
    changes_from_json,
    changes_to_json,
    choose_layout,
    merged,
    only_new,
    open_tree,
    own_result,
)


class Analyze:
    """The first stage of ``create``."""

    name = StageName.analyze

    def run(self, context: StageContext) -> StageResult:
        """Give a captured problem and a profile, committed as the test file that holds the reference."""
        context.note("reading the repository")
        tree = open_tree(context)
        layout = choose_layout(context, tree)
        earlier = own_result(context, self.name)
        source = self._source(context, earlier)
        problem = parse(source)
        layout.names(context.request.kernel, problem, tree)
        context.note("tracing the problem")
        captured = _capture(context, source)
        bench = build(context, tree, layout, captured.problem_source or source, _graph(captured))
        design, proposal = bench.propose()
        profile = layout.profile(design, tree)
        before = changes_from_json(earlier["changes"]) if earlier else ()
        changes = layout.reference_changes(design, tree)
        new = only_new(changes, tree, before)
        summary = AnalyzeSummary(
            profile, bench.problem.source, bench.author.name, (*proposal.plan.notes, *_answered(context))
        )
        commit = (CommitUpdate(CommitPurpose.reference, new, self.name, context.attempt),) if new else ()
        updates: tuple[Update, ...] = (
            *commit,
            PullRequestUpdate(profile, bench.problem.source),
            CheckpointUpdate(self.name, context.attempt, summary, not context.request.options.auto),
        )
        output: dict[str, Any] = {
            "layout": layout.name,
            "problem_source": bench.problem.source,
            "graph": to_json(bench.graph),
            "profile": to_json(profile),
            "changes": changes_to_json(merged(before, changes)),
        }
        context.artifact("problem.py", bench.problem.source.encode(), "text/x-python")
        return StageResult(output, updates)

    def _source(self, context: StageContext, earlier: dict[str, Any] | None) -> str:
        texts = tuple(review.text for review in context.feedback)
        if earlier is not None:
            return revised_source(texts, str(earlier["problem_source"]))
        given = problem_source(context.request.problem, open_tree(context))
        return revised_source(texts, given)


def _capture(context: StageContext, source: str) -> CaptureResult:
    result = context.gpu("capture", CaptureRequest(source), Action.capture)
    captured = from_json(CaptureResult, answer_of(result))
    if captured.error is not None:
        failure = Failure(
            FailureCode.problem, f"the problem cannot be used: {captured.error}", captured.cure, captured.line
        )
        raise UserFacingError(failure)
    return captured


def _graph(captured: CaptureResult) -> Graph:
    if captured.graph is None:
        raise RuntimeError("a capture without an error has no graph")
    return captured.graph


def _answered(context: StageContext) -> tuple[str, ...]:
    if not context.feedback:
        return ()
    replaced = any("def reference" in review.text or "class Model" in review.text for review in context.feedback)
    if replaced:
        return ("The problem is the one in the review's Python block.",)
    return (
        "The review held no Python block with a problem; the compiler author acts on nothing else, so the problem is unchanged.",
    )
