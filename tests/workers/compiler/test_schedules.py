"""How often a wide row is read, what is kept in registers on the way, and what a launcher refuses."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton

from gpu_runner.contracts import Expr
from gpu_runner.verify.honesty import PROGRAMS
from tests.workers.compiler.captured import answer, captured, proposal, style
from tests.workers.compiler.formed import formed, tunable_style
from tests.workers.compiler.suited import graph_of
from workers.authors.compiler import CompilerAuthor, design
from workers.authors.compiler.kernels import KernelTask
from workers.authors.compiler.program import ValueProgram
from workers.authors.compiler.schedules.base import started
from workers.authors.compiler.schedules.flat import Flat
from workers.authors.compiler.schedules.tile import BLOCK_SETTINGS, NUM_BLOCK_PROGRAMS
from workers.authors.protocol import Brief, Proposal, SourceStyle


def kernel(source: str, name: str) -> str:
    """One kernel of a source."""
    return source[source.index(f"def {name}(") :].split("@triton.jit", maxsplit=1)[0]


def passes(text: str) -> int:
    """Count the loops over a row's blocks."""
    return len(re.findall(r"for start in ", text))


@pytest.mark.parametrize(("name", "loops"), [("layer_norm_forward_kernel_wide", 2), ("softmax_forward_kernel_wide", 2)])
def test_mean_and_squares_or_maximum_and_sum_share_a_pass(name: str, loops: int) -> None:
    source = proposal(name.split("_forward", maxsplit=1)[0]).source
    assert passes(kernel(source, f"_{name}")) == loops


def test_group_norm_reads_a_group_twice_and_then_from_its_end() -> None:
    text = kernel(proposal("group_norm").source, "_group_norm_forward_kernel")
    first, last = text.split("rstd = tl.rsqrt")
    assert first.count("tl.load(x_ptr") == last.count("tl.load(x_ptr") == 1
    assert "evict_last" in first and "for start in" in first
    assert last.count("evict_first") == 2
    assert "start = (tl.cdiv(segment_size, BLOCK_SIZE) - 1) * BLOCK_SIZE - turn" in last


def test_squares_about_a_mean_follow_the_mean_of_each_lane() -> None:
    text = kernel(proposal("layer_norm").source, "_layer_norm_forward_kernel_wide")
    assert "sum_x_step = sum_x_ahead * (1.0 / (start // BLOCK_SIZE + 1))" in text
    in_segments = kernel(proposal("group_norm").source, "_group_norm_forward_kernel")
    assert "sum_x_step = sum_x_ahead * (1.0 / (start // (BLOCK_SEGMENTS * BLOCK_SIZE) + 1))" in in_segments


def test_a_growing_maximum_is_kept_by_each_thread_and_not_by_the_program() -> None:
    loop = kernel(proposal("cross_entropy").source, "_cross_entropy_forward_kernel_wide").split("for start in ")[1]
    inside = loop.split("        max_x = tl.max(max_x_lane)")[0]
    assert "axis=1, keep_dims=True" in inside
    assert "axis=0" not in inside


@pytest.mark.parametrize("name", ["cross_entropy", "logsumexp", "kl_rows"])
def test_rows_that_are_read_once_are_not_held_in_registers(name: str) -> None:
    assert "if n_cols <= 4096:" in proposal(name).source


@pytest.mark.parametrize("name", ["softmax", "rms_norm"])
def test_rows_that_are_read_again_are_held_in_registers(name: str) -> None:
    assert "if n_cols <= 65536:" in proposal(name).source


def test_blocks_of_a_wide_row_are_on_their_way_where_settings_are_tuned() -> None:
    source = formed("cross_entropy", tunable_style("cross_entropy")).source
    assert "tl.range(0, n_cols, BLOCK_SIZE, num_stages=NUM_STAGES)" in source
    assert "LOOP_STAGES = _loop_stages(x.device, block_bytes" in source


def test_layer_norm_streams_rows_past_its_vectors_and_rms_norm_takes_a_row_a_program() -> None:
    assert "_streaming_settings(" in formed("layer_norm", tunable_style("layer_norm")).source
    assert "_streaming_settings(" not in formed("rms_norm", tunable_style("rms_norm")).source


def test_channels_that_do_not_fall_into_groups_are_refused_by_the_launcher() -> None:
    source = proposal("group_norm").source
    assert "if groups < 1 or x.shape[-2] % groups:" in source
    assert 'raise ValueError("dimension -2 of x is no multiple of groups")' in source
    assert "if x.shape[-3] % 2:" in proposal("group_norm_2d").source


@pytest.mark.parametrize("name", ["rms_norm", "swiglu", "rope_heads", "chunked"])
def test_nothing_is_asked_of_dimensions_that_are_taken_whole(name: str) -> None:
    assert "is no multiple of 32" not in proposal(name).source
    assert 'raise ValueError("dimension' not in proposal(name).source


def test_what_a_turn_loads_counts_the_numbers_of_its_rows() -> None:
    """A tile of rows of one column has as many statistics as elements: two of each row are loaded with it."""
    assert "tile_bytes = BLOCK_ROWS * (2 * BLOCK_SIZE * dy.element_size() + 16)" in proposal("layer_norm").source
    assert "tile_bytes = BLOCK_ROWS * (2 * BLOCK_SIZE * dy.element_size() + 8)" in proposal("rms_norm").source


