"""What every layout can do. Layouts are pure: a tree and a design in, file changes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gpu_runner.contracts import (
    BenchmarkResult,
    CandidateSource,
    Graph,
    KernelNames,
    Problem,
    RecordRequest,
    RecordResult,
    SourceFile,
    Workload,
)
from workers.authors.protocol import KernelPlan, SourceStyle
from workers.contracts import Failure, FileChange, KernelProfile
from workers.layouts.import_graph import Needs
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
    target: str = "gpu"  # that it is written for, as ``SourceStyle.target``


@dataclass(frozen=True)
class StyleCheck:
    """Commands of the target's own style check, run in a checkout of it; ``fix`` may change the files named in them."""

    check: tuple[tuple[str, ...], ...]
    fix: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class SuiteRun:
    """A module of the target to run: ``pytest`` or ``benchmark``, as the runner's tests action takes it.

    ``support`` are files that the run needs and that are never committed, such as package metadata.
    """

    module: str
    arguments: tuple[str, ...]
    import_roots: tuple[str, ...]
    collect: tuple[str, ...] = ()
    support: tuple[SourceFile, ...] = ()
    pictures: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExistingKernel:
    """An existing kernel."""

    name: str
    path: str  # of its main file
    module: str  # the same as an import
    functions: tuple[str, ...]  # autograd Functions of the file, the one that is used first
    suite: str | None  # its test file
    script: str | None  # its benchmark script


@dataclass(frozen=True)
class Shared:
    """A file that several kernels share, and the functions in it that are one kernel's."""

    path: str
    functions: tuple[str, ...]


@dataclass(frozen=True)
class Changeable:
    """Where a change of one kernel may be made, and nowhere else."""

    files: tuple[str, ...]  # the kernel's own: anywhere in them, the main one first
    shared: tuple[Shared, ...]  # inside of the named functions alone
    tests: tuple[str, ...]  # behind their last line alone: what stands there stays

    @property
    def paths(self) -> tuple[str, ...]:
        """All paths, those of the tests last."""
        return (*self.files, *(shared.path for shared in self.shared), *self.tests)


@dataclass(frozen=True)
class Placed:
    """A new text of an existing kernel at its place: the kernel as it is then, and the changes, its main file first."""

    kernel: ExistingKernel
    changes: tuple[FileChange, ...]


@dataclass(frozen=True)
class FusedHome:
    """Where a fused model goes: the package of its program and of the original, and its test file."""

    folder: str
    suite: str


@dataclass(frozen=True)
class LogEntry:
    """What a development log says of one version of a kernel; what was not measured is empty."""

    title: str
    changes: tuple[str, ...]
    description: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    bottleneck: str = ""
    issues: tuple[str, ...] = ()
    insights: str = ""


