"""The reference is asked for the truth of each case: what it refuses is left out, and nothing more."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch

from gpu_runner.contracts import CandidateSource, VerifyRequest, parse_problem
from gpu_runner.errors import ChildOutOfMemory
from gpu_runner.numerics.compare import compare
from gpu_runner.reply import ChildReply
from gpu_runner.verify import truth
from gpu_runner.verify.cases import Case, Content, MemoryLayout, Special
from gpu_runner.verify.judge import choose_cases, prove
from gpu_runner.verify.opening import opened, reference_session
from gpu_runner.verify.proof import Proof
from gpu_runner.verify.truth import MOST_RESTARTS, BadProblem, Oracle
from gpu_runner.verify.uses import STRIDED, Uses, uses_of
from tests.cheats.trial import proofs, source_of_problem, surroundings

NARROW = """
import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    assert x.shape[-1] != 37
    return x.exp()


INPUTS = {"x": {"dims": "T H"}}
WORKLOADS = [{"T": 64, "H": 512}]
"""


SCORES = """
import torch


def reference(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return (q @ k.transpose(-2, -1)).softmax(-1)


INPUTS = {"q": "B N 4", "k": "B N 4"}
WORKLOADS = [{"B": 4, "N": 512}]
"""


LOOP = """
import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    threshold = x.amax(-1, keepdim=True)
    for _ in range({times}):
        threshold = threshold - (x - threshold).relu().sum(-1, keepdim=True).gt(1).float()
    return (x - threshold).relu()


INPUTS = {{"x": "T H"}}
WORKLOADS = [{{"T": 64, "H": 512}}]
"""


SUM_SO_FAR = """
import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.ones(x.shape[0], x.shape[0], dtype=x.dtype).tril() @ x


INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 64, "H": 512}]
"""


NORMED = """
import torch


def reference(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), w, b)


INPUTS = {"x": "T H", "w": "H", "b": "H"}
WORKLOADS = [{"T": 64, "H": 512}]
"""


MODULE = """
import torch


class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(features))

    def forward(self, x):
        return x * self.weight


def get_inputs():
    return [torch.randn(64, 16)]


def get_init_inputs():
    return [16]
