"""Kernels that round where eager mode rounds: what is written for it, what it costs, and how near it comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_runner.contracts.envelope import to_json
from tests.few import asked_for
from tests.gpu_runner.core.problems import full, rows
from tests.gpu_runner.core.test_tracing import captured
from tests.workers.compiler.processes import interpreted
from tests.workers.compiler.rounded import style
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import Brief, Proposal

ROOT = Path(__file__).parents[3]
REFERENCES = ROOT / "workers/layouts/liger/references"
GEGLU, SWIGLU, ROPE, SOFTMAX, FUSED, RMS = (
    (REFERENCES / f"{name}.py").read_text()
    for name in ("geglu", "swiglu", "rope", "softmax", "fused_add_rms_norm", "rms_norm")
)
WEIGHTS = '{"x": "T H", "w": {"dims": "H", "role": "parameter"}, "b": {"dims": "H", "role": "parameter"}}'
SIZES = '{"T": 64, "H": 128}'
ROUND_TRIP = ".to(ROUNDED).to(tl.float32)"


def proposed(source: str, rounds: bool = True) -> Proposal:
    """Compile a problem."""
    problem, graph = captured(source)
    answer = CompilerAuthor().propose(Brief("own", problem, graph, style(rounds)))
    assert isinstance(answer, Proposal), answer
    return answer


def test_a_value_that_is_used_further_on_is_rounded_in_registers_and_a_stored_one_is_not() -> None:
    text = proposed(GEGLU).source
    forward = text[text.index("_forward_kernel(") : text.index("_backward_kernel(")]
    assert forward.count(".to(ROUNDED)") == 1
    assert "ROUNDED: tl.constexpr = a_ptr.dtype.element_ty" in forward
    assert "c = product_rounded * b" in forward


def test_a_value_that_backward_computes_again_is_rounded_again() -> None:
    text = proposed(GEGLU).source
    backward = text[text.index("_backward_kernel(") :]
    assert f"db = dc * (product * total){ROUND_TRIP}" in backward and f"da = (dc * b){ROUND_TRIP} * total" in backward


def test_where_nothing_is_summed_operations_stay_in_the_reference_s_order_with_its_own_tanh() -> None:
    answer = proposed(GEGLU)
    formula = "tanh((a + a * a * a * 0.044715) * 0.7978845608028654)"
    assert formula in answer.source and "a * 0.5 * " in answer.source
    assert "from triton.language.extra.libdevice import tanh" in answer.source
    free = proposed(GEGLU, rounds=False).source
    assert formula not in free and "libdevice" not in free
    assert "libdevice" not in proposed(full("    return torch.tanh(x * w + b) * x", "x, w, b", WEIGHTS, SIZES)).source


def test_nobody_who_does_not_ask_gets_roundings() -> None:
    assert "ROUNDED" not in proposed(GEGLU, rounds=False).source


def test_a_value_of_float32_parameters_keeps_their_dtype() -> None:
    assert "ROUNDED_W: tl.constexpr = w_ptr.dtype.element_ty" in proposed(RMS).source
    text = proposed(full("    return torch.tanh(x * w + b) * x", "x, w, b", WEIGHTS, SIZES)).source
    both = "ROUNDED_W_B: tl.constexpr = tl.float32 if w_ptr.dtype.element_ty == tl.float32 else b_ptr.dtype.element_ty"
    assert both in " ".join(text.split())
    assert "ROUNDED_W: tl.constexpr = w_ptr.dtype.element_ty" in text


@pytest.mark.parametrize("body", ["-x.abs() * x", "F.relu(x) * x", "torch.where(x > 0, x, 2.0) * x"])
def test_what_the_narrow_dtype_holds_as_it_is_is_not_rounded(body: str) -> None:
    text = proposed(rows(body)).source
    forward = text[text.index("_forward_kernel(") : text.index("_backward_kernel(")]
    assert "ROUNDED" not in forward


def test_a_number_that_the_narrow_dtype_does_not_hold_is_rounded_with_its_value() -> None:
    text = proposed(rows("torch.where(x > 0, x, x * 0.1) * x")).source
    assert "x, (x * 0.1).to(ROUNDED).to(tl.float32))" in text


def test_sums_over_all_rows_stay_as_they_are() -> None:
    text = proposed(rows("(x * x).mean()")).source
    assert "(x * x).to(ROUNDED)" in text and "ROUNDED" not in text[text.index("def own_forward") :]


@pytest.mark.parametrize("source", [GEGLU, ROPE, SOFTMAX, FUSED, RMS], ids=["geglu", "rope", "softmax", "fused", "rms"])
def test_rounding_costs_no_memory_traffic_no_pass_and_no_launch(source: str) -> None:
    own, plain = proposed(source), proposed(source, rounds=False)
    assert own.source != plain.source or source is SOFTMAX
    for count in ("tl.load(", "tl.store(", "for start in", "[(", "torch.empty"):
        assert own.source.count(count) == plain.source.count(count), count
    for name in ("kernels", "saved_tensors", "forward_bytes", "backward_bytes"):
        assert getattr(own.plan, name) == getattr(plain.plan, name)


BY_HAND = rows("(x - x.amax(-1, keepdim=True)).exp() / (x - x.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)")


def test_a_sum_that_follows_a_running_maximum_does_so_with_rounded_terms() -> None:
    own, plain = proposed(BY_HAND).source, proposed(BY_HAND, rounds=False).source
    found = [text[text.index("_forward_kernel_wide") : text.index("_backward_kernel")] for text in (own, plain)]
    assert [text.count("for start in") for text in found] == [2, 2]
    assert "max_x_rounded" not in own, "the largest of numbers of a narrow dtype is one of them"


VALUES = {"geglu": GEGLU, "swiglu": SWIGLU, "rope": ROPE, "softmax": SOFTMAX, "fused": FUSED, "rms_norm": RMS}
LENGTHS = {"T": 33, "I": 200, "H": 200, "B": 2, "Q": 4, "K": 2, "S": 6, "D": 16}
CASES = {
    f"{name} {dtype} {rounds}": (VALUES[name], dtype, (), rounds)
    for name in VALUES
    for dtype in ("bfloat16", "float16")
    for rounds in (True, False)
}
WIDE = {f"rms_norm beside a float32 weight {rounds}": (RMS, "bfloat16", ("w",), rounds) for rounds in (True, False)}


@pytest.fixture(scope="module")
def shares(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    """For each case and tensor the share of elements that differ from eager mode's, from one process with the interpreter."""
    folder = tmp_path_factory.mktemp("rounded")
    cases = {}
    asked = {key: CASES[key] for case in asked_for(request, "case") for key in (case, case.replace("True", "False"))}
    for key, (source, dtype, wide, rounds) in (asked | WIDE).items():
        own = {"problem": source, "graph": to_json(captured(source)[1]), "sizes": LENGTHS}
        cases[key] = own | {"dtype": dtype, "wide": wide, "rounds": rounds}
    return interpreted("rounded", cases, folder)


# What is left is the last bit of a float32 exponential that lies beside a tie, at one element in 1000 at most.
FEW = 1e-3


@pytest.mark.parametrize("case", [key for key in CASES if key.endswith("True")])
def test_rounded_kernels_give_eager_modes_own_bits(case: str, shares: dict[str, list[float]]) -> None:
    assert max(shares[case]) < FEW
    plain = shares[case.replace("True", "False")]
    assert max(plain) > 0.2, "nothing to tell the two apart by"


def test_a_float32_weight_leaves_the_bits_of_result_and_input_gradient(shares: dict[str, list[float]]) -> None:
    output, gradient, of_weight = shares["rms_norm beside a float32 weight True"]
    assert max(output, gradient) < FEW
    plain = shares["rms_norm beside a float32 weight False"]
    assert min(plain[:2]) > 0.2 and of_weight < plain[2]  # sums are in another order
