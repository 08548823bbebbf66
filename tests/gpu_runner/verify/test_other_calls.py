"""Beside an original a candidate is called otherwise than a layout's call does."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

import gpu_runner.verify.other_calls as called
from gpu_runner.contracts import CandidateSource, SourceFile, Status, Verdict, parse_problem
from gpu_runner.verify.call_changes import with_other_calls, words_of
from gpu_runner.verify.cases import Case, MemoryLayout
from gpu_runner.verify.draws import Draws
from gpu_runner.verify.interface import changed_interface, touched_elsewhere
from gpu_runner.verify.judge import prove
from gpu_runner.verify.other_calls import Otherwise, called_otherwise
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


def verdict(library: str, original: str = ORIGINAL, cases: list[Proof] | None = None) -> Verdict:
    given = source(library), source(original), cases or proofs(), [original], Draws.fresh(), surroundings()
    return called_otherwise(*given).added_to(Verdict(Status.passed))


def test_once_they_are_left_no_call_is_made() -> None:
    changed = source(ORIGINAL.replace("factor, mask=mask)", "2.0, mask=mask)"))
    given = changed, source(ORIGINAL), proofs(), [ORIGINAL], Draws.fresh(), surroundings()
    assert called_otherwise(*given, lambda: True) == Otherwise()


def test_what_a_value_is_held_to_is_measured_by_rounding_inputs_and_upstream_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (asked,) = proofs()
    proof = replace(asked, upstream=(asked.laid["x"], None))
    monkeypatch.setattr(called, "make_call", lambda moved, **_: moved)
    moved = called._shaken(proof)
    given = proof.laid["x"].raw
    for other in (moved.laid["x"], moved.upstream[0]):
        assert other is not None
        difference = (other.raw - given).abs()
        assert difference.max() > 0 and bool((difference <= 2.0**-9 * given.abs() * 1.01).all())
    assert moved.upstream[1] is None


@pytest.mark.parametrize("place", [(3, 5), (slice(None), -1), (2,)])
def test_an_element_a_row_or_a_column_is_seen_among_right_ones(place: tuple[int | slice, ...]) -> None:
    wanted = torch.randn(40, 60, generator=torch.Generator().manual_seed(3))
    given = wanted.clone()
    given[place] *= 1.03 if len(place) == 1 or place[0] != 3 else 1.5
    assert not called._is_like(given, wanted)
    assert called._is_like(wanted.bfloat16().float(), wanted)


LOADED = "tl.load(x_ptr + places, mask=mask)"


@pytest.mark.parametrize(
    ("library", "status"),
    [(ORIGINAL, Status.passed), (ORIGINAL.replace("x, factor, x.numel()", "x, 2.0, x.numel()"), Status.unproved)],
    ids=["right", "one factor alone"],
)
def test_an_original_is_followed_no_further_than_it_is_right_itself(library: str, status: Status) -> None:
    wrong = ORIGINAL.replace(LOADED, f"{LOADED} * (0.95 if x_ptr.dtype.element_ty == tl.float16 else 1.0)")
    case = Case("drawn", (("T", 6), ("H", 40)), "float16", 5, layout=MemoryLayout.dense)
    cases, _ = prove(PROBLEM, [case], surroundings())
    assert verdict(library, wrong, cases).status is status


@pytest.mark.parametrize(
    ("least", "most_shaken", "status"),
    [(">= 0.5", 1, Status.unproved), (">= 0.5", 8, Status.passed), ("> 0.75", 8, Status.unproved)],
)
def test_an_element_at_a_threshold_may_lie_on_either_side(
    least: str, most_shaken: int, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(called, "MOST_SHAKEN", most_shaken)
    chosen = f"tl.where({LOADED}.to(tl.bfloat16) > 0.5, {LOADED}, 0.0)"
    original = ORIGINAL.replace(LOADED, chosen)
    (proof,) = proofs()
    laid = proof.laid["x"]
    raw = laid.raw.clone()
    own = laid.elements(raw)
    own[:] = 0.25
    own[0, 0], own[1:3] = 0.5 + 2.0**-9, 0.625  # the first is a half in bfloat16
    at_limit = replace(proof, case=replace(proof.case, seed=10), laid={"x": replace(laid, raw=raw)})
    assert verdict(original.replace("> 0.5", least), original, [at_limit]).status is status


def test_cases_far_out_or_with_one_number_upstream_are_no_other_calls() -> None:
    (proof,) = proofs()
    others = ({"far": "w"}, {"upstream": MemoryLayout.broadcast}, {"layout": MemoryLayout.broadcast})
    assert called._plain([proof, *(replace(proof, case=replace(proof.case, **other)) for other in others)]) == [proof]


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


LIBRARY = """
class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, eps, offset=0.0, in_place=False):
        match mode:
            case "llama" | "gemma":
                return x, w


