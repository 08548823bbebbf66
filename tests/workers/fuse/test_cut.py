"""The cut: what becomes a part, what stays with torch and why, and that the program of a cut computes what the model does."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gpu_runner.contracts import parse_problem
from gpu_runner.tracing.whole import CannotFollow, random_operator, trace
from tests.workers.fuse.models import (
    BIASED,
    CHAIN,
    EINSUMS,
    MLP,
    MODELS,
    RESNET,
    SHARED,
    TRANSFORMER,
    TRANSPOSED,
    TWO_OUTPUTS,
    VIEW,
    inputs_of,
    module_of,
    problem,
    results,
    traced,
)
from tests.workers.layouts.designs import plan
from workers.fuse.cut import Cut, cut, simpler
from workers.fuse.operators import packet_of
from workers.fuse.pages import picture, subgraphs, totals
from workers.fuse.part import Part, moves_more
from workers.fuse.program import faults, program, split
from workers.fuse.review import revised
from workers.fuse.traced import Traced


def anything(_: Part) -> str | None:
    return None


def operators(chosen: Cut) -> list[tuple[str, ...]]:
    return sorted(part.operators for part in chosen.parts.values())


def refactored(model: Traced, chosen: Cut) -> str:
    return program(
        model, chosen, {name: f"import torch\n\n\n{p.function}" for name, p in chosen.parts.items()}, "It."
    ).source


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("most", [99, 2])
def test_the_refactored_program_gives_the_values_and_gradients_of_the_model(name: str, most: int) -> None:
    source = MODELS[name]
    model = traced(source)
    chosen = cut(model, lambda part: None if len(part.operators) <= most else "too long")
    assert chosen.parts
    known = parse_problem(source)
    wanted = [i for i, spec in enumerate(known.inputs) if spec.grad and spec.dtype is None]
    given = inputs_of(known, seed=2)
    expected = results(module_of(source).reference, given, wanted)
    found = results(module_of(refactored(model, chosen)).candidate, given, wanted)
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(other, one)


@pytest.mark.parametrize("name", MODELS)
def test_a_part_is_a_problem_that_can_be_read(name: str) -> None:
    for part in cut(traced(MODELS[name]), anything).parts.values():
        known = parse_problem(part.source)
        assert known.dtypes == ("float32",)
        assert module_of(part.source).reference is not None


def test_layers_between_transposes_read_and_write_what_lies_there() -> None:
    model = traced(TRANSPOSED)
    packets = [packet_of(node.op) for node in model.graph.nodes]
    assert packets.count("bmm") == 3
    assert not {"transpose", "linear"} & set(packets)
    assert operators(cut(model, anything)) == [("add", "gelu"), ("mul", "add", "tanh", "add")]


def test_transposes_stay_where_something_else_reads_between_them() -> None:
    twice = TRANSPOSED.replace("return x * 0.5", "return y.sum() + x * 0.5")
    assert [packet_of(node.op) for node in traced(twice).graph.nodes].count("transpose") == 2
    small = TRANSPOSED.replace("130", "100")
    assert [packet_of(node.op) for node in traced(small).graph.nodes].count("transpose") == 2


def test_einsums_are_products_of_two_and_what_shares_no_sum_is_multiplied() -> None:
    nodes = traced(EINSUMS).graph.nodes
    written = [node.args[0] for node in nodes if packet_of(node.op) == "einsum"]
    assert all(str(equation).count(",") == 1 for equation in written)
    assert [packet_of(node.op) for node in nodes].count("mul") == 2


def test_products_and_convolutions_stay_with_torch_and_say_so() -> None:
    reasons = cut(traced(RESNET), anything).kept.values()
    assert set(reasons) == {"convolution"}
    assert "matrix product" in cut(traced(TRANSFORMER), anything).kept.values()


def test_parts_lie_between_products() -> None:
    between = [("gelu", "mul", "add", "layer_norm"), ("layer_norm",), ("relu", "mul", "add")]
    assert operators(cut(traced(MLP), anything)) == between


def test_a_norm_that_casts_to_float32_and_back_runs_in_bfloat16() -> None:
    body = """
