"""What a stage has at hand: its job, the repository as it was, the layout, the kernel and its problem."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from gpu_runner.contracts import (
    BenchmarkResult,
    CandidateSource,
    Graph,
    KernelNames,
    Multiple,
    Problem,
    ProfileResult,
    Verdict,
    Workload,
    from_json,
    to_json,
)
from gpu_runner.contracts.reading import TRITON, language_of
from workers.authors.protocol import Author, AuthorRefusal, Brief, Feedback, KernelPlan, Proposal, SourceStyle
from workers.authors.table import author_named
from workers.contracts import (
    AuthorName,
    Failure,
    FailureCode,
    FileChange,
    JobOptions,
    ModelReading,
    PlannedStrategy,
    ProblemKind,
    ProblemText,
    Regime,
    SourceReading,
    StageName,
    Target,
    UserFacingError,
    named_dimensions,
    parse_target,
)
from workers.engine.protocol import StageContext
from workers.layouts.existing import is_of
from workers.layouts.protocol import Changeable, Design, ExistingKernel, Layout, Placed
from workers.layouts.table import find_layout, layout_named
from workers.stages.gate import SNAPSHOT_FILE, Gate
from workers.stages.problem import named_freely, parse, problem_source, wish_of
from workers.strategies.source import fingerprint
from workers.targets.table import target_named
from workers.tree import Tree, read_tarball

MOST_NAMED = 8
SAY_PROBLEM = (
    "Commit a problem file as `.kernelsmith/problems/{name}.py`, or paste it in a fenced Python block below the command: "
    "`def reference(...)` in plain torch, `INPUTS`, `WORKLOADS`, and how the kernel is called, such as "
    '`CALL = "LigerFooFunction.apply(x, w, eps)"`.'
)
SAY_WHAT = (
    "Write it behind the name or below the command, such as `/kernel modify {name} let the caller choose the slope, with "
    "the one of today as the default`."
)


@dataclass(frozen=True)
class Bench:
    """The job's context, the repository as it was when the command was given, and how the library is laid out."""

    context: StageContext
    tree: Tree
    layout: Layout

    @property
    def gate(self) -> Gate:
        """The gate, with the repository's snapshot next to each request."""
        return Gate(self.context, {SNAPSHOT_FILE: self.context.request.snapshot})

    def has_models(self) -> bool:
        """Whether a model may be asked, the same in every run of the attempt."""
        return bool(self.context.memo("has-models", lambda: self.context.has_models))

    def asks_models(self) -> bool:
        """Whether a model acts on the words of reviews and writes what the compiler refuses: one is there, and allowed."""
        return self.context.request.options.author is not AuthorName.compiler and self.has_models()


@dataclass(frozen=True)
class CreateBench(Bench):
    """A kernel that is yet to be written."""

    name: str
    author: Author  # the one that needs no model
    problem: Problem
    graph: Graph
    names: KernelNames
    host: tuple[tuple[str, str], ...] = ()  # facts of the GPU host that traced the problem

    def style(self) -> SourceStyle:
        """The style in which the kernel's module is to be written, for the target of the command."""
        style, to = self.layout.style(self.name, self.names, self.tree), self.context.request.options.to
        return style if to is None else replace(style, target=target_named(to).schedules or to)

    def compiled(self, feedback: tuple[Feedback, ...] = ()) -> Proposal | AuthorRefusal:
        """The compiler author's module in the layout's style, or why it has none."""
        return self.author.propose(Brief(self.name, self.problem, self.graph, self.style(), self.names, feedback))

    def designed(self, plan: KernelPlan, source: str | None) -> Design:
        """A design of this kernel."""
        return Design(self.name, self.names, self.problem, self.graph, plan, source, self.style().target)

    def form(self, design: Design, changes: tuple[FileChange, ...]) -> CandidateSource:
        """The kernel for the runner."""
        return self.layout.candidate(design, changes, SNAPSHOT_FILE)


