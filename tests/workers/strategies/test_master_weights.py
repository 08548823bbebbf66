"""Parameters in float32 beside inputs of fewer bits: where fast kernels take them, and where the guard stays strict."""

import pytest

from gpu_runner.contracts import parse_problem
from tests.workers.strategies.files import ROW_SCALE
from tests.workers.strategies.situations import PROBLEM, Gives, graph_of_scale, situation
from workers.authors.protocol import KernelPlan, Proposal, Signature, SourceStyle
from workers.strategies.conditions import bound_call
from workers.strategies.fast_path import CompiledFastPath
from workers.strategies.inference import outermost, returned_types
from workers.strategies.protocol import Proposed
from workers.strategies.source import parsed
from workers.strategies.splicing import Loosened, SpliceNames, loosened

SECTION = """@triton.jit
def _fast_scale_forward_kernel(y_ptr, x_ptr, w_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    cols = tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    tl.store(y_ptr + cols, x * w, mask=cols < n_cols)


def _fast_scale_forward(x, w):
    y = torch.empty_like(x)
    _fast_scale_forward_kernel[(1,)](y, x, w, x.shape[-1], BLOCK_SIZE=1024)
    return y


def _fast_scale_backward(dy, x, w):
    dx = torch.empty_like(dy)
    dw = (dy * x).sum(0).to(w.dtype)
    return dx, dw
"""
SIGNATURE = Signature(("x", "w"), ("y",), (), ("dy", "x", "w"), ("dy",), ("x", "w"))
STYLE = SourceStyle("ScaleFunction", "_fast_scale_forward", "_fast_scale_backward", section=True, prefix="_fast_scale_")


def _loosened(section: str = SECTION, source: str = ROW_SCALE, signature: Signature = SIGNATURE) -> Loosened:
    problem = parse_problem(PROBLEM)
    file = parsed(source)
    return loosened(file, bound_call(file, problem), problem, section, SpliceNames(STYLE, signature))


def test_a_parameter_that_is_cast_where_it_is_loaded_may_be_float32() -> None:
    assert _loosened() == Loosened(SECTION, frozenset({"w"}))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("w = tl.load(w_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)", "w = tl.load(w_ptr + cols)"),
        ("y = torch.empty_like(x)", "y = torch.empty_like(w)"),
        ("y = torch.empty_like(x)", "y = x * w"),
        ("    y = torch.empty_like(x)\n", "    y = torch.empty_like(x)\n    bytes = w.element_size()\n"),
        (".to(w.dtype)", ""),
        ("x = tl.load(x_ptr + cols", "x = tl.load(somewhere(x_ptr)"),
    ],
)
def test_the_guard_stays_strict_where_the_section_could_give_something_else(old: str, new: str) -> None:
    assert old in SECTION
    section = SECTION.replace(old, new)
    assert _loosened(section) == Loosened(section, frozenset())


@pytest.mark.parametrize(
    "allocated", ["Y = torch.empty_like(W)", "Y = X * W", "Y = torch.empty(X.shape, dtype=torch.float32)"]
)
def test_the_guard_stays_strict_where_the_file_gives_results_of_another_type(allocated: str) -> None:
    assert _loosened(source=ROW_SCALE.replace("Y = torch.empty_like(X)", allocated)).loose == frozenset()


def test_a_gradient_that_took_its_type_from_elsewhere_takes_that_of_its_parameter() -> None:
    found = _loosened(SECTION.replace(".to(w.dtype)", ".to(dy.dtype)"))
    assert found == Loosened(SECTION, frozenset({"w"}))


def test_the_type_of_a_parameter_that_backward_does_not_get_is_handed_over() -> None:
    section = SECTION.replace("_fast_scale_backward(dy, x, w)", "_fast_scale_backward(dy, x)")
    signature = Signature(("x", "w"), ("y",), (), ("dy", "x"), ("dy",), ("x", "w"))
    found = _loosened(section.replace(".to(w.dtype)", ".to(dy.dtype)"), signature=signature)
    assert found.dtype_inputs == ("w",)
    assert "def _fast_scale_backward(dy, x, w_dtype):" in found.section
    assert "dw = (dy * x).sum(0).to(w_dtype)" in found.section


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return torch.empty(3, dtype=x.dtype)", (frozenset({"x"}),)),
        ("return torch.empty(3)", (None,)),
        ("return x.view(-1) if w is None else w", (frozenset({"x", "w"}),)),
        ("x = x.reshape(-1)\n    return x, w.to(x.dtype)", (frozenset({"x"}), frozenset({"x"}))),
        ("return inner(w)", (frozenset({"w"}),)),
        ("y, _ = pair(x, w)\n    return y", (frozenset({"w"}),)),
        ("for x in w:\n        pass\n    return x", (None,)),
        ("return again(x)", (None,)),
        ("if w is None:\n        return x\n    return w", ()),
        ("return torch.empty_like(x, dtype=torch.float32)", (frozenset({"torch.float32"}),)),
    ],
)
def test_element_types_are_followed_as_far_as_the_text_shows_them(body: str, expected: tuple[object, ...]) -> None:
    text = (
        f"def outer(x, w):\n    {body}\n\n\ndef inner(a):\n    return a.clone()\n\n\n"
        "def pair(a, b):\n    return b.contiguous(), a\n\n\ndef again(a):\n    return again(a)\n"
    )
    file = parsed(text)
    assert returned_types(file, outermost(file.functions["outer"])) == expected


def test_the_file_guards_keeps_and_hands_over_what_was_loosened() -> None:
    section = SECTION.replace("_backward(dy, x, w)", "_backward(dy, x)").replace(".to(w.dtype)", ".to(dy.dtype)")
    signature = Signature(("x", "w"), ("y",), (), ("dy", "x"), ("dy",), ("x", "w"))
    plan = KernelPlan("flat", 1, (), "", (), (), "", (), "", "", "", False, "", "", "", "")
    author = Gives(Proposal(section, plan, (), signature, ()))
    answer = CompiledFastPath().propose(situation(ROW_SCALE, author, graph=graph_of_scale()))
    assert isinstance(answer, Proposed)
    assert "and W.dtype in (torch.float32, X.dtype)\n" in answer.source
    assert "            ctx.save_for_backward(X)\n            ctx.W_dtype = W.dtype\n" in answer.source
    assert "            dx, dw = _fast_scale_backward(dY, X, ctx.W_dtype)\n" in answer.source
