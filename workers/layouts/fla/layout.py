"""The layout `fla`: a package for each operation below `ops`, its PyTorch reference in `naive.py`, as in flash-linear-attention.

Kernels may also stand below `modules`. Tests and benchmark scripts mirror both folders, as `tests/ops` does. Pure.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from gpu_runner.contracts import CandidateSource, KernelNames, Problem, SourceFile
from workers.contracts import Failure, FailureCode, FileChange, UserFacingError
from workers.layouts.existing import FUNCTION_CLASS, ExistingKernelLayout, roots_of, suite_roots
from workers.layouts.naming import camel_case, check_name, check_problem, check_symbols, existing_failure, import_name
from workers.layouts.plain.files import (
    KERNEL,
    SUITE_IMPORTS,
    LibraryFolders,
    kernel_source,
    script_source,
    suite_source,
)
from workers.layouts.protocol import Design, ExistingKernel, FusedHome, SuiteRun
from workers.layouts.python_source import Import, fitted, listing, read_imports, with_import, with_listed_name
from workers.layouts.reference import problem_source
from workers.layouts.ruff import line_length, single_line_imports
from workers.tree import Tree

REFERENCE = re.compile(r"((?:src/)?\w+)/ops/\w+/naive\.py")
SECTIONS = ("ops", "modules")
NOT_KERNELS = frozenset({"naive", "backends"})  # `backends` are implementations for other devices
OF_THE_PACKAGE = ("fused", "ops")  # modules whose kernel bears the name of its package


class FlaLayout(ExistingKernelLayout):
    """How kernels live in flash-linear-attention and in libraries arranged like it."""

    name = "fla"
    prefix = "fused"
    passes = ("fwd", "bwd")

    def matches(self, tree: Tree) -> bool:
        """Whether a repository is of this kind."""
        return _package(tree) is not None

    def existing(self, tree: Tree) -> dict[str, str]:
        """The existing kernels: `chunk_gla` of ops/gla/chunk.py, `gate` of ops/gate/fused.py, `l2norm` of modules/l2norm.py."""
        kernels: dict[str, str] = {}
        for section in SECTIONS:
            folder = f"{_required(tree)}/{section}/"
            for path in tree.paths(folder, ".py"):
                inside = PurePosixPath(path.removeprefix(folder)).with_suffix("")
                hidden = inside.name.startswith("_") or NOT_KERNELS & set(inside.parts)
                if not hidden and FUNCTION_CLASS.search(tree.read(path) or ""):
                    kernels.setdefault(_kernel_name(inside), path)
        return kernels

    def names(self, name: str, problem: Problem, tree: Tree) -> KernelNames:
        """The complete names of a new kernel, the problem's own where it sets them.

        The function is `fused_NAME`: exported from `ops`, a function of the package's name would hide the package.
        """
        check_name(name)
        check_problem(problem)
        home, there = _home(tree), self.existing(tree)
        if name in there:
            raise existing_failure(name, there[name])
        for path in (f"{home.kernels}/{name}", f"{home.kernels}/{name}.py", _suite(name), _script(name)):
            if tree.exists(path):
                raise existing_failure(name, path)
        class_name = camel_case(name)
        names = KernelNames(
            problem.names.function or f"{class_name}Function",
            problem.names.module or class_name,
            problem.names.functional or f"fused_{name.removeprefix('fused_')}",
        )
        check_symbols(names)
        return names

    def reference_changes(self, design: Design, tree: Tree) -> tuple[FileChange, ...]:
        """The first commit: the problem in `naive.py`, and the test file."""
        home, width, single_line = _home(tree), line_length(tree), single_line_imports(tree)
        problem = problem_source(design, width, single_line=single_line, with_call=True)
        suite = suite_source(design, home, single_line, width, _reference(design, home))
        return (
            FileChange(f"{home.kernels}/{design.name}/naive.py", fitted(problem, width)),
            FileChange(_suite(design.name), fitted(suite, width)),
        )

    def kernel_changes(self, design: Design, tree: Tree) -> tuple[FileChange, ...]:
        """Every file that the kernel needs, the test file included."""
        home, width, single_line = _home(tree), line_length(tree), single_line_imports(tree)
        script = script_source(design, home, single_line, _reference(design, home))
        return (
            FileChange(self.kernel_path(design.name, tree), fitted(kernel_source(design), width)),
            FileChange(f"{home.kernels}/{design.name}/__init__.py", _exports(design, home, single_line)),
            *_export_changes(design, home, tree),
            *self.reference_changes(design, tree),
            FileChange(_script(design.name), fitted(script, width)),
        )

    def kernel_path(self, name: str, tree: Tree, target: str = "gpu") -> str:
        """The file in which a new kernel's module will stand."""
        return f"{_home(tree).kernels}/{name}/fused.py"

    def fused(self, name: str, tree: Tree) -> FusedHome:
        """Where a fused model goes."""
        return FusedHome(f"{_required(tree)}/fused/{name}", f"tests/fused/test_{name}.py")

    def candidate(self, design: Design, changes: tuple[FileChange, ...], tree_file: str) -> CandidateSource:
        """The package's functional form for the runner to judge."""
        kernel = next(c.path for c in changes if c.path.endswith(f"/{design.name}/fused.py"))
        return CandidateSource(
            files=tuple(SourceFile(c.path, c.text) for c in changes if c.text is not None),
            module=import_name(str(PurePosixPath(kernel).parent)),
            symbol=design.names.functional or "",
            tree=tree_file,
            import_roots=roots_of(kernel),
            screened=(kernel,),
        )

    def tests(self, design: Design, tree: Tree) -> SuiteRun:
        """The run of the new kernel's tests."""
        return SuiteRun("pytest", ("-q", _suite(design.name)), suite_roots(_home(tree).kernels, tree))

    def benchmark(self, design: Design, tree: Tree) -> SuiteRun:
        """The run of the new kernel's benchmark script."""
        return SuiteRun("benchmark", (_script(design.name),), suite_roots(_home(tree).kernels, tree))

    def problem_files(self, kernel: ExistingKernel) -> tuple[str, ...]:
        """`naive.py` next to the kernel, and its test file."""
        return (str(PurePosixPath(kernel.path).with_name("naive.py")), *super().problem_files(kernel))

    def new_suite_imports(self) -> tuple[Import, ...]:
        """What the test file of a new kernel imports, besides the kernel itself."""
        return SUITE_IMPORTS

    def suite_places(self, name: str, tree: Tree) -> tuple[str, ...]:
        """The paths at which the test file may be: one for all kernels of a package, or one for each."""
        section, names = self._place(name, tree)
        return tuple(f"tests/{section}/test_{one}.py" for one in names)

    def script_places(self, name: str, tree: Tree) -> tuple[str, ...]:
        """The paths at which the benchmark script may be, as those of the test file."""
        section, names = self._place(name, tree)
        return tuple(f"benchmarks/{section}/benchmark_{one}.py" for one in names)

    def _place(self, name: str, tree: Tree) -> tuple[str, tuple[str, ...]]:
        path = self.existing(tree).get(name)
        if path is None:
            return "ops", (name,)
        section, *folders = PurePosixPath(path.removeprefix(f"{_required(tree)}/")).parts[:-1]
        return section, tuple(dict.fromkeys((*folders[-1:], name, name.removeprefix("fused_"))))


