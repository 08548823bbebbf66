"""The layout `liger`: the eight files of a kernel, found and changed as that library does it. Pure."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from gpu_runner.contracts import BenchmarkResult, CandidateSource, KernelNames, Problem, SourceFile
from workers.authors.protocol import SourceStyle
from workers.contracts import Failure, FailureCode, FileChange, KernelProfile, UserFacingError
from workers.layouts.existing import FUNCTION_CLASS, ExistingKernelLayout, first_there, required
from workers.layouts.kernel_profile import kernel_profile, likeness_of_problem, likenesses, nearest
from workers.layouts.liger import paths
from workers.layouts.liger.benchmark_data import SWEEP_OPTION, appended, plot_runs, renewed
from workers.layouts.liger.benchmark_script import (
    PLACEHOLDER_SIZES,
    PROVIDERS,
    from_models,
    script_source,
    sweep_of,
    takes_sweeps,
)
from workers.layouts.liger.files import (
    SUITE_IMPORTS,
    export_changes,
    exported,
    function_module,
    module_source,
    suite_source,
)
from workers.layouts.naming import camel_case, check_name, check_problem, check_symbols, existing_failure, source_of
from workers.layouts.protocol import Design, ExistingKernel, FusedHome, Shared, SuiteRun
from workers.layouts.python_source import Import, fitted
from workers.layouts.regions import functions_using
from workers.layouts.ruff import line_length
from workers.toml import read_toml, table_in
from workers.tree import Tree

FOLDER = "references"


@cache
def known_problems() -> dict[str, str]:
    """Every problem by its kernel's name."""
    folder = files("workers.layouts.liger").joinpath(FOLDER)
    entries = sorted(folder.iterdir(), key=lambda file: file.name)
    return {file.name[:-3]: file.read_text("utf-8") for file in entries if file.name.endswith(".py")}


HELPERS = ("calculate_settings", "device_context", "ensure_contiguous")
SCRIPT_ROOTS = (*paths.IMPORT_ROOTS, paths.SCRIPTS)
VERSION = re.compile(r"[\w.+!-]+")


