"""What CPython carries out must leave the trail of what was evaluated, in every case and not only in the one that is compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import triton

from gpu_runner import verify
from gpu_runner.child import candidate
from gpu_runner.child.handlers import ChildState
from gpu_runner.contracts import CandidateSource, SourceFile, Status, Verdict, VerifyRequest
from gpu_runner.errors import ChildError
from gpu_runner.messages import CallForm, CaseTrail, LeaveTrail, SentCall, TrailEvent
from gpu_runner.program.log import Log
from gpu_runner.program.objects import Violation
from gpu_runner.program.trail import Trail
from gpu_runner.session import ChildReply
from gpu_runner.verify.cases import Case
from gpu_runner.verify.judge import _other_trail
from gpu_runner.verify.peer import NO_PEER
from gpu_runner.verify.proof import ChildCall, Proof
from tests.cheats.trial import surroundings
from tests.honest.table import KERNELS
from tests.problems import problem_source

CALL = SentCall(CallForm("reference"), {}, (), (), backward=False)
PLAIN = (KERNELS / "reglu.py").read_text()


def judged(text: str) -> Verdict:
    source = CandidateSource((SourceFile("candidate.py", text),))
    return verify.run(VerifyRequest(problem_source("reglu"), source, dtypes=("float32",)), surroundings())


@pytest.mark.long  # a whole verdict; in `make test` trails are compared below
def test_what_cpython_alone_does_is_seen_where_no_compared_case_goes() -> None:
    # `Optional[int] == Optional[int]` stands for whatever the evaluator and CPython do not agree on.
    # Values are compared of smaller cases; calls at scale leave no trail.
    head = "import typing\n\nONE = typing.Optional[int]\nOTHER = typing.Optional[int]\n\n\n"
    only_there = "n_cols - (ONE == OTHER and a.numel() > 20000)"
    text = head + PLAIN.replace("n_cols, BLOCK=", f"{only_there}, BLOCK=", 1)
    assert text != head + PLAIN
    verdict = judged(text)
    assert verdict.status is Status.unproved
    assert "the launch of" in verdict.evidence[0].message
    assert "is given something else (line " in verdict.evidence[0].message


def test_host_code_may_call_so_many_of_torchs_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_runner.program.log.MOST_OPERATORS", 5)
    log = Log(lambda: ("candidate.py", 1))
    value = torch.ones(4)
    with log:
        for run in ("first", "second"):
            log.begin(run)
            for _ in range(5):
                value = value.view_as(value)
        with pytest.raises(Violation) as caught:
            value.view_as(value)
    assert caught.value.rule == "endless"


def test_what_raises_without_its_kernels_and_with_them_leaves_no_trail(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bool] = []

    def refused(*_: object, dry: bool) -> dict[str, object]:
        tried.append(dry)
        raise RuntimeError("too wide")

    monkeypatch.setattr(candidate, "_trail", refused)
    with pytest.raises(RuntimeError):
        candidate.leave_trail(ChildState(Path(), Path(), gpu=False), LeaveTrail(CALL), [])
    assert tried == [True, False]


class Child:
    """Stands for the child that imports a candidate."""

    def __init__(self, trail: CaseTrail | ChildError) -> None:
        self._trail = trail

    def call(self, *_: object) -> ChildReply[CaseTrail]:
        if isinstance(self._trail, ChildError):
            raise self._trail
        return ChildReply(self._trail)


MAY_RAISE = Case("around a constant", (("T", 3),), "float32", 5, may_raise=True)
EMPTY = Case("no rows", (("T", 0),), "float32", 5, may_raise=True)


def said(child: Child, trail: CaseTrail | None, case: Case = MAY_RAISE) -> str | None:
    proof = Proof(case, CallForm("reference", ()), {}, {}, (), ())
    return _other_trail(child, proof, NO_PEER, ChildCall(CALL), trail)  # type: ignore[arg-type]


def test_what_raises_where_it_is_evaluated_must_raise_where_it_is_imported() -> None:
    there = CaseTrail((TrailEvent("`empty`", "candidate.py", 3, "aa"),), "bb")
    assert said(Child(there), None) == "it raises where it is evaluated, and runs where it is imported."
    assert said(Child(ChildError("ValueError", "odd")), None) is None
    with pytest.raises(ChildError):
        said(Child(ChildError("IndexError", "gone")), None)
    assert said(Child(ChildError("ZeroDivisionError", "by zero")), None, EMPTY) is None
    with pytest.raises(ChildError):
        said(Child(ChildError("Violation", "beyond", verdict=("out_of_bounds", None))), None, EMPTY)


def test_the_first_other_event_is_named_with_its_line() -> None:
    same = TrailEvent("`empty`", "candidate.py", 3, "aa")
    there = CaseTrail((same, TrailEvent("`view`", "candidate.py", 4, "cc")), "bb")
    assert said(Child(there), CaseTrail((same,), "bb")) is None
    assert said(Child(there), CaseTrail((same,), "dd")) == "`view` comes in place of nothing (line 4 of candidate.py)."
    other = TrailEvent("`view`", "candidate.py", 4, "ee")
    assert (
        said(Child(there), CaseTrail((same, other), "dd")) == "`view` is given something else (line 4 of candidate.py)."
    )


def test_what_an_autotuner_tries_is_no_part_of_the_trail() -> None:
    def kernel(x: int) -> None:
        pass

    def tuned(tried: int) -> Log:
        log = Log(lambda: ("candidate.py", 3))
        settings = [triton.Config({"BLOCK": 1}), triton.Config({"BLOCK": 2})]
        log.tuned(kernel, settings, [7], lambda: [log.launch(kernel, (n,), [n], int) for n in range(tried)])
        return log

    # By its times it takes one setting here, and another one there.
    one, other = tuned(1), tuned(3)
    assert (one.launched, other.launched) == ({"kernel": 1}, {"kernel": 3})
    assert one.trail.left() == other.trail.left()


DECIDES: dict[str, Callable[[], object]] = {
    "the least": lambda: torch.tensor([7, 9]).min(),
    "a comparison": lambda: torch.full((2,), 7) > torch.arange(2),
    "a quotient": lambda: (torch.full((2,), 7.0) / 9).to(torch.int64),
    "a number read back": lambda: torch.tensor(7).item(),
}


@pytest.mark.parametrize("name", DECIDES)
def test_tensors_of_numbers_decide_nothing(name: str) -> None:
    with Log(lambda: ("candidate.py", 3)), pytest.raises(Violation, match="numbers of its own by torch"):
        DECIDES[name]()


def test_tensors_of_inputs_may_be_read() -> None:
    x = torch.tensor([7, 9])
    with Log(lambda: ("candidate.py", 3)) as log:
        log.is_input(x, "x")
        assert x.ne(9).sum().item() == 1


def test_what_is_read_of_a_kernel_is_rounded_elsewhere_on_another_device() -> None:
    def left(value: float, *, has_devices: bool) -> str:
        trail = Trail(has_devices=has_devices)
        trail.operator("_local_scalar_dense.default", ("candidate.py", 3), ((torch.ones(1),), {}), value)
        return trail.left().whole

    assert left(0.1, has_devices=False) == left(0.1 + 1e-9, has_devices=False)
    assert left(0.1, has_devices=True) != left(0.1 + 1e-9, has_devices=True)
    assert left(1, has_devices=False) != left(2, has_devices=False)
