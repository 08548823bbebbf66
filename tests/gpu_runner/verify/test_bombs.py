"""A candidate that answers with too much, or is written to break its reader, gets a status of its own; the host is not blamed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from gpu_runner import verify
from gpu_runner.codec import FrameKind, Shape
from gpu_runner.context import RunContext
from gpu_runner.contracts import CandidateSource, Limits, SourceFile, Status, VerifyRequest, parse_problem, to_json
from gpu_runner.errors import AnswerRefused, ProtocolError
from gpu_runner.messages import CallForm, RunCase, SentCall, TrailEvent, ValueForm
from gpu_runner.numerics.compare import Truth
from gpu_runner.reply import message_of
from gpu_runner.session import ChildReply, _of_frame
from gpu_runner.verify import judge
from gpu_runner.verify.answer import CaseAnswer, expecting, read_answer
from gpu_runner.verify.cases import Case
from gpu_runner.verify.examine import AnsweredCase
from gpu_runner.verify.finding import failure_of
from gpu_runner.verify.proof import Expected, Proof, make_call
from gpu_runner.verify.truth import asked_of, form_of

PROBLEM = """import torch

INPUTS = {"x": {"dims": "N", "grad": False}}
WORKLOADS = [{"N": 70}]


def reference(x):
    return x + 1