class LigerLayout(ExistingKernelLayout):
    """How kernels live in Liger-Kernel."""

    name = "liger"
    prefix = "liger"
    ported = True

    def matches(self, tree: Tree) -> bool:
        """Whether a repository is of this kind."""
        return paths.FUNCTIONAL in tree.files and paths.OPS_HELPERS in tree.files

    def existing(self, tree: Tree) -> dict[str, str]:
        """The existing kernels: name to the path of the main file."""
        kernels: dict[str, str] = {}
        for path in tree.paths(paths.OPS + "/", ".py"):
            folder, _, file = path.removeprefix(paths.OPS + "/").rpartition("/")
            if (
                folder in ("", "experimental")
                and not file.startswith("_")
                and FUNCTION_CLASS.search(tree.read(path) or "")
            ):
                kernels[file.removesuffix(".py")] = path
        return kernels

    def names(self, name: str, problem: Problem, tree: Tree) -> KernelNames:
        """The complete names of a new kernel, the problem's own where it sets them."""
        check_name(name)
        check_problem(problem)
        class_name = camel_case(name)
        names = KernelNames(
            problem.names.function or f"Liger{class_name}Function",
            problem.names.module or f"Liger{class_name}",
            problem.names.functional or f"liger_{name}",
        )
        check_symbols(names)
        self._refuse_existing(name, names, tree)
        return names

    def style(self, name: str, names: KernelNames, tree: Tree) -> SourceStyle:
        """The style in which an author shall write the kernel's module."""
        return SourceStyle(
            function_class=names.function or "",
            forward_function=f"{name}_forward",
            backward_function=f"{name}_backward",
            helpers=tuple(self.helpers(tree).items()),
        )

    def profile(self, design: Design, tree: Tree) -> KernelProfile:
        """The kernel profile, with the nearest existing kernel of the tree."""
        likeness = likeness_of_problem(design.name, design.problem, design.graph)
        others = likenesses({name: tree.read(path) or "" for name, path in self.existing(tree).items()})
        sweep = sweep_of(design.problem, tree)
        models = from_models(design.problem, sweep, tree) if takes_sweeps(design, tree) else {}
        close = nearest(likeness, others)
        return kernel_profile(design, close, sweep.swept, sweep.label, PLACEHOLDER_SIZES, PROVIDERS, models)

    def reference_changes(self, design: Design, tree: Tree) -> tuple[FileChange, ...]:
        """The first commit: the test file, with the reference in it."""
        return (FileChange(paths.suite_path(design.name), fitted(suite_source(design, tree), line_length(tree))),)

    def kernel_changes(self, design: Design, tree: Tree) -> tuple[FileChange, ...]:
        """Every file that the kernel needs, the test file included; never the benchmark data."""
        module, width = function_module(design.name, tree), line_length(tree)
        return (
            FileChange(paths.ops_path(design.name), fitted(source_of(design), width)),
            FileChange(paths.module_path(design.name), fitted(module_source(design, module), width)),
            *export_changes(design, tree),
            FileChange(paths.suite_path(design.name), fitted(suite_source(design, tree), width)),
            FileChange(paths.script_path(design.name), fitted(script_source(design, tree), width)),
        )

    def kernel_path(self, name: str, tree: Tree, target: str = "gpu") -> str:
        """The file in which a new kernel's module will stand."""
        return paths.ops_path(name)

    def fused(self, name: str, tree: Tree) -> FusedHome:
        """Where a fused model goes."""
        return FusedHome(f"{paths.FUSED}/{name}", paths.suite_path(f"fused_{name}"))

    def candidate(self, design: Design, changes: tuple[FileChange, ...], tree_file: str) -> CandidateSource:
        return CandidateSource(
            files=tuple(SourceFile(c.path, c.text) for c in changes if c.text is not None),
            module=f"{paths.PACKAGE}.transformers.functional",
            symbol=design.names.functional or "",
            tree=tree_file,
            import_roots=paths.IMPORT_ROOTS,
            screened=(paths.ops_path(design.name),),
        )

    def tests(self, design: Design, tree: Tree) -> SuiteRun:
        """The run of the new kernel's tests."""
        return SuiteRun("pytest", ("-q", paths.suite_path(design.name)), paths.IMPORT_ROOTS)

    def benchmark(self, design: Design, tree: Tree) -> SuiteRun:
        """The run of the new kernel's benchmark script."""
        script = paths.script_path(design.name)
        return SuiteRun("benchmark", (script,), SCRIPT_ROOTS, (paths.DATA,), _metadata(tree))

    def data_changes(
        self, design: Design, collected: tuple[SourceFile, ...], measured: BenchmarkResult, tree: Tree
    ) -> tuple[FileChange, ...]:
        """The benchmark data to append, from what the script wrote; nothing where no GPU measured it."""
        original = tree.read(paths.DATA)
        data = next((file.text for file in collected if file.path == paths.DATA), None)
        if measured.predicted or original is None or data is None:
            return ()
        text = appended(original, data, design.name)
        return () if text is None else (FileChange(paths.DATA, text),)

    def existing_data(
        self, kernel: ExistingKernel, collected: tuple[SourceFile, ...], tree: Tree
    ) -> tuple[FileChange, ...]:
        """The benchmark data with the rows that the script wrote anew for this kernel."""
        original, script = tree.read(paths.DATA), tree.read(kernel.script or "")
        data = next((file.text for file in collected if file.path == paths.DATA), None)
        if original is None or script is None or data is None:
            return ()
        text = renewed(original, data, kernel.name, script)
        return () if text is None else (FileChange(paths.DATA, text),)

    def script_of(self, kernel: ExistingKernel, tree: Tree) -> SuiteRun:
        """The run of the kernel's benchmark script, which rewrites its rows where it has that option."""
        script = required(kernel.script, "benchmark script", kernel)
        options = ("--overwrite",) if "--overwrite" in self._script_texts(script, tree) else ()
        return SuiteRun("benchmark", (script, *options), SCRIPT_ROOTS, (paths.DATA,), _metadata(tree))

    def new_suite_imports(self) -> tuple[Import, ...]:
        """What the test file of a new kernel imports, besides the kernel itself."""
        return SUITE_IMPORTS

    def plots_of(self, data: tuple[FileChange, ...], tree: Tree) -> tuple[SuiteRun, ...]:
        """The runs of the library's own visualizer, one for each kernel, metric and sweep, on the rows that are new in ``data``."""
        visualizer, original = tree.read(paths.VISUALIZER), tree.read(paths.DATA)
        text = next((change.text for change in data if change.path == paths.DATA), None)
        if visualizer is None or original is None or text is None:
            return ()
        return plot_runs(original, text, tells_sweeps=SWEEP_OPTION in visualizer)

    def suite_places(self, name: str, tree: Tree) -> tuple[str, ...]:
        """The paths at which the test file may be, the conventional one first."""
        there = [path for path in tree.paths("test/", f"/test_{name}.py") if path != paths.suite_path(name)]
        return (paths.suite_path(name), *there)

    def script_places(self, name: str, tree: Tree) -> tuple[str, ...]:
        """The paths at which the benchmark script may be, the conventional one first."""
        return (paths.script_path(name),)

    def users(self, name: str, tree: Tree) -> tuple[str, ...]:
        """The texts of the files that may use a kernel, the main one first."""
        return tuple(tree.read(path) or "" for path in (paths.FUNCTIONAL, paths.module_path(name), paths.OPS_EXPORTS))

    def wrappers(self, name: str, tree: Tree) -> tuple[str, ...]:
        """The files through which a kernel is used, besides its own."""
        wrapper = first_there((paths.module_path(name),), tree.files)
        return () if wrapper is None else (wrapper,)

    def shared(self, kernel: ExistingKernel, tree: Tree) -> tuple[Shared, ...]:
        """The functions of the functional interface that apply the kernel."""
        functions = functions_using(tree.read(paths.FUNCTIONAL) or "", kernel.functions)
        return (Shared(paths.FUNCTIONAL, functions),) if functions else ()

    def catalogued(self, name: str) -> str | None:
        """The problem that is known of the library's own kernel."""
        return known_problems().get(name)

    def recording_roots(self, kernel: ExistingKernel) -> tuple[str, ...]:
        """The folders that go on ``sys.path`` where the benchmark script runs."""
        return SCRIPT_ROOTS

    def recording_support(self, tree: Tree) -> tuple[SourceFile, ...]:
        """The files that the benchmark script needs besides the repository's."""
        return _metadata(tree)

    def helpers(self, tree: Tree) -> dict[str, str]:
        """The helpers that the library has, by the module that defines them."""
        source = tree.read(paths.OPS_HELPERS) or ""
        there = [helper for helper in HELPERS if re.search(rf"^def {helper}\(", source, re.MULTILINE)]
        return dict.fromkeys(there, f"{paths.PACKAGE}.ops.utils")

    def _script_texts(self, script: str, tree: Tree) -> str:
        own = tree.read(script) or ""
        return own + (tree.read(paths.SCRIPT_HELPERS) or "" if "parse_benchmark_script_args" in own else "")

    def _refuse_existing(self, name: str, names: KernelNames, tree: Tree) -> None:
        there = self.existing(tree)
        if name in there:
            raise existing_failure(name, there[name])
        files = (paths.ops_path(name), paths.module_path(name), paths.suite_path(name), paths.script_path(name))
        for path in (*files, f"{paths.OPS}/{name}/__init__.py", f"{paths.MODULES}/{name}/__init__.py"):
            if tree.exists(path):
                raise existing_failure(name, path)
        symbols = exported(tree)
        for symbol in (names.function, names.module, names.functional):
            if symbol in symbols:
                fix = 'Choose another name, or set NAMES = {"module": ...} in the problem.'
                raise UserFacingError(
                    Failure(FailureCode.exists, f"`{symbol}` is already exported by `{symbols[symbol]}`", fix)
                )


def _metadata(tree: Tree) -> tuple[SourceFile, ...]:
    """The benchmark helpers ask for the installed version; in a checkout that was not installed this answers them."""
    version = table_in(read_toml(tree.read("pyproject.toml") or ""), "project").get("version")
    if paths.METADATA in tree.files or not isinstance(version, str) or not VERSION.fullmatch(version):
        return ()
    text = f"Metadata-Version: 2.1\nName: {paths.PACKAGE}\nVersion: {version}\n"
    return (SourceFile(paths.METADATA, text),)
