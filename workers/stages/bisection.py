"""Bisect: which commits of a range made a kernel wrong, by a verdict on each, or slower or larger, by runs of two in turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gpu_runner.contracts import BenchmarkResult, CandidateSource, Problem, Status, to_json
from workers.contracts import (
    AssetsUpdate,
    BisectSummary,
    FailureCode,
    Image,
    ReportUpdate,
    StageName,
    Suspect,
    UserFacingError,
)
from workers.engine.protocol import StageContext, StageResult
from workers.layouts.protocol import Layout
from workers.nightly.bisection import MEMORY, TIME, Culprit, Row, StepOutcome, bisect, step_of, value_step, worse_rows
from workers.nightly.detection import WRONG
from workers.reports.plots import RangePlace, against_original, draw_range
from workers.reports.provenance import provenance
from workers.stages.bench import keep_json, known_problem, layout_for
from workers.stages.gate import NO_GPU, ORIGINAL_ALONE, Gate, timing_budget_s
from workers.stages.problem import parse
from workers.tree import Tree, read_tarball

GOOD_FILE, NEW_FILE = "good.tar.gz", "new.tar.gz"


class Bisect:
    """The one stage of ``bisect``."""

    name = StageName.bisect

    def run(self, context: StageContext) -> StageResult:
        """Search the range of the request.

        Raises:
            UserFacingError: the kernel is not there, the host has no GPU, or it is at fault.
        """
        gate = Gate(context, {})
        report, host = gate.host()
        if report.gpu is None:
            raise UserFacingError(NO_GPU)
        search = _CommitRange(context, gate)
        last = len(search.commits) - 1
        by_values = search.becomes_wrong()
        whole = None if by_values else search.measured(0, last)
        search.rows = worse_rows(whole)
        step = search.value_step if by_values else search.step
        found = bisect(last + 1, step) if search.rows or by_values else None
        suspects = () if found is None else tuple(search.suspect(culprit) for culprit in found.culprits)
        images = () if by_values else search.drawn(() if found is None else found.culprits)
        named = {sha for suspect in suspects for sha in suspect.commits}
        summary = BisectSummary(
            search.kernel,
            (step_of(whole) if found is None else found.whole).value,
            suspects,
            search.steps,
            search.commits[0].sha,
            search.commits[last].sha,
            report.gpu,
            max((middle for middle, _, _ in _growths(whole, search.rows).values()), default=None),
            tuple((commit.sha, commit.title) for commit in search.commits if commit.sha in named),
            provenance(context.request, whole or BenchmarkResult((), False, report.gpu, None, host)),
            images=images,
            by_values=by_values,
        )
        keep_json(context, "report.json", summary)
        return StageResult(
            {"summary": to_json(summary)}, (AssetsUpdate(images), ReportUpdate(summary)), checkpoint=False
        )


@dataclass
class _CommitRange:
    """The commits of the request. ``rows`` are what became worse over the whole range: nothing else decides a step."""

    context: StageContext
    gate: Gate
    rows: frozenset[Row] = frozenset()
    _trees: dict[int, Tree] = field(default_factory=dict)
    _known: dict[tuple[int, int], BenchmarkResult | None] = field(default_factory=dict)
    _verdicts: dict[int, Status | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.commits = self.context.request.commits

    @property
    def steps(self) -> int:
        """How many pairs of commits were compared, or commits judged."""
        return len(self._known) or len(self._verdicts)

    @cached_property
    def layout(self) -> Layout:
        """The layout of the newest commit."""
        return layout_for(self.context.request.options.layout, self._tree(len(self.commits) - 1))

    @cached_property
    def kernel(self) -> str:
        """The kernel's name in the repository."""
        return self.layout.locate(self.context.request.kernel, self._tree(len(self.commits) - 1)).name

    @cached_property
    def problem(self) -> Problem:
        """The kernel's problem at the newest commit, which all are called with."""
        tree = self._tree(len(self.commits) - 1)
        kernel = self.layout.locate(self.kernel, tree)
        return parse(known_problem(self.context.request.problem, kernel, tree, self.layout))

    def measured(self, old: int, new: int) -> BenchmarkResult | None:
        """Two commits in turns; None where one of them has no such kernel, or does not build."""
        problem = self.problem  # without it there is nothing to compare: the job ends, and no commit is called broken
        if (old, new) not in self._known:
            older, newer = self.commits[old].sha[:12], self.commits[new].sha[:12]
            self.context.note(f"comparing {newer} with {older}")
            self._known[old, new] = self._ask(f"{older}-{newer}", old, new, problem)
        return self._known[old, new]

    def step(self, old: int, new: int) -> StepOutcome:
        """What the comparison says about the rows that count."""
        return step_of(self.measured(old, new), self.rows)

    def becomes_wrong(self) -> bool:
        """Whether values are wrong at the last commit, next to the first; then nothing else is searched."""
        return self._verdict(len(self.commits) - 1) in WRONG

    def value_step(self, old: int, new: int) -> StepOutcome:
        """Whether values became wrong between two commits."""
        return value_step(self._verdict(old), self._verdict(new), self._verdict(len(self.commits) - 1))

    def _verdict(self, place: int) -> Status | None:
        """The verdict on a commit, next to the good one; None where it has no such kernel, or the kernel cannot be called so.

        What cannot be proved passes where the good one cannot be proved either: nothing wrong was found in both.
        """
        problem = self.problem
        if place == 0:
            return (
                Status.passed
            )  # the others are judged next to it: where it is wrong itself, none of them is called wrong
        status = self._judged(place, problem)
        is_as_good = status is Status.unproved and self._judged(0, problem) is Status.unproved
        return Status.passed if is_as_good else status

    def _judged(self, place: int, problem: Problem) -> Status | None:
        if place not in self._verdicts:
            commit = self.commits[place]
            self.context.note(f"proving {commit.sha[:12]}")
            try:
                # What the good commit does, such as overwriting an input, the others may do.
                form, good = self._form(place, NEW_FILE), self._form(0, GOOD_FILE)
                files = {NEW_FILE: commit.snapshot, GOOD_FILE: self.commits[0].snapshot}
                verdict = self.gate.verify(f"{commit.sha[:12]}-verify", problem, form, original=good, more=files)
                self._verdicts[place] = verdict.status
            except UserFacingError as error:
                if error.failure.code is FailureCode.environment:
                    raise
                self._verdicts[place] = None
        return self._verdicts[place]

    def drawn(self, culprits: Sequence[Culprit]) -> tuple[Image, ...]:
        """The row that grew most, at each commit that was compared, as a share of what it was at the first one."""
        grown = _growths(self._known[0, len(self.commits) - 1], self.rows)
        if not grown:
            return ()
        row = max(grown, key=lambda one: grown[one][0])
        levels, places = {0: 1.0}, [RangePlace(0, 1.0)]
        for (old, new), result in sorted(self._known.items()):
            # A commit is first compared with the oldest good one, whose own level is known by then.
            growth = _growths(result, frozenset([row])).get(row)
            if growth is None or new in levels or old not in levels:
                continue
            middle, low, high = (None if one is None else one * levels[old] for one in growth)
            levels[new] = middle or 1.0
            worse = any(culprit.bad <= new for culprit in culprits)
            places.append(RangePlace(new, levels[new], low, high, worse))
        kind, timed_pass, workload = row
        what = f"{self.kernel}: {kind}, {timed_pass}, {workload}"
        labels = [commit.sha[:8] for commit in self.commits]
        return draw_range(self.context, what, labels, places, [culprit.bad for culprit in culprits])

    def suspect(self, culprit: Culprit) -> Suspect:
        """A culprit by its commits."""
        between = self.commits[culprit.good + 1 : culprit.bad + 1]
        unjudged = tuple(self.commits[place].sha for place in culprit.unjudged)
        merge = between[0].sha if len(between) == 1 and between[0].merges is not None else None
        return Suspect(tuple(commit.sha for commit in between), unjudged, merge)

    def _ask(self, key: str, old: int, new: int, problem: Problem) -> BenchmarkResult | None:
        try:
            candidate, original = self._form(new, NEW_FILE), self._form(old, GOOD_FILE)
            # All of the time goes to the sizes that count: a step without one of them decides nothing.
            wanted = {workload for _, _, workload in self.rows}
            workloads = tuple(one for one in problem.workloads if one.label() in wanted)
            return self.gate.benchmark(
                key,
                problem,
                candidate,
                workloads=workloads,
                budget_s=timing_budget_s(len(problem.workloads)),
                original=original,
                contenders=ORIGINAL_ALONE,
                existing=True,
                more={NEW_FILE: self.commits[new].snapshot, GOOD_FILE: self.commits[old].snapshot},
                whole=True,
            )
        except UserFacingError as error:
            if error.failure.code is FailureCode.environment:
                raise
            return None

    def _form(self, place: int, file: str) -> CandidateSource:
        kernel = self.layout.locate(self.kernel, self._tree(place))
        return self.layout.form_of(kernel, self.problem, (), file)

    def _tree(self, place: int) -> Tree:
        if place not in self._trees:
            self._trees[place] = read_tarball(self.context.load(self.commits[place].snapshot))
        return self._trees[place]


Growth = tuple[float, float | None, float | None]  # new over old, with its 95% interval where it was timed


def _growths(result: BenchmarkResult | None, rows: frozenset[Row]) -> dict[Row, Growth]:
    """New over old of each of the rows that was measured."""
    growths: dict[Row, Growth] = {}
    for row in result.rows if result is not None else ():
        place = (row.timed_pass.value, row.workload.label())
        pair = against_original(row)
        if pair is not None:
            growths[TIME, *place] = (1 / pair.speedup, 1 / pair.speedup_high, 1 / pair.speedup_low)
        if row.memory_ratio is not None:
            growths[MEMORY, *place] = (row.memory_ratio, None, None)
    return {row: growth for row, growth in growths.items() if row in rows}
