"""The cases reach the odd corners of every problem, within a budget of elements."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_runner.contracts import Multiple, Problem, SourceFile, parse_problem
from gpu_runner.verify.cases import (
    DATA,
    EXPANDED,
    FAR_DATA,
    INPUT_LAYOUTS,
    INTERPRETED_ELEMENTS,
    INTERPRETED_WORK,
    LEAST_WIDE,
    NARROW,
    REPEATED,
    UPSTREAM_LAYOUTS,
    WIDE,
    Case,
    Content,
    Indices,
    MemoryLayout,
    Relation,
    Special,
    Upstream,
    beyond_reach,
    columns_of,
    fallbacks,
    plan_cases,
)
from gpu_runner.verify.constants import WrittenNumbers, numbers_in
from gpu_runner.verify.draws import Draws
from gpu_runner.verify.extremes import REACHES
from gpu_runner.verify.honesty import PARTIALS
from gpu_runner.verify.inputs import DTYPES, make_inputs, places_of, shape_of
from gpu_runner.verify.scalars import scalars_beyond, whole_for_floats
from tests.problems import problem_source

SEEDS = st.integers(0, 2**128 - 1).map(lambda value: Draws(f"{value:032x}"))


def planned(
    name: str,
    interpreted: bool = True,
    quick: bool = False,
    draws: Draws | None = None,
    constants: Collection[int] = (),
) -> tuple[Problem, tuple[Case, ...]]:
    problem = parse_problem(problem_source(name))
    given = {"interpreted": interpreted, "quick": quick, "numbers": WrittenNumbers(constants)}
    cases = plan_cases(problem, problem.dtypes, problem.workloads, draws=draws or Draws.fresh(), **given)  # type: ignore[arg-type]
    return problem, cases


@given(SEEDS)
def test_every_kind_is_in_every_full_plan(draws: Draws) -> None:
    _, cases = planned("softmax", draws=draws)
    assert {case.layout for case in cases} == {MemoryLayout.dense, *INPUT_LAYOUTS}
    assert {case.upstream for case in cases} == {MemoryLayout.dense, *UPSTREAM_LAYOUTS}
    assert {case.gradients for case in cases} == set(Upstream)
    assert {case.indices for case in cases} == {Indices.spread}
    assert {case.indices for case in planned("cross_entropy", draws=draws)[1]} == set(Indices)
    assert {True, False} == {bool(case.special) for case in cases} == {case.wild for case in cases}
    wide = [case for case in planned("cross_entropy", draws=draws)[1] if case.size_of["V"] > 4099 and case.again]
    assert {case.indices for case in wide} == {Indices.ignored}
    columns = {case.size_of["V"] for case in cases}
    assert 1 in columns and max(columns) > 4099
    assert 1 in {case.size_of["T"] for case in cases}


@given(SEEDS)
def test_each_layout_and_kind_of_index_is_there_where_it_shows_and_labels_are_a_column_of_a_table(draws: Draws) -> None:
    problem = parse_problem(problem_source("cross_entropy"))
    cases = plan_cases(problem, ("float32",), problem.workloads, interpreted=True, quick=False, draws=draws)
    wide = [case for case in cases if all(size > 1 for size in case.size_of.values())]
    assert {case.layout for case in wide} == {MemoryLayout.dense, *INPUT_LAYOUTS}
    assert any(places_of(problem, case)["target"].step > 1 for case in wide)
    assert {case.indices for case in wide} == set(Indices)


@given(SEEDS, st.booleans())
def test_each_layout_is_that_of_a_case_in_which_other_ways_to_call_are_tried(draws: Draws, interpreted: bool) -> None:
    problem = parse_problem(problem_source("reglu"))
    cases = plan_cases(problem, ("float32",), problem.workloads, interpreted=interpreted, quick=False, draws=draws)
    usual = [case for case in cases if case.content is Content.ordinary and not (case.narrow_grad or case.measured)]
    several = {case.layout for case in usual if all(size > 1 for size in case.size_of.values())}
    assert {MemoryLayout.apart, MemoryLayout.permuted, MemoryLayout.sliced, MemoryLayout.shifted} <= several


@pytest.mark.parametrize("name", ["softmax", "reglu", "rms_norm", "cross_entropy"])
def test_one_case_has_all_at_odd_offsets_and_columns_of_which_several_are_loaded_at_once(name: str) -> None:
    problem, cases = planned(name, interpreted=False)
    *_, case = (case for case in cases if case.name == "drawn scales")
    assert case.layout == case.upstream == MemoryLayout.shifted
    assert all(case.size_of[dim] % 16 == 0 for dim in columns_of(problem))
    assert all(place.shift % 2 for place in places_of(problem, case).values())


@given(SEEDS)
def test_a_seed_gives_the_same_plan_again_and_another_one_other_sizes(draws: Draws) -> None:
    _, cases = planned("reglu", draws=draws)
    assert planned("reglu", draws=draws)[1] == cases
    assert [case.sizes for case in planned("reglu")[1]] != [case.sizes for case in cases]


@given(SEEDS, st.sets(st.integers(2, 60_000), min_size=1, max_size=30))
def test_each_dimension_goes_beyond_the_largest_constant_that_the_host_can_run(
    draws: Draws, constants: set[int]
) -> None:
    problem, cases = planned("softmax", draws=draws, constants=constants)
    left = beyond_reach(problem, constants, interpreted=True)
    for dim in ("T", "V"):
        within = [value for value in constants if dim not in left or value < left[dim]]
        assert not within or max(case.size_of[dim] for case in cases) > max(within)


@given(SEEDS)
def test_around_the_block_size_its_own_multiple_is_among_the_sizes(draws: Draws) -> None:
    _, cases = planned("softmax", draws=draws, constants={1024})
    assert {1023, 1024, 1025, 2048} <= {case.size_of["V"] for case in cases}


def test_every_case_has_its_own_seed_and_there_are_at_least_five() -> None:
    _, cases = planned("reglu")
    assert len({case.seed for case in cases}) == len(cases) >= 5


def test_every_dtype_of_the_problem_is_proved() -> None:
    _, cases = planned("reglu")
    assert {case.dtype for case in cases} == {"float32", "bfloat16", "float16"}


@pytest.mark.parametrize("name", ["reglu", "rms_norm", "rope_halves", "take_rows"])
def test_no_input_of_an_interpreted_case_is_larger_than_the_budget(name: str) -> None:
    problem, cases = planned(name)
    largest = max(math.prod(shape_of(spec, case.size_of)) for case in cases for spec in problem.inputs)
    assert largest <= INTERPRETED_ELEMENTS


MATMUL = """
import torch

