"""Small briefs, and answers to them that are right."""

from __future__ import annotations

from typing import Any

from tests.workers.compiler.captured import captured, proposal, style
from workers.authors.llm.protocol import (
    ChangeBrief,
    CompositionBrief,
    CutBrief,
    Example,
    Idea,
    KernelBrief,
    ProblemBrief,
    Remark,
    VariantBrief,
)
from workers.models.protocol import Answer, Usage

PROBLEM = captured("reglu")[0].source
SOURCE = proposal("reglu", liger=True).source
PATH = "src/liger_kernel/ops/reglu.py"
TEST_PATH = "test/transformers/test_reglu.py"
CUT = CutBrief(
    "class Model(nn.Module): ...\n",
    "1. add, gelu: 2 places, saves 4096 bytes\n2. mul, add: 2 places, saves 2048 bytes",
    "linear: a product\nsort: it has no way to express `sort` yet",
    'flowchart TD\n    n0["add"] --> n1["mul"]\n',
)
COMPOSITION = CompositionBrief(
    "class Model(nn.Module): ...\n",
    "def add_gelu_1a2b3c(x0, x1):\n    return torch.ops.aten.gelu.default(torch.ops.aten.add.Tensor(x0, x1))\n",
    "def candidate(x, b, w):\n    y = add_gelu_1a2b3c(x, b)\n    return torch.ops.aten.linear.default(y, w)\n",
)
TESTS = '''\
"""Tests of reglu."""

import pytest
import torch

from liger_kernel.ops.reglu import LigerRegluFunction

CASES = [(2, 8), (3, 129)]


def reference(a, b):
    return torch.relu(a) * b


@pytest.fixture
def scale():
    return 1.0


@pytest.mark.parametrize("rows, cols", CASES)
def test_values(rows, cols, scale):
    a, b = torch.randn(rows, cols), torch.randn(rows, cols)
    torch.testing.assert_close(LigerRegluFunction.apply(a, b), reference(a, b) * scale)
'''
ADDED = """\
import math


@pytest.mark.parametrize("cols", [1, 97])
def test_single_row(cols):
    a, b = torch.randn(1, cols), torch.full((1, cols), math.pi)
    torch.testing.assert_close(LigerRegluFunction.apply(a, b), reference(a, b))
"""
PLAN = {
    "family": "element-wise",
    "tier": 1,
    "kernels": [
        {
            "name": "_reglu_forward_kernel",
            "pass": "forward",
            "iteration_space": "elements",
            "grid": "a block a program",
        },
        {"name": "_reglu_backward_kernel", "pass": "backward", "iteration_space": "elements", "grid": "the same"},
    ],
    "forward_formula": "c = max(a, 0) * b",
    "gradient_formulas": [
        {"input": "a", "formula": "where(a > 0, dc * b, 0)"},
        {"input": "b", "formula": "dc * max(a, 0)"},
    ],
    "saved_tensors": ["a", "b"],
    "recomputed": "max(a, 0)",
    "precision_sensitive_ops": [],
    "grid_dimensions": "1D",
    "grid_description": "a block of elements a program",
    "block_size_source": "calculate_settings",
    "needs_sm_parallelism": False,
    "forward_bytes": "3 * T * I * E",
    "backward_bytes": "5 * T * I * E",
    "forward_flops": "2 * T * I",
    "backward_flops": "3 * T * I",
    "notes": [],
}
BLOCKS = """\
def reglu_forward(a, b):
    n_elements = a.numel()
    BLOCK_SIZE, num_warps = calculate_settings(min(max(n_elements, 1), 2048))"""
REMARKS = (
    Remark(1, "Use fewer warps for short rows."),
    Remark(2, "Why int64 here?", PATH, 25, "offsets = tl.program_id(0).to(tl.int64)"),
)


def answer(data: dict[str, Any] | None) -> Answer:
    """What a model said."""
    return Answer("", data, Usage(), "local", "model-1")


def kernel_brief(**changes: Any) -> KernelBrief:
    """A brief for one small problem."""
    problem, graph = captured("reglu")
    given: dict[str, Any] = {
        "name": "reglu",
        "path": PATH,
        "problem": problem,
        "graph": graph,
        "style": style("reglu", liger=True, entry=None),
        "examples": (Example("src/liger_kernel/ops/swiglu.py", "# a kernel of the library\n", "element-wise as well"),),
        "ideas": (Idea("Hints to the cache", "data that is read once leaves the cache first"),),
        "counted": "forward at T=4096 I=8192: at least 201326592 bytes",
        "measured": "floor of forward: 0.11 ms",
        "hardware": "GPU: NVIDIA H200\nversions: triton 3.7.1, torch 2.13.0",
    }
    return KernelBrief(**given | changes)


def kernel(**changes: Any) -> dict[str, Any]:
    """A right answer to it: the compiler's module without its entry."""
    source = proposal("reglu", liger=True, entry=None).source
    return {"plan": dict(PLAN), "source": source, "replies": []} | changes


def problem_brief(**changes: Any) -> ProblemBrief:
    """A request in words."""
    return ProblemBrief(**{"name": "reglu", "request": "a gated ReLU: relu(a) * b", "code": False} | changes)


def change_brief(**changes: Any) -> ChangeBrief:
    """A request to change what stands."""
    given: dict[str, Any] = {
        "name": "reglu",
        "request": "take an optional scale of the result",
        "files": ((PATH, SOURCE),),
        "tests": ((TEST_PATH, TESTS),),
        "problem": PROBLEM,
    }
    return ChangeBrief(**given | changes)


def change(**changes: Any) -> dict[str, Any]:
    """A right answer to it."""
    edits = [{"path": PATH, "old": 'c = max(a, 0) * b\n    """', "new": 'c = max(a, 0) * b, in float32\n    """'}]
    return {"summary": "says the precision", "edits": edits, "replies": []} | changes


def added(text: str, path: str = TEST_PATH) -> dict[str, Any]:
    """A right change with tests added."""
    return change(added_tests={"path": path, "text": text})


def variant_brief(**changes: Any) -> VariantBrief:
    """A kernel to make faster."""
    given: dict[str, Any] = {
        "name": "reglu",
        "path": PATH,
        "source": SOURCE,
        "problem": captured("reglu")[0],
        "goal": "speed",
        "scope": "general",
        "measured": "forward 0.2 ms, floor 0.11 ms",
        "tried": (("fewer warps", "nothing gained"),),
    }
    return VariantBrief(**given | changes)


def variant(**changes: Any) -> dict[str, Any]:
    """A right answer to it."""
    notes = {"hypothesis": "blocks are too large", "change": "half of the block", "expected": "5% at large sizes"}
    edits = [
        {
            "path": PATH,
            "old": BLOCKS,
            "new": BLOCKS.replace("2048", "1024"),
        }
    ]
    return {**notes, "edits": edits, "replies": []} | changes
