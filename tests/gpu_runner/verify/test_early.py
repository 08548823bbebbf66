"""A child that starts before its turn decides nothing: its turn gives what a fresh child would have given."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from gpu_runner.context import RunContext
from gpu_runner.contracts import CandidateSource, Limits, SourceFile, parse_problem
from gpu_runner.contracts.envelope import Isolation
from gpu_runner.errors import ChildError
from gpu_runner.scratch import ScratchError
from gpu_runner.verify import opening
from gpu_runner.verify.cases import Case
from gpu_runner.verify.early import Early, keeps_apart
from gpu_runner.verify.opening import ORIGINAL, loaded
from gpu_runner.verify.proof import Form, Proof, make_call
from gpu_runner.verify.truth import asked_of, form_of
from tests.cheats.trial import HERE
from tests.honest.table import KERNELS
from tests.problems import problem_source

STAMPED = "import pathlib\npathlib.Path('loaded').write_text('')\n\n\ndef candidate(a, b):\n    return a\n"
HANGS = "import time\n\ntime.sleep(600)\n"
RAISES = "raise RuntimeError('not here')\n"
COUNTS = """import torch

calls = []


def candidate(a, b):
    calls.append(a.shape)
    if len(calls) == 1:
        raise RuntimeError("the first call fails")
    return (a * b).clone()
"""
COUNTED = """import pathlib

import torch


def candidate(a, b):
    with pathlib.Path("calls").open("a") as file:
        file.write(".")
    return a * b
"""
ENDS = COUNTED.replace("import pathlib", "import os\nimport pathlib").replace(
    "    return a * b", "    if pathlib.Path('calls').stat().st_size > 1:\n        os._exit(3)\n    return a * b"
)


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


def test_the_code_is_loaded_before_its_turn(tmp_path: Path, warming: Proof) -> None:
    with Early(source(STAMPED), surroundings(tmp_path), 1, warming) as early:
        time.sleep(0.1)
        with early.turn(warming.form) as session:
            assert session.scratch.read("loaded", 1000) is not None
            assert keeps_apart(session.isolation)


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
    bad = CandidateSource((SourceFile("../candidate.py", STAMPED),))
    with Early(bad, surroundings(tmp_path), 1, warming) as early:
        turn = early.turn(warming.form)
        with pytest.raises(ScratchError, match="outside"), turn:
            pass


def test_a_warm_up_runs_forward_and_backward_and_gives_nothing_back(tmp_path: Path, warming: Proof) -> None:
    honest = source((KERNELS / "reglu.py").read_text())
    call = make_call(warming, poison=True)
    with loaded("candidate", honest, warming.form, surroundings(tmp_path)) as session:
        reply = session.call("warm", call.meta, call.tensors)
        assert (reply.meta, reply.tensors) == ({}, ())


def test_a_warm_up_leaves_nothing_that_a_later_run_may_use(tmp_path: Path, warming: Proof) -> None:
    kept = source((HERE / "forms" / "kept_by_a_class.py").read_text())
    call = make_call(warming, poison=True)
    with loaded("candidate", kept, warming.form, surroundings(tmp_path)) as session:
        session.call("warm", call.meta, call.tensors)
        meta = session.call("run", call.meta, call.tensors).meta
    assert meta["remembered"] > 0


def test_an_error_in_the_warm_up_does_not_end_the_child(tmp_path: Path, warming: Proof) -> None:
    call = make_call(warming, poison=True)
    with loaded("candidate", source(COUNTS), warming.form, surroundings(tmp_path)) as session:
        with pytest.raises(ChildError, match="the first call fails"):
            session.call("warm", call.meta, call.tensors)
        session.call("start", {})
        assert session.call("run", call.meta, call.tensors).meta["values"]


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
    with Early(source(COUNTED), surroundings(tmp_path), 1, warming) as early:
        for _ in range(4):
            early.also(likewise)
        likewise.wait_until(4)
        with early.turn(warming.form) as session:
            written = session.scratch.read("calls", 1000) or b""
    assert len(written) >= 4


def test_what_is_named_once_its_turn_has_come_is_left_out(tmp_path: Path, warming: Proof) -> None:
    likewise = Likewise(warming)
    with Early(source(COUNTED), surroundings(tmp_path), 1, warming) as early, early.turn(warming.form) as session:
        early.also(likewise)
        assert session.scratch.read("calls", 1000) is not None
    assert likewise.made == 0


def test_a_case_that_ends_the_child_gives_its_turn_to_a_fresh_one(tmp_path: Path, warming: Proof) -> None:
    likewise = Likewise(warming)
    with Early(source(ENDS), surroundings(tmp_path), 1, warming) as early:
        early.also(likewise)
        early.also(likewise)
        likewise.wait_until(1)
        with early.turn(warming.form) as session:
            assert session.scratch.read("calls", 1000) is None
    assert likewise.made == 1


@pytest.mark.parametrize(("name", "untimed"), [(ORIGINAL, True), (None, False)])
def test_what_is_judged_by_is_not_tuned_by_time_and_what_is_judged_is(
    name: str | None, untimed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []

    class Child:
        def call(self, method: str, meta: dict[str, Any]) -> None:
            assert method == "load"
            told.append(meta)

    monkeypatch.setattr(opening, "opened", lambda *_: nullcontext(Child()))
    with opening.loaded("candidate", CandidateSource(()), Form("reference", ()), RunContext(Path()), name):
        assert [meta["untimed"] for meta in told] == [untimed]
