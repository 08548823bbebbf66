"""Profile: what stands today, over all sizes, against its limits; where the time goes, and what to try in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    BenchmarkResult,
    CandidateSource,
    CaptureRequest,
    CaptureResult,
    Problem,
    ProfileRequest,
    ProfileResult,
    RecordResult,
    Status,
    Verdict,
    VerifyRequest,
    Workload,
    from_json,
    to_json,
)
from workers.authors.llm import diagnosis_question, read_diagnosis
from workers.authors.llm.protocol import UnusableAnswer
from workers.contracts import (
    AssetsUpdate,
    CheckpointUpdate,
    CommitPurpose,
    CommitUpdate,
    Failure,
    FailureCode,
    FileChange,
    ModelReading,
    ProblemKind,
    ProblemText,
    ProfileSummary,
    PullRequestUpdate,
    ReportUpdate,
    StageName,
    Update,
    UserFacingError,
    Verb,
)
from workers.engine.protocol import StageContext, StageResult
from workers.models.protocol import Answer
from workers.reports.plots import draw_speed
from workers.reports.profile_page import kernel_page, profile_page, profile_path
from workers.stages.headroom import MOST_ELEMENTS, chosen_sizes, nothing_to_gain, volume, with_sizes
from workers.stages.listening import heard
from workers.stages.model_brief import variant_brief
from workers.stages.preflight import check_host
from workers.stages.problem_text import revised_source
from workers.stages.proving import verdict_failure
from workers.stages.situation import Profiled, situation_of, turn_of
from workers.stages.standing import Bench, aim_of, open_bench, stored
from workers.stages.suites import json_bytes
from workers.stages.workbench import SNAPSHOT_FILE, answer_of, changes_from_json, changes_to_json, only_new, own_result
from workers.strategies.catalog import FIRST
from workers.strategies.order import ordered
from workers.strategies.reading import read_source
from workers.strategies.search import in_regime

UNDIAGNOSED = "A model was asked what bounds the kernel, and nothing came of it: {}."
START_S, SECONDS_A_WORKLOAD = 25.0, 9.0
PROFILE_BUDGET_S = 60.0
UNTRACED = "The problem could not be traced, so the compiler author's kernels are out of reach: {}"
UNRECORDED = "The library's benchmark script gave no sizes for this problem{}; the problem's own sizes are measured."
ADDED = "The command names sizes that neither the problem nor the library's benchmark script has: `{}` is measured too."
NO_GPU = (
    "No GPU host took part: values are proved in Triton's interpreter, and speed is only predicted from the roofline."
)


class Profile:
    """The first stage of ``optimize``."""

    name = StageName.profile

    def run(self, context: StageContext) -> StageResult:
        """Give the profile of a kernel as it stands, and the strategies whose triggers hold."""
        context.note("looking for the kernel, its tests, its benchmark script and its problem")
        turn = turn_of(context)
        bench = open_bench(context, _revised(context))
        if context.request.verb is not Verb.profile and own_result(context, self.name) is None:
            check_host(context, bench.layout, bench.tree, bench.standing.name)
        bench, notes = _traced(context, bench)
        bench, more = _sized(context, bench)
        verdict = _judged(context, bench)
        measured = _measured(context, bench)
        profile = profiled(context, bench.problem, bench.form(), bench.workloads[0])
        reading = read_source(bench.standing.path, bench.original)
        options = context.request.options
        regime = aim_of(bench.problem, options).regime
        nothing = nothing_to_gain(replace(measured, rows=in_regime(measured.rows, regime)), options.scope)
        known = Profiled(reading, verdict, measured, profile)
        tunes = context.request.verb is Verb.tune
        # Settings are found by measuring, so that a kernel near its floor is swept all the same when somebody asks for that.
        strategies = () if nothing and not tunes else ordered(situation_of(context, bench, known, model=turn))
        if tunes:
            nothing, strategies = False, tuple(planned for planned in strategies if planned.strategy == FIRST)
        diagnosis, unread = _diagnosed(context, bench, replace(known, strategies=strategies))
        images = draw_speed(context, f"{bench.standing.name}-today", measured)
        summary = ProfileSummary(
            reading,
            verdict,
            measured,
            profile,
            strategies,
            bench.problem.source,
            options.goal,
            options.scope,
            options.target,
            nothing,
            (*notes, *more, *((NO_GPU,) if measured.predicted else ()), *unread),
            images,
            diagnosis,
            options.regime,
        )
        context.artifact("profile.json", json_bytes(summary), "application/json")
        page = profile_page(bench.standing.name, summary)
        context.artifact("profile.md", page.encode(), "text/markdown")
        # The page is what there is to review: where nobody is asked, nothing may be pushed, or on a checkout it has no use.
        request = context.request
        pushed = (
            asks(context) and bool(strategies) and not nothing and not request.read_only and request.origin.number > 0
        )
        changes = (FileChange(profile_path(bench.standing.name), page),) if pushed else ()
        updates = _updates(context, bench, summary, changes)
        return StageResult(_output(bench, summary, changes), updates, checkpoint=not nothing)


def _revised(context: StageContext) -> ProblemText | None:
    """Give the problem that a review put in the place of the known one; None where it holds none."""
    source = revised_source(tuple(review.text for review in context.feedback), "")
    return ProblemText(ProblemKind.block, source) if source else None


def _updates(
    context: StageContext, bench: Bench, summary: ProfileSummary, changes: tuple[FileChange, ...]
) -> tuple[Update, ...]:
    images = AssetsUpdate(summary.images)
    if context.request.verb is Verb.profile:
        return (images, ReportUpdate(summary))
    asked = CheckpointUpdate(StageName.profile, context.attempt, summary, asks(context))
    if not changes:
        return (images, asked)
    earlier = own_result(context, StageName.profile)
    new = only_new(changes, bench.tree, () if earlier is None else changes_from_json(earlier["changes"]))
    commits = (CommitUpdate(CommitPurpose.profile, new, StageName.profile, context.attempt),) if new else ()
    return (*commits, PullRequestUpdate(None, summary.problem_source), images, asked)


def asks(context: StageContext) -> bool:
    """Tell whether a review decides after the profile and after the comparison."""
    return context.request.verb is Verb.optimize and not context.request.options.auto


def _output(bench: Bench, summary: ProfileSummary, changes: tuple[FileChange, ...]) -> dict[str, Any]:
    return stored(bench) | {
        "changes": changes_to_json(changes),
        "verdict": to_json(replace(summary.verdict, checks=())),
        "benchmark": to_json(summary.benchmark),
        "profile": to_json(summary.profile),
        "reading": to_json(summary.reading),
        "strategies": to_json(summary.strategies),
        "nothing_to_gain": summary.nothing_to_gain,
        "diagnosis": None if summary.diagnosis is None else to_json(summary.diagnosis),
    }


def _traced(context: StageContext, bench: Bench) -> tuple[Bench, tuple[str, ...]]:
    context.note("tracing the problem")
    result = context.gpu("capture", CaptureRequest(bench.problem.source), Action.capture, lasting=True)
    captured = from_json(CaptureResult, answer_of(result))
    if captured.graph is None:
        return bench, (UNTRACED.format(captured.error),)
    return replace(bench, graph=captured.graph), ()


def _sized(context: StageContext, bench: Bench) -> tuple[Bench, tuple[str, ...]]:
    """Choose the sizes to measure: the problem's, those of the library's benchmark script, and all that the command names."""
    bench, notes = _recorded(context, bench)
    workloads, added = with_sizes(bench.workloads, aim_of(bench.problem, context.request.options).sizes, bench.problem)
    added_notes = tuple(ADDED.format(workload.label()) for workload in added)
    return replace(bench, workloads=workloads), (*notes, *added_notes)


def _recorded(context: StageContext, bench: Bench) -> tuple[Bench, tuple[str, ...]]:
    request = bench.layout.sizes_request(bench.standing, bench.problem, bench.tree, SNAPSHOT_FILE)
    if request is None:
        return bench, ()
    context.note("reading the sizes of the library's benchmark script")
    beside = {SNAPSHOT_FILE: context.request.snapshot}
    recorded = from_json(RecordResult, answer_of(context.gpu("record", request, Action.record, beside, lasting=True)))
    known = bench.layout.sizes_of(bench.problem, recorded)
    sizes = tuple(size for size in known if volume(bench.problem, size) <= MOST_ELEMENTS)
    if not sizes:
        return bench, (UNRECORDED.format(f" ({recorded.error})" if recorded.error else ""),)
    wanted = aim_of(bench.problem, context.request.options).sizes
    return replace(bench, workloads=chosen_sizes(bench.problem.workloads, sizes, wanted)), ()


def _judged(context: StageContext, bench: Bench) -> Verdict:
    context.note("holding what stands today against the problem")
    form = bench.form()
    request = VerifyRequest(bench.problem.source, form, quick=True, original=form)
    beside = {SNAPSHOT_FILE: context.request.snapshot}
    verdict = from_json(Verdict, answer_of(context.gpu("verify", request, Action.verify, beside, lasting=True)))
    if verdict.status is not Status.passed:
        failure = verdict_failure(verdict, "library's")
        message = f"the problem does not say what `{bench.standing.name}` computes today: {failure.message}"
        cure = "Correct the reference or its CALL, and give the command again with it in a fenced Python block."
        raise UserFacingError(Failure(FailureCode.problem, message, cure, failure.line, failure.log))
    return verdict


def _measured(context: StageContext, bench: Bench) -> BenchmarkResult:
    context.note(f"measuring what stands today at {len(bench.workloads)} sizes")
    budget_s = START_S + SECONDS_A_WORKLOAD * len(bench.workloads)
    request = BenchmarkRequest(
        bench.problem.source, bench.form(), workloads=bench.workloads, budget_s=budget_s, standing=True
    )
    beside = {SNAPSHOT_FILE: context.request.snapshot}
    answer = answer_of(context.gpu("benchmark", request, Action.benchmark, beside, lasting=True))
    return from_json(BenchmarkResult, answer)


def profiled(context: StageContext, problem: Problem, form: CandidateSource, workload: Workload) -> ProfileResult:
    """What bounds a kernel at one size.

    Raises:
        UserFacingError: the GPU host failed.
    """
    context.note("profiling it")
    request = ProfileRequest(
        problem.source, form, workloads=(workload,), gpu=context.request.options.gpu, budget_s=PROFILE_BUDGET_S
    )
    beside = {SNAPSHOT_FILE: context.request.snapshot}
    return from_json(ProfileResult, answer_of(context.gpu("profile", request, Action.profile, beside, lasting=True)))


def profiled_if_asked(
    context: StageContext, kernel: str, problem: Problem, form: CandidateSource, measured: BenchmarkResult
) -> ProfileResult | None:
    """With ``--profile`` the profile of a new or changed kernel at the problem's first size, kept as JSON and as a page.

    Raises:
        UserFacingError: the GPU host failed.
    """
    if not context.request.options.profile:
        return None
    found = profiled(context, problem, form, problem.workloads[0])
    context.artifact("profile.json", json_bytes(found), "application/json")
    context.artifact("profile.md", kernel_page(kernel, found, measured).encode(), "text/markdown")
    return found


def _diagnosed(context: StageContext, bench: Bench, known: Profiled) -> tuple[ModelReading | None, tuple[str, ...]]:
    """Give what a model says bounds the kernel, where one will be asked for changes; without it the notes say why."""
    if not any(planned.repeats for planned in known.strategies):
        return None, ()
    context.note("asking a model what bounds it")
    options = context.request.options
    aim = (options.goal, options.scope)
    brief = variant_brief(bench, known, aim, bench.original, regime=options.regime)
    answer = heard(context, "diagnosis", diagnosis_question(brief))
    if not isinstance(answer, Answer):
        return None, (UNDIAGNOSED.format(answer.sentence.rstrip(".")),)
    try:
        found = read_diagnosis(answer)
    except UnusableAnswer as unusable:
        return None, (UNDIAGNOSED.format(unusable),)
    return ModelReading(found.bottleneck, found.evidence, found.steps), ()
