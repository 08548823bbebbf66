"""Which settings of a launch may be changed without changing its results, and by what they are looked up. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from gpu_runner.contracts import Knob, Pass
from workers.strategies.pointers import accesses_of, loops_over_blocks, size_parameter
from workers.strategies.syntax import KernelFile, Launch, autotune_of, called, constexprs_of, names_in

WARPS = (1, 2, 4, 8, 16, 32)
STAGES = (1, 2, 3, 4)
BLOCKS = (1024, 2048, 4096, 8192, 16384, 32768)
PROGRAMS = (1, 2, 3, 4, 8)
PROGRAMS_NAME = "programs_per_multiprocessor"
ROWS_NAME = "rows_per_program"
ROWS = (1, 2, 4, 8, 16, 32)
LOOP_STAGES_NAME = "loop_stages"
VALUES = {
    "num_warps": WARPS,
    "num_stages": STAGES,
    PROGRAMS_NAME: PROGRAMS,
    ROWS_NAME: ROWS,
    LOOP_STAGES_NAME: STAGES,
}
ALLOCATIONS = ("torch.empty", "torch.empty_like", "torch.zeros", "torch.zeros_like")


@dataclass(frozen=True)
class Tunable:
    """A launch, its settings that may be tuned with what stands there today (None: left to Triton), and its lookup."""

    launch: Launch
    timed_pass: Pass
    device: str  # such as "X.device"
    size: str  # such as "n_cols"
    settings: tuple[tuple[str, ast.expr | None], ...]


@dataclass(frozen=True)
class Persistent:
    """A function that starts as many programs as the GPU has multiprocessors: ``name`` holds that number."""

    function: ast.FunctionDef
    name: str
    after: ast.stmt  # the statement after which the number is settled
    launch: Tunable


def tunables(file: KernelFile) -> tuple[Tunable, ...]:
    """Give the launches that can be tuned, from top to bottom."""
    return tuple(found for launch in file.launches if (found := _tunable(file, launch)) is not None)


def persistents(found: tuple[Tunable, ...]) -> tuple[Persistent, ...]:
    """Give the places where the number of programs is the number of multiprocessors."""
    places: dict[tuple[str, str], Persistent] = {}
    for tunable in found:
        function = tunable.launch.function
        for statement in function.body:
            name = _multiprocessors(statement)
            known = _known_before(function, statement)
            ready = {tunable.size.split(".")[0], tunable.device.split(".")[0]} <= known
            if name is not None and ready and name in _grid_names(function, tunable.launch):
                places.setdefault((function.name, name), Persistent(function, name, statement, tunable))
    return tuple(places.values())


def knobs_of(found: tuple[Tunable, ...], places: tuple[Persistent, ...]) -> tuple[Knob, ...]:
    """Give the knobs of a file's launches, each setting once a pass."""
    names = [(t.timed_pass, name) for t in found for name, _ in t.settings]
    names += [(p.launch.timed_pass, PROGRAMS_NAME) for p in places]
    return tuple(Knob(timed_pass, name, VALUES.get(name, BLOCKS)) for timed_pass, name in dict.fromkeys(names))


def _tunable(file: KernelFile, launch: Launch) -> Tunable | None:
    kernel = file.kernels[launch.kernel]
    if launch.timed_pass is None or autotune_of(kernel) is not None or _looked_up(launch):
        return None
    tensor, size = tensor_of(file, launch), size_of(file, launch, kernel)
    if tensor is None or size is None:
        return None
    settings = _settings(launch, kernel)
    return Tunable(launch, launch.timed_pass, f"{tensor}.device", size, tuple(settings)) if settings else None


def _settings(launch: Launch, kernel: ast.FunctionDef) -> list[tuple[str, ast.expr | None]]:
    given = {k.arg: k.value for k in launch.call.keywords if k.arg is not None}
    # What an unpacked dict holds is not known, except that a setting that is named beside it is not in it.
    wanted = ["num_warps"]
    wanted += ["num_stages"] if any(called(node) == "tl.dot" for node in ast.walk(kernel)) else []
    found = [(n, given.get(n)) for n in wanted if n in given or not launch.starred or in_dict(launch, n)]
    for name in constexprs_of(kernel):
        value = given.get(name)
        if (
            name.startswith("BLOCK")
            and value is not None
            and loops_over_blocks(kernel, name)
            and not _shapes_grid(launch, value)
        ):
            found.append((name, value))
    return found


def in_dict(launch: Launch, setting: str) -> bool:
    """Tell whether a setting comes from a dict that is unpacked into the call, and must not be given a second time."""
    named = [n for n in ast.walk(launch.function) if isinstance(n, ast.Constant) and n.value == setting]
    return bool(launch.starred) and bool(named) and setting not in {k.arg for k in launch.call.keywords}


def _looked_up(launch: Launch) -> bool:
    return any(called(keyword.value) == "_tuned" for keyword in launch.starred)


def tensor_of(file: KernelFile, launch: Launch) -> str | None:
    """Give the first tensor that a launch hands over, by a name that is surely no None."""
    pointers = accesses_of(file.kernels[launch.kernel])
    for parameter, value in launch.arguments:
        moved = parameter in pointers.read | pointers.written
        if moved and isinstance(value, ast.Name) and _is_tensor(value.id, launch.function):
            return value.id
    return None


def _is_tensor(name: str, function: ast.FunctionDef) -> bool:
    """A name whose strides or shape are taken unconditionally, or that was allocated just here, is no None."""
    optional = {id(x) for n in ast.walk(function) if isinstance(n, ast.IfExp) for x in ast.walk(n)}
    return any(_tells_tensor(node, name) for node in ast.walk(function) if id(node) not in optional)


def _tells_tensor(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value.id == name and node.attr in ("stride", "shape", "view", "device")
    if isinstance(node, ast.Assign) and called(node.value) in ALLOCATIONS:
        return any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    return False


def size_of(file: KernelFile, launch: Launch, kernel: ast.FunctionDef) -> str | None:
    """Give the length of a row as the host knows it, by which settings are looked up; None where it has no name."""
    parameter = size_parameter(kernel)
    value = launch.argument(parameter) if parameter is not None else None
    return file.segment(value) if isinstance(value, ast.Name | ast.Attribute) else None


def _shapes_grid(launch: Launch, block: ast.expr) -> bool:
    names = names_in(block)
    return bool(names & _grid_names(launch.function, launch)) if names else False


def _grid_names(function: ast.FunctionDef, launch: Launch) -> frozenset[str]:
    found = set(names_in(launch.grid))
    for _ in range(4):
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id in found for t in node.targets):
                found |= names_in(node.value)
    return frozenset(found)


def _multiprocessors(statement: ast.stmt) -> str | None:
    """The name that a statement gives the number of multiprocessors, whichever branch it takes."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = node.value
            if isinstance(value, ast.Attribute) and value.attr == "multi_processor_count":
                return node.targets[0].id
    return None


def _known_before(function: ast.FunctionDef, statement: ast.stmt) -> frozenset[str]:
    known = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    for earlier in function.body:
        if earlier is statement:
            break
        known |= {n.id for n in ast.walk(earlier) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return frozenset(known)
