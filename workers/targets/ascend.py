"""The target `ascend`: Triton-Ascend in Liger-Kernel's own backend for NPUs. Pure."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import cache
from importlib.resources import files

from gpu_runner.contracts import CandidateSource, Problem
from workers.authors.protocol import SourceStyle
from workers.contracts import Failure, FailureCode, FileChange, KernelTiling, UserFacingError
from workers.layouts.calls import call_of, defined_functions, kernel_form
from workers.layouts.liger import paths
from workers.layouts.protocol import ExistingKernel
from workers.layouts.python_source import Import, read_imports, with_import, with_listed_name
from workers.targets import stand_in
from workers.targets.contract import ApiContract, read_contract
from workers.targets.module import PortedModule, backward_name, forward_name
from workers.tree import Tree

FOLDER = f"{paths.OPS}/backends/_ascend"
UB_MANAGER = f"{FOLDER}/ub_manager.py"
EXPORTS = f"{FOLDER}/ops/__init__.py"
PACKAGE = f"{paths.PACKAGE}.ops.backends._ascend"
HELPERS = (
    ("compute_default_tiling_strategy", f"{PACKAGE}.ub_manager"),
    ("get_npu_core_count", f"{paths.PACKAGE}.ops.utils"),
    ("device_context", f"{paths.PACKAGE}.ops.utils"),
)
# Parameters of Liger's Functions that choose memory or launches: where gradients are written, how rows are shared out.
FREE = frozenset({"in_place", "row_mode"})
CORES = 40  # vector cores of a 910B2 to 910B4, for estimates
RULE = re.compile(
    r"_(?:row_tiles|block)\((?P<size>n_rows, n_cols|n_cols|n_elements), (?P<tile>[\d.]+)(?:, (?P<wide>[\d.]+))?\)"
)


class Ascend:
    """Ascend NPUs, through the files in ``ops/backends/_ascend``."""

    name = "ascend"
    language = "Triton-Ascend"
    device = "npu"
    buffer_bits = stand_in.CAPACITY_BITS
    contiguous = f"from {paths.PACKAGE}.ops.utils import ensure_contiguous"
    impossible_here: tuple[str, ...] = (
        "Values and gradients were judged in Triton's interpreter, not on an NPU.",
        "Times need an NPU: run the library's benchmark script there, and `msprof` for what bounds it.",
        "How the unified buffer is filled is an estimate: the NPU's own compiler allocates it.",
    )

    def path(self, kernel: ExistingKernel) -> str:
        """The file of a port."""
        return port_path(kernel.name)

    def unported(self, kernel: ExistingKernel, contract: ApiContract, tree: Tree) -> tuple[str, ...]:
        """Other Functions of the default operator's file, which stay the default's on this device."""
        return tuple(name for name in defined_functions(tree.read(kernel.path) or "") if name != contract.function)

    def check(self, kernel: ExistingKernel, tree: Tree) -> None:
        """Whether the repository has the backend and no port of the kernel yet.

        Raises:
            UserFacingError: one of the two is not so.
        """
        if kernel.path != paths.ops_path(kernel.name):
            raise _refused(f"`{kernel.path}` is no operator of `{paths.OPS}`", "Port an operator that lies there.")
        lacking = [path for path in (UB_MANAGER, EXPORTS) if tree.read(path) is None]
        if lacking:
            fix = "The backend for NPUs is part of liger-kernel since 0.6; a port goes into it."
            raise UserFacingError(Failure(FailureCode.missing, f"the repository has no `{lacking[0]}`", fix))
        if tree.exists(port_path(kernel.name)):
            fix = "To make it faster, work on that file; to write it anew, remove it and its exports first."
            message = f"`{kernel.name}` is ported already: `{port_path(kernel.name)}`"
            raise UserFacingError(Failure(FailureCode.exists, message, fix))

    def problems(self, kernel: ExistingKernel, tree: Tree) -> tuple[tuple[str, str], ...]:
        """The calls that the library's models make, where they are more than one."""
        return _variants().get(kernel.name, ())

    def contract(self, kernel: ExistingKernel, problem: Problem, tree: Tree) -> ApiContract:
        """The API of the default operator."""
        module = f"{paths.PACKAGE}.ops.{kernel.name}"
        exported = [
            s.imported.name for s in read_imports(tree.read(paths.OPS_EXPORTS) or "") if s.imported.module == module
        ]
        return read_contract(tree.read(kernel.path) or "", call_of(problem).symbol, filter(None, exported))

    def style(self, name: str) -> SourceStyle:
        """Sections without a class: the Function has the default operator's own API."""
        return SourceStyle("", forward_name(name), backward_name(name), helpers=HELPERS, section=True, target=self.name)

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
        exports = tree.read(EXPORTS) or ""
        for name in module.exports:
            try:
                exports = with_import(exports, Import(f"{PACKAGE}.ops.{kernel.name}", name))
            except ValueError as error:
                raise _refused(
                    f"`{EXPORTS}` cannot be extended: {error}", "Bring it into the library's form."
                ) from error
            exports = with_listed_name(exports, name)
        return (
            FileChange(port_path(kernel.name), module.source),
            FileChange(EXPORTS, exports),
            FileChange(test_path(kernel.name), _test_source(kernel, module, contract)),
        )

    def form(
        self, kernel: ExistingKernel, problem: Problem, changes: tuple[FileChange, ...], tree_file: str
    ) -> CandidateSource:
        """The port for the runner. The other operators of the backend, which only an NPU's Triton can import, are left out."""
        own = tuple(change for change in changes if change.path == port_path(kernel.name))
        standing_in = (FileChange(UB_MANAGER, stand_in_source()), FileChange(EXPORTS, ""))
        module = f"{PACKAGE}.ops.{kernel.name}"
        made = kernel_form(problem, module, ("src",), (*own, *standing_in), tree_file)
        return replace(made, screened=tuple(path for path in made.screened if path not in (UB_MANAGER, EXPORTS)))

    def tilings(self, problem: Problem, source: str) -> tuple[KernelTiling, ...]:
        """The tiles of each launcher at each size, chosen as the launchers choose them, for 40 vector cores."""
        launchers = [
            n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and RULE.search(ast.unparse(n))
        ]
        tilings = []
        for launcher in launchers:
            match = RULE.search(ast.unparse(launcher))
            if match is None or (launcher.args.args and launcher.args.args[0].arg == "size"):
                continue
            for workload in problem.workloads:
                sizes = dict(workload.sizes)
                shape = [
                    int(d) if d.isdigit() else sizes.get(d, 1) for d in max((s.dims for s in problem.inputs), key=len)
                ]
                tilings.append(_tiling(launcher.name, match, shape, workload.label()))
        return tuple(tilings)


