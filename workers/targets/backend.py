"""Implementations of operators in Liger-Kernel: the default one, and targets next to it with their exports and tests. Pure."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from gpu_runner.contracts import CandidateSource, Problem, Workload
from gpu_runner.contracts.reading import UNPARSABLE
from workers.authors.protocol import SourceStyle
from workers.contracts import DEFAULT_OPERATORS, Failure, FailureCode, FileChange, KernelTiling, UserFacingError
from workers.layouts.calls import call_of, defined_functions, fits, kernel_form
from workers.layouts.liger import paths
from workers.layouts.naming import import_name
from workers.layouts.protocol import ExistingKernel
from workers.layouts.python_source import Import, tuple_of, with_import, with_listed_name
from workers.targets.contract import ApiContract, read_contract
from workers.targets.module import GIVEN, PortedModule, backward_name, forward_name
from workers.targets.registration import Registration
from workers.targets.uses import ImportedName, uses
from workers.tree import Tree

# Parameters of Liger's Functions that choose memory or launches: where gradients are written, how rows are shared out.
REGISTRY = f"{paths.OPS}/backends/registry.py"
FREE = frozenset({"in_place", "row_mode"})


@dataclass(frozen=True)
class Implementation:
    """Operators of a Liger library, ``FOLDER/NAME.py`` each, exported by ``FOLDER/__init__.py``."""

    name: str
    inside: str  # the folder, below that of the default operators; empty for those

    @property
    def folder(self) -> str:
        """The folder of the operators."""
        return f"{paths.OPS}/{self.inside}".rstrip("/")

    @property
    def exports(self) -> str:
        """The file that exports them."""
        return f"{self.folder}/__init__.py"

    @property
    def package(self) -> str:
        """The module of that file."""
        return import_name(self.folder)

    def port_path(self, name: str) -> str:
        """The file of the operator of that name."""
        return f"{self.folder}/{name}.py"

    def contract(self, kernel: ExistingKernel, problem: Problem, tree: Tree) -> ApiContract:
        """The API of this implementation's operator.

        Raises:
            UserFacingError: there is no such operator, it cannot be read, or it does not take what the problem's CALL passes.
        """
        path, call = self.port_path(kernel.name), call_of(problem)
        source = tree.read(path)
        if source is None:
            message = f"`{kernel.name}` has no implementation `{self.name}` to port from: there is no `{path}`"
            raise UserFacingError(Failure(FailureCode.missing, message, DEFAULT_SERVES))
        module = f"{self.package}.{kernel.name}"
        public = [use.name for use in uses(tree, f"src/{paths.PACKAGE}", module)]
        contract = read_contract(source, call.symbol, (*public, *_public_functions(source)), path)
        if not fits(call, source):
            message = (
                f"`{contract.function}` of `{path}` does not take what the problem's CALL passes: `{problem.call}`"
            )
            raise UserFacingError(Failure(FailureCode.problem, message, ANOTHER_CALL))
        return contract

    def unported(self, kernel: ExistingKernel, contract: ApiContract, tree: Tree) -> tuple[str, ...]:
        """Other Functions of that operator's file, of which the port has none."""
        return tuple(name for name in defined_functions(tree.read(contract.path) or "") if name != contract.function)


def _public_functions(source: str) -> tuple[str, ...]:
    """The functions of a module that are no kernels, and whose names do not begin as private ones do."""
    try:
        body = ast.parse(source).body
    except UNPARSABLE:
        return ()
    plain = [node for node in body if isinstance(node, ast.FunctionDef) and not node.decorator_list]
    return tuple(node.name for node in plain if not node.name.startswith("_"))


DEFAULT_SERVES = "Leave out `--from`: the port then has the API of the default operator."
ANOTHER_CALL = "Give the problem with a CALL that it takes, below the command or as `.kernelsmith/problems/NAME.py`."
DEFAULT = Implementation(DEFAULT_OPERATORS, "")


IMPLEMENTATIONS = ("cute", "cutedsl", "cutile")  # folders of the default's that hold operators in another language


