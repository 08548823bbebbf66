"""Which entries of the strategy catalog a model is told of for a kernel that is yet to be written. Pure.

The strategies decide by a ``Situation`` as in optimize. What they read is the start, the compiler's kernel, or where there is none
the problem's graph; times are those of the start where it was measured.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_runner.contracts import BenchmarkResult, Bound, Pass
from workers.authors.llm.protocol import Idea
from workers.contracts import Goal, PlannedStrategy, Scope, SourceReading
from workers.layouts.protocol import Standing
from workers.stages.authoring.counted import Counted, bounds_of
from workers.stages.authoring.planned import plan_of_graph
from workers.stages.workbench import Workbench
from workers.strategies.order import ordered
from workers.strategies.protocol import Situation, Stands
from workers.strategies.reading import read_source

MOST_IDEAS = 6
UNMEASURED = BenchmarkResult((), predicted=True, gpu=None, bandwidth_gbps=None)


def ideas_of(
    bench: Workbench, counts: Sequence[Counted], start: str | None, measured: BenchmarkResult | None
) -> tuple[Idea, ...]:
    """Give the entries whose triggers hold, what may gain most first; ``measured`` is of the start."""
    situation = situation_of_new(bench, counts, start, measured)
    return tuple(idea(planned, situation.stands) for planned in ordered(situation)[:MOST_IDEAS])


def situation_of_new(
    bench: Workbench, counts: Sequence[Counted], start: str | None, measured: BenchmarkResult | None
) -> Situation:
    """Give the situation before a kernel is written, in which only its problem and its start are there."""
    style, path, source = bench.style(), bench.layout.kernel_path(bench.name, bench.tree), start or ""
    return Situation(
        standing=Standing(bench.name, path, "", (style.function_class,), None, None),
        problem=bench.problem,
        graph=bench.graph,
        source=source,
        original=source,
        reading=read_source(path, source) if start else _unread(bench, path),
        benchmark=UNMEASURED if measured is None else measured,
        bounds=(None if measured is None else _measured_bounds(measured)) or bounds_of(counts),
        goal=Goal.speed,
        scope=Scope.general,
        overwrites=bench.problem.mutates,
        tree=bench.tree,
        style=style,
        author=bench.author,
        stands=Stands.start if start else Stands.nothing,
    )


def idea(planned: PlannedStrategy, stands: Stands = Stands.kernel) -> Idea:
    """Give an entry of the catalog whose trigger holds."""
    gain = f"{planned.gain_low:.2f} to {planned.gain_high:.2f} times as fast"
    expected = f"It is expected to make the kernel {gain}"
    if stands is Stands.nothing:
        expected = f"A kernel with it is expected to be {gain} as one without"
    return Idea(planned.title, f"{planned.trigger} {expected}; against: {planned.bound.value}.")


def _unread(bench: Workbench, path: str) -> SourceReading:
    return SourceReading(path, plan_of_graph(bench.problem, bench.graph).tier, (), (), in_place=False, autotuned=False)


def _measured_bounds(measured: BenchmarkResult) -> tuple[tuple[Pass, Bound], ...]:
    """What the longest floor of each pass is made of."""
    known = sorted((row.floor_us, row.timed_pass, row.bound) for row in measured.rows if row.floor_us and row.bound)
    return tuple({timed_pass: Bound(bound) for _, timed_pass, bound in known}.items())
