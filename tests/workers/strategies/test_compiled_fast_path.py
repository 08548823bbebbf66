"""A section by hand in the author's form, spliced into a kernel's file; and what is refused."""

import ast
from dataclasses import replace

import pytest

from gpu_runner.contracts import Knob, Pass, parse_problem
from tests.workers.strategies.files import ROW_SCALE
from tests.workers.strategies.situations import PROBLEM, Gives, graph_of_scale, row, situation, variant
from workers.authors.protocol import Brief, KernelPlan, Limit, Proposal, Signature
from workers.strategies.fast_path import CompiledFastPath, FastPathBySize, least_elements
from workers.strategies.protocol import DoesNotApply, Proposed, Situation
from workers.tuned_table import table_of

SECTION = """_fast_scale_TUNED = {}


def _fast_scale_forward(x, w):
    return x * w, x.sum(-1)


def _fast_scale_backward(dy, x, w, sums):
    return dy * w, (dy * x).sum(0)
"""
PLAN = KernelPlan("flat", 1, (), "", (), (), "", (), "", "", "", False, "", "", "", "")
SIGNATURE = Signature(("x", "w"), ("y",), ("sums",), ("dy", "x", "w", "sums"), ("dy",), ("x", "w"))
KNOBS = (Knob(Pass.forward, "num_warps", (4, 8)),)
GIVEN = Gives(
    Proposal(SECTION, PLAN, KNOBS, SIGNATURE, ("import torch", "from library.settings import device_context"))
)


def _situation(source: str = ROW_SCALE, **changed: object) -> Situation:
    return situation(source, GIVEN, **{"graph": graph_of_scale(), **changed})


def _proposed(source: str = ROW_SCALE, **changed: object) -> Proposed:
    answer = CompiledFastPath().propose(_situation(source, **changed))
    assert isinstance(answer, Proposed), answer
    return answer


def _method(source: str, name: str) -> str:
    owner = next(n for n in ast.parse(source).body if isinstance(n, ast.ClassDef))
    method = next(n for n in owner.body if isinstance(n, ast.FunctionDef) and n.name == name)
    return ast.get_source_segment(source, method) or ""


def test_forward_starts_with_a_guard_and_goes_on_as_before() -> None:
    assert _method(_proposed().source, "forward") == (
        'def forward(ctx, X, W, offset=0.0, mode="plain"):\n'
        '        """Scale."""\n'
        "        ctx.fast = _fast_scale_covers(X, W, offset, mode, ctx.needs_input_grad)\n"
        "        if ctx.fast:\n"
        "            y, sums = _fast_scale_forward(X, W)\n"
        "            ctx.save_for_backward(X, W, sums)\n"
        "            return y\n"
        "\n"
        "        Y, X = scale_forward(X, W)\n"
        "        ctx.save_for_backward(X, W)\n"
        "        return Y"
    )


def test_backward_gives_the_gradients_in_the_order_of_the_parameters() -> None:
    text = _method(_proposed().source, "backward")
    assert "            X, W, sums = ctx.saved_tensors\n" in text
    assert "            dx, dw = _fast_scale_backward(dY, X, W, sums)\n            return dx, dw, None, None\n" in text


def test_every_other_line_of_the_file_stays() -> None:
    mine = iter(_proposed().source.split("\n"))
    assert all(line in mine for line in ROW_SCALE.split("\n"))


def test_the_guard_holds_what_the_call_fixes_and_what_the_problem_says() -> None:
    source = _proposed().source
    guard = source[source.index("def _fast_scale_covers(") : source.index("class ScaleFunction")]
    for condition in (
        "type(tensor) in (torch.Tensor, torch.nn.Parameter) for tensor in (X, W)",
        "W.dtype == X.dtype",
        "X.ndim >= 2",
        "W.shape == X.shape[-1:]",
        "offset == 0.0",
        'mode == "plain"',
        "needs_grad[1] == needs_grad[0]",
        "torch.version.hip is None",
        "not torch.compiler.is_compiling()",
    ):
        assert condition in guard
    assert "is_contiguous" not in guard  # the decorator sees to it


def test_sizes_that_the_author_leaves_out_are_left_to_the_file_and_told() -> None:
    given = Gives(replace(GIVEN.proposal, limits=(Limit("H", 16384), Limit("T // 2 * H", 65536))))
    answer = CompiledFastPath().propose(situation(ROW_SCALE, given, graph=graph_of_scale()))
    assert isinstance(answer, Proposed)
    assert "and X.shape[-1] <= 16384\n" in answer.source
    assert "and X.shape[-2] // 2 * X.shape[-1] <= 65536\n" in answer.source
    assert "`H <= 16384` and `T // 2 * H <= 65536`" in answer.notes.change
    assert "`H <=" not in _proposed().notes.change


def test_a_bound_that_no_tensor_tells_is_not_left_out() -> None:
    given = Gives(replace(GIVEN.proposal, limits=(Limit("V", 16384),)))
    answer = CompiledFastPath().propose(situation(ROW_SCALE, given, graph=graph_of_scale()))
    assert answer == DoesNotApply("The source was not understood: no tensor says what `V` is.")


def test_the_author_is_told_the_sizes_of_the_problem_and_those_at_which_the_file_was_measured() -> None:
    asked: list[Brief] = []

    class Listens(Gives):
        def propose(self, brief: Brief) -> Proposal:
            asked.append(brief)
            return self.proposal

    measured = replace(situation(ROW_SCALE).benchmark, rows=(row({"T": 8, "H": 99999}),))
    CompiledFastPath().propose(
        situation(ROW_SCALE, Listens(GIVEN.proposal), graph=graph_of_scale(), benchmark=measured)
    )
    assert [dict(size.sizes)["H"] for size in asked[0].sizes] == [128, 4096, 99999]


