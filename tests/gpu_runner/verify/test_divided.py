"""A kernel must take every number that divides, and is told the one at which it is wrong."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest

from gpu_runner import verify
from gpu_runner.context import RunContext
from gpu_runner.contracts import CandidateSource, Multiple, SourceFile, Status, Verdict, VerifyRequest, Workload
from gpu_runner.verify.divided import beyond, divided
from tests.workers.compiler.captured import captured, proposal

SOURCE = proposal("block_scales").source
NUMBERED = SOURCE.replace("n_cols = block\n", "n_cols = 16\n")


def _judged(source: str, *rules: Multiple) -> Verdict:
    candidate = CandidateSource((SourceFile("candidate.py", source),))
    problem = captured("block_scales")[0].source
    request = VerifyRequest(problem, candidate, dtypes=("float32",), quick=True, multiples=rules)
    return verify.run(request, RunContext(Path(tempfile.mkdtemp())))


@pytest.mark.slow
def test_a_kernel_that_holds_the_problems_own_number_fails_where_another_one_divides() -> None:
    assert NUMBERED != SOURCE
    verdict = _judged(NUMBERED, Multiple("H", "block"))
    assert verdict.status is not Status.passed
    assert any("block=" in (evidence.workload or "") for evidence in verdict.evidence)


@pytest.mark.long  # in `make test` honest candidates pass in their own tests
@pytest.mark.slow
def test_a_kernel_of_any_number_passes_and_one_of_the_problems_own_where_no_other_is_said_to_divide() -> None:
    assert _judged(SOURCE, Multiple("H", "block")).status is Status.passed
    assert _judged(NUMBERED).status is Status.passed


def test_two_rules_are_kept_at_once_and_other_sizes_and_scalars_stay() -> None:
    workload = Workload((("T", 8), ("H", 64)), None, (("m", 4), ("eps", 0.5)))
    rules = (Multiple("H", "g * m"), Multiple("T", "m"))
    found = divided((("T", 3), ("H", 19), ("D", 7)), rules, workload, random.Random(1), quick=False)
    assert len(found) == 4
    for sizes, scalars in found:
        known, given = dict(sizes), dict(scalars)
        assert known["D"] == 7 and given["eps"] == 0.5
        assert known["H"] % (given["g"] * given["m"]) == known["T"] % given["m"] == 0
    assert divided((("T", 3),), (), workload, random.Random(1), quick=False) == []


def test_what_divides_goes_beyond_a_constant_too() -> None:
    workload = Workload((("T", 8), ("H", 64)), None, (("block", 16),))
    ((sizes, scalars),) = beyond((("T", 2), ("H", 2)), (Multiple("H", "block"),), workload, 4096, random.Random(1))
    block = dict(scalars)["block"]
    assert isinstance(block, int) and block > 4096
    assert dict(sizes)["H"] % block == 0 and dict(sizes)["T"] == 2
