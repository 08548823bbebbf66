"""Loads a candidate for the evaluator: its files, parsed as they were read, and the callable in them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from gpu_runner.program import bridge, kernels, models
from gpu_runner.program.coverage import Decisions
from gpu_runner.program.devices import Device
from gpu_runner.program.evaluator import Evaluator
from gpu_runner.program.modules import CandidateProgram

# How a candidate's host code is carried out: by the evaluator, by CPython, or, where the evaluator cannot, by CPython.
EVALUATED, IMPORTED, EITHER = "evaluated", "imported", "either"


def load(
    sources: Mapping[str, ast.Module],
    roots: Iterable[str],
    own: Iterable[str],
    module: str,
    symbol: str,
    device: Device | None = None,
    decisions: Decisions | None = None,
) -> tuple[Evaluator, Any]:
    """An evaluator, and the callable ``symbol`` of ``module`` in it; as ``load_module``.

    Raises:
        Violation: the program leaves its language. ImportError, AttributeError: there is no such callable.
    """
    evaluator, find = load_module(sources, roots, own, module, device, decisions)
    return evaluator, find(symbol)


def load_module(
    sources: Mapping[str, ast.Module],
    roots: Iterable[str],
    own: Iterable[str],
    module: str,
    device: Device | None = None,
    decisions: Decisions | None = None,
) -> tuple[Evaluator, Callable[[str], Any]]:
    """An evaluator, and what finds a callable of ``module`` in it; where a ``device`` is given, it is told of that one.

    ``decisions`` takes what its host code decides.

    Raises:
        Violation: the program leaves its language. ImportError: there is no such module.
    """
    evaluator = Evaluator(decisions)
    program = CandidateProgram(evaluator, sources, roots, own)
    models.install(evaluator, program.freeze, program.is_library)
    kernels.install(evaluator, program.freeze)
    bridge.install(evaluator, program.freeze)
    if device is not None:
        device.install(evaluator)
    loaded: Any = program.module(module)
    if loaded is None:
        raise ModuleNotFoundError(f"No module named '{module}'")

    def find(symbol: str) -> Any:
        member = loaded
        for part in symbol.split("."):
            member = evaluator.attribute(member, part)
        return member

    return evaluator, find


class Sources(Mapping[str, ast.Module]):
    """The Python files under a folder, parsed when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths = {str(path.relative_to(folder)) for path in folder.rglob("*.py") if path.is_file()}
        self._trees: dict[str, ast.Module] = {}

    def __getitem__(self, path: str) -> ast.Module:
        """The parsed file.

        Raises:
            KeyError: there is none. SyntaxError, ValueError: it is no Python.
        """
        if path not in self._paths:
            raise KeyError(path)
        if path not in self._trees:
            self._trees[path] = ast.parse((self._folder / path).read_bytes(), path)
        return self._trees[path]

    def __iter__(self) -> Any:
        """The paths."""
        return iter(self._paths)

    def __len__(self) -> int:
        """How many files there are."""
        return len(self._paths)

    def __contains__(self, path: object) -> bool:
        """Whether there is such a file."""
        return path in self._paths