def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b

INPUTS = {"a": "M K", "b": "K N"}
WORKLOADS = [{"M": 256, "K": 1024, "N": 512}]
"""


@given(SEEDS)
def test_a_product_of_matrices_stays_small_in_the_interpreter_and_one_side_is_wide(draws: Draws) -> None:
    problem = parse_problem(MATMUL)
    given = {"interpreted": True, "quick": False, "numbers": WrittenNumbers({16, 64, 128, 4096})}
    cases = plan_cases(problem, problem.dtypes, problem.workloads, draws=draws, **given)  # type: ignore[arg-type]
    assert max(math.prod(case.size_of.values()) for case in cases) <= INTERPRETED_WORK
    assert max(max(case.size_of.values()) for case in cases) > 4099


def test_groups_of_a_rounder_form_are_no_more_than_the_interpreter_takes() -> None:
    case = Case("odd", (("N", 7), ("C", 3), ("S", 9000)), "float32", 1)
    forms = list(fallbacks(case, interpreted=True))
    assert any(form.size_of["C"] == 64 for form in forms)
    assert all(math.prod(form.size_of.values()) <= INTERPRETED_ELEMENTS for form in forms if form.size_of["C"] == 64)


def test_workloads_of_one_size_in_the_interpreter_are_one_case_there() -> None:
    problem, cases = planned("rms_norm", interpreted=True)
    assert len(problem.workloads) == 2
    measured = [(case.sizes, case.dtype, case.plain_init) for case in cases if case.measured]
    assert measured == [
        ((("T", 32), ("H", 512)), dtype, at == 0) for at, dtype in enumerate(("float32", "bfloat16", "float16"))
    ]


def test_a_gpu_proves_a_workload_at_its_full_size() -> None:
    problem, cases = planned("rms_norm", interpreted=False)
    assert [case.sizes for case in cases if case.measured] == [workload.sizes for workload in problem.workloads]


def test_a_case_has_each_scalar_at_each_end_and_others_for_a_reference_that_has_no_answer_there() -> None:
    problem = parse_problem(
        "def reference(x, alpha=0.5, gain=3.0, eps=1e-6):\n    return x\nINPUTS = {'x': 'T H'}\nWORKLOADS = [{'T': 8, 'H': 64}]\n"
    )
    cases = plan_cases(problem, problem.dtypes, problem.workloads, interpreted=True, quick=False, draws=Draws.fresh())
    ends = [case for case in cases if case.name == "scalars at an end"]
    moved: list[dict[str, float]] = [{"alpha": 0.0}, {"gain": 0.0}, {"alpha": 1.0}]
    assert [dict(case.scalars) for case in ends if case.size_of["H"] < 100] == moved
    assert [dict(case.scalars) for case in ends if case.size_of["H"] > 4096] == moved[:2]
    assert all(case.may_raise and dict(case.spare[-1]) == {} for case in ends)


def test_a_float_scalar_gets_a_second_value_and_an_epsilon_a_large_one() -> None:
    _, cases = planned("rms_norm")
    moved = [dict(case.scalars)["eps"] for case in cases if case.scalars]
    assert len(set(moved)) >= 3
    assert any(isinstance(value, float) and value >= 1e-2 for value in moved)
    _, cases = planned("scale_bias")
    assert len({dict(case.scalars).get("alpha", 0.5) for case in cases}) >= 3


def test_two_cases_share_their_sizes_so_that_an_answer_by_shape_is_seen() -> None:
    _, cases = planned("reglu")
    keys = [(case.sizes, case.dtype, case.layout) for case in cases]
    assert len(set(keys)) < len(keys)


def test_columns_lie_last_in_the_inputs_of_two_dimensions() -> None:
    assert columns_of(parse_problem(problem_source("take_rows"))) == ("H",)
    assert columns_of(parse_problem(problem_source("rope_halves"))) == ("D",)


LENGTHS = """
import torch


def reference(x: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.arange(x.shape[1], device=x.device)[None] < length[:, None], x, 0.0)


