"""Inputs come from their seed alone, and lie in buffers that show what is done beyond their edges."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gpu_runner.contracts import Problem, VerifyRequest, parse_problem
from gpu_runner.program.poison import GUARD_ELEMENTS, Poison, between_guards, bits_equal
from gpu_runner.verify.cases import EVEN, PADDED_ROW, Case, Content, Indices, MemoryLayout, Special, plan_cases
from gpu_runner.verify.draws import Draws
from gpu_runner.verify.extremes import LOWEST
from gpu_runner.verify.inputs import ignored_index, make_inputs, make_upstream, places_of
from gpu_runner.verify.judge import choose_cases
from gpu_runner.verify.laying import Placement, lay, place_of
from gpu_runner.verify.scalars import moved_whole
from gpu_runner.verify.truth import asked_of, form_of
from tests.cheats.trial import source_of_problem
from tests.honest.table import source_of
from tests.problems import problem_source

PROBLEMS = Path(__file__).parents[2] / "honest" / "problems"
CASE = Case("case", (("T", 6), ("H", 40)), "bfloat16", 11)


def test_the_same_seed_gives_the_same_inputs_and_another_one_others() -> None:
    problem = parse_problem(problem_source("rms_norm"))
    first, second = make_inputs(problem, CASE), make_inputs(problem, CASE)
    other = make_inputs(problem, Case("case", CASE.sizes, CASE.dtype, 12))
    assert all(bits_equal(first[name], second[name]) for name in first)
    assert not bits_equal(first["x"], other["x"])
    assert first["x"].dtype == torch.bfloat16


def test_shares_are_small_too_with_full_mantissas_where_scales_are_drawn() -> None:
    problem = parse_problem(
        "import torch\n\ndef reference(p: torch.Tensor) -> torch.Tensor:\n    return -torch.log1p(-p)\n\n"
        'INPUTS = {"p": {"dims": "T H", "init": "uniform"}}\nWORKLOADS = [{"T": 8, "H": 64}]\n'
    )
    made = [
        make_inputs(problem, Case("c", (("T", 8), ("H", 64)), "float32", seed, wild=True))["p"] for seed in range(4)
    ]
    shares = torch.cat(made)
    assert bool((shares < 2.0**-30).any())
    assert bool((1.0 - (1.0 - shares) != shares).any())  # of multiples of 2^-24 the complement is exact
    assert int((shares.amax(-1) < 2.0**-10).sum()) > 0  # whole rows, so that no other element is their scale
    assert bool((shares > 0.5).any())


def test_a_weight_of_ones_gets_noise_unless_the_case_is_plain() -> None:
    problem = parse_problem(problem_source("rms_norm"))
    plain = Case("case", CASE.sizes, "float32", 3, plain_init=True)
    assert bool((make_inputs(problem, plain)["w"] == 1).all())
    assert float(make_inputs(problem, CASE)["w"].float().std()) > 0.2


def test_a_weight_without_gradient_is_no_constant_and_a_variance_stays_above_zero() -> None:
    text = problem_source("rms_norm").replace('"role": "parameter"', '"role": "parameter", "grad": False')
    for seed in range(3):
        for wild in (False, True):
            w = make_inputs(parse_problem(text), replace(CASE, dtype="float32", seed=seed, wild=wild))["w"]
            assert bool((w > 0).all()) and float(w.std()) > 0.2


def test_a_weight_of_zero_is_zero_throughout() -> None:
    made = make_inputs(parse_problem(problem_source("layer_norm")), replace(CASE, zero="w"))
    assert not bool(made["w"].any()) and bool(made["b"].any()) and bool(made["x"].any())


def test_some_elements_of_a_weight_that_lies_far_out_have_no_exponential_and_others_are_usual() -> None:
    problem = parse_problem(problem_source("layer_norm"))
    for seed in range(3):
        made = make_inputs(problem, replace(CASE, dtype="float32", far="w", seed=seed))
        is_far = made["w"].abs() > 89
        assert bool(is_far.any()) and not bool(is_far.all())
        assert bool(made["w"].exp().isinf().any()) and bool((made["w"] < -89).any())
        assert not bool((made["b"].abs() > 89).any())
        above = make_inputs(problem, replace(CASE, dtype="float32", far="w", is_above=True, seed=seed))["w"]
        assert bool((above > 89).any()) and not bool((above < -89).any())


def test_a_weight_of_tiny_numbers_has_squares() -> None:
    made = make_inputs(parse_problem(problem_source("layer_norm")), replace(CASE, dtype="float32", faint_weight="w"))
    assert 0.0 < float(made["w"].abs().max()) < 2.0**-16 < float(made["b"].abs().max())
    assert bool((made["w"].square() > 0.0).all())


@pytest.mark.parametrize(("content", "fill"), [(Content.ordinary, LOWEST), (Content.odd, -math.inf)])
def test_every_third_slice_down_the_longest_dimension_but_the_last_is_one_number(content: Content, fill: float) -> None:
    source = "def reference(x):\n    return x\n\n\nINPUTS = {'x': 'B T H'}\nWORKLOADS = [{'B': 2, 'T': 9, 'H': 16}]\n"
    sizes = (("B", 2), ("T", 9), ("H", 16))
    x = make_inputs(parse_problem(source), Case("case", sizes, "float32", 3, content=content, special=Special.down))[
        "x"
    ]
    filled = (x == fill).all(1)
    assert x.shape == (2, 9, 16) and int(filled.sum()) in (10, 11)
    assert not bool((x == fill)[~filled[:, None].expand(x.shape)].any())


def test_indices_stay_below_the_dimension_that_they_name() -> None:
    problem = parse_problem(problem_source("take_rows"))
    inputs = make_inputs(problem, Case("case", (("V", 5), ("H", 8), ("T", 200)), "float32", 7))
    assert inputs["index"].dtype == torch.int64
    assert int(inputs["index"].max()) == 4
    assert int(inputs["index"].min()) == 0


def test_no_row_beside_infinities_and_nan_is_ignored() -> None:
    problem = parse_problem((PROBLEMS / "cross_entropy_ignore.py").read_text())
    case = Case("case", (("T", 400), ("V", 3)), "float32", 7)
    assert bool((make_inputs(problem, case)["target"] == -1).any())
    odd = make_inputs(problem, replace(case, content=Content.odd))["target"]
    assert set(odd.tolist()) == {0, 1, 2}


def test_what_a_reference_hands_to_torch_as_ignored_is_under_any_name() -> None:
    problem = parse_problem((PROBLEMS.parent.parent / "cheats" / "problems" / "padded_cross_entropy.py").read_text())
    case = Case("case", (("T", 400), ("V", 5)), "float32", 7, scalars=(("pad", 2),))
    assert ignored_index(problem, case) == 2
    assert ignored_index(problem, replace(case, scalars=())) == -100
    values = {moved_whole(problem, ["pad"], random.Random(seed), "near").get("pad") for seed in range(40)}
    assert {0, 1} <= values


def test_a_padding_index_below_zero_is_drawn_and_indices_have_the_row_that_it_means() -> None:
    problem = parse_problem(
        "import torch\nimport torch.nn.functional as F\n\n"
        "def reference(index: torch.Tensor, table: torch.Tensor, padding_idx: int = 0) -> torch.Tensor:\n"
        "    return F.embedding(index, table, padding_idx=padding_idx)\n\n"
        'INPUTS = {"index": {"dims": "T", "dtype": "int64", "high": "V"}, "table": "V H"}\n'
        'WORKLOADS = [{"T": 64, "V": 32, "H": 16}]\n'
    )
    draws = Draws("00" * 16)
    cases = plan_cases(problem, ("float32",), problem.workloads, interpreted=True, quick=False, draws=draws)
    below = [case for case in cases if dict(case.scalars).get("padding_idx", 0) < 0]
    assert below and {case.indices for case in below} == {Indices.ignored}
    for case in below:
        row = case.size_of["V"] + int(dict(case.scalars)["padding_idx"])
        index = make_inputs(problem, case)["index"]
        assert bool((index == row).any()) and bool((index != row).any())


def test_a_laid_tensor_is_the_tensor_between_guards() -> None:
    tensor = torch.randn(4, 10)
    for place, stride in (
        (Placement(), (10, 1)),
        (Placement(gap=32, shift=3), (42, 1)),
        (Placement(order=(1, 0)), (1, 4)),
    ):
        laid = lay(tensor, place)
        assert laid.view().stride() == stride
        assert torch.equal(laid.view(), tensor)
        assert bool(laid.raw[:GUARD_ELEMENTS].isnan().all())
        assert bool(laid.raw[-GUARD_ELEMENTS:].isnan().all())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_who_makes_descriptors_meets_a_row_that_ends_within_16_bytes_of_a_wider_tensor(dtype: str) -> None:
    problem = parse_problem(source_of_problem("residual"))
    request = VerifyRequest(source_of_problem("residual"), source_of("residual_host_descriptors"), dtypes=(dtype,))
    (row,) = (case for case in choose_cases(request, problem, True) if case.name == PADDED_ROW)
    form = form_of(problem)
    assert form is not None
    for laid in asked_of(problem, form, row).laid.values():
        (rows, columns), (stride, step) = laid.shape, laid.stride
        size = laid.raw.element_size()
        assert (rows, step, stride * size % 16) == (1, 1, 0)
        assert columns * size % 16 and stride > columns


def test_who_makes_descriptors_meets_matrices_whose_rows_and_columns_are_multiples_of_16_in_each_dtype() -> None:
    source = source_of_problem("residual")
    request = VerifyRequest(source, source_of("residual_host_descriptors"), dtypes=("float32", "bfloat16"))
    cases = [case for case in choose_cases(request, parse_problem(source), True) if case.name == EVEN]
    assert sorted(case.dtype for case in cases) == ["bfloat16", "float32"]
    assert all(case.aligned and size % 16 == 0 for case in cases for _, size in case.sizes)


def test_far_out_lie_one_element_of_a_row_or_its_first_middle_and_last() -> None:
    case = replace(CASE, sizes=(("T", 9), ("H", 40)), dtype="float32", special=Special.outlying)
    x = make_inputs(parse_problem(problem_source("rms_norm")), case)["x"].abs()
    far = [row.nonzero().flatten().tolist() for row in x > 100 * x.median()]
    assert far[::4] == [[0]] * 3 and far[1::4] == [[39]] * 2
    assert far[2::4] == [[0, 20, 39]] * 2 and [len(row) for row in far[3::4]] == [1, 1]


def test_slices_along_either_of_two_leading_dimensions_lie_apart() -> None:
    shape, stream = (2, 3, 5, 7), random.Random(1)
    outer = place_of(shape, MemoryLayout.slices, stream).stride(shape)
    inner = place_of(shape, MemoryLayout.inner_slices, stream).stride(shape)
    assert outer[1:] == (35, 7, 1) and outer[0] > 105
    assert inner[2:] == (7, 1) and inner[1] > 35 and inner[0] == 3 * inner[1]


def test_an_expanded_upstream_stays_one_number() -> None:
    (grad,) = make_upstream([(3, 4)], [torch.float32], Case("case", (), "float32", 1, upstream="expanded"))
    laid = lay(grad)
    assert laid.stride == (0, 0)
    assert torch.equal(laid.view(), grad)


def test_an_upstream_of_a_loss_scale_is_what_mixed_precision_begins_with() -> None:
    case = Case("case", (), "float32", 1, upstream="scaled")
    (grad,) = make_upstream([(3, 4)], [torch.float32], case)
    assert lay(grad).stride == (0, 0) and float(grad[0, 0]) == 65536.0


def test_one_input_lies_far_from_zero_beside_how_far_it_is_apart() -> None:
    problem = parse_problem(problem_source("swiglu"))
    sizes = (("T", 6), ("I", 40))
    inputs = make_inputs(problem, Case("far data", sizes, "float32", 3, special=Special.distant, among=("a",)))
    assert float(inputs["a"].mean().abs() / inputs["a"].std()) > 64
    assert float(inputs["b"].mean().abs() / inputs["b"].std()) < 1


def test_memory_that_nobody_wrote_is_known_by_its_bits() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64):
        raw, poison = torch.empty(2 * GUARD_ELEMENTS + 8, dtype=dtype), Poison(5)
        inner, phase = between_guards(raw), poison.fill(raw)
        assert poison.left(inner, raw, phase) == 8
        inner[3] += 1
        assert poison.left(inner, raw, phase) == 7
        assert poison.same_ends(raw, phase)
        raw[-1] += 1
        assert not poison.same_ends(raw, phase)


def test_what_fresh_memory_holds_looks_like_numbers_and_is_another_each_time() -> None:
    raw, other = torch.empty(4096), torch.empty(4096)
    Poison(5).fill(raw)
    Poison(6).fill(other)
    assert bool(raw.isfinite().all())
    assert not bool((raw == other).any())


def test_a_vector_of_rows_may_be_a_column_of_a_table_and_a_bias_is_one_piece() -> None:
    source = "def reference(x, w, b, gate):\n    return (x @ w.t() + b) * gate[:, None]\nINPUTS = {"
    other = '"w": {"dims": "N K"}, "b": {"dims": "N"}, '
    gate = '"x": {"dims": "M K"}, {other}"gate": {"dims": "M"}}\nWORKLOADS = [{"M": 64, "K": 32, "N": 48}]\n'
    linear = parse_problem(f"import torch\n\n\n{source}{gate.replace('{other}', other)}")
    gated = parse_problem(
        "import torch\n\n\ndef reference(x, gate):\n    return x * gate[:, None]\nINPUTS = {"
        + gate.replace("{other}", "").replace(', "N": 48', "")
    )
    strides = {"linear": set[int](), "gated": set[int]()}
    for seed in range(40):
        case = Case("case", (("M", 6), ("K", 40), ("N", 5)), "float32", seed, layout=MemoryLayout.sliced)
        strides["linear"].add(place_of_vector(linear, "b", case))
        strides["gated"].add(place_of_vector(gated, "gate", case))
    assert strides["linear"] == {1}
    assert max(strides["gated"]) > 1


def place_of_vector(problem: Problem, name: str, case: Case) -> int:
    place = places_of(problem, case).get(name, Placement())
    return int(lay(torch.randn(6), place).view().stride(0))
