"""What the original does is allowed to the candidate that shall take its place, and nothing more."""

from __future__ import annotations

import functools

import pytest

from gpu_runner import verify
from gpu_runner.contracts import Status, Verdict, VerifyRequest
from gpu_runner.program.imports import Library
from gpu_runner.verify.judge import judge_beside, judge_by
from gpu_runner.verify.original import OriginalRuns, learn
from gpu_runner.verify.proof import Proof
from gpu_runner.verify.screen import Objection, screen
from tests.cheats.table import BESIDE
from tests.cheats.trial import HERE, seen_through, source, surroundings
from tests.problems import problem_source

FOLDER = HERE / "beside"
HONEST = ("original", "better")
MEMORY = {
    "second_backward",
    "saved",
    "deterministic",
}  # what gradients written over inputs are seen by, each where it is drawn


def few_proofs() -> tuple[Proof, ...]:
    return seen_through("reglu")


@functools.cache
def learned() -> OriginalRuns:
    return learn(source(FOLDER / "original.py"), few_proofs(), surroundings())


@functools.cache
def beside(name: str) -> Verdict:
    frame = Verdict(Status.passed)
    return judge_beside(learned(), source(FOLDER / f"{name}.py"), surroundings(), frame)


def screened(name: str) -> Objection | None:
    before = {"candidate.py": (FOLDER / "original.py").read_text()}
    return screen(source(FOLDER / f"{name}.py"), Library({}, (".",)), before)


def test_every_file_is_named() -> None:
    assert sorted([*BESIDE, *HONEST]) == sorted(path.stem for path in FOLDER.glob("*.py"))


def test_what_stands_passes_beside_itself_and_its_freedoms_are_named() -> None:
    verdict = beside("original")
    assert verdict.evidence == ()
    assert verdict.status is Status.passed
    assert set(verdict.overwrites) == {"a", "b"}
    assert {"honest", "second_backward", "values"} <= set(verdict.allowances)


def test_a_request_starts_both_children_before_their_turn_and_judges_the_same() -> None:
    original, better = source(FOLDER / "original.py"), source(FOLDER / "better.py")
    request = VerifyRequest(problem_source("reglu"), better, quick=True, dtypes=("float32",), original=original)
    verdict = verify.run(request, surroundings())
    assert verdict.evidence == ()
    assert verdict.status is Status.passed
    assert set(verdict.overwrites) <= {"a", "b"}
    assert set(verdict.allowances) <= MEMORY


def test_what_stands_would_not_pass_by_itself() -> None:
    assert judge_by(few_proofs(), source(FOLDER / "original.py"), surroundings()).status is not Status.passed


def test_a_successor_that_is_right_needs_no_allowance_but_for_the_memory() -> None:
    verdict = beside("better")
    assert verdict.evidence == ()
    assert verdict.status is Status.passed
    assert set(verdict.allowances) <= MEMORY


@pytest.mark.parametrize("name", sorted(BESIDE))
def test_the_screen_drops_only_what_stands_in_the_original(name: str) -> None:
    objection = screened(name)
    expected = BESIDE[name].screen
    assert (None if objection is None else (objection.status, objection.rule)) == expected


@pytest.mark.parametrize("name", HONEST)
def test_the_screen_accuses_no_honest_successor(name: str) -> None:
    assert screened(name) is None


@pytest.mark.parametrize("name", sorted(BESIDE))
def test_beside_the_original_the_run_ends_in_the_named_status(name: str) -> None:
    verdict = beside(name)
    assert (verdict.status, verdict.rule) in BESIDE[name].run
