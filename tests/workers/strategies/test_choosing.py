"""A boolean that only says where gradients are written is covered both ways; one that says more stays guarded."""

import pytest

from gpu_runner.contracts import parse_problem
from tests.workers.strategies.files import ROW_SCALE
from tests.workers.strategies.situations import PROBLEM, graph_of_scale, situation
from workers.authors.protocol import Brief, KernelPlan, Proposal, Signature
from workers.strategies.conditions import bound_call
from workers.strategies.fast_path import CompiledFastPath
from workers.strategies.protocol import Proposed
from workers.strategies.source import parsed
from workers.strategies.splicing import choices_of_memory, with_choice

IN_PLACE = (
    ROW_SCALE.replace('offset=0.0, mode="plain"', "offset=0.0, in_place=True")
    .replace(
        "        ctx.save_for_backward(X, W)\n",
        "        ctx.in_place = in_place\n        ctx.save_for_backward(X, W)\n",
    )
    .replace("scale_backward(dY, X, W)\n        return", "scale_backward(dY, X, W, ctx.in_place)\n        return")
    .replace("def scale_backward(dY, X, W):", "def scale_backward(dY, X, W, in_place):")
    .replace(
        "    dX = torch.zeros_like(dY)\n",
        "    if in_place is True:\n        dX = dY\n    else:\n        dX = torch.zeros_like(dY)\n",
    )
)
PLAIN = '''def _fast_scale_forward(x, w):
    return x * w


def _fast_scale_backward(dy, x, w):
    """Give dx, dw."""
    dx = torch.empty_like(dy)
    return dx, (dy * x).sum(0)
'''
OVERWRITING = PLAIN.replace('dw."""', 'dw. dx takes the memory of dy."""').replace(
    "dx = torch.empty_like(dy)", "dx = dy  # every element of dy is read before it is written"
)
PLAIN = PLAIN.replace('dw."""', 'dw. dx has its own."""')
SIGNATURE = Signature(("x", "w"), ("y",), (), ("dy", "x", "w"), ("dy",), ("x", "w"))
PLAN = KernelPlan("flat", 1, (), "", (), (), "", (), "", "", "", False, "", "", "", "")


class Both:
    """An author who writes into what may be overwritten."""

    name = "both"

    def propose(self, brief: Brief) -> Proposal:
        """The one or the other."""
        return Proposal(OVERWRITING if brief.may_overwrite else PLAIN, PLAN, (), SIGNATURE, ())


def _choices(source: str) -> tuple[str, ...]:
    file = parsed(source)
    return choices_of_memory(file, bound_call(file, parse_problem(PROBLEM)))


def test_a_boolean_that_backward_hands_to_a_choice_of_memory_is_found() -> None:
    assert _choices(IN_PLACE) == ("in_place",)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        dX = dY\n", "        dX = dY * 2\n"),
        ("    if in_place is True:", "    if in_place is False:"),
        ("    else:\n        dX = torch.zeros_like(dY)\n", ""),
        (
            "    n_rows, n_cols = dY.shape\n    sm_count",
            "    n_rows, n_cols = dY.shape\n    print(in_place)\n    sm_count",
        ),
        ("        Y, X = scale_forward(X, W)", "        Y, X = scale_forward(X, W) if in_place else (X, W)"),
        ("        ctx.in_place = in_place\n", "        in_place = not in_place\n        ctx.in_place = in_place\n"),
        ("in_place=True):", "in_place=False):"),
    ],
)
def test_a_boolean_that_decides_more_stays_guarded(old: str, new: str) -> None:
    assert old in IN_PLACE
    assert _choices(IN_PLACE.replace(old, new)) == ()


def test_sections_that_differ_in_the_memory_of_gradients_alone_are_joined() -> None:
    joined = with_choice(OVERWRITING, PLAIN, "_fast_scale_backward", "in_place")
    assert joined is not None
    assert "def _fast_scale_backward(dy, x, w, in_place):\n" in joined
    assert '"""Give dx, dw. dx takes the memory of dy if in_place."""\n' in joined
    assert "    dx = dy if in_place else torch.empty_like(dy)\n" in joined


@pytest.mark.parametrize("other", [PLAIN.replace("x * w", "w * x"), PLAIN + "\n", OVERWRITING])
def test_sections_that_differ_in_more_or_in_nothing_are_not_joined(other: str) -> None:
    assert with_choice(OVERWRITING, other, "_fast_scale_backward", "in_place") is None


def test_the_guard_takes_both_and_backward_is_told() -> None:
    made = situation(IN_PLACE, graph=graph_of_scale(), author=Both(), overwrites=("upstream 0",))  # type: ignore[arg-type]
    answer = CompiledFastPath().propose(made)
    assert isinstance(answer, Proposed)
    assert "and isinstance(in_place, bool)\n" in answer.source
    assert "in_place is True\n" not in answer.source
    assert "            ctx.in_place = in_place\n            return y\n" in answer.source
    assert "_fast_scale_backward(dY, X, W, ctx.in_place)\n" in answer.source


def test_nothing_is_joined_where_the_file_overwrites_nothing() -> None:
    answer = CompiledFastPath().propose(situation(IN_PLACE, Both(), graph=graph_of_scale()))  # type: ignore[arg-type]
    assert isinstance(answer, Proposed)
    assert "and in_place is True\n" in answer.source