"""


def proved_modules() -> list[Proof]:
    problem = parse_problem(MODULE)
    return prove(problem, choose_cases(VerifyRequest(MODULE, CandidateSource(())), problem, True), surroundings())[0]


def test_of_a_large_output_of_a_module_the_truth_is_of_the_same_rows_in_each_draw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert all(proof.outputs[0].rows is None for proof in proved_modules())
    monkeypatch.setattr(truth, "MOST_WHOLE", 1023)
    monkeypatch.setattr(truth, "MOST_OF_ROWS", 16 * 96)
    known = proved_modules()
    for proof in known:
        (item,) = proof.outputs
        assert item.rows is not None and torch.equal(item.rows, known[0].outputs[0].rows)
        assert (item.shape, tuple(item.truth.exact.shape)) == ((64, 16), (96, 16))
        value = proof.inputs["input 0"] * proof.inputs["weight"]
        assert torch.allclose(item.known(value).double(), item.truth.exact)


def test_many_parameters_of_a_module_are_drawn_once_and_its_inputs_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({float(proof.inputs["weight"][0]) for proof in proved_modules()}) == 5
    monkeypatch.setattr(truth, "MOST_DRAWN_ANEW", 15)
    known = proved_modules()
    assert len({float(proof.inputs["weight"][0]) for proof in known}) == 1
    assert len({float(proof.inputs["input 0"][0, 0]) for proof in known}) == 5


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_no_case_of_probabilities_is_lost_to_a_step_beyond_one(dtype: str) -> None:
    problem = parse_problem(source_of_problem("bce"))
    request = VerifyRequest(problem.source, CandidateSource(()), dtypes=(dtype,))
    cases = choose_cases(request, problem, True)
    known, left_out = prove(problem, cases, surroundings())
    assert (len(known), left_out) == (len(cases), [])
    assert any((proof.inputs["p"] == 1).any() for proof in known)


def test_a_reference_whose_device_is_lost_goes_on_in_a_fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, healthy = parse_problem(NARROW), [True, False]
    refused, other = (Case(f"{width}", (("T", 3), ("H", width)), "float32", 1) for width in (37, 40))
    door = reference_session("reference", problem.source, surroundings(), gpu=False)
    with opened(door, surroundings()) as session:
        oracle = Oracle.open(problem, session, 1)
        before = oracle.prove(other, None)
        monkeypatch.setattr(truth, "has_its_device", lambda _: healthy.pop())
        found = oracle.prove(refused, None)
        again = oracle.prove(other, None)
        assert oracle.restarts == 1 and found is not None and found.case.sizes != refused.sizes
        assert before is not None and again is not None
        assert torch.equal(before.outputs[0].truth.exact, again.outputs[0].truth.exact)
        monkeypatch.setattr(truth, "has_its_device", lambda _: False)
        oracle.restarts = MOST_RESTARTS
        with pytest.raises(
            BadProblem, match=r"the reference's process is lost again and again: AssertionError.*T=3 H=37"
        ):
            oracle.prove(refused, None)


def test_a_case_of_which_the_reference_makes_more_than_fits_keeps_its_longest_dimension_longest() -> None:
    problem = parse_problem(SCORES)
    door = reference_session("reference", problem.source, surroundings(), gpu=False)
    with opened(door, surroundings()) as session:
        oracle = Oracle.open(problem, session, 1)
        proof = oracle.prove(Case("long", (("B", 10), ("N", 120723)), "float32", 1), None)
        few = oracle.prove(Case("few", (("B", 10), ("N", 200)), "float32", 1), None)
    assert proof is not None and few is not None
    sizes = proof.case.size_of
    assert few.case.size_of == {"B": 10, "N": 200} and sizes["B"] == 1 and 500 < sizes["N"] < 5000


def test_a_case_of_two_dtypes_that_the_reference_takes_one_way_round_alone_is_left_out() -> None:
    problem = parse_problem(NORMED)
    case = Case("two dtypes", (("T", 3), ("H", 40)), "bfloat16", 1, mixed=("w", "b"), beside="float32", may_raise=True)
    with opened(reference_session("reference", problem.source, surroundings(), gpu=False), surroundings()) as session:
        oracle = Oracle.open(problem, session, 1)
        assert oracle.prove(case, None) is None
        assert oracle.prove(replace(case, mixed=(), beside=""), None) is not None


def test_a_reference_that_takes_too_much_memory_is_asked_for_other_cases_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = parse_problem(SCORES)
    with opened(reference_session("reference", problem.source, surroundings(), gpu=False), surroundings()) as session:
        oracle, asked = Oracle.open(problem, session, 1), session.call

        def ended(*_: object) -> ChildReply[Any]:
            session.settle()
            monkeypatch.setattr(session, "call", asked)
            raise ChildOutOfMemory("more than 16384 MiB of memory", "")

        case = Case("small", (("B", 2), ("N", 20)), "float32", 1)
        oracle.in_form(case.size_of, case.scalars)  # asks on shapes alone, once
        monkeypatch.setattr(session, "call", ended)
        assert oracle.prove(case, None) is None
        assert oracle.prove(case, None) is not None


@pytest.mark.parametrize(("times", "rows"), [(1, 8), (20, 8), (200, 1)])
def test_what_a_loop_frees_counts_an_eighth(times: int, rows: int) -> None:
    problem = parse_problem(LOOP.format(times=times))
    case = Case("wide", (("T", 8), ("H", 2**17)), "float32", 1)
    with opened(reference_session("reference", problem.source, surroundings(), gpu=False), surroundings()) as session:
        oracle = Oracle.open(problem, session, 1)
        assert oracle.asked(oracle._placed(case)).case.size_of == {"T": rows, "H": 2**17}


def odd_proof(problem_source: str, rows: int, columns: int) -> Proof:
    problem = parse_problem(problem_source)
    sizes = zip(problem.dimensions, (*[rows] * (len(problem.dimensions) - 1), columns), strict=True)
    case = Case("odd", tuple(sizes), "float32", 5, content=Content.odd)
    with opened(reference_session("reference", problem.source, surroundings(), gpu=False), surroundings()) as session:
        proof = Oracle.open(problem, session, 1).prove(case, None)
    assert proof is not None
    return proof


def test_the_number_of_finite_inputs_may_stand_where_nothing_but_zero_times_nan_is_none() -> None:
    proof = odd_proof(SUM_SO_FAR, 20, 30)
    truth, odd = proof.outputs[0].truth, ~torch.isfinite(proof.inputs["x"])
    before = (odd.cumsum(0) == 0) & ~torch.isfinite(truth.exact)
    assert before.any() and truth.idle is not None and torch.equal(torch.isfinite(truth.idle), before)
    given = truth.exact.float()
    sums = proof.inputs["x"].nan_to_num(0.0).double().cumsum(0)
    assert compare(given, truth).passed
    assert compare(torch.where(before, sums.float(), given), truth).passed
    assert not compare(torch.where(before, 0.0, given), truth).passed
    assert not compare(torch.where(torch.isfinite(given), given, 0.0), truth).passed


AT_MOST_FIVE = """import torch

def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.clamp(x.norm(dim=-1), max=5.0)

INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 32, "H": 32}]
"""


def test_no_number_stands_for_nan_where_a_limit_hides_how_large_it_is() -> None:
    truth = odd_proof(AT_MOST_FIVE, 12, 60).outputs[0].truth
    assert truth.exact.isnan().any()
    assert truth.idle is None or not torch.isfinite(truth.idle).any()


SMOOTH_AT_ZERO = """import torch

def reference(x: torch.Tensor, beta: float = 0.0) -> torch.Tensor:
    d = x.abs()
    return torch.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta)

INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 32, "H": 32}]
"""


def test_a_slope_that_is_nan_for_numbers_too_is_not_asked_for() -> None:
    proof = odd_proof(SMOOTH_AT_ZERO, 10, 30)
    slope, value = proof.gradients["x"], proof.outputs[0]
    assert slope is not None and slope.truth.judged is not None and value.truth.judged is not None
    assert bool(slope.truth.exact.isnan().all()) and not slope.truth.judged.any() and value.truth.judged.all()


@pytest.mark.parametrize("name", ["rms_norm", "softmax", "swiglu"])
def test_no_number_stands_for_nan_where_it_is_not_multiplied_by_zero(name: str) -> None:
    proof = odd_proof(source_of_problem(name), 6, 40)
    known = [item.truth for item in proof.expected().values() if item is not None]
    assert any(not torch.isfinite(truth.exact).all() for truth in known)
    assert not any(torch.isfinite(truth.idle).any() for truth in known if truth.idle is not None)


def test_each_input_is_changed_before_the_backward_where_it_is_dense_and_where_it_is_not() -> None:
    for name in ("reglu", "rms_norm"):
        dealt = [(proof.case, use) for proof in proofs(name) for use in proof.uses]
        changed = [(case.layout, use) for case, use in dealt if use.kind == "changed"]
        assert all(layout == use.layout for layout, use in changed)
        counts = Counter(layout for layout, _ in changed)
        assert counts.pop(MemoryLayout.dense) == 4
        assert counts.keys() == set(STRIDED)


def test_an_input_without_a_gradient_is_changed_too() -> None:
    dealt = [use for proof in proofs("take_rows") for use in proof.uses if use.kind == "changed"]
    assert {name for use in dealt for name in use.names} >= {"table", "index"}


def test_no_direction_of_a_double_backward_is_dense() -> None:
    directions = [laid.view() for proof in proofs("reglu") for laid in proof.directions.values()]
    assert directions and not any(view.is_contiguous() for view in directions if min(view.shape) > 1)


SHIFTED = source_of_problem("scale_bias")
FIXED = """import torch

def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w

INPUTS = {"x": "T 512", "w": {"dims": "512 64"}}
WORKLOADS = [{"T": 32}]
"""


@pytest.mark.parametrize(
    ("source", "case", "kinds"),
    [
        (FIXED, Case("few", (("T", 7),), "float32", 1), {"double"}),
        (SHIFTED, Case("wide", (("T", 3), ("H", 4500)), "float32", 1, again=True), {"no_grad", "subset", "double"}),
        (SHIFTED, Case("many rows", (("T", 260), ("H", 6)), "float32", 1), {"no_grad", "subset", "double"}),
    ],
)
def test_a_case_of_a_fixed_table_of_wide_rows_or_of_many_has_uses(source: str, case: Case, kinds: set[str]) -> None:
    (proof,) = prove(parse_problem(source), [case], surroundings())[0]
    assert {use.kind for use in proof.uses} >= kinds


def test_one_case_of_rows_that_are_apart_has_every_use_that_they_alone_can_show() -> None:
    (proof, *_) = [one for one in proofs("reglu") if one.case.layout == MemoryLayout.apart and one.uses]
    first = Uses().deal(replace(proof, uses=()))
    assert {use for use in uses_of(first) if use.layout == MemoryLayout.apart} <= set(first.uses)
    assert any(use.kind == "elsewhere" for use in first.uses)


def test_noise_is_no_jump_where_numbers_with_ties_have_a_mean_of_zero() -> None:
    problem = parse_problem(source_of_problem("row_moments"))
    case = Case("ties", (("T", 9), ("H", 58)), "float32", 7, special=Special.ties)
    mean = prove(problem, [case], surroundings())[0][0].outputs[0].truth
    assert not mean.exact.any()
    noise = max(float(run.abs().max()) for run in mean.shaken)
    assert 1e-8 < noise < 1e-5  # of inputs of a few units


def test_jumps_are_none_where_numbers_with_ties_are_rounded() -> None:
    problem = parse_problem(source_of_problem("fake_quantisation"))
    case = Case("ties", (("T", 9), ("H", 58)), "float32", 7, scalars=(("step", 0.5),), special=Special.ties)
    found = prove(problem, [case], surroundings())[0][0].outputs[0].truth
    assert max(float((run - found.exact).abs().max()) for run in found.shaken) < 0.01


def test_the_gradient_of_a_mean_over_millions_is_compared() -> None:
    problem = parse_problem(source_of_problem("mse"))
    case = Case("large", (("T", 2048), ("H", 1024)), "float32", 1, layout=MemoryLayout.dense)
    (proof,) = prove(problem, [case], surroundings())[0]
    gradient = proof.gradients["x"]
    assert gradient is not None and compare(gradient.truth.own, gradient.truth).passed
    assert not compare(1.01 * gradient.truth.own, gradient.truth).passed
