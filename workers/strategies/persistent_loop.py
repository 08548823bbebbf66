"""A few programs on each multiprocessor that go over the rows, in the place of one program a row. Pure."""

from __future__ import annotations

import ast

from workers.strategies.captured import has_products, shared_by_rows
from workers.strategies.evidence import Worth
from workers.strategies.fitting import KeptError
from workers.strategies.hoisting import Split, looped, rename, split, written_twice
from workers.strategies.host_settings import looked_up
from workers.strategies.patches import Patches, indent_of
from workers.strategies.pointers import accesses_of, derived
from workers.strategies.protocol import Situation
from workers.strategies.row_programs import (
    RowKernel,
    RowLaunch,
    insert_arguments,
    insert_parameters,
    known_before,
    names_in_functions,
    row_count,
    row_kernel,
)
from workers.strategies.rows_measured import row_bytes, rows_in, sizes_called
from workers.strategies.syntax import constexprs_of, names_in, parameters_of, parsed
from workers.strategies.transformed import Place, Transformation, Transformed
from workers.strategies.tunable import LOOP_STAGES_NAME, PROGRAMS_NAME, tensor_of

PROGRAMS, STAGES = "programs", "NUM_STAGES"
# Where nothing was tuned: enough programs of four to sixteen warps that their loads overlap.
PROGRAMS_A_MULTIPROCESSOR = 4
MOST_STAGES = 3
# What a program may hold in shared memory on every NVIDIA GPU since sm_80: 99 KiB (CUDA C++ Programming Guide, table 24).
SHARED_BYTES = 96 * 1024
# Fewer rows than these are spread over the multiprocessors without a loop.
MANY_ROWS = 1024
# Weights of fewer bytes than these are in the cache next to the multiprocessor anyway.
LEAST_ROW_BYTES = 2048
WEIGHT_GAIN, LOOP_GAIN = 1.2, 1.06
COMMENT = "# A few programs on each multiprocessor go over the rows; in the interpreter there are two."


def with_persistent_loop(place: Place) -> str:
    """Give the file with one kernel in a loop over rows.

    Raises:
        KeptError: the kernel cannot surely be changed so.
    """
    file = place.file
    found = row_kernel(file, place.kernel, place.tree, place.path)
    if {PROGRAMS, STAGES} & (names_in(found.kernel) | set(parameters_of(found.kernel))):
        raise KeptError("it has names of its own for what a loop over rows needs")
    used = [n for n in ast.walk(found.kernel) if isinstance(n, ast.Attribute) and ast.unparse(n.value) == found.row]
    if used:
        raise KeptError("the number of the row is used as more than a number")
    parts = split(found)
    block = _pipelined(found, parts)
    count = row_count(found)
    patches = Patches(file.source)
    copies = rename(patches, file, found, parts)
    given = count in parameters_of(found.kernel)
    names = [*([] if given else [count]), *([] if block is None else [f"{STAGES}: tl.constexpr"])]
    if names:
        insert_parameters(patches, file, found.kernel, names)
    for launch in found.launches:
        _launch(patches, place, launch, None if given else count, block)
    number = file.segment(found.start.value)
    stages = "" if block is None else f", num_stages={STAGES}"
    header = f"for {found.row} in tl.range({number}, {count}, tl.num_programs(0){stages}):"
    body = found.kernel.body
    own = frozenset(n for n, statement in enumerate(body) if statement in parts.own)
    return looped(patches.result(), place.kernel, own, body.index(found.start), header, copies)


def _pipelined(found: RowKernel, parts: Split) -> tuple[str, int] | None:
    """The block and how many a row loads, where the next row's may be fetched before this one is stored; None where not."""
    inside = {id(n) for s in parts.own for n in ast.walk(s)}
    accesses = accesses_of(found.kernel)
    loads = [a for a in accesses.loads if id(a.call) in inside]
    loops = any(isinstance(n, ast.For | ast.While) for s in parts.own for n in ast.walk(s))
    if not loads or loops or {a.parameter for a in loads} & (accesses.written | written_twice(found) | {None}):
        return None
    blocks = [name for name in constexprs_of(found.kernel) if _makes_range(found.kernel, name)]
    if len(blocks) != 1 or any(not isinstance(x.launch.argument(blocks[0]), ast.Name) for x in found.launches):
        return None
    offsets = derived(found.kernel, frozenset({"arange"}))
    wide = sum(1 for a in loads if names_in(a.call.args[0]) & offsets)
    return (blocks[0], wide) if wide else None


def _makes_range(kernel: ast.FunctionDef, name: str) -> bool:
    ranges = (n for n in ast.walk(kernel) if isinstance(n, ast.Call) and ast.unparse(n.func) == "tl.arange")
    return any(name in names_in(n) for n in ranges)