@dataclass(frozen=True)
class OptimizeBench(Bench):
    """An existing kernel. ``graph`` is None where the problem could not be traced."""

    kernel: ExistingKernel
    problem: Problem
    workloads: tuple[Workload, ...]
    graph: Graph | None = None

    @property
    def multiples(self) -> tuple[Multiple, ...]:
        """What the problem's scalars divide, as far as the graph shows."""
        return () if self.graph is None else self.graph.multiples

    @property
    def original(self) -> str:
        """The text of the kernel's file today."""
        return self.tree.read(self.kernel.path) or ""

    def change(self, source: str) -> tuple[FileChange, ...]:
        """The change that puts another text in the place of the kernel's file."""
        return (FileChange(self.kernel.path, source),)

    @property
    def language(self) -> str:
        """The language that the kernel is written in."""
        return language_of([self.original])

    def has_models(self) -> bool:
        """Whether a model may be asked: none changes kernels in another language than Triton."""
        return self.language == TRITON and super().has_models()

    @property
    def handed(self) -> tuple[FileChange, ...]:
        """What a run of the kernel as it is is handed beside the snapshot: the file by which a language but Triton is known."""
        return self.change(self.original) if self.language != TRITON else ()

    def form(self, source: str | None = None) -> CandidateSource:
        """The kernel for the runner: as it is, or with another text of its file."""
        changes = self.handed if source is None else self.change(source)
        return self.layout.form_of(self.kernel, self.problem, changes, SNAPSHOT_FILE)

    def form_of(self, placed: Placed) -> CandidateSource:
        """The kernel for the runner, as it will be committed."""
        return self.layout.form_of_placed(placed, self.problem, SNAPSHOT_FILE)


@dataclass(frozen=True)
class ModifyBench(Bench):
    """An existing kernel that is to be changed as ``words`` say."""

    kernel: ExistingKernel
    changeable: Changeable
    words: str
    problem: Problem  # what it computes today
    wanted: Problem | None = None  # what a person gave for it to compute afterwards

    def text(self, path: str) -> str:
        """A file as it is today."""
        return self.tree.read(path) or ""

    def own(self, changes: tuple[FileChange, ...]) -> tuple[FileChange, ...]:
        """Leave out what the bot keeps for itself in the repository."""
        return tuple(change for change in changes if change.path in self.changeable.paths)

    def tests_of(self, changes: tuple[FileChange, ...]) -> tuple[FileChange, ...]:
        """The changes of test files alone."""
        return tuple(change for change in changes if change.path in self.changeable.tests)

    def form(self, problem: Problem, changes: tuple[FileChange, ...] = ()) -> CandidateSource:
        """The kernel for the runner as a problem calls it, as it is or with changes; nobody imports those of test files.

        Raises:
            UserFacingError: the problem has no CALL that can be used.
        """
        code = tuple(change for change in changes if change.path not in self.changeable.tests)
        return self.layout.form_of(self.kernel, problem, code, SNAPSHOT_FILE)

    def can_call(self, problem: Problem) -> bool:
        """Whether a problem's CALL can be carried out on the kernel's file as it is today."""
        return is_of(problem, self.text(self.kernel.path))


@dataclass(frozen=True)
class Profiled:
    """What is known of v0. ``strategies`` are in the order in which they will be tried."""

    reading: SourceReading
    verdict: Verdict
    benchmark: BenchmarkResult
    profile: ProfileResult
    strategies: tuple[PlannedStrategy, ...] = ()
    nothing_to_gain: bool = False
    diagnosis: ModelReading | None = None


# A bench is opened in a stage, and again in the next one from what is kept.


def open_bench(context: StageContext) -> Bench:
    """The repository as it was when the command was given, in the layout that was asked for or that fits it."""
    tree = read_tarball(context.load(context.request.snapshot))
    return Bench(context, tree, layout_for(context.request.options.layout, tree))


def layout_for(name: str | None, tree: Tree) -> Layout:
    """The layout of a name, or the one that fits a repository."""
    return layout_named(name) if name else find_layout(tree)