INPUTS = {"x": "T V", "length": {"dims": "T", "dtype": "int32", "low": 3, "high": "V"}}
WORKLOADS = [{"T": 64, "V": 512}]
"""


@given(SEEDS)
def test_a_dimension_has_room_for_the_whole_numbers_below_it(draws: Draws) -> None:
    problem = parse_problem(LENGTHS)
    cases = plan_cases(problem, ("float32",), problem.workloads, interpreted=True, quick=False, draws=draws)
    assert all(case.size_of["V"] > 3 for case in cases if case.size_of["V"])
    for case in cases[:8]:
        lengths = make_inputs(problem, case)["length"]
        assert ((lengths >= 3) & (lengths < case.size_of["V"])).all()


def test_a_reference_that_fails_at_odd_sizes_is_tried_at_even_ones() -> None:
    case = Case("odd", (("T", 7), ("D", 97)), "float32", 1)
    assert [form.sizes for form in fallbacks(case)][:2] == [(("T", 8), ("D", 98)), (("T", 16), ("D", 112))]


def test_a_reference_that_wants_groups_gets_a_dimension_of_them_and_few_rows() -> None:
    case = Case("odd", (("N", 7), ("C", 3), ("S", 97)), "float32", 1)
    assert (("N", 2), ("C", 64), ("S", 97)) in [form.sizes for form in fallbacks(case)]


def test_a_quick_look_beside_an_original_meets_one_of_the_problems_own_workloads() -> None:
    problem = parse_problem(problem_source("reglu"))
    cases = plan_cases(
        problem, ("float32",), problem.workloads, interpreted=True, quick=True, draws=Draws.fresh(), beside=True
    )
    assert any(case.measured for case in cases)


def test_a_quick_look_beside_an_original_on_a_gpu_meets_whole_rows_in_the_dtype_that_is_measured() -> None:
    problem = parse_problem(problem_source("reglu"))
    cases = plan_cases(
        problem, problem.dtypes, problem.workloads, interpreted=False, quick=True, draws=Draws.fresh(), beside=True
    )
    measured = [case for case in cases if case.measured]
    assert [(case.size_of, case.dtype) for case in measured] == [({"T": 128, "I": 11008}, "bfloat16")]


@pytest.mark.parametrize("name", ["softmax", "reglu"])
@given(SEEDS)
def test_every_full_plan_has_one_row_and_one_column_with_which_no_kernel_may_raise(name: str, draws: Draws) -> None:
    problem, cases = planned(name, draws=draws)
    for dim in cases[0].size_of:
        of_one = [case for case in cases if case.size_of[dim] == 1 and max(case.size_of.values()) > 1]
        assert any(not case.may_raise for case in of_one), (dim, problem.inputs)


@given(SEEDS)
def test_every_full_plan_has_upstream_gradients_of_tiny_numbers_that_are_not_one_number(draws: Draws) -> None:
    _, cases = planned("reglu", draws=draws)
    faint = [case for case in cases if case.gradients is Upstream.small and case.upstream not in EXPANDED]
    assert {"float32", "float16"} <= {case.dtype for case in faint if not case.may_raise}


def test_a_quick_look_takes_few_cases_a_single_column_among_them() -> None:
    _, cases = planned("reglu", quick=True)
    assert 2 <= len(cases) <= 6
    assert any(1 in case.size_of.values() for case in cases)
    assert [case.content for case in cases if case.content is not Content.ordinary] == [Content.large]


def test_every_dtype_meets_large_values_and_one_what_is_not_finite() -> None:
    problem, cases = planned("softmax")
    large = [case for case in cases if case.content is Content.large and not case.special]
    assert [case.dtype for case in large] == [*problem.dtypes, "float32"]
    assert large[-1].size_of["V"] >= WIDE[0]
    odd = [case for case in cases if case.content is Content.odd]
    assert {case.dtype for case in odd} == {problem.dtypes[0]}
    assert [case.odd_upstream for case in odd] == [False, False, False, True]
    assert [case.special for case in odd] == ["", "", Special.down, ""]
    assert [case.layout for case in odd[:2]] == [MemoryLayout.dense] * 2  # as kernels with a guard take them
    wide, narrow = (case.size_of["V"] for case in odd[:2])
    assert narrow <= NARROW[1] < 4100 <= wide


@settings(max_examples=8)
@given(SEEDS)
def test_each_float_input_holds_every_exponent_of_either_sign(draws: Draws) -> None:
    """Of those of float32 from its smallest normal number to the first reach, in some case."""
    for name in ("swiglu", "rms_norm"):
        problem, cases = planned(name, draws=draws)
        cases = [replace(case, reach=REACHES["float32"][0]) for case in cases if case.special is Special.magnitudes]
        assert {case.dtype for case in cases} == set(problem.dtypes)
        for spec in problem.inputs:
            case = next(case for case in cases if case.among == (spec.name,) and case.dtype == "float32")
            values = make_inputs(problem, case)[spec.name]
            exponents = values.abs().log2().floor()
            for side in (values < 0, values > 0):
                counts = torch.bincount((exponents[side] + 126).long(), minlength=222)
                assert counts.min() >= 2 and len(counts) == 222


SHARES = """
import torch

