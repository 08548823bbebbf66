"""Tests that are written for a library, in bfloat16: right kernels pass where the reference itself loses more than is allowed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.workers.layouts import miniature
from tests.workers.layouts.library import designed
from tests.workers.layouts.test_written_files_run import run_suite
from workers.layouts.plain.layout import PlainLayout
from workers.layouts.protocol import Design
from workers.tree import Tree

ROOT = Path(__file__).resolve().parents[3]
# The interpreter computes in bfloat16 as a GPU does, and the sizes of a few blocks are enough.
CONFTEST = f"""\
import sys

import torch

sys.path.insert(0, {str(ROOT)!r})
from gpu_runner.child.interpreter import teach_interpreter

teach_interpreter()
torch.manual_seed(0)


def pytest_collection_modifyitems(items):
    items[:] = [i for i in items if hasattr(i, "callspec") and i.callspec.params["dtype"] is torch.bfloat16]
"""
SKIPPED = re.compile(r"^needs_bfloat16 = .*$", re.MULTILINE)
# `row_scale` loses more in eager mode than a kernel does; the kernels of `matmul_softmax` round as eager mode does.
# Of each kernel, text that is replaced so that an output or a gradient is wrong, and what fails then.
WRONG = {
    "row_scale": ("tl.store(dx_ptr + offsets, dx,", "tl.store(dx_ptr + offsets, dx * 1.1,", "[x.grad]"),
    "matmul_softmax": (", c, mask=mask)", ", 2 * c, mask=mask)", "[output]"),
}


def run(folder: Path, designs: list[Design]) -> str:
    """The report of a run of the written tests of the functional forms in bfloat16."""
    tree, layout = Tree({}), PlainLayout()
    for one in designs:
        tree = tree.overlaid(layout.kernel_changes(one, tree))
    miniature.unpack(tree, folder)
    (folder / "conftest.py").write_text(CONFTEST)
    for suite in folder.glob("tests/test_*.py"):
        suite.write_text(SKIPPED.sub("needs_bfloat16 = pytest.mark.filterwarnings('default')", suite.read_text()))
    runs = [layout.tests(one, tree) for one in designs]
    more = ("-k", "functional", "-rf", "--tb=no", *(one.arguments[-1] for one in runs[1:]))
    return run_suite(runs[0], folder, *more, COLUMNS="400").stdout


@pytest.mark.slow
def test_right_kernels_pass_and_wrong_ones_fail_in_bfloat16(tmp_path: Path) -> None:
    right = [designed(name) for name in WRONG]
    wrong = []
    for one in right:
        before, after, _ = WRONG[one.name]
        assert one.source is not None and before in one.source
        wrong.append(replace(one, source=one.source.replace(before, after)))
    assert re.search(r"\b6 passed", report := run(tmp_path / "right", right)), report[-3000:]
    report = run(tmp_path / "wrong", wrong)
    for name, (_, _, failing) in WRONG.items():
        assert re.search(rf"FAILED tests/test_{name}\.py.*{re.escape(failing)}", report), report[-3000:]
