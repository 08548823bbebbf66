"""The target `cutile`: cuTile in Liger-Kernel's own implementation, which `LIGER_KERNEL_IMPL=cutile` selects. Pure."""

from __future__ import annotations

import ast
from typing import Any

from gpu_runner.contracts import Problem, Workload
from workers.authors.compiler.schedules.cutile import TILE_SHAPE
from workers.contracts import KernelTiling
from workers.layouts.liger import paths
from workers.targets.backend import Backend, launchers, rows_and_columns
from workers.targets.cutile import own_settings

PROCESSORS = 132  # of an H100, for the programs of kernels that keep sums


class CutileBackend(Backend):
    """GPUs of NVIDIA, through the files in ``ops/cutile``."""

    def tilings(self, problem: Problem, source: str) -> tuple[KernelTiling, ...]:
        """The tiles of each launcher at each size, by the launcher's own lines, and its programs on an H100."""
        found = launchers(source, "ct.launch(")
        return tuple(_tiling(node, problem, workload) for node in found for workload in problem.workloads)


def _tiling(launcher: ast.FunctionDef, problem: Problem, workload: Workload) -> KernelTiling:
    rows, columns = rows_and_columns(problem, workload)
    scope: dict[str, Any] = {"n_rows": rows, "n_cols": columns, "n_elements": rows * columns}
    scope["tuned"] = own_settings(launcher)
    lines = [ast.unparse(node) for node in launcher.body if isinstance(node, ast.Assign)]
    chosen = [line for line in lines if line.startswith("BLOCK_")]
    exec("\n".join([TILE_SHAPE, *chosen]), scope)  # noqa: S102 - the compiler author's own lines
    width, depth = scope["BLOCK_SIZE"], scope.get("BLOCK_ROWS", 0)
    if not depth:
        programs, depth = -(-rows * columns // width), 1
    else:
        programs = -(-rows // depth) * -(-columns // width)
        if any("_num_programs(" in line for line in lines):
            programs = min(programs, PROCESSORS)
    return KernelTiling(launcher.name, workload.label(), 0.0, depth, width, programs, 0)


CUTILE = CutileBackend(
    name="cutile",
    language="cuTile",
    inside="cutile/ops",
    helpers=(("device_context", f"{paths.PACKAGE}.ops.utils"),),
    impossible_here=(
        "Times need a GPU with a driver of release 580 or later: `kernelsmith bench` measures the port there, as any candidate.",
    ),
    since="The implementation in cuTile is part of liger-kernel since 0.8",
    device="cuda",
    selected="cutile",
    needs="cuda.tile",
)