def of_width(name: str, dim: str, width: int, form: SourceStyle | None = None) -> str:
    """What the compiler writes of a problem with a number in the place of a dimension."""
    problem, graph = captured(name)
    specs = tuple(replace(s, dims=tuple(str(width) if d == dim else d for d in s.dims)) for s in problem.inputs)
    sized = [
        replace(
            n,
            meta=replace(n.meta, shape=tuple(width if d == Expr(dim) else d for d in n.meta.shape)),
            args=tuple(Expr(re.sub(rf"\b{dim}\b", str(width), a.text)) if isinstance(a, Expr) else a for a in n.args),
        )
        for n in graph.nodes
    ]
    workloads = tuple(
        replace(w, sizes=tuple((d, width if d == dim else size) for d, size in w.sizes)) for w in problem.workloads
    )
    known = replace(problem, inputs=specs, workloads=workloads)
    given = CompilerAuthor().propose(Brief(name, known, replace(graph, nodes=tuple(sized)), form or style(name)))
    assert isinstance(given, Proposal)
    return given.source


@pytest.mark.parametrize(("width", "block"), [(11008, "2048"), (4095, "2048"), (2047, "min(max(n_elements, 1), 2048)")])
def test_a_block_is_decided_where_fixed_dimensions_may_not_fill_one(width: int, block: str) -> None:
    assert of_width("reglu", "I", width).count(f"calculate_settings({block})") == 2


@pytest.mark.parametrize("name", ["bias_gelu", "layer_norm", "softmax"])
@pytest.mark.parametrize("width", [8, 48, 768, 1024, 2048, 3072, 4096, 8192, 12288])
def test_masks_are_left_out_where_the_launchers_rule_gives_whole_tiles(name: str, width: int) -> None:
    source = of_width(name, captured(name)[0].dimensions[-1], width)
    rules = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and "settings" in node.name]
    module: dict[str, Any] = {}
    exec("import triton\n" + "\n".join(map(ast.unparse, rules)), module)
    for timed_pass in ("forward", "backward"):
        launcher = source.partition(f"def {name}_{timed_pass}(")[2]
        found = re.search(r" = (_\w+_settings)\(", launcher)
        assert found is not None
        rows, block, _ = module[found[1]](width, *([1] if found[1] == "_tile_settings" else []))
        text = kernel(source, f"_{name}_{timed_pass}_kernel")
        assert ("row_mask = " in text) == (rows > 1)
        assert ("col_mask = " in text) == (width % block != 0)


def test_a_kernel_of_many_tensors_that_adds_rows_up_has_larger_tiles() -> None:
    problem, graph, _ = graph_of("gated_state")
    given = CompilerAuthor().propose(Brief("gated_state", problem, graph, style("gated_state")))
    assert isinstance(given, Proposal)
    forward, backward = (given.source.partition(f"def gated_state_{part}(")[2] for part in ("forward", "backward"))
    assert "_block_settings(n_cols)" in forward and "_block_settings(n_cols, 4096)" in backward


@pytest.mark.parametrize("elements", [2048, 4096])
def test_a_block_is_the_largest_of_which_at_most_an_eighth_of_the_row_lies_beyond_it(elements: int) -> None:
    scope: dict[str, Any] = {"triton": triton}
    exec(BLOCK_SETTINGS, scope)
    for n_cols in range(1, 9000):
        rows, block, _ = scope["_block_settings"](n_cols, elements)
        able = [1 << power for power in range(13) if -n_cols % (1 << power) <= n_cols // 8]
        narrow = min(128, triton.next_power_of_2(n_cols))
        assert block == min(elements // 2, max(narrow, *able)) and rows * block == elements


def test_a_tile_that_may_be_tuned_keeps_its_masks() -> None:
    source = of_width("bias_gelu", "H", 4096, tunable_style("bias_gelu"))
    assert source.count("row_mask = (rows < n_rows) | EVEN") == source.count("col_mask = (cols < n_cols) | EVEN") == 2


class Lines(Flat):
    """Every element stands alone, and a program takes few of them."""

    @staticmethod
    def fits(task: KernelTask, program: ValueProgram) -> bool:
        return task.is_flat(program.domain) and not program.gradients

    def launch_lines(self) -> list[str]:
        return started(self.kernel, "(triton.cdiv(n_elements, 64),)", {"BLOCK_SIZE": "64"}, "1")


def test_a_schedule_is_one_class_and_one_row_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, graph = captured("reglu")
    brief = Brief("reglu", problem, replace(graph, gradients=()), style("reglu"))
    usual = CompilerAuthor().propose(brief)
    monkeypatch.setattr(design, "SCHEDULES", {"gpu": (Lines, *design.SCHEDULES["gpu"])})
    given = CompilerAuthor().propose(brief)
    assert isinstance(given, Proposal) and isinstance(usual, Proposal)
    assert "[(triton.cdiv(n_elements, 64),)]" in given.source
    assert "BLOCK_SIZE=64,\n            num_warps=1," in given.source
    assert "triton.cdiv(n_elements, 64)" not in usual.source
    assert CompilerAuthor().propose(Brief("reglu", problem, graph, style("reglu"))) == answer("reglu")


@pytest.mark.parametrize("n_blocks", [1, 2, 5])
def test_no_more_partial_rows_are_left_than_a_verdict_lets_torch_add_up(n_blocks: int) -> None:
    properties = SimpleNamespace(multi_processor_count=132)
    cuda = SimpleNamespace(get_device_properties=lambda _device: properties)
    scope: dict[str, Any] = {"torch": SimpleNamespace(cuda=cuda), "triton": triton}
    exec(NUM_BLOCK_PROGRAMS, scope)
    programs = scope["_num_block_programs"](torch.device("cuda"), 100_000, n_blocks, 4)
    assert programs <= PROGRAMS * properties.multi_processor_count
    assert programs * n_blocks >= 4 * properties.multi_processor_count
