"""Triton's interpreter, once it was taught, runs what it cannot run by itself: libdevice, bfloat16 constants and sums, settings."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gpu_runner.context import RunContext
from gpu_runner.contracts import CandidateSource, Limits, SourceFile, parse_problem
from gpu_runner.errors import ChildError
from gpu_runner.messages import RunCase
from gpu_runner.session import has_gpu
from gpu_runner.verify.answer import read_answer
from gpu_runner.verify.cases import Case
from gpu_runner.verify.opening import loaded
from gpu_runner.verify.proof import make_call
from gpu_runner.verify.truth import asked_of, form_of

pytestmark = pytest.mark.skipif(has_gpu(), reason="on a GPU nothing is interpreted")

COUNT = 70
PROBLEM = """import torch

INPUTS = {"x": {"dims": "N", "grad": False}}
WORKLOADS = [{"N": 70}]


def reference(x):
    return x
"""
HEAD = """import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


"""
TAIL = """

def candidate(x):
    y = torch.zeros_like(x)
    kernel[(1,)](x, y, x.numel(), N=128)
    return y
"""
PLAIN = """@triton.jit
def kernel(x, y, count, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at, mask=at < count)
"""
STORE = "    tl.store(y + at, {}, mask=at < count)\n"


def ran(
    kernel: str, dtype: str, folder: Path, programs: str = "(1,)", run: str = "first"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Give what a kernel makes of an input, in its first run or the second, and the input."""
    problem = parse_problem(PROBLEM)
    form = form_of(problem)
    assert form is not None
    asked = asked_of(problem, form, Case("one", (("N", COUNT),), dtype, 7))
    call = make_call(asked, poison=False)
    source = CandidateSource((SourceFile("candidate.py", HEAD + kernel + TAIL.replace("(1,)", programs)),))
    with loaded("candidate", source, form, RunContext(folder, Limits(step_s=100.0))) as session:
        value = read_answer(session.call(RunCase(call.call), call.tensors)).runs[run]["output 0"]
    assert value.tensor is not None
    return value.tensor, asked.inputs["x"]


def test_libdevice_has_its_functions(tmp_path: Path) -> None:
    body = "libdevice.tanh(v) + libdevice.erf(v) + libdevice.rsqrt(libdevice.exp(v)) + libdevice.pow(v * v, 0.5)"
    got, x = ran(PLAIN + STORE.format(body), "float32", tmp_path)
    torch.testing.assert_close(got, x.tanh() + x.erf() + x.exp().rsqrt() + x.abs(), rtol=1e-5, atol=1e-5)


def test_libdevice_says_what_is_not_a_number_with_whole_numbers(tmp_path: Path) -> None:
    body = "tl.where(libdevice.isnan(v / 0.0 - v / 0.0) != 0, 1.0, 0.0)"
    got, _ = ran(PLAIN + STORE.format(body), "float32", tmp_path)
    assert torch.equal(got, torch.ones(COUNT))


def test_libdevice_refuses_half_precisions_as_it_does_on_a_gpu(tmp_path: Path) -> None:
    with pytest.raises(ChildError, match="libdevice has no such function"):
        ran(PLAIN + STORE.format("libdevice.tanh(v)"), "bfloat16", tmp_path)


def test_a_constant_in_bfloat16_is_rounded_to_it(tmp_path: Path) -> None:
    got, x = ran(PLAIN + STORE.format("tl.full((N,), 0.3, v.dtype) + v"), "bfloat16", tmp_path)
    assert torch.equal(got, torch.tensor(0.3, dtype=torch.bfloat16) + x)


def test_atomic_sums_in_bfloat16_reach_an_address_once_for_every_element(tmp_path: Path) -> None:
    got, _ = ran(
        PLAIN + "    tl.atomic_add(y + at // 8, (v * 0 + 0.5).to(v.dtype), mask=at < count)\n", "bfloat16", tmp_path
    )
    whole = COUNT // 8
    assert torch.equal(got[:whole], torch.full((whole,), 4.0, dtype=torch.bfloat16))
    assert float(got[whole]) == 0.5 * (COUNT % 8)
    assert not bool(got[whole + 1 :].any())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_programs_that_add_up_in_halves_are_no_race_and_overflow_to_infinity(dtype: str, tmp_path: Path) -> None:
    add = "    tl.atomic_add(y + at, (v * 0 + {}).to(v.dtype), mask=at < count)\n"
    for each, total in (("1.0", 7.0), ("3e38" if dtype == "bfloat16" else "60000.0", float("inf"))):
        got, _ = ran(PLAIN + add.format(each), dtype, tmp_path, programs="(7,)")
        assert torch.equal(got, torch.full((COUNT,), total, dtype=got.dtype))


