"""A guard may always hold where the original's own statements run when it does not."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import Evidence, SourceFile, Status, Verdict
from gpu_runner.contracts.verify import Check
from gpu_runner.verify.guarding import guarded
from gpu_runner.verify.one_sided import demanded

ORIGINAL = '''
import torch
from around import dispatch


def helper(x):
    return dispatch(x)


class Loss(torch.autograd.Function):
    """A loss."""

    @staticmethod
    def forward(ctx, x, beta=0.5):
        loss, dx = helper(x)
        ctx.save_for_backward(dx)
        return loss

    @staticmethod
    def backward(ctx, dy):
        (dx,) = ctx.saved_tensors
        return dx * dy, None
'''
COVERS = '''

def fast_covers(x, beta):
    """Tell which calls are covered."""
    return all(type(t) in (torch.Tensor,) for t in (x,)) and x.dim() == 2 and beta == 0.5
'''
EDITED = (
    ORIGINAL.replace("import torch\n", "import torch\nimport triton\n", 1)
    .replace("\n\nclass Loss", f"{COVERS}\n\nFOUND = {{}}\n\n\nclass Loss", 1)
    .replace(
        "        loss, dx = helper(x)\n",
        "        ctx.fast = fast_covers(x, beta)\n        if ctx.fast:\n            return 2 * x\n        loss, dx = helper(x)\n",
    )
    .replace(
        "        (dx,) =",
        "        if ctx.fast:\n            return 2 * dy, None\n        (dx,) =",
    )
)
LINES = {text: number for number, text in enumerate(EDITED.split("\n"), 1)}
ASKED = LINES["    return all(type(t) in (torch.Tensor,) for t in (x,)) and x.dim() == 2 and beta == 0.5"]


def test_what_a_guard_asks_and_the_flag_that_holds_it_leave_other_calls_to_the_original() -> None:
    texts = {text for _, text in guarded(EDITED, ORIGINAL)}
    assert texts == {
        "`all((type(t) in (torch.Tensor,) for t in (x,)))`",
        "`type(t) in (torch.Tensor,)`",
        "`x.dim() == 2`",
        "`beta == 0.5`",
        "`ctx.fast`",
    }
    assert {line for line, text in guarded(EDITED, ORIGINAL) if text != "`ctx.fast`"} == {ASKED}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return dispatch(x)", "return dispatch(2 * x)"),
        ("        loss, dx = helper(x)\n", "        x = 2 * x\n        loss, dx = helper(x)\n"),
        ("            return 2 * x\n", "            ctx.save_for_backward(x)\n"),
        ("            return 2 * x\n", "            return 2 * x\n        else:\n            x = 2 * x\n"),
        ("beta=0.5", "beta=0.25"),
        ("FOUND = {}", "helper = None"),
        ("FOUND = {}", "type = None"),
        ("FOUND = {}", "torch.relu = None"),
        ("import triton\n", "import triton as dispatch\n"),
        ("fast_covers(x, beta)\n        if", "fast_covers(x.mul_(2), beta)\n        if"),
        ("x.dim() == 2", "x.mul_(2).dim() == 2"),
        ("    return all", "    x.mul_(2)\n    return all"),
        ("ctx.fast = fast", "ctx.save_for_backward = fast"),
        ("        if ctx.fast:\n            return 2 * dy", "        if dy.sum() > 0:\n            return 2 * dy"),
        ("FOUND = {}", "fast_covers = None"),
        ("            return 2 * x\n", "            helper = 2\n            return helper * x\n"),
        ("            return 2 * x\n", "            import helper\n            return 2 * x\n"),
        ("            return 2 * x\n", "            global x\n            return 2 * x\n"),
        ("            return 2 * x\n", "            yield x\n            return 2 * x\n"),
        ("if ctx.fast:\n            return 2 * dy", "if dy.fast:\n            return 2 * dy"),
        ("\n\nclass Loss", "\n\n@torch.no_grad()\nclass Loss"),
    ],
)
def test_a_file_that_says_anything_else_for_other_calls_has_no_guard(old: str, new: str) -> None:
    assert EDITED.count(old) >= 1
    assert guarded(EDITED.replace(old, new, 1), ORIGINAL) == frozenset()


def test_an_original_that_imports_all_names_of_a_module_means_more_than_it_says() -> None:
    old, new = "from around import dispatch", "from around import *"
    assert guarded(EDITED.replace(old, new), ORIGINAL.replace(old, new)) == frozenset()


@pytest.mark.parametrize(
    ("said", "is_imported", "status"),
    [
        ("`beta == 0.5` was always true.", True, Status.passed),
        ("`beta == 0.5` was always false.", True, Status.unproved),
        ("`beta == 0.5` was always true.", False, Status.unproved),
    ],
)
def test_a_guard_counts_where_the_library_cannot_be_evaluated(said: str, is_imported: bool, status: Status) -> None:
    checks = (Check("imported_library", "It uses `threading.Lock`.", True),) if is_imported else ()
    verdict = Verdict(Status.passed, checks=checks, one_sided=(Evidence("one_sided", said, line=ASKED),))
    assert demanded(verdict, [SourceFile("loss.py", EDITED)], {"loss.py": ORIGINAL}).status is status
