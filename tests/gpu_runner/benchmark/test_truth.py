"""Inputs that every child draws alike, and the truth of secret rows."""

from __future__ import annotations

import types
from dataclasses import replace
from typing import Any

import pytest
import torch

from gpu_runner.benchmark import checks
from gpu_runner.benchmark.checks import result_error, same_bits
from gpu_runner.benchmark.contender import Computed
from gpu_runner.benchmark.material import Material, Secret
from gpu_runner.child import lift, operations
from gpu_runner.child.input_sets import MOST_ELEMENTS, drawn, sampled
from gpu_runner.child.lift import as_allowed
from gpu_runner.contracts import Pass, Workload, parse_problem
from gpu_runner.messages import (
    CallForm,
    DescribeOutputs,
    DrawnCall,
    DrawnTensor,
    Operations,
    OutlineCall,
    ShapedCall,
    ShapedTensor,
)
from gpu_runner.outline import OutputForm, WorkloadOutline
from gpu_runner.seeded import seeded
from gpu_runner.session import ChildReply
from gpu_runner.verify.cases import Case
from gpu_runner.verify.proof import ChildCall
from gpu_runner.verify.truth import form_of
from tests.gpu_runner.benchmark.child import Child, entry

ROWS, COLUMNS = 1200, 1024


CALL = DrawnCall(
    CallForm("reference", ("x", "w")),
    {},
    12345,
    (entry("x", ROWS, COLUMNS), entry("w", COLUMNS, init="ones", noisy=True)),
    (DrawnTensor((ROWS, COLUMNS), "float32"),),
)
SECRET = Secret(1, 99)
MATERIAL = Material(Workload((("T", ROWS),)), ChildCall(CALL), True, 3, dict.fromkeys(Pass, SECRET), None, {})


