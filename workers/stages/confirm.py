"""Confirm: the change as it was pushed, proved and tested once more, and measured against the original; then ready for review."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpu_runner.contracts import BenchmarkResult, Status, from_json, to_json
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
from workers.stages.bench import (
    ModifyBench,
    changes_from_json,
    keep_json,
    merged,
    only_new,
    open_modify,
    own_result,
)
from workers.stages.confines import diff
from workers.stages.gate import library_plots, run_script, timing_budget_s, verdict_failure
from workers.stages.problem import parse
from workers.stages.profiling import profiled_if_asked
from workers.stages.proof import Judge, Styled, Suites, full_verdict, pass_tests, styled

ALONE = (
    "What stood cannot be called as the kernel is called now, so nothing was compared with it: the times are those of "
    "the changed kernel beside eager and torch.compile."
)
PUSHED = "What was pushed stays on the draft pull request; a new `/kernel modify` starts from the base branch again."

AS_TODAY = "Times are those of today's call, before the change and with it."


class Confirm:
    """The last stage of ``modify``."""

    name = StageName.confirm

    def run(self, context: StageContext) -> StageResult:
        """The report on a change, with the pull request ready for review.

        Raises:
            UserFacingError: the change does not pass once more; the failure gives the reason.
        """
        left = context.result_of(StageName.modify)
        bench = open_modify(context)
        changes = changes_from_json(left["changes"])
        judge = Judge(parse(str(left["problem_source"])), bool(left["changes_function"]), bool(left["beside"]))
        change = from_json(ModifySummary, left["summary"])
        own = bench.own(changes)
        style = _style(bench, own)
        suites = _tests(bench, own)
        verdict = full_verdict(bench, "verify", judge, changes)
        if verdict.status is not Status.passed:
            failure = verdict_failure(verdict, "model")
            raise UserFacingError(replace(failure, fix=PUSHED))
        compared = not judge.changes_function or change.broken_call is None
        measured = _measured(replace(bench, problem=parse(str(left["today"]))), judge, own, compared)
        form = bench.form(judge.problem, own)
        profile = profiled_if_asked(bench, bench.kernel.name, judge.problem, form, measured)
        script, data = run_script(bench.gate, bench.kernel, bench.layout, bench.tree, own, measured)
        plots = library_plots(bench.gate, bench.layout, bench.tree, data)
        images = draw_plots(context, bench.kernel.name, verdict, measured)
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
        keep_json(context, "report.json", summary)
        context.artifact("request.txt", context.request.words.encode(), "text/plain")
        if context.request.problem.kind is ProblemKind.block:
            context.artifact("problem.py", context.request.problem.text.encode(), "text/x-python")
        output: dict[str, Any] = {"changes": to_json(merged(changes, data)), "summary": to_json(summary)}
        return StageResult(output, _updates(bench, data, summary), checkpoint=not context.request.read_only)


def _about_speed(judge: Judge, measured: BenchmarkResult, compared: bool) -> tuple[str, ...]:
    if measured.predicted:
        return ()
    if not compared:
        return (ALONE,)
    return (AS_TODAY,) if judge.changes_function else ()


def _style(bench: ModifyBench, own: tuple[FileChange, ...]) -> Styled:
    result = styled(bench, "style", own, diff(own, bench.tree))
    if isinstance(result, Failed):
        raise UserFacingError(Failure(FailureCode.style, result.sentence, PUSHED, log=result.log or None))
    return result


def _tests(bench: ModifyBench, own: tuple[FileChange, ...]) -> Suites:
    result = pass_tests(bench, "confirm", own, "")
    if isinstance(result, Failed):
        raise UserFacingError(Failure(FailureCode.tests, result.sentence, PUSHED, log="\n".join(result.evidence)))
    return result


def _measured(bench: ModifyBench, judge: Judge, own: tuple[FileChange, ...], compared: bool) -> BenchmarkResult:
    bench.context.note(
        f"measuring the change {'next to the previous kernel, eager' if compared else 'beside eager'} and torch.compile"
    )
    problem = bench.problem if compared else judge.problem
    return bench.gate.benchmark(
        "benchmark",
        problem,
        bench.form(problem, own),
        workloads=problem.workloads,
        budget_s=timing_budget_s(len(problem.workloads)),
        original=bench.form(problem) if compared else None,
    )


def _updates(bench: ModifyBench, data: tuple[FileChange, ...], summary: ConfirmSummary) -> tuple[Update, ...]:
    context = bench.context
    earlier = own_result(context, StageName.confirm)
    new = only_new(data, bench.tree, changes_from_json(earlier["changes"]) if earlier else ())
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
