"""The guard in front of a fast path may always hold: taken the other way, the candidate does what the original does."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import CandidateSource, SourceFile, Verdict
from gpu_runner.errors import ChildError
from gpu_runner.messages import RunCase, TurnDecision
from gpu_runner.verify.cases import Content
from gpu_runner.verify.judge import LEAST_TURNED, judge_by
from gpu_runner.verify.opening import loaded
from gpu_runner.verify.proof import Proof, make_call
from tests.cheats.trial import proofs, surroundings
from tests.honest.table import source_of

ORIGINAL = source_of("reglu").files[0].text
KERNEL = ORIGINAL[ORIGINAL.index("@triton.jit") : ORIGINAL.index("@triton.jit\ndef _backward")]
GUARD = "type(a) in (torch.Tensor, torch.nn.Parameter)"
FAST = f"""        if {GUARD}:
            y = torch.empty_like(a)
            _fast[(a.numel() // a.shape[-1],)](a, b, y, a.shape[-1], BLOCK=64)
            ctx.save_for_backward(a, b)
            ctx.block = 64
            return y
"""
GUARDED = ORIGINAL.replace(KERNEL, KERNEL + KERNEL.replace("_forward", "_fast")).replace(
    "        n_cols = a.shape[-1]\n        y =", f"{FAST}        n_cols = a.shape[-1]\n        y =", 1
)
ELSEWHERE = "        if n_cols > 1_000_000:\n            y.zero_()\n        ctx.save_for_backward(a, b)\n        ctx.block = block"


def cases() -> list[Proof]:
    plain = [proof for proof in proofs("reglu") if proof.case.content is Content.ordinary and not proof.case.is_empty]
    plain = [proof for proof in plain if not (proof.case.measured or proof.case.gpu or proof.case.compiling)]
    return plain[: LEAST_TURNED + 1]


def judged(text: str) -> Verdict:
    candidate, original = (CandidateSource((SourceFile("candidate.py", each),)) for each in (text, ORIGINAL))
    return judge_by(cases(), candidate, surroundings(), original=original)


def excused(verdict: Verdict) -> list[str | None]:
    return [check.workload for check in verdict.checks if check.name == "otherwise_the_original"]


def one_sided(verdict: Verdict) -> str:
    return "\n".join(evidence.message for evidence in verdict.one_sided)


def test_a_guard_counts_behind_which_the_original_is_left() -> None:
    verdict = judged(GUARDED)
    assert not verdict.evidence
    assert excused(verdict) == [f"`{GUARD}`"] and GUARD not in one_sided(verdict)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("BLOCK=block)", "BLOCK=2 * block)"),
        ("return y\n\n", "return y.clone()\n\n"),
        ("y = torch.empty_like(a)\n        block", "block"),
    ],
    ids=["other settings", "another operator", "an error"],
)
def test_no_guard_counts_behind_which_something_else_is_done(before: str, after: str) -> None:
    head, _, tail = GUARDED.partition(FAST)
    text = f"{head}{FAST}{tail.replace(before, after, 1)}"
    assert text != GUARDED
    verdict = judged(text)
    assert not excused(verdict) and GUARD in one_sided(verdict)


def test_what_is_decided_behind_a_guard_alone_is_demanded() -> None:
    verdict = judged(GUARDED.replace("        ctx.save_for_backward(a, b)\n        ctx.block = block", ELSEWHERE, 1))
    assert excused(verdict) and "`n_cols > 1000000` was always false" in one_sided(verdict)


def test_a_guard_counts_that_some_cases_alone_come_to() -> None:
    plain = f"a.is_contiguous() and b.is_contiguous() and {GUARD}"
    verdict = judged(GUARDED.replace(f"if {GUARD}:", f"if {plain}:"))
    assert not verdict.evidence
    assert f"`{GUARD}`" in excused(verdict) and GUARD not in one_sided(verdict)


def test_a_guard_counts_that_begins_where_a_longer_condition_does() -> None:
    known = f"all(type(each) in (torch.Tensor, torch.nn.Parameter) for each in (a, b)) and {GUARD} and {GUARD.replace('a', 'b', 1)}"
    verdict = judged(GUARDED.replace(f"if {GUARD}:", f"if {known}:"))
    assert not verdict.evidence
    assert len(excused(verdict)) >= 4 and GUARD not in one_sided(verdict)


def test_what_leaves_the_language_behind_a_guard_ends_no_later_call() -> None:
    """As a way to have no call at the size of a workload: each would raise what the turned one raised."""
    head, _, tail = GUARDED.partition(FAST)
    text = f"{head}{FAST}{tail.replace('        y = torch.empty_like(a)', '        y = torch.relu(a)', 1)}"
    (case, *_) = cases()
    candidate = CandidateSource((SourceFile("candidate.py", text),))
    line = next(number for number, each in enumerate(text.splitlines(), 1) if GUARD in each)
    call = make_call(case, poison=True, tolerant=True)
    with loaded("candidate", candidate, case.form, surroundings()) as session:
        with pytest.raises(ChildError):
            place = "candidate.py", line, 11, False, f"`{GUARD}`"
            session.call(TurnDecision(call.call, place), call.tensors)
        plain = make_call(case, poison=True)
        assert session.call(RunCase(plain.call), plain.tensors).message.launched
