"""What a modify job needs before anything runs: the kernel, its test file, its problem, and words that say what to change."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts import CandidateSource, Problem
from workers.contracts import Failure, FailureCode, FileChange, ProblemKind, ProblemText, UserFacingError
from workers.engine.protocol import StageContext
from workers.layouts.existing import is_of
from workers.layouts.protocol import Changeable, Layout, Standing
from workers.layouts.table import find_layout, layout_named
from workers.stages.problem_text import parse, problem_source
from workers.stages.standing import joined
from workers.stages.workbench import SNAPSHOT_FILE, choose_layout, open_tree
from workers.strategies.source import fingerprint
from workers.tree import Tree

SAY_WHAT = (
    "Write it behind the name or below the command, such as `/kernel modify {name} let the caller choose the slope, with "
    "the one of today as the default`."
)
SAY_PROBLEM = (
    "Commit a problem file as `.kernelsmith/problems/{name}.py`, or paste it in a fenced Python block below the command: "
    "`def reference(...)` in plain torch, `INPUTS`, `WORKLOADS`, and how the kernel is called, such as "
    '`CALL = "LigerFooFunction.apply(x, w, eps)"`.'
)
NO_MODEL = Failure(
    FailureCode.model,
    "`/kernel modify` needs a language model, and none is configured on this bot",
    "An operator configures one, with a key, a model's name and a budget (docs/models.md); then `/kernel retry` goes on.",
)


@dataclass(frozen=True)
class Subject:
    """A kernel that stands and is to be changed, with all that is known of it."""

    tree: Tree
    layout: Layout
    standing: Standing
    changeable: Changeable
    words: str
    problem: Problem  # what it computes today
    wanted: Problem | None = None  # what a person gave for it to compute afterwards

    def text(self, path: str) -> str:
        """Give a file as it stands."""
        return self.tree.read(path) or ""

    def code_of(self, changes: tuple[FileChange, ...]) -> tuple[FileChange, ...]:
        """Leave out the changes of test files, which nobody imports."""
        return tuple(change for change in changes if change.path not in self.changeable.tests)

    def tests_of(self, changes: tuple[FileChange, ...]) -> tuple[FileChange, ...]:
        """Give the changes of test files alone."""
        return tuple(change for change in changes if change.path in self.changeable.tests)

    def form(self, problem: Problem, changes: tuple[FileChange, ...] = ()) -> CandidateSource:
        """Give the kernel for the runner as a problem calls it: as it stands, or with changes.

        Raises:
            UserFacingError: the problem has no CALL that can be used.
        """
        return self.layout.form_of(self.standing, problem, self.code_of(changes), SNAPSHOT_FILE)


def preflight(kernel: str, words: str, given: ProblemText, tree: Tree, layout: Layout) -> Subject:
    """Look for all that a modify job needs.

    Raises:
        UserFacingError: something is missing; all of it is named at once, each with its cure.
    """
    standing = layout.locate(kernel, tree)
    missing: list[Failure] = []
    changeable: Changeable | None = None
    known: str | None = None
    asked: Problem | None = None
    try:
        changeable = layout.changeable(standing, tree)
    except UserFacingError as error:
        missing.append(error.failure)
    if not words.strip():
        message = f"nothing says what to change in `{standing.name}`"
        missing.append(Failure(FailureCode.problem, message, SAY_WHAT.format(name=standing.name)))
    try:
        asked = _given(given, standing, tree)
        known = layout.problem_of(standing, tree)
        if known is None and asked is None:
            message = f"nothing says what `{standing.name}` computes, so that a change of it could be proved"
            missing.append(Failure(FailureCode.problem, message, SAY_PROBLEM.format(name=standing.name)))
    except UserFacingError as error:
        missing.append(error.failure)
    if missing or changeable is None:
        raise UserFacingError(joined(missing))
    return _subject(tree, layout, standing, changeable, words.strip(), known, asked)


def _subject(
    tree: Tree,
    layout: Layout,
    standing: Standing,
    changeable: Changeable,
    words: str,
    known: str | None,
    asked: Problem | None,
) -> Subject:
    if known is None:
        assert asked is not None, "without a problem something is missing"
        return Subject(tree, layout, standing, changeable, words, asked)
    problem = parse(known)
    if asked is not None and fingerprint(asked.source) == fingerprint(problem.source):
        asked = None
    return Subject(tree, layout, standing, changeable, words, problem, asked)


def _given(given: ProblemText, standing: Standing, tree: Tree) -> Problem | None:
    if given.kind in (ProblemKind.missing, ProblemKind.words):
        return None
    problem = parse(problem_source(given, tree))
    if problem.call is None:
        message = "the problem does not say how the kernel is called"
        raise UserFacingError(Failure(FailureCode.problem, message, SAY_PROBLEM.format(name=standing.name)))
    return problem


def look_over(kernel: str, words: str, problem: ProblemText, tree: Tree, layout: str | None) -> str:
    """Read a modify command against its repository, running nothing; give the kernel's name there.

    Raises:
        UserFacingError: it cannot be carried out.
    """
    found = preflight(kernel, words, problem, tree, layout_named(layout) if layout else find_layout(tree))
    return found.standing.name


def open_subject(context: StageContext) -> Subject:
    """Find the kernel of a modify job.

    Raises:
        UserFacingError: something is missing.
    """
    request, tree = context.request, open_tree(context)
    return preflight(request.kernel, request.words, request.problem, tree, choose_layout(context, tree))


def calls_what_stands(problem: Problem, subject: Subject) -> bool:
    """Tell whether a problem's CALL can be carried out on the kernel's file as it stands."""
    return is_of(problem, subject.text(subject.standing.path))
