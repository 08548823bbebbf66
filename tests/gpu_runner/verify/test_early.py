"""A child that starts before its turn decides nothing: its turn gives what a fresh child would have given."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from gpu_runner.context import RunContext
from gpu_runner.contracts import CandidateSource, Limits, SourceFile, parse_problem
from gpu_runner.contracts.envelope import Isolation
from gpu_runner.errors import ChildError
from gpu_runner.messages import CallForm, LoadCandidate, OpenDevice, RunCase, WarmUp
from gpu_runner.program.load import EITHER, EVALUATED
from gpu_runner.scratch import ScratchError
from gpu_runner.verify import opening
from gpu_runner.verify.cases import Case
from gpu_runner.verify.early import Early, keeps_apart
from gpu_runner.verify.opening import ORIGINAL, loaded
from gpu_runner.verify.proof import Proof, make_call
from gpu_runner.verify.truth import asked_of, form_of
from tests.honest.table import KERNELS
from tests.problems import problem_source

HANGS = "import time\n\ntime.sleep(600)\n"
RAISES = "raise RuntimeError('not here')\n"
HONEST = (KERNELS / "reglu.py").read_text()


def source(text: str) -> CandidateSource:
    return CandidateSource((SourceFile("candidate.py", text),))


def surroundings(folder: Path) -> RunContext:
    return RunContext(folder, Limits(step_s=100.0))


@pytest.fixture(scope="module")
def warming() -> Proof:
    problem = parse_problem(problem_source("reglu"))
    form = form_of(problem)
    assert form is not None
    return asked_of(problem, form, Case("small", (("T", 3), ("I", 5)), "float32", 1))


def test_where_the_sandbox_keeps_children_apart_a_turn_is_in_the_child_that_began_early(
    tmp_path: Path, warming: Proof
) -> None:
    call = make_call(warming, poison=True)
    with Early(source(HONEST), surroundings(tmp_path), 1, warming) as early, early.turn(warming.form) as session:
        assert keeps_apart(session.isolation)
        assert session.call(RunCase(call.call), call.tensors).message.values


def test_without_a_form_the_code_waits_for_its_turn(tmp_path: Path, warming: Proof) -> None:
    with Early(source(RAISES), surroundings(tmp_path), 1, None) as early:
        turn = early.turn(warming.form)
        with pytest.raises(ChildError, match="not here"), turn:
            pass


def test_what_keeps_the_code_from_loading_is_said_in_its_turn(tmp_path: Path, warming: Proof) -> None:
    with Early(source(RAISES), surroundings(tmp_path), 1, warming) as early:
        time.sleep(0.1)
        with pytest.raises(ChildError, match="not here"), early.turn(warming.form):
            pass


def test_a_child_whose_turn_never_comes_is_ended_whatever_it_does(tmp_path: Path, warming: Proof) -> None:
    start = time.monotonic()
    with Early(source(HANGS), surroundings(tmp_path), 1, warming):
        pass
    assert time.monotonic() - start < 60


def test_files_that_cannot_be_placed_are_told_in_its_turn(tmp_path: Path, warming: Proof) -> None:
    bad = CandidateSource((SourceFile("../candidate.py", HONEST),))
    with Early(bad, surroundings(tmp_path), 1, warming) as early:
        turn = early.turn(warming.form)
        with pytest.raises(ScratchError, match="outside"), turn:
            pass


def test_a_warm_up_runs_forward_and_backward_and_gives_nothing_back(tmp_path: Path, warming: Proof) -> None:
    honest = source(HONEST)
    call = make_call(warming, poison=True)
    with loaded("candidate", honest, warming.form, surroundings(tmp_path)) as session:
        reply = session.call(WarmUp(call.call), call.tensors)
        assert (reply.message, reply.tensors) == (None, ())


def test_an_error_in_the_warm_up_does_not_end_the_child(tmp_path: Path, warming: Proof) -> None:
    call = make_call(warming, poison=True)
    fails = "def candidate(a, b):\n    raise RuntimeError('each call fails')\n"
    with loaded("candidate", source(fails), warming.form, surroundings(tmp_path)) as session:
        with pytest.raises(ChildError, match="each call fails"):
            session.call(WarmUp(call.call), call.tensors)
        session.call(OpenDevice())
        with pytest.raises(ChildError, match="each call fails"):
            session.call(RunCase(call.call), call.tensors)


@pytest.mark.parametrize(
    ("levels", "apart"),
    [((Isolation.process,), False), ((Isolation.process, Isolation.namespaces), True)],
)
def test_code_runs_early_only_where_it_cannot_reach_the_other_children(
    levels: tuple[Isolation, ...], apart: bool
) -> None:
    assert keeps_apart(levels) is apart


class Likewise:
    """Makes the same case again, and counts how often."""

    def __init__(self, warming: Proof) -> None:
        self.warming = warming
        self.made = 0

    def __call__(self) -> Proof:
        self.made += 1
        return self.warming

    def wait_until(self, made: int) -> None:
        deadline = time.monotonic() + 60
        while self.made < made:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_cases_that_are_named_later_are_run_before_its_turn(tmp_path: Path, warming: Proof) -> None:
    likewise = Likewise(warming)
    call = make_call(warming, poison=True)
    with Early(source(HONEST), surroundings(tmp_path), 1, warming) as early:
        for _ in range(4):
            early.also(likewise)
        likewise.wait_until(4)
        with early.turn(warming.form) as session:
            assert session.call(RunCase(call.call), call.tensors).message.values
    assert likewise.made == 4


def test_what_is_named_once_its_turn_has_come_is_left_out(tmp_path: Path, warming: Proof) -> None:
    likewise = Likewise(warming)
    with Early(source(HONEST), surroundings(tmp_path), 1, warming) as early, early.turn(warming.form):
        early.also(likewise)
    assert likewise.made == 0


@pytest.mark.parametrize(("name", "mode"), [(ORIGINAL, EITHER), (None, EVALUATED)])
def test_a_candidate_is_evaluated_and_only_an_original_may_be_imported_in_its_place(
    name: str | None, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[LoadCandidate] = []

    class Child:
        def call(self, request: LoadCandidate) -> None:
            told.append(request)

    monkeypatch.setattr(opening, "opened", lambda *_: nullcontext(Child()))
    with opening.loaded("candidate", CandidateSource(()), CallForm("reference", ()), RunContext(Path()), name):
        assert [request.mode for request in told] == [mode]
