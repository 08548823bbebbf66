"""Analyze: find the problem, capture it, write the kernel profile, and open the draft pull request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpu_runner.contracts import Graph, from_json, to_json
from workers.authors.llm import problem_question, read_problem
from workers.authors.llm.protocol import Failed, ProblemAnswer, ProblemBrief, UnusableAnswer
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
from workers.models.protocol import ModelError
from workers.stages.asking import nobody_answered
from workers.stages.bench import Bench, changes_from_json, create_bench, merged, only_new, open_bench, own_result
from workers.stages.briefs import HEARD, answered, new_points, remarks_of
from workers.stages.gate import Captured, check_host
from workers.stages.problem import (
    Wish,
    is_installed,
    named_freely,
    parse,
    problem_source,
    revised_source,
    wish_of,
)
from workers.stages.writing import foreseen
from workers.targets.suitability import OTHERS, suitability

ROUNDS = 3
CAPTURE = "capture"


@dataclass(frozen=True)
class Understood:
    """A problem that can be traced, and what its author assumed and replied."""

    answer: ProblemAnswer
    captured: Captured


@dataclass(frozen=True)
class Read:
    """The problem. ``assumptions`` are a model's, as ``answered`` is, and untrusted."""

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
        """A captured problem and a profile, committed as the test file with the reference."""
        context.note("reading the repository")
        opened = open_bench(context)
        tree, layout = opened.tree, opened.layout
        earlier = own_result(context, self.name)
        if earlier is None:
            kernel = context.request.kernel
            check_host(opened.gate, layout.needs_of(kernel, tree), tree, kernel)
        read = _read(opened, earlier)
        bench = create_bench(opened, read.source, read.graph)
        author, design = foreseen(bench)
        profile = layout.profile(design, tree)
        before = changes_from_json(earlier["changes"]) if earlier else ()
        changes = layout.reference_changes(design, tree)
        new = only_new(changes, tree, before)
        to = context.request.options.to
        suited = (suitability(bench.problem, bench.graph).sentence(to),) if to in OTHERS else ()
        notes = (*suited, *design.plan.notes, *(f"Assumed: {text}" for text in read.assumptions), *read.notes)
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
            "changes": to_json(merged(before, changes)),
            "assumptions": list(read.assumptions),
            HEARD: len(context.feedback),
        }
        context.artifact("problem.py", bench.problem.source.encode(), "text/x-python")
        return StageResult(output, updates)


def _read(bench: Bench, earlier: dict[str, Any] | None) -> Read:
    context = bench.context
    points = new_points(context.feedback, earlier)
    texts = tuple(point.text for point in points)
    block = revised_source(texts, "")
    before = None if earlier is None else str(earlier["problem_source"])
    if block:
        return replace(_captured(bench, block), notes=_review_notes(context))
    wish = _wish(bench) if before is None or points else None
    if before is not None and points and bench.asks_models():
        return _revised(bench, wish, before, points, earlier or {})
    if before is not None:
        kept = tuple((earlier or {}).get("assumptions", ()))
        return replace(_captured(bench, before), assumptions=kept, notes=_review_notes(context))
    if wish is not None:
        named_freely(context.request.kernel, bench.layout, bench.tree)
        reading = understood(bench, problem_brief(bench.context.request.kernel, wish))
        _named(bench, reading.answer.source)
        return replace(_read_of(reading.captured, reading.answer.source), assumptions=reading.answer.assumptions)
    return _captured(bench, problem_source(context.request.problem, bench.tree))


def _captured(bench: Bench, source: str) -> Read:
    _named(bench, source)
    bench.context.note("tracing the problem")
    captured = bench.gate.capture(CAPTURE, source)
    result = captured.result
    if result.error is not None:
        failure = Failure(FailureCode.problem, f"the problem cannot be used: {result.error}", result.fix, result.line)
        raise UserFacingError(failure)
    return _read_of(captured, source)