"""
CONTEXT = RunContext(Path(tempfile.gettempdir()), Limits(time_s=120, step_s=60))

REQUEST = RunCase(SentCall(CallForm("reference"), {}, (), (), backward=False))


def proof() -> Proof:
    problem = parse_problem(PROBLEM)
    form = form_of(problem)
    assert form is not None
    asked = asked_of(problem, form, Case("one", (("N", 70),), "float32", 7))
    truth = Truth(torch.zeros(70, dtype=torch.float64), torch.zeros(70))
    return replace(asked, outputs=(Expected("output 0", truth, (70,), (1,), "float32"),))


def honest(asked: Proof) -> tuple[dict[str, Any], list[Shape]]:
    """The metadata and the shapes of an honest answer to one case."""
    entries = [
        to_json(ValueForm(f"{run}/output 0", "Tensor", place, (70,), (1,), "float32", "cpu"))
        for place, run in enumerate(("first", "second"))
    ]
    body: dict[str, Any] = {
        "launched": {"kernel": 2}, "launches": {"first": 1}, "work": [], "unwritten": {}, "saved_changed": 0, "shared": [],
        "changed": [], "imported": "", "processors": 0, "asked": False, "broken": 0, "untouched": [], "touched": [],
        "ordering": [],
        "trail": {"events": [], "whole": ""},
        "decisions": [], "kernels": {}, "failed": {}, "overwritten": [], "values": entries, "raw": ["x"], "raw_upstream": 0,
    }  # fmt: skip
    raw = asked.laid["x"].raw
    shapes = [Shape("float32", (70,), (1,), 0, 280)] * 2 + [
        Shape("float32", tuple(raw.shape), (1,), 0, raw.numel() * 4)
    ]
    return body, shapes


def announced(body: dict[str, Any], shapes: list[Shape]) -> None:
    check = _of_frame(REQUEST, expecting(proof()), [])
    assert check is not None
    check(FrameKind.answer, {"reply": body}, tuple(shapes))


def answer(body: dict[str, Any]) -> CaseAnswer:
    return read_answer(ChildReply(message_of(REQUEST, {"reply": body})))


def test_an_honest_answer_is_expected() -> None:
    body, shapes = honest(proof())
    announced(body, shapes)


def _twice(body: dict, shapes: list) -> None:
    body["values"][1]["label"] = body["values"][0]["label"]


def _unknown_label(body: dict, shapes: list) -> None:
    body["values"][0]["label"] = "first/secret"


def _long_label(body: dict, shapes: list) -> None:
    body["values"][0]["label"] = "first/" + "x" * 10**7


def _unknown_run(body: dict, shapes: list) -> None:
    body["values"][0]["label"] = "third/output 0"


def _place_beyond(body: dict, shapes: list) -> None:
    body["values"][0]["tensor"] = 10**9


def _same_place(body: dict, shapes: list) -> None:
    body["values"][1]["tensor"] = 0


def _more_tensors(body: dict, shapes: list) -> None:
    shapes.append(shapes[0])


def _no_inputs(body: dict, shapes: list) -> None:
    body["raw"] = []


def _larger_input(body: dict, shapes: list) -> None:
    shapes[2] = replace(shapes[2], shape=(2**30,), nbytes=2**32)


def _values_no_list(body: dict, shapes: list) -> None:
    body["values"] = 7


def _label_no_text(body: dict, shapes: list) -> None:
    body["values"][0]["label"] = 7


@pytest.mark.parametrize(
    "change",
    [
        _twice, _unknown_label, _long_label, _unknown_run, _place_beyond, _same_place, _more_tensors, _no_inputs,
        _larger_input, _values_no_list, _label_no_text,
    ],
)  # fmt: skip
def test_an_answer_that_the_runner_never_gives_is_refused_before_its_values(
    change: Callable[[dict, list], None],
) -> None:
    body, shapes = honest(proof())
    change(body, shapes)
    with pytest.raises(ProtocolError):
        announced(body, shapes)


def test_an_output_of_another_shape_and_far_too_large_is_not_read() -> None:
    body, shapes = honest(proof())
    shapes[0] = Shape("float32", (2**17, 2**13), (2**13, 1), 0, 2**32)
    with pytest.raises(AnswerRefused, match=r"output 0 has the shape \(131072, 8192\)") as caught:
        announced(body, shapes)
    assert failure_of(caught.value, "launch", None).status is Status.incorrect_shape


@pytest.mark.parametrize("table", ["launched", "launches", "unwritten", "failed"])
def test_an_answer_with_endless_names_is_refused_and_no_cheat(table: str) -> None:
    body, shapes = honest(proof())
    body[table] = {f"kernel {n}": "no" if table == "failed" else 1 for n in range(100_000)}
    with pytest.raises(AnswerRefused) as caught:
        announced(body, shapes)
    assert failure_of(caught.value, "launch", None).status is Status.refused


@pytest.mark.parametrize("number", [float("nan"), float("inf"), None, [], "x" * 5000])
def test_a_count_that_is_no_number_is_no_answer(number: object) -> None:
    body, _ = honest(proof())
    body |= {"values": [], "raw": []}
    assert answer(body).broken == 0
    with pytest.raises(ProtocolError):
        answer(body | {"broken": number})


def test_a_trail_is_bounded_and_of_its_form() -> None:
    body, _ = honest(proof())
    body |= {"values": [], "raw": []}
    event = to_json(TrailEvent("`empty`", None, None, "aa"))
    assert len(answer(body | {"trail": {"events": [event], "whole": "bb"}}).trail.events) == 1
    for wrong in ([event] * 5000, [event | {"digest": 7}], [event | {"line": "x"}], 7):
        with pytest.raises(ProtocolError):
            answer(body | {"trail": {"events": wrong, "whole": "bb"}})


def test_decisions_are_bounded_and_of_their_form() -> None:
    body, _ = honest(proof())
    body |= {"values": [], "raw": []}
    row = ["candidate.py", 7, 4, False, "`n > 31`", 2]
    assert len(answer(body | {"decisions": [row]}).decisions) == 1
    for wrong in ([row] * 5000, [row[:3]], [["candidate.py", "x", 4, False, "`n > 31`", 2]], 7):
        with pytest.raises(ProtocolError):
            answer(body | {"decisions": wrong})
    value = ["candidate.py", 7, 4, True, "`n // 31`", "floor_divide", "2"]
    assert len(answer(body | {"kernels": {"values": [value]}}).decided.values) == 1
    for wrong in ([value] * 20000, [value[:3]], 7):
        with pytest.raises(ProtocolError):
            answer(body | {"kernels": {"values": wrong}})


def test_a_fault_in_comparing_ends_one_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **more: object) -> None:
        raise RuntimeError("The size of tensor a must match the size of tensor b")

    monkeypatch.setattr(judge, "examine", broken)
    examined = judge._examined(AnsweredCase(proof(), object(), "cpu"))  # type: ignore[arg-type]
    assert [finding.status for finding in examined.findings] == [Status.refused]
    assert "must match" in examined.findings[0].evidence.message


BODIES = {
    "elif": "    if x is None:\n        pass\n" + "    elif x is None:\n        pass\n" * 1_500,
    "unary": f"    y = {'-' * 100_000}1\n",
    "attributes": f"    y = x{'.T' * 50_000}\n",
    "terms": f"    y = {'1 + ' * 50_000}1\n",
    "subscripts": f"    y = x{'[0]' * 50_000}\n",
    "lambdas": f"    y = {'lambda: ' * 1_000}1\n",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_candidate_that_breaks_its_reader_is_refused(body: str) -> None:
    source = f"import torch\n\n\ndef candidate(x):\n{body}    return x\n"
    candidate = CandidateSource((SourceFile("candidate.py", source),), "candidate", "candidate")
    verdict = verify.run(VerifyRequest(PROBLEM, candidate), CONTEXT)
    assert verdict.status in (Status.refused, Status.compile_error)
    assert verdict.evidence


@pytest.mark.parametrize("body", ["unary", "terms", "attributes"])
def test_a_problem_that_breaks_its_reader_is_refused(body: str) -> None:
    problem = PROBLEM.replace("    return", f"{BODIES[body]}    return")
    candidate = CandidateSource((SourceFile("candidate.py", "x = 1\n"),), "candidate", "candidate")
    assert verify.run(VerifyRequest(problem, candidate), CONTEXT).status is Status.refused


def test_the_call_of_a_case_is_within_the_bounds_of_a_frame() -> None:
    assert make_call(proof(), poison=True).tensors