@dataclass(frozen=True)
class Backend(Implementation):
    """An implementation that operators are ported to."""

    language: str
    helpers: tuple[tuple[str, str], ...]  # by name, the modules that they are imported from
    impossible_here: tuple[str, ...]
    since: str  # what brings the implementation to a repository that lacks it
    device: str  # of which ``infer_device`` speaks where the package resolves to the implementation
    selected: str = ""  # the value of LIGER_KERNEL_IMPL there; empty where the device selects it
    registration: Registration | None = None  # by operation, where the library's functional API dispatches to it
    schedules: str = ""  # of the compiler author; those of its own name where it is empty
    # Of an implementation that a port brings where it is not there: an import and a condition of its registration.
    guard: tuple[str, str] | None = None
    prepare: str = ""  # what the test does to be where the implementation is selected
    replaced: tuple[tuple[str, str], ...] = ()  # in what the author writes, for this device
    needs: str = ""  # the module without which it cannot be imported, and nothing stands in for
    buffer_bits: int = 0
    cores: int = 0
    has_settings: bool = True
    contiguous: str = f"from {paths.PACKAGE}.ops.utils import ensure_contiguous"
    stand_ins: tuple[tuple[str, str], ...] = ()  # by path, what is laid over the repository while a port is judged

    def path(self, kernel: ExistingKernel) -> str:
        """The file of a port."""
        return self.port_path(kernel.name)

    def module(self, kernel: ExistingKernel) -> str:
        """The module of a port."""
        return f"{self.package}.{kernel.name}"

    def test_path(self, name: str) -> str:
        """The file of the test that a port keeps the API that it was ported from; tests below ``test/ops`` need CUDA."""
        return f"test/backends/test_{self.name}_{name}.py"

    def check(self, kernel: ExistingKernel, tree: Tree, *, existing: bool = False) -> None:
        """Whether the repository has the implementation and no port of the kernel yet, unless an ``existing`` one is meant.

        Raises:
            UserFacingError: one of the two is not so.
        """
        if kernel.path != paths.ops_path(kernel.name):
            raise _refused(f"`{kernel.path}` is not an operator of `{paths.OPS}`", "Port an operator of that folder.")
        own = (self.exports,) if self.guard is None else (REGISTRY,)
        needed = (*(path for path, _ in self.stand_ins), *own)
        lacking = [path for path in needed if tree.read(path) is None]
        if lacking:
            raise UserFacingError(
                Failure(
                    FailureCode.missing, f"the repository has no `{lacking[0]}`", f"{self.since}; ports go into it."
                )
            )
        if not self._is_selected(tree) and (self.guard is None or tree.exists(self.selecting)):
            message = f"nothing in `{self.selecting}` registers `{self.name}` for the device `{self.device}`"
            fix = "Register it there as `ops/backends/registry.py` describes; otherwise `liger_kernel.ops` selects no port."
            raise UserFacingError(Failure(FailureCode.layout, message, fix))
        if tree.exists(self.port_path(kernel.name)) and not existing:
            fix = "To write it again, remove it and its exports first."
            if self.has_settings:
                fix = f"`/kernel optimize {kernel.name} --to {self.name}` tunes it. {fix}"
            message = f"`{kernel.name}` is already ported: `{self.port_path(kernel.name)}`"
            raise UserFacingError(Failure(FailureCode.exists, message, fix))

    @property
    def selecting(self) -> str:
        """The file that registers the implementation for its device."""
        return f"{self.folder.rpartition('/')[0]}/__init__.py"

    def _is_selected(self, tree: Tree) -> bool:
        try:
            calls = [
                node for node in ast.walk(ast.parse(tree.read(self.selecting) or "")) if isinstance(node, ast.Call)
            ]
        except UNPARSABLE:
            return False
        registering = [ast.unparse(node) for node in calls if ast.unparse(node.func).startswith("register_")]
        return any(f"'{self.device}'" in text and f"'{self.name}'" in text for text in registering)

    @property
    def _selection(self) -> str:
        assert self.guard is not None, "the library brings its own otherwise"
        needed, condition = self.guard
        call = (
            f'register_impl(ImplInfo(name="{self.name}", devices=("{self.device}",), default_devices=("{self.device}",), '
            'module_path=f"{__name__}.ops"))'
        )
        registry = f"{paths.PACKAGE}.ops.backends.registry"
        head = [needed, ""] if needed else []
        body = [f"if {condition}:", f"    {call}"] if condition else [call]
        return "\n".join(
            [*head, f"from {registry} import ImplInfo", f"from {registry} import register_impl", "", *body, ""]
        )

    def used(self, kernel: ExistingKernel, tree: Tree) -> tuple[ImportedName, ...]:
        """What other files of the package import of a port's module."""
        return uses(tree, f"src/{paths.PACKAGE}", self.module(kernel))

    def stays(self, kernel: ExistingKernel, tree: Tree) -> tuple[ImportedName, ...]:
        """What files outside of implementations import of the default operator's module: they stay with it."""
        named = uses(tree, f"src/{paths.PACKAGE}", f"{DEFAULT.package}.{kernel.name}")
        other = (f"{paths.OPS}/backends/", paths.OPS_EXPORTS, *(f"{paths.OPS}/{name}/" for name in IMPLEMENTATIONS))
        return tuple(use for use in named if not use.path.startswith(other))

    def problems(self, kernel: ExistingKernel, tree: Tree) -> tuple[tuple[str, str], ...]:
        """The calls that the library's models make, where they are more than one."""
        return _variants().get(kernel.name, ())

    def backward(self, kernel: ExistingKernel) -> str | None:
        """The problem of a backward pass that others call with what forward returned, so that the port's takes no more."""
        file = files("workers.layouts.liger").joinpath("backwards", f"{kernel.name}.py")
        return file.read_text("utf-8") if file.is_file() else None

    def style(self, name: str, *, backward: bool = False) -> SourceStyle:
        """Sections without a class: the Function has the API that is ported."""
        forward = backward_name(name) if backward else forward_name(name)
        return SourceStyle(
            "", forward, backward_name(name), helpers=self.helpers, section=True, target=self.schedules or self.name
        )

    def free(self, contract: ApiContract) -> tuple[str, ...]:
        """Parameters that choose memory or launches, and change no values."""
        return tuple(parameter.name for parameter in contract.parameters if parameter.name in FREE)

    def changes(
        self, kernel: ExistingKernel, module: PortedModule, contract: ApiContract, tree: Tree
    ) -> tuple[FileChange, ...]:
        """The operator, its export and its place in ``__all__``, and the test of its API.

        Raises:
            UserFacingError: the exporting file has no import to insert next to.
        """
        exports = tree.read(self.exports) or ""
        if not exports and self.guard is not None:
            first = Import(f"{self.package}.{kernel.name}", module.exports[0])
            exports = f'"""Operators in {self.language}."""\n\n{first.line()}\n\n__all__ = [\n    "{first.name}",\n]\n'
        for name in module.exports:
            try:
                exports = with_import(exports, Import(f"{self.package}.{kernel.name}", name))
            except ValueError as error:
                raise _refused(
                    f"`{self.exports}` cannot be extended: {error}", "Bring it into the library's form."
                ) from error
            exports = with_listed_name(exports, name)
        registered = self._registered(kernel, contract, tree)
        known = self.registration is not None and tree.overlaid(registered).exists(self.registration.path(kernel.name))
        source = module.source
        for before, after in self.replaced:
            source = source.replace(before, after)
        return (
            FileChange(self.path(kernel), source),
            FileChange(self.exports, exports),
            *(
                ()
                if self.guard is None or tree.exists(self.selecting)
                else (FileChange(self.selecting, self._selection),)
            ),
            *registered,
            FileChange(self.test_path(kernel.name), self._test_source(kernel, module, contract, registered=known)),
        )

    def _registered(self, kernel: ExistingKernel, contract: ApiContract, tree: Tree) -> tuple[FileChange, ...]:
        if self.registration is None:
            return ()
        return self.registration.changes(kernel.name, contract.function, self.module(kernel), self.language, tree)

    def form(
        self, kernel: ExistingKernel, problem: Problem, changes: tuple[FileChange, ...], tree_file: str
    ) -> CandidateSource:
        """The port for the runner. The other operators of the implementation, which this host may not import, are left out."""
        own = tuple(change for change in changes if change.path == self.path(kernel))
        standing_in = (*(FileChange(path, text) for path, text in self.stand_ins), FileChange(self.exports, ""))
        made = kernel_form(problem, f"{self.package}.{kernel.name}", ("src",), (*own, *standing_in), tree_file)
        return replace(
            made, screened=tuple(path for path in made.screened if path not in {change.path for change in standing_in})
        )

    def tilings(self, problem: Problem, source: str) -> tuple[KernelTiling, ...]:
        """None: launchers of Triton for GPUs choose their blocks by the width of a row."""
        return ()

    def _test_source(
        self, kernel: ExistingKernel, module: PortedModule, contract: ApiContract, *, registered: bool
    ) -> str:
        by_operation = self.registration if registered else None
        return TEST.format(
            language=self.language,
            name=kernel.name,
            function=contract.function,
            exports=tuple_of(f'"{name}"' for name in module.exports),
            origin=_place(contract.path),
            port=_place(self.path(kernel)),
            package=f"{self.package}.{kernel.name}",
            exporting=self.package,
            inside=self.inside.removesuffix("/ops"),
            device=self.device,
            prepare=f"import torch\n\n{self.prepare}\n" if self.prepare else "",
            selected=self.selected,
            more=""
            if by_operation is None
            else REGISTERED.format(name=kernel.name, impl=by_operation.impl, module=by_operation.module(kernel.name)),
            chosen=CHOSEN.format(
                calls=_calls(module),
                function=contract.function,
                package=self.module(kernel),
                upstream=tuple_of(GIVEN for _ in contract.upstream),
            )
            if module.calls
            else "",
            needs=SKIPPED.format(module=self.needs) if self.needs else "",
        )


