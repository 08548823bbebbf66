"""The target `ascend`: Triton-Ascend in Liger-Kernel's own backend for NPUs. Pure."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from importlib.resources import files

from gpu_runner.contracts import Problem
from workers.contracts import KernelTiling
from workers.layouts.liger import paths
from workers.targets import stand_in
from workers.targets.backend import Backend, launchers
from workers.targets.launch_sizes import launch_sizes, shapes_at
from workers.targets.registration import Registration

INSIDE = "backends/_ascend"
UB_MANAGER = f"{paths.OPS}/{INSIDE}/ub_manager.py"
PACKAGE = f"{paths.PACKAGE}.ops.backends._ascend"
CORES = 40  # assumed for estimates: chips of the series 910B have 40 or 48 vector cores, and launchers ask the device
PRODUCT_TILE = 128  # rows and columns at most
RULES = ("_row_tiles", "_product_tile", "_block")  # what a launcher chooses its tile by


class AscendBackend(Backend):
    """Ascend NPUs, through the files in ``ops/backends/_ascend``."""

    def tilings(self, problem: Problem, source: str) -> tuple[KernelTiling, ...]:
        """The tiles of each launcher at each size, chosen as the launchers choose them on so many ``cores``."""
        by_workload = [(workload, launch_sizes(source, shapes_at(problem, workload))) for workload in problem.workloads]
        return tuple(
            _tiling(launcher.name, *rule, sizes[launcher.name], workload.label())
            for launcher in launchers(source, "device_context(")
            if (rule := _rule(launcher)) is not None
            for workload, sizes in by_workload
            if "n_rows" in sizes[launcher.name] or "n_elements" in sizes[launcher.name]
        )


def _rule(launcher: ast.FunctionDef) -> tuple[str, list[float]] | None:
    """By which rule a launcher chooses its tile, and for how many copies of it."""
    for node in ast.walk(launcher):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in RULES:
            return node.func.id, [n.value for n in node.args if isinstance(n, ast.Constant) and type(n.value) is float]
    return None


def _tiling(name: str, rule: str, multipliers: list[float], sizes: Mapping[str, int], label: str) -> KernelTiling:
    tile, *wide = multipliers
    if "n_elements" in sizes:
        block = _cut((sizes["n_elements"],), tile)[0]
        tiles = -(-sizes["n_elements"] // block)
        return KernelTiling(name, label, tile, 1, block, min(CORES, tiles), _bits(tile, block), tiles)
    rows, columns = sizes["n_rows"], sizes["n_cols"]
    padded = 1 << (columns - 1).bit_length()
    if rule == "_product_tile":
        block = min(PRODUCT_TILE, padded)
        block_rows = _cut((min(PRODUCT_TILE, rows), block), tile)[0]
        n_tiles = -(-rows // block_rows) * -(-columns // block) * sizes.get("n_batches", 1)
        return KernelTiling(
            name, label, tile, block_rows, block, min(CORES, n_tiles), _bits(tile, block_rows * block), n_tiles
        )
    block = _cut((columns,), tile)[0]
    if wide and block < padded:
        block = _cut((columns,), wide[0])[0]
        return KernelTiling(f"{name} (wide)", label, wide[0], 1, block, min(CORES, rows), _bits(wide[0], block), rows)
    block_rows = _cut((-(-rows // CORES), block), tile)[0]
    tiles, blocks = -(-rows // block_rows), -(-columns // block) if rule == "_block" else 1
    programs = max(1, min(CORES // blocks, tiles)) * blocks
    return KernelTiling(name, label, tile, block_rows, block, programs, _bits(tile, block_rows * block), tiles * blocks)


def _cut(shape: tuple[int, ...], multiplier: float) -> tuple[int, ...]:
    tiled = stand_in.compute_default_tiling_strategy(0.8, 4, multiplier, (shape,), (0,))  # type: ignore[no-untyped-call]
    return tuple(int(size) for size in tiled[0])


def _bits(multiplier: float, elements: int) -> int:
    return int(multiplier * elements * 32)


# Of a tile while a port is judged, whatever its kernel keeps: fewer than the rows and the columns of some cases of a verdict, and
# more than those of others, so that every path of a port and several tiles for a core are met.
JUDGED_TILE = 128
JUDGED_ROWS = 2  # at least, where a tile holds them: few rows would have one each, and none would lie beyond the last


def stand_in_source() -> str:
    """The stand-in for ``ub_manager``, as it is laid over the repository where a port is judged."""
    source = files("workers.targets").joinpath("stand_in.py").read_text("utf-8")
    least = "LEAST_PADDED = "
    source = source.replace(f"{least}{stand_in.LEAST_PADDED}", f"{least}{JUDGED_ROWS}")
    return source.replace(f"{stand_in.LARGEST_TILE:_}", f"{JUDGED_TILE:_}")


ASCEND = AscendBackend(
    name="ascend",
    language="Triton-Ascend",
    inside=f"{INSIDE}/ops",
    helpers=(
        ("compute_default_tiling_strategy", f"{PACKAGE}.ub_manager"),
        ("get_npu_core_count", f"{paths.PACKAGE}.ops.utils"),
        ("device_context", f"{paths.PACKAGE}.ops.utils"),
    ),
    impossible_here=(
        "Values and gradients were verified in Triton's interpreter, not on an NPU.",
        "Times need an NPU: run the library's benchmark script there, under `kernelsmith npu-profile` to see what bounds it.",
        "The use of the unified buffer is an estimate: the NPU's own compiler allocates it.",
    ),
    since="The backend for NPUs is part of liger-kernel since 0.6",
    device="npu",
    registration=Registration(
        folder=f"{paths.OPS}/{INSIDE}",
        impl="ascend-triton",
        suffix="_ascend",
        shared="dispatch_common",
        capability="ASCEND_TRITON_CAPABILITY",
        rank="ASCEND_TRITON_RANK",
        tolerances="DEFAULT_TOLERANCES",
    ),
    buffer_bits=stand_in.CAPACITY_BITS,
    cores=CORES,
    has_settings=False,
    stand_ins=((UB_MANAGER, stand_in_source()),),
)
EXPORTS = ASCEND.exports