def _launch(
    patches: Patches, place: Place, row_launch: RowLaunch, count: str | None, block: tuple[str, int] | None
) -> None:
    file, launch = place.file, row_launch.launch
    tensor = tensor_of(file, launch)
    if tensor is None:
        raise KeptError("none of what its launch is given is surely a tensor")
    if {PROGRAMS, LOOP_STAGES_NAME} & names_in_functions(place.original, launch.function.name):
        raise KeptError("its launch has names of its own for what a loop over rows needs")
    rows = file.segment(row_launch.rows)
    lines = _programs(place, row_launch, tensor, rows)
    arguments = [f"{count}={rows}"] if count else []
    if block is not None:
        lines += _stages(place, row_launch, tensor, block)
        arguments.append(f"{STAGES}={LOOP_STAGES_NAME}")
    body = ast.parse("\n".join(lines))
    needed = (names_in(row_launch.rows) | names_in(body)) - {PROGRAMS, LOOP_STAGES_NAME}
    if not known_before(launch.function, needed, row_launch.before.lineno):
        raise KeptError("what its grid would need is not settled before the grid is")
    indent = indent_of(file.source, row_launch.before.lineno)
    patches.insert_before(row_launch.before.lineno, "".join(f"{indent}{line}\n" for line in lines))
    patches.replace(row_launch.rows, f"min({rows}, {PROGRAMS})")
    if arguments:
        insert_arguments(patches, file, launch, arguments)


def _programs(place: Place, row_launch: RowLaunch, tensor: str, rows: str) -> list[str]:
    count = f"torch.cuda.get_device_properties({tensor}.device).multi_processor_count"
    asked = looked_up(place.file, row_launch.launch, PROGRAMS_NAME, str(PROGRAMS_A_MULTIPROCESSOR))
    head = [
        COMMENT,
        f'{PROGRAMS} = 2 if {tensor}.device.type == "cpu" else {rows}',
        f'if {tensor}.device.type == "cuda":',
    ]
    if asked is None or not place.tuned:
        return [*head, f"    {PROGRAMS} = {PROGRAMS_A_MULTIPROCESSOR} * {count}"]
    return [*head, f"    {PROGRAMS} = {count}", f"    {PROGRAMS} *= {asked}"]


def _stages(place: Place, row_launch: RowLaunch, tensor: str, block: tuple[str, int]) -> list[str]:
    """As many turns as shared memory holds, by the bytes that one fetches."""
    name, wide = block
    size = row_launch.launch.argument(name)
    assert size is not None, "a block without an argument is not pipelined"
    fetched = f"{wide} * " if wide > 1 else ""
    turn = f"{fetched}{place.file.segment(size)} * {tensor}.element_size()"
    rule = f"{LOOP_STAGES_NAME} = max(1, min({MOST_STAGES}, {SHARED_BYTES} // ({turn})))"
    asked = looked_up(place.file, row_launch.launch, LOOP_STAGES_NAME, LOOP_STAGES_NAME) if place.tuned else None
    return [rule, *([f"{LOOP_STAGES_NAME} = {asked}"] if asked else [])]


def _worth(situation: Situation, found: Transformed) -> Worth | None:
    many = _many_rows(situation)
    if not many:
        return None
    worth_reading = max(many) >= LEAST_ROW_BYTES
    file = parsed(situation.source)
    kernels = [row_kernel(file, name, situation.tree, situation.standing.path) for name in found.kernels]
    shared = sum(split(kernel).shared_loads for kernel in kernels)
    told = f"{shared} loads are the same for every row" if shared else "no load is the same for every row"
    trigger = f"One program a row: {len(many)} {sizes_called(situation)} have at least {MANY_ROWS} rows"
    return Worth(
        f"{trigger}, {len(kernels)} kernels can go over them, and {told}",
        WEIGHT_GAIN if shared and worth_reading else LOOP_GAIN,
    )


def _foreseen(situation: Situation) -> Worth | None:
    """Only what every row reads is known to be worth a loop before there is a kernel."""
    many, shared = _many_rows(situation), shared_by_rows(situation.problem)
    known = situation.graph is not None and not has_products(situation.graph)
    if not known or not many or not shared or max(many) < LEAST_ROW_BYTES:
        return None
    sizes = f"{len(many)} of {len(situation.problem.workloads)} sizes have at least {MANY_ROWS} rows"
    told = ", ".join(f"`{name}`" for name in shared)
    return Worth(f"{sizes}, and every row reads all of {told}", WEIGHT_GAIN)


def _many_rows(situation: Situation) -> list[int]:
    """The bytes of a row at each size that has many of them."""
    problem = situation.problem
    return [row_bytes(problem, size) for size in problem.workloads if rows_in(problem, size) >= MANY_ROWS]


PERSISTENT_LOOP = Transformation(
    "persistent_loop",
    "A loop over rows on each multiprocessor",
    "persistent_loop.md",
    with_persistent_loop,
    (PROGRAMS_NAME, LOOP_STAGES_NAME),
    _worth,
    f"No measured size has {MANY_ROWS} rows or more.",
    "A program a row reads the weights again for each, and waits for its first bytes; a loop reads them once, and fetches ahead.",
    "A few programs on each multiprocessor go over the rows; how many, and how many rows ahead is fetched, is found by measuring",
    "Most where rows are many and long and share weights. Each row is computed as before.",
    _foreseen,
)
