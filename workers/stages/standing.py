"""What the stages share that work on a kernel which stands in the repository: where it is, its problem, its sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpu_runner.contracts import CandidateSource, Graph, Multiple, Problem, Workload, from_json, to_json
from workers.contracts import (
    Failure,
    FailureCode,
    FileChange,
    JobOptions,
    ProblemKind,
    ProblemText,
    Regime,
    StageName,
    Target,
    UserFacingError,
    named_dimensions,
    parse_target,
)
from workers.engine.protocol import StageContext
from workers.layouts.protocol import Layout, Standing
from workers.layouts.table import find_layout, layout_named
from workers.stages.problem_text import parse, problem_source
from workers.stages.workbench import SNAPSHOT_FILE, choose_layout, open_tree
from workers.tree import Tree

MOST_NAMED = 8
CALL_CURE = (
    "Commit a problem file as `.kernelsmith/problems/{name}.py`, or paste it in a fenced Python block under `/kernel optimize`: "
    "`def reference(...)` in plain torch, `INPUTS`, `WORKLOADS`, and how the kernel is called, such as "
    '`CALL = "LigerFooFunction.apply(x, w, eps)"`.'
)


@dataclass(frozen=True)
class Bench:
    """A standing kernel with all that is known of it. ``graph`` is None where the problem could not be traced."""

    tree: Tree
    layout: Layout
    standing: Standing
    problem: Problem
    workloads: tuple[Workload, ...]
    graph: Graph | None = None

    @property
    def multiples(self) -> tuple[Multiple, ...]:
        """Give what the problem's scalars divide, as far as the graph tells."""
        return () if self.graph is None else self.graph.multiples

    @property
    def original(self) -> str:
        """Give the text of the kernel's file as it stands."""
        return self.tree.read(self.standing.path) or ""

    def change(self, source: str) -> tuple[FileChange, ...]:
        """Give the change that puts another text in the place of the kernel's file."""
        return (FileChange(self.standing.path, source),)

    def form(self, source: str | None = None) -> CandidateSource:
        """Give the kernel for the runner: as it stands, or with another text of its file."""
        changes = () if source is None else self.change(source)
        return self.layout.form_of(self.standing, self.problem, changes, SNAPSHOT_FILE)


@dataclass(frozen=True)
class Found:
    """What preflight found out without running anything."""

    layout: Layout
    standing: Standing
    problem: Problem


def preflight(kernel: str, problem: ProblemText, tree: Tree, layout: Layout) -> Found:
    """Look for all that an optimize job needs.

    Raises:
        UserFacingError: something is missing; all of it is named at once, each with its cure.
    """
    standing = layout.locate(kernel, tree)
    missing = list(layout.missing(standing, tree))
    source: str | None = None
    try:
        source = known_problem(problem, standing, tree, layout)
    except UserFacingError as error:
        missing.append(error.failure)
    if missing:
        raise UserFacingError(joined(missing))
    assert source is not None, "without a problem something is missing"
    return Found(layout, standing, parse(source))


def joined(failures: list[Failure]) -> Failure:
    """Give several failures as one that names them all."""
    if len(failures) == 1:
        return failures[0]
    message = "; ".join(failure.message for failure in failures)
    cures = " ".join(failure.cure for failure in failures if failure.cure)
    return Failure(failures[0].code, message, cures or None)


def known_problem(given: ProblemText, standing: Standing, tree: Tree, layout: Layout) -> str:
    """Give the problem that the command brings, or the one that the layout knows for the kernel.

    Raises:
        UserFacingError: there is none, or it does not say how the kernel is called.
    """
    if given.kind in (ProblemKind.missing, ProblemKind.words):
        source = layout.problem_of(standing, tree)
        if source is None:
            message = f"nothing says what `{standing.name}` computes, so that a variant of it could be proved"
            raise UserFacingError(Failure(FailureCode.problem, message, CALL_CURE.format(name=standing.name)))
        return source
    source = problem_source(given, tree)
    if parse(source).call is None:
        message = "the problem does not say how the kernel is called"
        raise UserFacingError(Failure(FailureCode.problem, message, CALL_CURE.format(name=standing.name)))
    return source