def reference(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    return x * s

INPUTS = {"x": {"dims": "T H"}, "s": {"dims": "H", "init": "INIT", "grad": GRAD}}
WORKLOADS = [{"T": 64, "H": 64}]
"""


def test_numbers_that_have_a_range_hold_every_magnitude_in_it() -> None:
    case = Case(
        "", (("T", 50), ("H", 70)), "float32", 3, content=Content.large, reach=2.0**30, special=Special.magnitudes
    )
    for init, grad in (("uniform", True), ("ones", False)):
        problem = parse_problem(SHARES.replace("INIT", init).replace("GRAD", str(grad)))
        values = make_inputs(problem, replace(case, among=("s",)))["s"]
        assert 0.0 < values.min() < 1e-36
        assert bool(values.max() <= 1.0) is (init == "uniform")


@given(SEEDS)
def test_large_values_and_infinities_meet_scalars_at_an_end_and_of_the_other_sign(draws: Draws) -> None:
    problem, cases = planned("scale_bias", draws=draws)
    given = [(case.content, dict(case.scalars)["alpha"]) for case in cases if case.spare and case.content != "ordinary"]
    ends = [(content, alpha) for content in (Content.large, Content.odd) for alpha in (0.0, 1.0)]
    assert {one for one in given if one[1] in (0.0, 1.0)} == set(ends)
    assert [alpha < 0 for content, alpha in given if (content, alpha) not in ends].count(True) == 1
    usual = next(case for case in cases if case.content is Content.large)
    assert usual.dtype == problem.dtypes[0] and not usual.scalars


@given(SEEDS)
def test_one_case_has_ties_and_scalars_that_keep_them_exact(draws: Draws) -> None:
    _, cases = planned("scale_bias", draws=draws)
    (case,) = [case for case in cases if case.special is Special.ties]
    assert case.dtype == "float32"
    assert dict(case.scalars)["alpha"] in (0.25, 0.5)


@given(SEEDS)
def test_one_seed_has_more_than_32_bits(draws: Draws) -> None:
    problem = parse_problem((Path(__file__).parents[2] / "honest/problems/hashed_dropout.py").read_text())
    cases = plan_cases(problem, ("float32",), problem.workloads, interpreted=True, quick=False, draws=draws)
    assert any(int(dict(case.scalars).get("seed", 0)) >= 2**32 for case in cases)


def test_rows_beyond_a_cut_are_not_finite_too() -> None:
    problem = parse_problem(problem_source("softmax"))
    plan = partial(plan_cases, problem, ("float32",), problem.workloads, quick=False, draws=Draws.fresh())
    cases = plan(interpreted=True, numbers=WrittenNumbers(compared={2**16}))
    assert any(case.size_of["V"] > 2**16 and case.size_of["T"] == 10 for case in cases if case.content is Content.odd)
    assert all(case.size_of["V"] < 2**16 for case in plan(interpreted=True) if case.content is Content.odd)


def test_no_row_beyond_a_cut_is_constant() -> None:
    problem = parse_problem(problem_source("softmax"))
    plan = partial(plan_cases, problem, ("float32",), problem.workloads, interpreted=True, quick=False)
    beyond = [
        case
        for _ in range(8)
        for case in plan(numbers=WrittenNumbers(compared={2**15, 2**16}), draws=Draws.fresh())
        if case.size_of["V"] > 2**14
    ]
    assert len({case.layout for case in beyond}) > 1
    assert not REPEATED & {case.layout for case in beyond}
    kinds = {case.special for case in beyond if case.content is Content.ordinary}
    assert kinds == {Special.rows}  # the largest element of one lies beyond the cut


def test_two_sizes_of_a_product_are_beyond_what_it_compares_them_with() -> None:
    problem = parse_problem(problem_source("matmul"))
    plan = partial(plan_cases, problem, problem.dtypes, problem.workloads, interpreted=True, quick=False)
    beyond = [
        sum(size > 512 for _, size in case.sizes)
        for case in plan(draws=Draws.fresh(), numbers=WrittenNumbers(compared={512}, grouped={512}))
    ]
    assert beyond.count(2) >= 2
    assert (
        max(
            sum(size > 512 for _, size in case.sizes)
            for case in plan(draws=Draws.fresh(), numbers=WrittenNumbers(compared={512}))
        )
        < 2
    )


def test_each_of_three_dimensions_is_beyond_what_is_compared_beside_another_and_rows_of_it_are_not_finite() -> None:
    text = """
import torch

def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.max(x, 1)[0]

INPUTS = {"x": "B T H"}
WORKLOADS = [{"B": 8, "T": 64, "H": 256}]
"""
    problem = parse_problem(text)
    plan = partial(plan_cases, problem, ("float32",), problem.workloads, interpreted=True, quick=False)
    cases = plan(draws=Draws.fresh(), numbers=WrittenNumbers(compared={128}))
    together = [{dim for dim, size in case.sizes if size > 128} for case in cases]
    assert {dim for dims in together if len(dims) == 2 for dim in dims} == {"B", "T", "H"}
    odd = [case.size_of for case in cases if case.content is Content.odd and not case.odd_upstream]
    assert all(any(size[dim] > 128 for size in odd) for dim in ("B", "T"))


def test_both_sides_of_a_product_go_beyond_a_cut_in_several_rows() -> None:
    problem = parse_problem(problem_source("matmul"))
    plan = partial(plan_cases, problem, ("float32",), problem.workloads, interpreted=True, quick=False)
    cases = plan(draws=Draws.fresh(), numbers=WrittenNumbers(compared={2**16}))
    wide = [case for case in cases if max(case.size_of.values()) > 2**16]
    assert {dim for case in wide for dim, size in case.sizes if size > 2**16} == set(columns_of(problem))
    ordinary = [case for case in wide if case.content is Content.ordinary]
    assert all(sorted(size for _, size in case.sizes)[-2] > 1 for case in ordinary)


def test_inputs_that_are_distributions_meet_those_of_logits_that_are_not_finite() -> None:
    text = problem_source("softmax").replace('"T V"', '{"dims": "T V", "init": "softmax"}')
    problem = parse_problem(text)
    cases = plan_cases(problem, ("float32",), problem.workloads, interpreted=True, quick=False, draws=Draws.fresh())
    assert any(not case.odd_upstream for case in cases if case.content is Content.odd)


GROUPED = """
import torch

def reference(x: torch.Tensor, r: int = 4, eps: float = 1e-6) -> torch.Tensor:
    return torch.nn.functional.group_norm(x, r * r, None, None, eps)

INPUTS = {"x": "N C H W"}
WORKLOADS = [{"N": 4, "C": 64, "H": 8, "W": 8}]
"""


@pytest.mark.parametrize("of", ["r", "r * r", "2 * r"])
def test_scalars_that_divide_a_size_are_moved_to_one_to_odd_and_to_even_numbers_and_to_all_of_it(of: str) -> None:
    problem, rules = parse_problem(GROUPED), (Multiple("C", of),)
    cases = plan_cases(
        problem,
        ("float32", "bfloat16"),
        problem.workloads,
        interpreted=True,
        quick=False,
        draws=Draws.fresh(),
        multiples=rules,
    )
    moved = [(dict(case.scalars)["r"], case.size_of["C"]) for case in cases if "r" in dict(case.scalars)]
    assert len({value for value, _ in moved}) == 4
    assert 1 in {value for value, _ in moved}
    by = {"r": lambda r: r, "r * r": lambda r: r * r, "2 * r": lambda r: 2 * r}[of]
    assert all(size % by(value) == 0 for value, size in moved)
    assert any(by(value) == size for value, size in moved)
    quick = plan_cases(
        problem, ("float32",), problem.workloads, interpreted=True, quick=True, draws=Draws.fresh(), multiples=rules
    )
    (drawn,) = [dict(case.scalars)["r"] for case in quick if "r" in dict(case.scalars)]
    assert drawn in (3, 5, 7)


@given(SEEDS)
def test_every_special_row_and_drawn_scales_are_in_every_full_plan_with_the_usual_scalars(draws: Draws) -> None:
    problem, cases = planned("rms_norm", draws=draws)
    for dtype in problem.dtypes:
        usual = [case for case in cases if case.dtype == dtype and not case.scalars]
        assert any(case.special is Special.rows and case.size_of["T"] > 8 for case in usual)
        assert any(case.wild and not case.special for case in usual)


@given(SEEDS)
def test_every_full_plan_has_special_columns_and_a_second_backward_of_a_wide_case(draws: Draws) -> None:
    _, cases = planned("rms_norm", draws=draws)
    assert any(case.special is Special.columns and not case.scalars and case.size_of["H"] > 60 for case in cases)
    assert any(case.again and case.size_of["H"] > 4096 for case in cases)


def test_on_a_gpu_one_case_has_more_rows_than_the_second_axis_of_a_grid() -> None:
    assert any(case.size_of["T"] > 2**16 for case in planned("reglu", interpreted=False)[1])
    assert all(case.size_of["T"] < 2**16 for case in planned("reglu")[1])


def test_relations_between_inputs_are_in_every_full_plan() -> None:
    _, cases = planned("reglu")
    assert any(set(case.same) == {"a", "b"} for case in cases)
    assert any(set(case.packed) == {"a", "b"} for case in cases)
    assert any(case.is_empty and case.may_raise for case in cases)
    assert {MemoryLayout.level, MemoryLayout.windows} <= {case.layout for case in cases if case.size_of["T"] > 1}
    _, cases = planned("layer_norm")
    assert {(case.dtype == "float32", case.weights == "float32") for case in cases if case.weights} == {
        (True, False),
        (False, True),
    }


def test_numbers_that_are_made_of_others_are_constants_and_branches_come_first() -> None:
    text = (
        "WIDE = 17\nLIMITS = (43, 7)\nSIDE: tl.constexpr = tl.constexpr(27)\n"
        "def f(n, deep=9):\n"
        "    if n > WIDE * deep or n > LIMITS[0] * LIMITS[1] or n < int('611') or n < 1001.5:\n"
        "        return SIDE * SIDE\n"
        "    return x.to(tl.int16)\n"
    )
    numbers = numbers_in((SourceFile("candidate.py", text),))
    assert {153, 301, 611, 1001, 1002, 729, 2**15} <= numbers.constants
    assert {153, 301, 611, 1001, 1002} <= numbers.compared
    assert not {729, 17, 43} & numbers.compared


@pytest.mark.parametrize(("text", "count"), [("if M == 0 or N == 0:\n    pass", 2), ("if M == 1:\n    pass", 1)])
def test_each_dimension_of_rows_is_empty_once_where_code_asks(text: str, count: int) -> None:
    problem = parse_problem(problem_source("matmul").replace("K N", "N K"))
    asks = numbers_in((SourceFile("candidate.py", text),)).asks_for_zero
    cases = plan_cases(
        problem,
        ("float32",),
        problem.workloads,
        interpreted=True,
        quick=False,
        draws=Draws("5eed" * 8),
        numbers=WrittenNumbers(asks_for_zero=asks),
    )
    empty = [dim for case in cases if case.name == "no rows" for dim, size in case.sizes if not size]
    assert len(empty) == len(set(empty)) == count


def test_remainders_that_code_asks_for_have_their_divisors() -> None:
    text = (
        "STEP = 19\n"
        "def f(n, m):\n"
        "    if n % 17 == 0 or 5 == n % STEP or m & 31 != 31 or n % 23 > 20:\n"
        "        return divmod(n, 37)[1], n % 29\n"
    )
    found = numbers_in((SourceFile("candidate.py", text),)).remainders
    assert found == {(17, 0), (19, 5), (32, 31), (23, 19), (23, 20), (23, 21), (37, 0), (29, 0)}


@given(SEEDS)
def test_each_dimension_has_a_size_with_the_remainder_that_code_asks_for(draws: Draws) -> None:
    problem = parse_problem(problem_source("reglu"))
    remainders = {(17, 0), (23, 5)}
    cases = plan_cases(
        problem,
        ("float32",),
        problem.workloads,
        interpreted=True,
        quick=False,
        draws=draws,
        numbers=WrittenNumbers(remainders=remainders),
    )
    for dim in ("T", "I"):
        for divisor, rest in remainders:
            assert any(case.size_of[dim] >= divisor and case.size_of[dim] % divisor == rest for case in cases)


@pytest.mark.parametrize(
    ("body", "is_unbounded"),
    [
        ("x + alpha * y", True),
        ("F.leaky_relu(x, alpha)", True),
        ("F.elu(x, alpha=alpha)", True),
        ("F.cross_entropy(x, y, label_smoothing=alpha)", False),  # a share, which torch takes for zero below
        ("x / alpha", True),
        ("x / (1 - alpha)", False),
        ("torch.where(x > alpha * 3, x, y)", False),
    ],
)
def test_scalars_go_beyond_where_the_reference_takes_any_number(body: str, is_unbounded: bool) -> None:
    source = (
        "import torch\nimport torch.nn.functional as F\n\n"
        f"def reference(x: torch.Tensor, y: torch.Tensor, alpha: float = 0.5):\n    return {body}\n\n"
        'INPUTS = {"x": "T H", "y": "T H"}\nWORKLOADS = [{"T": 4, "H": 8}]\n'
    )
    problem = parse_problem(source)
    below = scalars_beyond(problem, ["alpha"], random.Random(3), is_below=True)
    above = scalars_beyond(problem, ["alpha"], random.Random(3), is_below=False)
    assert bool(below) is bool(above) is is_unbounded
    assert all(float(moved["alpha"]) < 0 for moved in below) and all(float(moved["alpha"]) > 1 for moved in above)
    assert bool(whole_for_floats(problem, ["alpha"], random.Random(3))) is is_unbounded


@given(SEEDS)
def test_every_verdict_gives_a_whole_number_for_a_float_and_sums_many_rows_of_few_programs(draws: Draws) -> None:
    _, cases = planned("scale_bias", draws=draws)
    assert any(type(dict(case.scalars).get("alpha")) is int for case in cases)
    many = [case for case in cases if case.name == "many rows"]
    assert many and all(case.size_of["T"] > max(PARTIALS, 2 * case.multiprocessors) for case in many)


def test_groups_of_tiles_are_known_by_a_table_of_tiles() -> None:
    text = (
        "def launch(x, small):\n    tiles = ((128, 8), (64, 4))\n    BLOCK_M, warps = tiles[-1]\n"
        "    for rows, found in tiles[1:] if small else tiles:\n        BLOCK_M, warps = rows, found\n"
        "    _kernel[(1,)](x, BLOCK_M=BLOCK_M, GROUP_M=16, num_warps=warps)\n\n"
        "def _kernel(x):\n    tl.dot(x, x)\n"
    )
    assert {16 * 64, 16 * 128} <= numbers_in([SourceFile("candidate.py", text)]).grouped


@given(SEEDS)
def test_every_full_plan_has_what_tensors_of_real_programs_have_in_common(draws: Draws) -> None:
    problem = parse_problem(problem_source("swiglu"))
    cases = plan_cases(problem, ("float32",), problem.workloads, interpreted=True, quick=False, draws=draws)
    wide = [case for case in cases if all(size > 1 for size in case.size_of.values())]
    kinds = {*DATA, *FAR_DATA, Special.distant, Special.outlying, Special.tiny, Special.limits, Special.triangle}
    assert {case.special for case in wide} >= kinds
    assert {case.relation for case in wide if case.related} == {
        Relation.close,
        Relation.by_rows,
        Relation.multiple,
        Relation.circle,
        Relation.apart,
    }
    assert {case.rows_apart for case in wide if case.relation is Relation.apart} == {1, 2}
    assert any(case.echoes for case in wide)
    assert any(case.one_upstream for case in wide)
    assert any(case.size_of["I"] == 4 * case.size_of["T"] for case in wide)


@given(SEEDS)
def test_all_inputs_but_the_first_have_another_dtype_in_two_cases(draws: Draws) -> None:
    problem = parse_problem(problem_source("add"))
    dtypes = ("float32", "bfloat16")
    cases = plan_cases(problem, dtypes, problem.workloads, interpreted=True, quick=False, draws=draws)
    mixed = [case for case in cases if case.mixed]
    assert [(case.dtype, case.mixed, case.beside) for case in mixed] == [
        ("bfloat16", ("y",), "float32"),
        ("float32", ("y",), "bfloat16"),
    ]
    assert all(make_inputs(problem, case)["y"].dtype == DTYPES[case.beside] for case in mixed)


@given(SEEDS)
def test_numbers_of_the_reference_stand_among_elements_each_once_in_a_row_and_a_column(draws: Draws) -> None:
    source = problem_source("add").replace("return x", "x = x.clamp(-1.75, 40)\n    return x")
    problem = parse_problem(source)
    cases = plan_cases(problem, ("float32",), problem.workloads, interpreted=True, quick=False, draws=draws)
    (case,) = [case for case in cases if case.special is Special.limits]
    assert {-1.75, 1.75, 40.0, -40.0, 0.5, -0.5, 0.0, 6.0} <= set(case.limits)
    (name,) = case.among
    values = make_inputs(problem, case)[name]
    for limit in (1.75, -1.75, 40.0):
        found = values == limit
        assert found.any() or len(case.limits) > values.shape[1] // 2
        assert found.sum(0).max() <= 1 and found.sum(1).max() <= 1


@given(SEEDS)
def test_a_whole_number_is_more_than_sixteen_bits_hold(draws: Draws) -> None:
    problem = parse_problem(
        "import torch\n\ndef reference(x: torch.Tensor, start: int = 0):\n"
        "    return x * (torch.arange(x.shape[-1], device=x.device) + start)\n\n"
        'INPUTS = {"x": "T H"}\nWORKLOADS = [{"T": 4, "H": 8}]\n'
    )
    cases = plan_cases(problem, ("float32",), problem.workloads, interpreted=True, quick=False, draws=draws)
    starts = [dict(case.scalars).get("start") for case in cases]
    for least, most in ((2**15, 2**17), (2**31, 2**33)):
        assert any(isinstance(start, int) and least <= start <= most for start in starts)


@given(SEEDS)
def test_a_place_that_counts_from_the_end_is_far_on_both_sides(draws: Draws) -> None:
    problem = parse_problem(
        "import torch\n\ndef reference(x: torch.Tensor, shift: int = -1):\n    return torch.roll(x, shift, -1)\n\n"
        'INPUTS = {"x": {"dims": "T H", "grad": False}}\nWORKLOADS = [{"T": 4, "H": 8}]\n'
    )
    cases = plan_cases(problem, ("float32",), problem.workloads, interpreted=False, quick=False, draws=draws)
    shifts = [dict(case.scalars).get("shift", -1) for case in cases]
    assert min(shifts) <= -100 and max(shifts) >= 100


@given(SEEDS)
def test_beyond_a_cut_an_answer_of_pairs_has_no_more_elements_than_its_inputs_may(draws: Draws) -> None:
    problem = parse_problem(
        "import torch\n\ndef reference(x: torch.Tensor, y: torch.Tensor):\n    return torch.softmax(x[:, None] + y, -1)\n\n"
        'INPUTS = {"x": "A V", "y": "B V"}\nWORKLOADS = [{"A": 4, "B": 8, "V": 65536}]\n'
    )
    cases = planned_with_a_cut(problem, draws)
    beyond = [case for case in cases if case.name == "around a constant" and case.size_of["V"] > 2**14]
    assert beyond and all(math.prod(case.size_of.values()) <= 7 * case.size_of["V"] for case in beyond)


@given(SEEDS)
@pytest.mark.parametrize(
    ("forms", "least"), [({"x": "T I", "y": "T J"}, 3), ({"x": "B T I", "y": "I"}, 2), ({"x": "T I", "y": "J I"}, 2)]
)
def test_beyond_a_cut_a_kernel_has_several_rows(forms: dict[str, str], least: int, draws: Draws) -> None:
    cases = beyond_a_cut(forms, draws)
    rows = [dim for dim in forms["x"].split() if dim != "I"]
    assert cases and all(case.size_of[dim] >= least for case in cases for dim in rows)


@given(SEEDS)
def test_beyond_a_cut_a_vector_has_two_cases(draws: Draws) -> None:
    assert len(beyond_a_cut({"x": "I"}, draws)) == 2


@given(SEEDS)
def test_what_hangs_on_nan_beyond_a_cut_has_a_case_of_two_rows(draws: Draws) -> None:
    cases = beyond_a_cut({"x": "B T I", "y": "I"}, draws, "not finite, beyond a cut")
    assert [(case.size_of["B"], case.size_of["T"]) for case in cases][1:] == [(1, 2)]


def planned_with_a_cut(problem: Problem, draws: Draws) -> Sequence[Case]:
    """The cases of a candidate that takes other kernels beyond 65,536 columns."""
    return plan_cases(
        problem,
        ("float32",),
        problem.workloads,
        interpreted=True,
        quick=False,
        draws=draws,
        numbers=WrittenNumbers({65536}, {65536}),
    )


def beyond_a_cut(forms: dict[str, str], draws: Draws, name: str = "around a constant") -> list[Case]:
    problem = parse_problem(
        f"def reference({', '.join(forms)}):\n    return x\n\n"
        f"INPUTS = {forms}\nWORKLOADS = [{dict.fromkeys(' '.join(forms.values()).split(), 8)}]\n"
    )
    cases = planned_with_a_cut(problem, draws)
    return [case for case in cases if case.name == name and case.size_of["I"] > 2**16]


@given(SEEDS)
def test_a_product_meets_a_matrix_with_its_transpose_and_with_itself(draws: Draws) -> None:
    _, cases = planned("matmul", draws=draws)
    pairs = [case for case in cases if case.relation is Relation.transposed or case.same]
    assert [case.related or case.same for case in pairs] == [("a", "b")] * 2
    assert all(len(set(case.size_of.values())) == 1 for case in pairs)


@given(SEEDS)
def test_indices_in_order_have_room_to_show(draws: Draws) -> None:
    _, cases = planned("take_rows", draws=draws)
    assert any(case.indices is Indices.ascending and case.size_of["V"] >= case.size_of["T"] > 10 for case in cases)


@given(SEEDS)
def test_scalars_are_also_numbers_that_people_write(draws: Draws) -> None:
    problem = parse_problem(problem_source("add"))
    cases = plan_cases(problem, ("float32",), problem.workloads, interpreted=True, quick=False, draws=draws)
    assert {0.1, 0.5} <= {value for case in cases for _, value in case.scalars}


@given(SEEDS)
def test_an_epsilon_is_also_what_most_models_have(draws: Draws) -> None:
    _, cases = planned("rms_norm", draws=draws)
    assert {1e-5, 1e-8} <= {value for case in cases for _, value in case.scalars}


@given(SEEDS)
def test_scalars_lie_far_out_and_close_to_zero(draws: Draws) -> None:
    _, cases = planned("add", draws=draws)
    sizes = [abs(float(value)) for case in cases for name, value in case.scalars if name == "alpha"]
    assert any(10 <= size <= 1e4 for size in sizes) and any(1e-7 <= size <= 1e-2 for size in sizes)


@given(SEEDS)
def test_masked_places_are_filled_with_what_people_fill_them_with(draws: Draws) -> None:
    problem = parse_problem((Path(__file__).parents[2] / "honest" / "problems" / "masked_fill.py").read_text())
    cases = plan_cases(problem, ("float32",), problem.workloads, interpreted=True, quick=False, draws=draws)
    assert {-1e4, -1e9} & {value for case in cases for _, value in case.scalars}


@given(SEEDS)
def test_vectors_beside_matrices_hold_an_infinity_and_nan_in_cases_of_their_own(draws: Draws) -> None:
    _, cases = planned("layer_norm", draws=draws)
    known = sorted((case.among, str(case.odd_element)) for case in cases if case.odd_element)
    assert known == [(("b",), "inf"), (("b",), "nan"), (("w",), "inf"), (("w",), "nan")]
    assert not any(case.odd_element for name in ("swiglu", "row_sum") for case in planned(name, draws=draws)[1])


@given(SEEDS)
def test_wide_rows_hold_the_smallest_number_and_are_tiny_too(draws: Draws) -> None:
    _, cases = planned("softmax", draws=draws)
    wide = {case.special for case in cases if case.name == "far data" and max(case.size_of.values()) >= LEAST_WIDE}
    assert wide >= {Special.masked, Special.partly, Special.tiny}


@given(SEEDS)
def test_an_epsilon_is_small_in_a_case_with_faint_rows_alone(draws: Draws) -> None:
    _, cases = planned("rms_norm", draws=draws)
    [case] = [case for case in cases if case.special is Special.faint]
    assert 1e-12 <= dict(case.scalars)["eps"] <= 1e-10 and not case.wild and case.dtype == "float32"
    assert not any(case.special is Special.faint for case in planned("softmax", draws=draws)[1])


@given(SEEDS)
def test_where_all_dimensions_are_equal_the_interpreter_has_no_more_rows_than_elsewhere(draws: Draws) -> None:
    source = (
        "import torch\n\n\ndef reference(x: torch.Tensor) -> torch.Tensor:\n    return x * 2\n\n\n"
        'INPUTS = {"x": "B C L"}\nWORKLOADS = [{"B": 4, "C": 8, "L": 16}]\n'
    )
    problem = parse_problem(source)
    plan = partial(plan_cases, problem, ("float32",), problem.workloads, quick=False, draws=draws)
    [equal] = [case for case in plan(interpreted=True) if case.name == "all equal"]
    assert len(set(equal.size_of.values())) == 1 and equal.size_of["B"] * equal.size_of["C"] <= 2**8 + 2**5


POINTS = """
import torch

def reference(x: torch.Tensor, y: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    return (x[:, None] - y[None, :]).square().sum(-1) * s[:, None]

INPUTS = {"x": "M D", "y": "N D", "s": "M"}
WORKLOADS = [{"M": 64, "N": 64, "D": 64}]
"""


@given(SEEDS)
def test_a_number_for_each_row_may_be_a_column_and_points_of_two_sets_are_close(draws: Draws) -> None:
    problem = parse_problem(POINTS)
    cases = plan_cases(problem, ("float32",), problem.workloads, interpreted=True, quick=False, draws=draws)
    sliced = [case for case in cases if case.layout == MemoryLayout.sliced]
    assert sliced and all(places_of(problem, case)["s"].step > 1 for case in sliced)
    assert [case.related for case in cases if case.relation is Relation.close and case.related] == [("x", "y")]


@pytest.mark.parametrize("interpreted", [True, False])
def test_a_problem_of_fixed_sizes_alone_has_cases(interpreted: bool) -> None:
    source = "import torch\n\n\ndef reference(x):\n    return torch.softmax(x, -1)\n\n\n"
    problem = parse_problem(source + 'INPUTS = {"x": "500 24"}\nWORKLOADS = [{}]\n')
    cases = plan_cases(
        problem, ("float32",), problem.workloads, interpreted=interpreted, quick=False, draws=Draws.fresh()
    )
    assert cases and all(case.size_of == {} for case in cases)


@given(SEEDS)
def test_an_index_has_a_value_in_every_case(draws: Draws) -> None:
    problem, cases = planned("cross_entropy", draws=draws)
    bounds = {spec.high: spec.dims for spec in problem.inputs if isinstance(spec.high, str)}
    assert bounds
    for case in cases:
        sizes = case.size_of
        assert all(sizes[high] or not math.prod(sizes[dim] for dim in dims) for high, dims in bounds.items())


@given(SEEDS)
def test_the_widest_rows_are_dense_and_as_wide_as_they_were_drawn_beside_many_other_dimensions(draws: Draws) -> None:
    _, cases = planned("rope_halves", draws=draws)
    wide = [case for case in cases if case.name == "wider than one block"]
    widest = max(wide, key=lambda case: max(case.size_of.values()))
    assert max(widest.size_of.values()) > 2**13  # of halves a row holds two
    assert widest.layout == widest.upstream == MemoryLayout.dense
    assert all(math.prod(case.size_of.values()) <= INTERPRETED_WORK for case in wide)


@given(SEEDS)
def test_every_full_plan_has_weights_that_are_vectors_with_elements_far_out(draws: Draws) -> None:
    _, cases = planned("layer_norm", draws=draws)
    far = [case for case in cases if case.far]
    assert {case.far for case in far} == {"w", "b"}
    for case in far:  # where the reference has no number there
        above, without, *_ = case.gentler()
        assert above.far == case.far and above.is_above and not without.far
    assert {case.faint_weight for case in cases if case.faint_weight} == {"w", "b"}
    assert not any(case.far or case.faint_weight for case in planned("swiglu", draws=draws)[1])
    inference = problem_source("rms_norm").replace('"role": "parameter"', '"role": "parameter", "grad": False')
    cases = planned_with_a_cut(parse_problem(inference), draws)
    assert any(case.far == "w" for case in cases)


@given(SEEDS)
def test_every_full_plan_tells_of_a_gpu_with_many_multiprocessors(draws: Draws) -> None:
    assert max(case.multiprocessors for case in planned("reglu", draws=draws)[1]) >= 108


@given(SEEDS)
def test_some_slices_down_another_dimension_hold_what_masks_fill_with_alone(draws: Draws) -> None:
    _, cases = planned("softmax", draws=draws)
    down = [case for case in cases if case.special is Special.down]
    assert {case.content for case in down} == {Content.ordinary, Content.odd} and len(down) == 2
    assert all(33 <= case.size_of["T"] <= 90 for case in down)


@given(SEEDS)
def test_every_full_plan_has_an_epsilon_of_zero_and_a_weight_of_zero(draws: Draws) -> None:
    _, cases = planned("layer_norm", draws=draws)
    none = [case for case in cases if dict(case.scalars).get("eps") == 0.0]
    assert [case.name for case in none] == ["epsilon of zero"]
    assert not none[0].special and none[0].layout not in REPEATED  # rows without variance have no answer
    assert none[0].spare
    assert [case.zero in {"w", "b"} for case in cases if case.zero] == [True]
    assert not any(case.zero or case.name == "epsilon of zero" for case in planned("swiglu", draws=draws)[1])


@given(SEEDS)
@settings(max_examples=10)
def test_beyond_a_cut_the_interpreter_has_ten_rows_and_no_square(draws: Draws) -> None:
    for dims in ("N C H W", "B S S"):
        sizes = dict.fromkeys(dims.split(), 4)
        source = f"def reference(x):\n    return x\n\n\nINPUTS = {{'x': '{dims}'}}\nWORKLOADS = [{sizes!r}]\n"
        problem = parse_problem(source)
        cases = plan_cases(
            problem,
            ("float32",),
            problem.workloads,
            interpreted=True,
            quick=False,
            draws=draws,
            numbers=WrittenNumbers({65536}, {65536}),
        )
        (spec,) = problem.inputs
        beyond = [case for case in cases if case.content is Content.odd and max(case.size_of.values()) > 2**16]
        assert bool(beyond) is (dims == "N C H W")
        assert all(math.prod(shape_of(spec, case.size_of)) <= 10 * 5 * 2**15 for case in cases)