def create_bench(bench: Bench, source: str, graph: Graph) -> CreateBench:
    """The bench of a new kernel, from a problem that was traced."""
    problem, name = parse(source), bench.context.request.kernel
    names = bench.layout.names(name, problem, bench.tree)
    author = author_named(AuthorName.compiler)
    return CreateBench(bench.context, bench.tree, bench.layout, name, author, problem, graph, names)


def reopen_create(context: StageContext) -> CreateBench:
    """The bench again from what analyze left."""
    left = context.result_of(StageName.analyze)
    tree = read_tarball(context.load(context.request.snapshot))
    bench = Bench(context, tree, layout_named(str(left["layout"])))
    created = create_bench(bench, str(left["problem_source"]), from_json(Graph, left["graph"]))
    return replace(created, host=tuple(left.get("host", {}).items()))


def open_optimize(bench: Bench, problem: ProblemText | None = None) -> OptimizeBench:
    """Find the kernel of an optimize job; ``problem`` takes the place of the command's.

    Raises:
        UserFacingError: something is missing.
    """
    request = bench.context.request
    kernel, resolved = preflight_optimize(request.kernel, problem or request.problem, bench.tree, bench.layout)
    return OptimizeBench(bench.context, bench.tree, bench.layout, kernel, resolved, resolved.workloads)


def kept_bench(bench: OptimizeBench) -> dict[str, Any]:
    """What a later stage needs to open the same bench."""
    return {
        "layout": bench.layout.name,
        "problem_source": bench.problem.source,
        "workloads": to_json(bench.workloads),
        "graph": None if bench.graph is None else to_json(bench.graph),
    }


def reopen_optimize(context: StageContext) -> tuple[OptimizeBench, Profiled]:
    """The bench again, and what is known of the kernel, from what the profile stage left."""
    left = context.result_of(StageName.profile)
    tree = read_tarball(context.load(context.request.snapshot))
    layout = layout_named(str(left["layout"]))
    bench = OptimizeBench(
        context,
        tree,
        layout,
        layout.locate(context.request.kernel, tree),
        parse(str(left["problem_source"])),
        tuple(from_json(Workload, item) for item in left["workloads"]),
        None if left["graph"] is None else from_json(Graph, left["graph"]),
    )
    known = Profiled(
        from_json(SourceReading, left["reading"]),
        from_json(Verdict, left["verdict"]),
        from_json(BenchmarkResult, left["benchmark"]),
        from_json(ProfileResult, left["profile"]),
        tuple(from_json(PlannedStrategy, item) for item in left["strategies"]),
        bool(left["nothing_to_gain"]),
        None if left.get("diagnosis") is None else from_json(ModelReading, left["diagnosis"]),
    )
    return bench, known


def open_modify(context: StageContext) -> ModifyBench:
    """Find the kernel of a modify job.

    Raises:
        UserFacingError: something is missing.
    """
    bench, request = open_bench(context), context.request
    kernel, changeable, problem, wanted = preflight_modify(
        request.kernel, request.words, request.problem, bench.tree, bench.layout
    )
    words = request.words.strip()
    return ModifyBench(context, bench.tree, bench.layout, kernel, changeable, words, problem, wanted)


# What a command needs, found without running anything.


def look_over_create(kernel: str, problem: ProblemText, tree: Tree, options: JobOptions, *, models: bool) -> str:
    """Read a create command against its repository; give the kernel's name there.

    Raises:
        UserFacingError: it cannot be carried out.
    """
    chosen = layout_for(options.layout, tree)
    if options.to is not None:
        _check_target(kernel, options.to, chosen)
    if models and wish_of(problem, tree) is not None:
        named_freely(kernel, chosen, tree)
    else:
        chosen.names(kernel, parse(problem_source(problem, tree)), tree)
    return kernel


