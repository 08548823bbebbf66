"""Confirm: the change as it was pushed, proved and tested once more, and measured beside what stood; then ready for review."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    BenchmarkResult,
    Status,
    TestsResult,
    from_json,
    to_json,
)
from workers.authors.llm.protocol import Failed
from workers.contracts import (
    AssetsUpdate,
    CheckpointUpdate,
    CommitPurpose,
    CommitUpdate,
    ConfirmSummary,
    Failure,
    FailureCode,
    FileChange,
    ModifySummary,
    ProblemKind,
    PullRequestUpdate,
    ReadyUpdate,
    ReportUpdate,
    StageName,
    Update,
    UserFacingError,
)
from workers.engine.protocol import StageContext, StageResult
from workers.reports.plots import draw_plots
from workers.reports.provenance import provenance, reproduce_modify
from workers.stages.modifying.diffs import diff
from workers.stages.modifying.preflight import Subject, open_subject
from workers.stages.modifying.proof import Judge, full_verdict
from workers.stages.modifying.styling import Styled, styled
from workers.stages.modifying.testing import Suites, pass_tests
from workers.stages.problem_text import parse
from workers.stages.profiling import profiled_if_asked
from workers.stages.proving import verdict_failure
from workers.stages.suites import json_bytes, library_plots, run_suite
from workers.stages.workbench import (
    SNAPSHOT_FILE,
    answer_of,
    changes_from_json,
    changes_to_json,
    merged,
    own_result,
)

START_S, SECONDS_A_WORKLOAD = 25.0, 9.0
ALONE = (
    "What stood cannot be called as the kernel is called now, so nothing was compared with it: the times are those of "
    "the changed kernel beside eager and torch.compile."
)
PUSHED = "What was pushed stays on the draft pull request; a new `/kernel modify` starts from the base branch again."

AS_TODAY = "Times are those of the call as it stood, before the change and with it."


class Confirm:
    """The last stage of ``modify``."""

    name = StageName.confirm

    def run(self, context: StageContext) -> StageResult:
        """Give the report on a change, with the pull request ready for review.

        Raises:
            UserFacingError: the change does not pass once more; the failure says what.
        """
        left = context.result_of(StageName.modify)
        subject = open_subject(context)
        changes = changes_from_json(left["changes"])
        judge = Judge(parse(str(left["problem_source"])), bool(left["changes_function"]), bool(left["beside"]))
        change = from_json(ModifySummary, left["summary"])
        style = _style(context, subject, changes)
        suites = _tests(context, subject, changes)
        verdict = full_verdict(context, "verify", subject, judge, changes)
        if verdict.status is not Status.passed:
            failure = verdict_failure(verdict, "model")
            raise UserFacingError(replace(failure, cure=PUSHED))
        compared = not judge.changes_function or change.broken_call is None
        measured = _measured(context, replace(subject, problem=parse(str(left["today"]))), judge, changes, compared)
        form = subject.form(judge.problem, _own(subject, changes))
        profile = profiled_if_asked(context, subject.standing.name, judge.problem, form, measured)
        script, data = _script(context, subject, changes, measured)
        plots = library_plots(context, subject.layout, subject.tree, data)
        images = draw_plots(context, subject.standing.name, verdict, measured)
        summary = ConfirmSummary(
            change=change,
            style=style.outcome,
            tests=replace(suites.tests, collected=()),
            verdict=verdict,
            benchmark=measured,
            script=replace(script, collected=()) if script else None,
            images=images,
            provenance=provenance(context.request, measured),
            reproduce=reproduce_modify(context.request),
            notes=(*style.notes, *suites.notes, *_about_speed(judge, measured, compared), *plots),
            profile=profile,
        )
        context.artifact("report.json", json_bytes(summary), "application/json")
        context.artifact("request.txt", context.request.words.encode(), "text/plain")
        if context.request.problem.kind is ProblemKind.block:
            context.artifact("problem.py", context.request.problem.text.encode(), "text/x-python")
        output: dict[str, Any] = {"changes": changes_to_json(merged(changes, data)), "summary": to_json(summary)}
        return StageResult(output, _updates(context, subject, data, summary), checkpoint=not context.request.read_only)


def _about_speed(judge: Judge, measured: BenchmarkResult, compared: bool) -> tuple[str, ...]:
    if measured.predicted:
        return ()
    if not compared:
        return (ALONE,)
    return (AS_TODAY,) if judge.changes_function else ()


def _style(context: StageContext, subject: Subject, changes: tuple[FileChange, ...]) -> Styled:
    own = _own(subject, changes)
    found = styled(context, "style", subject, own, diff(own, subject.tree))
    if isinstance(found, Failed):
        raise UserFacingError(Failure(FailureCode.style, found.sentence, PUSHED, log=found.log or None))
    return found


def _tests(context: StageContext, subject: Subject, changes: tuple[FileChange, ...]) -> Suites:
    own = _own(subject, changes)
    found = pass_tests(context, subject, "confirm", own, "")
    if isinstance(found, Failed):
        raise UserFacingError(Failure(FailureCode.tests, found.sentence, PUSHED, log="\n".join(found.evidence)))
    return found


def _own(subject: Subject, changes: tuple[FileChange, ...]) -> tuple[FileChange, ...]:
    """Leave out what the bot keeps for itself in the repository."""
    return tuple(change for change in changes if change.path in subject.changeable.paths)


def _measured(
    context: StageContext, subject: Subject, judge: Judge, changes: tuple[FileChange, ...], compared: bool
) -> BenchmarkResult:
    context.note(f"measuring the change {'beside what stood, eager' if compared else 'beside eager'} and torch.compile")
    problem = subject.problem if compared else judge.problem
    own = _own(subject, changes)
    request = BenchmarkRequest(
        problem.source,
        subject.form(problem, own),
        workloads=problem.workloads,
        budget_s=START_S + SECONDS_A_WORKLOAD * len(problem.workloads),
        original=subject.form(problem) if compared else None,
    )
    beside = {SNAPSHOT_FILE: context.request.snapshot}
    answer = context.gpu("benchmark", request, Action.benchmark, beside, lasting=True)
    return from_json(BenchmarkResult, answer_of(answer))


def _script(
    context: StageContext, subject: Subject, changes: tuple[FileChange, ...], measured: BenchmarkResult
) -> tuple[TestsResult | None, tuple[FileChange, ...]]:
    if measured.predicted or subject.standing.script is None:
        return None, ()
    context.note("running the library's own benchmark script")
    suite = subject.layout.script_of(subject.standing, subject.tree)
    script = run_suite(context, "script", suite, _own(subject, changes), lasting=True)
    if not script.passed:
        return script, ()
    return script, subject.layout.standing_data(subject.standing, script.collected, subject.tree)


def _updates(
    context: StageContext, subject: Subject, data: tuple[FileChange, ...], summary: ConfirmSummary
) -> tuple[Update, ...]:
    earlier = own_result(context, StageName.confirm)
    standing = subject.tree.overlaid(changes_from_json(earlier["changes"]) if earlier else ())
    new = tuple(change for change in data if standing.read(change.path) != change.text)
    commits = (CommitUpdate(CommitPurpose.benchmark_data, new, StageName.confirm, context.attempt),) if new else ()
    change = summary.change
    if context.request.read_only:
        return (AssetsUpdate(summary.images), ReportUpdate(summary))
    return (
        *commits,
        PullRequestUpdate(None, change.problem_source, summary.verdict, modification=change, confirmation=summary),
        AssetsUpdate(summary.images),
        ReadyUpdate(),
        CheckpointUpdate(StageName.confirm, context.attempt, summary, not context.request.options.auto),
    )
