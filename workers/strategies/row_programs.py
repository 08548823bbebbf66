"""Kernels of which each program handles the row (or tile) of its own number, and the launches with one program a row. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import cast

from gpu_runner.contracts.syntax import UNPARSABLE
from workers.strategies.fitting import KeptError
from workers.strategies.patches import Patches, indent_of
from workers.strategies.syntax import KernelFile, Launch, autotune_of, called, names_in, parameters_of
from workers.tree import Tree

ROW_COUNT = "n_rows"
PURE_CALLS = ("triton.cdiv",)
CASTS = ("to", "cast")


@dataclass(frozen=True)
class RowLaunch:
    """A launch with one program a row. ``rows`` is the number of rows on the host, the only extent of the grid."""

    launch: Launch
    rows: ast.expr
    before: ast.stmt  # what is to be known for the grid goes before it


@dataclass(frozen=True)
class RowKernel:
    """A kernel whose statement ``start`` gives a program's number the name ``row``."""

    kernel: ast.FunctionDef
    row: str
    start: ast.Assign
    launches: tuple[RowLaunch, ...]


def row_kernel(file: KernelFile, name: str, tree: Tree, path: str) -> RowKernel:
    """Give a kernel of a file that has one program a row.

    Raises:
        KeptError: it has not, or not surely.
    """
    kernel = file.kernels[name]
    launches = [launch for launch in file.launches if launch.kernel == name]
    if not launches:
        raise KeptError("no launch of it could be read")
    if kernel.decorator_list[1:] or autotune_of(kernel) is not None:
        raise KeptError("its decorators choose its settings")
    if kernel.args.kwonlyargs or kernel.args.vararg or kernel.args.kwarg or kernel.args.posonlyargs:
        raise KeptError("its parameters are not all plain ones")
    mentions = [n for n in ast.walk(file.tree) if isinstance(n, ast.Name) and n.id == name]
    if len(mentions) != len(launches) or used_elsewhere(name, tree, path):
        raise KeptError("it is used in other places than the launches of this file")
    row, start = _start(kernel)
    return RowKernel(kernel, row, start, tuple(_row_launch(file, launch) for launch in launches))


def program_calls(kernel: ast.FunctionDef) -> list[ast.Call]:
    """Give the calls that ask for a program's number or for how many there are."""
    calls = (n for n in ast.walk(kernel) if isinstance(n, ast.Call))
    return [n for n in calls if called(n) in ("tl.program_id", "tl.num_programs")]