def _check_target(kernel: str, to: str, layout: Layout) -> None:
    """Whether a new kernel for a target has a place.

    Raises:
        UserFacingError: it has not.
    """
    if target_named(to).name not in layout.targets:
        message = f"a new kernel for `{to}` has no place in a repository of the layout `{layout.name}`"
        fix = f"Create it without `--to`, and where it is merged give `/kernel port {kernel} --to {to}`."
        if not layout.ported:
            fix = "Create it without `--to`; docs/porting.md lists the layouts that take it."
        raise UserFacingError(Failure(FailureCode.layout, message, fix))


def look_over_optimize(kernel: str, problem: ProblemText, tree: Tree, options: JobOptions) -> str:
    """Read an optimize command against its repository; give the kernel's name there.

    Raises:
        UserFacingError: it cannot be carried out.
    """
    existing, known = preflight_optimize(kernel, problem, tree, layout_for(options.layout, tree))
    language = language_of([tree.read(existing.path) or ""])
    if language != TRITON and options.author is AuthorName.llm:
        message = f"no language model changes kernels in {language}"
        raise UserFacingError(
            Failure(FailureCode.refused, message, "Leave out `--author llm`: it is done without one.")
        )
    aim_of(known, options)
    return existing.name


def look_over_modify(kernel: str, words: str, problem: ProblemText, tree: Tree, layout: str | None) -> str:
    """Read a modify command against its repository; give the kernel's name there.

    Raises:
        UserFacingError: it cannot be carried out.
    """
    return preflight_modify(kernel, words, problem, tree, layout_for(layout, tree))[0].name


def preflight_optimize(kernel: str, given: ProblemText, tree: Tree, layout: Layout) -> tuple[ExistingKernel, Problem]:
    """The kernel and its problem.

    Raises:
        UserFacingError: something is missing; all of it is named at once, each with its fix.
    """
    existing = layout.locate(kernel, tree)
    missing = list(layout.missing(existing, tree))
    try:
        source = known_problem(given, existing, tree, layout)
    except UserFacingError as error:
        raise UserFacingError(joined([*missing, error.failure])) from error
    if missing:
        raise UserFacingError(joined(missing))
    return existing, parse(source)


def preflight_modify(
    kernel: str, words: str, given: ProblemText, tree: Tree, layout: Layout
) -> tuple[ExistingKernel, Changeable, Problem, Problem | None]:
    """The kernel, where it may be changed, its problem today, and the one that it is to solve where that is another.

    Raises:
        UserFacingError: something is missing; all of it is named at once, each with its fix.
    """
    existing = layout.locate(kernel, tree)
    missing: list[Failure] = []
    changeable: Changeable | None = None
    known: Problem | None = None
    asked: Problem | None = None
    try:
        changeable = layout.changeable(existing, tree)
    except UserFacingError as error:
        missing.append(error.failure)
    language = language_of([tree.read(existing.path) or ""])
    if language != TRITON:
        message = f"`{existing.name}` is written in {language}, which no model is asked to write"
        missing.append(Failure(FailureCode.refused, message, "Change the file by hand; `/kernel verify` proves it."))
    if not words.strip():
        message = f"nothing says what to change in `{existing.name}`"
        missing.append(Failure(FailureCode.problem, message, SAY_WHAT.format(name=existing.name)))
    try:
        if given.kind not in (ProblemKind.missing, ProblemKind.words):
            asked = _callable(problem_source(given, tree), existing)
        source = layout.problem_of(existing, tree)
        known = asked if source is None else parse(source)
        if known is None:
            message = f"nothing says what `{existing.name}` computes, so that a change of it could be proved"
            missing.append(_say_problem(message, existing))
    except UserFacingError as error:
        missing.append(error.failure)
    if missing or changeable is None or known is None:
        raise UserFacingError(joined(missing))
    if asked is not None and fingerprint(asked.source) == fingerprint(known.source):
        asked = None
    return existing, changeable, known, asked


def joined(failures: list[Failure]) -> Failure:
    """Several failures as one that names them all."""
    if len(failures) == 1:
        return failures[0]
    message = "; ".join(failure.message for failure in failures)
    fixes = " ".join(failure.fix for failure in failures if failure.fix)
    return Failure(failures[0].code, message, fixes or None)


