"""No honest candidate is accused of anything, from the request to the verdict."""

from __future__ import annotations

import pytest

from gpu_runner import verify
from gpu_runner.contracts import Status, VerifyRequest
from tests.cheats.trial import surroundings
from tests.honest.table import HONEST, KERNELS, problem_of, source_of

NAMES = sorted(HONEST)
# `make test` judges every sixteenth by name in a few cases; the marker `long` has all of them judged in every case.
FEW = NAMES[::16]


def test_every_candidate_has_a_row_and_every_row_a_candidate() -> None:
    there = {path.stem for path in KERNELS.iterdir() if not path.name.startswith("__")}
    assert there == set(HONEST)
    assert len(HONEST) >= 64


@pytest.mark.parametrize("name", FEW)
def test_an_honest_candidate_passes_a_quick_look(name: str) -> None:
    assert_passes(name, VerifyRequest(problem_of(name), source_of(name), quick=True))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_honest_candidate_passes(name: str) -> None:
    assert_passes(name, VerifyRequest(problem_of(name), source_of(name)))


def assert_passes(name: str, request: VerifyRequest) -> None:
    verdict = verify.run(request, surroundings())
    assert verdict.evidence == ()
    assert verdict.status is Status.passed
    assert verdict.kernels
    assert all(check.passed for check in verdict.checks)
    if HONEST[name].deterministic:
        assert verdict.deterministic is True
