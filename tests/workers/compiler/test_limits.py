"""Kernels for wide rows that no size needs are left out, and the proposal says which calls it takes instead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_runner.contracts import Workload
from tests.workers.compiler.captured import captured
from tests.workers.compiler.formed import section_style
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import Brief, Limit, Proposal


def asked(name: str, *sizes: dict[str, int]) -> Proposal:
    """Ask for a section for some sizes, which the problem has too; none: for every size."""
    problem, graph = captured(name)
    workloads = tuple(Workload(tuple(one.items()), "bfloat16") for one in sizes)
    problem = replace(problem, workloads=workloads or problem.workloads)
    given = CompilerAuthor().propose(Brief(name, problem, graph, section_style(name), sizes=workloads))
    assert isinstance(given, Proposal), given
    return given


def test_rows_that_all_fit_a_block_need_no_kernels_for_wider_ones() -> None:
    given = asked("rms_norm", {"T": 4096, "H": 8192}, {"T": 64, "H": 512})
    assert "_kernel_wide" not in given.source
    assert "WIDEST" not in given.source
    assert "LOOP_BLOCK" not in given.source
    assert [kernel for kernel in given.plan.kernels if kernel.name.endswith("_wide")] == []
    assert given.limits == (Limit("H", 16384),)


def test_a_single_wide_size_needs_them_and_sets_no_bound() -> None:
    given = asked("rms_norm", {"T": 4096, "H": 8192}, {"T": 64, "H": 131072})
    assert given.source.count("def _fast_rms_norm_forward_kernel_wide(") == 1
    assert given.limits == ()


def test_the_pass_that_holds_fewer_columns_sets_the_bound() -> None:
    given = asked("rms_norm", {"T": 64, "H": 20000})
    assert "_forward_kernel_wide" not in given.source
    assert "_backward_kernel_wide" in given.source
    assert given.limits == (Limit("H", 65536),)


def test_a_size_at_which_the_bound_is_tuned_needs_the_kernels_on_both_sides() -> None:
    given = asked("rms_norm", {"T": 64, "H": 16384})
    assert "_backward_kernel_wide" in given.source
    assert (8192,) in [knob.values for knob in given.knobs if knob.setting == "WIDEST"]


def test_a_size_that_does_not_say_how_wide_rows_are_needs_every_kernel() -> None:
    assert asked("rms_norm", {"T": 64}).source == asked("rms_norm").source
    assert asked("rms_norm", {"T": 64}).limits == ()


def test_scores_of_as_many_rows_as_columns_are_no_wider_than_memory_holds_them() -> None:
    given = asked("softmax_temperature")  # B S S
    assert "_kernel_wide" not in given.source
    assert given.limits == (Limit("S", 32768),)
    assert "_kernel_wide" in asked("softmax").source and asked("softmax").limits == ()


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "softmax", "add_rms_norm", "poly_norm"])
def test_what_is_left_is_written_as_it_was(name: str) -> None:
    problem, _ = captured(name)
    narrow = dict.fromkeys(problem.dimensions, 64)
    mine, whole = (asked(name, *sizes).source.split("\n\n\n") for sizes in ((narrow,), ()))
    kernels = [part for part in mine if "@triton.jit" in part]
    assert kernels
    assert set(kernels) <= set(whole)


def test_a_bound_is_set_where_no_tuning_is_asked_for_too() -> None:
    problem, graph = captured("softmax")
    style = replace(section_style("softmax"), tunable=False)
    sizes = (Workload(tuple(dict.fromkeys(problem.dimensions, 64).items()), "bfloat16"),)
    given = CompilerAuthor().propose(Brief("softmax", problem, graph, style, sizes=sizes))
    assert isinstance(given, Proposal)
    assert "_kernel_wide" not in given.source
    assert given.limits
