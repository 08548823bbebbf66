"""What the stages of ``create`` share: the repository, the layout, the problem and the author, found anew from what is stored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpu_runner.contracts import Action, GpuResult, Graph, KernelNames, Problem, from_json, to_json
from workers.authors.protocol import Author, Brief, Feedback, KernelPlan, Proposal, Refusal, SourceStyle
from workers.authors.table import author_named
from workers.contracts import (
    AuthorName,
    Failure,
    FailureCode,
    FileChange,
    StageName,
    UserFacingError,
)
from workers.engine.protocol import StageContext
from workers.layouts.protocol import Design, Layout
from workers.layouts.table import find_layout, layout_named
from workers.stages.hardware import hardware
from workers.stages.problem_text import parse
from workers.tree import Tree, read_tarball

SNAPSHOT_FILE = "tree.tar.gz"


@dataclass(frozen=True)
class Workbench:
    """All that a stage of ``create`` works with."""

    name: str
    tree: Tree
    layout: Layout
    author: Author  # the one that needs no model
    problem: Problem
    graph: Graph
    names: KernelNames
    hardware: str = ""  # that the kernel is written for

    def style(self) -> SourceStyle:
        """Give the style in which the kernel's module is to be written."""
        return self.layout.style(self.name, self.names, self.tree)

    def compiled(self, feedback: tuple[Feedback, ...] = ()) -> Proposal | Refusal:
        """Give the compiler author's module in the layout's style, or why it has none."""
        return self.author.propose(Brief(self.name, self.problem, self.graph, self.style(), self.names, feedback))

    def designed(self, plan: KernelPlan, source: str | None) -> Design:
        """Give a design of this kernel."""
        return Design(self.name, self.names, self.problem, self.graph, plan, source)


def open_tree(context: StageContext) -> Tree:
    """Give the repository as it was when the command was given."""
    return read_tarball(context.load(context.request.snapshot))


def choose_layout(context: StageContext, tree: Tree) -> Layout:
    """Give the layout that was asked for, or the one that fits the repository."""
    wanted = context.request.options.layout
    return layout_named(wanted) if wanted else find_layout(tree)


def build(context: StageContext, tree: Tree, layout: Layout, source: str, graph: Graph) -> Workbench:
    """Put a workbench together from a parsed problem and its graph."""
    problem = parse(source)
    name = context.request.kernel
    names = layout.names(name, problem, tree)
    return Workbench(name, tree, layout, author_named(AuthorName.compiler), problem, graph, names)


def reopen(context: StageContext) -> Workbench:
    """Put the workbench together again from what analyze left."""
    stored = context.result_of(StageName.analyze)
    tree = open_tree(context)
    layout = layout_named(str(stored["layout"]))
    bench = build(context, tree, layout, str(stored["problem_source"]), from_json(Graph, stored["graph"]))
    return replace(bench, hardware=hardware(stored.get("host", {}).items(), context.request.options.gpu))


def answer_of(result: GpuResult) -> dict[str, Any]:
    """Give a runner's payload.

    Raises:
        UserFacingError: the runner or its host failed, not what it judged.
    """
    if result.error is not None or result.payload is None:
        message = f"the GPU host could not {DOING[result.action]}: {result.error or 'it gave no result'}"
        cure = "An operator should run `kernelsmith doctor` on that host; then `/kernel retry` goes on from here."
        raise UserFacingError(Failure(FailureCode.environment, message, cure))
    return result.payload


DOING: dict[Action, str] = {
    Action.capture: "trace the problem",
    Action.verify: "prove the candidate",
    Action.benchmark: "measure the candidate",
    Action.profile: "profile the kernel",
    Action.tune: "tune the kernel",
    Action.record: "read the sizes of the library's benchmark script",
    Action.tests: "run the library's own checks",
    Action.doctor: "say what it can do",
}


def own_result(context: StageContext, stage: StageName) -> dict[str, Any] | None:
    """Give what an earlier attempt of this stage left, None on the first."""
    try:
        return context.result_of(stage)
    except KeyError:
        return None


def changes_to_json(changes: tuple[FileChange, ...]) -> Any:
    """Give file changes as JSON."""
    return to_json(changes)


def changes_from_json(form: Any) -> tuple[FileChange, ...]:
    """Give file changes from their JSON."""
    return tuple(from_json(FileChange, item) for item in form)


def only_new(changes: tuple[FileChange, ...], tree: Tree, before: tuple[FileChange, ...]) -> tuple[FileChange, ...]:
    """Leave out changes that the branch already holds."""
    standing = tree.overlaid(before)
    return tuple(c for c in changes if standing.read(c.path) != c.text)


def merged(before: tuple[FileChange, ...], after: tuple[FileChange, ...]) -> tuple[FileChange, ...]:
    """Give all changes of the branch, later ones winning."""
    table = {change.path: change for change in before}
    table.update({change.path: change for change in after})
    return tuple(table.values())
