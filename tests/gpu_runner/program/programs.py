"""Loads the text of a program into an evaluator, and runs it there and by CPython."""

from __future__ import annotations

import ast
import re
import sys
import types
from typing import Any

import torch

from gpu_runner.program.check import check
from gpu_runner.program.coverage import Decisions
from gpu_runner.program.imports import Library
from gpu_runner.program.load import load
from gpu_runner.program.objects import Violation

_UNNAMED = re.compile(r"<function \S+ at 0x\w+>|<function (\w+|<lambda>)>|<class '?[\w.<>]+'?>")


def evaluated(text: str, calls: int = 1, **others: str) -> Any:
    """What ``run()`` of a program gives the last of several times, by the evaluator."""
    sources = {f"{name}.py": ast.parse(other) for name, other in {"candidate": text, **others}.items()}
    _, run = load(sources, [""], list(sources), "candidate", "run")
    return [run() for _ in range(calls)][-1]


def decided(text: str, *given: torch.Tensor) -> dict[str, int]:
    """How the decisions ended of a program's ``candidate``, or of one with this body, called with each of some tensors."""
    if "def candidate" not in text:
        text = f"MODE = 'llama'\n\n\ndef candidate(x):\n    {text}\n"
    decisions = Decisions()
    tree = ast.parse(f"import torch\n{text}")
    _, candidate = load({"candidate.py": tree}, [""], ["candidate.py"], "candidate", "candidate", None, decisions)
    for tensor in given:
        result = candidate(tensor)
        if getattr(result, "requires_grad", False):
            result.sum().backward()
    return {text: outcome for *_, text, outcome in decisions.rows()}


def native(text: str) -> Any:
    """What ``run()`` of a program gives by CPython."""
    module = types.ModuleType("candidate")
    sys.modules["candidate"] = module
    try:
        exec(compile(text, "candidate.py", "exec", dont_inherit=True), vars(module))
        return module.run()
    finally:
        del sys.modules["candidate"]


def outcome(run: Any, text: str) -> str:
    """The text of what a program gives, or the name of the error that it ends in."""
    try:
        return _UNNAMED.sub("<it>", repr(run(text)))
    except Violation as violation:
        return f"refused: {violation.rule}"
    except Exception as error:
        return type(error).__name__


def remarks(text: str) -> list[str]:
    """The rules of the static check that a program breaks."""
    tree = ast.parse(text)
    library = Library({"candidate.py": tree}, [""])
    return [str(remark.violation.rule) for remark in check(tree, "candidate", library)]
