"""What torch computes for a candidate is held against the problem: partial sums, adjoints and small inputs are no accusation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import triton

from gpu_runner.contracts.problem import parse_problem
from gpu_runner.contracts.verify import Status
from gpu_runner.messages import CallForm, Work
from gpu_runner.numerics.tolerances import Truth
from gpu_runner.program.log import CONSTANTS, Log
from gpu_runner.verify.answer import CaseAnswer
from gpu_runner.verify.cases import Case
from gpu_runner.verify.examine import AnsweredCase, examine
from gpu_runner.verify.finding import CaseNotes
from gpu_runner.verify.honesty import PARTIALS, adjoints, computed_by_torch, judge_honesty, scale_of
from gpu_runner.verify.laying import Laid
from gpu_runner.verify.peer import NO_PEER, Peer
from gpu_runner.verify.proof import Expected, Proof, Scale
from tests.problems import problem_source

X, W = torch.empty(640, 100, device="meta"), torch.empty(640, device="meta")
UPSTREAM = Laid(X.flatten(), (640, 100), (100, 1), 0)
PROOF = Proof(
    Case("one", (), "float32", 1), CallForm("reference", ("x",)), {"x": X, "w": W}, {}, (), (), upstream=(UPSTREAM,)
)
ELEMENTS = {"x": 64_000, "w": 640, "upstream 0": 64_000}
COMPUTES, MOVES = Scale({"x": 64_000, "w": 640}), Scale({"x": 64_000, "w": 640}, moves_only=True)
SUM_OF_X = Work("forward", "sum", "x", 7, "candidate.py", 64_000, 100)
PARTIAL = Work("backward", "sum", "", 9, "candidate.py", 64_000, 100, each=64_000)
COPY_OF_X = Work("forward", "copy_", "x", 3, "candidate.py", 64_000, is_move=True, permuted=True, each=64_000)


def answered(work: tuple[Work, ...] = (), kernels: int = 1, untouched: tuple[str, ...] = ()) -> CaseAnswer:
    return CaseAnswer({}, {"kernel": kernels}, {"first": kernels}, work, {}, 0, untouched, {}, (), {}, ())


def accused(answer: CaseAnswer, peer: Peer = NO_PEER) -> list[tuple[str | None, int | None]]:
    notes = CaseNotes("one")
    judge_honesty(notes, PROOF, answer, peer)
    return [(finding.rule, finding.evidence.line) for finding in notes.findings]


def rules(work: Work, scale: Scale = COMPUTES) -> list[tuple[str, int | None]]:
    return [(rule, line) for _, rule, line in computed_by_torch([work], replace(PROOF, scale=scale))]


def test_without_a_launch_and_without_a_kernels_result_a_candidate_is_accused() -> None:
    assert accused(answered()) == []
    assert accused(answered(kernels=0)) == [("no kernel ran", None)]
    assert accused(answered(untouched=("output 0",))) == [("no kernel wrote the answer", None)]


def test_what_the_original_does_too_is_no_accusation() -> None:
    assert accused(answered(kernels=0), Peer(answered(kernels=0))) == []
    assert accused(answered(untouched=("output 0",)), Peer(answered(untouched=("output 0",)))) == []
    assert list(computed_by_torch([SUM_OF_X], replace(PROOF, scale=COMPUTES), [SUM_OF_X])) == []
    more = replace(SUM_OF_X, elements=2 * SUM_OF_X.elements)
    assert [rule for _, rule, _ in computed_by_torch([more], replace(PROOF, scale=COMPUTES), [SUM_OF_X])] != []


@pytest.mark.parametrize("operator", ["sum", "mul", "index_select"])
def test_an_operator_over_a_large_input_is_work_and_its_line_is_named(operator: str) -> None:
    assert rules(replace(SUM_OF_X, operator=operator)) == [("torch computes the answer", 7)]
    assert rules(replace(SUM_OF_X, operator=operator, elements=1_000)) == []


def test_an_operator_over_a_small_input_is_no_work() -> None:
    assert rules(replace(SUM_OF_X, source="w", operator="mul")) == []


def test_partial_results_of_kernels_may_be_added_up_where_few_meet_in_one() -> None:
    assert rules(PARTIAL) == []
    assert rules(replace(PARTIAL, reduced=64_000)) != []
    for reduced, rule in ((PARTIALS, []), (PARTIALS + 1, ["torch computes the answer"])):
        fifth = replace(PARTIAL, each=12_800, elements=12_800, reduced=reduced)
        assert [found for found, _ in rules(fifth)] == rule
    assert (
        rules(replace(PARTIAL, each=1_000, elements=1_000, reduced=1_000)) == []
    )  # of 64,000 that one result is made of
    assert rules(replace(PARTIAL, operator="mul")) != []


def test_pieces_on_one_line_count_together_where_few_may_be_added() -> None:
    pieces = [replace(PARTIAL, elements=size, each=size, reduced=100) for size in (9_000, 9_100, 9_200)]
    proof = replace(PROOF, scale=COMPUTES)
    assert list(computed_by_torch(pieces[:1], proof)) == []
    assert list(computed_by_torch(pieces, proof)) != []


def test_a_gradient_that_sums_the_upstream_one_is_the_adjoint_of_a_broadcast() -> None:
    adjoint = replace(PARTIAL, source="upstream 0")
    assert list(adjoints([adjoint], ELEMENTS)) == [adjoint]
    assert rules(adjoint) == []
    assert rules(replace(adjoint, operator="mul")) != []
    assert rules(replace(adjoint, step="forward")) != []
    assert list(adjoints([replace(adjoint, elements=128_000)], ELEMENTS)) == []


def test_sums_of_overlapping_parts_of_the_upstream_gradient_are_none() -> None:
    whole = replace(PARTIAL, source="upstream 0")
    for parts in ([whole] * 3, [replace(whole, line=line) for line in range(3)]):
        assert list(adjoints(parts, ELEMENTS)) == parts[:2]  # of x and w
        assert [rule for _, rule, _ in computed_by_torch(parts, replace(PROOF, scale=COMPUTES))] == [
            "torch computes the answer"
        ]


def test_moving_is_work_only_where_the_answer_is_a_move() -> None:
    assert rules(COPY_OF_X) == []
    assert rules(COPY_OF_X, MOVES) == [("torch computes the answer", 3)]
    assert rules(replace(COPY_OF_X, permuted=False), MOVES) == []
    assert rules(replace(COPY_OF_X, permuted=False, each=1_000), MOVES) != []


@pytest.mark.parametrize(
    ("outputs", "is_move"),
    [
        ([lambda x: x.t()], True),
        ([lambda x: torch.nn.functional.pad(x, (1, 1))], True),
        ([lambda x: x.t(), lambda x: x.sum(-1)], True),
        ([lambda x: x * 2.0], False),
        ([lambda x: torch.zeros(4)], False),
        ([lambda x: x.argmax(-1)], False),
    ],
)
def test_an_answer_is_a_move_where_one_output_is_but_for_one_constant(
    outputs: list[Callable[[torch.Tensor], torch.Tensor]], is_move: bool
) -> None:
    problem = parse_problem(problem_source("row_sum"))
    proofs = []
    for columns in (9, 0):  # of no columns padding is all that there is
        x = torch.randn(8, columns, generator=torch.Generator().manual_seed(1))
        exact = [make(x) for make in outputs] if columns else [torch.zeros(8, 2) for _ in outputs]
        expected = tuple(
            Expected(f"output {n}", Truth(y, y), tuple(y.shape), y.stride(), "float32") for n, y in enumerate(exact)
        )
        proofs.append(replace(PROOF, inputs={"x": x}, outputs=expected))
    assert scale_of(problem, proofs).moves_only is is_move


def test_an_answer_whose_first_row_is_one_number_beside_zeros_is_no_move() -> None:
    problem = parse_problem(problem_source("row_sum"))
    x = torch.rand(3, 4096, generator=torch.Generator().manual_seed(1))
    x[0, 1:] = 0  # as of a triangular matrix
    answer = 2 * x
    item = Expected("output 0", Truth(answer, answer), (3, 4096), answer.stride(), "float32")
    assert not scale_of(problem, [replace(PROOF, inputs={"x": x}, outputs=(item,))]).moves_only


def test_what_torch_computes_of_constants_alone_is_work_where_it_is_as_large_as_the_problem() -> None:
    bias = Work("forward", "abs", CONSTANTS, 5, "candidate.py", 64_000, each=64_000)
    assert rules(bias) == [("torch computes the answer", 5)]
    assert rules(replace(bias, elements=640, each=640)) == []


@pytest.mark.parametrize(("grad", "is_small"), [("False", False), ("True", True)])
def test_a_table_is_as_large_as_what_is_read_of_it_or_its_gradient(grad: str, is_small: bool) -> None:
    problem = parse_problem(
        "def reference(x, idx, w):\n    return x * w[idx]\n\n\n"
        'INPUTS = {"x": {"dims": "T H", "grad": False}, "idx": {"dims": "T", "dtype": "int64", "high": "V"},\n'
        f'          "w": {{"dims": "V H", "grad": {grad}}}}}\n'
        'WORKLOADS = [{"T": 1024, "H": 2048, "V": 131072}]\n'
    )
    scale = scale_of(problem, ())
    assert scale.is_small("x") is is_small
    assert scale.is_small("idx")


def options_of(**options: object) -> CaseAnswer:
    log = Log(lambda: ("candidate.py", 7))
    log.launch(options_of, (1,), [[], options], lambda: None)
    log.tuned(options_of, [triton.Config(options)], [[], {}], lambda: None)
    return replace(answered(), ordering=log.ordering)


def test_an_option_that_changes_the_order_of_launches_is_not_judged_unless_the_original_has_it() -> None:
    plain = options_of(num_warps=8, num_stages=2, num_ctas=1, maxnreg=64, launch_pdl=False)
    assert plain.ordering == {}
    for option in ({"launch_pdl": True}, {"launch_cooperative_grid": True}, {"num_ctas": 2}, {"ir_override": "k.ptx"}):
        (name,), answer = option, options_of(**option)
        found = [one for one in examine(AnsweredCase(PROOF, answer, "cpu")).findings if one.rule == "launch option"]
        assert [(one.status, one.evidence.line) for one in found] == [(Status.unproved, 7)]
        assert f"`{name}`" in found[0].evidence.message
        assert all(
            one.rule != "launch option" for one in examine(AnsweredCase(PROOF, answer, "cpu", Peer(answer))).findings
        )


def test_partial_sums_for_a_vector_are_held_against_an_answer_that_is_larger_than_every_input() -> None:
    proof = replace(
        PROOF,
        case=replace(PROOF.case, sizes=(("T", 640), ("H", 100))),
        inputs={"u": W, "v": torch.empty(100, device="meta")},
        outputs=(Expected("output 0", Truth(X, X), (640, 100), (100, 1), "float32"),),
    )
    vectors = {"T": 4096, "H": 8192}
    partial = replace(PARTIAL, elements=2_000, each=100, reduced=1)  # of one program

    def computed(step: str, answers: int) -> list[str]:
        scale = Scale({"u": 4096, "v": 8192}, sizes=vectors, answers=answers)
        return [rule for _, rule, _ in computed_by_torch([replace(partial, step=step)], replace(proof, scale=scale))]

    assert computed("first backward", 0) == ["torch computes the answer"]
    assert computed("first backward", 4096 * 8192) == []
    assert computed("first forward", 4096 * 8192) == ["torch computes the answer"]
