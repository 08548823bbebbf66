"""Runs products with tensor descriptors in Triton's interpreter, at other sizes than those that they are emitted for.

A case is the problem, the sizes of its workload, the sizes and the dtype; a result the complaints, and whether launches took
descriptors.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpu_runner.contracts import Workload
from tests.workers.compiler.captured import captured, style
from tests.workers.compiler.interpreted import complaints, loaded
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import Brief, Proposal


def emitted(name: str, sizes: dict[str, int], dtype: str | None = None) -> str:
    """The module of a problem whose only workload has these sizes."""
    problem, graph = captured(name)
    large = replace(problem, workloads=(Workload(tuple(sizes.items()), dtype),))
    given = CompilerAuthor().propose(Brief(name, large, graph, style(name)))
    assert isinstance(given, Proposal)
    return given.source


def main() -> None:
    """Run every case."""
    from gpu_runner.child.interpreter import teach_interpreter

    teach_interpreter()
    results = {}
    for key, (name, workload, sizes, dtype) in json.loads(Path(sys.argv[1]).read_text()).items():
        module = loaded(key, emitted(name, workload))
        outcomes = list[bool]()
        own = module._described

        def noted(*args: Any, own: Any = own, outcomes: list[bool] = outcomes) -> int:
            n_programs: int = own(*args)
            outcomes.append(n_programs > 0)
            return n_programs

        module.__dict__["_described"] = noted
        results[key] = complaints(name, sizes, dtype, candidate=module.candidate), outcomes
    Path(sys.argv[2]).write_text(json.dumps(results))