def _place(path: str) -> str:
    parts = path.removeprefix(f"{paths.OPS}/").split("/")
    return " / ".join(["OPS", *(f'"{part}"' for part in parts)])


@cache
def _variants() -> dict[str, tuple[tuple[str, str], ...]]:
    """The problems of kernels that models call in several ways: those of a folder, the one with the usual call first."""
    folder = files("workers.layouts.liger").joinpath("variants")
    kernels = sorted((item for item in folder.iterdir() if item.is_dir()), key=lambda item: item.name)
    return {kernel.name: _read(kernel) for kernel in kernels if not kernel.name.startswith("_")}


def _read(folder) -> tuple[tuple[str, str], ...]:  # type: ignore[no-untyped-def]
    found = sorted((item for item in folder.iterdir() if item.name.endswith(".py")), key=lambda item: item.name)
    return tuple((item.name.removesuffix(".py"), item.read_text("utf-8")) for item in found)


def _refused(message: str, fix: str) -> UserFacingError:
    return UserFacingError(Failure(FailureCode.layout, message, fix))


def _calls(module: PortedModule) -> str:
    rows = [
        f'    ({tuple_of(each.arguments)}, "{each.forward}", "{each.backward}", {each.saved}, {each.divisor}),\n'
        for each in module.calls
    ]
    return "".join(["(\n", *rows, ")"])