def _package(tree: Tree) -> str | None:
    """The package with operations, such as `fla`: one has a reference next to a Triton kernel."""
    for path in tree.paths(suffix="/naive.py"):
        match = REFERENCE.fullmatch(path)
        beside = tree.paths(path.removesuffix("naive.py"), ".py")
        if match is not None and any(KERNEL.search(tree.read(one) or "") for one in beside):
            return match[1]
    return None


def _required(tree: Tree) -> str:
    package = _package(tree)
    if package is None:
        fix = "Name another layout, such as `--layout plain`."
        message = "no package of the repository has a Triton kernel with a `naive.py` next to it in `ops/NAME/`"
        raise UserFacingError(Failure(FailureCode.layout, message, fix))
    return package


def _home(tree: Tree) -> LibraryFolders:
    kernels = f"{_required(tree)}/ops"
    return LibraryFolders(kernels, roots_of(kernels)[0], import_name(kernels), "tests/ops", "benchmarks/ops")


def _kernel_name(inside: PurePosixPath) -> str:
    folder = inside.parent.name
    if inside.name in OF_THE_PACKAGE and folder:
        return folder
    return inside.name if folder in inside.name else f"{inside.name}_{folder}"


def _reference(design: Design, home: LibraryFolders) -> Import:
    return Import(f"{home.module(design.name)}.naive", "reference")


def _exports(design: Design, home: LibraryFolders, single_line: bool) -> str:
    module = f"{home.module(design.name)}.fused"
    names = [name for name in (design.names.module, design.names.functional) if name is not None]
    imports = [f"from {module} import {name}" for name in names] if single_line else []
    imports = imports or [f"from {module} import {', '.join(names)}"]
    return "\n".join([*imports, "", listing("__all__ = ", [f'"{name}"' for name in names])]) + "\n"


def _export_changes(design: Design, home: LibraryFolders, tree: Tree) -> tuple[FileChange, ...]:
    """The `__init__.py` of all operations with the new function, imported as the others are; nothing where it imports none."""
    path, function = f"{home.kernels}/__init__.py", design.names.functional or ""
    text = tree.read(path) or ""
    there = [statement.imported.module for statement in read_imports(text)]
    packages = [package for package in (f"{home.package}.", ".") if any(one.startswith(package) for one in there)]
    if not packages or function == design.name:
        return ()
    text = with_import(text, Import(packages[0] + design.name, function), width=line_length(tree))
    return (FileChange(path, with_listed_name(text, function)),)


def _suite(name: str) -> str:
    return f"tests/ops/test_{name}.py"


def _script(name: str) -> str:
    return f"benchmarks/ops/benchmark_{name}.py"
