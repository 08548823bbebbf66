"""The target `cutedsl`: CuTe DSL in Liger-Kernel's own implementation, which `LIGER_KERNEL_IMPL=cutedsl` selects. Pure."""

from __future__ import annotations

import ast

from gpu_runner.contracts import Problem, Workload
from workers.contracts import KernelTiling
from workers.layouts.liger import paths
from workers.targets.backend import Backend, launchers, rows_and_columns
from workers.targets.cutedsl import shape_of

PROCESSORS = 132  # of an H100, for the blocks of kernels that keep sums


class CuteDslBackend(Backend):
    """GPUs of NVIDIA, through the files in ``ops/cutedsl``."""

    def tilings(self, problem: Problem, source: str) -> tuple[KernelTiling, ...]:
        """What a block takes at each size in bfloat16, by the launcher's own lines, and how many blocks there are on an H100."""
        found = [node for node in launchers(source, "_compiled(") if node.name != "_compiled"]
        return tuple(_tiling(node, problem, workload) for node in found for workload in problem.workloads)


def _tiling(launcher: ast.FunctionDef, problem: Problem, workload: Workload) -> KernelTiling:
    rows, columns = rows_and_columns(problem, workload)
    *_, width = shape_of(launcher, columns, "bfloat16")
    text = ast.unparse(launcher)
    blocks = -(-rows * columns // width) if "_flat_shape(" in text else rows * -(-columns // width)
    if "_num_blocks(" in text:
        blocks = min(blocks, PROCESSORS)
    return KernelTiling(launcher.name, workload.label(), 0.0, 1, width, blocks, 0)


CUTEDSL = CuteDslBackend(
    name="cutedsl",
    language="CuTe DSL",
    inside="cutedsl/ops",
    helpers=(("device_context", f"{paths.PACKAGE}.ops.utils"),),
    impossible_here=(
        "Times need a GPU from sm_90 on: `kernelsmith bench` measures the port there, as any candidate.",
        "The kernels need `apache-tvm-ffi` beside `nvidia-cutlass-dsl`: without it they raise when they are first called.",
    ),
    since="The implementation in CuTe DSL is part of liger-kernel since 0.8.1",
    device="cuda",
    selected="cutedsl",
    needs="cutlass",
)