@pytest.mark.parametrize("programs", ["(1, 65536)", "(1, 1, 65536)"])
def test_a_grid_that_cuda_refuses_is_refused(programs: str, tmp_path: Path) -> None:
    with pytest.raises(ChildError, match="65,536 programs along the second or third axis"):
        ran(PLAIN + STORE.format("v"), "float32", tmp_path, programs=programs)


def test_of_several_settings_any_may_be_taken(tmp_path: Path) -> None:
    settings = "@triton.autotune([triton.Config({'K': 3}), triton.Config({'K': 5})], key=['count'])\n"
    kernel = settings + PLAIN.replace("N: tl.constexpr", "N: tl.constexpr, K: tl.constexpr") + STORE.format("v * K")
    got, x = ran(kernel, "float32", tmp_path)
    assert any(torch.allclose(got, x * factor) for factor in (3, 5))


@pytest.mark.parametrize("over", ["range(0, 3)", "tl.range(3)", "range(tl.program_id(0), 3, tl.num_programs(0))"])
def test_what_a_loop_counts_is_converted_as_a_tensor_is(over: str, tmp_path: Path) -> None:
    inner = "        for other in range(step, 3):\n            v += (step.to(tl.int64) + other).to(v.dtype)\n"
    loop = f"    for step in {over}:\n{inner}"
    got, x = ran(PLAIN + loop + STORE.format("v"), "float32", tmp_path)
    assert torch.allclose(got, x + sum(step + other for step in range(3) for other in range(step, 3)))


READS_WHAT_ANOTHER_WROTE = """@triton.jit
def kernel(x, y, count, N: tl.constexpr):
    own = tl.program_id(0)
    tl.store(y + own, tl.load(x + own))
    tl.atomic_xchg((y + 60).to(tl.pointer_type(tl.int32), bitcast=True), 0{})
    if own == 1:
        tl.store(y + 2, tl.load(y))
"""


@pytest.mark.parametrize("how", ["", ', sem="acq_rel", scope="sys"'])
def test_an_atomic_has_a_program_read_what_others_released(how: str, tmp_path: Path) -> None:
    got, x = ran(READS_WHAT_ANOTHER_WROTE.format(how), "float32", tmp_path, programs="(2,)")
    assert torch.equal(got[:3], x[[0, 1, 0]])


@pytest.mark.parametrize("how", ['sem="relaxed"', 'sem="acquire"', 'sem="release"', 'scope="cta"'])
def test_without_release_acquire_or_reach_an_atomic_orders_nothing(how: str, tmp_path: Path) -> None:
    with pytest.raises(ChildError, match="reads what another program of the launch wrote"):
        ran(READS_WHAT_ANOTHER_WROTE.format(f", {how}"), "float32", tmp_path, programs="(2,)")


def test_what_was_written_after_a_release_nobody_knows_of(tmp_path: Path) -> None:
    late = READS_WHAT_ANOTHER_WROTE.format("").replace("    if own", "    tl.store(y, tl.load(x + own))\n    if own")
    with pytest.raises(ChildError, match="writes over another program's result"):
        ran(late, "float32", tmp_path, programs="(2,)")


