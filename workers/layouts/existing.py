"""Existing kernels: how a layout finds one with its problem, tests and benchmark, and what all layouts do alike. Pure."""

from __future__ import annotations

import ast
import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import lru_cache

from gpu_runner.contracts import (
    BenchmarkResult,
    CandidateSource,
    KernelNames,
    Problem,
    ProblemError,
    RecordRequest,
    RecordResult,
    SourceFile,
    Workload,
    parse_problem,
)
from gpu_runner.contracts.reading import UNPARSABLE, walk
from workers.authors.protocol import SourceStyle
from workers.contracts import Failure, FailureCode, FileChange, KernelProfile, UserFacingError
from workers.layouts.calls import call_of, defined_functions, fits, kernel_form, read_call, workloads_of
from workers.layouts.import_graph import Needs, dev_extra, needed_modules, touched_kernels
from workers.layouts.kernel_profile import kernel_profile, likeness_of_problem, likenesses, nearest, swept_sizes
from workers.layouts.naming import import_name
from workers.layouts.protocol import Changeable, Design, ExistingKernel, LogEntry, Placed, Shared, StyleCheck, SuiteRun
from workers.layouts.python_source import Import, read_imports
from workers.layouts.reference import problem_in_suite
from workers.layouts.ruff import line_length, ruff_check, single_line_imports
from workers.tree import Tree

FUNCTION_CLASS = re.compile(r"^class \w+\((?:(?:torch\.)?autograd\.)?Function\):", re.MULTILINE)


