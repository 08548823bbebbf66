"""Decisions of one outcome in a whole verdict: nothing is proved of a candidate that has one."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from gpu_runner.contracts import CandidateSource, Evidence, SourceFile, Status, Verdict, VerifyRequest, parse_problem
from gpu_runner.errors import ChildDied, ChildError, ChildTimeout
from gpu_runner.messages import CallForm, RunCase
from gpu_runner.program.coverage import BOTH, FAILED, HELD
from gpu_runner.session import ChildSession
from gpu_runner.verify import judge as judging
from gpu_runner.verify.answer import SeenDecision, joined, read_answer
from gpu_runner.verify.cases import Case
from gpu_runner.verify.finding import Examined
from gpu_runner.verify.judge import LEAST_ALTERED, _decide_altered, _decide_outside, _Trial, judge
from gpu_runner.verify.one_sided import demanded, kept_functions, one_sided, with_indices_outside
from gpu_runner.verify.opening import loaded
from gpu_runner.verify.peer import NO_PEER
from gpu_runner.verify.proof import ChildCall, Proof, make_call
from gpu_runner.verify.truth import asked_of, form_of
from tests.cheats.trial import cheat, source_of_problem, surroundings

PROBLEM = source_of_problem("reglu")
PLAIN = cheat("rank_four").files[0].text
ASKED = "a.dim() == 4"


def of(text: str) -> CandidateSource:
    return CandidateSource((SourceFile("candidate.py", text),))


def verdict(original: str | None = None) -> Verdict:
    request = VerifyRequest(PROBLEM, of(PLAIN), ("float32",), original=None if original is None else of(original))
    return judge(request, surroundings())


LIBRARY = """
import triton
import triton.language as tl

if True:
    WIDTH = tl.constexpr(64)

@triton.jit
def half(x):
    return x / 2

@triton.jit
def kernel(y, x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, half(tl.load(x + at, mask=at < n)) + WIDTH, mask=at < n)

@triton.jit
def other(y):
    at = 1
    tl.store(y, at)
