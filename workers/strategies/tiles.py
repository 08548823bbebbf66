"""Numbers of cuTile and CuTe DSL files that can be looked up: by them a launcher chooses the constants of its launches. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from gpu_runner.contracts import Knob, Pass
from gpu_runner.contracts.reading import walk
from workers.authors.compiler.schedules.cutedsl import CHOOSING, VALUES
from workers.strategies.source import KernelFile, Patches, called, indent_of, names_in, parameters_of

LAUNCH, CONSTANT, CEILING = "ct.launch", "Constant", "ct.cdiv"
HINTING = "_hinted"  # the compiler author's function that gives a kernel hints
ELEMENTS = "ELEMENTS"  # of a tile whose sides a function computes
SIZES = ("n_elements", "n_cols")  # as the compiler author's launchers call them
LEAST, MOST = 64, 2**14
STEPS = (0.25, 0.5, 1, 2, 4, 8)
LOOKED_UP = "tuned"
LOOKUP = '''# Settings that were measured, by architecture, pass and size.
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
class LaunchNumber:
    """A number that chooses a constant of launches, the statement it stands in, and by what it would be looked up."""

    number: ast.Constant
    statement: ast.stmt
    setting: str
    timed_pass: Pass
    tensor: str
    size: str
    launcher: ast.FunctionDef

    @property
    def knob(self) -> Knob:
        """The setting with the values to try: those of its kind, or powers of two around today's."""
        today = int(self.number.value)  # type: ignore[arg-type]
        around = {int(today * step) for step in STEPS if LEAST <= today * step <= MOST}
        return Knob(self.timed_pass, self.setting, tuple(sorted({*VALUES.get(self.setting, around), today})))

    def shares(self, others: Sequence[LaunchNumber]) -> bool:
        """Whether the line that looks others up may look this one up too: it runs wherever the launcher does."""
        first = others[0]
        by_the_same = (first.launcher, first.tensor, first.size) == (self.launcher, self.tensor, self.size)
        always = all(one.statement in self.launcher.body for one in (self, *others))
        return by_the_same and always and self.setting not in {one.setting for one in others}


def launch_numbers(file: KernelFile) -> tuple[LaunchNumber, ...]:
    """The numbers of a file in cuTile or CuTe DSL that can be looked up, from top to bottom."""
    first = {id(number.number): number for number in (*_tile_numbers(file), *_thread_numbers(file))}
    return tuple(sorted(first.values(), key=lambda number: number.statement.lineno))


def _tile_numbers(file: KernelFile) -> Iterator[LaunchNumber]:
    """A number is taken where no other tile can change what is computed: it is a power of two, the grid is counted in tiles of
    it, and the kernel uses its constants as shapes, as the lengths of ranges and as factors alone.
    """
    kernels = {
        node.name: node
        for node in file.tree.body
        if isinstance(node, ast.FunctionDef) and any("ct.kernel" in ast.unparse(d) for d in node.decorator_list)
    }
    for name, function in file.functions.items():
        if len(passes := file.passes.get(name, frozenset())) == 1 and name not in kernels:
            for launch in _launches(function):
                yield from _numbers(function, launch, kernels, next(iter(passes)))


def _thread_numbers(file: KernelFile) -> Iterator[LaunchNumber]:
    """The numbers that the compiler author's own functions turn into threads and blocks: any value is right there."""
    own = {name: settings for name, (_, settings) in CHOOSING.items() if _is_own(file.functions.get(name))}
    for name, function in file.functions.items():
        passes, known = file.passes.get(name, frozenset()), _stored(function)
        if len(passes) != 1 or LOOKED_UP in known:
            continue
        viewed = [_viewed(node) for node in walk(function) if isinstance(node, ast.Call)]
        tensor = next((given for given in viewed if given in parameters_of(function)), None)
        size = next((given for given in SIZES if given in known), None)
        for statement in (node for node in function.body if isinstance(node, ast.Assign)):
            value = statement.value
            settings = own.get(called(value), ()) if isinstance(value, ast.Call) else ()
            for setting, number in zip(settings, value.args[-len(settings) :], strict=False) if settings else ():  # type: ignore[attr-defined]
                if tensor and size and isinstance(number, ast.Constant):
                    yield LaunchNumber(number, statement, setting, next(iter(passes)), tensor, size, function)


@cache
def _own_body(name: str) -> str:
    return _computed(ast.parse(CHOOSING[name][0]).body[0])


def _is_own(function: ast.FunctionDef | None) -> bool:
    return function is not None and _computed(function) == _own_body(function.name)


def _computed(function: ast.stmt) -> str:
    assert isinstance(function, ast.FunctionDef)
    return "\n".join([ast.dump(function.args), *map(ast.dump, function.body[1:])])  # behind the docstring


def look_up(patches: Patches, file: KernelFile, numbers: Sequence[LaunchNumber]) -> None:
    """Has launchers look numbers up in the line before the first of those that share a lookup is chosen."""
    together: list[list[LaunchNumber]] = []
    for number in numbers:
        if together and number.shares(together[-1]):
            together[-1].append(number)
        else:
            together.append([number])
    for shared in together:
        first = shared[0]
        indent = indent_of(file.source, first.statement.lineno)
        today = ", ".join(f"{number.setting}={ast.unparse(number.number)}" for number in shared)
        call = f'_tuned({first.tensor}.device, "{first.timed_pass}", {first.size}, {today})'
        patches.insert_before(first.statement.lineno, f"{indent}{LOOKED_UP} = {call}\n")
        for number in shared:
            patches.replace(number.number, f'{LOOKED_UP}["{number.setting}"]')


def _launches(function: ast.FunctionDef) -> list[ast.Call]:
    calls = [node for node in walk(function) if isinstance(node, ast.Call) and called(node) == LAUNCH]
    return [call for call in calls if len(call.args) == 4 and not call.keywords]


def _numbers(
    function: ast.FunctionDef, launch: ast.Call, kernels: dict[str, ast.FunctionDef], timed_pass: Pass
) -> Iterator[LaunchNumber]:
    _, grid, kernel, arguments = launch.args
    if isinstance(kernel, ast.Call) and called(kernel) == HINTING:
        kernel = kernel.args[0]
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
            yield LaunchNumber(number, statement, setting, timed_pass, tensor, size, function)


def _number(
    statement: ast.Assign, chosen: list[str], grid: ast.expr, function: ast.FunctionDef
) -> tuple[ast.Constant | None, str | None]:
    """The number in a statement, and the name of the size that goes with it."""
    if isinstance(statement.value, ast.Call):
        number = next((node for node in statement.value.args if _is_power(node)), None)
        sizes = [node.id for argument in statement.value.args for node in walk(argument) if isinstance(node, ast.Name)]
    else:
        number = statement.value if _is_power(statement.value) and len(chosen) == 1 else None
        divided = [pair for node in walk(grid) if (pair := _divided(node)) is not None]
        sizes = [ast.unparse(size) for size, tile in divided if names_in(tile) & set(chosen)]
    known = {*parameters_of(function), *_stored_before(function, statement)}
    return number, next((size for size in sizes if size in known), None)  # type: ignore[return-value]


def _divided(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """What a grid is counted by: a size, and the tile that it is divided by, rounded up or down."""
    if isinstance(node, ast.Call) and called(node) == CEILING and len(node.args) == 2:
        return node.args[0], node.args[1]
    return (node.left, node.right) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv) else None


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
