"""Sizes that launchers compute, read from their text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_runner.contracts import Workload
from tests.workers.compiler.captured import captured
from tests.workers.compiler.test_ascend import ported
from workers.targets.ascend import ASCEND
from workers.targets.launch_sizes import launch_sizes

LAUNCHERS = """
def _k_launch_z(x, w):
    n_rows = x.numel() // x.shape[-1]
    n_cols = len(w)
    n_inner = x.shape[-1]
    z = torch.empty((*x.shape[:-1], w.shape[0]), dtype=x.dtype, device=x.device)


def _k_launch_h(dz, z):
    n_cols = z.shape[-1]
    n_rows = dz.numel() // n_cols
    n_programs = max(1, min(get_npu_core_count(), n_rows))
    h = torch.empty(n_rows, dtype=torch.float32, device=z.device)
    n_elements = h.numel() - 1
"""
LAUNCH = """
    BLOCK_SIZE = _block(n_cols, 6.0)
    n_blocks = triton.cdiv(n_cols, BLOCK_SIZE)
    n_programs = max(1, min(get_npu_core_count() // n_blocks, triton.cdiv(n_rows, BLOCK_ROWS)))
    with device_context(x.device):
        _k[(n_programs, n_blocks)](x)
"""


def test_what_one_launcher_makes_a_later_one_is_given() -> None:
    sizes = launch_sizes(LAUNCHERS, {"x": (4, 3, 8), "w": (16, 8)})
    assert sizes["_k_launch_h"] == {"n_cols": 16, "n_rows": 12, "n_elements": 11}


def test_what_is_no_sum_or_product_of_sizes_is_not_known() -> None:
    assert launch_sizes(LAUNCHERS, {"x": (4, 3, 8), "w": (16, 8)})["_k_launch_z"] == {"n_rows": 12, "n_inner": 8}


@pytest.mark.parametrize(
    ("name", "launcher", "rows", "columns"),
    [
        ("softmax", "_softmax_forward (wide)", 1, 4096),
        ("linear_gelu", "_linear_gelu_launch_z", 64, 128),
        ("linear_gelu", "_linear_gelu_launch_dw", 128, 128),
        ("swiglu", "_swiglu_forward", 1, 8192),
    ],
)
def test_a_tile_is_the_one_that_its_own_launcher_chooses(name: str, launcher: str, rows: int, columns: int) -> None:
    tilings = ASCEND.tilings(captured(name)[0], ported(name).source)
    largest = max((t for t in tilings if t.kernel == launcher), key=lambda tiling: tiling.columns)
    assert (largest.rows, largest.columns) == (rows, columns), [t.kernel for t in tilings]


def test_programs_of_blocks_of_columns_are_those_of_the_whole_grid() -> None:
    known, _ = captured("mse")
    source = "def _k_launch(x):\n    n_rows = x.shape[0]\n    n_cols = x.shape[-1]\n" + LAUNCH
    (tiling,) = ASCEND.tilings(replace(known, workloads=(Workload((("T", 4096), ("H", 100352))),)), source)
    assert (tiling.rows * tiling.columns, tiling.programs, tiling.tiles) == (4096, 25, 4096 * 25)
    assert (tiling.turns(40), round(tiling.filled_share(40), 3)) == (4096, 0.625)
