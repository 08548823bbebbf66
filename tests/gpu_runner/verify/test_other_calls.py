"""Beside an original a candidate is called with other constants than a layout's call has."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import CandidateSource, SourceFile, Status, Verdict, parse_problem
from gpu_runner.verify.cases import Case, MemoryLayout
from gpu_runner.verify.draws import Draws
from gpu_runner.verify.one_sided import touched_elsewhere
from gpu_runner.verify.other_calls import _words, _written, called_otherwise
from gpu_runner.verify.proof import Proof
from gpu_runner.verify.truth import asked_of, form_of
from tests.cheats.trial import surroundings

PROBLEM = parse_problem("""
import torch

def reference(x: torch.Tensor) -> torch.Tensor:
    return x * 2

INPUTS = {"x": {"dims": "T H", "grad": False}}
WORKLOADS = [{"T": 64, "H": 64}]
""")
FORM = SourceFile(
    "form.py", "from scaled import scale\n\n\ndef candidate(x):\n    return scale(x, 2.0, 'sum', None, False)\n"
)
ORIGINAL = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(y_ptr, x_ptr, factor, n_elements, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = places < n_elements
    tl.store(y_ptr + places, tl.load(x_ptr + places, mask=mask) * factor, mask=mask)


def scale(x, factor, mode, bias, negative):
    if mode not in ("sum", "mean"):
        raise ValueError(mode)
    if bias is not None:
        raise ValueError("a bias is not supported")
    x = x.contiguous()
    y = torch.empty_like(x)
    factor = -factor if negative else factor
    scale_kernel[(triton.cdiv(x.numel(), 256),)](y, x, factor, x.numel(), BLOCK=256)
    return y
"""


def source(library: str) -> CandidateSource:
    return CandidateSource((SourceFile("scaled.py", library), FORM), module="form")


def proofs() -> list[Proof]:
    form = form_of(PROBLEM)
    assert form is not None
    case = Case("drawn", (("T", 6), ("H", 40)), "float32", 5, layout=MemoryLayout.dense)
    return [asked_of(PROBLEM, form, case)]


def verdict(library: str) -> Verdict:
    given = Verdict(Status.passed), source(library), source(ORIGINAL), proofs(), [ORIGINAL], Draws.fresh()
    return called_otherwise(*given, surroundings())


def test_a_kernel_that_is_the_original_s_in_all_but_its_launch_passes_with_other_constants() -> None:
    found = verdict(ORIGINAL.replace("256", "512"))
    assert found.status is Status.passed
    said = " ".join(check.workload for check in found.checks)
    assert "in place of `2.0`" in said
    assert "`'mean'` in place of `'sum'`" in said
    assert "`True` in place of `False`" in said
    assert "`None`" not in said  # which the original refuses


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("x, factor, x.numel()", "x, 2.0, x.numel()", "in place of `2.0`"),
        ("-factor if negative else factor", "factor", "`True` in place of `False`"),
        ('not in ("sum", "mean")', '!= "sum"', "`'mean'` in place of `'sum'`"),
        ("factor = -factor if", "while negative:\n        pass\n    factor = -factor if", "`True` in place of `False`"),
        (
            "    if bias is not None",
            "    if negative:\n        open('x')\n    if bias is not None",
            "`True` in place of `False`",
        ),
    ],
)
def test_what_serves_the_layout_s_call_alone_proves_nothing(old: str, new: str, said: str) -> None:
    found = verdict(ORIGINAL.replace(old, new))
    assert (found.status, found.rule) == (Status.unproved, "called_otherwise")
    assert said in found.evidence[0].message
    assert "it differs from the original: " in found.evidence[0].message


def test_each_constant_has_another_value_once_and_an_argument_that_is_none_of_them_stays() -> None:
    text = "def candidate(x, eps=1e-6):\n    return kernel.apply(x, eps, -100, x.shape[1], mode='llama')[0]\n"
    written, calls = _written(text, "candidate", ["llama", "gemma", "none"], Draws.fresh().stream("a"))
    assert written.startswith(text)
    assert len(calls) == 5
    assert all(f"def {call.symbol}(x, eps=1e-06):" in written for call in calls)
    assert written.count("x.shape[1]") == 6
    assert [written.count(f")[{place}]") for place in range(3)] == [4, 1, 1]
    assert {call.change.partition(" in place of ")[2] for call in calls} == {"`-100`", "`'llama'`", "`0`"}


def test_words_are_those_that_the_original_asks_for() -> None:
    assert set(_words(['if mode == "a" or mode in ("b", "c"):\n    table = {"d": 1}["d"]\n    say("e")\n'])) == {
        *"abcd"
    }


OTHER = """

def negated(x):
    y = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 128),)](y, x, -1.0, x.numel(), BLOCK=128)
    return y
"""


def test_what_no_call_reaches_and_hangs_on_what_was_changed_is_named() -> None:
    before = ORIGINAL + OTHER
    changed = before.replace("* factor, mask=mask)", "* 2.0, mask=mask)")
    given = Verdict(Status.passed), source(changed), source(before), proofs(), [before], Draws.fresh()
    found = called_otherwise(*given, surroundings())
    assert (found.status, found.rule) == (Status.unproved, "called_otherwise")
    assert found.evidence[0].message.startswith(
        "`negated` depends on what was changed, and no call of the problem reaches it."
    )


@pytest.mark.parametrize(
    ("old", "new", "touched"),
    [
        ("BLOCK=256", "BLOCK=512", []),  # of `scale` alone
        ("tl.store(y_ptr", "tl.store(0 + y_ptr", ["negated"]),
        ("-1.0", "-2.0", ["negated"]),
        ("def negated", "def other", ["negated"]),
        ("def scale(", "def added(x):\n    return scale_kernel\n\n\ndef scale(", []),
    ],
)
def test_a_definition_is_touched_by_itself_or_by_what_it_names(old: str, new: str, touched: list[str]) -> None:
    before = ORIGINAL + OTHER
    text = before.replace(old, new)
    assert text != before
    assert touched_elsewhere([SourceFile("scaled.py", text)], [before], {"scale"}) == touched
