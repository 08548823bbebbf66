"""No honest kernel is accused of anything, from the request to the verdict."""

from __future__ import annotations

import pytest

from gpu_runner import verify
from gpu_runner.contracts import Status, VerifyRequest
from tests.cheats.trial import HERE, source, surroundings
from tests.problems import problem_source

HONEST = sorted(path.stem for path in (HERE / "honest").glob("*.py"))


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.slow
def test_an_honest_kernel_passes(name: str) -> None:
    symbol = "ModelNew" if name.startswith("kernelbench") else "candidate"
    request = VerifyRequest(problem_source(name), source(HERE / "honest" / f"{name}.py", symbol))
    verdict = verify.run(request, surroundings())
    assert verdict.evidence == ()
    assert verdict.status is Status.passed
    assert verdict.deterministic is True
    assert verdict.seeds >= 5
    assert verdict.kernels
    assert all(check.passed for check in verdict.checks)
