"""What is written for a library that bounds its lines passes its style check, whatever the kernel."""

from __future__ import annotations

import pytest

from tests.workers.compiler.captured import captured
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import Brief, Proposal
from workers.layouts.plain.layout import PlainLayout
from workers.layouts.protocol import Design
from workers.stylecheck import check_style
from workers.tree import Tree

LAYOUT = PlainLayout()
RULES = '[tool.ruff]\nline-length = {width}\n[tool.ruff.lint]\nselect = ["E", "F", "I", "W", "UP", "B"]\n'


def written(name: str, tree: Tree) -> Design:
    problem, graph = captured(name)
    kernel = f"{name}_new"
    names = LAYOUT.names(kernel, problem, tree)
    brief = Brief(kernel, problem, graph, LAYOUT.style(kernel, names, tree), names)
    answer = CompilerAuthor().propose(brief)
    assert isinstance(answer, Proposal)
    return Design(kernel, names, problem, graph, answer.plan, answer.source)


@pytest.mark.parametrize("width", [79, 88, 100])
@pytest.mark.parametrize("name", ["swiglu", "layer_norm", "add_rms_norm", "softmax", "dyt"])
def test_style_check_that_bounds_the_lines_passes(name: str, width: int) -> None:
    tree = Tree({"pyproject.toml": RULES.format(width=width).encode(), "tests/__init__.py": b""})
    design = written(name, tree)
    changes = LAYOUT.kernel_changes(design, tree)
    outcome, _ = check_style(LAYOUT.style_check(changes, tree), tree, changes)
    assert outcome.passed, outcome.log
