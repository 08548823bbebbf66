"""The target `ascend`: Triton-Ascend in Liger-Kernel's own backend for NPUs. Pure."""

from __future__ import annotations

import ast
import re
from importlib.resources import files

from gpu_runner.contracts import Problem
from workers.contracts import KernelTiling
from workers.layouts.liger import paths
from workers.targets import stand_in
from workers.targets.backend import Backend

INSIDE = "backends/_ascend"
UB_MANAGER = f"{paths.OPS}/{INSIDE}/ub_manager.py"
PACKAGE = f"{paths.PACKAGE}.ops.backends._ascend"
CORES = 40  # vector cores of a 910B2 to 910B4, for estimates
RULE = re.compile(
    r"_(?:row_tiles|block)\((?P<size>n_rows, n_cols|n_cols|n_elements), (?P<tile>[\d.]+)(?:, (?P<wide>[\d.]+))?\)"
)


class AscendBackend(Backend):
    """Ascend NPUs, through the files in ``ops/backends/_ascend``."""

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
    """The stand-in for ``ub_manager``, as it is laid over the repository where a port is judged.

    Its buffer is a part of an NPU's, so that rows of a few hundred columns fill it as long ones fill that: then every path of a
    port, and several tiles for a core, are met by the cases of a verdict.
    """
    source = files("workers.targets").joinpath("stand_in.py").read_text("utf-8")
    return source.replace(f"{stand_in.CAPACITY_BITS:_}", f"{JUDGED_BITS:_}")


JUDGED_BITS = stand_in.CAPACITY_BITS // 32

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
        "Values and gradients were judged in Triton's interpreter, not on an NPU.",
        "Times need an NPU: run the library's benchmark script there, and `msprof` for what bounds it.",
        "How the unified buffer is filled is an estimate: the NPU's own compiler allocates it.",
    ),
    since="The backend for NPUs is part of liger-kernel since 0.6",
    selects='infer_device() == "npu"',
    selects_by="from liger_kernel.utils import infer_device",
    buffer_bits=stand_in.CAPACITY_BITS,
    has_settings=False,
    stand_ins=((UB_MANAGER, stand_in_source()),),
)
EXPORTS = ASCEND.exports