class ExistingKernelLayout(ABC):
    """What layouts do alike: existing kernels, style, a library without benchmark data. A layout defines where files are."""

    prefix = ""  # of the names that users know, without what divides its words
    passes = ("forward", "backward")  # how the names of the two functions of a kernel's module end
    keeps_versions = False
    targets: tuple[str, ...] = ()
    ported = False
    providers: tuple[str, ...] = ("kernel", "torch", "torch_compile")  # that a new kernel's benchmark compares

    @abstractmethod
    def existing(self, tree: Tree) -> dict[str, str]:
        """The existing kernels: name to the path of the main file."""

    @abstractmethod
    def suite_places(self, name: str, tree: Tree) -> tuple[str, ...]:
        """The paths at which the test file may be, the conventional one first."""

    @abstractmethod
    def script_places(self, name: str, tree: Tree) -> tuple[str, ...]:
        """The paths at which the benchmark script may be, the conventional one first."""

    def users(self, name: str, tree: Tree) -> tuple[str, ...]:
        """The texts of the files that may use a kernel, the main one first."""
        return tuple(tree.read(path) or "" for path in self.suite_places(name, tree))

    @abstractmethod
    def kernel_path(self, name: str, tree: Tree, target: str = "gpu") -> str:
        """The file in which a new kernel's module will stand."""

    @abstractmethod
    def new_suite_imports(self) -> tuple[Import, ...]:
        """What the test file of a new kernel imports, besides the kernel itself."""

    def style(self, name: str, names: KernelNames, tree: Tree) -> SourceStyle:
        """The style in which an author shall write the kernel's module."""
        forward, backward = (f"{name}_{ending}" for ending in self.passes)
        return SourceStyle(
            function_class=names.function or "",
            forward_function=forward,
            backward_function=backward,
            line_length=line_length(tree),
            single_line_imports=single_line_imports(tree),
        )

    def catalogued(self, name: str) -> str | None:
        """The problem that is known of the library's own kernel; None: the library is not known beforehand."""
        return None

    def module_of(self, path: str, tree: Tree) -> str:
        """The import name of a kernel's main file."""
        return import_name(path)

    def profile(self, design: Design, tree: Tree) -> KernelProfile:
        """The kernel profile, with the nearest existing kernel of the tree."""
        likeness = likeness_of_problem(design.name, design.problem, design.graph)
        others = likenesses({name: tree.read(path) or "" for name, path in self.existing(tree).items()})
        swept, values = swept_sizes(design.problem)
        return kernel_profile(design, nearest(likeness, others), swept, swept, values, self.providers)

    def style_check(self, changes: tuple[FileChange, ...], tree: Tree) -> StyleCheck:
        """The target's own style check for the changed files."""
        return ruff_check(changes, tree)

    def script_of(self, kernel: ExistingKernel, tree: Tree) -> SuiteRun:
        """The run of the kernel's benchmark script."""
        script = required(kernel.script, "benchmark script", kernel)
        return SuiteRun("benchmark", (script,), self.recording_roots(kernel))

    def data_changes(
        self, design: Design, collected: tuple[SourceFile, ...], measured: BenchmarkResult, tree: Tree
    ) -> tuple[FileChange, ...]:
        """Nothing: such a library keeps no benchmark data."""
        return ()

    def existing_data(
        self, kernel: ExistingKernel, collected: tuple[SourceFile, ...], tree: Tree
    ) -> tuple[FileChange, ...]:
        """Nothing: such a library keeps no benchmark data."""
        return ()

    def plots_of(self, data: tuple[FileChange, ...], tree: Tree) -> tuple[SuiteRun, ...]:
        """None: such a library keeps no benchmark data."""
        return ()

    def needs_of(self, name: str, tree: Tree) -> Needs:
        """What a kernel's test file needs of the host, also before the kernel is written."""
        places = self.suite_places(name, tree)
        suite = first_there(places, tree.files)
        there = read_imports(tree.read(suite) or "") if suite is not None else ()
        imports = tuple(one.imported for one in there) if suite is not None else self.new_suite_imports()
        roots = suite_roots(self.existing(tree).get(name) or self.kernel_path(name, tree), tree)
        return Needs(needed_modules(suite or places[0], imports, tree, roots), roots, dev_extra(tree))

    def wrappers(self, name: str, tree: Tree) -> tuple[str, ...]:
        """The files through which a kernel is used, besides its own."""
        return ()

    def shared(self, kernel: ExistingKernel, tree: Tree) -> tuple[Shared, ...]:
        """The kernel's functions in files that other kernels have functions in too."""
        return ()

    def recording_roots(self, kernel: ExistingKernel) -> tuple[str, ...]:
        """The folders that go on ``sys.path`` where the benchmark script runs."""
        return roots_of(kernel.path)

    def recording_support(self, tree: Tree) -> tuple[SourceFile, ...]:
        """The files that the benchmark script needs besides the repository's."""
        return ()

    def helpers(self, tree: Tree) -> dict[str, str]:
        """The helpers that the library has, by the module that defines them."""
        return {}

    def locate(self, name: str, tree: Tree) -> ExistingKernel:
        """Find an existing kernel; raises ``UserFacingError`` with the nearest names where there is none."""
        kernels = self.existing(tree)
        match = match_kernel(name, kernels, {n: tree.read(path) or "" for n, path in kernels.items()}, self.prefix)
        functions = defined_functions(tree.read(kernels[match]) or "")
        return ExistingKernel(
            name=match,
            path=kernels[match],
            module=self.module_of(kernels[match], tree),
            functions=in_order_of_use(functions, self.users(match, tree)),
            suite=first_there(self.suite_places(match, tree), tree.files),
            script=first_there(self.script_places(match, tree), tree.files),
        )

    def missing(self, kernel: ExistingKernel, tree: Tree) -> tuple[Failure, ...]:
        """What an optimize job needs and the repository lacks, each with its fix."""
        places = self.suite_places(kernel.name, tree)[0], self.script_places(kernel.name, tree)[0]
        return missing_files(kernel, *places)

    def problem_of(self, kernel: ExistingKernel, tree: Tree) -> str | None:
        """The problem that a kernel solves: the repository's own file, what the library states, or what is known of it."""
        own = own_problem(kernel, tree)
        if own is not None:
            return own
        stated = [problem_in_suite(tree.read(path) or "") for path in self.problem_files(kernel)]
        return first_of((*stated, self.catalogued(kernel.name)), tree.read(kernel.path) or "")

    def problem_files(self, kernel: ExistingKernel) -> tuple[str, ...]:
        """The library's files that may state the problem: the kernel's test file."""
        return () if kernel.suite is None else (kernel.suite,)

    def form_of(
        self, kernel: ExistingKernel, problem: Problem, changes: tuple[FileChange, ...], tree_file: str
    ) -> CandidateSource:
        """The kernel as the problem's CALL calls it, with ``changes`` laid over the snapshot."""
        return kernel_form(problem, kernel.module, roots_of(kernel.path), changes, tree_file)

    def form_of_placed(self, placed: Placed, problem: Problem, tree_file: str) -> CandidateSource:
        """A variant in its place, for the runner to judge."""
        return self.form_of(placed.kernel, problem, placed.changes, tree_file)

    def placed(self, kernel: ExistingKernel, source: str, tree: Tree) -> Placed:
        """A new text in the place of the kernel's main file."""
        return Placed(kernel, (FileChange(kernel.path, source),))

    def logged(self, kernel: ExistingKernel, entry: LogEntry, tree: Tree) -> tuple[FileChange, ...]:
        """Nothing: such a library keeps no development log."""
        return ()

    def measured(self, kernel: ExistingKernel, entry: LogEntry, tree: Tree) -> tuple[FileChange, ...]:
        """Nothing: such a library keeps no development log."""
        return ()

    def sizes_request(
        self, kernel: ExistingKernel, problem: Problem, tree: Tree, tree_file: str
    ) -> RecordRequest | None:
        """The recording of the calls that the kernel's benchmark script makes; None where it has none."""
        if kernel.script is None:
            return None
        return RecordRequest(
            tree=tree_file,
            script=kernel.script,
            module=kernel.module,
            symbol=call_of(problem).symbol,
            import_roots=self.recording_roots(kernel),
            files=self.recording_support(tree),
        )

    def sizes_of(self, problem: Problem, recorded: RecordResult) -> tuple[Workload, ...]:
        """The workloads of the recorded calls that are calls of the problem, the largest first."""
        return workloads_of(problem, recorded)

    def suite_of(self, kernel: ExistingKernel, tree: Tree) -> SuiteRun:
        """The run of the kernel's whole test file."""
        suite = required(kernel.suite, "test file", kernel)
        return SuiteRun("pytest", ("-q", suite), suite_roots(kernel.path, tree))

    def touched(self, base: Tree, head: Tree) -> dict[str, tuple[str, ...]]:
        """The kernels that a change touches, with the changed files by which it does; imports are followed."""
        starts: dict[str, tuple[str, ...]] = {}
        for tree in (base, head):
            for name, path in self.existing(tree).items():
                known = (*starts.get(name, ()), path, *self.wrappers(name, tree))
                starts[name] = tuple(dict.fromkeys(known))
        return touched_kernels(base, head, starts, ("src", "."))

    def section_style(self, kernel: ExistingKernel, tree: Tree) -> SourceStyle:
        """The style of a section that is pasted into the kernel's own file: no class, and names that are free there."""
        return section_style(kernel, tree, self.helpers(tree))

    def changeable(self, kernel: ExistingKernel, tree: Tree) -> Changeable:
        """The files in which a kernel may be changed; raises ``UserFacingError`` where it has no test file."""
        if kernel.suite is None:
            raise UserFacingError(missing_suite(kernel, self.suite_places(kernel.name, tree)[0]))
        own = (kernel.path, *self.wrappers(kernel.name, tree))
        return Changeable(own, self.shared(kernel, tree), (kernel.suite,))


