"""What a kernel computes and decides is seen, by whatever operation of Triton's language it does so."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from gpu_runner.contracts import CandidateSource, SourceFile
from gpu_runner.contracts.problem import parse_problem
from gpu_runner.errors import ChildError
from gpu_runner.messages import RunCase, WarmUp
from gpu_runner.program.coverage import BOTH, FAILED
from gpu_runner.program.lanes import _only_waits
from gpu_runner.verify.answer import read_answer
from gpu_runner.verify.cases import Case, Content
from gpu_runner.verify.judge import prove
from gpu_runner.verify.opening import loaded
from gpu_runner.verify.proof import make_call
from tests.cheats.trial import surroundings
from tests.gpu_runner.program.test_nans import CANDIDATE, PROBLEM, outcome_of_last_line

LARGE = "tl.full((BLOCK,), 1e9, tl.float32)"
# Each hides a comparison with a number beyond all that a case holds.
HIDDEN = {
    "the high half of a product": "tl.umulhi(row, row)",
    "an entry of a block": "tl.gather(tl.full((BLOCK,), 1.0, tl.float32), at ^ row, axis=0)",
    "the place of the largest": "tl.argmax(tl.where(at == 0, 1e9, x), axis=0)",
    "the largest of two that are joined": f"tl.max(tl.join(x, {LARGE}), axis=1)",
    "the least of two that are joined": f"tl.min(tl.join(x, {LARGE}), axis=1)",
    "a function of a reduction": "tl.reduce(x, 0, _pick)",
    "what programs tell each other": "tl.atomic_add(flags_ptr, row) > 1000",
    "a condition on a block's size": "x if BLOCK > 31 else 0.0",
    "a quotient of a block's size": "x * (BLOCK // 4096)",
    "a comparison in a helper": "_part(x, BLOCK, 1)",
    "a remainder that changes nothing": "n % 100003",
    "a mask that changes nothing": "n & 0xFFFFF",
    "a remainder of a block's size": "x * (BLOCK % 4096)",
    "whether two arguments are of one type": "x if x_ptr.dtype.element_ty == flags_ptr.dtype.element_ty else x + 1",
    "a function of constants": "x * _share(BLOCK)",
    "the least of two constants": "x * min(BLOCK, 4096)",
    "a rounded quotient": "x * triton.cdiv(BLOCK, 4096)",
    "a quotient in place": "n + 0; n_again //= 4096",
    "the least of constants that are spread": "x * min(*(BLOCK, 4096))",
    "an entry of a table in memory": "tl.load(flags_ptr + (x > 0.3).to(tl.int32))",
    "what a swap was compared with": "tl.atomic_cas(flags_ptr + 5, n, 7)",
    "what a swap with numbers of the text meets": "tl.atomic_cas(flags_ptr + 30 + 0 * tl.atomic_xchg(flags_ptr + 30, n), 5120, 7)",
    "an atomic minimum with a number of the text": "tl.atomic_min(flags_ptr + 31 + 0 * tl.atomic_xchg(flags_ptr + 31, n), 5120)",
    "an atomic minimum": "tl.atomic_min(flags_ptr + 6, n + 1)",
    "the order of two": "tl.sort(tl.where(tl.arange(0, 2) == 0, n, 40000))",
    "a condition that was loaded": "x if tl.load(flags_ptr + 8) else x + 1",
    "a quotient that casts its divisor": "row.to(tl.int64) // n",
    "a quotient by keyword": "x * triton.cdiv(x=BLOCK, y=4096)",
    "an entry of a tuple": "x * (1, 2, 4, 8)[BLOCK // 16 - 1]",
    "a part of a tuple": "x * len(((0,) * 4096)[:BLOCK])",
    "whether a tuple is empty": "x if (0,) * (4096 - BLOCK) else 0.0",
    "an absolute value": "tl.abs(n - 20000)",
    "a minimum beside an atomic": "tl.minimum(n, 20000 + tl.atomic_add(flags_ptr + 9, 0))",
    "a condition on an atomic": "x if tl.atomic_add(flags_ptr + 10, 0) + n else x + 1",
    "the bounds of a block pointer": (
        "tl.load(tl.make_block_ptr(x_ptr, (1,), (1,), (n - 9999,), (1,), (0,)), boundary_check=(0,), padding_option='zero')"
    ),
    "the bounds of a descriptor": ("tl.make_tensor_descriptor(x_ptr, (n,), (1,), (BLOCK,)).load([n * 16 + 9984])"),
    "a loop over nothing": "[x for _ in range(20000, n, 16)]",
    "a branch on a quotient of constants": "x if tl.full((), 1.0, tl.float32) / 3.0 > 0.4 else x + 1",
    "the second part of a branch on constants": "x if 2 > 1 and tl.full((), 2.0, tl.float32) > 3.0 else x + 1",
    "a mask that is asserted, too": "tl.where(x < 1e8, x, 0.0); tl.device_assert(x < 1e8)",
    "an assertion that writes": "x; tl.device_assert(tl.atomic_add(flags_ptr + 11, 0) + n > 0)",
    "a claim of a difference": "x; tl.assume(30000 - n > 0)",
    "a loop over a constant of run time": "[x for _ in range(tl.full((), 0.5, tl.float32).to(tl.int32))]",
}
# Each decides by what the file fixes alone, or refuses.
FIXED = {
    "a mode of a helper": "_mode(x, 1, gain=BLOCK)",
    "a mode that its caller fixes": "_again(x, BLOCK)",
    "a step of a written loop": "[x for step in tl.static_range(4) if step > 2]",
    "an entry by a step of a written loop": "[(x, x + 1.0, BLOCK)[step] for step in tl.static_range(2)]",
    "a type that is asserted": "x; tl.static_assert(x_ptr.dtype.element_ty != flags_ptr.dtype.element_ty)",
    "what is asserted as it runs": "x; tl.device_assert(n < 20000, 'too many', mask=n < 30000)",
    "a name for what is asserted": "x; ok = n + 1 < 20000; fits = ok & (n < 30000); tl.device_assert(fits)",
    "a size that is claimed": "x; tl.assume(n > 0)",
    "a type": "x * 2.0 if x_ptr.dtype.element_ty == tl.float64 else x",
    "whether a pointer is None": "x if flags_ptr is not None else 0.0",
    "a lock": "tl.atomic_cas(flags_ptr + 7, 0, 1)",
    "a number of the text": "min(4, 8) if 4 > 8 else x",
    "a mode in an argument": "x if MODE == 2 else x + 1",
    "a choice among constants": "tl.where(tl.full((), 1.0, tl.float32) > 2.0, x, x + 1)",
    "a quotient of constants": "x if triton.cdiv(12, 4) > 4 else x + 1",
}
ALLOCATED = """
def _memory(size, alignment, stream):
    return torch.empty(size, dtype=torch.int8)


