"""What stands is described and not held against itself: imprecision is named, and only what is wrong by far is refused."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch

from gpu_runner import verify
from gpu_runner.contracts import CandidateSource, SourceFile, Status, Verdict, VerifyRequest, parse_problem
from gpu_runner.verify.cases import MemoryLayout, Relation
from gpu_runner.verify.judge import choose_cases, judge_by
from gpu_runner.verify.original import is_original, learn
from gpu_runner.verify.proof import Proof
from tests.cheats.trial import HERE, proofs, seen_through, source, surroundings
from tests.honest.table import source_of
from tests.problems import problem_source

ORIGINAL = (HERE / "beside" / "original.py").read_text()
CALLS = "import itertools\n\nimport torch\n"
# Each call errs by another amount, as sums of atomics do: from twice to four times what is allowed.
UNSTEADY = ORIGINAL.replace("import torch\n", CALLS, 1).replace(
    "class Gate", "CALLS = itertools.count()\n\n\nclass Gate"
)
UNSTEADY = UNSTEADY.replace("y * 1.000004", "y * gain").replace(
    "n, BLOCK: tl.constexpr):", "n, gain, BLOCK: tl.constexpr):", 1
)
UNSTEADY = UNSTEADY.replace(
    "y, a.numel(), BLOCK", "y, a.numel(), (1.000010, 1.000014, 1.000012)[next(CALLS) % 3], BLOCK"
)
FAR = ORIGINAL.replace("1.000004", "1.001")
BEYOND = ORIGINAL.replace("tl.store(y_ptr + at, y * 1.000004, mask=mask)", "tl.store(y_ptr + at, y, mask=at <= n)")

WRONG_IF_SMALL = ORIGINAL.replace("y * 1.000004", "y * tl.where(n < 2000, 1.001, 1.0)")


def _workload() -> list[Proof]:
    return [proof for proof in proofs("reglu") if proof.case.measured][:1]


def of(text: str, **more: object) -> CandidateSource:
    return replace(CandidateSource((SourceFile("candidate.py", text),)), **more)


@functools.cache
def described(text: str) -> Verdict:
    return judge_by(seen_through("reglu"), of(text), surroundings(), original=of(text))


def test_what_errs_a_little_and_otherwise_in_each_run_passes_and_its_errors_are_named() -> None:
    verdict = described(UNSTEADY)
    assert (verdict.evidence, verdict.status) == ((), Status.passed)
    assert verdict.deterministic is False
    (named,) = [evidence for evidence in verdict.excused if evidence.check == "values"]
    assert named.output == "output 0"
    assert named.error is not None and named.allowed is not None
    assert 2 < named.error / named.allowed < 6
    assert "is allowed" in named.message


def test_the_error_of_a_check_that_passed_is_never_beyond_what_was_allowed() -> None:
    shares = [check.error / check.allowed for check in described(UNSTEADY).checks if check.error and check.allowed]
    assert shares
    assert max(shares) <= 1.0


def test_a_second_run_that_is_as_wrong_as_the_first_is_not_said_to_differ() -> None:
    proof = next(proof for proof in proofs("reglu") if proof.case.name == "next to a power of two")
    steady = judge_by([*_workload(), proof], of(WRONG_IF_SMALL), surroundings(), original=of(WRONG_IF_SMALL))
    assert (steady.evidence, steady.status) == ((), Status.passed)
    assert "deterministic" in steady.allowances
    assert steady.deterministic is True


def test_what_is_wrong_by_far_is_refused_with_how_far() -> None:
    verdict = described(FAR)
    assert (verdict.status, verdict.rule) == (Status.refused, "problem")
    assert "output 0 errs by 0.001 of its scale" in verdict.evidence[0].message


def test_what_writes_beyond_its_own_buffers_is_no_imprecision() -> None:
    verdict = described(BEYOND)
    assert verdict.status is Status.refused
    assert "damages memory: A kernel writes memory that it was not given" in verdict.evidence[0].message


def test_what_it_overwrites_and_lets_torch_compute_is_named_as_ever() -> None:
    verdict = described(ORIGINAL)
    assert (verdict.evidence, verdict.status) == ((), Status.passed)
    assert set(verdict.overwrites) == {"a", "b"}
    assert {"second_backward", "values"} <= set(verdict.allowances)
    assert verdict.kernels == ("_forward", "_backward")


def test_an_original_alone_has_a_case_with_an_upstream_gradient_of_one() -> None:
    """A loss that has its gradient in the place of its logits is right there in a second backward, and nowhere else."""
    text = problem_source("cross_entropy")
    alone, beside = (
        choose_cases(VerifyRequest(text, of(ORIGINAL), original=of(other), quick=True), parse_problem(text), True)
        for other in (ORIGINAL, FAR)
    )
    assert (alone[-1].upstream, alone[-1].again) == (MemoryLayout.full, True)
    assert len(alone) == len(beside) + 1


def test_inputs_with_which_a_second_backward_is_right_may_not_be_overwritten() -> None:
    """As a loss overwrites the logits in forward: what overwrites them in backward would fail where it is called again."""
    text = source_of("reglu").files[0].text
    forward = "        ctx.save_for_backward(a, b)\n"
    assert forward in text
    text = text.replace(forward, "        ctx.save_for_backward(a.clone(), b)\n        a.zero_()\n")
    again = [proof for proof in proofs("reglu") if proof.other is not None and not proof.case.measured][:1]
    standing = learn(of(text), [*again, *_workload()], surroundings())
    assert set(standing.overwrites) == {"a"}
    assert standing.may_be_overwritten() == ()
    # Where the upstream gradient is zero what was overwritten does not matter, so that a second backward says nothing.
    (proof, peer), *_ = standing.cases
    vanishing = {
        name: replace(item, truth=replace(item.truth, exact=torch.zeros_like(item.truth.exact)))
        for name, item in proof.gradients.items()
        if item is not None
    }
    standing.cases[:] = [(replace(proof, gradients=vanishing), peer)]
    assert standing.may_be_overwritten() == ("a",)


def test_a_race_of_the_original_in_one_case_leaves_the_others() -> None:
    """A backward that writes over its inputs races where one input is the other, some rows further on."""
    text = source_of("reglu").files[0].text.replace("torch.empty_like(a), torch.empty_like(b)", "a, b")
    cases = [proof for proof in proofs("reglu") if proof.case.relation is Relation.apart] + _workload()
    standing = learn(of(text), cases, surroundings())
    assert 0 < len(standing.dropped) < len(cases)
    assert all("another program" in reason for reason in standing.dropped.values())
    assert [proof.case.measured for proof in standing.proofs][-1:] == [True]


def test_a_race_that_nobody_sees_leaves_its_case_out() -> None:
    """As on a GPU, where the original's error in such a case is no bound: each run has another one."""
    text = source_of("reglu").files[0].text
    given = "return da, db"
    assert text.count(given) == 1
    unseen = text.replace(given, "return a.data.copy_(da), b.data.copy_(db)")
    cases = [proof for proof in proofs("reglu") if proof.case.relation is Relation.apart] + _workload()
    standing = learn(of(unseen), cases, surroundings())
    assert set(standing.dropped) == {proof.case.label() for proof in cases[:-1]}
    assert all("which write is last" in reason for reason in standing.dropped.values())
    assert not learn(of(text), cases, surroundings()).dropped


