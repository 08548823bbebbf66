"""What every layout does in the same way with a kernel that stands in a repository. Pure, but for the catalogs that are read."""

from __future__ import annotations

from abc import ABC, abstractmethod

from gpu_runner.contracts import CandidateSource, Problem, RecordRequest, RecordResult, SourceFile, Workload
from workers.authors.protocol import SourceStyle
from workers.contracts import Failure, FileChange, UserFacingError
from workers.layouts import section
from workers.layouts.adapter import call_of, kernel_form
from workers.layouts.calls import defined_functions
from workers.layouts.imports import Import, read_imports
from workers.layouts.known_problem import first_of, own_problem
from workers.layouts.needs import Needs, dev_extra, needed_modules
from workers.layouts.problem_tables import problem_in_suite
from workers.layouts.protocol import Changeable, Shared, Standing, SuiteRun
from workers.layouts.recorded import workloads_of
from workers.layouts.touching import touched_kernels
from workers.layouts.whereabouts import (
    first_there,
    found_name,
    in_order_of_use,
    missing_files,
    missing_suite,
    required,
)
from workers.tree import Tree


class StandingKernels(ABC):
    """The half of a layout that is about kernels that stand there; a layout says where their files are."""

    prefix = ""  # of the names that users know, without what divides its words

    @abstractmethod
    def existing(self, tree: Tree) -> dict[str, str]:
        """Give the kernels that are there: name to the path of the main file."""

    @abstractmethod
    def module_of(self, path: str, tree: Tree) -> str:
        """Give the import name of a kernel's main file."""

    @abstractmethod
    def suite_places(self, name: str, tree: Tree) -> tuple[str, ...]:
        """Give the paths at which the test file may be, the conventional one first."""

    @abstractmethod
    def script_places(self, name: str, tree: Tree) -> tuple[str, ...]:
        """Give the paths at which the benchmark script may be, the conventional one first."""

    @abstractmethod
    def users(self, name: str, tree: Tree) -> tuple[str, ...]:
        """Give the texts of the files that may use a kernel, the main one first."""

    @abstractmethod
    def catalogued(self, name: str) -> str | None:
        """Give the problem that is known of the library's own kernel."""

    @abstractmethod
    def kernel_path(self, name: str, tree: Tree) -> str:
        """Give the file in which a new kernel's module will stand."""

    @abstractmethod
    def new_suite_imports(self) -> tuple[Import, ...]:
        """What the test file of a new kernel imports, besides the kernel itself."""

    def dev_extra(self, tree: Tree) -> tuple[str, ...]:
        """The library's dev extra, as pip reads it."""
        return dev_extra(tree)

    def needs_of(self, name: str, tree: Tree) -> Needs:
        """What the test file of a kernel needs of the host, of one that stands there or of one that is yet to be written."""
        places = self.suite_places(name, tree)
        suite = first_there(places, tree.files)
        there = read_imports(tree.read(suite) or "") if suite is not None else ()
        imports = tuple(one.imported for one in there) if suite is not None else self.new_suite_imports()
        roots = roots_of(self.existing(tree).get(name) or self.kernel_path(name, tree))
        return Needs(needed_modules(suite or places[0], imports, tree, roots), roots, self.dev_extra(tree))

    def wrappers(self, name: str, tree: Tree) -> tuple[str, ...]:
        """Give the files through which a kernel is used, besides its own."""
        return ()

    def shared(self, standing: Standing, tree: Tree) -> tuple[Shared, ...]:
        """Give the kernel's functions in files that other kernels have functions in too."""
        return ()

    def recording_roots(self, standing: Standing) -> tuple[str, ...]:
        """Give the folders that go on ``sys.path`` where the benchmark script runs."""
        return roots_of(standing.path)

    def recording_support(self, tree: Tree) -> tuple[SourceFile, ...]:
        """Give the files that the benchmark script needs besides the repository's."""
        return ()

    def helpers(self, tree: Tree) -> dict[str, str]:
        """Give the helpers that the library has, by the module that defines them."""
        return {}

    def locate(self, name: str, tree: Tree) -> Standing:
        """Find a kernel that stands there; raises ``UserFacingError`` with the nearest names where there is none."""
        kernels = self.existing(tree)
        found = found_name(name, kernels, {n: tree.read(path) or "" for n, path in kernels.items()}, self.prefix)
        functions = defined_functions(tree.read(kernels[found]) or "")
        return Standing(
            name=found,
            path=kernels[found],
            module=self.module_of(kernels[found], tree),
            functions=in_order_of_use(functions, self.users(found, tree)),
            suite=first_there(self.suite_places(found, tree), tree.files),
            script=first_there(self.script_places(found, tree), tree.files),
        )

    def missing(self, standing: Standing, tree: Tree) -> tuple[Failure, ...]:
        """Give what an optimize job needs and the repository lacks, each with its cure."""
        places = self.suite_places(standing.name, tree)[0], self.script_places(standing.name, tree)[0]
        return missing_files(standing, *places)

    def problem_of(self, standing: Standing, tree: Tree) -> str | None:
        """Give the problem that a kernel solves: the repository's own file, its test file's, or what is known of the library."""
        own = own_problem(standing, tree)
        if own is not None:
            return own
        stated = None if standing.suite is None else problem_in_suite(tree.read(standing.suite) or "")
        return first_of((stated, self.catalogued(standing.name)), tree.read(standing.path) or "")

    def form_of(
        self, standing: Standing, problem: Problem, changes: tuple[FileChange, ...], tree_file: str
    ) -> CandidateSource:
        """Give the kernel as the problem's CALL calls it, with ``changes`` laid over the snapshot."""
        return kernel_form(problem, standing.module, roots_of(standing.path), changes, tree_file)

    def sizes_request(self, standing: Standing, problem: Problem, tree: Tree, tree_file: str) -> RecordRequest | None:
        """Give the recording of the calls that the kernel's benchmark script makes; None where it has none."""
        if standing.script is None:
            return None
        return RecordRequest(
            tree=tree_file,
            script=standing.script,
            module=standing.module,
            symbol=call_of(problem).symbol,
            import_roots=self.recording_roots(standing),
            files=self.recording_support(tree),
        )

    def sizes_of(self, problem: Problem, recorded: RecordResult) -> tuple[Workload, ...]:
        """Give the workloads of the recorded calls that are calls of the problem, the largest first."""
        return workloads_of(problem, recorded)

    def suite_of(self, standing: Standing, tree: Tree) -> SuiteRun:
        """Give the run of the kernel's whole test file."""
        suite = required(standing.suite, "test file", standing)
        return SuiteRun("pytest", ("-q", suite), roots_of(standing.path))

    def touched(self, base: Tree, head: Tree) -> dict[str, tuple[str, ...]]:
        """Give the kernels that a change touches, with the changed files by which it does; imports are followed."""
        starts: dict[str, tuple[str, ...]] = {}
        for tree in (base, head):
            for name, path in self.existing(tree).items():
                known = (*starts.get(name, ()), path, *self.wrappers(name, tree))
                starts[name] = tuple(dict.fromkeys(known))
        return touched_kernels(base, head, starts, ("src", "."))

    def section_style(self, standing: Standing, tree: Tree) -> SourceStyle:
        """Give the style of a section that is pasted into the kernel's own file: no class, and names that are free there."""
        return section.section_style(standing, tree, self.helpers(tree))

    def changeable(self, standing: Standing, tree: Tree) -> Changeable:
        """Give the files in which a kernel may be changed; raises ``UserFacingError`` where it has no test file."""
        if standing.suite is None:
            raise UserFacingError(missing_suite(standing, self.suite_places(standing.name, tree)[0]))
        own = (standing.path, *self.wrappers(standing.name, tree))
        return Changeable(own, self.shared(standing, tree), (standing.suite,))


def roots_of(path: str) -> tuple[str, ...]:
    """Give the folders that go on ``sys.path`` for a kernel's main file."""
    return ("src", ".") if path.startswith("src/") else (".",)