def roots_of(path: str) -> tuple[str, ...]:
    """The folders that go on ``sys.path`` for a kernel's main file."""
    return ("src", ".") if path.startswith("src/") else (".",)


def suite_roots(path: str, tree: Tree) -> tuple[str, ...]:
    """The same where a test file runs: its conftest.py may import a library in ``src`` though the kernel lies elsewhere."""
    return tuple(dict.fromkeys((*roots_of(path), *(["src"] if tree.paths("src/", ".py") else []))))


MOST_NAMED = 8
SHOWN = re.compile(r"[A-Za-z0-9_.\-]{1,60}")


def match_kernel(wanted: str, kernels: Mapping[str, str], sources: Mapping[str, str], prefix: str = "") -> str:
    """The name of a kernel by its name, its class's or its function's, in any spelling.

    ``kernels`` are names and paths, ``sources`` the text of each by name.

    Raises:
        UserFacingError: there is none; the fix lists the nearest names.
    """
    if wanted in kernels:
        return wanted
    key = _key(wanted, prefix)
    spelled = {_key(name, prefix): name for name in sorted(kernels, reverse=True)}
    if key in spelled:
        return spelled[key]
    for name in sorted(kernels):
        if key in {_key(function, prefix) for function in defined_functions(sources[name])}:
            return name
    raise _no_such_kernel(wanted, key, spelled)


