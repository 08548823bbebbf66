"""Analyze: find the problem, capture it, write the kernel profile, and open the draft pull request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpu_runner.contracts import Graph, from_json, to_json
from workers.authors.protocol import Feedback
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
from workers.layouts.protocol import Layout
from workers.stages.authoring.problems import Captured, capture, problem_brief, understood
from workers.stages.authoring.remarks import HEARD, answered, new_points, remarks_of
from workers.stages.authoring.wishes import Wish, is_installed, named_freely, wish_of
from workers.stages.authoring.writing import foreseen, reads_words
from workers.stages.preflight import check_host
from workers.stages.problem_text import parse, problem_source, revised_source
from workers.stages.workbench import (
    build,
    changes_from_json,
    changes_to_json,
    choose_layout,
    merged,
    only_new,
    open_tree,
    own_result,
)
from workers.tree import Tree


@dataclass(frozen=True)
class Read:
    """The problem that was found. ``assumptions`` are a model's, as ``answered`` is, and untrusted."""

    source: str
    graph: Graph
    host: tuple[tuple[str, str], ...]  # that traced it
    assumptions: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Analyze:
    """The first stage of ``create``."""

    name = StageName.analyze

    def run(self, context: StageContext) -> StageResult:
        """Give a captured problem and a profile, committed as the test file that holds the reference."""
        context.note("reading the repository")
        tree = open_tree(context)
        layout = choose_layout(context, tree)
        earlier = own_result(context, self.name)
        if earlier is None:
            check_host(context, layout, tree, context.request.kernel)
        read = _read(context, layout, tree, earlier)
        bench = build(context, tree, layout, read.source, read.graph)
        author, design = foreseen(context, bench)
        profile = layout.profile(design, tree)
        before = changes_from_json(earlier["changes"]) if earlier else ()
        changes = layout.reference_changes(design, tree)
        new = only_new(changes, tree, before)
        notes = (*design.plan.notes, *(f"Assumed: {text}" for text in read.assumptions), *read.notes)
        summary = AnalyzeSummary(profile, bench.problem.source, author, notes, read.answered)
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
            "host": dict(read.host),
            "profile": to_json(profile),
            "changes": changes_to_json(merged(before, changes)),
            "assumptions": list(read.assumptions),
            HEARD: len(context.feedback),
        }
        context.artifact("problem.py", bench.problem.source.encode(), "text/x-python")
        return StageResult(output, updates)


def _read(context: StageContext, layout: Layout, tree: Tree, earlier: dict[str, Any] | None) -> Read:
    points = new_points(context.feedback, earlier)
    texts = tuple(point.text for point in points)
    block = revised_source(texts, "")
    before = None if earlier is None else str(earlier["problem_source"])
    if block:
        return replace(_captured(context, layout, tree, block), notes=_told(context))
    wish = _wish(context, tree) if before is None or points else None
    if before is not None and points and reads_words(context):
        return _revised(context, layout, tree, wish, before, points, earlier or {})
    if before is not None:
        kept = tuple((earlier or {}).get("assumptions", ()))
        return replace(_captured(context, layout, tree, before), assumptions=kept, notes=_told(context))
    if wish is not None:
        named_freely(context.request.kernel, layout, tree)
        found = understood(context, problem_brief(context.request.kernel, wish))
        _named(context, layout, tree, found.answer.source)
        return replace(_read_of(found.captured, found.answer.source), assumptions=found.answer.assumptions)
    return _captured(context, layout, tree, problem_source(context.request.problem, tree))


def _captured(context: StageContext, layout: Layout, tree: Tree, source: str) -> Read:
    _named(context, layout, tree, source)
    context.note("tracing the problem")
    captured = capture(context, source)
    result = captured.result
    if result.error is not None:
        failure = Failure(FailureCode.problem, f"the problem cannot be used: {result.error}", result.cure, result.line)
        raise UserFacingError(failure)
    return _read_of(captured, source)


def _revised(
    context: StageContext,
    layout: Layout,
    tree: Tree,
    wish: Wish | None,
    before: str,
    points: Sequence[Feedback],
    earlier: dict[str, Any],
) -> Read:
    """Have a model act on a review of the problem."""
    branch = tree.overlaid(changes_from_json(earlier["changes"]))
    remarks = remarks_of(points, branch)
    asked = problem_brief(context.request.kernel, wish or Wish(before, code=True, origin="the problem as it stands"))
    found = understood(context, replace(asked, before=before, remarks=remarks))
    _named(context, layout, tree, found.answer.source)
    told = answered(remarks, found.answer.replies)
    read = _read_of(found.captured, found.answer.source)
    return replace(read, assumptions=found.answer.assumptions, answered=told)


def _wish(context: StageContext, tree: Tree) -> Wish | None:
    """Give what a model is to make a problem of, where one may be asked; what is installed is read once."""
    given = context.request.problem
    if not reads_words(context):
        return None
    if not is_installed(given, tree):
        return wish_of(given, tree)
    return from_json(Wish, context.memo("wish", lambda: to_json(wish_of(given, tree))))


def _named(context: StageContext, layout: Layout, tree: Tree, source: str) -> None:
    layout.names(context.request.kernel, parse(source), tree)


def _read_of(captured: Captured, source: str) -> Read:
    result = captured.result
    if result.graph is None:
        raise RuntimeError("a capture without an error has no graph")
    return Read(result.problem_source or source, result.graph, captured.host)


def _told(context: StageContext) -> tuple[str, ...]:
    if not context.feedback:
        return ()
    replaced = any("def reference" in review.text or "class Model" in review.text for review in context.feedback)
    if replaced:
        return ("The problem is the one in the review's Python block.",)
    return (
        "The review held no Python block with a problem; the compiler author acts on nothing else, so the problem is unchanged.",
    )