@pytest.mark.parametrize(
    "other",
    [
        of(ORIGINAL + "\n"),
        of(ORIGINAL, symbol="Gate.apply"),
        of(ORIGINAL, tree="head.tar.gz"),
        of(ORIGINAL, import_roots=("src",)),
        CandidateSource((*of(ORIGINAL).files, SourceFile("torch.py", ""))),
    ],
)
def test_only_the_very_same_files_and_callable_are_the_original(other: CandidateSource) -> None:
    assert is_original(of(ORIGINAL), of(ORIGINAL))
    assert not is_original(other, of(ORIGINAL))
    assert not is_original(of(ORIGINAL), None)


def test_a_candidate_that_errs_more_is_no_original_by_saying_so() -> None:
    claims = ORIGINAL.replace("1.000004", "1.000009").replace("What stands", "This is what stands")
    verdict = judge_by(
        seen_through("reglu"), of(claims), surroundings(), original=source(HERE / "beside" / "original.py")
    )
    assert verdict.status is Status.incorrect_values


def test_a_request_for_what_stands_starts_one_child_and_describes_it() -> None:
    stands = source(HERE / "beside" / "original.py")
    request = VerifyRequest(problem_source("reglu"), stands, quick=True, dtypes=("float32",), original=stands)
    verdict = verify.run(request, surroundings())
    assert (verdict.evidence, verdict.status, verdict.quick) == ((), Status.passed, True)
    assert ("values", "output 0") in {(evidence.check, evidence.output) for evidence in verdict.excused}
