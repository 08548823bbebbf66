"""The layout `versioned`: a plan and a tiling around each kernel, and a package a version. Pure."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import PurePosixPath

from gpu_runner.contracts import (
    CandidateSource,
    KernelNames,
    Problem,
    ProblemError,
    SourceFile,
    parse_problem,
)
from workers.authors.protocol import SourceStyle
from workers.contracts import Failure, FailureCode, FileChange, UserFacingError
from workers.layouts.calls import call_of
from workers.layouts.existing import ExistingKernelLayout, first_of, missing_suite, own_problem, roots_of
from workers.layouts.naming import (
    camel_case,
    check_name,
    check_problem,
    check_symbols,
    existing_failure,
    import_name,
    source_of,
)
from workers.layouts.protocol import Design, ExistingKernel, FusedHome, LogEntry, Placed, SuiteRun
from workers.layouts.python_source import Import, fitted
from workers.layouts.reference import problem_source
from workers.layouts.ruff import line_length, single_line_imports
from workers.layouts.versioned.clone_kernel import CloneError, cloned, derived
from workers.layouts.versioned.devlog import devlog_path, with_entry, with_measured
from workers.layouts.versioned.files import (
    KERNELS,
    LANGUAGES,
    PackageFolder,
    Version,
    entry_source,
    home_of,
    suite_source,
)
from workers.tree import Tree

SUFFIX = re.compile(r"_v\d+$")
MAIN = '''"""Runs a version of this design, as `python -m {package}` does."""

import sys

from {package}.__main__ import main

main(["{language}.{design}", *sys.argv[1:]])
'''
NO_HOME = Failure(
    FailureCode.layout,
    "the repository has no `src/PACKAGE/kernel/__main__.py`",
    "Make it with `kernelsmith init --layout versioned`, and merge the branch that it commits to.",
)


class VersionedLayout(ExistingKernelLayout):
    """How kernels live in a repository that keeps their versions. A design's name stands for its newest version."""

    name = "versioned"
    keeps_versions = True
    targets: tuple[str, ...] = ("cutile", "cutedsl", "rocm")
    providers = ("kernel", "torch")

    def matches(self, tree: Tree) -> bool:
        """Whether a repository is of this kind."""
        return home_of(tree) is not None

    def existing(self, tree: Tree) -> dict[str, str]:
        """The existing kernels: a design's newest version by the design's name, older ones by name and number."""
        kernels: dict[str, str] = {}
        for design, versions in _home(tree).versions(tree).items():
            kernels[design] = versions[-1].path
            kernels |= {f"{design}_v{version.number}": version.path for version in versions[:-1]}
        return kernels

    def locate(self, name: str, tree: Tree) -> ExistingKernel:
        """Find an existing kernel, the newest version also by its number."""
        newest = {f"{d}_v{v[-1].number}": d for d, v in _home(tree).versions(tree).items()}
        return super().locate(newest.get(name, name), tree)

    def names(self, name: str, problem: Problem, tree: Tree) -> KernelNames:
        """The complete names of a new design, the problem's own where it sets them; the entry function is named as its file."""
        check_name(name)
        check_problem(problem)
        if SUFFIX.search(name):
            base = SUFFIX.sub("", name)
            fix = f"Name the design `{base}`; `/kernel optimize {base}` and `scripts/clone-kernel.py {base} v1` make versions."
            raise UserFacingError(Failure(FailureCode.name, f"`{name}` ends like a version", fix))
        home, there = _home(tree), self.existing(tree)
        if name in there:
            raise existing_failure(name, there[name])
        folders = (home.folder(name, tree, target) for target in LANGUAGES)
        for path in (*folders, _suite(name), devlog_path(name)):
            if tree.exists(path):
                raise existing_failure(name, path)
        class_name = camel_case(name)
        names = KernelNames(
            problem.names.function or f"{class_name}Function", problem.names.module or f"{class_name}Plan", name
        )
        check_symbols(names)
        return names

    def style(self, name: str, names: KernelNames, tree: Tree) -> SourceStyle:
        """The style of a kernel's module: launch settings are looked up, so that a tiling can set them."""
        return replace(super().style(name, names, tree), tunable=True)

    def reference_changes(self, design: Design, tree: Tree) -> tuple[FileChange, ...]:
        """The first commit: the problem that all versions share, and the test file."""
        home, width = _home(tree), line_length(tree)
        folder = home.folder(design.name, tree, design.target)
        return (
            FileChange(
                f"{folder}/reference.py",
                fitted(problem_source(design, width, single_line=single_line_imports(tree), with_call=False), width),
            ),
            FileChange(_suite(design.name), fitted(suite_source(design, home), width)),
        )

    def kernel_changes(self, design: Design, tree: Tree) -> tuple[FileChange, ...]:
        """The design with its base version, the test file and the development log."""
        home, width = _home(tree), line_length(tree)
        folder = home.folder(design.name, tree, design.target)
        base = f"{folder}/{design.name}"
        entry_module = entry_source(design, home, tree, single_line_imports(tree))
        layer = PurePosixPath(folder).parent
        packages = [f"{path}/__init__.py" for path in (layer.parent, layer, folder, base)]
        main = MAIN.format(package=home.package, language=layer.parent.name, design=design.name)
        formulas = (
            f"forward: {design.plan.forward_formula}",
            *(f"d{n}: {f}" for n, f in design.plan.gradient_formulas),
        )
        entry = LogEntry("base version", (f"first version: {design.plan.family}",), formulas)
        return (
            FileChange(f"{base}/{KERNELS}.py", fitted(source_of(design), width)),
            FileChange(f"{base}/{design.name}.py", fitted(entry_module, width)),
            *(FileChange(path, "") for path in packages if path not in tree.files),
            FileChange(f"{folder}/__main__.py", main),
            *self.reference_changes(design, tree),
            FileChange(devlog_path(design.name), with_entry(None, design.name, 0, base, entry)),
        )

    def kernel_path(self, name: str, tree: Tree, target: str = "gpu") -> str:
        """The file in which a new kernel's module will stand, for a target."""
        return f"{_home(tree).folder(name, tree, target)}/{name}/{KERNELS}.py"

    def fused(self, name: str, tree: Tree) -> FusedHome:
        """Where a fused model goes: next to the package of kernels, as it has no versions."""
        return FusedHome(f"{PurePosixPath(_home(tree).root).parent}/fused/{name}", _suite(f"fused_{name}"))

    def candidate(self, design: Design, changes: tuple[FileChange, ...], tree_file: str) -> CandidateSource:
        """The library's form for the runner to judge, ``tree_file`` being the snapshot beside the request."""
        entry = next(c.path for c in changes if c.path.endswith(f"/{design.name}/{design.name}.py"))
        return CandidateSource(
            files=tuple(SourceFile(c.path, c.text) for c in changes if c.text is not None),
            module=import_name(entry),
            symbol=design.name,
            tree=tree_file,
            import_roots=roots_of(entry),
            screened=(str(PurePosixPath(entry).with_name(f"{KERNELS}.py")),),
        )

    def placed(self, kernel: ExistingKernel, source: str, tree: Tree) -> Placed:
        """A new text of a version as the next version: a clone of its package, its names with the new suffix.

        Raises:
            UserFacingError: a file of the package is not Python.
        """
        home = _home(tree)
        design, version = _version_of(kernel, home, tree)
        new = f"{design}_v{home.versions(tree)[design][-1].number + 1}"
        inside = {path.removeprefix(f"{version.folder}/"): path for path in tree.paths(f"{version.folder}/")}
        files = {name: source if path == version.path else tree.read(path) or "" for name, path in inside.items()}
        folder = str(PurePosixPath(version.folder).parent)
        try:
            made = cloned(files, design, version.name, new, import_name(folder))
        except CloneError as error:
            failure = Failure(
                FailureCode.style, f"`{version.name}` cannot become `{new}`: {error}", "Correct the file."
            )
            raise UserFacingError(failure) from error
        main = PurePosixPath(version.path).name.replace(f"{version.name}.py", f"{new}.py")
        texts = {main: made.pop(main)} | made
        changes = tuple(FileChange(f"{folder}/{new}/{name}", text) for name, text in texts.items())
        return Placed(replace(kernel, name=design, path=changes[0].path, module=import_name(changes[0].path)), changes)

    def logged(self, kernel: ExistingKernel, entry: LogEntry, tree: Tree) -> tuple[FileChange, ...]:
        """The development log with an entry for a version."""
        design, version = _version_of(kernel, _home(tree), tree)
        path = devlog_path(design)
        return (FileChange(path, with_entry(tree.read(path), design, version.number, version.folder, entry)),)

    def measured(self, kernel: ExistingKernel, entry: LogEntry, tree: Tree) -> tuple[FileChange, ...]:
        """The development log with what was measured of a version, where its entry was left open."""
        design, version = _version_of(kernel, _home(tree), tree)
        path = devlog_path(design)
        page = tree.read(path) or ""
        text = with_measured(page, version.number, entry)
        return (FileChange(path, text),) if text != page else ()

    def tests(self, design: Design, tree: Tree) -> SuiteRun:
        """The run of the new kernel's tests."""
        return SuiteRun("pytest", ("-q", _suite(design.name)), ("src", "."))

    def benchmark(self, design: Design, tree: Tree) -> SuiteRun:
        """The run of the design by its own command line."""
        main = f"{_home(tree).folder(design.name, tree, design.target)}/__main__.py"
        return SuiteRun("benchmark", (main, "--prof_type=event"), ("src", "."))

    def missing(self, kernel: ExistingKernel, tree: Tree) -> tuple[Failure, ...]:
        """The test file, where there is none: sizes are the problem's."""
        return () if kernel.suite is not None else (missing_suite(kernel, self.suite_places(kernel.name, tree)[0]),)

    def problem_of(self, kernel: ExistingKernel, tree: Tree) -> str | None:
        """The problem that a kernel solves: the repository's own file, or the reference that the versions of its design share."""
        own = own_problem(kernel, tree)
        text = tree.read(str(PurePosixPath(kernel.path).parents[1] / "reference.py"))
        if own is not None or text is None:
            return own
        try:
            problem = parse_problem(text)
        except ProblemError as error:
            message = f"the reference of `{kernel.name}` cannot be used: {error.message}"
            raise UserFacingError(Failure(FailureCode.problem, message, error.fix, error.line)) from error
        called = f"{kernel.functions[0]}.apply" if kernel.functions else PurePosixPath(kernel.path).stem
        call = f"{called}({', '.join(problem.parameters)})"
        with_call = text if problem.call is not None else f'{text.rstrip()}\nCALL = "{call}"\n'
        return first_of((with_call,), tree.read(kernel.path) or "")

    def form_of(
        self, kernel: ExistingKernel, problem: Problem, changes: tuple[FileChange, ...], tree_file: str
    ) -> CandidateSource:
        """The kernel as the problem's CALL calls it, by the entry function of this version."""
        call = call_of(problem)
        if not call.applied:
            problem = replace(problem, call=call.source(PurePosixPath(kernel.path).stem))
        return super().form_of(kernel, problem, changes, tree_file)

    def form_of_placed(self, placed: Placed, problem: Problem, tree_file: str) -> CandidateSource:
        """A version, of which the module that launches kernels is screened: the others are clones of what the repository has.

        A plan in the same module is left out, as the kernel's call does not use it.
        """
        path = placed.kernel.path
        form = self.form_of(placed.kernel, problem, placed.changes, tree_file)
        own = {change.path for change in placed.changes} - {path}
        return replace(
            form,
            files=tuple(replace(f, text=without_plans(f.text)) if f.path == path else f for f in form.files),
            screened=tuple(name for name in form.screened if name not in own),
        )

    def new_suite_imports(self) -> tuple[Import, ...]:
        """What the test file of a new kernel imports, besides the kernel itself."""
        return (Import("pytest"), Import("torch"))

    def suite_places(self, name: str, tree: Tree) -> tuple[str, ...]:
        """The one path of the test file, which all versions of a design share."""
        return (_suite(SUFFIX.sub("", name)),)

    def script_places(self, name: str, tree: Tree) -> tuple[str, ...]:
        """None: the command line of the repository runs a kernel."""
        return ()

    def users(self, name: str, tree: Tree) -> tuple[str, ...]:
        """The text of the kernel's file, whose entry function applies its Function."""
        return (tree.read(self.existing(tree).get(name, "")) or "",)


def without_plans(text: str) -> str:
    """A module without its plans and tilings and what it imports for them alone; the numbers of its lines stay."""
    tree = ast.parse(text)
    plans = derived(tree, {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)})
    used = {n.id for node in tree.body if node not in plans for n in ast.walk(node) if isinstance(n, ast.Name)}
    lines = text.splitlines(keepends=True)
    for node in tree.body:
        if node in plans or (isinstance(node, ast.Import | ast.ImportFrom) and plans and _unused(node, used)):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            lines[first - 1 : node.end_lineno] = ["\n"] * (node.end_lineno - first + 1)
    return "".join(lines)


def _unused(node: ast.Import | ast.ImportFrom, used: set[str]) -> bool:
    bound = {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return not bound & used and not (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _home(tree: Tree) -> PackageFolder:
    home = home_of(tree)
    if home is None:
        raise UserFacingError(NO_HOME)
    return home


def _version_of(kernel: ExistingKernel, home: PackageFolder, tree: Tree) -> tuple[str, Version]:
    design = PurePosixPath(kernel.path).parts[-3]
    return design, next(v for v in home.versions(tree)[design] if v.path == kernel.path)


def _suite(design: str) -> str:
    return f"tests/test_{design}.py"
