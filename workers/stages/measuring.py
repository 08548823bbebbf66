"""Measure: the kernels that a change touches, head against base in the same run: for ``bench`` speed, for ``verify`` values."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    BenchmarkResult,
    GpuResult,
    Verdict,
    VerifyRequest,
    from_json,
    to_json,
)
from workers.contracts import (
    AssetsUpdate,
    Failure,
    FailureCode,
    FileChange,
    MeasuredKernel,
    MeasureSummary,
    ReportUpdate,
    StageName,
    UserFacingError,
    Verb,
)
from workers.engine.protocol import StageContext, StageResult
from workers.layouts.protocol import Layout, Standing
from workers.reports.comparison import draw_comparison
from workers.reports.provenance import provenance, reproduce_bench
from workers.stages.problem_text import parse
from workers.stages.standing import known_problem
from workers.stages.suites import json_bytes
from workers.stages.workbench import answer_of, choose_layout, open_tree
from workers.tree import Tree, read_tarball

BASE_FILE, HEAD_FILE = "base.tar.gz", "head.tar.gz"
START_S, SECONDS_A_WORKLOAD = 25.0, 9.0
MOST_KERNELS = 12


@dataclass(frozen=True)
class Side:
    """One of the two commits that are compared."""

    tree: Tree
    file: str  # the snapshot's name beside a request


class Measure:
    """The one stage of ``bench`` and ``verify``."""

    name = StageName.measure

    def run(self, context: StageContext) -> StageResult:
        """Give what was found of each kernel."""
        base, head = _sides(context)
        layout = choose_layout(context, head.tree)
        wanted, notes = _wanted(context, layout, base.tree, head.tree)
        kernels = tuple(
            _one(context, layout, base, head, name, touched) for name, touched in list(wanted.items())[:MOST_KERNELS]
        )
        measured = [kernel.benchmark for kernel in kernels if kernel.benchmark is not None]
        images = draw_comparison(context, kernels)
        request = context.request
        summary = MeasureSummary(
            kernels,
            request.base_sha,
            request.head_sha or request.base_sha,
            request.options.against or f"the merge base with {request.base_ref}",
            images,
            provenance(request, measured[0]) if measured else (),
            reproduce_bench(request),
            notes,
        )
        context.artifact("report.json", json_bytes(summary), "application/json")
        return StageResult(
            {"summary": to_json(summary)}, (AssetsUpdate(images), ReportUpdate(summary)), checkpoint=False
        )


def _sides(context: StageContext) -> tuple[Side, Side]:
    base = Side(open_tree(context), BASE_FILE)
    digest = context.request.head_snapshot
    return base, Side(base.tree if digest is None else read_tarball(context.load(digest)), HEAD_FILE)


def _wanted(
    context: StageContext, layout: Layout, base: Tree, head: Tree
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Give the kernels to measure with the changed files by which they are touched; none is an answer too.

    Raises:
        UserFacingError: a kernel that was named is not there.
    """
    touched = layout.touched(base, head)
    named = context.request.kernels
    if named:
        found = [layout.locate(name, head).name for name in named]
        touched = {name: touched.get(name, ()) for name in dict.fromkeys(found)}
    left = list(touched)[MOST_KERNELS:]
    notes = (
        (f"Not measured, to keep the run short: {', '.join(left)}. Name them in a command of their own.",)
        if left
        else ()
    )
    return touched, notes


def _one(
    context: StageContext, layout: Layout, base: Side, head: Side, name: str, touched: tuple[str, ...]
) -> MeasuredKernel:
    path = layout.existing(head.tree).get(name) or layout.existing(base.tree).get(name) or name
    try:
        before, after = _standing(layout, name, base, "the base"), _standing(layout, name, head, "the head")
        changes = tuple(FileChange(p, text) for p in touched if (text := head.tree.read(p)) is not None)
        request, action = _asked(context, layout, (base, before), (head, after), changes)
        context.note(f"{'measuring' if action is Action.benchmark else 'proving'} {name}")
        answer = answer_of(_ask(context, name, request, action))
    except UserFacingError as error:
        return MeasuredKernel(name, path, touched, skipped=error.failure)
    if action is Action.benchmark:
        return MeasuredKernel(name, after.path, touched, benchmark=from_json(BenchmarkResult, answer))
    return MeasuredKernel(name, after.path, touched, verdict=from_json(Verdict, answer))


def _standing(layout: Layout, name: str, side: Side, where: str) -> Standing:
    """Find a kernel by this very name: one that is only called alike is not what it is to be compared with.

    Raises:
        UserFacingError: it is not there.
    """
    if name not in layout.existing(side.tree):
        cure = "There is nothing to compare it with; `/kernel optimize` measures it beside eager and torch.compile."
        raise UserFacingError(Failure(FailureCode.missing, f"there is no `{name}` at {where}", cure))
    return layout.locate(name, side.tree)


def _asked(
    context: StageContext,
    layout: Layout,
    before: tuple[Side, Standing],
    after: tuple[Side, Standing],
    changes: tuple[FileChange, ...],
) -> tuple[BenchmarkRequest | VerifyRequest, Action]:
    (base, old), (head, new) = before, after
    # What the kernel is held against stands at the base: a change cannot weaken its own judge.
    source = known_problem(context.request.problem, old, base.tree, layout)
    problem = parse(source)
    original = layout.form_of(old, problem, (), base.file)
    # The files that the change touches are laid over their own tree once more: what is laid over is screened.
    candidate = layout.form_of(new, problem, changes, head.file)
    if context.request.verb is Verb.verify:
        return VerifyRequest(source, candidate, original=original), Action.verify
    budget_s = START_S + SECONDS_A_WORKLOAD * len(problem.workloads)
    return BenchmarkRequest(source, candidate, budget_s=budget_s, original=original), Action.benchmark


def _ask(context: StageContext, name: str, request: object, action: Action) -> GpuResult:
    job = context.request
    beside = {BASE_FILE: job.snapshot, HEAD_FILE: job.head_snapshot or job.snapshot}
    return context.gpu(f"{name}-{action.value}", request, action, beside, lasting=True)