class Layout(Protocol):
    """How kernels live in one kind of repository. Anything that cannot be done raises ``UserFacingError``."""

    name: str
    keeps_versions: bool  # whether each variant that is kept stays, as a version next to the others
    targets: tuple[str, ...]  # for which a new kernel may be written, besides the GPU in Triton
    ported: bool  # whether implementations for other targets stand next to the default's, where `port` writes them

    def matches(self, tree: Tree) -> bool:
        """Whether a repository is of this kind."""
        ...

    def existing(self, tree: Tree) -> dict[str, str]:
        """The existing kernels: name to the path of the main file."""
        ...

    def names(self, name: str, problem: Problem, tree: Tree) -> KernelNames:
        """The complete names of a new kernel, the problem's own where it sets them."""
        ...

    def style(self, name: str, names: KernelNames, tree: Tree) -> SourceStyle:
        """The style in which an author shall write the kernel's module."""
        ...

    def profile(self, design: Design, tree: Tree) -> KernelProfile:
        """The kernel profile, with the nearest existing kernel of the tree."""
        ...

    def reference_changes(self, design: Design, tree: Tree) -> tuple[FileChange, ...]:
        """The first commit: the test file, with the reference in it."""
        ...

    def kernel_changes(self, design: Design, tree: Tree) -> tuple[FileChange, ...]:
        """Every file that the kernel needs, the test file included; never the benchmark data."""
        ...

    def kernel_path(self, name: str, tree: Tree, target: str = "gpu") -> str:
        """The file in which a new kernel's module will stand, for a target."""
        ...

    def fused(self, name: str, tree: Tree) -> FusedHome:
        """Where a fused model goes."""
        ...

    def candidate(self, design: Design, changes: tuple[FileChange, ...], tree_file: str) -> CandidateSource:
        """The library's form for the runner to judge; ``tree_file`` is the snapshot in the request's folder."""
        ...

    def style_check(self, changes: tuple[FileChange, ...], tree: Tree) -> StyleCheck:
        """The target's own style check for the changed files."""
        ...

    def tests(self, design: Design, tree: Tree) -> SuiteRun:
        """The run of the new kernel's tests."""
        ...

    def benchmark(self, design: Design, tree: Tree) -> SuiteRun:
        """The run of the new kernel's benchmark script."""
        ...

    def data_changes(
        self, design: Design, collected: tuple[SourceFile, ...], measured: BenchmarkResult, tree: Tree
    ) -> tuple[FileChange, ...]:
        """The benchmark data to append, from what the script wrote; nothing where no GPU measured it."""
        ...

    def locate(self, name: str, tree: Tree) -> ExistingKernel:
        """Find an existing kernel; raises ``UserFacingError`` with the nearest names where there is none."""
        ...

    def missing(self, kernel: ExistingKernel, tree: Tree) -> tuple[Failure, ...]:
        """What an optimize job needs and the repository lacks, each with its fix: the test file, the benchmark script."""
        ...

    def problem_of(self, kernel: ExistingKernel, tree: Tree) -> str | None:
        """The problem that a kernel solves, with its CALL, from the repository itself or from what is known of the library."""
        ...

    def form_of(
        self, kernel: ExistingKernel, problem: Problem, changes: tuple[FileChange, ...], tree_file: str
    ) -> CandidateSource:
        """The kernel as the problem's CALL calls it, with ``changes`` laid over the snapshot: to be judged and timed."""
        ...

    def form_of_placed(self, placed: Placed, problem: Problem, tree_file: str) -> CandidateSource:
        """A variant as it will be committed: to be judged and timed."""
        ...

    def placed(self, kernel: ExistingKernel, source: str, tree: Tree) -> Placed:
        """A new text of the kernel's main file where it goes: in the old one's place, or a version next to it."""
        ...

    def logged(self, kernel: ExistingKernel, entry: LogEntry, tree: Tree) -> tuple[FileChange, ...]:
        """The repository's development log with an entry for a kernel that ``tree`` holds; nothing where it keeps none."""
        ...

    def measured(self, kernel: ExistingKernel, entry: LogEntry, tree: Tree) -> tuple[FileChange, ...]:
        """The development log with metrics and bottleneck of a kernel's entry that was left open; nothing where none is."""
        ...

    def sizes_request(
        self, kernel: ExistingKernel, problem: Problem, tree: Tree, tree_file: str
    ) -> RecordRequest | None:
        """The recording of the calls that the kernel's benchmark script makes; None where it has none."""
        ...

    def sizes_of(self, problem: Problem, recorded: RecordResult) -> tuple[Workload, ...]:
        """The workloads of the recorded calls that are calls of the problem, by binding its CALL to their arguments."""
        ...

    def suite_of(self, kernel: ExistingKernel, tree: Tree) -> SuiteRun:
        """The run of the kernel's whole test file."""
        ...

    def script_of(self, kernel: ExistingKernel, tree: Tree) -> SuiteRun:
        """The run of the kernel's benchmark script."""
        ...

    def existing_data(
        self, kernel: ExistingKernel, collected: tuple[SourceFile, ...], tree: Tree
    ) -> tuple[FileChange, ...]:
        """The benchmark data with the rows that the script wrote anew for this kernel."""
        ...

    def plots_of(self, data: tuple[FileChange, ...], tree: Tree) -> tuple[SuiteRun, ...]:
        """The runs of the library's own visualizer on the rows that are new in ``data``; none where it has none."""
        ...

    def needs_of(self, name: str, tree: Tree) -> Needs:
        """What a kernel's test file needs of the host, also before the kernel is written."""
        ...

    def touched(self, base: Tree, head: Tree) -> dict[str, tuple[str, ...]]:
        """The kernels that a change touches, with the changed files by which it does; imports are followed."""
        ...

    def section_style(self, kernel: ExistingKernel, tree: Tree) -> SourceStyle:
        """The style of a section that is pasted into the kernel's own file: no class, and names that are free there."""
        ...

    def changeable(self, kernel: ExistingKernel, tree: Tree) -> Changeable:
        """The files in which a kernel may be changed; raises ``UserFacingError`` where it has no test file."""
        ...