def names_in_functions(file: KernelFile, name: str) -> frozenset[str]:
    """Give the names that a new one in a function or method of that name would have to differ from."""
    same = [n for n in ast.walk(file.tree) if isinstance(n, ast.FunctionDef) and n.name == name]
    module = {n.name for n in file.tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    return frozenset(module).union(*(names_in(f) | frozenset(parameters_of(f)) for f in same))


def row_count(found: RowKernel) -> str:
    """Give the parameter that every launch gives the number of rows, or the name of one more.

    Raises:
        KeptError: there is no free name.
    """
    parameters = parameters_of(found.kernel)
    stored = {n.id for n in ast.walk(found.kernel) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for name in (p for p in parameters if p not in stored):
        given = [(x.launch.argument(name), x.rows) for x in found.launches]
        if all(value is not None and ast.dump(value) == ast.dump(rows) for value, rows in given):
            return name
    if ROW_COUNT in names_in(found.kernel) | frozenset(parameters):
        raise KeptError(f"it has another `{ROW_COUNT}` than the number of its programs")
    return ROW_COUNT


def insert_parameters(patches: Patches, file: KernelFile, kernel: ast.FunctionDef, texts: list[str]) -> None:
    """Give a kernel more parameters, behind all that have no default; lines that become too long are broken by ``fitted``."""
    arguments, defaults = kernel.args.args, kernel.args.defaults
    last = arguments[len(arguments) - len(defaults) - 1] if len(arguments) > len(defaults) else None
    if last is None:
        raise KeptError("all of its parameters have defaults")
    line = file.source.split("\n")[(last.end_lineno or last.lineno) - 1]
    following = arguments[arguments.index(last) + 1].lineno if defaults else None
    behind = line.encode()[last.end_col_offset or 0 :].decode().split("#")[0].strip()
    if behind == "," and following != last.lineno:
        indent = indent_of(file.source, last.lineno)
        patches.insert_before((last.end_lineno or last.lineno) + 1, "".join(f"{indent}{t},\n" for t in texts))
    else:
        patches.append(last, "".join(f", {t}" for t in texts))


def insert_arguments(patches: Patches, file: KernelFile, launch: Launch, texts: list[str]) -> None:
    """Give a launch more keyword arguments, before a dict that is unpacked; long lines are broken by ``fitted``."""
    call = launch.call
    arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    if any(isinstance(a, ast.Starred) for a in call.args) or not arguments:
        raise KeptError("what its launch hands over could not be told")
    unpacked = launch.starred[0] if launch.starred else None
    place = unpacked or arguments[-1]
    before = [a for a in arguments if a.lineno == place.lineno and a is not place]
    lines = file.source.split("\n")
    alone = not before and place.lineno != call.lineno
    if alone and lines[(place.end_lineno or place.lineno) - 1].split("#")[0].rstrip().endswith(","):
        at = place.lineno if unpacked else (place.end_lineno or place.lineno) + 1
        patches.insert_before(at, "".join(f"{indent_of(file.source, place.lineno)}{t},\n" for t in texts))
    elif unpacked:
        patches.replace(unpacked, "".join(f"{t}, " for t in texts) + f"**{file.segment(unpacked.value)}")
    else:
        patches.append(place.value if isinstance(place, ast.keyword) else place, "".join(f", {t}" for t in texts))


def used_elsewhere(name: str, tree: Tree, path: str) -> bool:
    """Tell whether another file of a snapshot imports a kernel of this one, or takes it from a module."""
    others = (p for p, text in tree.files.items() if p != path and p.endswith(".py") and name.encode() in text)
    return any(_uses(tree.read(p) or "", name, PurePosixPath(path).stem) for p in others)


def _uses(text: str, name: str, module: str) -> bool:
    """Another file may have a kernel of that name; it uses this one if it imports it, or takes it from a module."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except UNPARSABLE:
        return True
    imports = [n for n in nodes if isinstance(n, ast.ImportFrom) and any(a.name in (name, "*") for a in n.names)]
    taken = any(isinstance(n, ast.Attribute) and n.attr == name for n in nodes)
    return taken or any((n.module or module).split(".")[-1] == module for n in imports)


def _start(kernel: ast.FunctionDef) -> tuple[str, ast.Assign]:
    """``row = tl.program_id(0)``, perhaps cast, is the only statement that knows of other programs."""
    calls = program_calls(kernel)
    if any(isinstance(n, ast.Return) for n in ast.walk(kernel)):
        raise KeptError("it may return early")
    if len(calls) != 1 or called(calls[0]) != "tl.program_id" or not _first_axis(calls[0]):
        raise KeptError("it is not numbered by one axis of programs alone")
    for statement in kernel.body:
        if isinstance(statement, ast.Assign) and _number(statement.value) is calls[0]:
            target = statement.targets[0]
            stores = [n for n in ast.walk(kernel) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
            if isinstance(target, ast.Name) and len([n for n in stores if n.id == target.id]) == 1:
                return target.id, statement
    raise KeptError("the number of a program has no name of its own")


def _first_axis(call: ast.Call) -> bool:
    axes = [*call.args, *(k.value for k in call.keywords)]
    return len(axes) == 1 and isinstance(axes[0], ast.Constant) and axes[0].value == 0


def _number(value: ast.expr) -> ast.expr:
    method = value.func if isinstance(value, ast.Call) else None
    if isinstance(method, ast.Attribute) and method.attr in CASTS and isinstance(method.value, ast.Call):
        return method.value
    return value


def _row_launch(file: KernelFile, launch: Launch) -> RowLaunch:
    statement = next(
        (s for s in _statements(launch.function) if isinstance(s, ast.Expr) and s.value is launch.call), None
    )
    if statement is None:
        raise KeptError("its launch is not a statement of its own")
    grid, before = launch.grid, cast(ast.stmt, statement)
    if isinstance(grid, ast.Name):
        name = grid.id
        uses = [n for n in ast.walk(launch.function) if isinstance(n, ast.Name) and n.id == name]
        found = [s for s in _statements(launch.function) if isinstance(s, ast.Assign) and uses[0] in s.targets]
        if len(uses) != 2 or not found:
            raise KeptError("its grid is settled in more than one place")
        grid, before = found[0].value, found[0]
        # What goes before the grid must not be changed between it and the launch.
        if file.source.split("\n")[before.lineno - 1][: before.col_offset].strip():
            raise KeptError("its grid is settled in more than one place")
    if not isinstance(grid, ast.Tuple) or len(grid.elts) != 1 or not _pure(grid.elts[0]):
        raise KeptError("its grid is not the number of rows alone")
    return RowLaunch(launch, grid.elts[0], before)


def _pure(node: ast.expr) -> bool:
    plain = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    return all(
        isinstance(n, (*plain, ast.expr_context)) or (isinstance(n, ast.Call) and called(n) in PURE_CALLS)
        for n in ast.walk(node)
    )


def _statements(function: ast.FunctionDef) -> list[ast.stmt]:
    return [n for n in ast.walk(function) if isinstance(n, ast.stmt)]


def known_before(function: ast.FunctionDef, names: frozenset[str], line: int) -> bool:
    """Tell whether each of a function's names has its last value before a line; names of the module have."""
    stores = [n for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    mine = [n for n in stores if n.id in names]
    given = frozenset(parameters_of(function))
    stored = {n.id for n in mine if n.lineno < line}
    return all(name in stored or name in given for name in {n.id for n in mine}) and all(n.lineno < line for n in mine)