def test_without_the_decorator_tensors_must_be_contiguous_and_upstream_is_made_so() -> None:
    source = _proposed(ROW_SCALE.replace("    @ensure_contiguous\n", "")).source
    assert "all(tensor.is_contiguous() for tensor in (X, W))" in source
    assert "_fast_scale_backward(dY.contiguous(), X, W, sums)" in source


def test_the_table_of_the_section_is_the_one_that_is_tuned() -> None:
    proposed = _proposed()
    assert proposed.knobs == KNOBS
    assert table_of(proposed.source) == ()
    assert proposed.settle is not None
    found = (("sm_90", (("forward", ((64, (("num_warps", 8),)),)),)),)
    assert table_of(proposed.settle(proposed.source, found)) == found


def test_a_table_that_stands_in_the_repository_keeps_its_name() -> None:
    proposed = _proposed(ROW_SCALE.replace("class ScaleFunction", "TUNED = {1: 2}\n\n\nclass ScaleFunction"))
    assert "_fast_scale_TUNED = {}" in proposed.source
    assert (proposed.knobs, proposed.settle) == ((), None)


def test_imports_that_are_missing_are_added_beside_their_neighbours() -> None:
    expected = (
        "import calculate_settings\nfrom library.settings import device_context\nfrom library.settings import ensure"
    )
    assert expected in _proposed().source


def test_results_beside_the_one_that_counts_must_be_none_for_this_call() -> None:
    tupled = ROW_SCALE.replace("        return Y\n", "        return Y, (X if mode else None)\n").replace(
        "def backward(ctx, dY)", "def backward(ctx, dY, _)"
    )
    problem = parse_problem(PROBLEM.replace('(x, w, 0.0)"', "(x, w, 0.0, 'plain')[0]\""))
    answer = CompiledFastPath().propose(_situation(tupled, problem=problem))
    assert isinstance(answer, DoesNotApply)
    assert "may be something" in answer.sentence
    nothing = tupled.replace("(X if mode else None)", "X if mode is None else None")
    assert "            return y, None\n" in _proposed(nothing, problem=problem).source


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("Other.apply(x, w)", "does not apply an autograd Function of this file"),
        ("ScaleFunction.apply(x)", "does not hand `w` over"),
        ("ScaleFunction.apply(x, w, x)", "hands `x` over twice"),
        ("ScaleFunction.apply(x, w, 1, 2, 3)", "more arguments"),
    ],
)
def test_a_call_that_cannot_be_followed_is_told(call: str, sentence: str) -> None:
    problem = parse_problem(PROBLEM.replace("ScaleFunction.apply(x, w, 0.0)", call))
    answer = CompiledFastPath().propose(_situation(problem=problem))
    assert isinstance(answer, DoesNotApply)
    assert sentence in answer.sentence


def test_a_refusal_and_a_problem_that_was_not_traced_are_told() -> None:
    refused = CompiledFastPath().propose(situation(ROW_SCALE, graph=graph_of_scale()))
    assert refused == DoesNotApply("The none author cannot: it cannot write scale.")
    assert isinstance(CompiledFastPath().propose(_situation(graph=None)), DoesNotApply)
    assert CompiledFastPath().plan(_situation(graph=None)) is None


def test_calls_that_the_file_overwrites_in_forward_are_covered_in_training_alone() -> None:
    assert "and needs_grad[0]\n" in _proposed(overwrites=("x",)).source
    assert "and needs_grad[0]\n" not in _proposed(overwrites=("upstream 0",)).source


SLOWER_SMALL = (row({"T": 64, "H": 128}, 0.7), row({"T": 4096, "H": 4096}, 1.5))


def test_a_fast_path_that_was_slower_at_small_sizes_is_bounded() -> None:
    earlier = (variant(1, "compiled_fast_path", rows=SLOWER_SMALL),)
    answer = FastPathBySize().propose(_situation(earlier=earlier))
    assert isinstance(answer, Proposed)
    assert f"X.numel() >= {1 << 19}" in answer.source or f"X.numel() >= {1 << 18}" in answer.source


def test_a_bound_lies_above_all_that_was_slower_and_below_what_was_faster() -> None:
    least = least_elements(parse_problem(PROBLEM), variant(1, "compiled_fast_path", rows=SLOWER_SMALL))
    assert least is not None
    assert 64 * 128 < least <= 4096 * 4096


def test_no_bound_is_set_where_larger_sizes_were_slower() -> None:
    rows = (row({"T": 64, "H": 128}, 1.5), row({"T": 4096, "H": 4096}, 0.7))
    assert least_elements(parse_problem(PROBLEM), variant(1, "compiled_fast_path", rows=rows)) is None
    assert isinstance(FastPathBySize().propose(_situation()), DoesNotApply)


def test_a_guard_asks_for_no_gradient_of_an_argument_that_a_call_may_leave_out() -> None:
    """A backward that ends where the arguments of a call do: ``ctx.needs_input_grad`` is as long."""
    source = _proposed(ROW_SCALE.replace("        return dX, dW, None, None", "        return dX, dW")).source
    assert "        and not any(needs_grad[2:])\n" in source and "needs_grad[2]\n" not in source