def in_order_of_use(functions: tuple[str, ...], users: Iterable[str]) -> tuple[str, ...]:
    """A file's Functions, those first that the library's other files name; ``users`` are their texts, the main one first."""
    ranked: dict[str, None] = {}
    for text in users:
        ranked |= {name: None for name in functions if re.search(rf"\b{name}\b", text)}
    return (*ranked, *(name for name in functions if name not in ranked))


def missing_files(kernel: ExistingKernel, suite: str, script: str) -> tuple[Failure, ...]:
    """The files that an optimize job needs and that are not there; ``suite`` and ``script`` are where they would be."""
    missing: list[Failure] = []
    if kernel.suite is None:
        missing.append(missing_suite(kernel, suite))
    if kernel.script is None:
        message = f"`{kernel.name}` has no benchmark script `{script}`"
        fix = "Add one, as the library's other kernels have it: its sizes are what a change is measured on."
        missing.append(Failure(FailureCode.missing, message, fix))
    return tuple(missing)


def missing_suite(kernel: ExistingKernel, suite: str) -> Failure:
    """Why a kernel without a test file cannot be changed; ``suite`` is where it would be."""
    message = f"`{kernel.name}` has no test file `{suite}`"
    fix = "Add one that holds the kernel against PyTorch: no change is proposed that it does not pass."
    return Failure(FailureCode.missing, message, fix)


def required(path: str | None, what: str, kernel: ExistingKernel) -> str:
    """A path that must be there.

    Raises:
        UserFacingError: it is not.
    """
    if path is None:
        fix = f"Add the {what} of `{kernel.name}` and give the command again."
        raise UserFacingError(Failure(FailureCode.missing, f"`{kernel.name}` has no {what}", fix))
    return path


def first_there(candidates: Iterable[str], files: Mapping[str, bytes]) -> str | None:
    """The first path that is a file."""
    return next((path for path in candidates if path in files), None)


def _key(name: str, prefix: str) -> str:
    plain = re.sub(r"[^a-z0-9]", "", name.lower().removesuffix(".py"))
    plain = plain.removeprefix(prefix) or plain
    return plain.removesuffix("function") or plain


