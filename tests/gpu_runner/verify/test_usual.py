"""A candidate is tried at the sizes that models have, near those of the problem's workloads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest
import torch

from gpu_runner.buffers import Buffer
from gpu_runner.contracts import parse_problem
from gpu_runner.messages import SampledReply, SampledValue
from gpu_runner.numerics.compare import Truth
from gpu_runner.reply import ChildReply
from gpu_runner.verify import usual
from gpu_runner.verify.cases import Case, Content, MemoryLayout, plan_cases
from gpu_runner.verify.draws import Draws
from gpu_runner.verify.opening import opened, reference_session
from gpu_runner.verify.scale import AtScale, examined_at_scale, features_of, kinds_of, roughly_compared
from gpu_runner.verify.truth import Oracle
from gpu_runner.verify.usual import (
    MANY,
    MOST_MANY,
    MOST_ROWS,
    MOST_SQUARE,
    MOST_USUAL,
    OF_A_TENSOR,
    OPERATIONS,
    PLAIN,
    USUAL,
    WIDE,
    Deciding,
    at_usual_sizes,
)
from tests.cheats.trial import source_of_problem, surroundings
from tests.honest.table import problem_of


def calls(
    name: str, cases: Sequence[Case] = (), decided: Deciding | None = None, beside: Executor | None = None
) -> list[AtScale]:
    problem, context = parse_problem(source_of_problem(name)), surroundings()
    with opened(reference_session("reference", problem.source, context), context) as session:
        oracle = Oracle.open(problem, session, 1)
        return list(at_usual_sizes(oracle, problem.workloads, ("float32",), Draws.fresh(), cases, decided, beside))


def test_one_call_with_many_rows_holds_what_is_not_finite() -> None:
    odd = Case("not finite", (("T", 10), ("H", 90)), "float32", 3, content=Content.odd)
    called = [call for call in calls("rms_norm", [odd]) if call.proof.case.content is Content.odd]
    assert [call.sizes["T"] >= MANY[0] for call in called] == [True]
    (output,) = called[0].proof.outputs
    finite = torch.isfinite(output.truth.exact).all(-1)
    assert output.truth.judged is not None and finite.any() and not finite.all()
    given = torch.where(torch.isfinite(output.truth.exact), output.truth.exact, 0.0).float()
    entry = SampledValue("output 0", tuple(given.shape), "float32", 0)
    tensors = (Buffer.from_torch(given), Buffer.from_torch(torch.ones_like(given) > 0))
    reply = ChildReply(SampledReply((entry,)), tensors)
    _, findings = examined_at_scale(called[0], reply)
    assert [finding.rule for finding in findings] == ["at scale"]


VECTOR = """
import torch

def reference(x: torch.Tensor) -> torch.Tensor:
    return x.square(){sum}{whole}

INPUTS = {{"x": {{"dims": "N", "grad": False}}}}
WORKLOADS = [{{"N": 2097160}}]
"""


@pytest.mark.parametrize(
    ("total", "whole", "sizes", "operations"),
    [
        (".sum()", "", [{"N": 2097160}], OPERATIONS[3]),
        (".sum()", ".long()", [{"N": 2097160}], OPERATIONS[4]),
        ("", " / x.norm()", [{"N": 2097160}], OPERATIONS[3]),
        ("", "", [], 0),
    ],
)
def test_what_is_added_up_to_one_number_has_a_call_of_the_largest_workload(
    total: str, whole: str, sizes: list[object], operations: int
) -> None:
    problem = parse_problem(VECTOR.format(sum=total, whole=whole))
    door = reference_session("reference", problem.source, surroundings(), gpu=False)
    with opened(door, surroundings()) as session:
        oracle = Oracle.open(problem, session, 1)
        found = list(at_usual_sizes(oracle, problem.workloads, ("float32",), Draws.fresh(), ()))
    assert [call.sizes for call in found if call.sizes["N"] == 2097160] == sizes
    assert all(not call.proof.wanted and call.operations == operations for call in found if call.sizes["N"] == 2097160)


PLANES = """
import torch

def reference(x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) + shift

