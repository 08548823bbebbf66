"""A dtype in which an original gives no result is named: the candidate is not proved there."""

from __future__ import annotations

from gpu_runner.contracts import CandidateSource, SourceFile, parse_problem
from gpu_runner.verify.cases import Case
from gpu_runner.verify.judge import judge_by, prove
from tests.cheats.trial import source_of_problem, surroundings
from tests.honest.table import source_of


def test_a_dtype_that_an_original_refuses_is_named() -> None:
    problem = parse_problem(source_of_problem("reglu"))
    cases = [Case("drawn", (("T", 5), ("I", 40)), dtype, 3) for dtype in ("float32", "bfloat16")]
    text = source_of("reglu").files[0].text
    refusing = text.replace("        n_cols =", "        assert a.dtype == torch.float32\n        n_cols =", 1)
    assert refusing != text
    candidate, original = (CandidateSource((SourceFile("candidate.py", one),)) for one in (text, refusing))
    proofs, _ = prove(problem, cases, surroundings())
    verdict = judge_by(proofs, candidate, surroundings(), original=original)
    lost = [check.workload for check in verdict.checks if check.name == "dtype_left_out"]
    assert lost == ["bfloat16, in no case of which the original gives a result"]
    both = judge_by(
        proofs, candidate, surroundings(), original=CandidateSource((SourceFile("candidate.py", text + "\n"),))
    )
    assert not [check for check in both.checks if check.name == "dtype_left_out"]