def _no_such_kernel(wanted: str, key: str, spelled: Mapping[str, str]) -> UserFacingError:
    near = [spelled[k] for k in difflib.get_close_matches(key, spelled, n=3, cutoff=0.6)]
    near += [name for k, name in sorted(spelled.items()) if len(key) > 2 and key in k and name not in near][:3]
    shown = f"`{wanted}`" if SHOWN.fullmatch(wanted) else "of that name"
    if near:
        fix = f"The nearest names: {', '.join(f'`{name}`' for name in near)}."
    elif spelled:
        some = sorted(spelled.values())[:MOST_NAMED]
        more = f" and {len(spelled) - len(some)} more" if len(spelled) > len(some) else ""
        fix = f"The kernels there: {', '.join(f'`{name}`' for name in some)}{more}."
    else:
        fix = "The repository has no kernel that is known; `/kernel create` makes one."
    return UserFacingError(Failure(FailureCode.missing, f"there is no kernel {shown} in the repository", fix))


FOLDER = ".kernelsmith/problems"


def own_path(name: str) -> str:
    """The path of the problem file that a repository keeps for one of its kernels."""
    return f"{FOLDER}/{name}.py"


def own_problem(existing: ExistingKernel, tree: Tree) -> str | None:
    """The repository's own problem file, with a CALL of the kernel's Function added where it has none; None without a file.

    Raises:
        UserFacingError: it is there and cannot be used.
    """
    path, kernel = own_path(existing.name), tree.read(existing.path) or ""
    text = tree.read(path)
    if text is None:
        return None
    try:
        problem = parse_problem(text)
    except ProblemError as error:
        failure = Failure(FailureCode.problem, f"`{path}` cannot be used: {error.message}", error.fix, error.line)
        raise UserFacingError(failure) from error
    if problem.call is None and problem.form == "reference" and existing.functions:
        call = f"{existing.functions[0]}.apply({', '.join(problem.parameters)})"
        text = f'{text.rstrip()}\nCALL = "{call}"\n'
        problem = parse_problem(text)
    if not is_of(problem, kernel):
        message = f"`{path}` cannot be used: its CALL does not call what stands in `{existing.path}`"
        fix = "Give CALL the name of a Function of that file, with as many arguments as it takes."
        raise UserFacingError(Failure(FailureCode.problem, message, fix))
    return text


def first_of(texts: Iterable[str | None], kernel: str) -> str | None:
    """The first problem whose CALL fits the kernel's file."""
    for text in texts:
        if text is None:
            continue
        try:
            problem = parse_problem(text)
        except ProblemError:
            continue
        if is_of(problem, kernel):
            return text
    return None


def is_of(problem: Problem, kernel: str) -> bool:
    """Whether a problem's CALL calls what a kernel's file defines."""
    call = read_call(problem.call or "")
    return call is not None and fits(call, kernel)


def section_style(kernel: ExistingKernel, tree: Tree, helpers: dict[str, str]) -> SourceStyle:
    """The style: every name begins with a prefix that the file does not use yet.

    ``helpers`` are those that the library has, by module; what the file imports already is taken from where it imports it.
    """
    source = tree.read(kernel.path) or ""
    there = {s.imported.bound: s.imported.module for s in read_imports(source) if s.imported.name == s.imported.bound}
    prefix = _prefix(kernel.name, source)
    return SourceStyle(
        function_class=kernel.functions[0] if kernel.functions else "",
        forward_function=f"{prefix}forward",
        backward_function=f"{prefix}backward",
        helpers=tuple((helper, there.get(helper, module)) for helper, module in sorted(helpers.items())),
        line_length=line_length(tree),
        single_line_imports=single_line_imports(tree),
        section=True,
        prefix=prefix,
    )


def _prefix(name: str, source: str) -> str:
    used, number = _names(source), 1
    while any(one.startswith(f"_fast{number if number > 1 else ''}_{name}_") for one in used):
        number += 1
    return f"_fast{number if number > 1 else ''}_{name}_"


@lru_cache(maxsize=64)  # each variant of a job is asked for them
def _names(source: str) -> frozenset[str]:
    try:
        nodes = walk(ast.parse(source))
    except UNPARSABLE:
        return frozenset()
    names = frozenset(node.id for node in nodes if isinstance(node, ast.Name))
    return names | {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