def norm(x, w=None, eps=1e-6, *, mode="none"):
    return Norm.apply(x, w, eps)
"""
TENSORS = {"x": torch.zeros(3, 4), "w": torch.zeros(4), "index": torch.zeros(3, dtype=torch.int64)}


def other_calls(call: str, most: int = 60) -> tuple[str, set[str]]:
    text = (
        f"from norms import Norm as kernel, norm as function\n\n\ndef candidate(x, w, eps=1e-6):\n    return {call}\n"
    )
    written, calls = with_other_calls(text, "candidate", TENSORS, [LIBRARY], Draws.fresh().stream("a"), most)
    assert written.startswith(text)
    assert all(f"def {call.symbol}(x, w, eps=1e-06):" in written for call in calls)
    return written, {call.change for call in calls}


def test_constants_tensors_defaults_and_results_have_others_and_what_is_none_of_them_stays() -> None:
    written, changes = other_calls("kernel.apply(x, w, eps, -100, x.shape[1])[0]")
    assert 2 * len(changes) == len(re.findall("def candidate_", written)) > 20
    assert written.count("x.shape[1]") == 2 * len(changes) + 1
    assert re.search(r"kernel.apply\(x\.\w+\(\)\.float\(\), w\.float\(\), eps, -100, x\.shape\[1\]\)", written)
    assert {"`None` in place of `x`", "`None` in place of `w`", "`(x)[:1]` in place of `x`"} <= changes
    assert "`(x).double()` in place of `x`, `(w).double()` in place of `w`" in changes
    assert {"result 1 in place of 0", "results 0 and 2 together"} <= changes
    assert "    return kept[0] + 0.5 * kept[2]" in written
    assert sum("in place of `-100`" in change for change in changes) == 2


def test_a_default_that_a_call_leaves_is_given_by_place_to_a_function_of_autograd_and_by_name_to_any_other() -> None:
    written, changes = other_calls("kernel.apply(x, w, eps)")
    assert "`in_place=True`" in changes
    assert "kernel.apply(x, w, eps, 0.0, True)" in written
    assert {change.partition("=")[0] for change in changes if "=" in change} == {"`offset", "`in_place"}
    written, changes = other_calls("function(x)")
    assert {"`w=w`", "`w=x`", "`w=x.reshape(-1, x.shape[-1])[0]`"} <= changes
    assert "function(x, w=w)" in written


def test_numbers_are_below_zero_zero_and_above_one_too_and_two_constants_change_at_once() -> None:
    _, changes = other_calls("function(x, w, 0.01, 2)")
    numbers = [float(found[1]) for change in changes if (found := re.fullmatch("`(.*)` in place of `0.01`", change))]
    assert min(numbers) < 0
    assert max(numbers) > 1
    assert 0.0 in numbers
    assert any(change.count("in place of") == 2 and "0.01" in change and "`2`" in change for change in changes)


def test_two_defaults_that_are_given_by_place_change_both() -> None:
    found = set()
    for _ in range(20):
        written, changes = other_calls("kernel.apply(x, w, eps)")
        found |= {change for change in changes if change.startswith("`offset=") and change.endswith("`in_place=True`")}
        pairs = re.findall(r"kernel.apply\(x, w, eps, (.*), True\)", written)
        assert not any("and `in_place=True`" in change for change in changes) or any(pair != "0.0" for pair in pairs)
    assert found


def test_of_few_calls_each_changes_another_part() -> None:
    _, changes = other_calls("function(x, w, 0.01)", most=3)
    assert len({change.rpartition(" in place of ")[2] for change in changes}) == 3


def test_words_are_those_that_the_original_asks_for() -> None:
    text = 'if mode == "a" or mode in ("b", "c"):\n    table = {"d": 1}["d"]\n    say("e")\n'
    assert set(words_of([text, 'match mode:\n    case "f":\n        pass\n'])) == {*"abcdf"}


OTHER = """