def known_problem(given: ProblemText, kernel: ExistingKernel, tree: Tree, layout: Layout) -> str:
    """The problem that the command brings, or the one that the layout knows for the kernel.

    Raises:
        UserFacingError: there is none, or it does not say how the kernel is called.
    """
    if given.kind not in (ProblemKind.missing, ProblemKind.words):
        return _callable(problem_source(given, tree), kernel).source
    source = layout.problem_of(kernel, tree)
    if source is None:
        message = f"nothing says what `{kernel.name}` computes, so that nothing made of it could be proved"
        raise UserFacingError(_say_problem(message, kernel))
    return source


def _callable(source: str, kernel: ExistingKernel) -> Problem:
    problem = parse(source)
    if problem.call is None:
        raise UserFacingError(_say_problem("the problem does not say how the kernel is called", kernel))
    return problem


def _say_problem(message: str, kernel: ExistingKernel) -> Failure:
    return Failure(FailureCode.problem, message, SAY_PROBLEM.format(name=kernel.name))


def touched_kernel(before: Tree, after: Tree, layout: str | None) -> str:
    """The one kernel in which two trees differ: the only one that is touched, else the only one whose own file is.

    Raises:
        UserFacingError: there is none, or there are several.
    """
    chosen = layout_for(layout, after)
    files = chosen.existing(after)
    touched = {name: paths for name, paths in chosen.touched(before, after).items() if name in files}
    own = [name for name, paths in touched.items() if files[name] in paths]
    for names in (list(touched), own):
        if len(names) == 1:
            return names[0]
    if not touched:
        message, fix = "the pull request touches no kernel", "Name one behind the command."
    else:
        named = own or sorted(touched)
        shown = ", ".join(f"`{name}`" for name in named[:MOST_NAMED]) + (" and more" if len(named) > MOST_NAMED else "")
        message, fix = f"the pull request touches several kernels: {shown}", "Name one of them behind the command."
    raise UserFacingError(Failure(FailureCode.name, message, fix))


@dataclass(frozen=True)
class Aim:
    """What an optimize job is to improve, with the problem's own names for its dimensions."""

    regime: Regime
    target: Target | None

    @property
    def sizes(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        """The sizes that were named: they are to be measured, whatever else is."""
        named = (self.regime.sizes, () if self.target is None else self.target.sizes)
        return tuple(sizes for sizes in named if sizes)


def aim_of(problem: Problem, options: JobOptions) -> Aim:
    """What a command aims at.

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
        fix = f"Name one of these in `{option}`."
        raise UserFacingError(Failure(FailureCode.refused, str(error), fix)) from error
    return Aim(regime, named)


def own_result(context: StageContext, stage: StageName) -> dict[str, Any] | None:
    """What an earlier attempt of this stage left, None on the first."""
    try:
        return context.result_of(stage)
    except KeyError:
        return None


def keep_json(context: StageContext, name: str, value: object) -> None:
    """Keep a contract as an artifact."""
    content = json.dumps(to_json(value), indent=2, sort_keys=True).encode()
    context.artifact(name, content, "application/json")


def changes_from_json(form: Any) -> tuple[FileChange, ...]:
    """File changes from their JSON."""
    return tuple(from_json(FileChange, item) for item in form)


def only_new(changes: tuple[FileChange, ...], tree: Tree, before: tuple[FileChange, ...]) -> tuple[FileChange, ...]:
    """The changes that the branch does not have yet."""
    branch = tree.overlaid(before)
    return tuple(c for c in changes if branch.read(c.path) != c.text)


def merged(before: tuple[FileChange, ...], after: tuple[FileChange, ...]) -> tuple[FileChange, ...]:
    """All changes of the branch, later ones winning."""
    table = {change.path: change for change in before}
    table.update({change.path: change for change in after})
    return tuple(table.values())
