"""Inputs and upstream gradients have in common what those of programs have that people run."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from gpu_runner.contracts import parse_problem
from gpu_runner.numerics.compare import compare
from gpu_runner.numerics.tolerances import Truth
from gpu_runner.verify.cases import Case, Indices, Relation, Special, plan_cases
from gpu_runner.verify.draws import Draws
from gpu_runner.verify.extremes import LOWEST, with_special
from gpu_runner.verify.inputs import make_inputs
from gpu_runner.verify.judge import prove
from gpu_runner.verify.proof import Expected
from gpu_runner.verify.reach import with_room
from gpu_runner.verify.truth import asked_of, form_of, loses_rows
from tests.cheats.trial import surroundings
from tests.problems import problem_source

SIZES = (("T", 12), ("I", 40))


def inputs_of(name: str, case: Case) -> dict[str, torch.Tensor]:
    return make_inputs(parse_problem(problem_source(name)), case)


def test_cosines_and_sines_are_of_the_same_angles() -> None:
    for seed in range(6):
        case = Case("c", SIZES, "float32", seed, related=("a", "b"), relation=Relation.circle)
        made = inputs_of("swiglu", case)
        assert torch.allclose(made["a"] ** 2 + made["b"] ** 2, torch.ones(12, 40), atol=1e-6)


@pytest.mark.parametrize("apart", [1, 2])
def test_views_of_one_tensor_lie_in_one_buffer(apart: int) -> None:
    problem = parse_problem(problem_source("swiglu"))
    form = form_of(problem)
    assert form is not None
    case = Case("c", SIZES, "float32", 3, related=("a", "b"), relation=Relation.apart, rows_apart=apart)
    proof = asked_of(problem, form, case)
    first, second = (proof.laid[name] for name in ("a", "b"))
    assert first.raw is second.raw
    assert second.offset - first.offset == apart * 40
    for name, laid in (("a", first), ("b", second)):
        assert torch.equal(laid.view(), proof.inputs[name])
    assert torch.equal(first.view()[apart:], second.view()[:-apart])


def test_a_matrix_and_its_transpose_begin_at_one_address() -> None:
    problem = parse_problem(problem_source("matmul"))
    form = form_of(problem)
    assert form is not None
    sizes = (("M", 20), ("N", 20), ("K", 20))
    proof = asked_of(problem, form, Case("c", sizes, "float32", 4, related=("a", "b"), relation=Relation.transposed))
    first, second = proof.laid["a"], proof.laid["b"]
    assert first.raw is second.raw
    assert first.offset == second.offset
    assert torch.equal(first.view().t(), second.view())
    assert torch.equal(second.view(), proof.inputs["b"])


def test_where_shapes_do_not_allow_a_relation_the_inputs_stay_as_they_were_drawn() -> None:
    sizes = (("M", 20), ("N", 22), ("K", 20))
    related = Case("c", sizes, "float32", 4, related=("a", "b"), relation=Relation.transposed)
    made, plain = (inputs_of("matmul", case) for case in (related, Case("c", sizes, "float32", 4)))
    assert all(torch.equal(made[name], plain[name]) for name in plain)


def test_labels_are_in_order_sorted_or_those_of_the_largest_logit() -> None:
    sizes = (("T", 12), ("V", 40))
    made = {
        kind: inputs_of("cross_entropy", Case("c", sizes, "float32", 5, indices=kind))
        for kind in (Indices.ascending, Indices.ordered, Indices.best)
    }
    assert made[Indices.ascending]["target"].tolist() == list(range(12))
    assert made[Indices.ordered]["target"].diff().min() >= 0
    assert torch.equal(made[Indices.best]["target"], made[Indices.best]["x"].argmax(-1))


def test_rows_are_like_data() -> None:
    values = torch.randn(12, 40, generator=torch.Generator().manual_seed(6))
    made = {kind: with_special(values, kind, torch.Generator().manual_seed(7)) for kind in Special if kind}
    levels = made[Special.levels] * 255
    assert torch.allclose(levels, levels.round(), atol=1e-4)
    assert set(made[Special.mask].unique().tolist()) == {0.0, 1.0}
    assert torch.equal(made[Special.bytes], made[Special.bytes].round()) and made[Special.bytes].max() > 64
    changed = made[Special.filled] != values
    assert set(made[Special.filled][changed].tolist()) == {-1e4, -1e9}
    assert torch.allclose(made[Special.unit].norm(dim=-1), torch.ones(12))
    assert torch.allclose(made[Special.shares].sum(-1), torch.ones(12))
    steps = {round(float(step), 6) for dim in (0, 1) for step in made[Special.ramp].diff(dim=dim).unique()}
    assert 0.0 in steps
    assert len(steps) == 2


def test_masks_fill_with_the_smallest_number_too_and_some_rows_wholly() -> None:
    values = torch.randn(15, 40, generator=torch.Generator().manual_seed(1))
    made = with_special(values, Special.masked, torch.Generator().manual_seed(2))
    assert {LOWEST, -LOWEST} < set(made[made != values].tolist()) <= {LOWEST, -LOWEST, -1e4, -1e9}
    assert [int((made == fill).all(-1).sum()) for fill in (LOWEST, -LOWEST)] == [3, 2]
    assert next(Case("", (), "float32", 1, special=Special.masked).gentler()).special is Special.filled


def test_some_row_holds_the_smallest_number_beside_others() -> None:
    for seed in range(40):
        made = with_special(torch.randn(5 + seed % 9, 40), Special.masked, torch.Generator().manual_seed(seed))
        holds, wholly = (made == LOWEST).any(-1), (made == LOWEST).all(-1)
        assert wholly.any()
        assert (holds & ~wholly).any()


def test_the_smallest_number_is_asked_for_where_the_reference_has_an_answer() -> None:
    problem = parse_problem(problem_source("swiglu"))
    form = form_of(problem)
    assert form is not None
    rows = with_special(torch.randn(12, 40), Special.masked, torch.Generator().manual_seed(2)).double()
    shares = torch.softmax(rows, -1)
    centered = rows - rows.mean(-1, keepdim=True)
    norm = centered / (centered.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    of_a_gpu = torch.where((rows.amin(-1, keepdim=True) == LOWEST), 0.0, norm).float()  # its variance is infinite
    for exact, own, is_lost in (
        (shares, shares.float(), False),
        (norm, of_a_gpu, True),
        (norm, norm.float(), False),
        (norm + 100, of_a_gpu + 100, True),  # behind a bias
        (norm + 100, (norm + 100).float(), False),
    ):
        for special in (Special.masked, Special.filled):
            proof = asked_of(problem, form, Case("c", SIZES, "float32", 3, special=special))
            output = Expected("y", Truth(exact, own), tuple(exact.shape), exact.stride(), "float32")
            assert loses_rows(replace(proof, outputs=(output,))) == (is_lost and special is Special.masked)
    proof = asked_of(problem, form, Case("c", SIZES, "float32", 3, special=Special.masked))
    biased = Truth(norm + 100 * torch.arange(40.0), (of_a_gpu + 100 * torch.arange(40.0)))
    output = Expected("y", biased, (12, 40), (40, 1), "float32")
    for own, is_lost in ((of_a_gpu, True), (norm.float(), False)):
        gradient = Expected("w", Truth(norm.sum(0), own.sum(0)), (40,), (1,), "float32")
        assert loses_rows(replace(proof, outputs=(output,), gradients={"w": gradient})) == is_lost


def test_beside_the_smallest_number_only_what_no_order_of_operations_overflows_counts() -> None:
    problem = parse_problem(problem_source("swiglu"))
    form = form_of(problem)
    assert form is not None
    exact = torch.tensor([[1.0, LOWEST, 2.0**120, LOWEST / 3, 5.0]]).double()
    shaken = exact + torch.tensor([[0.0, 0.0, 0.0, 0.0, 2.0**102]])  # of terms near the largest number that cancel
    output = Expected("y", Truth(exact, exact.float(), shaken=(shaken,)), (1, 5), (5, 1), "float32")
    for special, counted in ((Special.masked, [True, True, True, False, False]), (Special.filled, None)):
        proof = asked_of(problem, form, Case("c", SIZES, "float32", 3, special=special))
        held = with_room(replace(proof, outputs=(output,))).outputs[0].truth.judged
        assert (None if held is None else held[0].tolist()) == counted
    overflown = exact.float()
    overflown[0, 3:] = -math.inf
    truth = Truth(exact, exact.float(), shaken=(shaken,), judged=torch.tensor([[True, True, True, False, False]]))
    assert compare(overflown, truth).passed
    overflown[0, 2] = math.inf
    assert not compare(overflown, truth).passed


def test_weights_of_one_form_are_equal_in_a_case() -> None:
    problem = parse_problem(problem_source("layer_norm"))
    cases = plan_cases(problem, ("float32",), problem.workloads, interpreted=True, quick=False, draws=Draws.fresh())
    (case,) = [case for case in cases if case.relation is Relation.equal and case.related]
    made = make_inputs(problem, case)
    assert torch.equal(*(made[name] for name in case.related))


def test_where_an_output_is_its_own_upstream_gradient_what_it_loses_is_lost_by_the_references_gradients_too() -> None:
    problem = parse_problem(problem_source("swiglu"))
    (proof,) = prove(problem, [Case("c", SIZES, "bfloat16", 3, echoes=True)], surroundings())[0]
    (output,), (laid,) = proof.outputs, proof.upstream
    rounded = output.truth.exact.to(torch.bfloat16)
    assert laid is not None and torch.equal(laid.view(), rounded)
    a, b = (proof.inputs[name].clone().requires_grad_() for name in ("a", "b"))
    made = torch.nn.functional.silu(a) * b
    made.backward(made.detach())
    item = proof.gradients["a"]
    assert item is not None and a.grad is not None
    assert torch.equal(item.truth.own, a.grad)
    assert not torch.equal(output.truth.own, rounded)


def test_what_masks_fill_with_is_in_every_draw() -> None:
    few = torch.randn(5, 7)
    made = [with_special(few, Special.filled, torch.Generator().manual_seed(seed)) for seed in range(50)]
    assert all((one == -1e4).any() and (one == few).any() for one in made)


def test_rows_of_one_input_are_multiples_of_the_other_or_what_a_dropout_leaves_of_it() -> None:
    case = Case("c", SIZES, "float32", 3, related=("a", "b"), relation=Relation.multiple)
    made = inputs_of("swiglu", case)
    ratios = [{round(float(ratio), 3) for ratio in row} for row in made["b"] / made["a"]]
    assert all(len(row - {0.0}) == 1 for row in ratios)
    assert {2.0, 0.5, -1.0, 4.0, 1.111} == set().union(*ratios) - {0.0}
    assert sum(0.0 in row for row in ratios) >= 2


def test_an_input_is_the_upstream_gradient_of_outputs_of_its_form() -> None:
    problem = parse_problem(problem_source("reglu"))
    cases = plan_cases(problem, ("float32",), problem.workloads, interpreted=True, quick=False, draws=Draws.fresh())
    chosen = [case for case in cases if case.given_back]
    assert {case.given_back for case in chosen} == {"a", "b"}
    (proof,) = prove(problem, chosen[:1], surroundings())[0]
    (upstream,) = proof.upstream
    assert upstream is not None
    assert torch.equal(upstream.view(), proof.inputs[chosen[0].given_back])


def test_some_weights_that_are_drawn_widely_are_one_number() -> None:
    cases = [Case("c", (("T", 4), ("H", 40)), "float32", seed, wild=True) for seed in range(60)]
    equal = [len(inputs_of("rms_norm", case)["w"].unique()) == 1 for case in cases]
    assert 5 <= sum(equal) <= 30