def test_two_numbers_at_one_place_are_a_race_and_one_number_twice_is_none(tmp_path: Path) -> None:
    with pytest.raises(ChildError, match="several numbers to one place"):
        ran(PLAIN + "    tl.store(y + at // 2, v, mask=at < count)\n", "float32", tmp_path)
    got, _ = ran(PLAIN + "    tl.store(y + at // 2, at // 2, mask=at < count)\n", "float32", tmp_path)
    assert torch.equal(got[: COUNT // 2], torch.arange(COUNT // 2).float())


LOADS_ALL = PLAIN.replace("mask=at < count", "mask=at < count, other=0.0")
IN_ANY_ORDER = {
    "a view": "tl.view(v, (N,))",
    "a reshape": "tl.reshape(v, (N,), can_reorder=True)",
    "a concatenation": "tl.split(tl.reshape(tl.cat(v, v, can_reorder=True), (N, 2)))[0]",
}


@pytest.mark.parametrize("what", IN_ANY_ORDER)
def test_what_may_reorder_does_so_in_a_second_run(what: str, tmp_path: Path) -> None:
    kernel = LOADS_ALL + STORE.format(IN_ANY_ORDER[what])
    assert not torch.equal(ran(kernel, "float32", tmp_path)[0], ran(kernel, "float32", tmp_path, run="second")[0])
    plain = LOADS_ALL + STORE.format("tl.reshape(v, (N,))")
    assert torch.equal(ran(plain, "float32", tmp_path)[0], ran(plain, "float32", tmp_path, run="second")[0])


@pytest.mark.parametrize(("combined", "is_same"), [("p * 0.5 + q", False), ("tl.where(p > q, p, q)", True)])
def test_a_reduction_commutes_or_gives_something_else_in_a_second_run(
    combined: str, is_same: bool, tmp_path: Path
) -> None:
    function = f"@triton.jit\ndef combine(p, q):\n    return {combined}\n\n\n"
    kernel = function + LOADS_ALL + STORE.format("tl.reduce(v, 0, combine) + v * 0")
    first, second = (ran(kernel, "float32", tmp_path, run=run)[0] for run in ("first", "second"))
    assert torch.equal(first, second) is is_same


def test_a_gather_beyond_its_block_gives_any_number(tmp_path: Path) -> None:
    got, x = ran(LOADS_ALL + STORE.format("tl.gather(v, at - 1, 0)"), "float32", tmp_path)
    assert torch.equal(got[1:], x[:-1])
    assert float(got[0]) in range(1, 100)


def test_a_pointer_is_as_aligned_as_a_kernel_says(tmp_path: Path) -> None:
    claim = "    x = tl.multiple_of({}, 16)\n    v += tl.load(x + at * 0)\n"
    ran(PLAIN + claim.format("x + 4 - 4") + STORE.format("v"), "float32", tmp_path)
    with pytest.raises(ChildError, match="says that an address is a multiple of 16"):
        ran(PLAIN + claim.format("x + 1") + STORE.format("v"), "float32", tmp_path)


def test_neighbours_lie_side_by_side_as_a_kernel_says_but_where_they_wrap_around(tmp_path: Path) -> None:
    claim = "    v += tl.load(x + tl.max_contiguous({}, 4) * 0)\n"
    for places in ("at % 3", "at + 2", "tl.where(at < 2, at, 0)", "at // 4 * 9 + at % 4"):
        ran(PLAIN + claim.format(places) + STORE.format("v"), "float32", tmp_path)
    with pytest.raises(ChildError, match="says that 4 neighbours lie side by side"):
        ran(PLAIN + claim.format("2 * at") + STORE.format("v"), "float32", tmp_path)


def test_a_number_of_warps_that_no_gpu_has_is_refused(tmp_path: Path) -> None:
    setting = "@triton.autotune([triton.Config({}, num_warps=3)], key=['count'])\n"
    with pytest.raises(ChildError, match="power of two"):
        ran(setting + PLAIN + STORE.format("v"), "float32", tmp_path)


@pytest.mark.parametrize("cut", ["({}).to(tl.int32)", "tl.floor({})", "libdevice.trunc({})"])
@pytest.mark.parametrize(("quotient", "is_exact"), [("/ 3.0", False), ("/ 4.0", True), ("", True)])
def test_a_whole_quotient_that_is_cut_may_be_its_neighbour(
    cut: str, quotient: str, is_exact: bool, tmp_path: Path
) -> None:
    divided = (
        f"at.to(tl.float32) {quotient}"
        if quotient
        else "tl.math.div_rn(at.to(tl.float32), tl.full((N,), 3.0, tl.float32))"
    )
    got, _ = ran(PLAIN + STORE.format(cut.format(divided)), "float32", tmp_path)
    places = torch.arange(COUNT)
    below = places // (4 if "4" in quotient else 3) - got
    assert bool((below == 0).all()) is is_exact
    assert set(below[places % 3 != 0].tolist()) == {0.0}  # a neighbour changes no other quotient
    assert set(below.tolist()) <= {0.0, 1.0}


STEPS = """@triton.jit
def kernel(x, y, count, N: tl.constexpr):
    at = tl.arange(0, 8)
    tl.store(y + at, tl.load(x + at))
    for step in tl.range(1, 8{stages}):
        tl.store(y + 8 * step + at, tl.load(y + 8 * (step - {back}) + at, mask=at < 8 * {back}, other=0.0) + step)
"""


@pytest.mark.parametrize(
    ("stages", "back", "is_found"),
    [("", 1, False), (", num_stages=1", 1, False), (", num_stages=2", 1, True), (", num_stages=2", 0, False)],
)
def test_a_pipelined_loop_reads_nothing_that_it_stored_within_its_stages(
    stages: str, back: int, is_found: bool, tmp_path: Path
) -> None:
    kernel = STEPS.format(stages=stages, back=back)
    if not is_found:
        ran(kernel, "float32", tmp_path)
        return
    with pytest.raises(ChildError, match="reads in line 12 what it stored"):
        ran(kernel, "float32", tmp_path)


def test_a_product_and_a_sum_are_rounded_once(tmp_path: Path) -> None:
    given, x = ran(PLAIN + "    m = v * 0.3\n" + STORE.format("m - v * 0.3"), "float32", tmp_path)
    exact = x.double() * float(torch.tensor(0.3))
    assert torch.equal(given, (exact - (x * torch.tensor(0.3)).double()).float())
    assert given.any()


def test_a_clamp_cuts_what_is_no_number_unless_it_is_to_hand_that_on(tmp_path: Path) -> None:
    odd = PLAIN + "    v = tl.where(v > 0.0, float('nan'), v)\n"
    for more, is_kept in (("", False), (", propagate_nan=tl.PropagateNan.ALL", True)):
        given, x = ran(odd + STORE.format(f"tl.clamp(v, -1.0, 1.0{more})"), "float32", tmp_path)
        assert torch.equal(given.isnan(), (x > 0.0) & is_kept)


def test_a_negative_number_is_zero_where_there_is_no_sign(tmp_path: Path) -> None:
    given, x = ran(PLAIN + STORE.format("(v * 10.0).to(tl.uint8).to(tl.float32)"), "float32", tmp_path)
    assert torch.equal(given, (x * 10.0).trunc().clamp(min=0.0))


def test_the_root_of_a_square_may_be_less(tmp_path: Path) -> None:
    given, _ = ran(PLAIN + STORE.format("tl.sqrt((at * at).to(tl.float32))"), "float32", tmp_path)
    assert torch.equal(given.ceil(), torch.arange(COUNT).float())
    assert given[3] < 3.0
    assert given[4] == 4.0


@pytest.mark.parametrize(
    "condition", ["count < 0 and {}", "count > 0 or {}", "(count < 0) and (at.shape[0] > 1 and {})"]
)
def test_what_stands_behind_a_scalar_is_loaded_all_the_same(condition: str, tmp_path: Path) -> None:
    behind = condition.format("tl.load(x + count + 4096) > 0.0")
    with pytest.raises(ChildError, match="memory that it was not given"):
        ran(PLAIN + f"    if {behind}:\n        v = v + 1.0\n" + STORE.format("v"), "float32", tmp_path)


def test_what_stands_behind_a_constant_is_not(tmp_path: Path) -> None:
    text = PLAIN + "    if N < 4 and tl.load(x + 4096) > 0.0:\n        v = v + 1.0\n" + STORE.format("v")
    given, x = ran(text, "float32", tmp_path)
    assert torch.equal(given, x)


def test_atomics_of_a_block_are_none_to_other_programs(tmp_path: Path) -> None:
    add = "    tl.atomic_add(y + at, v, mask=at < count, sem='relaxed', scope='{}')\n"
    with pytest.raises(ChildError, match="at once"):
        ran(PLAIN + add.format("cta"), "float32", tmp_path, "(2,)")
    given, x = ran(PLAIN + add.format("gpu"), "float32", tmp_path, "(2,)")
    assert torch.equal(given, 2.0 * x)


def test_a_descriptor_needs_an_allocator(tmp_path: Path) -> None:
    with pytest.raises(ChildError, match="allocator"):
        ran(PLAIN + STORE.format("tl.make_tensor_descriptor(x, (70,), (1,), (128,)).load([0])"), "float32", tmp_path)