kept = x.dtype
y = x.to(torch.float32)
y = (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(kept)
return x + F.linear(y * g, w)
"""
    source = problem(body, {"x": "4 8", "g": "8", "w": "8 8"})
    model = traced(source)
    given = [value.to(torch.bfloat16) for value in inputs_of(parse_problem(source))]
    found = module_of(refactored(model, cut(model, lambda _: None))).candidate(*given)
    torch.testing.assert_close(found, module_of(source).reference(*given), rtol=0.02, atol=0.02)
    assert found.dtype == torch.bfloat16


def test_an_operator_alone_stays_with_torch_unless_torch_reads_its_input_twice() -> None:
    model = traced(problem("return F.softmax(F.linear(x, w), -1)", {"x": "4 8", "w": "8 8"}))
    assert cut(model, anything).kept["softmax"].startswith("already one kernel in torch")
    assert ("layer_norm",) in operators(cut(traced(MLP), anything))
    without = traced(problem("return F.linear(F.layer_norm(x, (8,)), w)", {"x": "4 8", "w": "8 8"}))
    assert not cut(without, anything).parts


def test_the_bias_of_a_layer_is_added_by_the_part_that_reads_it() -> None:
    model = traced(BIASED)
    chosen = cut(model, anything)
    assert operators(chosen) == [("add", "gelu"), ("layer_norm",)]
    lines = refactored(model, chosen).splitlines()
    layers = [line.strip() for line in lines if "aten.linear" in line]
    # Without its bias where a part adds it; as it was where the sum is moved, leaves the model, or has a gradient that is given.
    assert [line.count(",") for line in layers] == [1, 2, 2, 2]
    assert "linear_1_product" not in chosen.kept
    assert all(name in model.rejoined(chosen.inside(chosen.parts)).nodes for name in chosen.kept)


def test_a_bias_alone_is_no_part_and_neither_is_one_before_an_addition() -> None:
    model = traced(problem("return x + F.linear(F.linear(x, w, b), w, b)", {"x": "4 8", "w": "8 8", "b": "8"}))
    chosen = cut(model, anything)
    assert not chosen.parts and list(chosen.kept.values())[:2] == ["matrix product"] * 2
    assert refactored(model, chosen).count("aten.add") == 1


def test_a_part_whose_kernels_move_more_bytes_than_torch_is_none() -> None:
    [part] = cut(traced(problem("return torch.exp(x) * 2 + 1", {"x": "4 8"})), anything).parts.values()
    known = replace(plan(), forward_bytes="2 * 4 * 8 * E", backward_bytes="3 * 4 * 8 * E")
    assert moves_more(part, known) is None
    sentence = moves_more(part, replace(known, backward_bytes="50 * 4 * 8 * E"))
    assert sentence is not None and sentence.startswith("its kernels would move ") and "times as many bytes" in sentence


def test_a_part_of_many_kernels_is_none_where_they_move_twice_what_one_does() -> None:
    text = "y = torch.exp(x) * 2 + 1\ny = torch.sin(y) * y + torch.cos(y)\nreturn y * torch.exp(y)"
    [part] = cut(traced(problem(text, {"x": "4 8"})), anything).parts.values()
    terms = ["2 * (4 * 8) * E"] * 4
    assert moves_more(part, replace(plan(), forward_bytes=" + ".join(terms), backward_bytes="0")) is None
    sentence = moves_more(part, replace(plan(), forward_bytes=" + ".join(terms * 2), backward_bytes="0"))
    assert sentence == "its kernels would move 3.2 times as many bytes as one that fuses all of it"
    long = moves_more(part, replace(plan(), forward_bytes=" + ".join(terms * 20), backward_bytes="0"))
    assert long is not None and long.endswith("as torch's operators")


def test_equal_parts_are_one() -> None:
    chosen = cut(traced(SHARED), anything)
    [name] = chosen.parts
    assert len(chosen.places[name]) == 2
    [row] = subgraphs(chosen)
    assert len(row["occurrences"]) == 2 and row["saved_bytes"] == 2 * (row["bytes_apart"] - row["floor_bytes"])


def test_what_an_author_refuses_is_cut_out_and_says_why() -> None:
    def without_sigmoid(part: Part) -> str | None:
        return "it has no way to express `exp` yet" if "exp" in part.operators else None

    model = traced(problem("y = F.relu(x * 2) + 1\ny = torch.exp(y)\nreturn (y * 3 + x) * 2", {"x": "4 8"}))
    chosen = cut(model, without_sigmoid)
    assert operators(chosen) == [("mul", "add", "mul"), ("mul", "relu", "add")]
    assert chosen.kept["exp"] == "it has no way to express `exp` yet"


def test_what_is_refused_with_a_piece_of_its_input_is_tried_with_the_piece_as_its_input() -> None:
    source = problem("m = m[:, :8]\nreturn torch.exp(x * 2) * (m + 1)", {"x": "4 8", "m": "4 9"})
    chosen = cut(traced(source), lambda part: "`slice` is not along rows" if "aten.slice" in part.source else None)
    assert operators(chosen) == [("mul", "exp", "add", "mul")]
    assert chosen.kept["slice_1"] == "a view, which moves nothing"


def test_a_chain_of_thirty_operators_is_one_part() -> None:
    chosen = cut(traced(CHAIN), anything)
    [part] = chosen.parts.values()
    assert len(part.operators) == 30 and part.bytes_fused * 30 == part.bytes_apart


def test_a_view_that_leaves_the_model_shares_memory_as_before() -> None:
    model = traced(VIEW)
    x = inputs_of(parse_problem(VIEW))[0]
    whole, part, turned = module_of(refactored(model, cut(model, anything))).candidate(x)
    assert part.data_ptr() == whole.data_ptr() and turned.data_ptr() == x.data_ptr()


def test_what_gets_no_gradient_is_a_part_of_its_own_kind() -> None:
    chosen = cut(traced(TWO_OUTPUTS), anything)
    assert all(part.has_backward for part in chosen.parts.values())
    module = module_of(refactored(traced(TWO_OUTPUTS), chosen))
    given = [x.requires_grad_() for x in inputs_of(parse_problem(TWO_OUTPUTS))]
    first, second = module.candidate(*given)
    assert first.requires_grad and not second.requires_grad


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return F.batch_norm(x * 2, x[0].detach() * 1, x[1].detach() * 1, training=True)", "running statistics"),
        ("x.add_(1)\nreturn x * 2", "changes `x` in place"),
        ("h = x * 2\nv = h[0]\nh.add_(1)\nreturn v + h", "shows too, which is used later"),
        ("h = x * 2\nh[0] = 1.0\nreturn h + 1", "shows too, which is used later"),
    ],
)
def test_a_change_in_place_that_is_seen_elsewhere_is_refused(body: str, message: str) -> None:
    with pytest.raises(CannotFollow, match=message):
        traced(problem(body, {"x": "4 8"}))


def test_a_branch_on_data_has_no_graph() -> None:
    with pytest.raises(RuntimeError):
        traced(problem("return x if x.sum() > 0 else -x", {"x": "4 8"}))


@pytest.mark.parametrize(("training", "found"), [(True, "aten.dropout.default"), (False, None)])
def test_dropout_is_random_in_training_alone(training: bool, found: str | None) -> None:
    raw = trace(lambda given: torch.dropout(given[0] * 2, 0.5, training) + 1, [torch.randn(3, 4)], ["x"])
    assert random_operator(raw) == found


def test_a_composed_file_that_does_something_else_is_found() -> None:
    model = traced(MLP)
    chosen = cut(model, anything)
    bodies = {name: f"import torch\n\n\n{part.function}" for name, part in chosen.parts.items()}
    expected = program(model, chosen, bodies, "It.")
    name = next(iter(chosen.parts))
    call = next(line for line in expected.source.splitlines() if f"= {name}(" in line)
    result = call.partition("=")[0]
    assert faults(expected.source, expected, bodies) == []
    by_torch = expected.source.replace(call, f"{result}= torch.relu(linear)")
    assert faults(by_torch, expected, bodies) == [f"the part `{name}` is called 0 times, not 1"]
    other = expected.source.replace(
        split(bodies[name])[1].strip(), chosen.parts[name].function.replace("0.5", "0.25").strip()
    )
    assert f"the part `{name}` is not the one that was proved" in faults(other, expected, bodies)
    [fault] = faults(expected.source.replace("aten.linear", "aten.addmm"), expected, bodies)
    assert fault.endswith("is not what the cut composes to")


def test_torch_computes_at_the_lines_that_the_program_names() -> None:
    model = traced(MLP)
    chosen = cut(model, anything)
    whole = program(model, chosen, {name: f"import torch\n\n\n{p.function}" for name, p in chosen.parts.items()}, "It.")
    lines = whole.source.splitlines()
    assert [lines[n - 1].partition("(")[0].split()[-1] for n in whole.torch_lines] == [
        "torch.ops.aten.linear.default",
        "torch.ops.aten.linear.default",
    ]


def test_the_picture_has_the_parts_and_what_stays() -> None:
    model = traced(MLP)
    text = picture(model, cut(model, anything))
    assert text.startswith("flowchart TD") and text.count("<br/>torch") == 2 and "class n0,n2,n4 part" in text


def test_bytes_saved_are_counted_of_every_place() -> None:
    model = traced(SHARED)
    chosen = cut(model, anything)
    total = totals(model, chosen)
    assert total["saved_bytes"] == 2 * 2 * 4 * 8 * 4  # twice, a tensor of 4 by 8 that is neither written nor read again
    assert total["flops"] == 3 * 2 * 4 * 8 * 8 + 4 * 32


def test_a_part_is_cut_again_without_the_biases_of_layers_outside_of_it() -> None:
    source = problem(
        "h = F.gelu(F.linear(x, up, b)) * 0.5\nreturn F.relu(F.linear(h, down, c)) * 2.0",
        {"x": "4 8", "up": "12 8", "b": "12", "down": "8 12", "c": "8"},
    )
    model = traced(source)
    joined, _ = revised(model, cut(model, anything), ["keep 1 and 2 together"], anything)
    again = simpler(model, joined, next(iter(joined.parts)), anything)
    [part] = again.parts.values()
    assert part.operators == ("gelu", "mul", "linear", "add", "relu", "mul")
    apart = simpler(model, again, part.name, anything)
    assert operators(apart) == [("add", "relu", "mul"), ("gelu", "mul")]
    assert simpler(model, apart, next(iter(apart.parts)), anything) is apart
    given, wanted = inputs_of(parse_problem(source)), range(5)
    found, right = (
        results(call, given, wanted)
        for call in (module_of(refactored(model, again)).candidate, module_of(source).reference)
    )
    torch.testing.assert_close(found, right)