INPUTS = {"x": "B 8 S S", "shift": "8 1 1"}
WORKLOADS = [{"B": 16, "S": 224}]
"""


def test_a_long_dimension_has_elements_far_out_and_is_compared_closely() -> None:
    (call,) = [call for call in calls("columns_standardized") if call.closely]
    x = call.proof.inputs["x"]
    assert (tuple(x.shape), call.proof.case.dtype, call.is_whole) == ((8192, 16), "float32", True)
    assert (x.abs().amax(0) > 500 * x.abs().median()).all()
    truth = call.proof.outputs[0].truth
    for lost, is_right in ((1e-6, True), (1e-3, False)):  # as of a variance about the first row
        given = (truth.exact * (1 + lost)).float()
        entry = SampledValue("output 0", tuple(given.shape), "float32", 0)
        reply = ChildReply(
            SampledReply((entry,)), (Buffer.from_torch(given), Buffer.from_torch(torch.ones_like(given) > 0))
        )
        assert (not examined_at_scale(call, reply)[1]) is is_right
    assert not any(call.closely for call in calls("softmax"))


def test_calls_with_a_dimension_twice_are_no_larger_than_others() -> None:
    problem = parse_problem(PLANES)
    with opened(reference_session("reference", problem.source, surroundings(), gpu=False), surroundings()) as session:
        oracle = Oracle.open(problem, session, 1)
        called = list(at_usual_sizes(oracle, problem.workloads, ("float32",), Draws.fresh(), ()))
    elements = [tensor.numel() for call in called for tensor in call.proof.inputs.values()]
    assert len(called) >= 4
    assert max(elements) <= OF_A_TENSOR * MOST_MANY


@pytest.mark.parametrize(("name", "along"), [("rms_norm", "H"), ("cross_entropy", "V")])
def test_sizes_are_usual_ones_near_the_workloads_and_one_has_many_rows(name: str, along: str) -> None:
    known = [dict(workload.sizes)[along] for workload in parse_problem(source_of_problem(name)).workloads]
    found = calls(name)
    sizes = [call.sizes[along] for call in found]
    near = [call.sizes[along] for call in found if call is not found[1]]
    squares = [call for call in found if call.sizes[along] == call.sizes["T"]]
    assert len(found) == 4 + MOST_USUAL + len(squares) and len(squares) == any(size <= MOST_SQUARE for size in near)
    assert len({*sizes}) >= MOST_USUAL
    assert {*sizes} <= {*USUAL} and min(near) * 8 >= min(known) and max(near) <= 8 * max(known)
    many = [call for call in found if call.sizes["T"] >= MANY[0] and call not in squares]
    deep = found[3 + PLAIN]  # whose rows are many too, where the widths near the workloads allow it
    assert many == [*found[:3], *([deep] if deep.sizes["T"] >= MANY[0] else [])]
    assert many[1].sizes["T"] >= MOST_ROWS[0] and not many[0].proof.wanted  # as for inference
    assert many[2].sizes[along] >= WIDE
    assert many[2].proof.wanted and math.prod(many[2].sizes.values()) > MOST_USUAL * MOST_SQUARE
    assert all(math.prod(call.sizes.values()) <= MOST_MANY for call in found)
    assert all(item is not None for call in found for item in call.proof.expected().values())


def test_calls_have_what_the_cases_of_the_verdict_have() -> None:
    problem, draws = parse_problem(source_of_problem("rms_norm")), Draws.fresh()
    cases = plan_cases(problem, ("float32", "bfloat16"), problem.workloads, interpreted=True, quick=False, draws=draws)
    kinds = list(itertools.islice(kinds_of(cases, draws.stream("kinds")), MOST_USUAL - PLAIN))
    wanted = {feature for case in cases if case.content is Content.ordinary for feature in features_of(case)}
    given = {feature for case in kinds for feature in features_of(case)}
    assert len(given) > 0.6 * len(wanted)
    assert {("narrow_grad", True), ("compiling", True), ("many processors", True)} <= given
    assert not any(case.is_empty or case.content is not Content.ordinary for case in kinds)


@pytest.mark.parametrize("is_beside", [False, True])
def test_sizes_and_cases_are_put_together_by_what_is_decided(is_beside: bool) -> None:
    """Each is decided both ways by some cases and sizes, and both are never true in one case."""

    def decided(cases: Sequence[Case]) -> Iterator[frozenset[tuple[object, object]]]:
        for case in cases:
            is_band, is_small = 1700 < case.size_of["H"] < 2900, dict(case.scalars).get("eps") == 1e-9
            yield frozenset({("band", is_band), ("epsilon", is_small)})

    usual = [Case(f"usual {n}", (("T", 4), ("H", 90)), "float32", n, layout=MemoryLayout.apart) for n in range(8)]
    small = Case("small", (("T", 4), ("H", 90)), "float32", 9, (("eps", 1e-9),))
    with ThreadPoolExecutor(1) as pool:
        called = calls("rms_norm", [*usual, small], decided, pool if is_beside else None)
    found = [call.proof.case for call in called]
    assert any(1700 < case.size_of["H"] < 2900 and dict(case.scalars).get("eps") == 1e-9 for case in found)


def test_a_size_that_the_reference_refuses_is_left_out() -> None:
    assert all(call.sizes["D"] % 2 == 0 for call in calls("rope_halves"))


@pytest.mark.parametrize(
    ("got", "passes"),
    [
        ([1.0, -2.0, 0.001], True),
        ([1.001, -2.0, 0.0], True),
        ([1.02, -2.0, 0.0], False),
        ([1.0, -2.0, 0.2], False),
        ([1.0, -2.0, math.nan], False),
    ],
)
def test_values_are_the_truth_but_for_a_part_of_the_scale(got: list[float], passes: bool) -> None:
    exact = torch.tensor([1.0, -2.0, 0.001], dtype=torch.float64)
    assert roughly_compared(torch.tensor(got), Truth(exact, exact.float())).passed is passes


@pytest.mark.parametrize(("got", "passes"), [([1.0, 5.0, 2.0], True), ([1.0, math.inf, 2.5], False)])
def test_beside_an_infinity_values_are_compared(got: list[float], passes: bool) -> None:
    exact = torch.tensor([1.0, math.inf, 2.0], dtype=torch.float64)
    assert roughly_compared(torch.tensor(got), Truth(exact, exact.float())).passed is passes


@pytest.mark.parametrize(("natural", "passes"), [(0.0, False), (1e-6, True)])
def test_what_rounding_leaves_of_terms_that_cancel_is_no_error(natural: float, passes: bool) -> None:
    exact = torch.zeros(3, dtype=torch.float64)
    assert roughly_compared(torch.tensor([0.0, 1e-6, 0.0]), Truth(exact, exact.float(), natural)).passed is passes


@pytest.mark.parametrize(("natural", "passes"), [(0.0, False), (1e-7, True)])
def test_what_a_rounding_of_float32_may_be_need_not_be_rounded_once(natural: float, passes: bool) -> None:
    exact = torch.zeros(100, dtype=torch.float64)
    given = torch.full((100,), 5e-8).bfloat16()
    exact[0] = given[0] = 1.0
    assert roughly_compared(given, Truth(exact, exact.bfloat16(), natural)).passed is passes


@pytest.mark.parametrize(("wrong", "passes"), [(1, True), (10, False)])
def test_whole_numbers_are_compared_too(wrong: int, passes: bool) -> None:
    exact = torch.arange(100)
    got = torch.where(exact < wrong, 7_000, exact)
    assert roughly_compared(got, Truth(exact, exact)).passed is passes


def test_where_a_step_lies_within_rounding_either_side_is_right() -> None:
    exact = torch.tensor([1.0, 0.0], dtype=torch.float64)
    given = torch.tensor([1.0, 1.0])
    assert not roughly_compared(given, Truth(exact, exact.float())).passed
    assert roughly_compared(given, Truth(exact, exact.float(), shaken=(torch.tensor([1.0, 1.0]).double(),))).passed


@pytest.mark.parametrize(("moved", "size", "passes"), [(3, 1.0, True), (10, 1.0, False), (3, 10.0, False)])
def test_beside_a_step_a_rounding_moves_some_elements(moved: int, size: float, passes: bool) -> None:
    exact, given = torch.zeros(2, 100, dtype=torch.float64)
    own = exact.float()
    own[:2], given[50 : 50 + moved] = 1.0, size
    exact[99] = given[99] = own[99] = 0.5
    assert roughly_compared(given.float(), Truth(exact, own)).passed is passes


def test_a_call_has_one_tensor_for_two_inputs_where_their_shapes_are_the_same_there() -> None:
    problem = parse_problem(problem_of("linear_bias_relu"))
    case = Case("the same tensor twice", (("M", 9), ("N", 9), ("K", 33)), "float32", 3, same=("x", "w"))
    assert usual._at(problem, case, {"M": 25, "N": 1, "K": 512}, 1).same == ()
    assert usual._at(problem, case, {"M": 25, "N": 25, "K": 512}, 1).same == ("x", "w")