def _revised(
    bench: Bench,
    wish: Wish | None,
    before: str,
    points: Sequence[Feedback],
    earlier: dict[str, Any],
) -> Read:
    """Have a model act on a review of the problem."""
    branch = bench.tree.overlaid(changes_from_json(earlier["changes"]))
    remarks = remarks_of(points, branch)
    asked = problem_brief(
        bench.context.request.kernel, wish or Wish(before, code=True, origin="the problem as it stands")
    )
    reading = understood(bench, replace(asked, before=before, remarks=remarks))
    _named(bench, reading.answer.source)
    replies = answered(remarks, reading.answer.replies)
    read = _read_of(reading.captured, reading.answer.source)
    return replace(read, assumptions=reading.answer.assumptions, answered=replies)


def _wish(bench: Bench) -> Wish | None:
    """What a model is to make a problem of, where one may be asked; what is installed is read once."""
    context, given, tree = bench.context, bench.context.request.problem, bench.tree
    if not bench.asks_models():
        return None
    if not is_installed(given, tree):
        return wish_of(given, tree)
    return from_json(Wish, context.memo("wish", lambda: to_json(wish_of(given, tree))))


def _named(bench: Bench, source: str) -> None:
    bench.layout.names(bench.context.request.kernel, parse(source), bench.tree)


def _read_of(captured: Captured, source: str) -> Read:
    result = captured.result
    if result.graph is None:
        raise RuntimeError("a capture without an error has no graph")
    return Read(result.problem_source or source, result.graph, captured.host)


def _review_notes(context: StageContext) -> tuple[str, ...]:
    if not context.feedback:
        return ()
    replaced = any("def reference" in review.text or "class Model" in review.text for review in context.feedback)
    if replaced:
        return ("The problem is the one in the review's Python block.",)
    return (
        "The review held no Python block with a problem; the compiler author acts on nothing else, so the problem is unchanged.",
    )


# A model makes a problem of words or code, until it parses and can be traced.


def problem_brief(name: str, wish: Wish) -> ProblemBrief:
    """The brief of a wish."""
    return ProblemBrief(name, wish.request, wish.code, wish.origin, wish.beside)


def understood(bench: Bench, brief: ProblemBrief) -> Understood:
    """The problem of a brief; what is wrong with one goes into the next round.

    Raises:
        UserFacingError: no round gives a problem that can be traced, nobody answers, or the host failed.
    """
    context, tried = bench.context, list[str]()
    failed: Failed | None = None
    for number in range(1, ROUNDS + 1):
        context.note(f"asking a model for the problem, round {number} of {ROUNDS}")
        asked = replace(brief, failed=failed)
        try:
            answer = context.ask(f"problem-{number}", problem_question(asked))
        except ModelError as error:
            failure = nobody_answered([error], "a problem", "A problem in code needs no model.", tuple(tried))
            raise UserFacingError(failure) from error
        try:
            read = read_problem(answer, asked)
        except UnusableAnswer as unusable:
            source = (answer.data or {}).get("source")
            failed = Failed(source if isinstance(source, str) else "", unusable.fault.value, str(unusable))
        else:
            captured = bench.gate.capture(f"{CAPTURE}-{number}", read.source)
            traced = captured.result
            if traced.error is None:
                return Understood(read, captured)
            where = (f"line {traced.line}",) if traced.line else ()
            evidence = (*where, *((traced.fix,) if traced.fix else ()))
            failed = Failed(read.source, CAPTURE, traced.error, evidence)
        tried.append(f"round {number} ended as `{failed.status}`: {failed.sentence}")
    message = f"the model gave no problem that can be used: {failed.sentence}" if failed else "nothing was asked"
    fix = "Be more specific: inputs with their shapes, what is computed, and one size; or paste it as code."
    raise UserFacingError(Failure(FailureCode.problem, message, fix, attempts=tuple(tried)))
