"""Candidates of cuTile where there is no GPU: what passes, what is found wrong, and what nobody can say."""

from __future__ import annotations

import json

import pytest

from gpu_runner import verify
from gpu_runner.contracts import CandidateSource, SourceFile, Status, Verdict, VerifyRequest
from tests.cheats.trial import surroundings
from tests.workers.compiler.captured import FOLDER
from tests.workers.compiler.test_cutile import emitted


def judged(name: str, *changes: tuple[str, str], tunable: bool = False) -> Verdict:
    """A quick verdict on what the compiler author emits for a problem, with changes to its source."""
    source = emitted(name, tunable=tunable).source
    for before, after in changes:
        assert before in source
        source = source.replace(before, after)
    problem = json.loads((FOLDER / f"{name}.json").read_text())["problem"]
    candidate = CandidateSource((SourceFile("candidate.py", source),))
    return verify.run(VerifyRequest(problem, candidate, dtypes=("float32",), quick=True), surroundings())


@pytest.mark.parametrize(
    ("name", "backward"),
    [
        ("swiglu", ["backward"]),
        ("softmax", ["backward"]),
        ("focal", ["backward"]),
        ("rope_one", ["backward"]),
        ("matmul", ["backward_dw", "backward_dx"]),
    ],
)
def test_emitted_kernels_pass_and_are_seen_to_run(name: str, backward: list[str]) -> None:
    verdict = judged(name)
    assert verdict.status is Status.passed, verdict.evidence
    assert verdict.kernels == tuple(f"_{name}_{one}_kernel" for one in ["forward", *backward])
    assert (verdict.language, verdict.interpreted) == ("cuTile", True)


def test_kernels_with_other_hints_are_the_same_kernels() -> None:
    verdict = judged("softmax", ("RESIDENT=16384", "RESIDENT=65536"), tunable=True)
    assert verdict.status is Status.passed, verdict.evidence
    assert verdict.kernels == ("_softmax_forward_kernel", "_softmax_backward_kernel")


def test_a_hint_with_which_values_were_others_is_not_let_pass_at_a_launch() -> None:
    verdict = judged("softmax", ("occupancy=occupancy", "num_ctas=2"), tunable=True)
    assert verdict.status is Status.unproved
    assert verdict.evidence[0].message == "The evaluator knows no `replace_hints` of a kernel with num_ctas."


WRONG = {
    "another padding": ("softmax", ('padding_value=-float("inf")', "padding_value=0.0"), Status.incorrect_values),
    "padding that is not determined": ("rms_norm", (", padding_mode=ct.PaddingMode.ZERO", ""), Status.incorrect_gradient),
    "an element beyond the row": ("focal", ("(rows, t), mask", "(rows, t + n_cols), mask"), Status.out_of_bounds),
    "rows of another tensor": ("rope_one", ("rows % cos_rows", "rows"), None),
    "another place": ("softmax", ("ct.scatter(y_array, (rows, cols)", "ct.scatter(y_array, (rows, cols + 1)"), None),
    "rows left out": ("softmax", ("n_programs = n_rows // BLOCK_ROWS + 1", "n_programs = n_rows // BLOCK_ROWS"), None),
    "a tile beyond the array": ("rms_norm", ("ct.load(weight_array, (0, 0)", "ct.load(weight_array, (1, 0)"), Status.out_of_bounds),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(name: str) -> None:
    problem, change, status = WRONG[name]
    verdict = judged(problem, change)
    assert verdict.status is not Status.passed
    assert status in (None, verdict.status), verdict.evidence


SCREENED = {
    "ct.printf": ("unknown attribute", Status.refused),
    "ct.no_such_function": ("unknown attribute", Status.refused),
    "ct._stub.exp": ("unknown attribute", Status.refused),
}


@pytest.mark.parametrize("call", SCREENED)
def test_what_the_package_does_not_document_is_refused_with_its_line(call: str) -> None:
    verdict = judged("softmax", ("ct.exp(", f"{call}("))
    assert (verdict.rule, verdict.status) == SCREENED[call]
    assert verdict.evidence[0].line is not None


def test_what_is_documented_and_cannot_be_interpreted_is_unproved_with_its_line() -> None:
    verdict = judged("softmax", ("ct.exp(x - max_x, rounding_mode=ct.RoundingMode.APPROX)", "ct.sinh(x - max_x)"))
    assert (verdict.status, verdict.rule) == (Status.unproved, "not evaluated")
    assert verdict.evidence[0].message == "Where kernels of cuTile are interpreted there is no `ct.sinh`."
    assert verdict.evidence[0].line is not None


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("ct.truediv(exp, denominator, rounding_mode=ct.RoundingMode.FULL)", "exp / denominator", ""),
        ("mode=ct.RoundingMode.FULL", "mode=ct.RoundingMode.APPROX", "`ct.truediv` has no rounding mode `APPROX`"),
        ("mode=ct.RoundingMode.APPROX", "mode=ct.RoundingMode.RZ", "`ct.exp` has no rounding mode `RZ`"),
        ("ct.RoundingMode.FULL", "ct.RoundingMode.FULL, flush_to_zero=True", "`ct.truediv` takes no `flush_to_zero`"),
    ],
)
def test_how_a_result_is_rounded_is_let_pass_as_far_as_triton_differs_too(before: str, after: str, said: str) -> None:
    verdict = judged("softmax", (before, after))
    assert verdict.status is (Status.unproved if said else Status.passed)
    assert all(said in evidence.message for evidence in verdict.evidence)


