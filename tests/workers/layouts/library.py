"""A library of every recorded problem, compiled, with the tests that are written for it.

``python -m tests.workers.layouts.library FOLDER`` writes it; pytest runs there on a GPU, and without one in Triton's interpreter.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.workers.compiler.captured import COMPILED, captured
from tests.workers.layouts import miniature
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import Brief, Proposal
from workers.layouts.plain.layout import PlainLayout
from workers.layouts.protocol import Design
from workers.tree import Tree


def designed(name: str) -> Design:
    """A recorded problem as the compiler writes it for a library without helpers."""
    layout, (problem, graph) = PlainLayout(), captured(name)
    names = layout.names(name, problem, Tree({}))
    answer = CompilerAuthor().propose(Brief(name, problem, graph, layout.style(name, names, Tree({}))))
    assert isinstance(answer, Proposal)
    return Design(name, names, problem, graph, answer.plan, answer.source)


def main() -> None:
    """Write the library into the folder that is named."""
    tree, layout = Tree({}), PlainLayout()
    for name in COMPILED:
        tree = tree.overlaid(layout.kernel_changes(designed(name), tree))
    miniature.unpack(tree, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
