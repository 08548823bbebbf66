"""Profile: the existing kernel over all sizes, against its limits; where the time goes, and what to try in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpu_runner.contracts import BenchmarkResult, CandidateSource, Problem, ProfileResult, Status, Verdict, to_json
from gpu_runner.contracts.reading import CUTEDSL, CUTILE, TRITON
from workers.authors.llm import diagnosis_question, read_diagnosis
from workers.authors.llm.protocol import UnusableAnswer
from workers.contracts import (
    AssetsUpdate,
    AuthorName,
    CheckpointUpdate,
    CommitPurpose,
    CommitUpdate,
    Failure,
    FailureCode,
    FileChange,
    ModelReading,
    PlannedStrategy,
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
from workers.engine.questions import NO_MODEL
from workers.models.protocol import Answer
from workers.reports.pages import kernel_page, profile_page, profile_path
from workers.reports.plots import draw_speed
from workers.stages.asking import ask_or_silence
from workers.stages.bench import (
    Bench,
    OptimizeBench,
    Profiled,
    aim_of,
    changes_from_json,
    keep_json,
    kept_bench,
    only_new,
    open_bench,
    open_optimize,
    own_result,
)
from workers.stages.briefs import variant_brief
from workers.stages.gains import measured_before
from workers.stages.gate import SNAPSHOT_FILE, check_host, script_rows, timing_budget_s, verdict_failure
from workers.stages.headroom import MOST_ELEMENTS, chosen_sizes, nothing_to_gain, with_sizes
from workers.stages.problem import revised_source
from workers.stages.variants import situation_of
from workers.strategies.catalog import FIRST
from workers.strategies.fast_path import elements
from workers.strategies.order import ordered
from workers.strategies.protocol import ModelTurn
from workers.strategies.reading import read_source
from workers.strategies.search import in_regime

STOOD_IN = {CUTILE: ("cuda",), CUTEDSL: ("cutlass",)}  # packages that the interpreter has its own for
WITHOUT_A_MODEL = (Verb.tune, Verb.profile)  # they measure, and write nothing that a sweep does not
UNDIAGNOSED = "A model was asked what bounds the kernel, and nothing came of it: {}."
UNTRACED = "The problem could not be traced, so the compiler author's kernels are out of reach: {}"
UNRECORDED = "The library's benchmark script gave no sizes for this problem{}; the problem's own sizes are measured."
ADDED = "The command names sizes that neither the problem nor the library's benchmark script has: `{}` is measured too."
SETTINGS_ALONE = "The kernel is written in {}: its settings are tried, and no other strategy, since those write Triton."
NO_GPU = (
    "No GPU host took part: values are proved in Triton's interpreter, and speed is only predicted from the roofline."
)


class Profile:
    """The first stage of ``optimize``."""

    name = StageName.profile

    def run(self, context: StageContext) -> StageResult:
        """The profile of an existing kernel, and the strategies whose triggers hold."""
        context.note("looking for the kernel, its tests, its benchmark script and its problem")
        opened = open_bench(context)
        turn = turn_of(opened)
        bench = open_optimize(opened, _revised(context))
        if context.request.verb is not Verb.profile and own_result(context, self.name) is None:
            needs = bench.layout.needs_of(bench.kernel.name, bench.tree)
            stood_in = STOOD_IN.get(bench.language, ())
            check_host(bench.gate, needs, bench.tree, bench.kernel.name, stood_in)
        bench, notes = _traced(bench)
        bench, more = _sized(bench)
        verdict = _judged(bench)
        measured = _measured(bench)
        profile = bench.gate.profile(bench.problem, bench.form(), bench.workloads[0])
        scripted = "" if measured.predicted else script_rows(bench.gate, "v0", bench.kernel, bench.layout, bench.tree)
        reading = read_source(bench.kernel.path, bench.original)
        options = context.request.options
        regime = aim_of(bench.problem, options).regime
        at_floor = nothing_to_gain(replace(measured, rows=in_regime(measured.rows, regime)), options.scope)
        known = Profiled(reading, verdict, measured, profile)
        tunes = context.request.verb is Verb.tune
        # Settings are found by measuring, so that a kernel near its floor is swept all the same when somebody asks for that.
        strategies = () if at_floor and not tunes else _planned(bench, known, turn)
        if tunes:
            at_floor, strategies = False, tuple(planned for planned in strategies if planned.strategy == FIRST)
        diagnosis, unread = _diagnosed(bench, replace(known, strategies=strategies))
        images = draw_speed(context, f"{bench.kernel.name}-today", measured)
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
            at_floor,
            (
                *notes,
                *more,
                *((SETTINGS_ALONE.format(bench.language),) if bench.language != TRITON else ()),
                *((NO_GPU,) if measured.predicted else ()),
                *((scripted,) if scripted else ()),
                *unread,
            ),
            images,
            diagnosis,
            options.regime,
        )
        keep_json(context, "profile.json", summary)
        page = profile_page(bench.kernel.name, summary)
        context.artifact("profile.md", page.encode(), "text/markdown")
        # The page is what there is to review: where nobody is asked, nothing may be pushed, or on a checkout it has no use.
        request = context.request
        pushed = (
            asks(context) and bool(strategies) and not at_floor and not request.read_only and request.origin.number > 0
        )
        changes = (FileChange(profile_path(bench.kernel.name), page),) if pushed else ()
        updates = _updates(bench, summary, changes)
        return StageResult(_output(bench, summary, changes), updates, checkpoint=not at_floor)


def _revised(context: StageContext) -> ProblemText | None:
    """The problem that a review put in place of the known one; None where it has none."""
    source = revised_source(tuple(review.text for review in context.feedback), "")
    return ProblemText(ProblemKind.block, source) if source else None


def _updates(bench: OptimizeBench, summary: ProfileSummary, changes: tuple[FileChange, ...]) -> tuple[Update, ...]:
    context = bench.context
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
    """Whether a review decides after the profile and after the comparison."""
    return context.request.verb is Verb.optimize and not context.request.options.auto


def _output(bench: OptimizeBench, summary: ProfileSummary, changes: tuple[FileChange, ...]) -> dict[str, Any]:
    return kept_bench(bench) | {
        "changes": to_json(changes),
        "verdict": to_json(replace(summary.verdict, checks=())),
        "benchmark": to_json(summary.benchmark),
        "profile": to_json(summary.profile),
        "reading": to_json(summary.reading),
        "strategies": to_json(summary.strategies),
        "nothing_to_gain": summary.nothing_to_gain,
        "diagnosis": None if summary.diagnosis is None else to_json(summary.diagnosis),
    }


def _traced(bench: OptimizeBench) -> tuple[OptimizeBench, tuple[str, ...]]:
    bench.context.note("tracing the problem")
    captured = bench.gate.capture("capture", bench.problem.source, lasting=True).result
    if captured.graph is None:
        return bench, (UNTRACED.format(captured.error),)
    return replace(bench, graph=captured.graph), ()


def _sized(bench: OptimizeBench) -> tuple[OptimizeBench, tuple[str, ...]]:
    """Choose the sizes to measure: the problem's, those of the library's benchmark script, and all that the command names."""
    bench, notes = _recorded(bench)
    workloads, added = with_sizes(
        bench.workloads, aim_of(bench.problem, bench.context.request.options).sizes, bench.problem
    )
    added_notes = tuple(ADDED.format(workload.label()) for workload in added)
    return replace(bench, workloads=workloads), (*notes, *added_notes)


def _recorded(bench: OptimizeBench) -> tuple[OptimizeBench, tuple[str, ...]]:
    request = bench.layout.sizes_request(bench.kernel, bench.problem, bench.tree, SNAPSHOT_FILE)
    if request is None:
        return bench, ()
    bench.context.note("reading the sizes of the library's benchmark script")
    recorded = bench.gate.record(request)
    known = bench.layout.sizes_of(bench.problem, recorded)
    sizes = tuple(size for size in known if elements(bench.problem, size) <= MOST_ELEMENTS)
    if not sizes:
        return bench, (UNRECORDED.format(f" ({recorded.error})" if recorded.error else ""),)
    wanted = aim_of(bench.problem, bench.context.request.options).sizes
    return replace(bench, workloads=chosen_sizes(bench.problem.workloads, sizes, wanted)), ()


def _judged(bench: OptimizeBench) -> Verdict:
    bench.context.note("holding what stands today against the problem")
    form = bench.form()
    verdict = bench.gate.verify("verify", bench.problem, form, quick=True, original=form)
    if verdict.status is not Status.passed:
        failure = verdict_failure(verdict, "library's")
        message = f"the problem does not say what `{bench.kernel.name}` computes today: {failure.message}"
        fix = "Correct the reference or its CALL, and give the command again with it in a fenced Python block."
        raise UserFacingError(Failure(FailureCode.problem, message, fix, failure.line, failure.log))
    return verdict


def _measured(bench: OptimizeBench) -> BenchmarkResult:
    bench.context.note(f"measuring what stands today at {len(bench.workloads)} sizes")
    budget_s = timing_budget_s(len(bench.workloads))
    return bench.gate.benchmark(
        "benchmark", bench.problem, bench.form(), workloads=bench.workloads, budget_s=budget_s, existing=True
    )


def profiled_if_asked(
    bench: Bench, kernel: str, problem: Problem, form: CandidateSource, measured: BenchmarkResult
) -> ProfileResult | None:
    """With ``--profile`` the profile of a new or changed kernel at the problem's first size, kept as JSON and as a page.

    Raises:
        UserFacingError: the GPU host failed.
    """
    context = bench.context
    if not context.request.options.profile:
        return None
    result = bench.gate.profile(problem, form, problem.workloads[0])
    keep_json(context, "profile.json", result)
    context.artifact("profile.md", kernel_page(kernel, result, measured).encode(), "text/markdown")
    return result


def _planned(bench: OptimizeBench, known: Profiled, turn: ModelTurn) -> tuple[PlannedStrategy, ...]:
    before = measured_before(bench.context, bench.kernel.name, known.benchmark.gpu, bench.workloads)
    return ordered(situation_of(bench, known, model=turn), before)


def _diagnosed(bench: OptimizeBench, known: Profiled) -> tuple[ModelReading | None, tuple[str, ...]]:
    """A model's diagnosis of the kernel, where one will be asked for changes; without it the notes say why."""
    if not any(planned.repeats for planned in known.strategies):
        return None, ()
    bench.context.note("asking a model what bounds it")
    brief = variant_brief(bench, known, bench.original)
    answer = ask_or_silence(bench.context, "diagnosis", diagnosis_question(brief))
    if not isinstance(answer, Answer):
        return None, (UNDIAGNOSED.format(answer.sentence.rstrip(".")),)
    try:
        reading = read_diagnosis(answer)
    except UnusableAnswer as unusable:
        return None, (UNDIAGNOSED.format(unusable),)
    return ModelReading(reading.bottleneck, reading.evidence, reading.steps), ()


def turn_of(bench: Bench) -> ModelTurn:
    """When a model's changes come, the same in every run of the attempt.

    Raises:
        UserFacingError: a model is wanted and none is configured.
    """
    request = bench.context.request
    wanted = request.options.author
    if request.verb in WITHOUT_A_MODEL:
        return ModelTurn.never
    if wanted is AuthorName.compiler:
        return ModelTurn.never
    if bench.has_models():
        return ModelTurn.first if wanted is AuthorName.llm else ModelTurn.last
    if wanted is AuthorName.llm:
        raise UserFacingError(NO_MODEL)
    return ModelTurn.never