def look_over(kernel: str, problem: ProblemText, tree: Tree, options: JobOptions) -> str:
    """Read an optimize command against its repository, running nothing; give the kernel's name there.

    Raises:
        UserFacingError: it cannot be carried out.
    """
    layout = layout_named(options.layout) if options.layout else find_layout(tree)
    found = preflight(kernel, problem, tree, layout)
    aim_of(found.problem, options)
    return found.standing.name


def touched_kernel(before: Tree, after: Tree, layout: str | None) -> str:
    """Give the one kernel in which two trees differ: the only one that is touched, else the only one whose own file is.

    Raises:
        UserFacingError: there is none, or there are several.
    """
    found = layout_named(layout) if layout else find_layout(after)
    files = found.existing(after)
    touched = {name: paths for name, paths in found.touched(before, after).items() if name in files}
    own = [name for name, paths in touched.items() if files[name] in paths]
    for names in (list(touched), own):
        if len(names) == 1:
            return names[0]
    if not touched:
        message, cure = "the pull request touches no kernel", "Name one behind the command."
    else:
        named = own or sorted(touched)
        shown = ", ".join(f"`{name}`" for name in named[:MOST_NAMED]) + (" and more" if len(named) > MOST_NAMED else "")
        message, cure = f"the pull request touches several kernels: {shown}", "Name one of them behind the command."
    raise UserFacingError(Failure(FailureCode.name, message, cure))


@dataclass(frozen=True)
class Aim:
    """What an optimize job is to improve, with the problem's own names for its dimensions."""

    regime: Regime
    target: Target | None

    @property
    def sizes(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        """Give the sizes that were named: they are to be measured, whatever else is."""
        named = (self.regime.sizes, () if self.target is None else self.target.sizes)
        return tuple(sizes for sizes in named if sizes)


def aim_of(problem: Problem, options: JobOptions) -> Aim:
    """Give what a command aims at.

    Raises:
        UserFacingError: it names a dimension that the problem has not.
    """
    dimensions = tuple(dict.fromkeys(name for workload in problem.workloads for name, _ in workload.sizes))
    target = parse_target(options.target) if options.target else None
    option = "--scope"
    try:
        regime = replace(options.regime, sizes=named_dimensions(options.regime.sizes, dimensions))
        option = "--target"
        named = None if target is None else replace(target, sizes=named_dimensions(target.sizes, dimensions))
    except ValueError as error:
        cure = f"Name one of these in `{option}`."
        raise UserFacingError(Failure(FailureCode.refused, str(error), cure)) from error
    return Aim(regime, named)


def open_bench(context: StageContext, problem: ProblemText | None = None) -> Bench:
    """Find the kernel of an optimize job for the first time; ``problem`` takes the place of the command's.

    Raises:
        UserFacingError: something is missing.
    """
    request, tree = context.request, open_tree(context)
    found = preflight(request.kernel, problem or request.problem, tree, choose_layout(context, tree))
    return Bench(tree, found.layout, found.standing, found.problem, found.problem.workloads)


def stored(bench: Bench) -> dict[str, Any]:
    """Give what a later stage needs to open the same bench."""
    return {
        "layout": bench.layout.name,
        "problem_source": bench.problem.source,
        "workloads": to_json(bench.workloads),
        "graph": None if bench.graph is None else to_json(bench.graph),
    }


def reopen_bench(context: StageContext) -> Bench:
    """Open the bench again from what the profile stage left."""
    left = context.result_of(StageName.profile)
    tree = open_tree(context)
    layout = layout_named(str(left["layout"]))
    graph = None if left["graph"] is None else from_json(Graph, left["graph"])
    workloads = tuple(from_json(Workload, item) for item in left["workloads"])
    problem = parse(str(left["problem_source"]))
    return Bench(tree, layout, layout.locate(context.request.kernel, tree), problem, workloads, graph)
