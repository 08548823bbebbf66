"""The tiles of a cuTile file that can be looked up: numbers by which a launcher chooses the constants of its launches. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gpu_runner.contracts import Knob, Pass
from gpu_runner.contracts.reading import walk
from workers.strategies.source import KernelFile, Patches, called, indent_of, names_in, parameters_of

LAUNCH, CONSTANT, CEILING = "ct.launch", "Constant", "ct.cdiv"
ELEMENTS = "ELEMENTS"  # of a tile whose sides a function computes
LEAST, MOST = 64, 2**14
STEPS = (0.25, 0.5, 1, 2, 4, 8)
LOOKED_UP = "tuned"
LOOKUP = '''# Tiles that were measured, by architecture, pass and size.
TUNED = {}


def _tuned(device, timed_pass, size, **settings):
    """The settings, with what TUNED has for this GPU and size in their place."""
    architecture = device.type
    if architecture == "cuda":
        architecture = "sm_%d%d" % torch.cuda.get_device_capability(device)
    for size_up_to, measured in TUNED.get(architecture, {}).get(timed_pass, ()):
        if size <= size_up_to:
            return {**settings, **measured}
    return settings


'''


@dataclass(frozen=True)
class TileNumber:
    """A number that chooses a tile, the statement it stands in, and by what it would be looked up."""

    number: ast.Constant
    statement: ast.stmt
    setting: str
    timed_pass: Pass
    tensor: str
    size: str

    @property
    def knob(self) -> Knob:
        """The setting with the values to try: powers of two around today's."""
        today = int(self.number.value)  # type: ignore[arg-type]
        values = sorted({int(today * step) for step in STEPS if LEAST <= today * step <= MOST})
        return Knob(self.timed_pass, self.setting, tuple(values))


def tile_numbers(file: KernelFile) -> tuple[TileNumber, ...]:
    """The numbers of a file that can be looked up, from top to bottom.

    A number is taken where no other tile can change what is computed: it is a power of two, the grid is counted in tiles of it,
    and the kernel uses its constants as shapes, as the lengths of ranges and as factors alone.
    """
    kernels = {
        node.name: node
        for node in file.tree.body
        if isinstance(node, ast.FunctionDef) and any("ct.kernel" in ast.unparse(d) for d in node.decorator_list)
    }
    found = [
        number
        for name, function in file.functions.items()
        if len(passes := file.passes.get(name, frozenset())) == 1 and name not in kernels
        for launch in _launches(function)
        for number in _numbers(function, launch, kernels, next(iter(passes)))
    ]
    first = {id(number.number): number for number in found}
    return tuple(sorted(first.values(), key=lambda number: number.statement.lineno))


def look_up(patches: Patches, file: KernelFile, number: TileNumber) -> None:
    """Has a launcher look its tile up in the line before it is chosen."""
    indent = indent_of(file.source, number.statement.lineno)
    today = f"{number.setting}={ast.unparse(number.number)}"
    call = f'_tuned({number.tensor}.device, "{number.timed_pass}", {number.size}, {today})'
    patches.insert_before(number.statement.lineno, f"{indent}{LOOKED_UP} = {call}\n")
    patches.replace(number.number, f'{LOOKED_UP}["{number.setting}"]')


def _launches(function: ast.FunctionDef) -> list[ast.Call]:
    calls = [node for node in walk(function) if isinstance(node, ast.Call) and called(node) == LAUNCH]
    return [call for call in calls if len(call.args) == 4 and not call.keywords]


def _numbers(
    function: ast.FunctionDef, launch: ast.Call, kernels: dict[str, ast.FunctionDef], timed_pass: Pass
) -> Iterator[TileNumber]:
    _, grid, kernel, arguments = launch.args
    if not (isinstance(kernel, ast.Name) and kernel.id in kernels and isinstance(arguments, ast.Tuple)):
        return
    parameters = kernels[kernel.id].args.args
    if len(parameters) != len(arguments.elts) or LOOKED_UP in _stored(function):
        return
    constants = {
        argument.id: parameter.arg
        for parameter, argument in zip(parameters, arguments.elts, strict=True)
        if isinstance(argument, ast.Name) and parameter.annotation and CONSTANT in ast.unparse(parameter.annotation)
    }
    tensor = next((name for node in arguments.elts if (name := _viewed(node)) in parameters_of(function)), None)
    for statement in (node for node in walk(function) if isinstance(node, ast.Assign)):
        chosen = [node.id for target in statement.targets for node in walk(target) if isinstance(node, ast.Name)]
        number, size = _number(statement, chosen, grid, function)
        counted = set(chosen) & _counts(grid, function)
        shapes = all(_is_shape(kernels[kernel.id], constants[name]) for name in chosen if name in constants)
        once = all(_stored(function).count(name) == 1 for name in chosen)
        if tensor and number and size and set(chosen) <= set(constants) and counted and shapes and once:
            setting = ELEMENTS if isinstance(statement.value, ast.Call) else chosen[0]
            yield TileNumber(number, statement, setting, timed_pass, tensor, size)


def _number(
    statement: ast.Assign, chosen: list[str], grid: ast.expr, function: ast.FunctionDef
) -> tuple[ast.Constant | None, str | None]:
    """The number in a statement, and the name of the size that goes with it."""
    if isinstance(statement.value, ast.Call):
        number = next((node for node in statement.value.args if _is_power(node)), None)
        sizes = [node.id for argument in statement.value.args for node in walk(argument) if isinstance(node, ast.Name)]
    else:
        number = statement.value if _is_power(statement.value) and len(chosen) == 1 else None
        divided = [node for node in walk(grid) if isinstance(node, ast.Call) and called(node) == CEILING]
        sizes = [
            ast.unparse(node.args[0])
            for node in divided
            if len(node.args) == 2 and names_in(node.args[1]) & set(chosen)
        ]
    known = {*parameters_of(function), *_stored_before(function, statement)}
    return number, next((size for size in sizes if size in known), None)  # type: ignore[return-value]


def _is_power(node: ast.expr) -> bool:
    value = node.value if isinstance(node, ast.Constant) else None
    return type(value) is int and LEAST <= value <= MOST and value & (value - 1) == 0


def _viewed(node: ast.expr) -> str:
    """The tensor that a launch is handed a view of."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return node.id if isinstance(node, ast.Name) else ""


def _counts(grid: ast.expr, function: ast.FunctionDef) -> frozenset[str]:
    """The names from which a grid is computed."""
    names = set(names_in(grid))
    assigned = [node for node in walk(function) if isinstance(node, ast.Assign)]
    for _ in assigned:
        names |= {
            name
            for node in assigned
            if any(isinstance(target, ast.Name) and target.id in names for target in node.targets)
            for name in names_in(node.value)
        }
    return frozenset(names)


def _is_shape(kernel: ast.FunctionDef, constant: str) -> bool:
    """Whether a kernel uses a constant in shapes, ranges and products alone."""
    fine: set[int] = set()
    for node in walk(kernel):
        if isinstance(node, ast.Tuple):
            fine |= {id(item) for item in node.elts}
        elif isinstance(node, ast.Call) and called(node) in ("ct.arange", CEILING):
            fine |= {id(item) for item in node.args}
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            fine |= {id(node.left), id(node.right)}
    uses = [node for node in walk(kernel) if isinstance(node, ast.Name) and node.id == constant]
    return all(id(node) in fine for node in uses)


def _stored(function: ast.FunctionDef) -> list[str]:
    return [node.id for node in walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def _stored_before(function: ast.FunctionDef, statement: ast.stmt) -> list[str]:
    return [
        node.id
        for node in walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.lineno < statement.lineno
    ]
