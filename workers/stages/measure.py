"""Measure: the kernels that a change touches, head against base in the same run: for ``bench`` speed, for ``verify`` values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_runner.contracts import from_json, to_json
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
    UsualRange,
    Verb,
)
from workers.engine.protocol import StageContext, StageResult
from workers.layouts.protocol import ExistingKernel, Layout
from workers.nightly.job_numbers import base_numbers
from workers.nightly.series import host_testbed
from workers.nightly.significance import race_lengths, usual_ranges
from workers.reports.plots import draw_comparison
from workers.reports.provenance import provenance, reproduce_bench
from workers.stages.bench import keep_json, known_problem, layout_for
from workers.stages.gate import MOST_KERNELS, Gate, timing_budget_s
from workers.stages.problem import parse
from workers.store import history
from workers.tree import Tree, read_tarball

BASE_FILE, HEAD_FILE = "base.tar.gz", "head.tar.gz"


@dataclass(frozen=True)
class Side:
    """One of the two commits that are compared."""

    tree: Tree
    file: str  # the snapshot's name next to a request


class Measure:
    """The one stage of ``bench`` and ``verify``."""

    name = StageName.measure

    def run(self, context: StageContext) -> StageResult:
        """What was measured of each kernel."""
        base, head = _sides(context)
        layout = layout_for(context.request.options.layout, head.tree)
        wanted, notes = _wanted(context, layout, base.tree, head.tree)
        job = context.request
        gate = Gate(context, {BASE_FILE: job.snapshot, HEAD_FILE: job.head_snapshot or job.snapshot})
        names = list(wanted)[:MOST_KERNELS]
        usual = _usual(gate, names) if job.verb is Verb.bench else {}
        kernels = tuple(_one(gate, layout, base, head, name, wanted[name], usual.get(name, ())) for name in names)
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
        measured_at = float(context.memo("measured_at", context.now))
        context.history(lambda session: history.add(session, base_numbers(request, summary, measured_at)))
        keep_json(context, "report.json", summary)
        return StageResult(
            {"summary": to_json(summary)}, (AssetsUpdate(images), ReportUpdate(summary)), checkpoint=False
        )


def _sides(context: StageContext) -> tuple[Side, Side]:
    base = Side(read_tarball(context.load(context.request.snapshot)), BASE_FILE)
    digest = context.request.head_snapshot
    return base, Side(base.tree if digest is None else read_tarball(context.load(digest)), HEAD_FILE)


def _wanted(
    context: StageContext, layout: Layout, base: Tree, head: Tree
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """The kernels to measure with the changed files by which they are touched; none is an answer too.

    Raises:
        UserFacingError: a kernel that was named is not there.
    """
    touched = layout.touched(base, head)
    named = context.request.kernels
    if named:
        names = [layout.locate(name, head).name for name in named]
        touched = {name: touched.get(name, ()) for name in dict.fromkeys(names)}
    left = list(touched)[MOST_KERNELS:]
    notes = (
        (f"Not measured, to keep the run short: {', '.join(left)}. Name them in a command of their own.",)
        if left
        else ()
    )
    return touched, notes


def _usual(gate: Gate, names: Sequence[str]) -> dict[str, tuple[UsualRange, ...]]:
    """What the kernels' own nights vary by on the GPU of the host that is at work; a host is asked only where there are nights."""
    context, repository = gate.context, gate.context.request.origin.repository

    def with_nights() -> list[str]:
        return context.history(lambda s: [name for name in names if history.has_nights(s, repository, name)])

    kernels = context.memo("with_nights", with_nights)
    if not kernels:
        return {}
    report, host = gate.host()
    if report.gpu is None:
        return {}
    testbed = host_testbed(report.gpu, dict(host))

    def ranges() -> dict[str, tuple[UsualRange, ...]]:
        return {
            name: context.history(lambda s, name=name: usual_ranges(history.own_series(s, repository, name), testbed))  # type: ignore[misc]
            for name in kernels
        }

    stored = context.memo("usual", ranges)
    return {name: tuple(from_json(UsualRange, one) for one in forms) for name, forms in stored.items()}


def _one(
    gate: Gate,
    layout: Layout,
    base: Side,
    head: Side,
    name: str,
    touched: tuple[str, ...],
    usual: tuple[UsualRange, ...],
) -> MeasuredKernel:
    path = layout.existing(head.tree).get(name) or layout.existing(base.tree).get(name) or name
    try:
        before, after = _existing(layout, name, base, "the base"), _existing(layout, name, head, "the head")
        changes = tuple(FileChange(p, text) for p in touched if (text := head.tree.read(p)) is not None)
        # What the kernel is held against stands at the base: a change cannot weaken its own judge.
        problem = parse(known_problem(gate.context.request.problem, before, base.tree, layout))
        original = layout.form_of(before, problem, (), base.file)
        # The files that the change touches are laid over their own tree once more: what is laid over is screened.
        candidate = layout.form_of(after, problem, changes, head.file)
        if gate.context.request.verb is Verb.verify:
            gate.context.note(f"proving {name}")
            verdict = gate.verify(f"{name}-verify", problem, candidate, original=original)
            return MeasuredKernel(name, after.path, touched, verdict=verdict)
        gate.context.note(f"measuring {name}")
        budget_s = timing_budget_s(len(problem.workloads))
        lengths = race_lengths(usual)
        timed = gate.context.request.options.timed_sizes
        measured = gate.benchmark(
            f"{name}-benchmark",
            problem,
            candidate,
            workloads=tuple(one for one in problem.workloads if one.label() in timed),
            budget_s=budget_s,
            original=original,
            lengths=lengths,
            whole=True,
        )
        there = tuple(one for one in usual if one.gpu == measured.gpu)
        return MeasuredKernel(name, after.path, touched, benchmark=measured, usual=there)
    except UserFacingError as error:
        return MeasuredKernel(name, path, touched, skipped=error.failure)


def _existing(layout: Layout, name: str, side: Side, where: str) -> ExistingKernel:
    """Find a kernel by exactly this name: one of a similar name is not what it is to be compared with.

    Raises:
        UserFacingError: it is not there.
    """
    if name not in layout.existing(side.tree):
        fix = "There is nothing to compare it with; `/kernel optimize` measures it beside eager and torch.compile."
        raise UserFacingError(Failure(FailureCode.missing, f"there is no `{name}` at {where}", fix))
    return layout.locate(name, side.tree)
