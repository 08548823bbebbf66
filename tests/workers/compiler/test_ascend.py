"""Schedules for Ascend NPUs: grids of cores, loops over them, blocks by the unified buffer."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from tests.workers.compiler.captured import captured
from workers.authors.compiler import CompilerAuthor, emit
from workers.authors.compiler.schedules.live import INLINED, live_tiles
from workers.authors.protocol import AuthorRefusal, Brief, Proposal
from workers.targets.ascend import ASCEND

PRODUCTS = ["matmul", "bmm", "linear_gelu"]
PORTED = ["swiglu", "geglu_tanh", "relu_squared", "rms_norm", "layer_norm", "softmax", "dyt", "add_rms_norm", "kl_rows"]
PORTED += PRODUCTS


def ported(name: str) -> Proposal:
    problem, graph = captured(name)
    proposal = CompilerAuthor().propose(Brief(name, problem, graph, ASCEND.style(name)))
    assert isinstance(proposal, Proposal)
    return proposal


@pytest.mark.parametrize("name", PORTED)
def test_every_kernel_strides_over_a_grid_of_cores_and_no_gpu_setting_is_left(name: str) -> None:
    source = ported(name).source
    assert "min(get_npu_core_count()" in source and "compute_default_tiling_strategy(" in source
    for word in ("num_warps", "num_stages", "calculate_settings", "multi_processor_count", "EVEN", "STREAMED"):
        assert word not in source
    kernels = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and "_kernel" in n.name]
    assert kernels and all("tl.num_programs(0)" in ast.unparse(kernel) for kernel in kernels)


def test_rows_that_the_buffer_does_not_hold_have_a_kernel_of_their_own() -> None:
    source = ported("softmax").source
    assert "BLOCK_ROWS, BLOCK_SIZE = _row_tiles(n_rows, n_cols, 3.0, " in source
    assert "if BLOCK_ROWS:\n            _softmax_forward_kernel[(n_programs,)](" in source
    assert "else:\n            _softmax_forward_kernel_wide[(n_programs,)](" in source


@pytest.mark.parametrize(("name", "tiles"), [("matmul", 2.0), ("bmm", 2.0), ("linear_gelu", 4.0)])
def test_a_product_has_a_tile_that_the_buffer_holds_with_what_follows_from_it(name: str, tiles: float) -> None:
    source = ported(name).source
    assert f"BLOCK_M, BLOCK_N, BLOCK_K = _product_tile(n_rows, n_cols, n_inner, {tiles}, " in source
    assert source.count('input_precision="ieee")') == 3, "forward, and a product for each gradient"


@pytest.mark.parametrize("name", ["swiglu", "softmax", "matmul"])
def test_settings_are_the_unified_buffer_s_also_where_a_table_of_tuned_ones_is_asked_for(name: str) -> None:
    problem, graph = captured(name)
    style = replace(ASCEND.style(name), tunable=True)
    assert CompilerAuthor().propose(Brief(name, problem, graph, style)) == ported(name)


def test_what_is_read_once_may_leave_the_cache() -> None:
    assert 'other=0.0, eviction_policy="evict_first")' in ported("swiglu").source


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("norm_linear", "no schedule for products of what is computed for each block"),
        ("max_pool", "no schedule for windows of a tensor"),
    ],
)
def test_what_has_no_schedule_is_refused_by_its_operator(name: str, sentence: str) -> None:
    problem, graph = captured(name)
    answer = CompilerAuthor().propose(Brief(name, problem, graph, ASCEND.style(name)))
    assert isinstance(answer, AuthorRefusal) and sentence in answer.sentence


KERNEL = """
def kernel(x_ptr, y_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    {body}
"""


@pytest.mark.parametrize(
    ("body", "tiles"),
    [
        # The tile, and its two bytes an element while they are converted.
        ("x = tl.load(x_ptr + offsets).to(tl.float32)\n    tl.store(y_ptr + offsets, x)", 1.5),
        # x, exp(x) and the sum of both.
        ("x = tl.load(x_ptr + offsets).to(tl.float32)\n    y = tl.exp(x) + x\n    tl.store(y_ptr + offsets, y)", 3.0),
        # x is dead once y is there, so that z finds room.
        (
            "x = tl.load(x_ptr + offsets).to(tl.float32)\n    y = tl.exp(x)\n    z = tl.exp(y)\n"
            "    tl.store(y_ptr + offsets, z)",
            2.0,
        ),
        # A row's sum is no tile.
        (
            "x = tl.load(x_ptr + offsets).to(tl.float32)\n    s = tl.sum(x, axis=0)\n    y = x / s\n"
            "    tl.store(y_ptr + offsets, y)",
            2.0,
        ),
        # What a loop adds to is kept while it runs: total, x and the new total.
        (
            "total = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)\n    for _ in range(4):\n"
            "        x = tl.load(x_ptr + offsets).to(tl.float32)\n        total += x * x\n    tl.store(y_ptr + offsets, total)",
            3.0,
        ),
    ],
)
def test_tiles_that_are_alive_at_once_are_counted(body: str, tiles: float) -> None:
    assert live_tiles(KERNEL.format(body=body)) == tiles


def test_no_device_function_keeps_more_tiles_than_are_counted_for_one() -> None:
    for source in emit._SOURCES.values():
        function = next(n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef))
        loads = "".join(f"    {arg.arg} = tl.load(p + offsets)\n" for arg in function.args.args)
        body = "".join(f"    {ast.unparse(line)}\n" for line in function.body[:-1])
        last = f"    out = {ast.unparse(function.body[-1].value)}\n"  # type: ignore[attr-defined]
        kept = live_tiles(f"def kernel(p):\n{loads}{body}{last}    tl.store(p + offsets, out)\n")
        assert kept - len(function.args.args) - 1 <= INLINED, function.name