"""


ALL = {"half", "kernel", "other"}


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ("", "", ALL),
        ("at < n", "at < n and n < 4096", {"half", "other"}),
        ("x / 2", "x / 2 if n else x", {"other"}),
        ("(64)", "(32)", {"half", "other"}),
        ("import triton.language", "import mine.language", {"half"}),
        ("@triton.jit\ndef other", "@triton.heuristics\ndef other", {"half", "kernel"}),
        ("    at = 1", "    # one\n    at = 1", ALL),
    ],
)
def test_a_function_is_kept_with_all_that_it_names(before: str, after: str, kept: set[str]) -> None:
    now = [SourceFile("candidate.py", LIBRARY.replace(before, after, 1))]
    assert kept_functions(now, [LIBRARY]) & ALL == kept
    assert not kept_functions(now, [])


EVIL = "@triton.jit\ndef evil(x):\n    return x * 3\n"


@pytest.mark.parametrize(
    "more",
    [
        "half = evil",
        "for half in (evil,):\n    pass",
        "(half := evil)",
        "[half] = [evil]",
        "try:\n    pass\nexcept ValueError as half:\n    pass",
        "match evil:\n    case half:\n        pass",
        "def change():\n    global half\n    half = evil\nchange()",
        "half.fn = evil",
        "setattr(half, 'fn', evil)",
        "def make():\n    @triton.jit\n    def half(x):\n        return x * 3\n    return half",
        "class Kernels:\n    @triton.jit\n    def half(x):\n        return x * 3",
        "from mine import half",
        "from mine import evil as half",
        "if evil:\n    half = evil",
        "def later(value=(half := evil)):\n    pass",
    ],
)
def test_a_name_that_may_stand_for_something_else_is_not_kept(more: str) -> None:
    now = [SourceFile("candidate.py", f"{LIBRARY}\n{EVIL}\n{more}\n")]
    assert kept_functions(now, [LIBRARY]) & ALL == {"other"}
    elsewhere = [SourceFile("candidate.py", LIBRARY), SourceFile("mine.py", f"{EVIL}\n{more}\n")]
    assert kept_functions(elsewhere, [LIBRARY]) & ALL == {"other"}


@pytest.mark.parametrize(
    "line",
    ["x = DO(x)", "x = tl.reduce(x, 0, DO)", "x = x.reduce(0, combine_fn=DO)", "x = DO[0](x)", "do = DO; x = do(x)"],
)
def test_a_function_that_calls_what_it_is_given_is_not_kept(line: str) -> None:
    text = f"{LIBRARY}\n@triton.jit\ndef given(x, DO: tl.constexpr):\n    {line}\n    return x.to(tl.float32)\n"
    assert "given" not in kept_functions([SourceFile("candidate.py", text)], [text])
    assert kept_functions([SourceFile("candidate.py", text.replace(line, "x = tl.exp(x)"))], [text]) >= ALL


def test_names_that_hang_together_in_many_ways_take_no_time() -> None:
    names = [f"f{at}" for at in range(60)]
    text = "\n".join(f"def {name}():\n    return [{', '.join(names)}]" for name in names)
    assert kept_functions([SourceFile("candidate.py", text)], [text]) == set(names)
    assert not kept_functions([SourceFile("candidate.py", text + "\nf7 = None")], [text])


def test_indices_are_too_large_ignored_and_below_zero_by_turns_and_in_memory_of_their_own() -> None:
    problem = parse_problem(source_of_problem("cross_entropy"))
    form = form_of(problem)
    assert form is not None
    proof = asked_of(problem, form, Case("drawn", (("T", 6), ("V", 9)), "float32", 5))
    before = proof.laid["target"].raw.clone()
    turns = [outside.laid["target"].view().tolist() for outside in with_indices_outside(proof)]
    *wrong, ignored = turns
    assert wrong == [[10, -100, -110] * 2, [-100, -110, 10] * 2, [-110, 10, -100] * 2]
    within = proof.laid["target"].view().tolist()
    assert ignored == [within[place] if place % 2 else -100 for place in range(6)]
    assert proof.laid["target"].raw.equal(before)


BY_WIDTH = """import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    a = tl.load(a_ptr + row * n + at, mask=at < n)
    if n > 100:
        a = a * (n // 64)
    tl.store(y_ptr + row * n + at, a * tl.load(b_ptr + row * n + at, mask=at < n) * (n // 1000), mask=at < n)


def candidate(a, b):
    y = torch.empty_like(a)
    _kernel[(a.shape[0],)](a.contiguous(), b.contiguous(), y, a.shape[1], BLOCK=triton.next_power_of_2(a.shape[1]))
    return y
"""


def test_what_kernels_decide_in_several_processes_is_joined() -> None:
    problem = parse_problem(PROBLEM)
    form = form_of(problem)
    assert form is not None
    seen = []
    for widths in ((33, 50), (130, 170), (210, 220)):  # each process runs some of the cases
        with loaded("candidate", of(BY_WIDTH), form, surroundings()) as session:
            for width in widths:
                proof = asked_of(problem, form, Case("drawn", (("T", 3), ("I", width)), "float32", width))
                call = make_call(replace(proof, wanted=()), poison=True)
                answer = read_answer(session.call(RunCase(call.call, several=True), call.tensors))
        seen.append(answer.decided)
    each = [{one.text: outcome for one, outcome in process.outcomes.items() if one.in_kernel} for process in seen]
    assert [decisions["`n > 100`"] for decisions in each] == [FAILED, HELD, HELD]
    assert "`n // 64` is anything but 2" in each[1]
    both = {one.text: outcome for one, outcome in joined(seen).items() if one.in_kernel}
    assert both["`n > 100`"] == BOTH
    assert both["`n // 1000` is anything but 0"] == FAILED
    assert not any(text.startswith("`n // 64`") for text in both)


class Failing:
    """A child that has a guard in each kernel, and fails with every index out of range."""

    is_gone = False

    def __init__(self) -> None:
        self.asked: list[RunCase] = []

    def call(self, request: RunCase, *_: object, **__: object) -> None:
        self.asked.append(request)
        raise ChildError("AssertionError", "out of range")


class Dying(Failing):
    """A child that an index out of range ends, in this way."""

    def __init__(self, how: Exception) -> None:
        super().__init__()
        self.how = how

    def call(self, request: RunCase, *_: object, **__: object) -> None:
        self.asked.append(request)
        self.is_gone = True
        raise self.how


def looked_outside(*children: Failing) -> None:
    """Ask about the guard of two sets of kernels, in these children one after the other."""
    problem = parse_problem(source_of_problem("cross_entropy"))
    form = form_of(problem)
    assert form is not None
    trial = _Trial(decisions={SeenDecision("candidate.py", 1, 0, "`index < n_cols`", in_kernel=True): HELD})
    for columns in (9, 30):
        case = Case("drawn", (("T", 6), ("V", columns)), "float32", 5, may_raise=True)
        trial.launching[frozenset([f"kernel_{columns}"])] = asked_of(problem, form, case), NO_PEER
    trial.launching[frozenset()] = next(iter(trial.launching.values()))
    opened = iter(children)
    session = cast("ChildSession", SimpleNamespace(gpu=False))
    _decide_outside(trial, session, lambda: nullcontext(cast("ChildSession", next(opened))), ())
    assert next(opened, None) is None


def test_indices_are_out_of_range_in_a_call_of_each_set_of_kernels_and_count_though_it_fails() -> None:
    child = Failing()
    looked_outside(child)
    assert len(child.asked) == 2 * 4
    assert not any(request.optional for request in child.asked)


def test_a_child_that_an_index_out_of_range_ends_is_followed_by_another() -> None:
    dying, other = Dying(ChildDied(11, None)), Failing()
    looked_outside(dying, other)
    assert len(dying.asked) == 1
    assert len(other.asked) == 2 * 4 - 1


def test_a_loop_over_an_index_out_of_range_is_waited_for_once() -> None:
    hanging = Dying(ChildTimeout(10.0))
    looked_outside(hanging)
    assert len(hanging.asked) == 1


def test_of_decisions_of_one_outcome_those_of_launch_settings_alone_are_left_out() -> None:
    text = (
        "import triton\n\n@triton.jit\ndef _kernel(x_ptr, n):\n    tl.store(x_ptr, n)\n\n"
        "def candidate(x):\n    warps = 8 if x.numel() > 9 else 4\n    n = 8 if x.ndim > 9 else 4\n"
        "    _kernel[(1,)](x, n, num_warps=warps)\n"
    )
    outcomes = {
        SeenDecision("candidate.py", 8, 17, "`x.numel() > 9`"): FAILED,
        SeenDecision("candidate.py", 9, 13, "`x.ndim > 9`"): FAILED,
        SeenDecision("candidate.py", 9, 8, "`4` is the minimum"): FAILED,
        SeenDecision("library.py", 1, 0, "`a`"): HELD,
    }
    found = one_sided(outcomes, of(text).files)
    assert [evidence.message for evidence in found] == ["`4` was never the minimum.", "`x.ndim > 9` was always false."]


def test_message_names_the_call_or_the_step_by_which_a_place_was_reached() -> None:
    outcomes = {
        SeenDecision("candidate.py", 1, 0, "`x > limit` (called at line 19)"): FAILED,
        SeenDecision("candidate.py", 2, 0, "`x >> k` (k = 1) is anything but 0"): FAILED,
    }
    assert [evidence.message for evidence in one_sided(outcomes, of("").files)] == [
        "`x > limit` (called at line 19) was always false.",
        "`x >> k` (k = 1) was never anything but 0.",
    ]


# In `make test` test_interpreted and the cheats that are judged whole end so.
@pytest.mark.long
@pytest.mark.slow
def test_nothing_is_proved_of_a_candidate_that_has_a_decision_of_one_outcome() -> None:
    found = verdict()
    assert (found.status, found.rule) == (Status.unproved, "one-sided")
    assert ASKED in found.evidence[0].message
    line = next(number for number, text in enumerate(PLAIN.splitlines(), 1) if ASKED in text)
    assert [evidence.line for evidence in found.one_sided if ASKED in evidence.message] == [line]


@pytest.mark.long  # in `make test` what is the original's is told apart below, without a verdict
@pytest.mark.slow
def test_what_stands_may_go_on_to_decide_in_the_same_words() -> None:
    assert verdict(original=PLAIN.replace("Four dimensions", "Of four dimensions")).status is Status.passed


@pytest.mark.parametrize(
    ("original", "status"),
    [
        ("def f(d, x):\n    if not d:\n        return x\n    return 3 * x\n", Status.passed),
        ("def f(d, x):\n    if not d:\n        return x\n    else:\n        return 3 * x\n", Status.passed),
        ("def f(d, x):\n    if not d:\n        x += 1\n    return x\n", Status.unproved),  # does something else
        ("def f(d, x):\n    return not d\n", Status.unproved),  # as text it is there
        ("def f(d, x):\n    if not d and x:\n        x += 1\n", Status.unproved),
        ("", Status.unproved),
    ],
)
def test_a_decision_is_the_originals_where_a_whole_statement_is(original: str, status: Status) -> None:
    file = SourceFile("candidate.py", "def f(d, x):\n    if not d:\n        return x\n    return 2 * x\n")
    seen = Evidence("one_sided", "`d` was always true.", line=2)
    assert demanded(Verdict(Status.passed, one_sided=(seen,)), [file], {"candidate.py": original}).status is status


@pytest.mark.parametrize(
    ("test", "said", "status"),
    [
        ("d > 1", "`d > 1` was always true.", Status.passed),
        ("d > 1", "`d > 1` was always false.", Status.unproved),
        ("d > 1 and x", "`d > 1` was always true.", Status.passed),
        ("d > min(x, 2)", "`2` was never the minimum.", Status.unproved),
        ("not (x and not d > 1)", "`d > 1` was always true.", Status.unproved),
    ],
)
def test_of_a_condition_the_side_that_no_case_took_is_the_originals(test: str, said: str, status: Status) -> None:
    text = f"def f(d, x):\n    if {test}:\n        return 2 * x\n    else:\n        return x\n"
    file = SourceFile("candidate.py", text.replace("2 * x", "x + x"))
    verdict = Verdict(Status.passed, one_sided=(Evidence("one_sided", said, line=2),))
    assert demanded(verdict, [file], {"candidate.py": text}).status is status


def test_of_the_few_calls_with_a_changed_kernel_nothing_counts_that_host_code_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loops = SeenDecision("a.py", 9, 4, "`end < n_cols`", in_kernel=True)
    block = SeenDecision("a.py", 20, 4, "`next_power_of_2(n_cols)` is anything but 64")
    given = SimpleNamespace(decided=SimpleNamespace(outcomes={loops: HELD, block: FAILED}))
    monkeypatch.setattr(judging, "read_answer", lambda _: given)
    monkeypatch.setattr(judging, "_examined", lambda _: Examined())
    monkeypatch.setattr(judging, "_call", lambda *_, **__: ChildCall(None))
    session = SimpleNamespace(gpu=False, call=lambda *_, **__: None)
    trial = _Trial(decisions={loops: FAILED})
    proof = Proof(Case("one", (("T", 4), ("H", 60)), "float32", 1), CallForm("reference"), {}, {}, (), ())
    trial.small = [(240, (proof, NO_PEER))] * LEAST_ALTERED
    _decide_altered(trial, cast(ChildSession, session), (), [SourceFile("a.py", "")])
    assert trial.decisions == {loops: BOTH}