def negated(x, y):
    scale_kernel[(triton.cdiv(x.numel(), 128),)](y, x, -1.0, x.numel(), BLOCK=128)
    return y


def wrapped(x):
    return scale(x, 2.0, "sum", None, False)


class Wrapped(torch.nn.Module):
    def forward(self, x):
        return wrapped(x)
"""


def test_what_no_call_reaches_and_hangs_on_what_was_changed_is_named() -> None:
    before = ORIGINAL + OTHER
    changed = before.replace("* factor, mask=mask)", "* 2.0, mask=mask)")
    given = source(changed), source(before), proofs(), [before], Draws.fresh(), surroundings()
    found = called_otherwise(*given).added_to(Verdict(Status.passed))
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


INTERFACE = """
EPS = 1e-6


@triton.jit
def norm_kernel(x_ptr, BLOCK: tl.constexpr):
    pass


class Norm(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cuda")
    def forward(ctx, x, eps=EPS):
        return x

    @staticmethod
    def backward(ctx, dy):
        return dy, None


def norm(x, eps=1e-6, *, out=None):
    return Norm.apply(x, eps)


def _helper(x):
    return norm_kernel[(1,)](x)


alias = norm
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("eps=1e-6, *", "eps=1e-5, *", "`norm` has other parameters or defaults"),
        (
            "def norm(x, eps=1e-6, *, out=None):\n    return Norm.apply(x, eps)",
            "def norm(x, e=1e-6, *, out=None):\n    return Norm.apply(x, e)",
            "`norm` has other",
        ),
        ("*, out=None", "*, out=1", "`norm` has other"),
        ("*, out=None", "fast=True, *, out=None", None),
        ("*, out=None", "*, out=None, fast=True", None),
        ("*, out=None", "*, out=None, fast", "`norm` has other"),
        ("def norm(x", "def norm(x, fast", "`norm` has other"),
        ("alias = norm", "", "`alias` is gone"),
        ("EPS = 1e-6", "from norms import EPS", None),
        ("def _helper(x):\n    return norm_kernel[(1,)](x)", "", None),
        ("ctx, x, eps=EPS):\n        return x", "ctx, value, eps=EPS):\n        return value", None),
        ("eps=EPS", "eps=2", "`Norm.forward` has other"),
        ('    @custom_fwd(device_type="cuda")\n', "", "`Norm.forward` is decorated otherwise for autocast"),
        ("ctx, dy):\n        return dy", "ctx, *given):\n        return given[0]", None),
        ("x_ptr, BLOCK", "x_ptr, n, BLOCK", None),
    ],
)
def test_what_other_code_may_name_stays_as_it_is(old: str, new: str, said: str | None) -> None:
    text = INTERFACE.replace(old, new)
    assert text != INTERFACE
    found = changed_interface([SourceFile("norms.py", text)], [INTERFACE], {"norm", "Norm", "_helper"})
    assert found is None if said is None else found is not None and found.startswith(said)


def test_a_parameter_of_the_name_of_a_function_is_no_mention_of_it() -> None:
    before = """
def scale(x, by):
    return kernel(x, by)


def kernel(x, scale):
    return x * scale


def run(x):
    return kernel(x, 2)
"""
    now = before.replace("x * scale", "x * 2")
    assert touched_elsewhere([SourceFile("a.py", now)], [before], {"run"}) == ["scale"]