def scale(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x * w


def computed(timed_pass: Pass, change: Any = lambda values: None) -> Computed:
    """What an honest contender's child would say of its last run."""
    arguments = drawn("cpu", CALL).rolled(SECRET.place)
    output = arguments.call(scale)
    grads = list(torch.autograd.grad([output], list(arguments.leaves.values()), arguments.upstream))
    values = [item.detach().clone() for item in ([] if timed_pass is Pass.backward else [output])]
    values += [] if timed_pass is Pass.forward else grads
    change(values)
    there = [True] * (0 if timed_pass is Pass.forward else 2)
    shapes = [tuple(value.shape) for value in values]
    return Computed(len(values) - len(there), there, shapes, [sampled(value, SECRET.rows) for value in values])


def test_the_same_seed_gives_the_same_bits_and_another_seed_others() -> None:
    one, two, other = drawn("cpu", CALL), drawn("cpu", CALL), drawn("cpu", replace(CALL, seed=6))
    for left, right in zip([*one.tensors(), *one.upstream], [*two.tensors(), *two.upstream], strict=True):
        assert torch.equal(left, right)
    assert not torch.equal(one.leaves["x"], other.leaves["x"])
    assert all(leaf.is_leaf and leaf.requires_grad for leaf in one.leaves.values())


def test_weights_are_drawn_as_layers_begin_and_other_inputs_as_before() -> None:
    inputs = {"x": "T 64", "w": {"dims": "32 64", "role": "parameter"}, "b": {"dims": "32", "role": "parameter"}}
    reference = "import torch\n\n\ndef reference(x, w, b):\n    return x @ w.t() + b\n\n\n"
    known = parse_problem(f"{reference}INPUTS = {inputs!r}\nWORKLOADS = [{{'T': 8}}]\n")
    oracle: Any = types.SimpleNamespace(problem=known, form=form_of(known))
    outline = WorkloadOutline({}, (OutputForm((8, 32), "bfloat16", differentiable=True),))
    call = seeded(oracle, Case("timed", (("T", 8),), "bfloat16", 1), outline).call
    assert [item.scale for item in call.call.inputs] == [1.0, 0.125, 1.0]


@pytest.mark.parametrize(
    ("more", "holds"),
    [
        ({"init": "ones"}, lambda x: bool((x == 1).all())),
        ({"init": "ones", "noisy": True}, lambda x: bool((x != 1).all()) and abs(float(x.mean()) - 1) < 0.1),
        ({"init": "zeros"}, lambda x: not bool(x.any())),
        ({"init": "uniform"}, lambda x: float(x.min()) >= 0 and float(x.max()) < 1),
        ({"init": "softmax"}, lambda x: torch.allclose(x.sum(-1), torch.ones(50))),
        ({"init": "log_softmax"}, lambda x: torch.allclose(x.exp().sum(-1), torch.ones(50))),
        ({"dtype": "bfloat16"}, lambda x: x.dtype == torch.bfloat16 and 0.2 < float(x.float().std()) < 4.2),
        ({"scale": 0.01}, lambda x: 0.002 < float(x.std()) < 0.042),
        ({"scale": 0.01}, lambda x: 0.002 < float(x.std()) < 0.042),
        ({"dtype": "float16"}, lambda x: 0.4 < float(x.float().std()) < 2.2),
        ({"dtype": "int64", "low": 3, "high": 7, "grad": False}, lambda x: sorted(set(x.flatten().tolist())) == [3, 4, 5, 6]),
        ({"dtype": "bool", "grad": False}, lambda x: x.dtype == torch.bool and 0 < int(x.sum()) < x.numel()),
    ],
)  # fmt: skip
def test_inputs_are_drawn_as_the_problem_says(more: dict[str, Any], holds: Any) -> None:
    given = replace(DrawnTensor((50, 40), "float32", "x", grad=True), **more)
    x = drawn("cpu", DrawnCall(CallForm("reference", ("x",)), {}, 12345, (given,))).positional[0]
    assert tuple(x.shape) == (50, 40)
    assert holds(x.detach())


def test_small_tensors_are_compared_whole_and_of_large_ones_secret_rows() -> None:
    small, large = torch.randn(7, 5), torch.arange(2.0 * MOST_ELEMENTS).reshape(2, -1, 1024)
    assert torch.equal(sampled(small, 1), small)
    rows = sampled(large, 1)
    assert tuple(rows.shape) == (MOST_ELEMENTS // 1024, 1024)
    assert torch.equal(rows[3], large.reshape(-1, 1024)[int(rows[3, 0]) // 1024])
    assert torch.equal(rows, sampled(large, 1))
    assert not torch.equal(rows, sampled(large, 2))
    assert sampled(large.flatten(), 1).shape == (MOST_ELEMENTS,)


@pytest.mark.parametrize("timed_pass", list(Pass))
def test_what_an_honest_contender_computed_passes_and_a_changed_row_does_not(timed_pass: Pass) -> None:
    rows = checks.prove(Child(scale), MATERIAL, timed_pass)  # type: ignore[arg-type]
    assert rows.kind == "float64"
    assert [item.shape for item in rows.outputs] == [(ROWS, COLUMNS)]
    honest = computed(timed_pass)
    assert result_error(honest, rows, timed_pass) is None
    assert same_bits(honest, computed(timed_pass))
    assert result_error(computed(timed_pass, lambda values: values[0].mul_(1.001)), rows, timed_pass) is not None
    assert result_error(computed(timed_pass, lambda values: values.append(values[0])), rows, timed_pass) is not None
    unforeseen = Computed(honest.outputs, honest.gradients, honest.shapes, honest.tensors, ("x",))
    assert "overwrote x" in str(result_error(unforeseen, rows, timed_pass))


def test_a_timed_convolution_may_be_as_inexact_as_tf32_where_torch_allows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    call = DrawnCall(CallForm("reference", ("x", "w")), {}, 12345, (entry("x", 8, 16, 64), entry("w", 32, 16, 3)), ())
    material = replace(MATERIAL, call=ChildCall(call))
    child: Any = Child(torch.nn.functional.conv1d)
    arguments = drawn("cpu", call).rolled(SECRET.place)
    with as_allowed(), monkeypatch.context() as on_gpu:
        on_gpu.setattr(lift, "may_be_tf32", lambda operand: True)
        inexact = arguments.call(torch.nn.functional.conv1d).detach()
    timed = Computed(1, [], [tuple(inexact.shape)], [sampled(inexact, SECRET.rows)])
    plain = result_error(timed, checks.prove(child, material, Pass.forward), Pass.forward)
    assert plain is not None
    assert "is wrong" in plain
    monkeypatch.setattr(lift, "may_be_tf32", lambda operand: operand.dtype == torch.float32)
    monkeypatch.setattr(operations, "as_eager", as_allowed)
    assert result_error(timed, checks.prove(child, material, Pass.forward), Pass.forward) is None


def test_rows_of_another_shape_are_told_apart_from_rows_of_a_right_one() -> None:
    rows = checks.prove(Child(scale), MATERIAL, Pass.forward)  # type: ignore[arg-type]
    wider = computed(Pass.forward)
    other = Computed(wider.outputs, wider.gradients, [(ROWS + 1, COLUMNS)], wider.tensors)
    assert "a different shape" in str(result_error(other, rows, Pass.forward))


@pytest.mark.parametrize(("fits", "kind"), [(1, "float32"), (0, "own")])
def test_where_float64_does_not_fit_the_next_best_truth_is_taken(
    monkeypatch: pytest.MonkeyPatch, fits: int, kind: str
) -> None:
    left = [1, 0, fits]  # of the runs: in its own dtype, in float64, in float32

    def tight(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        if not left.pop(0):
            raise torch.OutOfMemoryError("no room")
        return x * w

    rows = checks.prove(Child(tight), MATERIAL, Pass.forward)  # type: ignore[arg-type]
    assert rows.kind == kind
    assert result_error(computed(Pass.forward), rows, Pass.forward) is None


def test_the_form_of_outputs_is_told_from_a_run_where_shapes_alone_do_not_do() -> None:
    told = Child(scale).call(DescribeOutputs(replace(CALL, upstream=()))).message
    assert told == (OutputForm((ROWS, COLUMNS), "float32", differentiable=True),)


def test_another_number_of_tensors_than_was_told_is_no_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    child = Child(scale)
    whole = child.call
    monkeypatch.setattr(child, "call", lambda *args: ChildReply(whole(*args).message, whole(*args).tensors[:-1]))
    with pytest.raises(ValueError, match="a different number"):
        checks.prove(child, MATERIAL, Pass.full)  # type: ignore[arg-type]


def test_at_a_bend_a_timed_run_in_half_precision_may_take_either_slope_and_nowhere_else() -> None:
    def bend(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x.float() - 0.5).clamp(min=0.0).to(x.dtype) * w

    inputs_of_half = tuple(replace(item, dtype="bfloat16") for item in CALL.inputs)
    half = replace(CALL, inputs=inputs_of_half, upstream=(DrawnTensor((ROWS, COLUMNS), "bfloat16"),))
    material = replace(MATERIAL, call=ChildCall(half))
    child: Any = Child(bend)
    rows = checks.prove(child, material, Pass.backward)
    inputs = sampled(drawn("cpu", half).rolled(SECRET.place).leaves["x"].detach(), SECRET.rows)
    of_x, of_w = rows.gradients
    assert of_x is not None
    assert of_w is not None
    right, weights = of_x.truth.exact.bfloat16(), of_w.truth.exact.bfloat16()
    tie = inputs == 0.5
    assert int(tie.sum()) > 10

    def said(gradient: torch.Tensor, against: checks.Rows) -> str | None:
        found = Computed(0, [True, True], [(ROWS, COLUMNS), (COLUMNS,)], [gradient, weights])
        words = result_error(found, against, Pass.backward)
        return words and words.split(":")[0]

    other = torch.where(tie, torch.zeros_like(right), right)
    beside = torch.where((inputs > 0.5) & (inputs < 0.52), torch.zeros_like(right), right)
    wrong = "gradient of x of a timed run is wrong"
    bent = checks.bent(child, material, Pass.backward, rows)
    assert [said(value, rows) for value in (right, other, beside)] == [None, wrong, wrong]
    assert [said(value, bent) for value in (right, other, beside)] == [None, None, wrong]
    assert said(torch.where(tie, 20 * right, right), bent) == wrong


def test_a_row_that_one_rounding_moves_far_may_lie_as_far_in_a_timed_run_and_no_other() -> None:
    """As behind the exponential of a sum that half precision holds: three runs of a model erred by 0.703, 0.007 and 0.704."""
    exact = torch.randn(32, 128, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    own = exact.bfloat16()
    moved = torch.where(torch.arange(32)[:, None] == 5, 1.7 * own, own)
    item = checks.ExpectedTensor("output 0", (32, 128), checks.Truth(exact, own))
    rows = checks.Rows((item,), (), "float64")
    given = [types.SimpleNamespace(to_torch=lambda run=run: run) for run in (exact, exact, own, moved, own)]
    session: Any = types.SimpleNamespace(call=lambda *_: types.SimpleNamespace(tensors=given))
    bent = checks.bent(session, MATERIAL, Pass.forward, rows)

    def error(row: int, against: checks.Rows) -> str | None:
        value = torch.where(torch.arange(32)[:, None] == row, 0.6 * own, own)
        return result_error(Computed(1, [], [(32, 128)], [value]), against, Pass.forward)

    assert error(5, rows) is not None
    assert error(5, bent) is None
    assert error(6, bent) is not None


def test_full_precision_is_held_to_the_truth_alone() -> None:
    child: Any = Child(scale)
    rows = checks.prove(child, MATERIAL, Pass.full)
    assert checks.bent(child, MATERIAL, Pass.full, rows) is rows


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_convolutions_of_float32_are_counted_as_tf32(dtype: str) -> None:
    def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.conv2d(x, w) @ x[0, 0, :4, :4].T

    inputs = ShapedTensor("x", (2, 3, 6, 6), dtype, grad=True), ShapedTensor("w", (5, 3, 3, 3), dtype, grad=True)
    found = Child(reference).call(OutlineCall(ShapedCall(CALL.form, {}, inputs))).message
    convolution, product = 2 * 2 * 5 * 4 * 4 * 3 * 3 * 3, 2 * 2 * 5 * 4 * 4 * 4
    is_rounded = dtype == "float32"
    assert found.forward == Operations(convolution + product, 0, convolution if is_rounded else 0)
    assert found.backward.tf32 == (2 * convolution if is_rounded else 0)