def candidate(x):
    triton.set_allocator(_memory)
"""
INNER = {"_pick": "a > 1e9", "_part": "block > 4095", "_share": "block > 4096"}  # by the helper that decides
HELPER = """
@triton.constexpr_function
def _share(block):
    return 0.5 if block > 4096 else 1.0


@triton.jit
def _mode(x, mode: tl.constexpr, gain: tl.constexpr = 2, power: tl.constexpr = 1):
    if mode == 1 and power < 2:
        x = x * gain
    if gain == 1:
        tl.static_assert(False, "no gain")
    return x


@triton.jit
def _again(x, gain: tl.constexpr, mode: tl.constexpr = 0):
    return _mode(x, mode, gain)


@triton.jit
def _part(x, block: tl.constexpr, mode: tl.constexpr):
    if mode == 1:
        x = x + 1
    return x if block > 4095 else x * 2


@triton.jit
def _pick(a, b):
    return tl.where(a > 1e9, a, b)


@triton.jit
def _kernel("""


@pytest.fixture(scope="module")
def one_sided() -> list[tuple[str, str]]:
    """The decisions of one outcome, all of one kernel: the line of each in the file, and its text."""
    body = "\n    ".join(f"n_again = {text}" for text in (HIDDEN | FIXED).values())
    text = CANDIDATE.replace("{body}", body).replace("\n@triton.jit\ndef _kernel(", HELPER)
    text = text.replace("torch.empty(x.shape, dtype=torch.int32)", "torch.zeros(x.shape, dtype=torch.int32)")
    text = text.replace("\ndef candidate(x):\n", ALLOCATED)
    problem, context = parse_problem(PROBLEM), surroundings()
    cases = [Case("drawn", (("T", 10), ("H", width)), "float32", 5) for width in (40, 20)]
    proofs, _ = prove(problem, cases, context)
    source = CandidateSource((SourceFile("candidate.py", text),))
    with loaded("candidate", source, proofs[0].form, context) as session:
        for call in (make_call(proof, poison=True) for proof in proofs):
            decisions = read_answer(session.call(RunCase(call.call), call.tensors)).decisions
    lines = text.splitlines()
    return [(lines[decision.line - 1], decision.text) for decision, outcome in decisions.items() if outcome != BOTH]


@pytest.mark.slow
@pytest.mark.parametrize("name", HIDDEN)
def test_what_a_kernel_hides_is_seen(name: str, one_sided: list[tuple[str, str]]) -> None:
    text = HIDDEN[name]
    where = next((inner for call, inner in INNER.items() if call in text), text)
    assert [decision for line, decision in one_sided if where in line]


@pytest.mark.slow
@pytest.mark.parametrize("name", FIXED)
def test_what_the_file_fixes_is_no_decision(name: str, one_sided: list[tuple[str, str]]) -> None:
    assert not [
        decision for line, decision in one_sided if FIXED[name] in line or "mode == 1" in line or "gain == 1" in line
    ]


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        ("while tl.atomic_cas(lock, n, n) != n:\n    pass", True),
        ("while tl.atomic_add(lock, 0) < n:\n    pass", True),
        ("while tl.atomic_cas(lock, n, 7) != n:\n    pass", False),
        ("while tl.atomic_cas(lock, tl.atomic_xchg(lock, n), tl.atomic_xchg(lock, n)) != n:\n    pass", False),
        ("while tl.atomic_add(lock, 1) < n:\n    pass", False),
        ("while tl.atomic_add(lock, 0) < _other(n):\n    pass", False),
        ("while tl.atomic_add(lock, 0) < n:\n    n -= 1", False),
        ("while n > 5000:\n    pass", False),
    ],
)
def test_a_loop_that_only_waits_for_an_atomic_is_told_from_others(text: str, waits: bool) -> None:
    loop = ast.parse(text).body[0]
    assert isinstance(loop, ast.While)
    assert _only_waits(loop) is waits


@pytest.mark.parametrize(
    "what", ["tl.full((), 1e10, tl.float32).to(tl.int32)", "tl.full((), 4, tl.int32) // tl.zeros((), tl.int32)"]
)
def test_constants_whose_result_hangs_on_the_device_are_refused(what: str) -> None:
    with pytest.raises(ChildError, match="is not defined"):
        outcome_of_last_line(f"given = {what}\nfound = given > 0")


@pytest.mark.slow
def test_what_kernels_decide_aside_is_not_noted_and_what_follows_is() -> None:
    problem, context = parse_problem(PROBLEM), surroundings()
    cases = [Case("drawn", (("T", 10), ("H", width)), "float32", 5) for width in (40, 20, 40)]
    cases[1:1] = [replace(cases[1], name="not finite", content=Content.odd)]
    proofs, _ = prove(problem, cases, context)
    source = CandidateSource((SourceFile("candidate.py", CANDIDATE.replace("{body}", "found = n > 30")),))
    outcomes = []
    with loaded("candidate", source, proofs[0].form, context) as session:
        first, *calls = (make_call(proof, poison=True) for proof in proofs)
        session.call(WarmUp(first.call), first.tensors)
        for call in calls:
            decisions = read_answer(session.call(RunCase(call.call), call.tensors)).decisions
            outcomes.append(next(seen for decision, seen in decisions.items() if decision.text == "`n > 30`"))
            session.call(WarmUp(first.call), first.tensors)
    assert outcomes == [FAILED, FAILED, BOTH]


EIGHT, FOUR = "(x * 1000.0).to(tl.int32) & 7", "(x * 1000.0).to(tl.int32) & 3"
TAKEN = {
    "all entries of a block": (f"tl.gather(tl.arange(0, 8), {EIGHT}, axis=0)", []),
    "half the entries of a block": (f"tl.gather(tl.arange(0, 8), {FOUR}, axis=0)", ["each entry of its block"]),
    "all bits": (f"155 >> ({EIGHT})", []),
    "half the bits": (f"155 >> ({FOUR})", ["each bit of its word"]),
    "half the bits below those of the sign": (f"-155 >> ({FOUR})", ["each bit of its word"]),
    "all of four numbers of two bits": (f"155 >> 2 * ({FOUR})", []),
    "all bits by masks": (f"155 & (1 << ({EIGHT}))", []),
    "half the bits by masks": (f"155 & (1 << ({FOUR}))", ["each bit of its word"]),
    "a mask of what was loaded": (f"155 & ({FOUR})", []),
    "a written shift": (f"({EIGHT}) >> 2", []),
    "a shift that nothing loaded decides": ("155 >> (row % 2)", []),
}


@pytest.mark.slow
def test_each_entry_of_a_block_and_bit_of_a_word_is_taken_or_its_look_up_was_not_seen() -> None:
    body = "\n    ".join(f"n_again = {text}" for text, _ in TAKEN.values())
    text, context = CANDIDATE.replace("{body}", body), surroundings()
    (proof,), _ = prove(parse_problem(PROBLEM), [Case("drawn", (("T", 10), ("H", 40)), "float32", 5)], context)
    source = CandidateSource((SourceFile("candidate.py", text),))
    with loaded("candidate", source, proof.form, context) as session:
        call = make_call(proof, poison=True)
        decisions = read_answer(session.call(RunCase(call.call), call.tensors)).decisions
    lines = text.splitlines()
    for name, (written, missed) in TAKEN.items():
        found = [
            one.text.partition(" is ")[2] or one.text
            for one, outcome in decisions.items()
            if outcome != BOTH and "each " in one.text and lines[one.line - 1].strip() == f"n_again = {written}"
        ]
        assert [text for text in found if any(each in text for each in missed)] == found, name
        assert len(found) == len(missed), name