CHOSEN = """
port = importlib.import_module("{package}")


class Given:
    shape = (2, 3, 5, 7)

    def numel(self):
        return 210

    def __truediv__(self, other):
        return self


class Reached(Exception):
    pass


class Context:
    def __init__(self, n_saved):
        self.saved_tensors = (given,) * n_saved

    def __getattr__(self, name):
        return given


given = Given()
CALLS = {calls}


def reaching(name):
    def launcher(*arguments):
        raise Reached(name)

    return launcher


def reached(method, *arguments):
    try:
        method(*arguments)
    except Reached as launcher:
        return str(launcher)


for _, *launchers, _, _ in CALLS:
    for name in launchers:
        setattr(port, name, reaching(name))
for arguments, forward, backward, n_saved, divisor in CALLS:
    context = Context(n_saved)
    assert reached(port.{function}.forward, context, *arguments) == forward, arguments
    assert context.divisor == divisor, arguments
    assert reached(port.{function}.backward, context, *{upstream}) == backward, arguments
"""
REGISTERED = """\
registry = importlib.import_module("liger_kernel.backends.registry")
impl = registry.get_registered("{name}", "{impl}")
assert impl is not None and impl.forward.__module__ == "{module}", registry.get_discovery_failures()
"""
# In a process of its own, as what follows: while a job judges a port, this one may have a stand-in for the module.
SKIPPED = """\
    if subprocess.run([sys.executable, "-c", "import {module}"], capture_output=True).returncode != 0:
        pytest.skip("{module} is not installed")
"""
TEST = '''\
"""The {language} port of {name} has the API that it was ported from; both import forms resolve as they should."""

import ast
import os
import subprocess
import sys

from pathlib import Path

import pytest

OPS = Path(__file__).parents[2] / "src" / "liger_kernel" / "ops"
ORIGIN, PORT = {origin}, {port}
EXPORTS = {exports}
# Carried out by a Python of its own, for which the device is {device}: what it lacks of the device's Triton is imported as None.
RESOLVED = """
import ast
import importlib
import pathlib
import sys
import types

{prepare}import liger_kernel.utils

liger_kernel.utils.infer_device = lambda: "{device}"
folder = pathlib.Path(liger_kernel.utils.__file__).parent / "ops" / "{inside}"
for name in [name for name in sys.modules if name.startswith("liger_kernel") and name != "liger_kernel.utils"]:
    del sys.modules[name]
nodes = [node for path in folder.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
for node in [node for node in nodes if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("triton.")]:
    parts = node.module.split(".")
    for module in [".".join(parts[: end + 1]) for end in range(len(parts))]:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError:
            sys.modules[module] = types.ModuleType(module)
            sys.modules[module].__path__ = []
    for alias in node.names:
        if not hasattr(sys.modules[node.module], alias.name):
            setattr(sys.modules[node.module], alias.name, None)
package = importlib.import_module("liger_kernel.ops")
module = importlib.import_module("liger_kernel.ops.{name}")
importlib.import_module("{exporting}")
for name in {exports}:
    assert getattr(package, name).__module__ == "{package}", name
assert module.{function}.__module__ == "liger_kernel.ops.{name}"
{more}{chosen}"""


def parameters(path, method):
    """The parameters of a method of the autograd Function, with their defaults."""
    classes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
    function = next(node for node in classes if node.name == "{function}")
    arguments = next(node for node in function.body if getattr(node, "name", "") == method).args
    return [argument.arg for argument in arguments.args], [ast.literal_eval(value) for value in arguments.defaults]


@pytest.mark.parametrize("method", ["forward", "backward"])
def test_function_takes_what_its_origin_takes(method):
    assert parameters(PORT, method) == parameters(ORIGIN, method)


def test_every_name_is_exported():
    tree = ast.parse((PORT.parent / "__init__.py").read_text())
    lists = [n.value for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "__all__"]
    assert set(EXPORTS) <= set(ast.literal_eval(lists[0]))


def test_package_resolves_to_the_port_and_the_module_to_the_default():
{needs}    environment = os.environ | {{"LIGER_KERNEL_IMPL": "{selected}"}}
    done = subprocess.run([sys.executable, "-c", RESOLVED], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.fail(done.stderr, pytrace=False)
'''


def launchers(source: str, call: str) -> list[ast.FunctionDef]:
    """The functions of a module in which a call stands, such as ``ct.launch(``."""
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return [node for node in functions if call in ast.unparse(node)]


def rows_and_columns(problem: Problem, workload: Workload) -> tuple[int, int]:
    """Rows and columns of the input of most dimensions at a workload."""
    sizes = dict(workload.sizes)
    widest = max((spec.dims for spec in problem.inputs), key=len)
    shape = [int(dim) if dim.isdigit() else sizes.get(dim, 1) for dim in widest]
    return math.prod(shape[:-1]), shape[-1] if shape else 1
