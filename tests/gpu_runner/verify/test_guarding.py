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
        # What is evaluated as the file is loaded may change what the original's statements mean.
        ("FOUND = {}", "FOUND = (helper := len)"),
        ("FOUND = {}", "FOUND = [helper := each for each in (len,)]"),
        ("FOUND = {}", "FOUND = dispatch.TABLE.update(a=1)"),
        ("FOUND = {}", "FOUND = dispatch.TABLE['a']"),
        ("FOUND = {}", "__builtins__ = {}"),
        ("FOUND = {}", "__all__ = []"),
        ("FOUND = {}", "def fast_more(x, y=(helper := len)):\n    return x"),
        ("FOUND = {}", "def fast_more(x: (helper := len)):\n    return x"),
        ("FOUND = {}", "@(helper := len)\ndef fast_more(x):\n    return x"),
        ("FOUND = {}", "@dispatch\ndef fast_more(x):\n    return x"),
        ("fast_covers(x, beta):", "fast_covers(x, beta, y=(helper := len)):"),
        ("import triton\n", "from triton import *\n"),
        ("import triton\n", "import another\n"),
        ("import triton\n", "from __future__ import annotations\n"),
        # A flag is no user's tensor, nothing that autograd reads, and is set before any call is over.
        ("    return dispatch(x)", "    x.requires_grad = fast_covers(x, x)\n    return dispatch(x)"),
        (
            "            return 2 * x\n",
            "            match {}:\n                case {**helper}:\n                    return x\n            return 2 * x\n",
        ),
        # Who asks calls nothing of the library.
        ("fast_covers(x, beta):", "fast_covers(x, all):"),
        ("x.dim() == 2", "dispatch.size() == 2"),
        ("fast_covers(x, beta)\n        if", "fast_covers(x, dispatch)\n        if"),
    ],
)
def test_a_file_that_says_anything_else_for_other_calls_has_no_guard(old: str, new: str) -> None:
    assert EDITED.count(old) >= 1
    assert guarded(EDITED.replace(old, new, 1), ORIGINAL) == frozenset()


@pytest.mark.parametrize("flag", ["materialize_grads", "to_save", "needs_input_grad"])
def test_a_flag_is_no_word_of_autograd(flag: str) -> None:
    assert guarded(EDITED.replace("ctx.fast", f"ctx.{flag}"), ORIGINAL) == frozenset()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "        loss, dx = helper(x)\n",
            "        if beta == 1.0:\n            return x\n        loss, dx = helper(x)\n",
        ),
        ("    def forward(ctx, x, beta=0.5):\n", "    def another(ctx, x, beta=0.5):\n"),
    ],
)
def test_a_flag_is_set_in_every_forward_that_comes_to_its_end(old: str, new: str) -> None:
    before = ORIGINAL.replace(old, new)
    flag = "        ctx.fast = fast_covers(x, beta)\n        if ctx.fast:\n            return 2 * x\n"
    late = (
        EDITED.replace(flag, "")
        .replace(old, new)
        .replace("        loss, dx = helper", f"{flag}        loss, dx = helper")
    )
    assert guarded(EDITED, ORIGINAL)
    assert guarded(late, before) == frozenset()


def test_a_flag_is_tested_in_its_own_class_alone() -> None:
    other = (
        ORIGINAL[ORIGINAL.index("class Loss") :]
        .replace("class Loss", "class Other")
        .replace("helper(x)", "dispatch(x)")
    )
    asked = other.replace("        (dx,) =", "        if ctx.fast:\n            return 2 * dy, None\n        (dx,) =")
    assert guarded(f"{EDITED}\n\n{other}", f"{ORIGINAL}\n\n{other}")
    assert guarded(f"{EDITED}\n\n{asked}", f"{ORIGINAL}\n\n{other}") == frozenset()


def test_of_several_changed_files_none_has_a_guard() -> None:
    said = Evidence("one_sided", "`beta == 0.5` was always true.", line=ASKED)
    verdict = Verdict(Status.passed, checks=(Check("imported_library", "", True),), one_sided=(said,))
    files = [SourceFile("loss.py", EDITED), SourceFile("around.py", "dispatch = len\n")]
    for around in ({}, {"around.py": "dispatch = max\n"}):
        assert demanded(verdict, files, {"loss.py": ORIGINAL} | around).status is Status.unproved
    assert demanded(verdict, files, {"loss.py": ORIGINAL, "around.py": "dispatch = len\n"}).status is Status.passed


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
