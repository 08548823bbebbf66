"""The layout `plain`: one module, one test file and one benchmark script in a library without conventions. Pure."""

from __future__ import annotations

from gpu_runner.contracts import CandidateSource, KernelNames, Problem, SourceFile
from workers.contracts import FileChange
from workers.layouts.existing import ExistingKernelLayout, suite_roots
from workers.layouts.naming import camel_case, check_name, check_problem, check_symbols, existing_failure
from workers.layouts.plain.files import (
    KERNEL,
    SUITE_IMPORTS,
    LibraryFolders,
    home_of,
    kernel_folders,
    kernel_source,
    script_source,
    suite_source,
)
from workers.layouts.protocol import Design, FusedHome, SuiteRun
from workers.layouts.python_source import Import, fitted
from workers.layouts.ruff import line_length, single_line_imports
from workers.tree import Tree


class PlainLayout(ExistingKernelLayout):
    """How kernels live in a small library."""

    name = "plain"
    targets: tuple[str, ...] = ("cutile", "cutedsl", "rocm")

    def matches(self, tree: Tree) -> bool:
        """Whether a repository is of this kind."""
        return bool(kernel_folders(tree)) or tree.exists("kernels")

    def existing(self, tree: Tree) -> dict[str, str]:
        """The existing kernels: name to the path of the main file."""
        kernels: dict[str, str] = {}
        for path in tree.paths(home_of(tree).kernels + "/", ".py"):
            stem = path.removeprefix(home_of(tree).kernels + "/").removesuffix(".py")
            if "/" not in stem and not stem.startswith("_") and KERNEL.search(tree.read(path) or ""):
                kernels[stem] = path
        return kernels

    def names(self, name: str, problem: Problem, tree: Tree) -> KernelNames:
        """The complete names of a new kernel, the problem's own where it sets them."""
        check_name(name)
        check_problem(problem)
        home, there = home_of(tree), self.existing(tree)
        if name in there:
            raise existing_failure(name, there[name])
        for path in (*_paths(name, home), f"{home.kernels}/{name}/__init__.py"):
            if tree.exists(path):
                raise existing_failure(name, path)
        class_name = camel_case(name)
        names = KernelNames(
            problem.names.function or f"{class_name}Function",
            problem.names.module or class_name,
            problem.names.functional or name,
        )
        check_symbols(names)
        return names

    def reference_changes(self, design: Design, tree: Tree) -> tuple[FileChange, ...]:
        """The first commit: the test file, with the reference in it."""
        home = home_of(tree)
        width = line_length(tree)
        suite = fitted(suite_source(design, home, single_line_imports(tree), width), width)
        return (FileChange(_paths(design.name, home)[1], suite),)

    def kernel_changes(self, design: Design, tree: Tree) -> tuple[FileChange, ...]:
        """Every file that the kernel needs, the test file included."""
        home, width, single_line = home_of(tree), line_length(tree), single_line_imports(tree)
        kernel, suite, script = _paths(design.name, home)
        opening = () if tree.exists(home.kernels) else (FileChange(f"{home.kernels}/__init__.py", ""),)
        return (
            *opening,
            FileChange(kernel, fitted(kernel_source(design), width)),
            FileChange(suite, fitted(suite_source(design, home, single_line, width), width)),
            FileChange(script, fitted(script_source(design, home, single_line), width)),
        )

    def kernel_path(self, name: str, tree: Tree, target: str = "gpu") -> str:
        """The file in which a new kernel's module will stand."""
        return _paths(name, home_of(tree))[0]

    def fused(self, name: str, tree: Tree) -> FusedHome:
        """Where a fused model goes."""
        home = home_of(tree)
        return FusedHome(f"{home.kernels}/fused/{name}", f"{home.tests}/test_fused_{name}.py")

    def candidate(self, design: Design, changes: tuple[FileChange, ...], tree_file: str) -> CandidateSource:
        kernel = next(c.path for c in changes if c.path.endswith(f"/{design.name}.py"))
        root, _, module = (
            kernel.removesuffix(".py").partition("/") if kernel.startswith("src/") else (".", "", kernel[:-3])
        )
        return CandidateSource(
            files=tuple(SourceFile(c.path, c.text) for c in changes if c.text is not None),
            module=module.replace("/", "."),
            symbol=design.names.functional or "",
            tree=tree_file,
            import_roots=tuple(dict.fromkeys((root, "."))),
            screened=(kernel,),
        )

    def tests(self, design: Design, tree: Tree) -> SuiteRun:
        """The run of the new kernel's tests."""
        home = home_of(tree)
        return SuiteRun(
            "pytest", ("-q", _paths(design.name, home)[1]), suite_roots(self.kernel_path(design.name, tree), tree)
        )

    def benchmark(self, design: Design, tree: Tree) -> SuiteRun:
        """The run of the new kernel's benchmark script."""
        home = home_of(tree)
        return SuiteRun(
            "benchmark", (_paths(design.name, home)[2],), suite_roots(self.kernel_path(design.name, tree), tree)
        )

    def new_suite_imports(self) -> tuple[Import, ...]:
        """What the test file of a new kernel imports, besides the kernel itself."""
        return SUITE_IMPORTS

    def suite_places(self, name: str, tree: Tree) -> tuple[str, ...]:
        """The paths at which the test file may be, the one that would be written first."""
        named = [*tree.paths(suffix=f"/test_{name}.py"), *tree.paths(suffix=f"/{name}_test.py")]
        return (_paths(name, home_of(tree))[1], *named)

    def script_places(self, name: str, tree: Tree) -> tuple[str, ...]:
        """The paths at which the benchmark script may be, the one that would be written first."""
        home = home_of(tree)
        forms = (f"bench_{name}.py", f"{name}.py", f"benchmark_{name}.py", f"{name}_benchmark.py")
        return (_paths(name, home)[2], *(f"{home.benchmarks}/{form}" for form in forms))


def _paths(name: str, home: LibraryFolders) -> tuple[str, str, str]:
    return f"{home.kernels}/{name}.py", f"{home.tests}/test_{name}.py", f"{home.benchmarks}/benchmark_{name}.py"
