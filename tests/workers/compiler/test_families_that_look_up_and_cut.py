"""Losses that look up a class, groups of channels, short vectors and moved columns: what their kernels read and leave."""

from __future__ import annotations

import re

import pytest

from tests.workers.compiler.captured import proposal


def kernel(name: str, part: str) -> str:
    """The source of one kernel."""
    found = re.search(rf"@triton.jit\ndef _{name}_{part}\(.*?(?=\n\n\n)", proposal(name).source, re.DOTALL)
    assert found is not None
    return found.group()


def test_a_class_is_looked_up_by_one_load_and_not_by_a_pass_over_the_row() -> None:
    forward = kernel("cross_entropy", "forward_kernel")
    assert "picked_x = tl.load(" in forward
    assert "tl.arange" in forward and "== index" not in forward


def test_a_wide_row_is_read_once_for_its_maximum_and_its_sum_of_exponentials() -> None:
    assert kernel("cross_entropy", "forward_kernel_wide").count("for start in") == 1


def test_the_gradient_of_a_loss_needs_no_reduction() -> None:
    backward = kernel("cross_entropy", "backward_kernel")
    assert "tl.sum(" not in backward and "tl.max(" not in backward


def test_the_mean_over_rows_that_are_not_ignored_is_divided_by_the_launcher() -> None:
    assert "(total / kept_rows)" in proposal("cross_entropy").source


def test_whole_numbers_stay_whole() -> None:
    assert "target = tl.load(target_ptr + rows, mask=row_mask, other=0)\n" in proposal("cross_entropy").source


def test_channels_are_loaded_once_a_segment() -> None:
    forward = kernel("group_norm", "forward_kernel")
    assert "w_offsets = (row % w_rows) * n_segments + segments" in forward


def test_gradients_of_channels_are_partial_sums_without_atomics() -> None:
    source = proposal("group_norm").source
    assert "atomic" not in source
    assert "dw_partials.view(-1, dy.shape[-2]).sum(dim=0)" in source


def test_elements_of_a_short_vector_are_numbers() -> None:
    assert "weight_2 = tl.load(weight_ptr + 2)" in proposal("poly_norm").source


def test_sums_that_differ_by_a_number_of_the_row_are_taken_once() -> None:
    assert kernel("poly_norm", "backward_kernel").count("axis=1, keep_dims=True)") == 3 + 1  # and the bias's


@pytest.mark.parametrize(("name", "family"), [("cross_entropy", "softmax"), ("group_norm", "row norm")])
def test_family_is_named_after_the_program(name: str, family: str) -> None:
    assert proposal(name).plan.family == family
