"""Several short rows a program: blocks of rows and columns in the place of one row. Pure."""

from __future__ import annotations

import ast

from workers.strategies.captured import has_products, reduces_rows
from workers.strategies.evidence import Worth
from workers.strategies.fitting import KeptError
from workers.strategies.host_settings import looked_up
from workers.strategies.lifting import BOTH, ROW, Lifted, lifted, mask_of
from workers.strategies.patches import Patches, indent_of
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
from workers.strategies.rows_measured import row_bytes, sizes_called
from workers.strategies.syntax import KernelFile, constexprs_of, names_in, parameters_of
from workers.strategies.transformed import Place, Transformation, Transformed
from workers.strategies.tunable import ROWS_NAME

# Below this a program moves too few bytes to keep memory busy; below the second one by far (docs/strategies/knowledge.md).
SMALL_ROW_BYTES = 8192
TINY_ROW_BYTES = 2048
BLOCK_ROW = "BLOCK_ROW"
# Where nothing was tuned, a program handles at most so many elements and rows: 32 values a thread of four warps.
ELEMENTS, MOST_ROWS = 4096, 16


def with_several_rows(place: Place) -> str:
    """Give the file with one kernel handling several rows a program.

    Raises:
        KeptError: the kernel cannot surely be changed so.
    """
    file = place.file
    found = row_kernel(file, place.kernel, place.tree, place.path)
    changes = lifted(file, found.kernel, found.start, found.row)
    patches = Patches(file.source)
    if BLOCK_ROW in names_in(found.kernel) or BLOCK_ROW in parameters_of(found.kernel):
        raise KeptError("it handles several rows already")
    count = row_count(found)
    bound = f"({found.row} < {count})"
    number = file.segment(found.start.value)
    patches.replace(found.start.value, f"({number} * {BLOCK_ROW} + tl.arange(0, {BLOCK_ROW}))[:, None]")
    for vector in changes.vectors:
        patches.append(vector, "[None, :]")
    for reduction in changes.reductions:
        _along_columns(patches, reduction)
    _mask(patches, file, found, changes, bound)
    given = count in parameters_of(found.kernel)
    insert_parameters(patches, file, found.kernel, [*([] if given else [count]), f"{BLOCK_ROW}: tl.constexpr"])
    for launch in found.launches:
        _launch(patches, place, found, launch, None if given else count)
    return patches.result()


def _along_columns(patches: Patches, node: ast.Call) -> None:
    axis = next((k.value for k in node.keywords if k.arg == "axis"), node.args[1] if len(node.args) > 1 else None)
    if axis is not None:
        patches.replace(axis, "1")
    last = node.keywords[-1].value if node.keywords else node.args[-1]
    patches.append(last, f"{'' if axis is not None else ', axis=1'}, keep_dims=True")


def _mask(patches: Patches, file: KernelFile, found: RowKernel, changes: Lifted, bound: str) -> None:
    """Rows behind the last are masked: where the mask is made, if it is for nothing else, otherwise at each access."""
    wide = [node for node, form in changes.accesses if form == BOTH]
    made = _own_masks(found, wide)
    for statement in made.values():
        patches.replace(statement.value, _joined(file, statement.value, bound))
    for node, form in changes.accesses:
        mask = mask_of(node)
        if not form >= ROW or (isinstance(mask, ast.Name) and mask.id in made):
            continue
        if mask is not None:
            patches.replace(mask, _joined(file, mask, bound))
        else:
            _add_mask(patches, file, node, bound[1:-1])


def _own_masks(found: RowKernel, wide: list[ast.Call]) -> dict[str, ast.Assign]:
    made: dict[str, ast.Assign] = {}
    masks = [mask_of(node) for node in wide]
    for statement in found.kernel.body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Name):
            continue
        uses = [n for n in ast.walk(found.kernel) if isinstance(n, ast.Name) and n.id == target.id and n is not target]
        if uses and all(any(use is mask for mask in masks) for use in uses) and statement.lineno > found.start.lineno:
            made[target.id] = statement
    return made


def _joined(file: KernelFile, mask: ast.expr, bound: str) -> str:
    text = file.segment(mask)
    bare = isinstance(mask, ast.Name | ast.Call) or (isinstance(mask, ast.BinOp) and isinstance(mask.op, ast.BitAnd))
    return f"{text if bare else f'({text})'} & {bound}"


