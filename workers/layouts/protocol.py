"""What every layout can do. Layouts are pure: a tree and a design in, file changes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gpu_runner.contracts import BenchmarkResult, CandidateSource, Graph, KernelNames, Problem, SourceFile
from workers.authors.protocol import KernelPlan, SourceStyle
from workers.contracts import FileChange, KernelProfile
from workers.tree import Tree


@dataclass(frozen=True)
class Design:
    """A kernel on its way into a repository. ``source`` is None until an author's proposal was proved."""

    name: str
    names: KernelNames  # complete: no None
    problem: Problem
    graph: Graph
    plan: KernelPlan
    source: str | None = None


@dataclass(frozen=True)
class StyleCheck:
    """Commands of the target's own style check, run in a checkout of it; ``fix`` may change the files named in them."""

    check: tuple[tuple[str, ...], ...]
    fix: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class SuiteRun:
    """Something of the target's to run: ``module`` ``pytest`` or ``benchmark``, as the runner's tests action takes it.

    ``support`` are files that the run needs beside the changes and that are never committed, such as package metadata.
    """

    module: str
    arguments: tuple[str, ...]
    import_roots: tuple[str, ...]
    collect: tuple[str, ...] = ()
    support: tuple[SourceFile, ...] = ()


class Layout(Protocol):
    """How kernels live in one kind of repository. Anything that cannot be done raises ``UserFacingError``."""

    name: str

    def matches(self, tree: Tree) -> bool:
        """Tell whether a repository is of this kind."""
        ...

    def existing(self, tree: Tree) -> dict[str, str]:
        """Give the kernels that are there: name to the path of the main file."""
        ...

    def names(self, name: str, problem: Problem, tree: Tree) -> KernelNames:
        """Give the complete names of a new kernel, the problem's own where it sets them."""
        ...

    def style(self, name: str, names: KernelNames, tree: Tree) -> SourceStyle:
        """Give the style in which an author shall write the kernel's module."""
        ...

    def profile(self, design: Design, tree: Tree) -> KernelProfile:
        """Give the kernel profile, with the nearest existing kernel of the tree."""
        ...

    def reference_changes(self, design: Design, tree: Tree) -> tuple[FileChange, ...]:
        """Give the first commit: the test file, with the reference in it."""
        ...

    def kernel_changes(self, design: Design, tree: Tree) -> tuple[FileChange, ...]:
        """Give every file that the kernel needs, the test file included; never the benchmark data."""
        ...

    def candidate(self, design: Design, changes: tuple[FileChange, ...], tree_file: str) -> CandidateSource:
        """Give the library's form for the runner to judge, ``tree_file`` being the snapshot beside the request."""
        ...

    def style_check(self, changes: tuple[FileChange, ...], tree: Tree) -> StyleCheck:
        """Give the target's own style check for the changed files."""
        ...

    def tests(self, design: Design, tree: Tree) -> SuiteRun:
        """Give the run of the new kernel's tests."""
        ...

    def benchmark(self, design: Design, tree: Tree) -> SuiteRun:
        """Give the run of the new kernel's benchmark script."""
        ...

    def data_changes(
        self, design: Design, collected: tuple[SourceFile, ...], measured: BenchmarkResult, tree: Tree
    ) -> tuple[FileChange, ...]:
        """Give the benchmark data to append, from what the script wrote; nothing where no GPU measured it."""
        ...