def _tiling(name: str, match: re.Match[str], shape: list[int], label: str) -> KernelTiling:
    columns, elements = shape[-1], 1
    for size in shape:
        elements *= size
    tile = float(match["tile"])
    if match["size"] == "n_elements":
        block = _cut((elements,), tile)[0]
        return KernelTiling(name, label, tile, 1, block, min(CORES, -(-elements // block)), _bits(tile, block))
    rows, padded = elements // columns, 1 << (columns - 1).bit_length()
    block = _cut((columns,), tile)[0]
    if match["wide"] and block < padded:
        tile = float(match["wide"])
        block = _cut((columns,), tile)[0]
        return KernelTiling(f"{name} (wide)", label, tile, 1, block, min(CORES, rows), _bits(tile, block))
    block_rows = _cut((-(-rows // CORES), block), tile)[0]
    return KernelTiling(
        name, label, tile, block_rows, block, min(CORES, -(-rows // block_rows)), _bits(tile, block_rows * block)
    )


def _cut(shape: tuple[int, ...], multiplier: float) -> tuple[int, ...]:
    tiled = stand_in.compute_default_tiling_strategy(0.8, 4, multiplier, (shape,), (0,))  # type: ignore[no-untyped-call]
    return tuple(int(size) for size in tiled[0])


def _bits(multiplier: float, elements: int) -> int:
    return int(multiplier * elements * 32)


def stand_in_source() -> str:
    """The stand-in for ``ub_manager``, as it is laid over the repository where a port is judged."""
    return files("workers.targets").joinpath("stand_in.py").read_text("utf-8")


@cache
def _variants() -> dict[str, tuple[tuple[str, str], ...]]:
    """The problems of kernels that models call in several ways: those of a folder, the one with the usual call first."""
    folder = files("workers.layouts.liger").joinpath("variants")
    kernels = sorted((item for item in folder.iterdir() if item.is_dir()), key=lambda item: item.name)
    return {kernel.name: _read(kernel) for kernel in kernels if not kernel.name.startswith("_")}


def _read(folder) -> tuple[tuple[str, str], ...]:  # type: ignore[no-untyped-def]
    found = sorted((item for item in folder.iterdir() if item.name.endswith(".py")), key=lambda item: item.name)
    return tuple((item.name.removesuffix(".py"), item.read_text("utf-8")) for item in found)


def port_path(name: str) -> str:
    """The file of a port."""
    return f"{FOLDER}/ops/{name}.py"


def test_path(name: str) -> str:
    """The file of the test that a port keeps the default's API."""
    return f"test/ops/test_ascend_{name}.py"


def _refused(message: str, fix: str) -> UserFacingError:
    return UserFacingError(Failure(FailureCode.layout, message, fix))


TEST = '''\
"""The Ascend port of {name} has the API of the default operator; both import forms resolve as they should."""

import ast
import importlib

from pathlib import Path

import pytest

from liger_kernel.utils import infer_device

OPS = Path(__file__).parents[2] / "src" / "liger_kernel" / "ops"
DEFAULT, PORT = OPS / "{name}.py", OPS / "backends" / "_ascend" / "ops" / "{name}.py"
EXPORTS = {exports}


def parameters(path, method):
    """The parameters of a method of the autograd Function, with their defaults."""
    classes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
    function = next(node for node in classes if node.name == "{function}")
    arguments = next(node for node in function.body if getattr(node, "name", "") == method).args
    return [argument.arg for argument in arguments.args], [ast.literal_eval(value) for value in arguments.defaults]


@pytest.mark.parametrize("method", ["forward", "backward"])
def test_function_takes_what_the_default_takes(method):
    assert parameters(PORT, method) == parameters(DEFAULT, method)


def test_every_name_is_exported():
    tree = ast.parse((PORT.parent / "__init__.py").read_text())
    lists = [n.value for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "__all__"]
    assert set(EXPORTS) <= set(ast.literal_eval(lists[0]))


@pytest.mark.skipif(infer_device() != "npu", reason="only an NPU selects the port")
def test_package_resolves_to_the_port_and_the_module_to_the_default():
    package = importlib.import_module("liger_kernel.ops")
    module = importlib.import_module("liger_kernel.ops.{name}")
    assert getattr(package, "{function}").__module__ == "liger_kernel.ops.backends._ascend.ops.{name}"
    assert getattr(module, "{function}").__module__ == "liger_kernel.ops.{name}"
'''


def _test_source(kernel: ExistingKernel, module: PortedModule, contract: ApiContract) -> str:
    listed = ", ".join(f'"{name}"' for name in module.exports)
    exports = f"({listed},)" if len(module.exports) == 1 else f"({listed})"
    return TEST.format(name=kernel.name, function=contract.function, exports=exports)
