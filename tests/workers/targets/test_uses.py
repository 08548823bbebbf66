"""What other files of a package take of a module is kept, or named."""

from __future__ import annotations

import pytest

from workers.targets.uses import CallShape, ImportedName, unkept, uses
from workers.tree import Tree

MODULE = "lab.ops.norm"
CALLER = """
from lab.ops.norm import NormFunction
from .norm import norm_backward as backward
from ..ops.norm import norm_forward


def run(x, w):
    y, settings = norm_forward(x, w)
    dx = backward(y, w, num_warps=4)
    return NormFunction.apply(x, w)
"""
KEPT = """
def norm_forward(x, w):
    return x, None


def norm_backward(dy, w, num_warps):
    return launch(dy, w)


class NormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, eps=1e-6):
        return x
"""


def found(caller: str = CALLER) -> tuple[ImportedName, ...]:
    files = {"src/lab/ops/caller.py": caller, "src/lab/ops/norm.py": "x = 1\n", "src/lab/other.py": "import norm\n"}
    return uses(Tree({path: text.encode() for path, text in files.items()}), "src/lab", MODULE)


def test_names_are_read_with_how_they_are_called_whatever_the_form_of_the_import() -> None:
    by_name = {use.name: use.calls for use in found()}
    assert by_name == {
        "NormFunction": (CallShape(2, (), None, applied=True),),
        "norm_backward": (CallShape(2, ("num_warps",), None, applied=False),),
        "norm_forward": (CallShape(2, (), 2, applied=False),),
    }
    assert unkept(KEPT, found()) == ()


@pytest.mark.parametrize(
    ("before", "after", "name", "why"),
    [
        ("def norm_backward(dy, w, num_warps)", "def norm_backward(dy, w)", "norm_backward", "something else"),
        ("def norm_backward(dy, w, num_warps)", "def norm_backward(dy, w, num_warps, x)", "norm_backward", "something"),
        ("return x, None", "return x, None, None", "norm_forward", "something else"),
        ("def norm_forward", "def _norm_forward", "norm_forward", "it has not"),
        ("ctx, x, w, eps=1e-6", "ctx, x", "NormFunction", "something else"),
    ],
)
def test_what_a_module_no_longer_serves_is_named(before: str, after: str, name: str, why: str) -> None:
    (lost,) = unkept(KEPT.replace(before, after), found())
    assert lost.startswith(f"`src/lab/ops/caller.py` imports `{name}` of it") and why in lost