def _add_mask(patches: Patches, file: KernelFile, node: ast.Call, bound: str) -> None:
    last: ast.expr | ast.keyword = (node.keywords or node.args)[-1]
    line = file.source.split("\n")[(last.end_lineno or last.lineno) - 1]
    if node.lineno != node.end_lineno and line.split("#")[0].rstrip().endswith(","):
        indent = indent_of(file.source, last.lineno)
        patches.insert_before((last.end_lineno or last.lineno) + 1, f"{indent}mask={bound},\n")
    else:
        patches.append(last.value if isinstance(last, ast.keyword) else last, f", mask={bound}")


def _launch(patches: Patches, place: Place, found: RowKernel, launch: RowLaunch, count: str | None) -> None:
    file, function = place.file, launch.launch.function
    if ROWS_NAME in names_in_functions(place.original, function.name):
        raise KeptError(f"its launch has another `{ROWS_NAME}` already")
    rule = f"max(1, min({MOST_ROWS}, {ELEMENTS} // {_block(file, found, launch)}))"
    looking_up = looked_up(file, launch.launch, ROWS_NAME, ROWS_NAME) if place.tuned else None
    lines = [rule, *([looking_up] if looking_up else [])]
    names = frozenset().union(names_in(launch.rows), *(names_in(ast.parse(line)) for line in lines)) - {ROWS_NAME}
    if not known_before(function, names, launch.before.lineno):
        raise KeptError("what its grid would need is not settled before the grid is")
    indent = indent_of(file.source, launch.before.lineno)
    patches.insert_before(launch.before.lineno, "".join(f"{indent}{ROWS_NAME} = {line}\n" for line in lines))
    rows = file.segment(launch.rows)
    patches.replace(launch.rows, f"triton.cdiv({rows}, {ROWS_NAME})")
    insert_arguments(
        patches, file, launch.launch, [*([f"{count}={rows}"] if count else []), f"{BLOCK_ROW}={ROWS_NAME}"]
    )


def _block(file: KernelFile, found: RowKernel, launch: RowLaunch) -> str:
    """The number of columns of a block, as the host knows it."""
    names = [n for n in constexprs_of(found.kernel) if any(n in names_in(v) for v in _vectors(found.kernel))]
    values = [launch.launch.argument(name) for name in names]
    if len(names) != 1 or not isinstance(values[0], ast.Name | ast.Constant):
        raise KeptError("the number of columns of its block could not be told")
    return file.segment(values[0])


def _vectors(kernel: ast.FunctionDef) -> list[ast.Call]:
    return [n for n in ast.walk(kernel) if isinstance(n, ast.Call) and ast.unparse(n.func) == "tl.arange"]


def _worth(situation: Situation, found: Transformed) -> Worth | None:
    return _short_rows(situation, f"and {len(found.kernels)} kernels can take several")


def _foreseen(situation: Situation) -> Worth | None:
    graph = situation.graph
    if graph is None or has_products(graph) or not reduces_rows(graph):
        return None
    return _short_rows(situation, "and each is reduced by itself")


def _short_rows(situation: Situation, told: str) -> Worth | None:
    sizes = [row_bytes(situation.problem, workload) for workload in situation.problem.workloads]
    small = [size for size in sizes if size <= SMALL_ROW_BYTES]
    if not small:
        return None
    share = len(small) / len(sizes)
    high = 1.0 + (0.6 if min(small) <= TINY_ROW_BYTES else 0.3) * share
    trigger = f"One short row a program: {len(small)} of {len(sizes)} {sizes_called(situation)} have rows of at most "
    return Worth(f"{trigger}{max(small)} bytes, {told}", high)


SEVERAL_ROWS = Transformation(
    "several_rows",
    "Several rows a program",
    "several_rows.md",
    with_several_rows,
    (ROWS_NAME,),
    _worth,
    f"No measured size has rows of at most {SMALL_ROW_BYTES} bytes.",
    "A program of one short row has too few bytes on their way; several rows keep more, with fewer programs to start.",
    "Blocks of rows and columns in the place of one row, reduced along the columns; how many rows is found by measuring",
    "Most where rows are short; wide rows keep one a program. Each row is computed as before.",
    _foreseen,
)