def test_a_kernel_of_triton_in_one_of_cutile_is_refused() -> None:
    verdict = judged(
        "softmax",
        ("import cuda.tile as ct\n", "import cuda.tile as ct\nimport triton\n"),
        ("ct.exp(x - max_x, rounding_mode=ct.RoundingMode.APPROX)", "_exp(x - max_x)"),
        (
            "@ct.kernel(num_worker_warps=8)\ndef _softmax_forward",
            "@triton.jit\ndef _exp(x):\n    return x\n\n\n@ct.kernel\ndef _softmax_forward",
        ),
    )
    assert verdict.status is Status.refused
    assert verdict.evidence[0].message == "A kernel of cuTile calls `_exp`, which is one of Triton."


def test_a_launch_of_nothing_leaves_its_output_unwritten() -> None:
    verdict = judged("relu_squared", ("ct.launch(", "print("))
    assert verdict.status is not Status.passed


def test_a_sum_over_several_axes_is_the_sum_over_all_of_them() -> None:
    one = "ct.sum(exp, axis=1, keepdims=True)"
    several = "ct.reshape(ct.sum(ct.reshape(exp, (1, BLOCK_ROWS, BLOCK_SIZE)), axis=(0, -1)), (BLOCK_ROWS, 1))"
    verdict = judged("softmax", (one, several))
    assert verdict.status is Status.passed, verdict.evidence


PRODUCT = """\
import torch
import cuda.tile as ct


@ct.kernel
def _product_kernel(c_array, a_array, b_array, n_inner, BLOCK: ct.Constant[int], BLOCK_K: ct.Constant[int]):
    row_tile = ct.bid(0)
    col_tile = ct.bid(1)
    total = ct.zeros((BLOCK, BLOCK), dtype=ct.float32)
    for step in range(ct.cdiv(n_inner, BLOCK_K)):
        a = ct.load(a_array, (row_tile, step), (BLOCK, BLOCK_K), padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(b_array, (step, col_tile), (BLOCK_K, BLOCK), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(a, b, total)
    ct.store(c_array, (row_tile, col_tile), ct.astype(total, c_array.dtype))


def _product(a, b):
    n_rows, n_inner = a.shape
    n_cols = b.shape[1]
    c = torch.empty((n_rows, n_cols), dtype=a.dtype, device=a.device)
    if n_rows * n_cols:
        grid = (ct.cdiv(n_rows, 32), ct.cdiv(n_cols, 32))
        ct.launch(torch.cuda.current_stream(), grid, _product_kernel, (c, a, b, n_inner, 32, 16))
    return c


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return _product(x.reshape(-1, x.shape[-1]).contiguous(), w.contiguous()).view(*x.shape[:-1], w.shape[1])

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        flat = dy.reshape(-1, dy.shape[-1]).contiguous()
        rows = x.reshape(-1, x.shape[-1])
        return _product(flat, w.t().contiguous()).view(x.shape), _product(rows.t().contiguous(), flat)


def candidate(x, w):
    return _Product.apply(x, w)
"""


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        ("", "", Status.passed),
        ("ct.zeros((BLOCK, BLOCK)", "ct.ones((BLOCK, BLOCK)", Status.incorrect_values),
        ("ct.mma(a, b, total)", "ct.mma(a, ct.astype(b, ct.float16), total)", Status.unproved),
    ],
)
def test_a_product_of_tiles_is_interpreted(before: str, after: str, status: Status) -> None:
    problem = json.loads((FOLDER / "matmul.json").read_text())["problem"]
    candidate = CandidateSource((SourceFile("candidate.py", PRODUCT.replace(before, after)),))
    verdict = verify.run(VerifyRequest(problem, candidate, dtypes=("float32",), quick=True), surroundings())
    assert verdict.status is status, verdict.evidence
