"""What is decided where nothing is judged is not seen: while a child compiles ahead, and in a case that ends with an error."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_runner.contracts import CandidateSource, SourceFile, parse_problem
from gpu_runner.errors import ChildFailed
from gpu_runner.messages import RunCase, WarmUp
from gpu_runner.program.coverage import BOTH, FAILED
from gpu_runner.verify.answer import expecting, read_answer
from gpu_runner.verify.opening import loaded
from gpu_runner.verify.proof import make_call
from gpu_runner.verify.truth import blank
from tests.cheats.trial import proofs, surroundings
from tests.honest.table import source_of
from tests.problems import problem_source

DIVIDES = "        if a.shape[1] % a.shape[0] == 0:\n            b = b * 1\n"


def test_what_is_decided_while_warming_up_was_never_judged() -> None:
    """A size that only the halved rows of a workload meet, such as one that divides the columns."""
    text = (
        source_of("reglu")
        .files[0]
        .text.replace("        a, b = a.contiguous()", f"{DIVIDES}        a, b = a.contiguous()")
    )
    candidate = CandidateSource((SourceFile("candidate.py", text),))
    judged = next(proof for proof in proofs("reglu") if proof.case.size_of["I"] % max(1, proof.case.size_of["T"]))
    square = replace(judged.case, sizes=(("T", 8), ("I", 64)), may_raise=False)
    problem = parse_problem(problem_source("reglu"))
    call, own = make_call(blank(problem, judged, square), poison=True), make_call(judged, poison=True)
    with loaded("candidate", candidate, judged.form, surroundings()) as session:
        session.call(WarmUp(call.call), call.tensors)
        answer = read_answer(session.call(RunCase(own.call), own.tensors, check=expecting(judged)))
    seen = {outcome for decision, outcome in answer.decisions.items() if "== 0" in decision.text}
    assert seen == {FAILED}


def test_what_is_decided_in_a_case_that_may_fail_counts_only_where_it_does_not() -> None:
    """As where Triton's interpreter, beside a GPU, lacks what one branch of a kernel calls."""
    line = "        a = tl.load(a_ptr + row + cols, mask=mask, other=0.0)\n"
    text = source_of("reglu").files[0].text
    spoilt = text.replace(line, f"{line}        if tl.max(a) > 1000.0:\n            tl.static_assert(n_cols < 0)\n", 1)
    candidate = CandidateSource((SourceFile("candidate.py", spoilt),))
    judged = next(proof for proof in proofs("reglu") if not proof.uses and proof.has_backward)
    far = replace(judged, laid={name: replace(one, raw=one.raw * 0 + 2000.0) for name, one in judged.laid.items()})
    seen = {}
    for optional in (False, True):
        own, failing = make_call(judged), make_call(far)
        with loaded("candidate", candidate, judged.form, surroundings()) as session:
            session.call(RunCase(own.call), own.tensors, check=expecting(judged))
            with pytest.raises(ChildFailed):
                session.call(RunCase(failing.call, optional), failing.tensors, check=expecting(far))
            answer = read_answer(session.call(RunCase(own.call), own.tensors, check=expecting(judged)))
        seen[optional] = {outcome for decision, outcome in answer.decisions.items() if "1000" in decision.text}
    assert seen == {False: {BOTH}, True: {FAILED}}
