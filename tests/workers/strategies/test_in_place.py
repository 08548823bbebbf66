"""A boolean that says where gradients are written is guarded by the value that the problem's call gives: the only one judged."""

from __future__ import annotations

from tests.workers.strategies.files import ROW_SCALE
from tests.workers.strategies.situations import Gives, graph_of_scale, situation
from workers.authors.protocol import KernelPlan, Proposal, Signature
from workers.strategies.fast_path import CompiledFastPath
from workers.strategies.protocol import Proposed

IN_PLACE = ROW_SCALE.replace('offset=0.0, mode="plain"', "offset=0.0, in_place=True")
OVERWRITING = '''def _fast_scale_forward(x, w):
    return x * w


def _fast_scale_backward(dy, x, w):
    """Give dx, dw. dx takes the memory of dy."""
    dx = dy  # every element of dy is read before it is written
    return dx, (dy * x).sum(0)
'''
SIGNATURE = Signature(("x", "w"), ("y",), (), ("dy", "x", "w"), ("dy",), ("x", "w"))
PLAN = KernelPlan("flat", 1, (), "", (), (), "", (), "", "", "", False, "", "", "", "")


def test_calls_that_want_their_upstream_gradients_left_alone_keep_the_original() -> None:
    author = Gives(Proposal(OVERWRITING, PLAN, (), SIGNATURE, ()))
    answer = CompiledFastPath().propose(situation(IN_PLACE, author, graph=graph_of_scale(), overwrites=("upstream 0",)))
    assert isinstance(answer, Proposed)
    assert "        and in_place is True\n" in answer.source
    assert "            dx, dw = _fast_scale_backward(dY, X, W)\n" in answer.source
